package sparkarrowipc;

import java.io.IOException;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.ProjectingInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/**
 * Spark hands over the rows of a statement one by one, and its Python writer pulls all of them: a thread of the task runs the
 * Python writer, and takes arrays of rows from a queue.
 */
public class RowByRowWriter implements DataWriter, Iterator, Runnable {
  private static final int ROWS = 1024;
  private static final int ARRAYS = 8;
  /** Bytes of rows after which an array is handed over before it is full: rows of a megabyte would fill the heap. */
  private static final long MOST_BYTES = 4 << 20;
  private static final long WAIT_MS = 100;
  private static final long ABORT_MS = 10000;
  private static final Field PROJECTED = SparkInternals.field(ProjectingInternalRow.class, "row");
  private static final Object[] END = new Object[0];

  private final DataWriter inner;
  private final ArrayBlockingQueue queue = new ArrayBlockingQueue(ARRAYS);
  private final TaskContext context = TaskContext.get();
  private final Thread thread = new Thread(this, "arrowipc rows of a statement");
  private volatile Throwable failure = null;
  private volatile boolean isOver = false;
  private volatile boolean isAborted = false;
  private boolean isStarted = false;
  private Object[] rows = new Object[ROWS];
  private int count = 0;
  private long bytes = 0;
  private Object[] current = null;
  private int position = 0;

  RowByRowWriter(DataWriter inner) { this.inner = inner; }

  /** Makes the writer of a task. */
  public static class Factory implements DataWriterFactory {
    private final DataWriterFactory inner;

    Factory(DataWriterFactory inner) { this.inner = inner; }

    public DataWriter createWriter(int partition, long task) { return new RowByRowWriter(inner.createWriter(partition, task)); }
  }

  // The thread of the task.

  public void write(Object metadata, Object row) throws IOException { write(row); }

  public void write(Object row) throws IOException {
    rows[count++] = ((InternalRow) row).copy(); // Spark uses it again
    bytes += bytesOf(row);
    if (count == ROWS || bytes >= MOST_BYTES) flush();
  }

  /** The bytes of a row; Spark shows a choice of the columns of a row that it does not give away. */
  private long bytesOf(Object row) {
    Object base = row instanceof ProjectingInternalRow ? SparkInternals.value(PROJECTED, row) : row;
    return base instanceof UnsafeRow ? ((UnsafeRow) base).getSizeInBytes() : 0;
  }

  private void flush() throws IOException {
    if (count == 0) return;
    Object[] full = new Object[count];
    System.arraycopy(rows, 0, full, 0, count);
    count = 0;
    bytes = 0;
    put(full);
  }

  private void put(Object[] array) throws IOException {
    if (!isStarted) {
      isStarted = true;
      thread.setDaemon(true);
      thread.start();
    }
    try {
      while (!isOver && !queue.offer(array, WAIT_MS, TimeUnit.MILLISECONDS));
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw new IOException(error);
    }
    check();
  }

  private void check() throws IOException {
    if (failure instanceof RuntimeException) throw (RuntimeException) failure;
    if (failure != null) throw new IOException(failure);
  }

  public WriterCommitMessage commit() throws IOException {
    flush();
    put(END);
    join(0);
    check();
    return inner.commit();
  }

  private void join(long milliseconds) throws IOException {
    try {
      thread.join(milliseconds);
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw new IOException(error);
    }
  }

  /** Lets the Python writer end, so that it leaves no error in the log; the abort of the job deletes its files. */
  public void abort() throws IOException {
    isAborted = true;
    try {
      if (isStarted) join(ABORT_MS);
    } finally {
      if (thread.isAlive()) thread.interrupt();
      inner.abort();
    }
  }

  public void close() throws IOException { inner.close(); }

  public CustomTaskMetric[] currentMetricsValues() { return inner.currentMetricsValues(); }

  // The thread of the Python writer.

  public void run() {
    try {
      setContext();
      inner.writeAll(this);
    } catch (Throwable error) {
      failure = error;
    } finally {
      isOver = true;
    }
  }

  /** By reflection, as Spark does not show the method to Java. */
  private void setContext() throws Exception {
    Class type = Class.forName("org.apache.spark.TaskContext$");
    Method[] methods = type.getMethods();
    for (int i = 0; i < methods.length; i++)
      if (methods[i].getName().equals("setTaskContext")) methods[i].invoke(type.getField("MODULE$").get(null), new Object[] {context});
  }

  public boolean hasNext() {
    while (current != END && (current == null || position == current.length)) {
      try {
        current = isAborted ? END : (Object[]) queue.poll(WAIT_MS, TimeUnit.MILLISECONDS);
      } catch (InterruptedException error) {
        throw new IllegalStateException(error);
      }
      position = 0;
      if (current == null && (context.isCompleted() || context.isInterrupted())) current = END;
    }
    return current != END;
  }

  public Object next() {
    if (!hasNext()) throw new NoSuchElementException();
    return current[position++];
  }
}
