package sparkarrowipc;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceReadInfo;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** All rows of some files with the path of each: of all files, until Spark knows those with rows that match. */
public class StatementScan implements Scan, SupportsRuntimeV2Filtering {
  final CaseInsensitiveStringMap options;
  private final SourceTable table;
  private final StructType schema;
  private final Scan.ColumnarSupportMode mode;
  private final boolean findsFiles;
  private TreeSet paths = null;
  private boolean isPlanned = false;

  StatementScan(SourceTable table, CaseInsensitiveStringMap options, StructType schema, boolean findsFiles) {
    this.table = table;
    this.options = options;
    this.schema = schema;
    this.findsFiles = findsFiles;
    mode = Columns.mode(schema);
  }

  public StructType readSchema() { return schema; }
  public String description() { return "arrowipc [" + String.join(", ", schema.fieldNames()) + "] of files with rows that match" + SourceTable.describePath(options); }
  public Scan.ColumnarSupportMode columnarSupportMode() { return mode; }

  /** Spark runs a query that finds files with rows that match, if there is an attribute to filter them by. */
  public NamedReference[] filterAttributes() {
    return findsFiles ? new NamedReference[] {Expressions.column(RowStatement.FILE_PATH)} : new NamedReference[0];
  }

  /** The paths of the files that are read; null for all. */
  Set paths() { return paths; }

  boolean isPlanned() { return isPlanned; }

  public void filter(Predicate[] predicates) {
    for (int i = 0; i < predicates.length; i++) {
      Expression[] parts = predicates[i].children();
      boolean isOfPaths = predicates[i].name().equals("IN") && parts[0] instanceof NamedReference
        && ((NamedReference) parts[0]).fieldNames()[0].equals(RowStatement.FILE_PATH);
      if (!isOfPaths) continue;
      TreeSet matching = new TreeSet();
      for (int j = 1; j < parts.length; j++) matching.add(((Literal) parts[j]).value().toString());
      if (paths != null) matching.retainAll(paths);
      paths = matching;
    }
  }

  public Batch toBatch() { return new StatementBatch(this); }

  private Batch python() {
    ObjectNode request = JsonNodeFactory.instance.objectNode();
    request.put("schema", schema.json());
    request.put("frame", table.schema().json());
    request.set("conjuncts", JsonNodeFactory.instance.arrayNode());
    request.put("isExact", true);
    byte[] source = table.source(options).getOrCreateDataSourceInPython(table.name(), options, scala.Option.apply(table.schema())).dataSource();
    NarrowSource narrow = new NarrowSource();
    narrow.setShortName(Source.NAME);
    narrow.plan(new PythonDataSourceReadInfo(SparkInternals.pickledCall(NarrowScan.MODULE, "command", source, request.toString()), SparkInternals.seq(partitions())));
    return ((SupportsRead) narrow.getTable(schema, new Transform[0], options)).newScanBuilder(options).build().toBatch();
  }

  private List partitions() {
    List partitions = new ArrayList();
    scala.collection.immutable.Seq all = table.plan(options).partitions();
    if (paths != null && paths.isEmpty()) return partitions;
    String chosen = paths == null ? null : RowStatement.array(paths).toString();
    for (int i = 0; i < all.length(); i++)
      partitions.add(chosen == null ? all.apply(i) : SparkInternals.pickledCall(RowStatement.MODULE, "select_files", (byte[]) all.apply(i), chosen));
    return partitions;
  }

  /** Plans the partitions when Spark runs it, as the paths are known then. */
  public static class StatementBatch implements Batch {
    private final StatementScan scan;
    private Batch inner = null;

    StatementBatch(StatementScan scan) { this.scan = scan; }

    public InputPartition[] planInputPartitions() {
      inner = scan.python();
      scan.isPlanned = true;
      return inner.planInputPartitions();
    }

    public PartitionReaderFactory createReaderFactory() {
      if (inner == null) inner = scan.python();
      return new Columns(inner.createReaderFactory(), false);
    }
  }

  /** Conditions are left to Spark, which finds files by them. */
  public static class Builder implements ScanBuilder, SupportsPushDownRequiredColumns {
    private final SourceTable table;
    private final CaseInsensitiveStringMap options;
    private final RowStatement statement;
    private StructType schema;

    Builder(SourceTable table, CaseInsensitiveStringMap options, RowStatement statement) {
      this.table = table;
      this.options = options;
      this.statement = statement;
      schema = table.schema();
    }

    public void pruneColumns(StructType required) { schema = required.isEmpty() ? Predicates.narrowest(table.schema()) : required; }

    public Scan build() {
      StatementScan scan = new StatementScan(table, options, schema, statement.findsFiles());
      statement.setScan(scan);
      return scan;
    }
  }
}
