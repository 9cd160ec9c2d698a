package sparkarrowipc;

import java.io.IOException;
import java.util.Iterator;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.execution.datasources.v2.python.PythonBatchWriterFactory;
import org.apache.spark.sql.internal.ReadOnlySQLConf;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.SQLConf$;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;
import scala.runtime.AbstractFunction0;

/** The Python writer of a task, which gets its rows as columns; runs on executors, which get this class in a jar of the session. */
public class ColumnarWriter implements DataWriter {
  private final DataWriter inner;
  private final StructType schema;

  ColumnarWriter(DataWriter inner, StructType schema) {
    this.inner = inner;
    this.schema = schema;
  }

  /** The writers of a job or of a batch of a stream; Spark's own where a column has no layout here, the setting is off or Spark is another one. */
  static Object factory(Object python) {
    try {
      SparkInternals.step("writer");
      PythonBatchWriterFactory rows = (PythonBatchWriterFactory) python;
      if (!SourceTable.isOn() || !ColumnarRows.takes(rows.inputSchema())) return python;
      StructType columns = new StructType().add(ColumnarRows.COLUMN, DataTypes.BinaryType);
      PythonBatchWriterFactory inner = new PythonBatchWriterFactory(rows.source(), rows.pickledWriteFunc(), columns, rows.jobArtifactUUID(), rows.sessionUUID());
      return new Factory(inner, rows.inputSchema());
    } catch (Throwable error) {
      SparkInternals.warnOnce("rows are written as Spark sends them", error);
      return python;
    }
  }

  /** Makes the writer of a task. */
  public static class Factory implements DataWriterFactory, StreamingDataWriterFactory {
    private static final long serialVersionUID = 1L;

    private final DataWriterFactory inner;
    private final StructType schema;

    Factory(DataWriterFactory inner, StructType schema) {
      this.inner = inner;
      this.schema = schema;
    }

    public DataWriter createWriter(int partition, long task) { return new ColumnarWriter(inner.createWriter(partition, task), schema); }
    public DataWriter createWriter(int partition, long task, long batch) { return createWriter(partition, task); }
  }

  /** The write of a stream. */
  public static class Stream implements StreamingWrite {
    private final StreamingWrite inner;

    Stream(StreamingWrite inner) { this.inner = inner; }

    public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
      return (StreamingDataWriterFactory) factory(inner.createStreamingWriterFactory(info));
    }

    public boolean useCommitCoordinator() { return inner.useCommitCoordinator(); }
    public void commit(long batch, WriterCommitMessage[] messages) { inner.commit(batch, messages); }
    public void abort(long batch, WriterCommitMessage[] messages) { inner.abort(batch, messages); }
  }

  /** Spark joins 10,000 rows by default before it sends them, and a row is a batch here. */
  private static class OneRow extends ReadOnlySQLConf {
    OneRow(TaskContext context) { super(context); }

    public int arrowMaxRecordsPerBatch() { return 1; }
  }

  /** The settings are those of this thread: properties of a task belong to all tasks of a local job. */
  public void writeAll(final Iterator records) throws IOException {
    final SQLConf settings = SQLConf.get();
    SQLConf$.MODULE$.withExistingConf(new OneRow(TaskContext.get()), new AbstractFunction0() {
      public Object apply() {
        try {
          inner.writeAll(new WithSettings(new ColumnarRows(records, schema), settings));
        } catch (IOException error) {
          Platform.throwException(error);
        }
        return null;
      }
    });
  }

  /** Rows are computed with the settings of the query, as functions below the write send batches, too. */
  private static class WithSettings extends AbstractFunction0 implements Iterator {
    private final Iterator batches;
    private final SQLConf settings;
    private boolean asksForNext = false;

    WithSettings(Iterator batches, SQLConf settings) {
      this.batches = batches;
      this.settings = settings;
    }

    public boolean hasNext() { return ((Boolean) ask(false)).booleanValue(); }
    public Object next() { return ask(true); }

    private Object ask(boolean forNext) {
      asksForNext = forNext;
      return SQLConf$.MODULE$.withExistingConf(settings, this);
    }

    public Object apply() { return asksForNext ? batches.next() : Boolean.valueOf(batches.hasNext()); }
  }

  public void write(Object row) { throw new UnsupportedOperationException("rows are written all at once"); }
  public WriterCommitMessage commit() throws IOException { return inner.commit(); }
  public void abort() throws IOException { inner.abort(); }
  public void close() throws IOException { inner.close(); }
  public CustomTaskMetric[] currentMetricsValues() { return inner.currentMetricsValues(); }
}
