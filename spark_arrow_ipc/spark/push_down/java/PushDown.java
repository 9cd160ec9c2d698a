package sparkarrowipc;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import scala.runtime.AbstractFunction1;

/**
 * Puts a table that takes columns, predicates and limits in the place of each Python table of this format.
 *
 * Runs before Spark's own push-down, which then hands them to `NarrowTable` as it does to any source of the JVM. The steps and
 * rules of push-down are in `spark_arrow_ipc/spark/push_down/__init__.py`.
 */
public class PushDown extends Rule {
  static final String SETTING = "spark.arrowipc.pushDown";

  /** Add the rule to a session and to those that `newSession()` makes of it. */
  public static void enable(org.apache.spark.sql.classic.SparkSession session) { session.extensions().injectPreCBORule(new Build()); }

  public static class Build extends AbstractFunction1 {
    public Object apply(Object session) { return new PushDown(); }
  }

  public TreeNode apply(TreeNode plan) {
    try {
      if (!"true".equalsIgnoreCase(conf().getConfString(SETTING, "true"))) return plan;
      Inside.step("rule");
      return narrowed((LogicalPlan) plan, null, null, null);
    } catch (Throwable error) {
      Inside.warnOnce("the plan stays as it was", error);
      return plan;
    }
  }

  /**
   * `aggregated` is a relation whose aggregate and whole filter can be pushed down, `computed` has the expressions that it sums,
   * and `condition` is that of the filter above.
   */
  private static LogicalPlan narrowed(LogicalPlan plan, DataSourceV2Relation aggregated, Map computed, Expression condition) {
    if (plan instanceof DataSourceV2Relation) return withNarrowTable((DataSourceV2Relation) plan, plan == aggregated ? computed : null, condition);
    if (plan instanceof Aggregate) {
      computed = new HashMap();
      aggregated = Aggregates.below((Aggregate) plan, computed);
    }
    condition = plan instanceof Filter ? ((Filter) plan).condition() : null;
    scala.collection.Seq children = plan.children();
    List made = new ArrayList();
    boolean changed = false;
    for (int i = 0; i < children.length(); i++) {
      LogicalPlan child = (LogicalPlan) children.apply(i);
      LogicalPlan narrow = narrowed(child, aggregated, computed, condition);
      changed |= narrow != child;
      made.add(narrow);
    }
    return changed ? (LogicalPlan) plan.withNewChildren(Inside.seq(made)) : plan;
  }

  private static LogicalPlan withNarrowTable(DataSourceV2Relation relation, Map computed, Expression condition) {
    if (!(relation.table() instanceof PythonTable)) return relation;
    PythonTable table = (PythonTable) relation.table();
    boolean isMapped = MappedTable.takes(table);
    if (!isMapped && !NarrowTable.takes(table, relation.options())) return relation;
    if (relation.options().containsKey("metadataonly")) computed = null;
    Object[] arguments = new Object[relation.productArity()];
    for (int i = 0; i < arguments.length; i++) {
      Object argument = relation.productElement(i);
      arguments[i] = argument != table ? argument : isMapped ? new MappedTable(table) : new NarrowTable(table, condition, computed);
    }
    // The constructor has other parameters in other releases of Spark; makeCopy finds it.
    return (LogicalPlan) relation.makeCopy(arguments);
  }
}
