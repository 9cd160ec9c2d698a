package sparkarrowipc;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
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
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceReadInfo;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
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
  private static final String MODULE = "spark_arrow_ipc.spark.push_down.narrow";
  private static final Pattern SIZE = Pattern.compile("arrowipc-size:(\\d+):");

  private final NarrowTable table;
  private final CaseInsensitiveStringMap options;
  private final StructType asked;
  private final StructType schema;
  private final Aggregates aggregates;
  private final Conjuncts conjuncts;
  private final int limit;
  private ArrayNode ofJoins = JsonNodeFactory.instance.arrayNode();

  NarrowScan(NarrowTable table, CaseInsensitiveStringMap options, StructType schema, Conjuncts conjuncts, int limit, Aggregates aggregates) {
    this.table = table;
    this.options = options;
    this.asked = aggregates == null ? schema : aggregates.asked;
    this.schema = aggregates == null ? schema : aggregates.output;
    this.aggregates = aggregates;
    this.conjuncts = conjuncts;
    this.limit = limit;
  }

  public StructType readSchema() { return schema; }

  public String description() {
    StringBuilder text = new StringBuilder("arrowipc [" + String.join(", ", asked.fieldNames()) + "]");
    if (aggregates != null) text.append(" aggregated ").append(aggregates.request.toString());
    for (int i = 0; i < conjuncts.shown.size(); i++) text.append(i == 0 ? " where " : " AND ").append(conjuncts.shown.get(i));
    if (limit >= 0) text.append(" limit ").append(limit);
    return text.toString();
  }

  /** The plan of the whole frame: Spark keeps it in the source, so that each scan of the frame has the same files. */
  private PythonDataSourceReadInfo wholePlan() {
    return table.source().getOrCreateReadInfo(table.name(), options, table.schema(), false);
  }

  private String request() {
    ObjectNode request = JsonNodeFactory.instance.objectNode();
    request.put("schema", asked.json());
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
    PythonDataSourceV2 narrow = new PythonDataSourceV2();
    narrow.setShortName(table.name());
    // What is wrong with the files is said here, as without this rule.
    PythonDataSourceReadInfo whole = wholePlan();
    try {
      narrow.setReadInfo(narrowed(whole));
    } catch (Throwable error) {
      if (aggregates != null || !conjunctsAreHints()) throw error instanceof RuntimeException ? (RuntimeException) error : new IllegalStateException(error);
      Inside.warnOnce("the columns are planned as a read of their schema", error);
    }
    return ((SupportsRead) narrow.getTable(schema, new Transform[0], options)).newScanBuilder(options).build();
  }

  private boolean conjunctsAreHints() {
    for (int i = 0; i < conjuncts.nodes.size(); i++) if (conjuncts.nodes.get(i).has("exact")) return false;
    return true;
  }

  private PythonDataSourceReadInfo narrowed(PythonDataSourceReadInfo whole) {
    Inside.step("plan");
    byte[] source = table.source().getOrCreateDataSourceInPython(table.name(), options, scala.Option.apply(table.schema())).dataSource();
    List partitions = new ArrayList();
    for (int i = 0; i < whole.partitions().length(); i++) {
      byte[] partition = (byte[]) whole.partitions().apply(i);
      partitions.add(ofJoins.isEmpty() ? partition : Inside.pickledCall(MODULE, "filtered", partition, ofJoins.toString()));
    }
    return new PythonDataSourceReadInfo(Inside.pickledCall(MODULE, "command", source, request()), Inside.seq(partitions));
  }

  public Batch toBatch() { return new NarrowBatch(python().toBatch(), table, request() + ofJoins); }

  public CustomMetric[] supportedCustomMetrics() { return table.table.newScanBuilder(options).build().supportedCustomMetrics(); }

  public Scan.ColumnarSupportMode columnarSupportMode() {
    return Columns.reads(schema) ? Scan.ColumnarSupportMode.SUPPORTED : Scan.ColumnarSupportMode.UNSUPPORTED;
  }

  public Statistics estimateStatistics() {
    long bytes = 0;
    try {
      Inside.step("statistics");
      PythonDataSourceReadInfo whole = wholePlan();
      for (int i = 0; i < whole.partitions().length(); i++) {
        Matcher size = SIZE.matcher(new String((byte[]) whole.partitions().apply(i), StandardCharsets.ISO_8859_1));
        if (!size.find()) return new Size(-1);
        bytes += Long.parseLong(size.group(1));
      }
    } catch (Throwable error) {
      // What is wrong with the files is said when the query runs, as without this rule.
      return new Size(-1);
    }
    // As Spark estimates a projection of a file source: by the default widths of the columns.
    return new Size((long) Math.ceil((double) bytes * (8 + asked.defaultSize()) / (8 + table.schema().defaultSize())));
  }

  public NamedReference[] filterAttributes() {
    // Below an aggregate that tasks compute, a join has nothing to filter.
    String[] names = aggregates == null ? schema.fieldNames() : new String[0];
    NamedReference[] columns = new NamedReference[names.length];
    for (int i = 0; i < names.length; i++) columns[i] = Expressions.column("`" + names[i].replace("`", "``") + "`");
    return columns;
  }

  public void filter(Predicate[] predicates) {
    ArrayNode fresh = JsonNodeFactory.instance.arrayNode();
    try {
      Inside.step("joins");
      for (int i = 0; i < predicates.length; i++) {
        ObjectNode node = Typed.predicate(predicates[i]);
        if (node != null) fresh.add(node);
      }
      ofJoins = fresh;
    } catch (Throwable error) {
      Inside.warnOnce("a join filters nothing that is read", error);
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
    private final NarrowTable table;
    private final String request;
    NarrowBatch(Batch inner, NarrowTable table, String request) { this.inner = inner; this.table = table; this.request = request; }
    public InputPartition[] planInputPartitions() { return inner.planInputPartitions(); }
    public PartitionReaderFactory createReaderFactory() { return new Columns(inner.createReaderFactory()); }
    public boolean equals(Object other) {
      return other instanceof NarrowBatch && ((NarrowBatch) other).table.equals(table) && ((NarrowBatch) other).request.equals(request);
    }
    public int hashCode() { return request.hashCode(); }
  }
}
