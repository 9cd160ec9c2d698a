package sparkarrowipc;

import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A table of this format whose scans read less. */
public class NarrowTable extends OfPython {
  private static final String FORMAT = "arrowipc";

  final Expression condition;
  final Map computed;

  /**
   * `condition` is that of the filter above, null if there is none. `computed` is not null where Spark may hand over the
   * aggregate above, and so the whole filter below that, and forget it.
   */
  NarrowTable(PythonTable table, Expression condition, Map computed) {
    super(table);
    this.condition = condition;
    this.computed = computed;
  }

  /** Columns that the option `columns` chose by position (#0) may have names that stand for others in the files. */
  static boolean takes(PythonTable table, CaseInsensitiveStringMap options) {
    return table.name().equals(FORMAT) && table.schema().length() > 0 && !(options.containsKey("columns") && options.get("columns").contains("#"));
  }

  PythonDataSourceV2 source() { return (PythonDataSourceV2) Inside.field(table, "ds"); }

  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return computed != null ? new AggregatedScanBuilder(this, options) : new NarrowScanBuilder(this, options);
  }
}
