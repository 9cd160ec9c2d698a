package sparkarrowipc;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayOutputStream;
import java.util.Iterator;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.LogicalWriteInfoImpl;
import org.apache.spark.sql.connector.write.PhysicalWriteInfoImpl;
import org.apache.spark.sql.connector.write.RowLevelOperation;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.Platform;

/**
 * One DELETE, UPDATE or MERGE: its write replaces the files that its scan has read.
 *
 * Spark plans both from one statement, runs the query that finds files with rows that match, and then the scan and the write.
 * Scan and query read one listing of the table (`SourceTable.plan`), which the Python writer gets.
 */
public class RowStatement implements RowLevelOperation, RowLevelOperationBuilder {
  static final String FILE_PATH = "_file_path";
  static final String MODULE = "spark_arrow_ipc.spark.rewrite.row_level";

  private final SourceTable table;
  private final RowLevelOperation.Command command;
  private final CaseInsensitiveStringMap options;
  private StatementScan scan = null;

  RowStatement(SourceTable table, RowLevelOperation.Command command, CaseInsensitiveStringMap options) {
    this.table = table;
    this.command = command;
    this.options = options;
  }

  public RowLevelOperation build() { return this; }
  public RowLevelOperation.Command command() { return command; }
  public String description() { return "arrowipc " + command; }
  public NamedReference[] requiredMetadataAttributes() { return new NamedReference[] {Expressions.column(FILE_PATH)}; }
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap others) { return new StatementScan.Builder(table, table.withOptions(others), this); }
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) { return new StatementWrite(table, info, this); }

  /**
   * False for DELETE from a table with CHAR columns, which writes all files anew: Spark pads them in a projection above the
   * scan, and its query for files has the condition without that projection (INTERNAL_ERROR_ATTRIBUTE_NOT_FOUND).
   */
  boolean findsFiles() {
    if (command != RowLevelOperation.Command.DELETE) return true;
    StructField[] fields = table.schema().fields();
    for (int i = 0; i < fields.length; i++) {
      Metadata metadata = fields[i].metadata();
      if (metadata.contains(Predicates.CHARS) && metadata.getString(Predicates.CHARS).replace("varchar(", "").contains("char(")) return false;
    }
    return true;
  }

  void setScan(StatementScan scan) {
    if (this.scan != null) throw new IllegalStateException("Spark plans two scans of one " + command);
    this.scan = scan;
  }

  /** The Python source whose writer replaces the files of the scan; all files if Spark has planned none, as no row stays. */
  PythonDataSourceV2 source() {
    if (scan == null && command != RowLevelOperation.Command.DELETE)
      throw new IllegalStateException("Spark plans no scan of the table for this " + command + "; nothing is written");
    if (scan != null && !scan.isPlanned())
      throw new IllegalStateException("Spark has not run the scan of the table for this " + command + "; nothing is written");
    return source(table, scan == null ? options : scan.options, command.toString(), scan == null ? null : scan.paths());
  }

  /** DELETE without a condition: Spark plans neither a scan nor a write. */
  void deleteAll() {
    LogicalWriteInfo info = new LogicalWriteInfoImpl(UUID.randomUUID().toString(), table.schema(), options, Optional.empty(), Optional.empty());
    BatchWrite write = new PythonTable(source(), Source.NAME, table.schema()).newWriteBuilder(info).build().toBatch();
    write.createBatchWriterFactory(new PhysicalWriteInfoImpl(0));
    WriterCommitMessage[] messages = new WriterCommitMessage[0];
    try {
      write.commit(messages);
    } catch (Throwable error) {
      write.abort(messages);
      Platform.throwException(error); // Spark's AnalysisException is none of Java's RuntimeExceptions
    }
  }

  /** A Python source whose writer relies on the plan of a read; it replaces the files at some paths, without `paths` all. */
  static PythonDataSourceV2 source(SourceTable table, CaseInsensitiveStringMap options, String command, Set paths) {
    ObjectNode request = JsonNodeFactory.instance.objectNode();
    request.put("command", command);
    request.set("partitionBy", Partitions.columns(table.partitioning()));
    if (paths != null) request.set("paths", array(paths));
    scala.collection.immutable.Seq partitions = table.plan(options).partitions();
    request.put("partitions", partitions.length());
    ByteArrayOutputStream pickles = new ByteArrayOutputStream();
    for (int i = 0; i < partitions.length(); i++) pickles.writeBytes((byte[]) partitions.apply(i));
    UserDefinedPythonDataSource python = table.source(options).source();
    byte[] call = SparkInternals.pickledCall(MODULE, "statement_source", pickles.toByteArray(), request.toString());
    WritingSource source = new WritingSource(new UserDefinedPythonDataSource(python.createPythonFunction(call)));
    source.setShortName(Source.NAME);
    return source;
  }

  static ArrayNode array(Set strings) {
    ArrayNode array = JsonNodeFactory.instance.arrayNode();
    for (Iterator i = strings.iterator(); i.hasNext();) array.add((String) i.next());
    return array;
  }

  /** A source whose Python class is made for one write. */
  public static class WritingSource extends PythonDataSourceV2 {
    private final UserDefinedPythonDataSource source;

    WritingSource(UserDefinedPythonDataSource source) { this.source = source; }

    public UserDefinedPythonDataSource source() { return source; }
  }

  /** The column that names the file of each row. */
  public static class FilePath implements MetadataColumn {
    public String name() { return FILE_PATH; }
    public DataType dataType() { return DataTypes.StringType; }
    public String comment() { return "absolute path of the file"; }
  }
}
