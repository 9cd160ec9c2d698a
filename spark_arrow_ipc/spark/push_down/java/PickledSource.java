package sparkarrowipc;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.util.Iterator;
import java.util.Map;
import net.razorvine.pickle.Unpickler;
import org.apache.spark.SparkThrowable;
import org.apache.spark.sql.errors.QueryCompilationErrors$;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceCreationResult;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceReadInfo;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.Platform;

/**
 * A Python source that needs one process of Spark's planner.
 *
 * Spark creates a source in one process and plans its reads in another, and each starts by importing PySpark. Here the pickle
 * of the source is a call that creates it (`spark/push_down/pickled_source.py`): a known schema needs no process before the
 * plan, and the process that plans also infers schemas, which it returns as the partition of a plan.
 */
public class PickledSource extends PythonDataSourceV2 {
  private static final String MODULE = "spark_arrow_ipc.spark.push_down.pickled_source";

  private static final int MOST_NAME_BYTES = 200;

  private PythonDataSourceCreationResult created = null;

  public PythonDataSourceCreationResult getOrCreateDataSourceInPython(String name, CaseInsensitiveStringMap options, scala.Option schema) {
    // A class derived from ours may have state that only Spark's way keeps, and Spark plans no read of batches without rows.
    if (!isOurs() || SQLConf.get().arrowMaxRecordsPerBatch() <= 0) return super.getOrCreateDataSourceInPython(name, options, schema);
    if (created == null) created = schema.isDefined() ? new PythonDataSourceCreationResult(call("create", options), (StructType) schema.get()) : infer(options);
    return created;
  }

  /** True if the pickle of the class is its name. */
  private boolean isOurs() {
    byte[] type = type();
    return type.length < MOST_NAME_BYTES && new String(type, StandardCharsets.ISO_8859_1).contains("ArrowIpcDataSource");
  }

  private byte[] type() { return (byte[]) source().dataSourceCls().command().toArray(scala.reflect.ClassTag$.MODULE$.Byte()); }

  private PythonDataSourceCreationResult infer(CaseInsensitiveStringMap options) {
    StructType none = new StructType();
    PythonDataSourceReadInfo plan = null;
    try {
      plan = source().createReadInfoInPython(new PythonDataSourceCreationResult(call("create_to_infer", options), none), none, false);
    } catch (Throwable error) {
      Platform.throwException(ofCreation(error)); // Spark's AnalysisException is none of Java's RuntimeExceptions
    }
    try {
      byte[] json = (byte[]) new Unpickler().loads((byte[]) plan.partitions().apply(0));
      StructType schema = (StructType) DataType.fromJson(new String(json, StandardCharsets.UTF_8));
      return new PythonDataSourceCreationResult(call("create_inferred", options), schema);
    } catch (java.io.IOException error) {
      throw new IllegalStateException(error);
    }
  }

  private byte[] call(String function, CaseInsensitiveStringMap options) {
    ObjectNode json = JsonNodeFactory.instance.objectNode();
    for (Iterator i = options.entrySet().iterator(); i.hasNext();) {
      Map.Entry option = (Map.Entry) i.next();
      json.put((String) option.getKey(), (String) option.getValue());
    }
    return SparkInternals.pickledCall(MODULE, function, type(), json.toString());
  }

  /** Spark's error for a source that cannot be created, of its error for a read that cannot be planned. */
  private static Throwable ofCreation(Throwable error) {
    Object message = error instanceof SparkThrowable ? ((SparkThrowable) error).getMessageParameters().get("msg") : null;
    return message == null ? error : QueryCompilationErrors$.MODULE$.pythonDataSourceError("create", "instance", (String) message);
  }
}
