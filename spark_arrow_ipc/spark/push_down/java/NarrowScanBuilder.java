package sparkarrowipc;

import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Notes the columns and the limit of one scan.
 *
 * It is told no filters: Spark's translator fails on some, and would fail the query. The rule has asked it for each conjunct.
 */
public class NarrowScanBuilder implements ScanBuilder, SupportsPushDownRequiredColumns, SupportsPushDownLimit {
  protected final NarrowTable table;
  protected final CaseInsensitiveStringMap options;
  protected final Conjuncts conjuncts = new Conjuncts();
  private StructType wanted;
  private int limit = -1;

  NarrowScanBuilder(NarrowTable table, CaseInsensitiveStringMap options) {
    this.table = table;
    this.options = options;
    this.wanted = table.schema();
    try {
      Inside.step("conditions");
      if (table.condition != null && table.computed == null) conjuncts.add(table.condition);
    } catch (Throwable error) {
      Inside.warnOnce("fewer rows are left out", error);
    }
  }

  public void pruneColumns(StructType schema) {
    try {
      Inside.step("columns");
      // A batch has a number of rows even if nobody asks for a value: the narrowest column counts them.
      wanted = schema.isEmpty() ? Typed.narrowest(table.schema()) : schema;
    } catch (Throwable error) {
      Inside.warnOnce("all columns are read", error);
    }
  }

  public boolean pushLimit(int rows) {
    limit = rows;
    return true;
  }

  public boolean isPartiallyPushed() { return true; }

  public Scan build() { return new NarrowScan(table, options, wanted, conjuncts, limit, null); }
}
