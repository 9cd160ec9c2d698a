package sparkarrowipc;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.WriteSummary;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriterCommitMessage;

/** The write of a statement: its Python writer is planned when the scan has run, and replaces the files of the scan. */
public class StatementWrite implements WriteBuilder, Write, BatchWrite {
  private static final String[] COUNTS = {"Copied", "Deleted", "Updated", "Inserted"};

  private final SourceTable table;
  private final LogicalWriteInfo info;
  private final RowStatement statement;
  private BatchWrite python = null;

  StatementWrite(SourceTable table, LogicalWriteInfo info, RowStatement statement) {
    this.table = table;
    this.info = info;
    this.statement = statement;
  }

  public Write build() { return this; }
  public BatchWrite toBatch() { return this; }
  public String description() { return statement.description(); }
  public String toString() { return description(); }
  public boolean useCommitCoordinator() { return true; }

  public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo physical) {
    PythonTable written = new PythonTable(statement.source(), Source.NAME, table.schema());
    python = written.newWriteBuilder(new SourceTable.WriteInfo(info, table.withOptions(info.options()))).build().toBatch();
    return new RowByRowWriter.Factory((DataWriterFactory) ColumnarWriter.factory(python.createBatchWriterFactory(physical)));
  }

  public void commit(WriterCommitMessage[] messages) { python.commit(messages); }

  /** Spark's counts go to the Python writer, which compares them with the rows of the files. */
  public void commit(WriterCommitMessage[] messages, WriteSummary summary) {
    ObjectNode counts = JsonNodeFactory.instance.objectNode();
    for (int i = 0; i < COUNTS.length; i++) {
      long count = count(summary, COUNTS[i]);
      if (count >= 0) counts.put(COUNTS[i].toLowerCase(), count);
    }
    WriterCommitMessage[] all = new WriterCommitMessage[messages.length + 1];
    System.arraycopy(messages, 0, all, 0, messages.length);
    all[messages.length] = new PythonWriterCommitMessage(SparkInternals.pickledCall(RowStatement.MODULE, "count_rows", new byte[0], counts.toString()));
    python.commit(all);
  }

  /** A count of rows; -1 if this release or kind of summary has none. */
  private static long count(WriteSummary summary, String name) {
    String[] methods = {"num" + name + "Rows", "numTargetRows" + name};
    for (int i = 0; i < methods.length; i++) {
      try {
        java.lang.reflect.Method method = summary.getClass().getMethod(methods[i], new Class[0]);
        method.setAccessible(true);
        return ((Number) method.invoke(summary, new Object[0])).longValue();
      } catch (Exception error) {
        continue;
      }
    }
    return -1;
  }

  public void abort(WriterCommitMessage[] messages) { if (python != null) python.abort(messages); }
}
