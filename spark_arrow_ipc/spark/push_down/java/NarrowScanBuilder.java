package sparkarrowipc;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.connector.SupportsPushDownCatalystFilters;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Collects what Spark pushes down to one scan: conditions first, then an aggregate or a limit, and columns.
 *
 * It gets the conditions of Spark's plan, as Spark's file sources do: Spark's translator for other sources fails for some.
 */
public class NarrowScanBuilder implements SupportsPushDownCatalystFilters, SupportsPushDownAggregates, SupportsPushDownRequiredColumns, SupportsPushDownLimit {
  private final SourceTable table;
  private final CaseInsensitiveStringMap options;
  private final Conjuncts conjuncts = new Conjuncts();
  private final List conditions = new ArrayList();
  private StructType columns;
  private int limit = -1;
  private Aggregates aggregates = null;
  private boolean isLeftToSpark;
  /** The scan of all columns, whose partitions the scan of some has too; null until its size is needed. */
  private NarrowScan complete = null;

  NarrowScanBuilder(SourceTable table, CaseInsensitiveStringMap options) {
    this.table = table;
    this.options = options;
    columns = table.schema();
    isLeftToSpark = options.containsKey("metadataonly");
  }

  /** Returns the conditions that Spark evaluates again. */
  public scala.collection.immutable.Seq pushFilters(scala.collection.immutable.Seq filters) {
    List left = new ArrayList();
    for (int i = 0; i < filters.length(); i++) conditions.add(filters.apply(i));
    for (int i = 0; i < filters.length(); i++) {
      Expression filter = (Expression) filters.apply(i);
      if (holds(filter)) continue;
      left.add(filter);
      try {
        SparkInternals.step("conditions");
        conjuncts.add(filter);
      } catch (Throwable error) {
        SparkInternals.warnOnce("fewer rows are left out", error);
      }
    }
    return SparkInternals.seq(left);
  }

  public Predicate[] pushedFilters() { return new Predicate[0]; }

  /** True if tasks hold a condition exactly, so that Spark need not look again. */
  private boolean holds(Expression filter) {
    try {
      SparkInternals.step("predicates");
      org.apache.spark.sql.connector.expressions.Expression translated = isLeftToSpark ? null : Predicates.translate(filter, true);
      if (translated == null || !Predicates.isExact(translated, table.schema())) return false;
      ObjectNode node = Predicates.predicate(translated);
      if (node == null || mayBeBroadcast()) return false;
      node.put("exact", true);
      conjuncts.add(node, translated.toString());
      return true;
    } catch (Throwable error) {
      SparkInternals.warnOnce("Spark alone filters and aggregates", error);
      return false;
    }
  }

  /** Spark filters the other side of a join by a table that it broadcasts, if it sees a Filter above it. */
  private boolean mayBeBroadcast() {
    if (complete == null) complete = new NarrowScan(table, options, table.schema(), conjuncts, conditions, -1, null, null);
    OptionalLong bytes = complete.estimateStatistics().sizeInBytes();
    return bytes.isPresent() && bytes.getAsLong() <= SQLConf.get().autoBroadcastJoinThreshold();
  }

  /** Spark asks this first, before it makes a sum and a count of each average. */
  public boolean supportCompletePushDown(Aggregation aggregation) {
    AggregateFunc[] functions = aggregation.aggregateExpressions();
    for (int i = 0; i < functions.length; i++) isLeftToSpark |= !Aggregates.hasOneAnswer(functions[i], table.schema());
    return false;
  }

  public boolean pushAggregation(Aggregation aggregation) {
    try {
      SparkInternals.step("aggregates");
      if (!isLeftToSpark) aggregates = Aggregates.of(aggregation, table.schema());
    } catch (Throwable error) {
      SparkInternals.warnOnce("Spark alone aggregates", error);
    }
    return aggregates != null;
  }

  public void pruneColumns(StructType schema) {
    try {
      SparkInternals.step("columns");
      // A batch has a number of rows even if nobody asks for a value: the narrowest column counts them.
      columns = schema.isEmpty() ? Predicates.narrowest(table.schema()) : schema;
    } catch (Throwable error) {
      SparkInternals.warnOnce("all columns are read", error);
    }
  }

  public boolean pushLimit(int rows) {
    limit = rows;
    return true;
  }

  public boolean isPartiallyPushed() { return true; }

  public Scan build() { return new NarrowScan(table, options, columns, conjuncts, conditions, limit, aggregates, complete); }
}
