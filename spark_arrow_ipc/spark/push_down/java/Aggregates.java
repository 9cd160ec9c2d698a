package sparkarrowipc;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Add;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Multiply;
import org.apache.spark.sql.catalyst.expressions.Subtract;
import org.apache.spark.sql.connector.expressions.GeneralScalarExpression;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Avg;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Min;
import org.apache.spark.sql.connector.expressions.aggregate.Sum;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;

/**
 * The aggregates that tasks compute: those with one right answer in any order of the rows.
 *
 * Spark hands over only aggregates below which no condition is left to it. Where one function does not fit, Spark computes all.
 */
class Aggregates {
  final ObjectNode request;
  final StructType requested;
  /** The fields whose values are needed: none to count rows. */
  final List needed;
  final StructType output;
  /** True if headers and statistics can say all, for files that have them: counts and extremes of all rows. */
  final boolean isOfHeaders;
  /** True if tasks compute expressions. */
  final boolean computes;

  private Aggregates(ObjectNode request, StructType requested, List needed, StructType output, boolean isOfHeaders, boolean computes) {
    this.request = request;
    this.requested = requested;
    this.needed = needed;
    this.output = output;
    this.isOfHeaders = isOfHeaders;
    this.computes = computes;
  }

  /** True if there is one right answer in any order of the rows. */
  static boolean hasOneAnswer(AggregateFunc function, StructType schema) {
    if (function instanceof Count && ((Count) function).isDistinct()) return false;
    if (function instanceof Sum && ((Sum) function).isDistinct()) return false;
    if (!(function instanceof Avg)) return true;
    StructField field = ((Avg) function).isDistinct() ? null : column(function.children()[0], schema);
    // Spark divides a sum by a count, for try_avg as well: the sums of these always fit. Of longer whole numbers it adds up floats.
    return field != null && (field.dataType() instanceof ByteType || field.dataType() instanceof ShortType
      || (field.dataType() instanceof DecimalType && ((DecimalType) field.dataType()).precision() + 10 <= DecimalType.MAX_PRECISION()));
  }

  /** The type of an expression that tasks compute exactly: sums and products of decimals that keep all digits behind the point; null for others. */
  private static DataType computed(org.apache.spark.sql.connector.expressions.Expression translated, StructType schema) {
    Expression expression = toCatalyst(translated, schema);
    return expression == null || expression.children().isEmpty() || !keepsDigits(expression) ? null : expression.dataType();
  }

  /** Spark's own expression, which knows the type of its result. */
  private static Expression toCatalyst(org.apache.spark.sql.connector.expressions.Expression translated, StructType schema) {
    if (translated instanceof NamedReference) {
      StructField field = column(translated, schema);
      return field == null ? null : new BoundReference(0, field.dataType(), field.nullable());
    }
    if (translated instanceof org.apache.spark.sql.connector.expressions.Literal) {
      org.apache.spark.sql.connector.expressions.Literal literal = (org.apache.spark.sql.connector.expressions.Literal) translated;
      return new org.apache.spark.sql.catalyst.expressions.Literal(literal.value(), literal.dataType());
    }
    if (!(translated instanceof GeneralScalarExpression) || translated.children().length != 2) return null;
    Expression left = toCatalyst(translated.children()[0], schema), right = toCatalyst(translated.children()[1], schema);
    if (left == null || right == null) return null;
    String name = ((GeneralScalarExpression) translated).name();
    return name.equals("+") ? new Add(left, right) : name.equals("-") ? (Expression) new Subtract(left, right) : name.equals("*") ? new Multiply(left, right) : null;
  }

  private static boolean keepsDigits(Expression expression) {
    if (!(expression.dataType() instanceof DecimalType)) return false;
    if (expression instanceof BoundReference) return true;
    if (expression instanceof org.apache.spark.sql.catalyst.expressions.Literal) return !expression.nullable();
    boolean isProduct = expression instanceof Multiply;
    if (!isProduct && !(expression instanceof Add) && !(expression instanceof Subtract)) return false;
    Expression left = (Expression) expression.children().apply(0), right = (Expression) expression.children().apply(1);
    if (!keepsDigits(left) || !keepsDigits(right) || canOverflow(left) || canOverflow(right)) return false;
    int first = ((DecimalType) left.dataType()).scale(), second = ((DecimalType) right.dataType()).scale();
    return ((DecimalType) expression.dataType()).scale() == (isProduct ? first + second : Math.max(first, second));
  }

  /** True if a step can have more digits than a decimal: there Spark ends the query, and tasks look at the last step alone. */
  private static boolean canOverflow(Expression step) {
    if (step.children().isEmpty()) return false;
    DecimalType left = (DecimalType) ((Expression) step.children().apply(0)).dataType();
    DecimalType right = (DecimalType) ((Expression) step.children().apply(1)).dataType();
    int digits = step instanceof Multiply ? left.precision() + right.precision()
      : Math.max(left.precision() - left.scale(), right.precision() - right.scale()) + Math.max(left.scale(), right.scale());
    return digits + 1 > DecimalType.MAX_PRECISION();
  }

  private static boolean isSummed(DataType type) {
    return type instanceof ByteType || type instanceof ShortType || type instanceof IntegerType || type instanceof LongType
      || type instanceof DecimalType;
  }

  private static boolean isOrdered(DataType type) {
    return isSummed(type) || type instanceof BooleanType || type instanceof DateType || type instanceof TimestampType
      || type instanceof TimestampNTZType || type instanceof BinaryType || Predicates.isPlainString(type);
  }

  private static boolean isKey(StructType schema, String name) {
    DataType type = Predicates.isPlain(schema, name) ? schema.apply(name).dataType() : null;
    return type != null && (isOrdered(type) || type instanceof FloatType || type instanceof DoubleType);
  }

  /** The part of an aggregation that tasks compute; null if Spark computes it. */
  static Aggregates of(Aggregation aggregation, StructType schema) {
    List requested = new ArrayList();
    List output = new ArrayList();
    ObjectNode request = JsonNodeFactory.instance.objectNode();
    ArrayNode keys = request.putArray("keys");
    org.apache.spark.sql.connector.expressions.Expression[] groups = aggregation.groupByExpressions();
    for (int i = 0; i < groups.length; i++) {
      StructField field = column(groups[i], schema);
      if (field == null || !isKey(schema, field.name())) return null;
      keys.add(position(requested, field));
      output.add(new StructField("k" + i, field.dataType(), field.nullable(), field.metadata()));
    }
    ArrayNode parts = request.putArray("parts");
    AggregateFunc[] functions = aggregation.aggregateExpressions();
    if (functions.length == 0 && groups.length == 0) return null;
    boolean isOfHeaders = groups.length == 0, computes = false;
    for (int i = 0; i < functions.length; i++) {
      AggregateFunc function = functions[i];
      String name = function instanceof CountStar ? "count_all" : function instanceof Count ? "count" : function instanceof Min ? "min"
        : function instanceof Max ? "max" : function instanceof Sum ? "sum" : null;
      if (name == null || !hasOneAnswer(function, schema)) return null;
      DataType sum = function instanceof Sum ? computed(function.children()[0], schema) : null;
      isOfHeaders &= !name.equals("sum");
      computes |= sum != null;
      ObjectNode part = parts.addObject();
      part.put("function", name);
      DataType type = org.apache.spark.sql.types.DataTypes.LongType;
      if (sum != null) {
        part.set("expression", Predicates.predicate(function.children()[0]));
        type = sum;
        NamedReference[] columns = function.children()[0].references();
        for (int c = 0; c < columns.length; c++) position(requested, column(columns[c], schema));
      } else if (!(function instanceof CountStar)) {
        StructField field = column(function.children()[0], schema);
        if (field == null || (function instanceof Sum && !isSummed(field.dataType())) || ((function instanceof Min || function instanceof Max) && !isOrdered(field.dataType()))) return null;
        part.put("column", position(requested, field));
        if (!(function instanceof Count) && !(function instanceof Sum && !(field.dataType() instanceof DecimalType))) type = field.dataType();
      }
      output.add(new StructField("a" + i, type, true, org.apache.spark.sql.types.Metadata.empty()));
    }
    List needed = new ArrayList(requested);
    if (requested.isEmpty()) requested.add(Predicates.narrowest(schema).fields()[0]);
    return new Aggregates(request, schema(requested), needed, schema(output), isOfHeaders, computes);
  }

  private static StructType schema(List fields) { return new StructType((StructField[]) fields.toArray(new StructField[0])); }

  private static StructField column(org.apache.spark.sql.connector.expressions.Expression expression, StructType schema) {
    if (!(expression instanceof NamedReference) || ((NamedReference) expression).fieldNames().length != 1) return null;
    String name = ((NamedReference) expression).fieldNames()[0];
    return Predicates.isPlain(schema, name) ? schema.apply(name) : null;
  }

  private static int position(List requested, StructField field) {
    if (!requested.contains(field)) requested.add(field);
    return requested.indexOf(field);
  }
}
