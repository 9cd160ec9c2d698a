package sparkarrowipc;

import java.util.Collections;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;

/**
 * An append, or an overwrite. If its statement has read the table as well, the new rows may depend on those that exist: Spark plans
 * a MERGE that only inserts in this way, and INSERT OVERWRITE t SELECT ... FROM t. It then relies on the plan of that read, as
 * Spark may run stages of the query before the Python writer sees the table.
 */
public class StatementInsert implements Write, BatchWrite {
  private final SourceTable table;
  private final LogicalWriteInfo info;
  private final Write write;
  private final boolean isOverwrite;
  private BatchWrite python = null;

  StatementInsert(SourceTable table, LogicalWriteInfo info, WriteBuilder builder, boolean isOverwrite) {
    this.table = table;
    this.info = info;
    this.isOverwrite = isOverwrite;
    write = built(builder);
  }

  /** The table as the statement has read it, or null: Spark loads one for each place that names it. */
  private SourceTable tableRead() {
    if (table.readOfStatement() != null) return table;
    LogicalPlan statement = SparkInternals.runningStatement();
    scala.collection.immutable.Seq leaves = statement == null ? SparkInternals.seq(Collections.EMPTY_LIST) : statement.collectLeaves();
    for (int i = 0; i < leaves.length(); i++) {
      if (!(leaves.apply(i) instanceof DataSourceV2Relation)) continue;
      Object other = ((DataSourceV2Relation) leaves.apply(i)).table();
      if (other instanceof SourceTable && ((SourceTable) other).path().equals(table.path()) && ((SourceTable) other).read() != null) return (SourceTable) other;
    }
    return null;
  }

  private Write built(WriteBuilder builder) { return isOverwrite ? ((SupportsTruncate) builder).truncate().build() : builder.build(); }

  public String description() { return write.description(); }
  public StreamingWrite toStreaming() { return new ColumnarWriter.Stream(write.toStreaming()); }
  public CustomMetric[] supportedCustomMetrics() { return write.supportedCustomMetrics(); }
  public CustomTaskMetric[] reportDriverMetrics() { return write.reportDriverMetrics(); }
  public BatchWrite toBatch() { return this; }
  public boolean useCommitCoordinator() { return true; }

  public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo physical) {
    SourceTable base = tableRead();
    python = base == null ? write.toBatch()
      : built(new PythonTable(RowStatement.source(base, base.read(), "APPEND", Collections.EMPTY_SET), Source.NAME, table.schema()).newWriteBuilder(info)).toBatch();
    return (DataWriterFactory) ColumnarWriter.factory(python.createBatchWriterFactory(physical));
  }

  public void onDataWriterCommit(WriterCommitMessage message) { python.onDataWriterCommit(message); }
  public void commit(WriterCommitMessage[] messages) { python.commit(messages); }
  public void abort(WriterCommitMessage[] messages) { if (python != null) python.abort(messages); }
}
