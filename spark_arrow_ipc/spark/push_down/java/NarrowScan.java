package sparkarrowipc;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayOutputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceReadInfo;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A scan of some columns, and of the rows that some predicates may keep.
 *
 * The files are those of the DataFrame's own plan, which Spark makes once and keeps: one frame has one listing. The
 * function that reads them is made for the scan, from the same source and what was pushed down; tasks decide what they
 * know of that.
 */
public class NarrowScan implements Scan, SupportsReportStatistics, SupportsRuntimeV2Filtering {
  static final String MODULE = "spark_arrow_ipc.spark.push_down.narrow";
  /** Planning what a join may leave out costs more than a table of this size. */
  private static final long SMALL_BYTES = 8 << 20;

  /**
   * Thresholds of joins are set for Parquet's files. The same rows (of TPC-H and TPC-DS) have 1.1 to 1.9 times their bytes with
   * lz4 and 0.9 to 1.1 with zstd, whose scans may be broadcast with half as many rows more: TPC-DS q17, q25, q29 and q72 gain by that.
   */
  private static final double BYTES_BESIDE_PARQUET = 1.5;

  /** What is counted may have to be decoded after all (files without statistics), so that tasks stay several for each core. */
  private static final int TASKS_A_CORE = 4;
  private static final int MOST_COMBINED = 16;

  /** Of the keys that a join found, in all partitions, each of which has them. */
  private static final long MOST_KEYS_BYTES = 64 << 20;

  private final SourceTable table;
  private final CaseInsensitiveStringMap options;
  private final StructType requested;
  private final StructType schema;
  private final Aggregates aggregates;
  private final Conjuncts conjuncts;
  private final List conditions;
  private final int limit;
  private Scan.ColumnarSupportMode mode;
  private ArrayNode ofJoins = JsonNodeFactory.instance.arrayNode();
  private Predicate[] joined = new Predicate[0];
  private List planned = null;
  /** True once the log answers what is asked, so that no file is opened. */
  private boolean isAnswered = false;

  NarrowScan(SourceTable table, CaseInsensitiveStringMap options, StructType schema, Conjuncts conjuncts, List conditions, int limit, Aggregates aggregates, NarrowScan complete) {
    this.table = table;
    this.options = options;
    this.requested = aggregates == null ? schema : aggregates.requested;
    this.schema = aggregates == null ? schema : aggregates.output;
    this.aggregates = aggregates;
    this.conjuncts = conjuncts;
    this.conditions = conditions;
    this.limit = limit;
    planned = complete == null ? null : complete.planned;
    mode = Columns.mode(this.schema);
  }

  public StructType readSchema() { return schema; }

  public String description() {
    StringBuilder text = new StringBuilder("arrowipc [" + String.join(", ", requested.fieldNames()) + "]");
    if (aggregates != null) text.append(" aggregated ").append(aggregates.request.toString());
    for (int i = 0; i < conjuncts.shown.size(); i++) text.append(i == 0 ? " where " : " AND ").append(conjuncts.shown.get(i));
    if (limit >= 0) text.append(" limit ").append(limit);
    return text.append(SourceTable.describePath(options)).toString();
  }

  /** The input partitions of the frame that may have rows of this scan. */
  private List planned() {
    if (planned == null) {
      PythonDataSourceReadInfo whole = table.plan(options);
      try {
        SparkInternals.step("partitions");
        planned = Planned.prune(table.planned(options), conditions, table.schema());
      } catch (Throwable error) {
        SparkInternals.warnOnce("tasks start for all files", error);
        planned = new ArrayList();
        for (int i = 0; i < whole.partitions().length(); i++) planned.add(Planned.unknown((byte[]) whole.partitions().apply(i)));
      }
    }
    return planned;
  }

  private String request() {
    ObjectNode request = JsonNodeFactory.instance.objectNode();
    request.put("schema", requested.json());
    request.put("frame", table.schema().json());
    request.set("conjuncts", conjuncts.nodes);
    if (limit >= 0) request.put("limit", limit);
    if (aggregates != null) {
      request.set("aggregates", aggregates.request);
      request.put("output", schema.json());
    }
    return request.toString();
  }

  /** Spark's own scan, with the partitions of the whole frame and a function that narrows what they read. */
  private Scan python() {
    NarrowSource narrow = new NarrowSource();
    narrow.setShortName(table.name());
    // What is wrong with the files is said here, as without push-down.
    List planned = planned();
    try {
      narrow.plan(narrowed(planned));
    } catch (Throwable error) {
      if (aggregates != null || !conjunctsAreHints()) throw error instanceof RuntimeException ? (RuntimeException) error : new IllegalStateException(error);
      SparkInternals.warnOnce("the columns are planned as a read of their schema", error);
    }
    return ((SupportsRead) narrow.getTable(schema, new Transform[0], options)).newScanBuilder(options).build();
  }

  private boolean conjunctsAreHints() {
    for (int i = 0; i < conjuncts.nodes.size(); i++) if (conjuncts.nodes.get(i).has("exact")) return false;
    return true;
  }

  private PythonDataSourceReadInfo narrowed(List planned) {
    SparkInternals.step("plan");
    byte[] source = table.source(options).getOrCreateDataSourceInPython(table.name(), options, scala.Option.apply(table.schema())).dataSource();
    List partitions = new ArrayList(), together = new ArrayList();
    String keys = ofJoins.toString();
    boolean isPlain = ofJoins.isEmpty() || (long) keys.length() * planned.size() > MOST_KEYS_BYTES;
    double share = 0;
    long nbytes = 0, most = mostNbytes();
    for (int i = 0; i < planned.size(); i++) {
      Planned one = (Planned) planned.get(i);
      if (!one.mayJoin(joined, table.schema()) && (!partitions.isEmpty() || !together.isEmpty() || i + 1 < planned.size())) continue;
      byte[] pickle = one.selectedPickle();
      // What is left of several partitions is read together, up to the files of a complete one.
      if (share + one.share() > 1 || nbytes + pickle.length > most) {
        add(partitions, together);
        share = 0;
        nbytes = 0;
      }
      share += one.share();
      nbytes += pickle.length;
      together.add(isPlain ? pickle : SparkInternals.pickledCall(MODULE, "add_conjuncts", pickle, keys));
    }
    add(partitions, together);
    if (aggregates != null && aggregates.isOfHeaders) {
      isAnswered = isInLog(planned);
      partitions = combined(partitions, isAnswered);
    }
    return new PythonDataSourceReadInfo(SparkInternals.pickledCall(MODULE, "command", source, request()), SparkInternals.seq(partitions));
  }

  /** Of the pickles of partitions that one task reads: Spark refuses a task above its setting, which has more in it. */
  private static long mostNbytes() {
    return (long) SparkContext.getOrCreate().getConf().getInt("spark.rpc.message.maxSize", 128) << 17;
  }

  /** Add one partition that has the rows of some, which are taken from their list. */
  private static void add(List partitions, List together) {
    if (!together.isEmpty()) partitions.add(together.size() == 1 ? together.get(0) : combine(together));
    together.clear();
  }

  private static byte[] combine(List pickles) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    for (int i = 0; i < pickles.size(); i++) bytes.writeBytes((byte[]) pickles.get(i));
    return SparkInternals.pickledCall(MODULE, "combine_partitions", bytes.toByteArray(), Integer.toString(pickles.size()));
  }

  /** True if the log answers the aggregates of all files, as a process that lives for several tasks reads it. */
  private boolean isInLog(List planned) {
    if (!conjuncts.nodes.isEmpty() || !conditions.isEmpty() || !ofJoins.isEmpty()) return false;
    if (!SparkContext.getOrCreate().getConf().getBoolean("spark.python.worker.reuse", true)) return false;
    for (int i = 0; i < planned.size(); i++) if (!((Planned) planned.get(i)).isInLog(aggregates.needed)) return false;
    return true;
  }

  /** Fewer partitions: partitions are made for the bytes of bodies, and a task that reads none costs more than it does. */
  private static List combined(List partitions, boolean isInLog) {
    try {
      SparkInternals.step("combined");
      int cores = cores();
      if (cores == 0 && !isInLog) return partitions;
      int tasks = Math.max(TASKS_A_CORE * cores, (partitions.size() + MOST_COMBINED - 1) / MOST_COMBINED);
      // As many for each core, but one where no file is opened.
      tasks = isInLog ? 1 : (tasks + cores - 1) / cores * cores;
      long nbytes = 0, most = mostNbytes();
      for (int i = 0; i < partitions.size(); i++) nbytes += ((byte[]) partitions.get(i)).length;
      tasks = (int) Math.max(tasks, (nbytes + most - 1) / most);
      if (partitions.size() <= tasks) return partitions;
      List fewer = new ArrayList();
      for (int i = 0; i < tasks; i++) {
        int first = (int) ((long) partitions.size() * i / tasks), end = (int) ((long) partitions.size() * (i + 1) / tasks);
        fewer.add(combine(partitions.subList(first, end)));
      }
      return fewer;
    } catch (Throwable error) {
      SparkInternals.warnOnce("each partition has a task of its own", error);
      return partitions;
    }
  }

  /** The cores that tasks run on; 0 while that is unknown: executors come and go with the work, or none is up yet. */
  private static int cores() {
    SparkContext context = SparkContext.getOrCreate();
    boolean isDynamic = context.getConf().getBoolean("spark.dynamicAllocation.enabled", false);
    // The driver counts as one.
    boolean isUp = context.isLocal() || context.statusTracker().getExecutorInfos().length > 1;
    return isUp && !isDynamic ? context.defaultParallelism() : 0;
  }

  public Batch toBatch() { return new NarrowBatch(python().toBatch(), table, planned, request() + ofJoins, aggregates != null && aggregates.computes); }

  public CustomMetric[] supportedCustomMetrics() { return Metrics.of(table.completeScanBuilder(options).build().supportedCustomMetrics()); }

  /** The files that tasks may open, and all others of the frame. */
  public CustomTaskMetric[] reportDriverMetrics() {
    try {
      SparkInternals.step("metrics");
      List planned = planned();
      long read = isAnswered ? 0 : files(planned, joined), all = files(table.planned(options), new Predicate[0]);
      return read < 0 || all < 0 ? new CustomTaskMetric[0] : Metrics.of(read, all - read);
    } catch (Throwable error) {
      SparkInternals.warnOnce("the SQL tab does not count files", error);
      return new CustomTaskMetric[0];
    }
  }

  private long files(List planned, Predicate[] joined) {
    long files = 0;
    for (int i = 0; i < planned.size(); i++) {
      Planned one = (Planned) planned.get(i);
      if (one.files() < 0 || one.mayBeMixed(conditions, joined)) return -1;
      if (one.mayJoin(joined, table.schema())) files += one.files();
    }
    return files;
  }

  public Scan.ColumnarSupportMode columnarSupportMode() { return mode; }

  /** Spark's own, which gives rows. */
  public MicroBatchStream toMicroBatchStream(String checkpoint) {
    mode = Scan.ColumnarSupportMode.UNSUPPORTED;
    return table.streamScanBuilder(options).build().toMicroBatchStream(checkpoint);
  }

  public Statistics estimateStatistics() {
    long bytes;
    try {
      SparkInternals.step("statistics");
      bytes = bytes();
    } catch (Throwable error) {
      // What is wrong with the files is said when the query runs, as without push-down.
      bytes = -1;
    }
    if (bytes < 0) return new Size(-1);
    // As Spark estimates a projection of a file source: by the default widths of the columns, and its setting for all files.
    double read = SQLConf.get().fileCompressionFactor() * bytes * (8 + requested.defaultSize()) / (8 + table.schema().defaultSize());
    return new Size((long) Math.ceil(read / BYTES_BESIDE_PARQUET));
  }

  /** Bytes of the files, -1 where they are unknown. */
  private long bytes() {
    long bytes = 0;
    List planned = planned();
    for (int i = 0; i < planned.size(); i++) {
      if (((Planned) planned.get(i)).bytes < 0) return -1;
      bytes += ((Planned) planned.get(i)).bytes;
    }
    return bytes;
  }

  public NamedReference[] filterAttributes() {
    // Below an aggregate that tasks compute, a join has nothing to filter.
    if (aggregates != null || isSmall()) return new NamedReference[0];
    List names = Predicates.distinctNames(schema);
    NamedReference[] columns = new NamedReference[names.size()];
    for (int i = 0; i < columns.length; i++) columns[i] = Expressions.column("`" + ((String) names.get(i)).replace("`", "``") + "`");
    return columns;
  }

  private boolean isSmall() {
    try {
      long bytes = bytes();
      return bytes >= 0 && bytes < SMALL_BYTES;
    } catch (Throwable error) {
      return true; // what is wrong with the files is said when the query runs
    }
  }

  public void filter(Predicate[] predicates) {
    ArrayNode fresh = JsonNodeFactory.instance.arrayNode();
    try {
      SparkInternals.step("joins");
      for (int i = 0; i < predicates.length; i++) {
        ObjectNode node = Predicates.predicate(predicates[i]);
        if (node != null) fresh.add(node);
      }
      ofJoins = fresh;
      joined = predicates;
    } catch (Throwable error) {
      SparkInternals.warnOnce("a join filters nothing that is read", error);
    }
  }

  /** Bytes alone, -1 where they are unknown: the rows are in headers, which a plan does not read. */
  public static class Size implements Statistics {
    private final long bytes;
    Size(long bytes) { this.bytes = bytes; }
    public OptionalLong sizeInBytes() { return bytes < 0 ? OptionalLong.empty() : OptionalLong.of(Math.max(1, bytes)); }
    public OptionalLong numRows() { return OptionalLong.empty(); }
  }

  /** Two batches of one frame that ask for the same are equal, so that Spark reads what it exchanges once. */
  public static class NarrowBatch implements Batch {
    private final Batch inner;
    private final SourceTable table;
    private final List planned;
    private final String request;
    private final boolean computes;
    NarrowBatch(Batch inner, SourceTable table, List planned, String request, boolean computes) {
      this.inner = inner;
      this.table = table;
      this.planned = planned;
      this.request = request;
      this.computes = computes;
    }
    public InputPartition[] planInputPartitions() { return inner.planInputPartitions(); }
    public PartitionReaderFactory createReaderFactory() { return new Columns(inner.createReaderFactory(), computes); }
    public boolean equals(Object other) {
      if (!(other instanceof NarrowBatch)) return false;
      NarrowBatch batch = (NarrowBatch) other;
      return batch.table.equals(table) && batch.request.equals(request) && batch.planned.equals(planned);
    }
    public int hashCode() { return request.hashCode(); }
  }
}
