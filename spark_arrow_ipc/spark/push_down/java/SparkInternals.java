package sparkarrowipc;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** What the other classes share: Scala's collections, private fields of Spark's classes, pickles, one warning. */
public class SparkInternals {
  private static final Logger LOG = LoggerFactory.getLogger("spark_arrow_ipc.push_down");
  private static boolean warned = false;
  private static volatile String failing = null;

  /** Where tests let it fail, to see that the query answers as without it. */
  static void step(String name) {
    if (name.equals(failing)) throw new IllegalStateException("as asked, at " + name);
  }

  public static synchronized void failAt(String name) {
    failing = name;
    warned = false;
  }

  static scala.collection.immutable.Seq seq(List list) {
    return ((scala.collection.mutable.Buffer) scala.jdk.javaapi.CollectionConverters.asScala(list)).toSeq();
  }

  static scala.collection.Iterator iterator(Object only) {
    return (scala.collection.Iterator) scala.jdk.javaapi.CollectionConverters.asScala(Collections.singletonList(only).iterator());
  }

  /** The plan of the statement that this thread runs; null if it runs none. */
  static LogicalPlan runningStatement() {
    String id = SparkSession.active().sparkContext().getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
    QueryExecution execution = id == null ? null : SQLExecution.getQueryExecution(Long.parseLong(id));
    return execution == null ? null : execution.logical();
  }

  /** The value of a private field. */
  static Object field(Object of, String name) { return value(field(of.getClass(), name), of); }

  /** A private field; Scala puts the class before the name of one that inner classes use. */
  static Field field(Class type, String name) {
    Field[] fields = type.getDeclaredFields();
    for (int i = 0; i < fields.length; i++) {
      if (fields[i].getName().equals(name) || fields[i].getName().endsWith("$$" + name)) {
        fields[i].setAccessible(true);
        return fields[i];
      }
    }
    throw new IllegalStateException(type + " has no field " + name);
  }

  static Object value(Field field, Object of) {
    try {
      return field.get(of);
    } catch (IllegalAccessException error) {
      throw new IllegalStateException(error);
    }
  }

  /** The pickle of a call of a function of a Python module with bytes and a string. */
  static byte[] pickledCall(String module, String function, byte[] first, String second) {
    try {
      ByteArrayOutputStream bytes = new ByteArrayOutputStream();
      DataOutputStream out = new DataOutputStream(bytes);
      byte[] text = second.getBytes(StandardCharsets.UTF_8);
      out.write(new byte[] {(byte) 0x80, 3}); // PROTO 3
      out.write(("c" + module + "\n" + function + "\n").getBytes(StandardCharsets.UTF_8)); // GLOBAL
      out.write('B'); // BINBYTES
      out.writeInt(Integer.reverseBytes(first.length));
      out.write(first);
      out.write('X'); // BINUNICODE
      out.writeInt(Integer.reverseBytes(text.length));
      out.write(text);
      out.write(new byte[] {(byte) 0x86, 'R', '.'}); // TUPLE2, REDUCE, STOP
      return bytes.toByteArray();
    } catch (IOException error) {
      throw new IllegalStateException(error);
    }
  }

  static synchronized void warnOnce(String consequence, Throwable error) {
    if (warned) return;
    warned = true;
    LOG.warn("arrowipc's push-down failed, and " + consequence + "; please report this, and spark.conf.set(\"" + SourceTable.SETTING
      + "\", \"false\") turns it off", error);
  }
}
