package sparkarrowipc;

import java.lang.reflect.Constructor;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.arrow.vector.BaseFixedWidthVector;
import org.apache.arrow.vector.BigIntVector;
import org.apache.arrow.vector.DateDayVector;
import org.apache.arrow.vector.DecimalVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.Float4Vector;
import org.apache.arrow.vector.Float8Vector;
import org.apache.arrow.vector.IntVector;
import org.apache.arrow.vector.TimeStampVector;
import org.apache.arrow.vector.ValueVector;
import org.apache.arrow.vector.VarCharVector;
import org.apache.arrow.vector.complex.StructVector;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonCustomMetric$;
import org.apache.spark.sql.execution.datasources.v2.python.PythonCustomTaskMetric;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.sql.execution.datasources.v2.python.PythonPartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource$;
import org.apache.spark.sql.execution.python.ArrowPythonRunner;
import org.apache.spark.sql.execution.python.MapInBatchEvaluatorFactory;
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
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.types.YearMonthIntervalType;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Gives Spark the batches of a Python worker as they arrive, where Spark's own factory cuts them into rows.
 *
 * Runs on executors, which get this class in a jar of the session.
 */
public class Columns implements PartitionReaderFactory {
  private static final long serialVersionUID = 1L;

  private final PartitionReaderFactory inner;

  Columns(PartitionReaderFactory inner) { this.inner = inner; }

  public PartitionReader createReader(InputPartition partition) { return inner.createReader(partition); }

  public boolean supportColumnarReads(InputPartition partition) {
    return reads((StructType) Inside.field(inner, "outputSchema"));
  }

  public PartitionReader createColumnarReader(InputPartition partition) {
    return new Reader((PythonPartitionReaderFactory) inner, (PythonInputPartition) partition);
  }

  private static Boolean isKnownSpark = null;

  /** True if this release of Spark has the classes that `Reader` leans on, and its vectors read every column. */
  static synchronized boolean reads(StructType schema) {
    if (isKnownSpark == null) {
      try {
        runners();
        isKnownSpark = Boolean.TRUE;
      } catch (Throwable error) {
        isKnownSpark = Boolean.FALSE;
      }
    }
    return isKnownSpark.booleanValue() && readsType(schema);
  }

  /** Without void and collations, of which Spark makes no columns again where a pandas UDF is above. */
  private static boolean readsType(DataType type) {
    if (type instanceof StructType) {
      StructField[] fields = ((StructType) type).fields();
      for (int i = 0; i < fields.length; i++) if (!readsType(fields[i].dataType())) return false;
      return true;
    }
    if (type instanceof ArrayType) return readsType(((ArrayType) type).elementType());
    if (type instanceof MapType) return readsType(((MapType) type).keyType()) && readsType(((MapType) type).valueType());
    return type instanceof BooleanType || type instanceof ByteType || type instanceof ShortType || type instanceof IntegerType
      || type instanceof LongType || type instanceof FloatType || type instanceof DoubleType || type instanceof DecimalType
      || Typed.isPlainString(type) || type instanceof BinaryType || type instanceof DateType || type instanceof TimestampType
      || type instanceof TimestampNTZType || type instanceof YearMonthIntervalType
      || type instanceof DayTimeIntervalType;
  }

  /** The constructor of the runner that `MapInBatchEvaluator` makes in `eval`, which would cut its batches into rows. */
  private static Constructor runners() throws ClassNotFoundException {
    Class evaluator = Class.forName("org.apache.spark.sql.execution.python.MapInBatchEvaluatorFactory$MapInBatchEvaluator");
    Constructor[] all = Class.forName(evaluator.getName() + "$$anon$1").getDeclaredConstructors();
    Class[] takes = all[0].getParameterTypes();
    if (all.length != 1 || takes.length != 2 || takes[0] != evaluator || takes[1] != int[][].class) throw new ClassNotFoundException();
    all[0].setAccessible(true);
    return all[0];
  }

  /**
   * A vector that the reader owns: whoever reads a batch does not free it, and it is valid until the next one.
   *
   * It holds an ArrowColumnVector and is none: of those Spark's Python UDFs keep the batches that they wait for
   * (`spark.sql.execution.arrow.pythonUDF.columnarInput.enabled`), and would read them when they are gone.
   *
   * Numbers and strings are read at their addresses, after one look at the sizes of the buffers: Arrow's own getters check
   * each value, and make a BigDecimal of each decimal.
   */
  public static class Lent extends ColumnVector {
    private final ArrowColumnVector inner;
    private final boolean hasNulls;
    private final long values;
    private final long offsets;
    private final boolean isShortDecimal;

    Lent(ValueVector vector) {
      this(vector, new ArrowColumnVector(vector));
    }

    private Lent(ValueVector vector, ArrowColumnVector inner) {
      super(inner.dataType());
      this.inner = inner;
      hasNulls = vector.getNullCount() > 0;
      int rows = vector.getValueCount();
      isShortDecimal = vector instanceof DecimalVector && ((DecimalVector) vector).getPrecision() <= Decimal.MAX_LONG_DIGITS();
      boolean isFixed = isShortDecimal || vector instanceof IntVector || vector instanceof BigIntVector || vector instanceof Float4Vector
        || vector instanceof Float8Vector || vector instanceof DateDayVector || vector instanceof TimeStampVector;
      boolean isText = vector instanceof VarCharVector && rows > 0;
      values = isFixed && ((FieldVector) vector).getDataBuffer().capacity() >= (long) rows * ((BaseFixedWidthVector) vector).getTypeWidth()
        ? ((FieldVector) vector).getDataBufferAddress()
        : isText ? ((FieldVector) vector).getDataBufferAddress() : 0;
      offsets = isText && ((FieldVector) vector).getOffsetBuffer().capacity() >= 4L * (rows + 1) ? ((FieldVector) vector).getOffsetBufferAddress() : 0;
    }

    public void close() {}
    public void closeIfFreeable() {}
    public boolean hasNull() { return hasNulls; }
    public int numNulls() { return inner.numNulls(); }
    public boolean isNullAt(int row) { return hasNulls && inner.isNullAt(row); }
    public boolean getBoolean(int row) { return inner.getBoolean(row); }
    public byte getByte(int row) { return inner.getByte(row); }
    public short getShort(int row) { return inner.getShort(row); }
    public int getInt(int row) { return values == 0 ? inner.getInt(row) : Platform.getInt(null, values + 4L * row); }
    public long getLong(int row) { return values == 0 ? inner.getLong(row) : Platform.getLong(null, values + 8L * row); }
    public float getFloat(int row) { return values == 0 ? inner.getFloat(row) : Platform.getFloat(null, values + 4L * row); }
    public double getDouble(int row) { return values == 0 ? inner.getDouble(row) : Platform.getDouble(null, values + 8L * row); }

    public Decimal getDecimal(int row, int precision, int scale) {
      if (!isShortDecimal || values == 0) return inner.getDecimal(row, precision, scale);
      // The lower half of 16 bytes has the sign too.
      return isNullAt(row) ? null : Decimal.createUnsafe(Platform.getLong(null, values + 16L * row), precision, scale);
    }

    public UTF8String getUTF8String(int row) {
      if (offsets == 0) return inner.getUTF8String(row);
      if (isNullAt(row)) return null;
      int start = Platform.getInt(null, offsets + 4L * row);
      return UTF8String.fromAddress(null, values + start, Platform.getInt(null, offsets + 4L * row + 4) - start);
    }

    public byte[] getBinary(int row) { return inner.getBinary(row); }
    public ColumnarArray getArray(int row) { return inner.getArray(row); }
    public ColumnarMap getMap(int row) { return inner.getMap(row); }
    public ColumnVector getChild(int i) { return inner.getChild(i); }
  }

  public static class Reader implements PartitionReader {
    private final scala.collection.Iterator batches;
    private final scala.collection.immutable.Map metrics;
    private final int width;
    private ColumnarBatch current;

    Reader(PythonPartitionReaderFactory factory, PythonInputPartition partition) {
      metrics = PythonCustomMetric$.MODULE$.pythonMetrics();
      UserDefinedPythonDataSource source = (UserDefinedPythonDataSource) Inside.field(factory, "source");
      StructType schema = (StructType) Inside.field(factory, "outputSchema");
      width = schema.fields().length;
      MapInBatchEvaluatorFactory evaluators = source.createMapInBatchEvaluatorFactory((byte[]) Inside.field(factory, "pickledReadFunc"),
        "read_from_data_source", UserDefinedPythonDataSource$.MODULE$.readInputSchema(), schema, metrics,
        (scala.Option) Inside.field(factory, "jobArtifactUUID"), (scala.Option) Inside.field(factory, "sessionUUID"));
      ArrowPythonRunner runner;
      try {
        runner = (ArrowPythonRunner) runners().newInstance(new Object[] {evaluators.createEvaluator(), new int[][] {{0}}});
      } catch (Exception error) {
        throw new IllegalStateException(error);
      }
      InternalRow row = new GenericInternalRow(new Object[] {new GenericInternalRow(new Object[] {partition.pickedPartition()})});
      TaskContext context = TaskContext.get();
      batches = runner.compute(Inside.iterator(Inside.iterator(row)), context.partitionId(), context);
    }

    public boolean next() {
      current = null;
      if (!batches.hasNext()) return false;
      ColumnarBatch batch = (ColumnarBatch) batches.next();
      StructVector struct = (StructVector) ((ArrowColumnVector) batch.column(0)).getValueVector();
      if (struct.size() != width) throw new IllegalStateException("expected " + width + " columns, found " + struct.size());
      ColumnVector[] columns = new ColumnVector[width];
      for (int i = 0; i < width; i++) columns[i] = new Lent(struct.getVectorById(i));
      current = new ColumnarBatch(columns, batch.numRows());
      return true;
    }

    public Object get() { return current; }

    public void close() {}

    public CustomTaskMetric[] currentMetricsValues() {
      List values = new ArrayList();
      scala.collection.Iterator all = metrics.iterator();
      while (all.hasNext()) {
        scala.Tuple2 one = (scala.Tuple2) all.next();
        // SQLMetric.value() is overloaded by its result alone, which Janino cannot tell apart.
        Object value = ((org.apache.spark.util.AccumulatorV2) one._2()).value();
        values.add(new PythonCustomTaskMetric((String) one._1(), ((Long) value).longValue()));
      }
      return (CustomTaskMetric[]) values.toArray(new CustomTaskMetric[0]);
    }
  }
}
