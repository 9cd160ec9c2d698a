package sparkarrowipc;

import java.util.EnumSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Transform;
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
public class MappedTable implements SupportsRead {
  private static final String PREFIX = "arrowipc_map_";

  private final PythonTable table;

  MappedTable(PythonTable table) { this.table = table; }

  static boolean takes(PythonTable table) { return table.name().startsWith(PREFIX); }

  public String name() { return table.name(); }
  public StructType schema() { return table.schema(); }
  public Column[] columns() { return table.columns(); }
  public Transform[] partitioning() { return table.partitioning(); }
  public Map properties() { return table.properties(); }
  public Set capabilities() { return EnumSet.of(TableCapability.BATCH_READ); }
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) { return new Builder(table.newScanBuilder(options)); }
  public boolean equals(Object other) { return other instanceof MappedTable && ((MappedTable) other).table == table; }
  public int hashCode() { return System.identityHashCode(table); }
  public String toString() { return table.toString(); }

  public static class Builder implements ScanBuilder {
    private final ScanBuilder inner;
    Builder(ScanBuilder inner) { this.inner = inner; }
    public Scan build() { return new Whole(inner.build()); }
  }

  public static class Whole implements Scan {
    private final Scan inner;
    Whole(Scan inner) { this.inner = inner; }
    public StructType readSchema() { return inner.readSchema(); }
    public String description() { return inner.description(); }
    public Batch toBatch() { return new ByColumns(inner.toBatch()); }
    public CustomMetric[] supportedCustomMetrics() { return inner.supportedCustomMetrics(); }
    public CustomTaskMetric[] reportDriverMetrics() { return inner.reportDriverMetrics(); }
    public Scan.ColumnarSupportMode columnarSupportMode() {
      return Columns.reads(readSchema()) ? Scan.ColumnarSupportMode.SUPPORTED : Scan.ColumnarSupportMode.UNSUPPORTED;
    }
  }

  public static class ByColumns implements Batch {
    private final Batch inner;
    ByColumns(Batch inner) { this.inner = inner; }
    public InputPartition[] planInputPartitions() { return inner.planInputPartitions(); }
    public PartitionReaderFactory createReaderFactory() { return new Columns(inner.createReaderFactory()); }
  }
}
