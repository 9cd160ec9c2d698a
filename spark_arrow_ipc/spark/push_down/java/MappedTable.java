package sparkarrowipc;

import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The output of a function or an aggregate of this package: all of it is read, as Spark plans it, and crosses as columns. */
public class MappedTable extends OfPython {
  private static final String PREFIX = "arrowipc_map_";

  MappedTable(PythonTable table) { super(table); }

  static boolean takes(PythonTable table) { return table.name().startsWith(PREFIX); }

  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) { return new Builder(table.newScanBuilder(options)); }

  public static class Builder implements ScanBuilder {
    private final ScanBuilder inner;
    Builder(ScanBuilder inner) { this.inner = inner; }
    public Scan build() { return new Whole(inner.build()); }
  }

  public static class Whole implements Scan {
    private final Scan inner;
    private final Scan.ColumnarSupportMode mode;
    Whole(Scan inner) {
      this.inner = inner;
      mode = Columns.mode(inner.readSchema());
    }
    public StructType readSchema() { return inner.readSchema(); }
    public String description() { return inner.description(); }
    public Batch toBatch() { return new ByColumns(inner.toBatch()); }
    public CustomMetric[] supportedCustomMetrics() { return inner.supportedCustomMetrics(); }
    public CustomTaskMetric[] reportDriverMetrics() { return inner.reportDriverMetrics(); }
    public Scan.ColumnarSupportMode columnarSupportMode() { return mode; }
  }

  public static class ByColumns implements Batch {
    private final Batch inner;
    ByColumns(Batch inner) { this.inner = inner; }
    public InputPartition[] planInputPartitions() { return inner.planInputPartitions(); }
    public PartitionReaderFactory createReaderFactory() { return new Columns(inner.createReaderFactory(), null); }
  }
}
