package sparkarrowipc;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.Arrays;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DayTimeIntervalType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.Platform;

/**
 * The values of a column, or of a child of one, in buffers of Arrow's layout.
 *
 * A value comes from an UnsafeRow, UnsafeArrayData or UnsafeMapData, which can lie in each other. Of a row or an array, `start` is
 * its first byte: bits of its nulls and then slots follow. A slot has a number, or the offset from `start` (in its upper half) and
 * the size of another value.
 */
final class ArrowColumn {
  private static final int BOOLEAN = 0, INT8 = 1, INT16 = 2, INT32 = 3, INT64 = 4, DECIMAL = 5, LARGE_DECIMAL = 6, TEXT = 7, LIST = 8, MAP = 9, STRUCT = 10;
  /** By kind: bytes of a value in Arrow. */
  private static final int[] WIDTHS = {0, 1, 2, 4, 8, 16, 16, 0, 0, 0, 0};
  /** By kind: bytes of a slot in UnsafeArrayData. */
  private static final int[] SLOTS = {1, 1, 2, 4, 8, 8, 8, 8, 8, 8, 8};
  private static final int USUAL_TEXT_BYTES = 16;
  private static final int MOST_WORDS_BYTES = 128;
  private static final long MOST_ARRAY = Integer.MAX_VALUE - 64;
  private static final int FIRST_ELEMENTS = 64;

  private final int kind;
  private final String name;
  private final DataType type;
  private final ArrowColumn[] children;
  /** Bytes that values of other sizes have added to a batch, for all columns of a task. */
  private final long[] added;
  /** Of decimals in one word: the least unscaled value with too many digits. */
  private final long bound;
  /** The usual bytes of one more value, without elements. */
  final int width;
  private final boolean hasOffsets;
  private int count = 0;
  private int nulls = 0;
  /** Values for which there are buffers, and to which they grow before they must. */
  private int capacity = 0;
  private long most = 0;
  private byte[] validity = null;
  private byte[] offsets = null;
  private byte[] data = null;
  private long textBytes = 0;

  ArrowColumn(String name, DataType type, long[] added) {
    this.name = name;
    this.type = type;
    this.added = added;
    kind = kind(type);
    bound = kind == DECIMAL ? BigInteger.TEN.pow(((DecimalType) type).precision()).longValue() : 0;
    hasOffsets = kind == TEXT || kind == LIST || kind == MAP;
    StructField[] fields = fields(type);
    children = new ArrowColumn[fields.length];
    for (int c = 0; c < fields.length; c++) children[c] = new ArrowColumn(name.isEmpty() ? fields[c].name() : name + "." + fields[c].name(), fields[c].dataType(), added);
    int bytes = hasOffsets ? 4 : kind == STRUCT ? 0 : Math.max(1, WIDTHS[kind]);
    if (kind == TEXT) bytes += USUAL_TEXT_BYTES;
    for (int c = 0; kind == STRUCT && c < children.length; c++) bytes += children[c].width;
    width = bytes;
  }

  /** The children of a type, with their names in errors. */
  private static StructField[] fields(DataType type) {
    if (type instanceof StructType) return ((StructType) type).fields();
    StructType children = new StructType();
    if (type instanceof ArrayType) children = children.add("element", ((ArrayType) type).elementType());
    if (type instanceof MapType) children = children.add("key", ((MapType) type).keyType()).add("value", ((MapType) type).valueType());
    return children.fields();
  }

  /** The kind of a type, or a negative number if it has another layout in Arrow than in Spark's rows. */
  private static int kind(DataType type) {
    if (type instanceof BooleanType) return BOOLEAN;
    if (type instanceof ByteType) return INT8;
    if (type instanceof ShortType) return INT16;
    if (type instanceof IntegerType || type instanceof FloatType || type instanceof DateType) return INT32;
    if (type instanceof LongType || type instanceof DoubleType) return INT64;
    if (type instanceof TimestampType || type instanceof TimestampNTZType || type instanceof DayTimeIntervalType) return INT64;
    if (type instanceof DecimalType) return ((DecimalType) type).precision() <= Decimal.MAX_LONG_DIGITS() ? DECIMAL : LARGE_DECIMAL;
    if (type instanceof StringType || type instanceof BinaryType) return TEXT;
    if (type instanceof ArrayType) return LIST;
    if (type instanceof MapType) return MAP;
    return type instanceof StructType ? STRUCT : -1;
  }

  /** True if a type and all below it have a kind, and a struct has fields. */
  static boolean takes(DataType type) {
    StructField[] fields = fields(type);
    boolean takes = kind(type) >= 0 && (kind(type) != STRUCT || fields.length > 0);
    for (int c = 0; c < fields.length; c++) takes = takes && takes(fields[c].dataType());
    return takes;
  }

  int count() { return count; }

  /** The number of this column and of all below it. */
  int columns() {
    int columns = 1;
    for (int c = 0; c < children.length; c++) columns += children[c].columns();
    return columns;
  }

  long capacityBytes() {
    long bytes = validity.length + offsets.length + data.length;
    for (int c = 0; c < children.length; c++) bytes += children[c].capacityBytes();
    return bytes;
  }

  /** Makes small buffers, at first and after a large row. They grow to those of the most rows, but elements have no such number. */
  void start(long rows, long most) {
    this.most = most;
    capacity = 0;
    validity = new byte[0];
    offsets = new byte[4];
    data = new byte[0];
    for (int c = 0; c < children.length; c++) children[c].start(kind == STRUCT ? rows : 0, kind == STRUCT ? most : MOST_ARRAY);
    reserve(rows);
  }

  void clear() {
    count = 0;
    nulls = 0;
    textBytes = 0;
    for (int c = 0; c < children.length; c++) children[c].clear();
  }

  /** Makes room for a number of values: exactly for those of a large array, of which a struct may have hundreds of columns. */
  private void reserve(long values) {
    if (values <= capacity) return;
    int bytes = WIDTHS[kind], known = validity.length;
    long larger = Math.max(values, Math.min(2L * capacity, most));
    if (bytes > 0) larger = Math.max(values, Math.min(larger, MOST_ARRAY / bytes));
    validity = Arrays.copyOf(validity, arraySize((larger + 7) / 8));
    if (nulls > 0) Arrays.fill(validity, known, validity.length, (byte) -1);
    if (hasOffsets) offsets = Arrays.copyOf(offsets, arraySize(4 * (larger + 1)));
    if (kind == BOOLEAN) data = Arrays.copyOf(data, validity.length);
    else if (bytes > 0) data = Arrays.copyOf(data, arraySize(larger * bytes));
    capacity = (int) larger;
    for (int c = 0; kind == STRUCT && c < children.length; c++) children[c].reserve(values);
  }

  int arraySize(long size) {
    if (size > MOST_ARRAY) throw new IllegalStateException((name.isEmpty() ? "" : name + ": ") + "the values of one row take " + size + " bytes, and a batch can hold " + MOST_ARRAY);
    return (int) size;
  }

  void addRow(Object base, long start) {
    addFields(base, start, false);
    count++;
  }

  private void add(Object base, long start, long slot, boolean isNull) {
    if (count == capacity) reserve(Math.max(count + 1L, FIRST_ELEMENTS));
    if (isNull) addNull();
    long to = Platform.BYTE_ARRAY_OFFSET + (long) count * WIDTHS[kind];
    switch (kind) {
      case BOOLEAN:
        if ((count & 7) == 0) data[count >> 3] = 0;
        if (!isNull && Platform.getBoolean(base, slot)) data[count >> 3] |= 1 << (count & 7);
        break;
      case INT8:
        Platform.putByte(data, to, isNull ? (byte) 0 : Platform.getByte(base, slot));
        break;
      case INT16:
        Platform.putShort(data, to, isNull ? (short) 0 : Platform.getShort(base, slot));
        break;
      case INT32:
        Platform.putInt(data, to, isNull ? 0 : Platform.getInt(base, slot));
        break;
      case INT64:
        Platform.putLong(data, to, isNull ? 0 : Platform.getLong(base, slot));
        break;
      case DECIMAL:
        long unscaled = isNull ? 0 : Platform.getLong(base, slot);
        if (unscaled >= bound || unscaled <= -bound) throw tooManyDigits(unscaled);
        Platform.putLong(data, to, unscaled);
        Platform.putLong(data, to + 8, unscaled >> 63);
        break;
      default:
        long offsetAndSize = isNull ? 0 : Platform.getLong(base, slot);
        long from = start + (offsetAndSize >>> 32);
        if (kind == TEXT) addText(base, from, (int) offsetAndSize);
        else if (kind == LARGE_DECIMAL) addDecimal(to, base, from, (int) offsetAndSize);
        else if (kind == STRUCT) addFields(base, from, isNull);
        else addElements(base, from, isNull);
    }
    count++;
  }

  private void addNull() {
    if (nulls++ == 0) Arrays.fill(validity, (byte) -1);
    validity[count >> 3] &= ~(1 << (count & 7));
  }

  private static boolean isNull(Object base, long bits, int i) { return (Platform.getLong(base, bits + ((i >> 6) << 3)) >>> (i & 63) & 1) != 0; }

  /** In Arrow a struct that is null has a value in each child, too. */
  private void addFields(Object base, long start, boolean isNull) {
    long slots = start + UnsafeRow.calculateBitSetWidthInBytes(children.length);
    for (int c = 0; c < children.length; c++) children[c].add(base, start, slots + 8L * c, isNull || isNull(base, start, c));
  }

  private void addElements(Object base, long start, boolean isNull) {
    if (!isNull && kind == LIST) {
      children[0].addArray(base, start);
    } else if (!isNull) { // the bytes of the keys, their array, and that of the values
      children[0].addArray(base, start + 8);
      children[1].addArray(base, start + 8 + Platform.getLong(base, start));
    }
    Platform.putInt(offsets, Platform.BYTE_ARRAY_OFFSET + 4L * (count + 1), children[0].count);
  }

  /** Adds the values of an array: the number of its elements precedes the bits of nulls. */
  private void addArray(Object base, long start) {
    int size = (int) Platform.getLong(base, start), words = (size + 63) >> 6, slot = SLOTS[kind];
    long nullBits = start + 8, slots = nullBits + 8L * words;
    added[0] += (long) size * width;
    reserve((long) count + size);
    boolean isCopy = kind >= INT8 && kind <= INT64;
    for (int w = 0; isCopy && w < words; w++) isCopy = Platform.getLong(base, nullBits + 8L * w) == 0;
    if (isCopy) {
      Platform.copyMemory(base, slots, data, Platform.BYTE_ARRAY_OFFSET + (long) count * slot, (long) size * slot);
      count += size;
    } else {
      for (int i = 0; i < size; i++) add(base, start, slots + (long) i * slot, isNull(base, nullBits, i));
    }
  }

  /** An UnsafeRow has a large decimal as a BigInteger's bytes, the first of which are the most significant; Arrow has the last first. */
  private void addDecimal(long to, Object base, long from, int size) {
    byte sign = size > 0 && Platform.getByte(base, from) < 0 ? (byte) -1 : (byte) 0;
    for (int i = 0; i < 16; i++) Platform.putByte(data, to + i, i < size ? Platform.getByte(base, from + size - 1 - i) : sign);
  }

  /** Spark's reader of Parquet does not look at the digits of decimals in one word; other readers of ours would. */
  private ArithmeticException tooManyDigits(long unscaled) {
    String value = BigDecimal.valueOf(unscaled, ((DecimalType) type).scale()).toPlainString();
    return new ArithmeticException(name + ": the value " + value + " has more digits than " + type.sql() + "; CAST the column to a larger type. Nothing is written");
  }

  private void addText(Object base, long from, int size) {
    long to = Platform.BYTE_ARRAY_OFFSET + textBytes, end = textBytes + padded(size);
    if (end > data.length) data = Arrays.copyOf(data, arraySize(Math.max(end, Math.min(2L * data.length, MOST_ARRAY))));
    // Spark pads values to words of eight bytes, and the next value overwrites the padding; the call for a copy takes 40 ns.
    if (size <= MOST_WORDS_BYTES) for (int i = 0; i < size; i += 8) Platform.putLong(data, to + i, Platform.getLong(base, from + i));
    else Platform.copyMemory(base, from, data, to, size);
    textBytes += size;
    added[0] += size;
    Platform.putInt(offsets, Platform.BYTE_ARRAY_OFFSET + 4L * (count + 1), (int) textBytes);
  }

  /** The bytes that `put` puts. */
  long bytes() {
    long bytes = 8 + (nulls > 0 ? padded((count + 7) / 8) : 0) + padded(offsetBytes()) + padded(dataBytes()) + entriesBytes();
    for (int c = 0; c < children.length; c++) bytes += children[c].bytes();
    return bytes;
  }

  int put(byte[] batch, int end) {
    Platform.putLong(batch, Platform.BYTE_ARRAY_OFFSET + end, nulls);
    end += 8;
    if (nulls > 0) end = copy(validity, (count + 7) / 8, batch, end);
    end = copy(offsets, (int) offsetBytes(), batch, end);
    end = copy(data, (int) dataBytes(), batch, end);
    end += entriesBytes();
    for (int c = 0; c < children.length; c++) end = children[c].put(batch, end);
    return end;
  }

  /** In Arrow the child of a map is a struct, which has only the number of its nulls: 0. */
  private int entriesBytes() { return kind == MAP ? 8 : 0; }

  private long offsetBytes() { return hasOffsets && count > 0 ? 4L * (count + 1) : 0; }

  private long dataBytes() {
    if (kind == TEXT) return textBytes;
    return kind == BOOLEAN ? (count + 7) / 8 : (long) count * WIDTHS[kind];
  }

  private static int copy(byte[] buffer, int size, byte[] batch, int end) {
    System.arraycopy(buffer, 0, batch, end, size);
    return end + (int) padded(size);
  }

  static long padded(long bytes) { return (bytes + 7) & ~7L; }
}
