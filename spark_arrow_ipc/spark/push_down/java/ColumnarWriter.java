package sparkarrowipc;

import java.io.IOException;
import java.util.Iterator;
import java.util.Properties;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.execution.datasources.v2.python.PythonBatchWriterFactory;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** The Python writer of a task, which gets its rows as columns; runs on executors, which get this class in a jar of the session. */
public class ColumnarWriter implements DataWriter {
  private static final String ROWS_OF_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch";

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
      boolean isOn = "true".equalsIgnoreCase(SQLConf.get().getConfString(SourceTable.SETTING, "true"));
      if (!isOn || !ColumnarRows.takes(rows.inputSchema())) return python;
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

  public void writeAll(Iterator records) throws IOException {
    // Spark joins 10,000 rows, by default, before it sends them; one row is a batch here. It reads the setting as it begins.
    Properties settings = TaskContext.get().getLocalProperties();
    String before = settings.getProperty(ROWS_OF_BATCH);
    settings.setProperty(ROWS_OF_BATCH, "1");
    inner.writeAll(new Started(new ColumnarRows(records, schema), settings, before));
  }

  /** Gives a task its setting back before the first row is asked for, as what is above may read it. */
  private static class Started implements Iterator {
    private final Iterator batches;
    private final Properties settings;
    private final String before;
    private boolean isStarted = false;

    Started(Iterator batches, Properties settings, String before) {
      this.batches = batches;
      this.settings = settings;
      this.before = before;
    }

    public boolean hasNext() {
      if (!isStarted) {
        isStarted = true;
        if (before == null) settings.remove(ROWS_OF_BATCH); else settings.setProperty(ROWS_OF_BATCH, before);
      }
      return batches.hasNext();
    }

    public Object next() { return batches.next(); }
  }

  public void write(Object row) throws IOException { inner.write(row); }
  public WriterCommitMessage commit() throws IOException { return inner.commit(); }
  public void abort() throws IOException { inner.abort(); }
  public void close() throws IOException { inner.close(); }
  public CustomTaskMetric[] currentMetricsValues() { return inner.currentMetricsValues(); }
}
