package sparkarrowipc;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The output of a function or an aggregate of this package, which crosses as columns.
 *
 * Each has a Python source of its own, which a session registers by a name that no service file can have; an option names it.
 */
public class FunctionSource extends PythonDataSourceV2 implements DataSourceRegister {
  private static final String FUNCTION = "arrowipc.function";

  private String function = null;

  public String shortName() { return "arrowipc_function"; }

  public void setShortName(String name) {}

  public StructType inferSchema(CaseInsensitiveStringMap options) { return super.inferSchema(optionsOfFunction(options.asCaseSensitiveMap())); }

  public Table getTable(StructType schema, Transform[] partitioning, Map properties) {
    CaseInsensitiveStringMap options = optionsOfFunction(properties);
    return new FunctionTable(this, function, schema, options);
  }

  private CaseInsensitiveStringMap optionsOfFunction(Map properties) {
    String name = new CaseInsensitiveStringMap(properties).get(FUNCTION);
    if (name == null) throw new IllegalArgumentException("arrowipc_function is for map_in_arrow and aggregate: read files by the format arrowipc");
    if (function == null) super.setShortName(name);
    function = name;
    Map options = new HashMap(properties);
    Source.removeOption(options, FUNCTION);
    return new CaseInsensitiveStringMap(options);
  }

  public static class FunctionTable extends PythonTable {
    private final CaseInsensitiveStringMap options;

    FunctionTable(FunctionSource source, String function, StructType schema, CaseInsensitiveStringMap options) {
      super(source, function, schema);
      this.options = options;
    }

    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap others) {
      ScanBuilder builder = super.newScanBuilder(options);
      return SourceTable.isOn() ? new ColumnScanBuilder(builder) : builder;
    }
  }

  public static class ColumnScanBuilder implements ScanBuilder {
    private final ScanBuilder builder;
    ColumnScanBuilder(ScanBuilder builder) { this.builder = builder; }
    public Scan build() { return new ColumnScan(builder.build()); }
  }

  public static class ColumnScan implements Scan {
    private final Scan scan;
    private final Scan.ColumnarSupportMode mode;
    ColumnScan(Scan scan) {
      this.scan = scan;
      mode = Columns.mode(scan.readSchema());
    }
    public StructType readSchema() { return scan.readSchema(); }
    public String description() { return scan.description(); }
    public Batch toBatch() { return new ColumnBatch(scan.toBatch()); }
    public CustomMetric[] supportedCustomMetrics() { return scan.supportedCustomMetrics(); }
    public CustomTaskMetric[] reportDriverMetrics() { return scan.reportDriverMetrics(); }
    public Scan.ColumnarSupportMode columnarSupportMode() { return mode; }
  }

  public static class ColumnBatch implements Batch {
    private final Batch batch;
    ColumnBatch(Batch batch) { this.batch = batch; }
    public InputPartition[] planInputPartitions() { return batch.planInputPartitions(); }
    public PartitionReaderFactory createReaderFactory() { return new Columns(batch.createReaderFactory(), false); }
  }
}
