package sparkarrowipc;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Iterator;
import java.util.NoSuchElementException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;

/**
 * The rows of a task as batches, each of which is one row of one BINARY column: its bytes are columns in Arrow's layout.
 *
 * Spark's own writer of Arrow calls several methods for each value, and makes a BigInteger of each decimal. Here the value goes
 * from the bytes of an UnsafeRow to the buffer of its column (`ArrowColumn`). The bytes of a batch are, each followed by zeros up
 * to a multiple of eight: the number of rows, the bytes of the name of the session's time zone and the name (64-bit integers and
 * UTF-8), and a struct with the columns. A column is the number of its nulls, the validity if there are any, the other buffers
 * of its layout, and its children.
 *
 * `spark/write/columnar_rows.py` reads them.
 */
public class ColumnarRows implements Iterator {
  static final String COLUMN = "columns of arrowipc";

  private static final int MOST_ROWS = 65536;
  /** Rows for which a task has buffers at first, as many tasks have few. */
  private static final int FIRST_ROWS = 1024;
  /** Bytes of a batch, which one row may exceed; a task has three copies: these buffers, the batch, Spark's vector. */
  private static final int MOST_BYTES = 4 << 20;
  /** In wide tables: a column of a batch costs Python some 10 microseconds, however few rows it has. */
  private static final int BYTES_OF_COLUMN = 8 << 10;
  private static final int MOST_COLUMNS_COUNTED = 1 << 14;

  private final Iterator source;
  private final StructType schema;
  private final byte[] timeZone = SQLConf.get().sessionLocalTimeZone().getBytes(StandardCharsets.UTF_8);
  private final int mostBytes;
  private final int mostRows;
  private final long[] added = new long[1];
  private final ArrowColumn columns;
  private UnsafeProjection projection = null;

  ColumnarRows(Iterator source, StructType schema) {
    this.source = source;
    this.schema = schema;
    columns = new ArrowColumn("", schema, added);
    mostBytes = Math.max(MOST_BYTES, Math.min(columns.columns(), MOST_COLUMNS_COUNTED) * BYTES_OF_COLUMN);
    mostRows = Math.max(1, Math.min(MOST_ROWS, mostBytes / columns.width));
    start();
  }

  private void start() { columns.start(Math.min(FIRST_ROWS, mostRows), mostRows); }

  /** True if all columns have types with a layout here, and none has the name of the column of batches. */
  static boolean takes(StructType schema) { return ArrowColumn.takes(schema) && !Arrays.asList(schema.fieldNames()).contains(COLUMN); }

  public boolean hasNext() { return source.hasNext(); }

  public Object next() {
    added[0] = 0;
    columns.clear();
    while (columns.count() < mostRows && added[0] < mostBytes && source.hasNext()) add((InternalRow) source.next());
    if (columns.count() == 0) throw new NoSuchElementException();
    byte[] batch = batch();
    if (columns.capacityBytes() > 4L * mostBytes) start(); // one row can be as large as a buffer can be
    return new GenericInternalRow(new Object[] {batch});
  }

  private void add(InternalRow row) {
    UnsafeRow unsafe = row instanceof UnsafeRow ? (UnsafeRow) row : projected(row);
    if (unsafe.numFields() != schema.length()) throw new IllegalStateException("expected a row of " + schema.length() + " columns, found " + unsafe.numFields());
    columns.addRow(unsafe.getBaseObject(), unsafe.getBaseOffset());
  }

  private UnsafeRow projected(InternalRow row) {
    if (projection == null) projection = UnsafeProjection.create(schema);
    return projection.apply(row);
  }

  private byte[] batch() {
    long head = 16 + ArrowColumn.padded(timeZone.length);
    byte[] batch = new byte[columns.arraySize(head + columns.bytes())];
    Platform.putLong(batch, Platform.BYTE_ARRAY_OFFSET, columns.count());
    Platform.putLong(batch, Platform.BYTE_ARRAY_OFFSET + 8, timeZone.length);
    System.arraycopy(timeZone, 0, batch, 16, timeZone.length);
    columns.put(batch, (int) head);
    return batch;
  }
}
