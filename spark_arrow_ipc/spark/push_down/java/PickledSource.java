package sparkarrowipc;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.util.Iterator;
import java.util.Map;
import net.razorvine.pickle.Unpickler;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceCreationResult;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceReadInfo;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A Python source that needs one process of Spark's planner.
 *
 * Spark creates a source in one process and plans its reads in another, and each starts by importing PySpark. Here the pickle
 * of the source is a call that creates it (`spark/push_down/pickled_source.py`): a known schema needs no process before the
 * plan, and the process that plans also infers schemas, which it returns as the partition of a plan.
 */
public class PickledSource extends PythonDataSourceV2 {
  private static final String MODULE = "spark_arrow_ipc.spark.push_down.pickled_source";

  private PythonDataSourceCreationResult created = null;

  public PythonDataSourceCreationResult getOrCreateDataSourceInPython(String name, CaseInsensitiveStringMap options, scala.Option schema) {
    if (created == null) created = schema.isDefined() ? new PythonDataSourceCreationResult(call("create", options), (StructType) schema.get()) : infer(options);
    return created;
  }

  private PythonDataSourceCreationResult infer(CaseInsensitiveStringMap options) {
    StructType none = new StructType();
    PythonDataSourceReadInfo plan = source().createReadInfoInPython(new PythonDataSourceCreationResult(call("create_to_infer", options), none), none, false);
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
    byte[] type = (byte[]) source().dataSourceCls().command().toArray(scala.reflect.ClassTag$.MODULE$.Byte());
    return SparkInternals.pickledCall(MODULE, function, type, json.toString());
  }
}
