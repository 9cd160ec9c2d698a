package sparkarrowipc;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.zip.DeflaterOutputStream;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;

/** The literals of an IN as one text, about two bytes each: a node of JSON for each would cost a task more than the keys save. */
class Keys {
  /** Each task gets all keys, and holds them. */
  static final int MOST = 1 << 18;

  /** The type, whether NULL is among them, and the deflated distances between the sorted keys; null if they are not whole numbers or dates of one type. */
  static ObjectNode of(List operands) {
    DataType type = null;
    boolean hasNull = false;
    long[] keys = new long[operands.size() - 1];
    int count = 0;
    for (int i = 1; i < operands.size(); i++) {
      if (!(operands.get(i) instanceof Literal)) return null;
      Literal literal = (Literal) operands.get(i);
      if (!isWhole(literal.dataType()) || (type != null && !type.equals(literal.dataType()))) return null;
      type = literal.dataType();
      if (literal.value() == null) hasNull = true;
      else keys[count++] = ((Number) literal.value()).longValue();
    }
    if (count == 0) return null;
    Arrays.sort(keys, 0, count);
    ByteArrayOutputStream deflated = new ByteArrayOutputStream();
    DataOutputStream out = new DataOutputStream(new DeflaterOutputStream(deflated));
    try {
      for (int i = 0; i < count; i++) if (i == 0 || keys[i] != keys[i - 1]) out.writeLong(Long.reverseBytes(i == 0 ? keys[0] : keys[i] - keys[i - 1]));
      out.close();
    } catch (IOException error) {
      throw new IllegalStateException(error);
    }
    ObjectNode node = JsonNodeFactory.instance.objectNode();
    node.put("type", type.json());
    node.put("hasNull", hasNull);
    node.put("distances", Base64.getEncoder().encodeToString(deflated.toByteArray()));
    return node;
  }

  private static boolean isWhole(DataType type) {
    return type instanceof ByteType || type instanceof ShortType || type instanceof IntegerType || type instanceof LongType || type instanceof DateType;
  }
}
