package sparkarrowipc;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Base64;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
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
  private final boolean isInLog;
  /** By column: the least key of each file, the greatest of each, and 1 for those that may have nulls. */
  private final Map keys = new LinkedHashMap();

  Bounds(JsonNode note) {
    JsonNode count = (JsonNode) note.get("files"), columns = (JsonNode) note.get("bounds");
    files = count == null ? 0 : count.asInt();
    isInLog = note.has("isInLog") && ((JsonNode) note.get("isInLog")).asBoolean();
    Iterator names = columns == null ? new java.util.ArrayList().iterator() : columns.fieldNames();
    while (names.hasNext()) {
      String name = (String) names.next();
      long[] of = new long[3 * files];
      byte[] bytes = Base64.getDecoder().decode(((JsonNode) columns.get(name)).asText());
      ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).asLongBuffer().get(of, 0, 2 * files);
      for (int i = 0; i < files; i++) of[2 * files + i] = bytes[16 * files + i];
      keys.put(name, of);
    }
  }

  /** The files that may have rows for which all conditions are true; null for all. */
  int[] select(List conjuncts, StructType schema) {
    if (keys.isEmpty()) return null;
    int[] selected = new int[files];
    int n = 0;
    for (int file = 0; file < files; file++) {
      boolean may = true;
      for (int c = 0; may && c < conjuncts.size(); c++) may = mayMatch((Expression) conjuncts.get(c), schema, file);
      if (may) selected[n++] = file;
    }
    return n == files ? null : java.util.Arrays.copyOf(selected, n);
  }

  /** True if the log has all files, each as a whole, with the bounds of some fields, of types whose bounds are values. */
  boolean areOfAllFiles(List fields) {
    if (!isInLog) return false;
    for (int i = 0; i < fields.size(); i++) {
      StructField field = (StructField) fields.get(i);
      long[] of = field.dataType() instanceof StringType || field.dataType() instanceof BinaryType ? null : (long[]) keys.get(field.name());
      if (of == null) return false;
      for (int file = 0; file < files; file++) if (of[file] == Long.MIN_VALUE || of[files + file] == Long.MAX_VALUE) return false;
    }
    return true;
  }

  private boolean mayMatch(Expression condition, StructType schema, int file) {
    if (condition instanceof And) return mayMatch(((And) condition).left(), schema, file) && mayMatch(((And) condition).right(), schema, file);
    if (condition instanceof Or) return mayMatch(((Or) condition).left(), schema, file) || mayMatch(((Or) condition).right(), schema, file);
    if (condition instanceof In) return mayBeIn((In) condition, schema, file);
    if (condition instanceof InSet) {
      long[] of = of(((InSet) condition).child(), schema);
      return of == null || hasOne(of, file, ((InSet) condition).hset().iterator(), ((InSet) condition).child().dataType());
    }
    if (condition instanceof IsNull || condition instanceof IsNotNull) {
      long[] of = of((Expression) condition.children().apply(0), schema);
      return of == null || (condition instanceof IsNull ? of[2 * files + file] != 0 : of[file] <= of[files + file]);
    }
    if (condition.children().length() != 2) return true;
    Expression left = (Expression) condition.children().apply(0), right = (Expression) condition.children().apply(1);
    boolean isTurned = left instanceof Literal;
    long[] of = of(isTurned ? right : left, schema);
    Expression other = isTurned ? left : right;
    if (of == null || !(other instanceof Literal)) return true;
    Literal literal = (Literal) other;
    if (literal.value() == null || !literal.dataType().equals((isTurned ? right : left).dataType())) return true;
    long key = key(literal.value(), literal.dataType()), least = of[file], greatest = of[files + file];
    if (condition instanceof EqualTo || condition instanceof EqualNullSafe) return least <= key && key <= greatest;
    // Unequal values may have equal keys, so that these are not excluded by < and > either.
    if (condition instanceof LessThan || condition instanceof LessThanOrEqual) return isTurned ? key <= greatest : least <= key;
    if (condition instanceof GreaterThan || condition instanceof GreaterThanOrEqual) return isTurned ? least <= key : key <= greatest;
    return true;
  }

  private boolean mayBeIn(In condition, StructType schema, int file) {
    long[] of = of(condition.value(), schema);
    if (of == null) return true;
    for (int i = 0; i < condition.list().length(); i++) {
      Expression one = (Expression) condition.list().apply(i);
      if (!(one instanceof Literal) || !one.dataType().equals(condition.value().dataType())) return true;
      if (mayBe(of, file, ((Literal) one).value(), one.dataType())) return true;
    }
    return false;
  }

  private boolean hasOne(long[] of, int file, scala.collection.Iterator values, DataType type) {
    while (values.hasNext()) if (mayBe(of, file, values.next(), type)) return true;
    return false;
  }

  private boolean mayBe(long[] of, int file, Object value, DataType type) {
    if (value == null) return false;
    long key = key(value, type);
    return of[file] <= key && key <= of[files + file];
  }

  /** The keys of a column; null if an expression is none, or it has no bounds. */
  private long[] of(Expression expression, StructType schema) {
    if (!(expression instanceof Attribute) || !hasKeys(expression.dataType())) return null;
    String name = ((Attribute) expression).name();
    return Predicates.isPlain(schema, name) && schema.apply(name).dataType().equals(expression.dataType()) ? (long[]) keys.get(name) : null;
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
