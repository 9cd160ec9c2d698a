package sparkarrowipc;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OverwritePartitionsDynamic;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.LiteralValue;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;

/**
 * The partition that the running INSERT OVERWRITE names by the values of all partition columns.
 *
 * In dynamic mode Spark tells a table only that the partitions of the rows are overwritten. The one that PARTITION (d = 1)
 * names would stay if there are no rows, and goes with tables of Parquet. In the plan of the statement Spark has cast its
 * values, with a tag, below the columns of the query.
 */
class StaticPartition {
  /** A condition for each partition column of a table; null if the statement does not name the values of all. */
  static Predicate[] ofRunningStatement(SourceTable table) {
    LogicalPlan statement = SparkInternals.runningStatement();
    List commands = new ArrayList();
    if (statement != null) addCommands(statement, table, commands);
    Predicate[] partition = null;
    for (int i = 0; i < commands.size() && partition == null; i++) partition = conditions(table.partitioning(), ((OverwritePartitionsDynamic) commands.get(i)).query());
    if (partition != null && commands.size() > 1)
      throw new UnsupportedOperationException("Spark does not say which INSERT OVERWRITE of this statement writes to which partition of the table: write one statement for each; nothing of this one is written");
    return partition;
  }

  /** FROM ... INSERT ... INSERT ... is a union of commands. */
  private static void addCommands(LogicalPlan plan, SourceTable table, List commands) {
    if (plan instanceof OverwritePartitionsDynamic) {
      Object written = ((OverwritePartitionsDynamic) plan).productElement(0); // its `table`, of which Janino sees two methods
      if (written instanceof DataSourceV2Relation && ((DataSourceV2Relation) written).table().equals(table)) commands.add(plan);
    } else if (plan instanceof Union) {
      for (int i = 0; i < plan.children().length(); i++) addCommands((LogicalPlan) plan.children().apply(i), table, commands);
    }
  }

  private static Predicate[] conditions(Transform[] partitioning, LogicalPlan query) {
    Predicate[] conditions = new Predicate[partitioning.length];
    for (int i = 0; i < conditions.length; i++) {
      String name = partitioning[i].references()[0].fieldNames()[0];
      Cast value = null;
      for (int c = 0; c < query.output().length(); c++) {
        Attribute column = (Attribute) query.output().apply(c);
        if (column.name().equalsIgnoreCase(name)) value = valueOf(column, query);
      }
      if (value == null) return null;
      conditions[i] = new Predicate("=", new org.apache.spark.sql.connector.expressions.Expression[] {
        Expressions.column(name), new LiteralValue(value.eval(null), value.dataType())});
    }
    return conditions;
  }

  /** The value of PARTITION that a column of a query has, or null. */
  private static Cast valueOf(Attribute column, LogicalPlan query) {
    if (!(query instanceof Project)) return null;
    Project project = (Project) query;
    for (int i = 0; i < project.projectList().length(); i++) {
      NamedExpression expression = (NamedExpression) project.projectList().apply(i);
      if (!expression.exprId().equals(column.exprId())) continue;
      Expression value = expression instanceof Alias ? ((Alias) expression).child() : (Expression) expression;
      if (value instanceof Attribute) return valueOf((Attribute) value, project.child());
      boolean isOfClause = value instanceof Cast && value.getTagValue(Cast.BY_TABLE_INSERTION()).isDefined() && value.foldable();
      return isOfClause ? (Cast) value : null;
    }
    return null;
  }
}
