package sparkarrowipc;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Iterator;
import java.util.NoSuchElementException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.Platform;

/**
 * The rows of a task as batches, each of which is one row of one BINARY column: its bytes are columns in Arrow's layout.
 *
 * Spark's own writer of Arrow calls several methods for each value, and makes a BigInteger of each decimal. Here the value goes
 * from the bytes of an UnsafeRow to the buffer of its column. The bytes of a batch are 32-bit integers, the text of the session's
 * time zone, and buffers; each of these is followed by zeros up to a multiple of eight:
 *
 *   rows, bytes of the time zone, and of each column the nulls and the bytes of its data;
 *   of each column the validity, if it has nulls, then the offsets, if its values are strings or binaries, then the data.
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
  private static final int USUAL_TEXT_BYTES = 16;
  private static final int MOST_WORDS_BYTES = 128;
  private static final long MOST_ARRAY = Integer.MAX_VALUE - 64;

  private static final int BOOLEAN = 0, INT8 = 1, INT16 = 2, INT32 = 3, INT64 = 4, DECIMAL = 5, LARGE_DECIMAL = 6, TEXT = 7;
  private static final int[] WIDTHS = {0, 1, 2, 4, 8, 16, 16, 0};

  private final Iterator source;
  private final StructType schema;
  private final byte[] timeZone = SQLConf.get().sessionLocalTimeZone().getBytes(StandardCharsets.UTF_8);
  private final int[] kinds;
  private final int nullBytes;
  private final int mostBytes;
  private final int mostRows;
  /** Of decimals in one word: the least unscaled value with too many digits. */
  private final long[] bounds;
  private final byte[][] data;
  private final byte[][] offsets;
  private final byte[][] validity;
  private final long[] lengths;
  private final int[] nulls;
  private UnsafeProjection projection = null;
  /** Rows for which there are buffers. */
  private int capacity = 0;
  private int rows = 0;
  private long textBytes = 0;

  ColumnarRows(Iterator source, StructType schema) {
    this.source = source;
    this.schema = schema;
    int n = schema.length(), width = 0;
    kinds = new int[n];
    bounds = new long[n];
    for (int c = 0; c < n; c++) {
      DataType type = schema.fields()[c].dataType();
      kinds[c] = kind(type);
      width += kinds[c] == TEXT ? 4 + USUAL_TEXT_BYTES : Math.max(1, WIDTHS[kinds[c]]);
      if (kinds[c] == DECIMAL) bounds[c] = BigInteger.TEN.pow(((DecimalType) type).precision()).longValue();
    }
    nullBytes = UnsafeRow.calculateBitSetWidthInBytes(n);
    mostBytes = Math.max(MOST_BYTES, Math.min(n, MOST_COLUMNS_COUNTED) * BYTES_OF_COLUMN);
    mostRows = Math.max(1, Math.min(MOST_ROWS, mostBytes / width));
    data = new byte[n][0];
    offsets = new byte[n][0];
    validity = new byte[n][0];
    lengths = new long[n];
    nulls = new int[n];
    reserve(Math.min(FIRST_ROWS, mostRows));
  }

  /** Makes buffers for more rows, with what the columns have so far. */
  private void reserve(int count) {
    capacity = count;
    for (int c = 0; c < kinds.length; c++) {
      data[c] = Arrays.copyOf(data[c], Math.max(data[c].length, dataBytes(c)));
      if (kinds[c] == TEXT) offsets[c] = Arrays.copyOf(offsets[c], 4 * (count + 1));
      int known = validity[c].length;
      validity[c] = Arrays.copyOf(validity[c], (count + 7) / 8);
      if (nulls[c] > 0) Arrays.fill(validity[c], known, validity[c].length, (byte) -1);
    }
  }

  private int dataBytes(int c) {
    if (kinds[c] == BOOLEAN) return (capacity + 7) / 8;
    return capacity * (kinds[c] == TEXT ? USUAL_TEXT_BYTES : WIDTHS[kinds[c]]);
  }

  /** True if each column has a type with a layout here: no nested, and none that is another in Arrow. */
  static boolean takes(StructType schema) {
    for (int c = 0; c < schema.length(); c++)
      if (kind(schema.fields()[c].dataType()) < 0 || schema.fields()[c].name().equals(COLUMN)) return false;
    return schema.length() > 0;
  }

  private static int kind(DataType type) {
    if (type instanceof BooleanType) return BOOLEAN;
    if (type instanceof ByteType) return INT8;
    if (type instanceof ShortType) return INT16;
    if (type instanceof IntegerType || type instanceof FloatType || type instanceof DateType) return INT32;
    if (type instanceof LongType || type instanceof DoubleType || type instanceof TimestampType || type instanceof TimestampNTZType) return INT64;
    if (type instanceof DecimalType) return ((DecimalType) type).precision() <= Decimal.MAX_LONG_DIGITS() ? DECIMAL : LARGE_DECIMAL;
    if (type instanceof StringType || type instanceof BinaryType) return TEXT;
    return -1;
  }

  public boolean hasNext() { return source.hasNext(); }

  public Object next() {
    Arrays.fill(nulls, 0);
    Arrays.fill(lengths, 0);
    rows = 0;
    textBytes = 0;
    while (rows < mostRows && textBytes < mostBytes && source.hasNext()) {
      if (rows == capacity) reserve((int) Math.min(4L * capacity, mostRows));
      add((InternalRow) source.next());
    }
    if (rows == 0) throw new NoSuchElementException();
    return new GenericInternalRow(new Object[] {batch()});
  }

  private void add(InternalRow row) {
    UnsafeRow unsafe = row instanceof UnsafeRow ? (UnsafeRow) row : projected(row);
    Object base = unsafe.getBaseObject();
    long start = unsafe.getBaseOffset();
    if (unsafe.numFields() != kinds.length) throw new IllegalStateException("expected a row of " + kinds.length + " columns, found " + unsafe.numFields());
    for (int c = 0; c < kinds.length; c++) {
      boolean isNull = (Platform.getLong(base, start + ((c >> 6) << 3)) >>> (c & 63) & 1) != 0;
      if (isNull) addNull(c);
      long slot = start + nullBytes + 8L * c;
      byte[] column = data[c];
      long to = Platform.BYTE_ARRAY_OFFSET + (long) rows * WIDTHS[kinds[c]];
      switch (kinds[c]) {
        case BOOLEAN:
          if ((rows & 7) == 0) column[rows >> 3] = 0;
          if (!isNull && Platform.getBoolean(base, slot)) column[rows >> 3] |= 1 << (rows & 7);
          break;
        case INT8:
          Platform.putByte(column, to, isNull ? (byte) 0 : Platform.getByte(base, slot));
          break;
        case INT16:
          Platform.putShort(column, to, isNull ? (short) 0 : Platform.getShort(base, slot));
          break;
        case INT32:
          Platform.putInt(column, to, isNull ? 0 : Platform.getInt(base, slot));
          break;
        case INT64:
          Platform.putLong(column, to, isNull ? 0 : Platform.getLong(base, slot));
          break;
        case DECIMAL:
          long unscaled = isNull ? 0 : Platform.getLong(base, slot);
          if (unscaled >= bounds[c] || unscaled <= -bounds[c]) throw tooManyDigits(c, unscaled);
          Platform.putLong(column, to, unscaled);
          Platform.putLong(column, to + 8, unscaled >> 63);
          break;
        case LARGE_DECIMAL:
          addDecimal(column, to, base, start, isNull ? 0 : Platform.getLong(base, slot));
          break;
        default:
          addText(c, base, start, isNull ? 0 : Platform.getLong(base, slot));
      }
    }
    rows++;
  }

  private UnsafeRow projected(InternalRow row) {
    if (projection == null) projection = UnsafeProjection.create(schema);
    return projection.apply(row);
  }

  private void addNull(int c) {
    if (nulls[c]++ == 0) Arrays.fill(validity[c], (byte) -1);
    validity[c][rows >> 3] &= ~(1 << (rows & 7));
  }

  /** An UnsafeRow has a large decimal as a BigInteger's bytes, the first of which are the most significant; Arrow has the last first. */
  private static void addDecimal(byte[] column, long to, Object base, long start, long offsetAndSize) {
    int size = (int) offsetAndSize;
    long from = start + (offsetAndSize >>> 32);
    byte sign = size > 0 && Platform.getByte(base, from) < 0 ? (byte) -1 : (byte) 0;
    for (int i = 0; i < 16; i++) Platform.putByte(column, to + i, i < size ? Platform.getByte(base, from + size - 1 - i) : sign);
  }

  /** Spark's reader of Parquet does not look at the digits of decimals in one word; other readers of ours would. */
  private ArithmeticException tooManyDigits(int c, long unscaled) {
    StructField field = schema.fields()[c];
    String value = BigDecimal.valueOf(unscaled, ((DecimalType) field.dataType()).scale()).toPlainString();
    return new ArithmeticException(field.name() + ": the value " + value + " has more digits than " + field.dataType().sql() + "; CAST the column to a larger type. Nothing is written");
  }

  private void addText(int c, Object base, long start, long offsetAndSize) {
    int size = (int) offsetAndSize;
    long from = start + (offsetAndSize >>> 32), to = Platform.BYTE_ARRAY_OFFSET + lengths[c], length = lengths[c] + padded(size);
    if (length > data[c].length) data[c] = Arrays.copyOf(data[c], arraySize(Math.max(length, Math.min(2L * data[c].length, MOST_ARRAY))));
    // A row pads values to words of eight bytes, and the next value overwrites the padding; the call for a copy takes 40 ns.
    if (size <= MOST_WORDS_BYTES) for (int i = 0; i < size; i += 8) Platform.putLong(data[c], to + i, Platform.getLong(base, from + i));
    else Platform.copyMemory(base, from, data[c], to, size);
    lengths[c] += size;
    textBytes += size;
    Platform.putInt(offsets[c], Platform.BYTE_ARRAY_OFFSET + 4L * (rows + 1), (int) lengths[c]);
  }

  private static int arraySize(long size) {
    if (size > MOST_ARRAY) throw new IllegalStateException("a row of " + size + " bytes is more than a batch can hold, " + MOST_ARRAY);
    return (int) size;
  }

  private byte[] batch() {
    int n = kinds.length;
    long size = padded(8 + 8L * n) + padded(timeZone.length);
    for (int c = 0; c < n; c++) {
      if (kinds[c] != TEXT) lengths[c] = kinds[c] == BOOLEAN ? (rows + 7) / 8 : (long) rows * WIDTHS[kinds[c]];
      size += (nulls[c] > 0 ? padded((rows + 7) / 8) : 0) + (kinds[c] == TEXT ? padded(4L * (rows + 1)) : 0) + padded(lengths[c]);
    }
    byte[] batch = new byte[arraySize(size)];
    Platform.putInt(batch, Platform.BYTE_ARRAY_OFFSET, rows);
    Platform.putInt(batch, Platform.BYTE_ARRAY_OFFSET + 4, timeZone.length);
    for (int c = 0; c < n; c++) {
      Platform.putInt(batch, Platform.BYTE_ARRAY_OFFSET + 8L * (c + 1), nulls[c]);
      Platform.putInt(batch, Platform.BYTE_ARRAY_OFFSET + 8L * (c + 1) + 4, (int) lengths[c]);
    }
    int end = put(batch, (int) padded(8 + 8L * n), timeZone, timeZone.length);
    for (int c = 0; c < n; c++) {
      if (nulls[c] > 0) end = put(batch, end, validity[c], (rows + 7) / 8);
      if (kinds[c] == TEXT) end = put(batch, end, offsets[c], 4 * (rows + 1));
      end = put(batch, end, data[c], (int) lengths[c]);
    }
    releaseLarge();
    return batch;
  }

  /** One row can be as large as a buffer can be. */
  private void releaseLarge() {
    long bytes = 0;
    for (int c = 0; c < kinds.length; c++) bytes += data[c].length;
    for (int c = 0; c < kinds.length && bytes > 4L * mostBytes; c++) if (kinds[c] == TEXT) data[c] = new byte[dataBytes(c)];
  }

  private static int put(byte[] batch, int end, byte[] buffer, int length) {
    System.arraycopy(buffer, 0, batch, end, length);
    return end + (int) padded(length);
  }

  private static long padded(long length) { return (length + 7) & ~7L; }
}
