package sparkarrowipc;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsDeleteV2;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.SupportsPartitionManagement;
import org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperation;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
import org.apache.spark.sql.connector.write.SupportsDynamicOverwrite;
import org.apache.spark.sql.connector.write.SupportsOverwriteV2;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceReadInfo;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A table that knows the path, options and partitioning that it was made with: its scans read less, and it writes by the Python writer. */
public class SourceTable extends PythonTable implements SupportsRowLevelOperations, SupportsMetadataColumns, SupportsPartitionManagement, SupportsDeleteV2 {
  static final String SETTING = "spark.arrowipc.pushDown";
  private static final String[] OF_COLUMNS = {"columns", "metadataColumns", "metadataOnly", "readChangeFeed"};

  private final StructType schema;
  private final Transform[] partitioning;
  private final CaseInsensitiveStringMap options;
  /** Those of a table of the catalog; null for a path. */
  private final Map properties;
  private final boolean isWrittenByV2;
  /** The name of its entry in Spark's catalog; null for other tables. */
  private Identifier entry = null;
  private Map propertiesOfEntry = null;
  /** The options of the first read that is planned; null before one. */
  private CaseInsensitiveStringMap read = null;
  private boolean isOfStatement;
  /** The option of a former version and its value; null for the newest. */
  private String[] version = null;
  /** The sources of reads, by their options: a source has one listing. */
  private final Map sources = new HashMap();
  /** Their plans, and the partitions of each. */
  private final Map planned = new HashMap();

  SourceTable(Source source, StructType schema, Transform[] partitioning, CaseInsensitiveStringMap options, Map properties, boolean isWrittenByV2) {
    super(source, Source.NAME, schema);
    this.schema = schema;
    this.partitioning = partitioning;
    this.options = options;
    this.properties = properties;
    this.isWrittenByV2 = isWrittenByV2;
    isOfStatement = properties != null;
    sources.put(options, source);
  }

  public Transform[] partitioning() { return partitioning; }

  /** Queries do not ask for them, so that only statements that show or change the table ask the catalog for its entry again. */
  public synchronized Map properties() {
    if (entry != null && propertiesOfEntry == null) propertiesOfEntry = SessionCatalog.propertiesOfEntry(entry, properties);
    if (propertiesOfEntry != null) return propertiesOfEntry;
    return properties == null ? Collections.EMPTY_MAP : properties;
  }

  public Set capabilities() {
    EnumSet capabilities = EnumSet.copyOf(super.capabilities());
    if (!isWrittenByV2) capabilities.remove(TableCapability.BATCH_WRITE); // Spark then calls Source.createRelation
    capabilities.add(TableCapability.OVERWRITE_BY_FILTER); // of partitions; `Writing` refuses others
    capabilities.add(TableCapability.OVERWRITE_DYNAMIC);
    // Spark may read the table once for several subqueries: a scan of more columns has the same rows, as all have one listing.
    TableCapability[] known = TableCapability.values();
    for (int i = 0; i < known.length; i++) if (known[i].name().equals("SCAN_MERGING")) capabilities.add(known[i]); // since Spark 4.3
    return capabilities;
  }

  /** Spark loads a table of the catalog for each query, and looks for it in its cache. */
  public boolean equals(Object other) {
    if (properties == null || !(other instanceof SourceTable)) return this == other;
    SourceTable table = (SourceTable) other;
    return properties.equals(table.properties) && schema.equals(table.schema) && Arrays.equals(version, table.version);
  }

  public int hashCode() { return properties == null ? System.identityHashCode(this) : properties.hashCode(); }

  /** The options of the table, and over them those of a query or a write. */
  CaseInsensitiveStringMap withOptions(CaseInsensitiveStringMap others) {
    Map all = new HashMap(options.asCaseSensitiveMap());
    for (Iterator i = others.asCaseSensitiveMap().entrySet().iterator(); i.hasNext();) {
      Map.Entry option = (Map.Entry) i.next();
      Source.setOption(all, (String) option.getKey(), (String) option.getValue());
    }
    Source.removeOption(all, Source.SECOND_WRITE);
    if (version != null) { // which Spark has taken from an option of the query
      Source.removeOption(all, "versionAsOf");
      Source.removeOption(all, "timestampAsOf");
      all.put(version[0], version[1]);
    }
    return new CaseInsensitiveStringMap(all);
  }

  synchronized PythonDataSourceV2 source(CaseInsensitiveStringMap options) {
    if (!sources.containsKey(options)) {
      PythonDataSourceV2 source = new PickledSource();
      source.setShortName(Source.NAME);
      sources.put(options, source);
    }
    return (PythonDataSourceV2) sources.get(options);
  }

  /** The plan of the complete read: Spark keeps it in the source, so that all scans of the table have one listing. */
  PythonDataSourceReadInfo plan(CaseInsensitiveStringMap options) {
    if (read == null) read = options; // two reads may have different options, and the first state is the older one
    return source(options).getOrCreateReadInfo(Source.NAME, options, schema, false);
  }

  /** The input partitions of that plan with what their notes say, which all scans of the table share. */
  synchronized List planned(CaseInsensitiveStringMap options) throws java.io.IOException {
    PythonDataSourceReadInfo whole = plan(options);
    Object[] known = (Object[]) planned.get(options);
    if (known != null && known[0] == whole) return (List) known[1];
    List all = new ArrayList();
    for (int i = 0; i < whole.partitions().length(); i++) all.add(Planned.of((byte[]) whole.partitions().apply(i)));
    planned.put(options, new Object[] {whole, all});
    return all;
  }

  /** A former version of this table of the catalog, with the columns of today. */
  SourceTable asOf(String option, String value) {
    SourceTable table = new SourceTable(new Source(), schema, partitioning, options, properties, isWrittenByV2);
    table.version = new String[] {option, value};
    table.entry = entry;
    return table;
  }

  /** This table, which Spark's catalog has loaded by a name. */
  SourceTable ofEntry(Identifier name) {
    entry = name;
    return this;
  }

  /** This table, which a catalog has loaded for one statement. Views and DataFrames keep tables for many. */
  SourceTable ofStatement() {
    isOfStatement = true;
    return this;
  }

  String path() { return canonicalPath(options.get("path")); }

  /** One text of all that name a path: one of a disk has a scheme, or none, and slashes may be double or at the end. */
  static String canonicalPath(Object path) {
    String text = String.valueOf(path);
    try {
      text = new Path(text).toString();
    } catch (IllegalArgumentException error) {
      // Such as no text at all: it is compared as it is.
    }
    return text.startsWith("file:/") ? text.substring(5) : text;
  }

  /** What `explain` shows of the files: their path or paths, without the names and passwords that a URL may have. */
  static String describePath(CaseInsensitiveStringMap options) {
    String paths = (String) options.getOrDefault("path", options.get("paths"));
    return paths == null ? "" : ", path " + paths.replaceAll("(?<=://)[^\\s\",]*@", "***@");
  }

  /** The options of the first read that is planned; null before one. */
  CaseInsensitiveStringMap read() { return read; }

  /** The table that has the state on which a write relies. */
  SourceTable base() { return this; }

  /** The options of a read by the statement that now writes; null if it has not read the table. */
  CaseInsensitiveStringMap readOfStatement() { return isOfStatement ? read : null; }

  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap others) {
    // Spark has the columns of the table by now, and passes options to scans alone.
    for (int i = 0; i < OF_COLUMNS.length; i++) {
      Object chosen = others.get(OF_COLUMNS[i]);
      if (chosen != null && !chosen.equals(options.get(OF_COLUMNS[i])))
        throw new UnsupportedOperationException("the option " + OF_COLUMNS[i] + " changes the columns, and those of a table with a name stay: load its path with the option");
    }
    CaseInsensitiveStringMap all = withOptions(others);
    return isNarrowed(all) ? new NarrowScanBuilder(this, all) : completeScanBuilder(all);
  }

  private boolean isNarrowed(CaseInsensitiveStringMap options) {
    // Columns that the option `columns` chose by position (#0) may have names that stand for others in the files.
    return schema.length() > 0 && !((String) options.getOrDefault("columns", "")).contains("#")
      && isOn();
  }

  /** True if the session leaves the work of this source to it. */
  static boolean isOn() { return "true".equalsIgnoreCase(SQLConf.get().getConfString(SETTING, "true")); }

  public RowLevelOperationBuilder newRowLevelOperationBuilder(RowLevelOperationInfo info) {
    CaseInsensitiveStringMap all = withOptions(info.options());
    if (!isNarrowed(all))
      throw new UnsupportedOperationException("DELETE, UPDATE and MERGE find files by push-down: set " + SETTING + "=true, and remove the option columns from the table");
    return new RowStatement(this, info.command(), all);
  }

  /** Only DELETE without a condition, which Spark otherwise takes for TRUNCATE TABLE; `RowStatement` has all others. */
  public boolean canDeleteWhere(Predicate[] predicates) {
    for (int i = 0; i < predicates.length; i++) if (!predicates[i].name().equals("ALWAYS_TRUE")) return false;
    return true;
  }

  public void deleteWhere(Predicate[] predicates) { deleteWhere(predicates, CaseInsensitiveStringMap.empty()); }

  /** Spark passes options since 4.3. */
  public void deleteWhere(Predicate[] predicates, CaseInsensitiveStringMap others) {
    new RowStatement(this, RowLevelOperation.Command.DELETE, withOptions(others)).deleteAll();
  }

  /** For statements, which change tables of catalogs. Scans without push-down have only the columns of the schema. */
  public MetadataColumn[] metadataColumns() {
    boolean hasFilePath = isOfStatement && isNarrowed(options) && schema.getFieldIndex(RowStatement.FILE_PATH).isEmpty();
    return hasFilePath ? new MetadataColumn[] {new RowStatement.FilePath()} : new MetadataColumn[0];
  }

  /** Spark does not say whether a stream reads the metadata column, which is the last one of its rows, so that each has it. */
  ScanBuilder streamScanBuilder(CaseInsensitiveStringMap options) {
    if (metadataColumns().length == 0) return completeScanBuilder(options);
    Map all = new HashMap(options.asCaseSensitiveMap());
    all.put("metadataColumns", "true");
    CaseInsensitiveStringMap withFilePath = new CaseInsensitiveStringMap(all);
    StructType columns = schema.add(RowStatement.FILE_PATH, DataTypes.StringType);
    return new PythonTable(source(withFilePath), Source.NAME, columns).newScanBuilder(withFilePath);
  }

  /** An overwrite by no rows, which is one commit. */
  public boolean truncateTable() {
    Map all = new HashMap(options.asCaseSensitiveMap());
    all.put(Source.SECOND_WRITE, "true");
    Source.setOption(all, "partitionOverwriteMode", "static"); // all partitions
    if (partitioning.length > 0) all.put("partitionBy", Partitions.names(partitioning));
    SparkSession session = SparkSession.active();
    session.createDataFrame(Collections.EMPTY_LIST, schema).write().format(Source.NAME).options(all).mode(SaveMode.Overwrite).save();
    return true;
  }

  public StructType partitionSchema() {
    StructField[] fields = new StructField[partitioning.length];
    for (int i = 0; i < fields.length; i++) fields[i] = schema.apply(partitioning[i].references()[0].fieldNames()[0]);
    return new StructType(fields);
  }

  /** For SHOW PARTITIONS: the partitions that have rows, of those with the given values. */
  public InternalRow[] listPartitionIdentifiers(String[] names, InternalRow values) {
    Dataset rows = SparkSession.active().read().format(Source.NAME).schema(schema).options(withOptions(CaseInsensitiveStringMap.empty()).asCaseSensitiveMap()).load();
    StructType all = partitionSchema();
    Column[] columns = new Column[all.length()];
    for (int i = 0; i < columns.length; i++) columns[i] = rows.col(Partitions.backticked(all.fields()[i].name()));
    InternalRow[] partitions = rows.select(columns).distinct().orderBy(columns).queryExecution().executedPlan().executeCollect();
    List chosen = new ArrayList();
    for (int p = 0; p < partitions.length; p++) {
      boolean isChosen = true;
      for (int i = 0; i < names.length; i++) {
        int column = all.fieldIndex(names[i]);
        DataType type = all.fields()[column].dataType();
        isChosen = isChosen && Objects.equals(values.get(i, type), partitions[p].get(column, type));
      }
      if (isChosen) chosen.add(partitions[p]);
    }
    return (InternalRow[]) chosen.toArray(new InternalRow[0]);
  }

  public void createPartition(InternalRow values, Map properties) {
    throw new UnsupportedOperationException("a partition is there when it has rows: use INSERT INTO; nothing is changed");
  }

  public boolean dropPartition(InternalRow values) {
    throw new UnsupportedOperationException("use DELETE FROM with a condition on the partition columns; nothing is changed");
  }

  public void replacePartitionMetadata(InternalRow values, Map properties) {
    throw new UnsupportedOperationException("a partition has no properties; nothing is changed");
  }

  public Map loadPartitionMetadata(InternalRow values) { return Collections.EMPTY_MAP; }

  /** Spark's own, which reads all columns and rows. */
  ScanBuilder completeScanBuilder(CaseInsensitiveStringMap options) {
    return new PythonTable(source(options), Source.NAME, schema).newScanBuilder(options);
  }

  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) { return new Writing(this, info, writeOptions(info.options())); }

  private Map writeOptions(CaseInsensitiveStringMap options) {
    Map all = new HashMap(withOptions(options).asCaseSensitiveMap());
    StructField[] partitions = partitionSchema().fields();
    for (int i = 0; properties != null && i < partitions.length; i++) Partitions.check(partitions[i].name(), partitions[i].dataType());
    if (partitioning.length > 0) {
      Object chosen = new CaseInsensitiveStringMap(all).get("partitionBy");
      String columns = Partitions.names(partitioning);
      // A view may have both: the option is for the first write, and the path is partitioned after it.
      if (chosen != null && !chosen.equals(columns) && !(partitioning.length == 1 && chosen.equals(partitioning[0].references()[0].fieldNames()[0])))
        throw new IllegalArgumentException("the table is partitioned by " + columns + ", and the option partitionBy is " + chosen + ": remove the option");
      Source.setOption(all, "partitionBy", columns);
    }
    return all;
  }

  /** A write whose rows replace all others, also of other partitions. */
  WriteBuilder newReplacement(LogicalWriteInfo info) { return newWriting(info, "partitionOverwriteMode", "static").truncate(); }

  /** A write of the first rows, which fails if another job has written some since. */
  WriteBuilder newCreation(LogicalWriteInfo info) {
    Writing writing = newWriting(info, "ifExists", "error");
    writing.isFirst = true;
    return writing;
  }

  private Writing newWriting(LogicalWriteInfo info, String option, String value) {
    Map options = new HashMap(info.options().asCaseSensitiveMap());
    Source.setOption(options, option, value);
    return new Writing(this, info, writeOptions(new CaseInsensitiveStringMap(options)));
  }

  private WriteBuilder pythonWriteBuilder(LogicalWriteInfo info) { return super.newWriteBuilder(info); }

  /** Chooses the options of a write, and leaves the write to the Python writer. */
  public static class Writing implements SupportsOverwriteV2, SupportsDynamicOverwrite {
    private final SourceTable table;
    private final LogicalWriteInfo info;
    private final Map options;
    private boolean isOverwrite = false;
    /** Spark also truncates a table that it has just created. */
    private boolean isFirst = false;

    Writing(SourceTable table, LogicalWriteInfo info, Map options) {
      this.table = table;
      this.info = info;
      this.options = options;
    }

    public WriteBuilder truncate() {
      isOverwrite = !isFirst;
      return this;
    }

    /** A table without partitions is one. */
    public WriteBuilder overwriteDynamicPartitions() {
      if (table.partitioning.length == 0) return truncate();
      Predicate[] partition = StaticPartition.ofRunningStatement(table);
      return partition == null ? overwritePartitions() : overwrite(partition);
    }

    /** INSERT OVERWRITE of one partition: what is in it goes, and the new rows come, also where there are none. */
    public WriteBuilder overwrite(Predicate[] predicates) {
      options.put("arrowipc.overwrittenPartition", Partitions.pairs(table.partitioning, predicates));
      return overwritePartitions();
    }

    private WriteBuilder overwritePartitions() {
      Source.setOption(options, "partitionOverwriteMode", "dynamic");
      return truncate();
    }

    public Write build() {
      WriteInfo chosen = new WriteInfo(info, new CaseInsensitiveStringMap(options));
      return new StatementInsert(table.base(), chosen, table.pythonWriteBuilder(chosen), isOverwrite);
    }
  }

  /** What Spark says of a write, with other options. */
  public static class WriteInfo implements LogicalWriteInfo {
    private final LogicalWriteInfo info;
    private final CaseInsensitiveStringMap options;

    WriteInfo(LogicalWriteInfo info, CaseInsensitiveStringMap options) {
      this.info = info;
      this.options = options;
    }

    public CaseInsensitiveStringMap options() { return options; }
    public String queryId() { return info.queryId(); }
    public StructType schema() { return info.schema(); }
    public Optional rowIdSchema() { return info.rowIdSchema(); }
    public Optional metadataSchema() { return info.metadataSchema(); }
  }
}
