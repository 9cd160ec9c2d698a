package sparkarrowipc;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import java.time.LocalDate;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.execution.datasources.DataSourceUtils;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.IntegralType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.TimestampType;

/** Partitionings as the Python writer takes them. */
class Partitions {
  /** The columns of a partitioning, as the option `partitionBy`. */
  static String names(Transform[] partitioning) {
    ArrayNode columns = JsonNodeFactory.instance.arrayNode();
    for (int i = 0; i < partitioning.length; i++) columns.add(quoted(column(partitioning[i])));
    return columns.toString();
  }

  /** The columns of `partitionBy` of a write, which Spark passes as JSON. */
  static String names(String json) {
    ArrayNode columns = JsonNodeFactory.instance.arrayNode();
    scala.collection.Iterator names = DataSourceUtils.decodePartitioningColumns(json).iterator();
    while (names.hasNext()) columns.add(quoted((String) names.next()));
    return columns.toString();
  }

  /** A name as options take it. */
  private static String quoted(String name) { return name.matches("[A-Za-z0-9_]+") ? name : backticked(name); }

  static String backticked(String name) { return "`" + name.replace("`", "``") + "`"; }

  private static String column(Transform transform) {
    String[] path = transform.references().length == 1 ? transform.references()[0].fieldNames() : new String[0];
    if (!transform.name().equals("identity") || path.length != 1)
      throw new UnsupportedOperationException("arrowipc partitions by columns, and not by " + transform.describe()
        + ": add a column with the value, and partition by it");
    return path[0];
  }

  /** Raises for a type whose directory names the session's time zone would change. */
  static void check(String column, DataType type) {
    if (type instanceof TimestampType)
      throw new UnsupportedOperationException("the directories of partitions have no time zone, and " + column + " is a TIMESTAMP: partition by a TIMESTAMP_NTZ, a DATE or a STRING; nothing is written");
  }

  static ArrayNode columns(Transform[] partitioning) {
    ArrayNode columns = JsonNodeFactory.instance.arrayNode();
    for (int i = 0; i < partitioning.length; i++) columns.add(column(partitioning[i]));
    return columns;
  }

  /** Columns with those of a partitioning at the end, in its order. */
  static Column[] last(Column[] columns, Transform[] partitioning) {
    Map byName = new LinkedHashMap();
    for (int i = 0; i < columns.length; i++) byName.put(columns[i].name(), columns[i]);
    for (int i = 0; i < partitioning.length; i++) {
      String[] path = partitioning[i].references().length == 1 ? partitioning[i].references()[0].fieldNames() : new String[0];
      Object column = path.length == 1 ? byName.remove(path[0]) : null;
      if (column != null) byName.put(path[0], column);
    }
    return byName.size() == columns.length ? (Column[]) byName.values().toArray(new Column[0]) : columns; // equal names are refused by Spark
  }

  /** The names and values of the outer partition columns that conditions name, as pairs in JSON. */
  static String pairs(Transform[] partitioning, Predicate[] predicates) {
    ArrayNode pairs = JsonNodeFactory.instance.arrayNode();
    if (partitioning.length == 0) throw refusal(predicates);
    for (int i = 0; i < predicates.length; i++) {
      String name = partitioning[Math.min(i, partitioning.length - 1)].references()[0].fieldNames()[0];
      Predicate of = null;
      for (int p = 0; p < predicates.length; p++) if (isOf(predicates[p], name)) of = predicates[p];
      if (of == null || i >= partitioning.length) throw refusal(predicates);
      ArrayNode pair = pairs.addArray().add(name);
      Literal literal = of.children().length == 1 ? null : (Literal) of.children()[1];
      if (literal == null || literal.value() == null) pair.addNull();
      else if (literal.dataType() instanceof DateType) pair.add(LocalDate.ofEpochDay(((Number) literal.value()).longValue()).toString());
      else if (isText(literal.dataType())) pair.add(literal.value().toString());
      else throw refusal(predicates);
    }
    return pairs.toString();
  }

  private static boolean isText(DataType type) { return type instanceof IntegralType || type instanceof StringType || type instanceof BooleanType; }

  private static boolean isOf(Predicate predicate, String name) {
    Expression[] children = predicate.children();
    boolean isNull = predicate.name().equals("IS_NULL");
    boolean isEqual = (predicate.name().equals("=") || predicate.name().equals("<=>")) && children[1] instanceof Literal;
    return (isNull || isEqual) && children[0] instanceof NamedReference && ((NamedReference) children[0]).fieldNames().length == 1
      && ((NamedReference) children[0]).fieldNames()[0].equalsIgnoreCase(name);
  }

  private static RuntimeException refusal(Predicate[] predicates) {
    StringBuilder text = new StringBuilder();
    for (int i = 0; i < predicates.length; i++) text.append(i == 0 ? "" : " AND ").append(predicates[i]);
    return new UnsupportedOperationException("arrowipc overwrites the rows of a partition, by its outer columns with whole numbers, "
      + "strings, dates or booleans, and not " + text + ": nothing is written; use DELETE, and then INSERT INTO");
  }
}
