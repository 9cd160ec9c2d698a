package sparkarrowipc;

import java.util.Map;
import java.util.Set;
import java.util.EnumSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A table of this format whose scans read less. Two of one DataFrame are equal, and read the same files. */
public class NarrowTable implements SupportsRead {
  private static final String FORMAT = "arrowipc";

  final PythonTable table;
  final Expression condition;
  final Map computed;

  /**
   * `condition` is that of the filter above, null if there is none. `computed` is not null where Spark may hand over the
   * aggregate above, and so the whole filter below that, and forget it.
   */
  NarrowTable(PythonTable table, Expression condition, Map computed) {
    this.table = table;
    this.condition = condition;
    this.computed = computed;
  }

  /** Columns that the option `columns` chose by position (#0) may have names that stand for others in the files. */
  static boolean takes(PythonTable table, CaseInsensitiveStringMap options) {
    return table.name().equals(FORMAT) && table.schema().length() > 0 && !(options.containsKey("columns") && options.get("columns").contains("#"));
  }

  PythonDataSourceV2 source() { return (PythonDataSourceV2) Inside.field(table, "ds"); }

  public String name() { return table.name(); }
  public StructType schema() { return table.schema(); }
  public Column[] columns() { return table.columns(); }
  public Transform[] partitioning() { return table.partitioning(); }
  public Map properties() { return table.properties(); }
  public Set capabilities() { return EnumSet.of(TableCapability.BATCH_READ); }
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return computed != null ? new AggregatedScanBuilder(this, options) : new NarrowScanBuilder(this, options);
  }
  public boolean equals(Object other) { return other instanceof NarrowTable && ((NarrowTable) other).table == table; }
  public int hashCode() { return System.identityHashCode(table); }
  public String toString() { return table.toString(); }
}
