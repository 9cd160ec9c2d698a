package sparkarrowipc;

import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.DataFrameWriter;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CreatableRelationProvider;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.MetadataBuilder;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The source `arrowipc` of the JVM, which plans and writes by the Python source of the same name.
 *
 * Spark finds it by META-INF/services of the jar, and prefers it to the Python source. Spark creates one for each read, write
 * and load of a table, and the order of its calls says which: it infers a schema or a partitioning for reads and new tables.
 */
public class Source extends PickledSource implements DataSourceRegister, CreatableRelationProvider {
  static final String NAME = "arrowipc";
  /** The option of the write that `createRelation` starts: its table is written as one of V2. */
  static final String SECOND_WRITE = "arrowipc.secondwrite";
  /** The option that tells the Python source for what this jar was made. */
  private static final String RELEASE_OPTION = "arrowipc.release";
  /** The option of the reads of a table of the catalog, which may have no files yet. */
  static final String TABLE_OPTION = "arrowipc.table";
  private static final String PARTITION_COLUMNS = "__partition_columns";
  private static final String CLUSTERING_COLUMNS = "__clustering_columns";

  private static final String PARTITION_MARK = "arrowipc.partition";

  /** The partition columns of the last schema that was inferred, by their positions. */
  private final Map partitioning = new TreeMap();
  private boolean hasInferred = false;

  public Source() { super.setShortName(NAME); }

  public String shortName() { return NAME; }

  /** Spark names the Python sources that it finds; this one has its name. */
  public void setShortName(String name) {}

  /** Those of the last schema that was inferred; a read with a schema of its own has none. */
  public Transform[] inferPartitioning(CaseInsensitiveStringMap options) {
    hasInferred = true;
    return (Transform[]) partitioning.values().toArray(new Transform[0]);
  }

  public StructType inferSchema(CaseInsensitiveStringMap options) { return inferSchema(options, false); }

  /** A partition column of nulls alone is void in a read of a path, as in Spark's own; in a statement it takes strings. */
  StructType inferSchema(CaseInsensitiveStringMap options, boolean isStatement) {
    hasInferred = true;
    return withoutMarks(super.inferSchema(withRelease(isOfCatalog(options) ? optionsOfCatalog(options) : new HashMap(options.asCaseSensitiveMap()))), isStatement);
  }

  /** The Python source marks partition columns, as a planner that is asked for them alone is another process. */
  private StructType withoutMarks(StructType schema, boolean isStatement) {
    partitioning.clear();
    StructField[] fields = schema.fields();
    for (int i = 0; i < fields.length; i++) {
      if (!fields[i].metadata().contains(PARTITION_MARK)) continue;
      partitioning.put(Long.valueOf(fields[i].metadata().getLong(PARTITION_MARK)), Expressions.identity(Partitions.backticked(fields[i].name())));
      Metadata metadata = new MetadataBuilder().withMetadata(fields[i].metadata()).remove(PARTITION_MARK).build();
      DataType type = isStatement && fields[i].dataType().equals(DataTypes.NullType) ? DataTypes.StringType : fields[i].dataType();
      fields[i] = new StructField(fields[i].name(), type, fields[i].nullable(), metadata);
    }
    return new StructType(fields);
  }

  public Table getTable(StructType schema, Transform[] partitioning, Map properties) {
    // Spark checks a new table of the catalog with a map of its own, after it has inferred the partitioning.
    boolean isNew = properties instanceof CaseInsensitiveStringMap;
    if (isNew) Partitions.names(partitioning);
    boolean isLoaded = SessionCatalog.loads();
    boolean isOurs = SessionCatalog.class.getName().equals(SQLConf.get().getConfString(SessionCatalog.SETTING, ""));
    if (isOfCatalog(properties) && !isLoaded && !isOurs)
      throw new UnsupportedOperationException("a table of Spark's catalog is safe only with " + SessionCatalog.SETTING + "=" + SessionCatalog.class.getName() + ", which register(spark) sets where there is no other: set it, or name the table by its path, arrowipc.`/data/t`");
    if (isOfCatalog(properties) && !isLoaded && !isNew)
      throw new IllegalArgumentException("provider and owner are properties of tables of the catalog, and no options: remove them");
    if (isLoaded || isOfCatalog(properties))
      return new SourceTable(this, schema, partitioning, withRelease(optionsOfCatalog(properties)), properties, true);
    Map options = new HashMap(properties);
    boolean isSecondWrite = removeOption(options, SECOND_WRITE);
    return new SourceTable(this, schema, partitioning, withRelease(options), null, hasInferred || isSecondWrite);
  }

  /** Spark stores both with each table of its catalog. */
  private static boolean isOfCatalog(Map properties) {
    return NAME.equalsIgnoreCase((String) properties.get(TableCatalog.PROP_PROVIDER)) && properties.containsKey(TableCatalog.PROP_OWNER);
  }

  /** The OPTIONS of a table of the catalog and its path, without the other properties. */
  static Map optionsOfCatalog(Map properties) {
    Map options = new HashMap();
    for (Iterator i = properties.entrySet().iterator(); i.hasNext();) {
      Map.Entry property = (Map.Entry) i.next();
      String key = (String) property.getKey();
      if (key.startsWith(TableCatalog.OPTION_PREFIX)) options.put(key.substring(TableCatalog.OPTION_PREFIX.length()), property.getValue());
    }
    Object path = properties.get("path") != null ? properties.get("path") : properties.get(TableCatalog.PROP_LOCATION);
    if (path != null) options.put("path", path);
    options.put(TABLE_OPTION, "true");
    return options;
  }

  /** The path of a table of a catalog and the options of its store, by which all of its files are found. */
  static Map locationOf(Map all) {
    Map options = new HashMap(all);
    for (Iterator i = options.keySet().iterator(); i.hasNext();) {
      String name = ((String) i.next()).toLowerCase();
      if (!name.equals("path") && !name.startsWith("storage.") && !name.equals(TABLE_OPTION)) i.remove();
    }
    return options;
  }

  static CaseInsensitiveStringMap withRelease(Map options) {
    setOption(options, RELEASE_OPTION, Release.NAME);
    return new CaseInsensitiveStringMap(options);
  }

  /** Whether the Python source has raised that there are no files. */
  static boolean saysNoFiles(Exception error) { return error.getMessage() != null && error.getMessage().contains("NoFilesError: "); }

  /** Sets an option, which may have been given in other letters. */
  static void setOption(Map options, String name, String value) {
    removeOption(options, name);
    options.put(name, value);
  }

  static boolean removeOption(Map options, String name) {
    boolean isThere = false;
    for (Iterator i = options.keySet().iterator(); i.hasNext();) {
      if (!((String) i.next()).equalsIgnoreCase(name)) continue;
      i.remove();
      isThere = true;
    }
    return isThere;
  }

  /** `save` in each of Spark's modes: Spark hands over the mode where the table lacks BATCH_WRITE. */
  public BaseRelation createRelation(SQLContext context, SaveMode mode, scala.collection.immutable.Map parameters, Dataset data) {
    Map options = new HashMap(scala.jdk.javaapi.CollectionConverters.asJava(parameters));
    if (options.containsKey(CLUSTERING_COLUMNS))
      throw new UnsupportedOperationException("arrowipc has no clustered files: remove clusterBy, and sort the rows before the write");
    CaseInsensitiveStringMap chosen = new CaseInsensitiveStringMap(options);
    String ifExists = mode == SaveMode.ErrorIfExists ? "error" : mode == SaveMode.Ignore ? "ignore" : null;
    if (ifExists != null && !ifExists.equalsIgnoreCase((String) chosen.getOrDefault("ifExists", ifExists)))
      throw new IllegalArgumentException("ifExists=" + chosen.get("ifExists") + " contradicts the mode " + mode + " (Spark's default is ErrorIfExists): give mode append with it");
    String columns = (String) options.remove(PARTITION_COLUMNS);
    if (columns != null && chosen.containsKey("partitionBy"))
      throw new IllegalArgumentException("the write has partitionBy as a call and as an option: remove one");
    if (columns != null) options.put("partitionBy", Partitions.names(columns));
    if (ifExists != null) options.put("ifExists", ifExists);
    options.put(SECOND_WRITE, "true");
    DataFrameWriter writer = data.write().format(NAME).options(options);
    writer.mode(mode == SaveMode.Overwrite ? SaveMode.Overwrite : SaveMode.Append).save();
    return new WrittenRelation(context, data.schema());
  }

  public boolean supportsDataType(DataType type) { return true; } // the writer says what it cannot write

  /** Spark looks for it in its cache, and finds nothing. */
  public static class WrittenRelation extends BaseRelation {
    private final SQLContext context;
    private final StructType schema;

    WrittenRelation(SQLContext context, StructType schema) {
      this.context = context;
      this.schema = schema;
    }

    public SQLContext sqlContext() { return context; }
    public StructType schema() { return schema; }
  }
}
