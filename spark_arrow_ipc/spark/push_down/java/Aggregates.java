package sparkarrowipc;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.QueryContext;
import org.apache.spark.sql.catalyst.expressions.Add;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Multiply;
import org.apache.spark.sql.catalyst.expressions.Subtract;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.Average;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Min;
import org.apache.spark.sql.connector.expressions.aggregate.Sum;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
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
 * Which aggregates tasks may compute: those with one right answer in any order of the rows, over a filter that tasks hold exactly.
 *
 * Spark hands a source only aggregates whose whole filter the source has taken, and asks for the filter first. So the
 * whole is looked at before either: where something does not fit, Spark keeps its filter and its aggregate.
 */
class Aggregates {
  final ObjectNode request;
  final StructType asked;
  final StructType output;
  /** True if headers and statistics can say all, for files that have them: counts and extremes of all rows. */
  final boolean isOfHeaders;
  /** Where in the query each expression is that tasks compute, in their order. */
  final QueryContext[] contexts;

  private Aggregates(ObjectNode request, StructType asked, StructType output, boolean isOfHeaders, List contexts) {
    this.contexts = (QueryContext[]) contexts.toArray(new QueryContext[0]);
    this.request = request;
    this.asked = asked;
    this.output = output;
    this.isOfHeaders = isOfHeaders;
  }

  /** The relation below an aggregate that can be pushed down; null if it cannot. `computed` gets the expressions that are summed. */
  static DataSourceV2Relation below(Aggregate aggregate, Map computed) {
    LogicalPlan child = aggregate.child();
    if (child instanceof Project) {
      if (!areAttributes(((Project) child).projectList())) return null;
      child = ((Project) child).child();
    }
    Expression condition = null;
    if (child instanceof Filter) {
      condition = ((Filter) child).condition();
      child = ((Filter) child).child();
    }
    if (!(child instanceof DataSourceV2Relation)) return null;
    DataSourceV2Relation relation = (DataSourceV2Relation) child;
    StructType schema = relation.schema();
    scala.collection.Seq keys = aggregate.groupingExpressions();
    if (!areAttributes(keys)) return null;
    for (int i = 0; i < keys.length(); i++) if (!isKey(schema, ((Attribute) keys.apply(i)).name())) return null;
    List functions = new ArrayList();
    scala.collection.Seq results = aggregate.aggregateExpressions();
    for (int i = 0; i < results.length(); i++) collect((Expression) results.apply(i), functions);
    if (functions.isEmpty()) return null;
    for (int i = 0; i < functions.size(); i++) if (!isExact((AggregateExpression) functions.get(i), schema, computed)) return null;
    return condition == null || holds(condition, schema) ? relation : null;
  }

  private static boolean areAttributes(scala.collection.Seq expressions) {
    for (int i = 0; i < expressions.length(); i++) if (!(expressions.apply(i) instanceof Attribute)) return false;
    return true;
  }

  private static void collect(Expression expression, List functions) {
    if (expression instanceof AggregateExpression) {
      functions.add(expression);
      return;
    }
    scala.collection.Seq children = expression.children();
    for (int i = 0; i < children.length(); i++) collect((Expression) children.apply(i), functions);
  }

  private static boolean isExact(AggregateExpression expression, StructType schema, Map computed) {
    AggregateFunction function = expression.aggregateFunction();
    if (expression.isDistinct() || expression.filter().isDefined() || function.children().length() != 1) return false;
    Expression child = (Expression) function.children().apply(0);
    boolean isColumn = child instanceof Attribute && Typed.isPlain(schema, ((Attribute) child).name());
    DataType type = child.dataType();
    if (function instanceof org.apache.spark.sql.catalyst.expressions.aggregate.Count) return isColumn || (child.foldable() && !child.nullable());
    if (function instanceof org.apache.spark.sql.catalyst.expressions.aggregate.Min
      || function instanceof org.apache.spark.sql.catalyst.expressions.aggregate.Max) return isColumn && isOrdered(type);
    if (function instanceof org.apache.spark.sql.catalyst.expressions.aggregate.Sum && !isColumn) return isComputed(child, schema, computed);
    if (function instanceof org.apache.spark.sql.catalyst.expressions.aggregate.Sum) return isSummed(type);
    // Spark divides a sum by a count: for try_avg as well, though that sum fails where it does not fit. Of longer whole numbers it adds up floats.
    return function instanceof Average && !function.prettyName().startsWith("try_") && isColumn && (sumFits(type) || type instanceof ByteType || type instanceof ShortType);
  }

  /** True if tasks compute an expression exactly: sums and products of decimals, where Spark's type keeps all digits behind the point. */
  private static boolean isComputed(Expression expression, StructType schema, Map computed) {
    // It translates arithmetic that fails on overflow alone, as tasks do.
    org.apache.spark.sql.connector.expressions.Expression told = Typed.told(expression, false);
    if (told == null || !keepsDigits(expression, schema) || expression.children().isEmpty()) return false;
    computed.put(told.toString(), expression);
    return true;
  }

  private static boolean keepsDigits(Expression expression, StructType schema) {
    if (!(expression.dataType() instanceof DecimalType)) return false;
    if (expression instanceof Attribute) return Typed.isPlain(schema, ((Attribute) expression).name());
    if (expression instanceof org.apache.spark.sql.catalyst.expressions.Literal) return !expression.nullable();
    boolean isProduct = expression instanceof Multiply;
    if (!isProduct && !(expression instanceof Add) && !(expression instanceof Subtract)) return false;
    Expression left = (Expression) expression.children().apply(0), right = (Expression) expression.children().apply(1);
    if (!keepsDigits(left, schema) || !keepsDigits(right, schema) || canOverflow(left) || canOverflow(right)) return false;
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

  private static boolean holds(Expression condition, StructType schema) {
    if (condition instanceof org.apache.spark.sql.catalyst.expressions.And) {
      scala.collection.Seq both = condition.children();
      return holds((Expression) both.apply(0), schema) && holds((Expression) both.apply(1), schema);
    }
    org.apache.spark.sql.connector.expressions.Expression told = Typed.told(condition, true);
    return told != null && Typed.predicate(told) != null && Typed.isExact(told, schema);
  }

  /** True if a sum of decimals gets all ten digits more: of others Spark's error of an average says what to do about the average. */
  private static boolean sumFits(DataType type) {
    return type instanceof DecimalType && ((DecimalType) type).precision() + 10 <= DecimalType.MAX_PRECISION();
  }

  private static boolean isSummed(DataType type) {
    return type instanceof ByteType || type instanceof ShortType || type instanceof IntegerType || type instanceof LongType
      || type instanceof DecimalType;
  }

  private static boolean isOrdered(DataType type) {
    return isSummed(type) || type instanceof BooleanType || type instanceof DateType || type instanceof TimestampType
      || type instanceof TimestampNTZType || type instanceof BinaryType || Typed.isPlainString(type);
  }

  private static boolean isKey(StructType schema, String name) {
    DataType type = Typed.isPlain(schema, name) ? schema.apply(name).dataType() : null;
    return type != null && (isOrdered(type) || type instanceof FloatType || type instanceof DoubleType);
  }

  /** What tasks compute for an aggregation; null if it is not one that `below` let through. */
  static Aggregates of(Aggregation aggregation, StructType schema, Map computed) {
    List asked = new ArrayList();
    List output = new ArrayList();
    ObjectNode request = JsonNodeFactory.instance.objectNode();
    ArrayNode keys = request.putArray("keys");
    org.apache.spark.sql.connector.expressions.Expression[] groups = aggregation.groupByExpressions();
    for (int i = 0; i < groups.length; i++) {
      StructField field = column(groups[i], schema);
      if (field == null) return null;
      keys.add(position(asked, field));
      output.add(new StructField("k" + i, field.dataType(), field.nullable(), field.metadata()));
    }
    ArrayNode parts = request.putArray("parts");
    AggregateFunc[] functions = aggregation.aggregateExpressions();
    List contexts = new ArrayList();
    boolean isOfHeaders = groups.length == 0;
    for (int i = 0; i < functions.length; i++) {
      AggregateFunc function = functions[i];
      String name = function instanceof CountStar ? "count_all" : function instanceof Count ? "count" : function instanceof Min ? "min"
        : function instanceof Max ? "max" : function instanceof Sum ? "sum" : null;
      if (name == null) return null;
      isOfHeaders &= !name.equals("sum");
      ObjectNode part = parts.addObject();
      part.put("function", name);
      DataType type = org.apache.spark.sql.types.DataTypes.LongType;
      if (function instanceof Sum && computed.containsKey(function.children()[0].toString())) {
        part.set("expression", Typed.predicate(function.children()[0]));
        Expression expression = (Expression) computed.get(function.children()[0].toString());
        type = expression.dataType();
        contexts.add(expression.origin().context());
        NamedReference[] columns = function.children()[0].references();
        for (int c = 0; c < columns.length; c++) position(asked, column(columns[c], schema));
      } else if (!(function instanceof CountStar)) {
        StructField field = column(function.children()[0], schema);
        if (field == null) return null;
        part.put("column", position(asked, field));
        if (!(function instanceof Count) && !(function instanceof Sum && !(field.dataType() instanceof DecimalType))) type = field.dataType();
      }
      output.add(new StructField("a" + i, type, true, org.apache.spark.sql.types.Metadata.empty()));
    }
    if (asked.isEmpty()) asked.add(Typed.narrowest(schema).fields()[0]);
    return new Aggregates(request, schema(asked), schema(output), isOfHeaders, contexts);
  }

  private static StructType schema(List fields) { return new StructType((StructField[]) fields.toArray(new StructField[0])); }

  private static StructField column(org.apache.spark.sql.connector.expressions.Expression expression, StructType schema) {
    if (!(expression instanceof NamedReference) || ((NamedReference) expression).fieldNames().length != 1) return null;
    String name = ((NamedReference) expression).fieldNames()[0];
    return Typed.isPlain(schema, name) ? schema.apply(name) : null;
  }

  private static int position(List asked, StructField field) {
    if (!asked.contains(field)) asked.add(field);
    return asked.indexOf(field);
  }
}
