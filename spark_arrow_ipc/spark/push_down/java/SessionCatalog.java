package sparkarrowipc;

import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.catalyst.util.CharVarcharUtils;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.ColumnDefaultValue;
import org.apache.spark.sql.connector.catalog.DelegatingCatalogExtension;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.V1Table;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.Platform;
import scala.Option;
import scala.runtime.AbstractFunction0;

/**
 * Spark's own catalog, in which no command on a table of this format loses rows.
 *
 * Spark's catalog replaces a table by dropping it and its directory before the query runs, which may read it or fail; appends
 * the rows of CREATE TABLE AS SELECT to those that are in a directory; and renames columns that files still have by the
 * former name. Spark stages these commands where a catalog says that it can. Here a table is replaced by one commit that
 * overwrites its rows, where its columns, partitions and properties stay; the others are refused before anything is changed.
 * All other commands, and all tables of other formats, are Spark's.
 */
public class SessionCatalog extends DelegatingCatalogExtension implements StagingTableCatalog {
  static final String SETTING = "spark.sql.catalog.spark_catalog";
  /** Set while Spark's catalog loads a table for this one. */
  private static final String LOADS = "arrowipc.sessionCatalogLoads";

  private static final String[] OF_ENTRY = {TableCatalog.PROP_COMMENT, TableCatalog.PROP_EXTERNAL, TableCatalog.PROP_IS_MANAGED_LOCATION};

  private static boolean isOfThisFormat(Map properties) { return Source.NAME.equalsIgnoreCase((String) properties.get(TableCatalog.PROP_PROVIDER)); }

  /** Whether this catalog loads the table that a source is asked for. */
  static boolean loads() { return SQLConf.get().getConfString(LOADS, "false").equals("true"); }

  /**
   * Spark's catalog loads tables of all sources as those of its first interface where it is not the only one, so that it has
   * to think that it is.
   */
  public Table loadTable(Identifier name) throws NoSuchTableException {
    SQLConf settings = SQLConf.get().clone();
    settings.setConfString(SETTING, "builtin");
    settings.setConfString(LOADS, "true");
    Table table = (Table) SQLConf.withExistingConf(settings, new Load(this, name));
    return table instanceof SourceTable ? ((SourceTable) table).ofEntry(name) : table;
  }

  /**
   * The properties that Spark's catalog shows of a table, of those with which it loads one: they lack the comment, and whether
   * the table is external, and the location is there as a property `path`.
   */
  static Map propertiesOfEntry(Identifier name, Map loaded) {
    Map ofEntry = new HashMap();
    try {
      TableIdentifier table = new TableIdentifier(name.name(), Option.apply(name.namespace()[0]));
      ofEntry = new V1Table(SparkSession.active().sessionState().catalog().getTableMetadata(table)).properties();
    } catch (Exception error) {
      Platform.throwException(error); // the table was dropped since
    }
    Map properties = new HashMap(loaded);
    for (int i = 0; i < OF_ENTRY.length; i++) if (ofEntry.containsKey(OF_ENTRY[i])) properties.put(OF_ENTRY[i], ofEntry.get(OF_ENTRY[i]));
    Object path = properties.remove("path");
    if (path != null) properties.put(TableCatalog.PROP_LOCATION, path);
    return properties;
  }

  private Table loadBySpark(Identifier name) throws NoSuchTableException { return super.loadTable(name); }

  public static class Load extends AbstractFunction0 {
    private final SessionCatalog catalog;
    private final Identifier name;

    Load(SessionCatalog catalog, Identifier name) {
      this.catalog = catalog;
      this.name = name;
    }

    public Object apply() {
      try {
        return catalog.loadBySpark(name);
      } catch (NoSuchTableException error) {
        Platform.throwException(error); // which Scala's functions do not declare
        return null; // not reached
      }
    }
  }

  public Table loadTable(Identifier name, String version) throws NoSuchTableException {
    Table table = loadTable(name);
    return table instanceof SourceTable ? ((SourceTable) table).asOf("versionAsOf", version) : super.loadTable(name, version);
  }

  public Table loadTable(Identifier name, long micros) throws NoSuchTableException {
    Table table = loadTable(name);
    return table instanceof SourceTable ? ((SourceTable) table).asOf("timestampAsOf", Catalog.time(micros)) : super.loadTable(name, micros);
  }

  /** Partition columns are the last ones, as in tables of Spark's own formats, which its catalog takes for sure. */
  public Table createTable(Identifier name, Column[] columns, Transform[] partitioning, Map properties) throws TableAlreadyExistsException, NoSuchNamespaceException {
    if (!isOfThisFormat(properties)) return super.createTable(name, columns, partitioning, properties);
    checkOptions(properties);
    Partitions.names(partitioning); // which refuses what it has no directories for
    Column[] ordered = Partitions.last(columns, partitioning);
    if (ordered.length > 0 && ordered.length == partitioning.length)
      throw new UnsupportedOperationException("a table needs a column that is not a partition column");
    for (int i = ordered.length - partitioning.length; i >= 0 && i < ordered.length; i++) Partitions.check(ordered[i].name(), ordered[i].dataType());
    return super.createTable(name, ordered, partitioning, properties);
  }

  /** Spark passes each option as two properties, with its own name as well. */
  private static void checkOptions(Map properties) {
    for (Iterator i = properties.keySet().iterator(); i.hasNext();) {
      String key = (String) i.next();
      if (!key.equalsIgnoreCase("path") && !properties.containsKey(TableCatalog.OPTION_PREFIX + key)) checkProperty(key);
    }
  }

  /** Python checks options only when rows are written or read, and never sees a property that is called as an option is. */
  private static void checkProperty(String key) {
    boolean isPrefixed = key.startsWith(TableCatalog.OPTION_PREFIX);
    String option = isPrefixed ? key.substring(TableCatalog.OPTION_PREFIX.length()) : key;
    if (isPrefixed && !isOption(option) && !option.startsWith("arrowipc."))
      throw new IllegalArgumentException("there is no option " + option + "; 'python -m spark_arrow_ipc.spark.options' prints all of them. Nothing is changed");
    if (!isPrefixed && isOption(option))
      throw new IllegalArgumentException(key + " is an option, and has no effect as a property of this name: write it in OPTIONS, or as the property "
        + TableCatalog.OPTION_PREFIX + key + ". Nothing is changed");
  }

  private static boolean isOption(String key) {
    String name = key.toLowerCase(java.util.Locale.ROOT);
    for (int i = 0; i < Release.OPTIONS.size(); i++) {
      String option = (String) Release.OPTIONS.get(i);
      if (option.endsWith("*") ? name.startsWith(option.substring(0, option.length() - 1)) : name.equals(option)) return true;
    }
    return false;
  }

  public StagedTable stageCreate(Identifier name, Column[] columns, Transform[] partitioning, Map properties) throws TableAlreadyExistsException, NoSuchNamespaceException {
    createTable(name, columns, partitioning, properties);
    try {
      Table table = loadTable(name);
      // Spark checks the directory of a managed table.
      boolean hasPath = new CaseInsensitiveStringMap(Source.optionsOfCatalog(properties)).containsKey("path");
      if (table instanceof SourceTable && hasPath) checkIsEmpty((SourceTable) table);
      return new CreatedTable(table, columns, this, name);
    } catch (Exception error) {
      dropTable(name);
      Platform.throwException(error);
      return null; // not reached
    }
  }

  public StagedTable stageReplace(Identifier name, Column[] columns, Transform[] partitioning, Map properties) throws NoSuchTableException, NoSuchNamespaceException {
    Table former = loadTable(name);
    if (former instanceof SourceTable && isOfThisFormat(properties)) return new ReplacedTable((SourceTable) former, columns, partitioning, properties, this, name);
    if (former instanceof SourceTable || isOfThisFormat(properties))
      throw new UnsupportedOperationException("a table of arrowipc is not replaced by one of another format, or such a table by it: use DROP TABLE first; nothing is changed");
    try {
      dropTable(name); // as Spark does
      return stageCreate(name, columns, partitioning, properties);
    } catch (TableAlreadyExistsException error) {
      Platform.throwException(error); // it was created since
      return null; // not reached
    }
  }

  public StagedTable stageCreateOrReplace(Identifier name, Column[] columns, Transform[] partitioning, Map properties) throws NoSuchNamespaceException {
    try {
      return tableExists(name) ? stageReplace(name, columns, partitioning, properties) : stageCreate(name, columns, partitioning, properties);
    } catch (TableAlreadyExistsException error) {
      Platform.throwException(error);
    } catch (NoSuchTableException error) {
      Platform.throwException(error);
    }
    return null; // not reached
  }

  /** Raises if a directory has rows, to which a new table would add its own. */
  private static void checkIsEmpty(SourceTable table) {
    Map options = Source.locationOf(Source.optionsOfCatalog(table.properties()));
    try {
      new Source().inferSchema(new CaseInsensitiveStringMap(options));
    } catch (Exception error) {
      if (Source.saysNoFiles(error)) return;
      Platform.throwException(error);
    }
    throw new UnsupportedOperationException(options.get("path") + " has rows, to which CREATE TABLE AS SELECT would add its own: create the table without AS SELECT, then INSERT INTO it; nothing is changed");
  }

  public Table alterTable(Identifier name, TableChange[] changes) throws NoSuchTableException {
    Table table = loadTable(name);
    if (!(table instanceof SourceTable)) return super.alterTable(name, changes);
    int data = table.schema().length() - table.partitioning().length;
    String last = data > 0 ? table.schema().fields()[data - 1].name() : null; // before the partition columns
    for (int i = 0; i < changes.length; i++) {
      changes[i] = checked(name, table, changes[i], last);
      if (changes[i] instanceof TableChange.AddColumn) last = ((TableChange.AddColumn) changes[i]).fieldNames()[0];
    }
    return super.alterTable(name, changes);
  }

  private static TableChange checked(Identifier name, Table table, TableChange change, String last) {
    if (change instanceof TableChange.ClusterBy)
      throw new UnsupportedOperationException("arrowipc has no clustered files: sort the rows before a write; nothing is changed");
    if (change instanceof TableChange.SetProperty) checkProperty(((TableChange.SetProperty) change).property());
    if (!(change instanceof TableChange.ColumnChange) || change instanceof TableChange.UpdateColumnComment) return change;
    TableChange.AddColumn added = change instanceof TableChange.AddColumn ? (TableChange.AddColumn) change : null;
    if (added == null || added.fieldNames().length != 1 || added.position() != null || !added.isNullable())
      throw new UnsupportedOperationException("the files of " + name + " keep their columns: ALTER TABLE changes comments, and adds columns at the end, which are null in rows that exist; for others, write another table with CREATE TABLE ... AS SELECT; nothing is changed");
    return table.partitioning().length == 0 ? added : addAfter(last, added);
  }

  private static TableChange addAfter(String column, TableChange.AddColumn added) {
    Object position = call(TableChange.ColumnPosition.class, "after", new Class[] {String.class}, new Object[] {column});
    Class[] types = {String[].class, DataType.class, boolean.class, String.class, TableChange.ColumnPosition.class, ColumnDefaultValue.class};
    Object[] values = {added.fieldNames(), added.dataType(), Boolean.valueOf(added.isNullable()), added.comment(), position, added.defaultValue()};
    return (TableChange) call(TableChange.class, "addColumn", types, values);
  }

  private static TableChange setProperty(String name, Object value) {
    return (TableChange) call(TableChange.class, "setProperty", new Class[] {String.class, String.class}, new Object[] {name, value});
  }

  /** Calls a static method of an interface, which Janino does not compile. */
  private static Object call(Class of, String method, Class[] types, Object[] values) {
    try {
      return of.getMethod(method, types).invoke(null, values);
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
  }

  /** A table that a query fills. */
  public abstract static class FilledTable implements StagedTable, SupportsWrite {
    final Table table;
    private final Column[] columns;

    FilledTable(Table table, Column[] columns) {
      this.table = table;
      this.columns = columns;
    }

    public String name() { return table.name(); }

    /** The columns in the order of those of the query, which Spark writes by position. */
    public StructType schema() {
      if (!(table instanceof SourceTable)) return table.schema();
      StructField[] fields = new StructField[columns.length];
      for (int i = 0; i < columns.length; i++) fields[i] = table.schema().apply(columns[i].name());
      return new StructType(fields);
    }

    public Transform[] partitioning() { return table.partitioning(); }
    public Map properties() { return table.properties(); }
    public Set capabilities() { return table.capabilities(); }
    /** Two interfaces have one by default, of which Java chooses none. */
    public CustomTaskMetric[] reportDriverMetrics() { return new CustomTaskMetric[0]; }
  }

  /** A table that was created for a query, and is dropped if that fails, as Spark does. */
  public static class CreatedTable extends FilledTable {
    private final SessionCatalog catalog;
    private final Identifier identifier;

    CreatedTable(Table table, Column[] columns, SessionCatalog catalog, Identifier identifier) {
      super(table, columns);
      this.catalog = catalog;
      this.identifier = identifier;
    }

    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
      return table instanceof SourceTable ? ((SourceTable) table).newCreation(info) : ((SupportsWrite) table).newWriteBuilder(info);
    }

    public void commitStagedChanges() {}
    public void abortStagedChanges() { catalog.dropTable(identifier); }
  }

  /**
   * A table whose rows a query replaces in one commit. Its entry in the catalog stays, so that nothing is left to undo; only a
   * comment changes, after the commit.
   */
  public static class ReplacedTable extends FilledTable {
    private final SessionCatalog catalog;
    private final Identifier identifier;
    private final Object comment;
    private boolean isWritten = false;

    ReplacedTable(SourceTable table, Column[] columns, Transform[] partitioning, Map properties, SessionCatalog catalog, Identifier identifier) {
      super(table, columns);
      this.catalog = catalog;
      this.identifier = identifier;
      comment = properties.get(TableCatalog.PROP_COMMENT);
      check("columns", describe(CharVarcharUtils.getRawSchema(table.schema())), describe(CatalogV2Util.v2ColumnsToStructType(Partitions.last(columns, partitioning))));
      check("partition columns", describe(table.partitioning()), describe(partitioning));
      Map formerOptions = options(table.properties()), newOptions = options(properties);
      Set names = new TreeSet(formerOptions.keySet());
      names.addAll(newOptions.keySet());
      for (Iterator i = names.iterator(); i.hasNext();) {
        Object option = i.next();
        if (!Objects.equals(formerOptions.get(option), newOptions.get(option))) throw refusal("the option " + option + " would change"); // a value may be a secret
      }
      Object location = properties.get(TableCatalog.PROP_LOCATION);
      if (location != null) check("location", SourceTable.canonicalPath(table.properties().get(TableCatalog.PROP_LOCATION)), SourceTable.canonicalPath(location));
      for (Iterator i = properties.keySet().iterator(); i.hasNext();) {
        String name = (String) i.next();
        boolean isChosen = !name.startsWith(TableCatalog.OPTION_PREFIX) && !properties.containsKey(TableCatalog.OPTION_PREFIX + name);
        if (isChosen && !CatalogV2Util.TABLE_RESERVED_PROPERTIES().contains(name))
          if (!Objects.equals(table.properties().get(name), properties.get(name))) throw refusal("the property " + name + " would change");
      }
      checkFiles(table); // which plans reads, unlike the others
      table.plan(table.withOptions(CaseInsensitiveStringMap.empty())); // the state on which the replacement relies
    }

    /** Another entry of a catalog, or a path, may have columns that this one lacks. */
    private static void checkFiles(SourceTable table) {
      String[] names = new String[0];
      try {
        Map options = Source.locationOf(Source.optionsOfCatalog(table.properties()));
        options.put("mergeSchema", "true");
        names = new Source().inferSchema(new CaseInsensitiveStringMap(options)).fieldNames();
      } catch (Exception error) {
        if (!Source.saysNoFiles(error)) Platform.throwException(error);
      }
      for (int i = 0; i < names.length; i++) {
        if (table.schema().getFieldIndex(names[i]).isEmpty())
          throw new UnsupportedOperationException("the files have a column " + names[i] + " that the table does not list, and its values would be lost: add the column, or use DROP TABLE first; nothing is changed");
      }
    }

    private static void check(String part, Object former, Object replaced) {
      if (!former.equals(replaced)) throw refusal(part + " would change from " + former + " to " + replaced);
    }

    private static UnsupportedOperationException refusal(String reason) {
      return new UnsupportedOperationException("a table is replaced by one commit of its rows, and the rest stays: " + reason + "; use DROP TABLE first; nothing is changed");
    }

    private static String describe(StructType columns) {
      StringBuilder text = new StringBuilder();
      for (int i = 0; i < columns.length(); i++) text.append(i == 0 ? "" : ", ").append(columns.fields()[i].name()).append(" ").append(columns.fields()[i].dataType().catalogString());
      return text.toString();
    }

    private static String describe(Transform[] partitioning) { return partitioning.length == 0 ? "none" : Partitions.names(partitioning); }

    private static Map options(Map properties) {
      Map options = new TreeMap(Source.optionsOfCatalog(properties));
      options.remove("path");
      return options;
    }

    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
      isWritten = true;
      return ((SourceTable) table).newReplacement(info);
    }

    public void commitStagedChanges() {
      if (!isWritten) throw new UnsupportedOperationException("REPLACE TABLE without AS SELECT would delete the rows of the table: use TRUNCATE TABLE for that; nothing is changed");
      if (comment == null || comment.equals(table.properties().get(TableCatalog.PROP_COMMENT))) return;
      try {
        catalog.alterTable(identifier, new TableChange[] {setProperty(TableCatalog.PROP_COMMENT, comment)});
      } catch (NoSuchTableException error) {
        Platform.throwException(error); // it was dropped since
      }
    }

    public void abortStagedChanges() {} // the writer has removed what it wrote
  }
}
