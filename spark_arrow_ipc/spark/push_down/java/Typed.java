package sparkarrowipc;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.util.V2ExpressionBuilder;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Extract;
import org.apache.spark.sql.connector.expressions.GeneralScalarExpression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;

/** Predicates as JSON, by structure: `{"name", "children"}`, `{"column"}` and `{"type", "value"}`. Python decides what it knows. */
class Typed {
  /** Levels of a predicate, AND and OR of many counted as one: Python walks them by recursion. */
  private static final int MOST_LEVELS = 40;

  /** Children of a node: to look for more keys than this costs a worker more than it saves. */
  private static final int MOST_CHILDREN = 5000;

  /** An expression of Spark's plan as sources are told it; null if they cannot be. */
  static Expression told(org.apache.spark.sql.catalyst.expressions.Expression expression, boolean isPredicate) {
    try {
      Option built = new V2ExpressionBuilder(expression, isPredicate).build();
      return built.isDefined() ? (Expression) built.get() : null;
    } catch (Throwable error) {
      // Spark's translator fails on some expressions, by an assertion: they are not for sources.
      return null;
    }
  }

  /** A predicate as JSON; null if it has something that is not told. */
  static ObjectNode predicate(Expression expression) { return predicate(expression, MOST_LEVELS); }

  private static ObjectNode predicate(Expression expression, int levels) {
    ObjectNode node = JsonNodeFactory.instance.objectNode();
    if (expression instanceof NamedReference) {
      ArrayNode path = node.putArray("column");
      String[] names = ((NamedReference) expression).fieldNames();
      for (int i = 0; i < names.length; i++) path.add(names[i]);
      return node;
    }
    if (expression instanceof Literal) return literal(node, ((Literal) expression).value(), ((Literal) expression).dataType());
    String name = null;
    if (expression instanceof GeneralScalarExpression) name = ((GeneralScalarExpression) expression).name();
    if (expression instanceof Extract) name = ((Extract) expression).field();
    List inside = new ArrayList();
    if (name != null) operands(expression, name, inside);
    if (name == null || levels == 0 || inside.size() > MOST_CHILDREN) return null;
    node.put("name", name);
    ArrayNode children = node.putArray("children");
    for (int i = 0; i < inside.size(); i++) {
      ObjectNode child = predicate((Expression) inside.get(i), levels - 1);
      if (child == null) return null;
      children.add(child);
    }
    return node;
  }

  /** The children of an expression; of a chain of AND, or of OR, those of all its links. */
  private static void operands(Expression expression, String name, List to) {
    Expression[] children = expression.children();
    boolean isChain = name.equals("AND") || name.equals("OR");
    for (int i = 0; i < children.length; i++) {
      if (isChain && children[i] instanceof GeneralScalarExpression && ((GeneralScalarExpression) children[i]).name().equals(name)) operands(children[i], name, to);
      else to.add(children[i]);
    }
  }

  private static ObjectNode literal(ObjectNode node, Object value, DataType type) {
    node.put("type", type.json());
    if (value == null) node.putNull("value");
    else if (type instanceof BooleanType) node.put("value", ((Boolean) value).booleanValue() ? 1 : 0);
    else if (type instanceof ByteType || type instanceof ShortType || type instanceof IntegerType || type instanceof LongType
      || type instanceof DateType || type instanceof TimestampType || type instanceof TimestampNTZType) node.put("value", ((Number) value).longValue());
    // Every float is a double, and Java's shortest text of a double is read as the same double.
    else if (type instanceof FloatType || type instanceof DoubleType) node.put("value", Double.toString(((Number) value).doubleValue()));
    else if (type instanceof DecimalType) node.put("value", ((Decimal) value).toJavaBigDecimal().setScale(((DecimalType) type).scale()).unscaledValue().toString());
    else if (type instanceof StringType) node.put("value", Base64.getEncoder().encodeToString(((UTF8String) value).getBytes()));
    else if (type instanceof BinaryType) node.put("value", Base64.getEncoder().encodeToString((byte[]) value));
    else return null;
    return node;
  }

  /** True if tasks can hold a predicate exactly: plain columns of the compared type, in conditions that no setting changes. */
  static boolean isExact(Expression expression, StructType schema) {
    if (!(expression instanceof GeneralScalarExpression)) return false;
    String name = ((GeneralScalarExpression) expression).name();
    Expression[] inside = expression.children();
    if (name.equals("AND") || name.equals("OR") || name.equals("NOT")) {
      for (int i = 0; i < inside.length; i++) if (!isExact(inside[i], schema)) return false;
      return true;
    }
    if (!EXACT.contains(name) || inside.length == 0 || predicate(expression) == null) return false;
    DataType type = null;
    for (int i = 0; i < inside.length; i++) {
      DataType other = null;
      if (inside[i] instanceof Literal) other = ((Literal) inside[i]).dataType();
      else if (i == 0 && inside[i] instanceof NamedReference && ((NamedReference) inside[i]).fieldNames().length == 1) {
        String column = ((NamedReference) inside[i]).fieldNames()[0];
        if (isPlain(schema, column)) other = schema.apply(column).dataType();
      }
      if (other == null || (type != null && !type.equals(other))) return false;
      type = other;
    }
    if (type instanceof StringType) return isPlainString(type);
    return isCompared(type) || ((name.equals("IS_NULL") || name.equals("IS_NOT_NULL")) && inside.length == 1);
  }

  private static final Set EXACT = new HashSet(Arrays.asList(new String[] {
    "=", "<=>", "<>", "<", "<=", ">", ">=", "IN", "IS_NULL", "IS_NOT_NULL", "STARTS_WITH", "ENDS_WITH", "CONTAINS"}));

  private static boolean isCompared(DataType type) {
    return type instanceof BooleanType || type instanceof ByteType || type instanceof ShortType || type instanceof IntegerType
      || type instanceof LongType || type instanceof FloatType || type instanceof DoubleType || type instanceof DecimalType
      || type instanceof DateType || type instanceof TimestampType || type instanceof TimestampNTZType || type instanceof BinaryType;
  }

  static boolean isPlainString(DataType type) { return type.equals(DataTypes.StringType); }

  /** True if a name means one column, also without regard to case, which is not a CHAR: Spark pads those. */
  static boolean isPlain(StructType schema, String name) {
    StructField[] fields = schema.fields();
    int same = 0;
    boolean isExact = false;
    for (int i = 0; i < fields.length; i++) {
      if (!fields[i].name().equalsIgnoreCase(name)) continue;
      same++;
      isExact = fields[i].name().equals(name) && !fields[i].metadata().contains("__CHAR_VARCHAR_TYPE_STRING");
    }
    return same == 1 && isExact;
  }

  /** A schema of the column whose values take least. */
  static StructType narrowest(StructType schema) {
    StructField[] fields = schema.fields();
    StructField least = fields[0];
    for (int i = 1; i < fields.length; i++) {
      if (fields[i].dataType().defaultSize() < least.dataType().defaultSize()) least = fields[i];
    }
    return new StructType(new StructField[] {least});
  }
}
