package sparkarrowipc;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegralType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Bounds of columns in the files of one input partition, as `spark/read/plan_note.py` notes them.
 *
 * A bound and a literal are compared by keys, which keep the order of values but may be equal for different ones. So a file
 * is left out only where the keys of all values that match are outside the keys of its bounds.
 */
class Bounds {
  final int files;
  /** The names of the columns of which the log answers aggregates; null if it does not have all files as they are read. */
  private final Set answered;
  /** By column: the least key of each file, the greatest of each, and 1 for those that may have nulls. */
  private final Map keys = new HashMap();

  Bounds(JsonNode note) {
    JsonNode count = (JsonNode) note.get("files"), columns = (JsonNode) note.get("bounds"), names = (JsonNode) note.get("answered");
    files = count == null ? 0 : count.asInt();
    answered = names == null ? null : new HashSet();
    for (int i = 0; names != null && i < names.size(); i++) answered.add(((JsonNode) names.get(i)).asText());
    for (Iterator i = columns == null ? new ArrayList().iterator() : columns.fieldNames(); i.hasNext();) {
      String name = (String) i.next();
      keys.put(name, new Keys(ByteBuffer.wrap(Base64.getDecoder().decode(((JsonNode) columns.get(name)).asText())).order(ByteOrder.LITTLE_ENDIAN), files));
    }
  }

  /** Those of one column, in the bytes of the note: a frame has them of each file and column. */
  private static class Keys {
    private final ByteBuffer bytes;
    private final int files;
    Keys(ByteBuffer bytes, int files) {
      this.bytes = bytes;
      this.files = files;
    }
    long least(int file) { return bytes.getLong(8 * file); }
    long greatest(int file) { return bytes.getLong(8 * (files + file)); }
    boolean mayBeNull(int file) { return bytes.get(16 * files + file) != 0; }
  }

  /** The files that may have rows for which all conditions are true; null for all. The map has the keys of lists, once they are sorted. */
  int[] select(List conjuncts, StructType schema, Map lists) {
    if (keys.isEmpty()) return null;
    int[] selected = new int[files];
    int n = 0;
    for (int file = 0; file < files; file++) {
      boolean may = true;
      for (int c = 0; may && c < conjuncts.size(); c++) may = mayMatch((Expression) conjuncts.get(c), schema, file, lists);
      if (may) selected[n++] = file;
    }
    return n == files ? null : Arrays.copyOf(selected, n);
  }

  /** True if the log answers aggregates of some fields in all files: it has them, and their bounds, which are values. */
  boolean areOfAllFiles(List fields) {
    if (answered == null) return false;
    for (int i = 0; i < fields.size(); i++) {
      StructField field = (StructField) fields.get(i);
      Keys of = field.dataType() instanceof StringType || field.dataType() instanceof BinaryType ? null : (Keys) keys.get(field.name());
      if (of == null || !answered.contains(field.name())) return false;
      for (int file = 0; file < files; file++) if (of.least(file) == Long.MIN_VALUE || of.greatest(file) == Long.MAX_VALUE) return false;
    }
    return true;
  }

  private boolean mayMatch(Expression condition, StructType schema, int file, Map lists) {
    if (condition instanceof And) return mayMatch(((And) condition).left(), schema, file, lists) && mayMatch(((And) condition).right(), schema, file, lists);
    if (condition instanceof Or) return mayMatch(((Or) condition).left(), schema, file, lists) || mayMatch(((Or) condition).right(), schema, file, lists);
    if (condition instanceof In || condition instanceof InSet) {
      Keys of = of((Expression) condition.children().apply(0), schema);
      long[] list = of == null ? null : list(condition, lists);
      return list == null || hasOne(list, of.least(file), of.greatest(file));
    }
    if (condition instanceof IsNull || condition instanceof IsNotNull) {
      Keys of = of((Expression) condition.children().apply(0), schema);
      return of == null || (condition instanceof IsNull ? of.mayBeNull(file) : of.least(file) <= of.greatest(file));
    }
    if (condition.children().length() != 2) return true;
    Expression left = (Expression) condition.children().apply(0), right = (Expression) condition.children().apply(1);
    boolean isTurned = left instanceof Literal;
    Keys of = of(isTurned ? right : left, schema);
    Expression other = isTurned ? left : right;
    if (of == null || !(other instanceof Literal)) return true;
    Literal literal = (Literal) other;
    if (literal.value() == null || !literal.dataType().equals((isTurned ? right : left).dataType())) return true;
    long key = key(literal.value(), literal.dataType()), least = of.least(file), greatest = of.greatest(file);
    if (condition instanceof EqualTo || condition instanceof EqualNullSafe) return least <= key && key <= greatest;
    // Unequal values may have equal keys, so that these are not excluded by < and > either.
    if (condition instanceof LessThan || condition instanceof LessThanOrEqual) return isTurned ? key <= greatest : least <= key;
    if (condition instanceof GreaterThan || condition instanceof GreaterThanOrEqual) return isTurned ? least <= key : key <= greatest;
    return true;
  }

  /** The keys that an IN lists, in order; null if one of its expressions is no value of the column's type. */
  private static long[] list(Expression condition, Map lists) {
    if (!lists.containsKey(condition)) lists.put(condition, sorted(condition));
    return (long[]) lists.get(condition);
  }

  private static long[] sorted(Expression condition) {
    boolean isSet = condition instanceof InSet;
    DataType type = ((Expression) condition.children().apply(0)).dataType();
    scala.collection.Iterator values = isSet ? ((InSet) condition).hset().iterator() : ((In) condition).list().iterator();
    long[] list = new long[isSet ? ((InSet) condition).hset().size() : ((In) condition).list().length()];
    int n = 0;
    while (values.hasNext()) {
      Object value = values.next();
      if (!isSet && (!(value instanceof Literal) || !((Literal) value).dataType().equals(type))) return null;
      if (!isSet) value = ((Literal) value).value();
      if (value != null) list[n++] = key(value, type);
    }
    list = Arrays.copyOf(list, n);
    Arrays.sort(list);
    return list;
  }

  private static boolean hasOne(long[] sorted, long least, long greatest) {
    int i = Arrays.binarySearch(sorted, least);
    if (i < 0) i = -i - 1; // of the first one above
    return i < sorted.length && sorted[i] <= greatest;
  }

  /** The keys of a column; null if an expression is none, or it has no bounds. */
  private Keys of(Expression expression, StructType schema) {
    if (!(expression instanceof Attribute) || !hasKeys(expression.dataType())) return null;
    String name = ((Attribute) expression).name();
    return Predicates.isPlain(schema, name) && schema.apply(name).dataType().equals(expression.dataType()) ? (Keys) keys.get(name) : null;
  }

  private static boolean hasKeys(DataType type) {
    return type instanceof IntegralType || type instanceof DateType || type instanceof TimestampType || type instanceof TimestampNTZType
      || type instanceof FloatType || type instanceof DoubleType || type instanceof DecimalType || type instanceof BinaryType || Predicates.isPlainString(type);
  }

  /** The key of a value; the same as those of `_KEYS` in Python. */
  static long key(Object value, DataType type) {
    if (type instanceof FloatType || type instanceof DoubleType) return key(((Number) value).doubleValue());
    if (value instanceof Decimal) return ((Decimal) value).toJavaBigDecimal().setScale(((DecimalType) type).scale()).unscaledValue().longValueExact();
    if (value instanceof UTF8String) return key(((UTF8String) value).getBytes());
    if (value instanceof byte[]) return key((byte[]) value);
    return ((Number) value).longValue();
  }

  private static long key(double value) {
    if (Double.isNaN(value)) return Long.MAX_VALUE; // above all numbers
    long bits = Double.doubleToLongBits(value + 0.0); // one zero
    return bits ^ ((bits >> 63) & Long.MAX_VALUE);
  }

  private static long key(byte[] value) {
    long key = 0;
    for (int i = 0; i < 8; i++) key = (key << 8) | (i < value.length ? value[i] & 0xff : 0);
    return key ^ Long.MIN_VALUE;
  }
}
