package sparkarrowipc;

import java.util.Arrays;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomSumMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/**
 * The numbers of files that the SQL tab shows at a scan, by the names that they have at Parquet's.
 *
 * Spark makes a metric by its class in a thread of its own, which finds the classes of an application's jar, and not those
 * of a session of Spark Connect: there they are left out.
 */
public class Metrics {
  public static class FilesRead extends CustomSumMetric {
    public String name() { return "arrowipcFilesRead"; }
    public String description() { return "number of files read"; }
  }

  public static class FilesSkipped extends CustomSumMetric {
    public String name() { return "arrowipcFilesSkipped"; }
    public String description() { return "number of files skipped"; }
  }

  private static class Value implements CustomTaskMetric {
    private final String name;
    private final long value;
    Value(String name, long value) {
      this.name = name;
      this.value = value;
    }
    public String name() { return name; }
    public long value() { return value; }
  }

  private static boolean areFound() {
    return Metrics.class.getClassLoader().getClass().getName().equals("org.apache.spark.util.MutableURLClassLoader");
  }

  /** The metrics of a Python source, and these. */
  static CustomMetric[] of(CustomMetric[] others) {
    if (!areFound()) return others;
    CustomMetric[] all = (CustomMetric[]) Arrays.copyOf(others, others.length + 2);
    all[others.length] = new FilesRead();
    all[others.length + 1] = new FilesSkipped();
    return all;
  }

  static CustomTaskMetric[] of(long read, long skipped) {
    if (!areFound()) return new CustomTaskMetric[0];
    return new CustomTaskMetric[] {new Value(new FilesRead().name(), read), new Value(new FilesSkipped().name(), skipped)};
  }
}
