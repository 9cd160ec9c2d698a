package sparkarrowipc;

import java.time.Instant;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.Platform;

/**
 * The catalog of `spark.sql.catalog.arrowipc`, whose tables are named by their paths: arrowipc.`/data/flights`.
 *
 * The files are all that there is of a table. A path without any is no table, and the first write makes it one; commands that
 * would write nothing are refused, and so are those that would delete files.
 *
 * Spark loads a table before it knows the options of a statement, so that those of its storage are of the catalog:
 * spark.sql.catalog.arrowipc.storage.endpoint.
 */
public class Catalog implements StagingTableCatalog {
  private String name;
  private final Map storage = new HashMap();

  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
    for (Iterator i = options.entrySet().iterator(); i.hasNext();) {
      Map.Entry option = (Map.Entry) i.next();
      String key = (String) option.getKey();
      if (!key.startsWith("storage.")) throw new IllegalArgumentException("the catalog " + name + " has options that begin with storage., and none with the name " + key + ": remove it");
      storage.put(key, option.getValue());
    }
  }

  public String name() { return name; }

  /** Directories are not searched for tables. */
  public Identifier[] listTables(String[] namespace) { return new Identifier[0]; }

  /** For a read, whose error names the path. */
  public Table loadTable(Identifier table) { return load(table, new HashMap()); }

  /** For a write: Spark creates a table that is not there. */
  public Table loadTable(Identifier table, Set privileges) throws NoSuchTableException {
    try {
      return loadTable(table);
    } catch (Exception error) {
      if (Source.saysNoFiles(error)) throw new NoSuchTableException(table);
      Platform.throwException(error);
      return null; // not reached
    }
  }

  public Table loadTable(Identifier table, String version) {
    Map options = new HashMap();
    options.put("versionAsOf", version);
    return load(table, options);
  }

  public Table loadTable(Identifier table, long micros) {
    Map options = new HashMap();
    options.put("timestampAsOf", time(micros));
    return load(table, options);
  }

  /** A time as the option `timestampAsOf`, of microseconds since 1970. */
  static String time(long micros) { return Instant.ofEpochSecond(Math.floorDiv(micros, 1000000L), Math.floorMod(micros, 1000000L) * 1000L).toString(); }

  private Table load(Identifier table, Map ofStatement) {
    Map options = storageOf(table);
    options.putAll(ofStatement);
    options.put("path", path(table));
    CaseInsensitiveStringMap all = new CaseInsensitiveStringMap(options);
    Source source = new Source();
    return ((SourceTable) source.getTable(source.inferSchema(all, true), source.inferPartitioning(all), options)).ofStatement();
  }

  /** The options of the catalog, which local paths do not have. */
  private Map storageOf(Identifier table) {
    boolean isRemote = path(table).contains("://") && !path(table).regionMatches(true, 0, "file:", 0, 5);
    return isRemote ? new HashMap(storage) : new HashMap();
  }

  public boolean tableExists(Identifier table) {
    try {
      loadTable(table, Collections.EMPTY_SET);
      return true;
    } catch (NoSuchTableException error) {
      return false;
    }
  }

  private static String path(Identifier table) {
    if (table.namespace().length == 0) return table.name();
    throw new IllegalArgumentException("a table of arrowipc has one name, its path in backticks, and not " + String.join(".", table.namespace()) + "." + table.name());
  }

  public Table createTable(Identifier table, Column[] columns, Transform[] partitioning, Map properties) {
    throw new UnsupportedOperationException("a path has its columns from its first rows: add AS SELECT to CREATE TABLE, or write to " + path(table) + " first");
  }

  public StagedTable stageCreate(Identifier table, Column[] columns, Transform[] partitioning, Map properties) throws TableAlreadyExistsException {
    if (tableExists(table)) throw new TableAlreadyExistsException(table);
    return stage(table, columns, partitioning, properties, false);
  }

  public StagedTable stageReplace(Identifier table, Column[] columns, Transform[] partitioning, Map properties) {
    return stage(table, columns, partitioning, properties, true);
  }

  public StagedTable stageCreateOrReplace(Identifier table, Column[] columns, Transform[] partitioning, Map properties) {
    return stage(table, columns, partitioning, properties, true);
  }

  private StagedTable stage(Identifier table, Column[] columns, Transform[] partitioning, Map properties, boolean isReplaced) {
    Map options = storageOf(table);
    options.putAll(optionsOf(properties));
    if (new CaseInsensitiveStringMap(options).containsKey("path")) throw new IllegalArgumentException("the name of the table is its path, and the option path names another: remove the option");
    options.put("path", path(table));
    if (!isReplaced) options.put("ifExists", "error"); // another job may have written since
    if (partitioning.length > 0) Partitions.names(partitioning); // which refuses what it has no directories for
    NewTable created = new NewTable(CatalogV2Util.v2ColumnsToStructType(columns), partitioning, Source.withRelease(options), isReplaced);
    if (isReplaced) created.former = former(table, options);
    return created;
  }

  /** The table that is replaced, planned before the query runs, so that rows that others add meanwhile are a conflict. */
  private SourceTable former(Identifier table, Map options) {
    try {
      SourceTable former = (SourceTable) load(table, Source.locationOf(options));
      former.plan(former.withOptions(CaseInsensitiveStringMap.empty()));
      return former;
    } catch (Exception error) {
      if (!Source.saysNoFiles(error)) Platform.throwException(error);
      return null;
    }
  }

  /** The OPTIONS of a command; any other property would be lost. */
  private static Map optionsOf(Map properties) {
    Map options = Source.optionsOfCatalog(properties);
    for (Iterator i = properties.entrySet().iterator(); i.hasNext();) {
      Map.Entry property = (Map.Entry) i.next();
      String key = (String) property.getKey();
      if (key.startsWith(TableCatalog.OPTION_PREFIX) || properties.containsKey(TableCatalog.OPTION_PREFIX + key) || key.equals(TableCatalog.PROP_OWNER)) continue;
      if (key.equals(TableCatalog.PROP_PROVIDER) && Source.NAME.equalsIgnoreCase((String) property.getValue())) continue;
      if (key.equals(TableCatalog.PROP_PROVIDER))
        throw new IllegalArgumentException("the catalog arrowipc writes arrowipc, and not " + property.getValue() + ": name arrowipc in USING or format");
      throw new UnsupportedOperationException("a table named by its path has no property " + key + ": remove it");
    }
    return options;
  }

  public Table alterTable(Identifier table, TableChange[] changes) {
    throw new UnsupportedOperationException("the columns of " + path(table) + " are those of its files, which ALTER TABLE does not change: use CREATE OR REPLACE TABLE ... AS SELECT");
  }

  public boolean dropTable(Identifier table) {
    throw new UnsupportedOperationException("DROP TABLE would delete the files at " + path(table) + ", which no catalog holds: delete the directory yourself");
  }

  public void renameTable(Identifier from, Identifier to) {
    throw new UnsupportedOperationException("the name of a table is its path: move " + path(from) + " yourself");
  }

  /** A table that a query is about to fill; its one write is one commit, which replaces all rows or fails if there are any. */
  public static class NewTable extends SourceTable implements StagedTable, SupportsWrite {
    private final boolean isReplaced;
    private boolean isWritten = false;
    private SourceTable former = null;

    SourceTable base() { return former == null ? this : former; }

    NewTable(StructType schema, Transform[] partitioning, CaseInsensitiveStringMap options, boolean isReplaced) {
      super(new Source(), schema, partitioning, options, null, true);
      this.isReplaced = isReplaced;
    }

    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
      isWritten = true;
      return isReplaced ? newReplacement(info) : super.newWriteBuilder(info);
    }

    public void commitStagedChanges() {
      if (!isWritten) throw new UnsupportedOperationException("REPLACE TABLE of a path without AS SELECT would delete its rows: use TRUNCATE TABLE for that");
    }

    /** Two interfaces have one by default, of which Java chooses none. */
    public CustomTaskMetric[] reportDriverMetrics() { return new CustomTaskMetric[0]; }

    public void abortStagedChanges() {} // the writer has removed what it wrote
  }
}
