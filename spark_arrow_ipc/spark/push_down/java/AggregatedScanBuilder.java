package sparkarrowipc;

import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Takes the whole filter below an aggregate, and then the aggregate: `Aggregates.below` has seen that tasks hold both. */
public class AggregatedScanBuilder extends NarrowScanBuilder implements SupportsPushDownV2Filters, SupportsPushDownAggregates {
  private Aggregates aggregates = null;

  AggregatedScanBuilder(NarrowTable table, CaseInsensitiveStringMap options) { super(table, options); }

  public Predicate[] pushPredicates(Predicate[] predicates) {
    try {
      Inside.step("predicates");
      ObjectNode[] nodes = new ObjectNode[predicates.length];
      for (int i = 0; i < predicates.length; i++) {
        nodes[i] = Typed.predicate(predicates[i]);
        nodes[i].put("exact", true);
      }
      for (int i = 0; i < predicates.length; i++) conjuncts.add(nodes[i], predicates[i].toString());
      return new Predicate[0];
    } catch (Throwable error) {
      Inside.warnOnce("Spark alone filters and aggregates", error);
      return predicates;
    }
  }

  public Predicate[] pushedPredicates() { return new Predicate[0]; }

  public boolean pushAggregation(Aggregation aggregation) {
    try {
      Inside.step("aggregates");
      aggregates = Aggregates.of(aggregation, table.schema(), table.computed);
    } catch (Throwable error) {
      Inside.warnOnce("Spark alone aggregates", error);
    }
    return aggregates != null;
  }

  public Scan build() {
    return aggregates == null ? super.build() : new NarrowScan(table, options, null, conjuncts, -1, aggregates);
  }
}
