package sparkarrowipc;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * One input partition of a frame's plan: its pickle, its bytes, the values of the hive partitions that it has rows of, and the
 * bounds of columns in its files.
 *
 * Python notes these in the pickle (`spark/read/plan_note.py`). Spark's own conditions are evaluated over the values, and
 * compared with the bounds, so that no task starts for files that cannot match; what cannot be evaluated keeps them.
 */
class Planned {
  /**
   * The note is the last string of the pickle, with what ends an object behind it: paths, which others choose, never stand
   * there, and so cannot be taken for one. Behind a string of 64 KiB or more Python begins a frame (\\x95).
   */
  private static final Pattern NOTE = Pattern.compile("arrowipc-plan:([A-Za-z0-9+/]*=*):(?:\\x95.{8})?(?:\\x94|q.|r....)?[su]b\\.", Pattern.DOTALL);
  private static final ObjectMapper JSON = new ObjectMapper();

  final byte[] pickle;
  /** Of the files that begin here, -1 if they are unknown. */
  final long bytes;
  private final String[] names;
  private final JsonNode values;
  private final Bounds bounds;
  /** The positions of the files that begin here, null for all. */
  private final int[] starts;
  /** The positions of the files that may match, null for all. */
  private final int[] selected;

  private Planned(byte[] pickle, long bytes, String[] names, JsonNode values, Bounds bounds, int[] starts, int[] selected) {
    this.pickle = pickle;
    this.bytes = bytes;
    this.names = names;
    this.values = values;
    this.bounds = bounds;
    this.starts = starts;
    this.selected = selected;
  }

  static Planned unknown(byte[] pickle) { return new Planned(pickle, -1, new String[0], null, null, null, null); }

  static Planned of(byte[] pickle) throws java.io.IOException {
    String text = new String(pickle, StandardCharsets.ISO_8859_1);
    int start = text.lastIndexOf("arrowipc-plan:");
    Matcher last = start < 0 ? null : NOTE.matcher(text.substring(start));
    if (last == null || !last.matches()) return unknown(pickle);
    JsonNode note = JSON.readTree(Base64.getDecoder().decode(last.group(1)));
    JsonNode columns = (JsonNode) note.get("names");
    String[] names = new String[columns.size()];
    for (int i = 0; i < names.length; i++) names[i] = ((JsonNode) columns.get(i)).asText();
    return new Planned(pickle, ((JsonNode) note.get("bytes")).asLong(), names, (JsonNode) note.get("values"), new Bounds(note), positions((JsonNode) note.get("starts")), null);
  }

  private static int[] positions(JsonNode list) {
    if (list == null) return null;
    int[] positions = new int[list.size()];
    for (int i = 0; i < positions.length; i++) positions[i] = ((JsonNode) list.get(i)).asInt();
    return positions;
  }

  /** The number of files that begin here and may match; -1 if it is unknown. */
  int files() {
    if (bounds == null) return -1;
    if (starts == null) return selected == null ? bounds.files : selected.length;
    if (selected == null) return starts.length;
    int files = 0;
    for (int i = 0; i < starts.length; i++) if (java.util.Arrays.binarySearch(selected, starts[i]) >= 0) files++;
    return files;
  }

  /** True if it has files of several partitions, of which conditions may keep some: which of its files is not noted. */
  boolean mayBeMixed(List conditions, Predicate[] joined) {
    if (names.length == 0 || values == null || values.size() < 2) return false;
    if (joined.length > 0) return true;
    for (int i = 0; i < conditions.size(); i++) {
      for (scala.collection.Iterator columns = ((Expression) conditions.get(i)).references().iterator(); columns.hasNext();) {
        String column = ((Attribute) columns.next()).name();
        for (int n = 0; n < names.length; n++) if (names[n].equalsIgnoreCase(column)) return true;
      }
    }
    return false;
  }

  /** Two of one plan are equal: Spark keeps each pickle once. */
  public boolean equals(Object other) {
    return other instanceof Planned && ((Planned) other).pickle == pickle && java.util.Arrays.equals(((Planned) other).selected, selected);
  }
  public int hashCode() { return System.identityHashCode(pickle); }

  /** Those that may have rows for which the conditions are true; at least one, whose task says what is wrong with the read. */
  static List prune(List planned, List conditions, StructType schema) {
    List conjuncts = new ArrayList();
    for (int i = 0; i < conditions.size(); i++) take((Expression) conditions.get(i), conjuncts);
    List pruned = new ArrayList();
    java.util.Map lists = new java.util.IdentityHashMap();
    Planned none = null;
    for (int i = 0; i < planned.size(); i++) {
      Planned one = (Planned) planned.get(i);
      boolean may = true;
      for (int c = 0; may && c < conjuncts.size(); c++) may = one.mayMatch((Expression) conjuncts.get(c), schema);
      if (may) {
        one = one.select(conjuncts, schema, lists);
        if (one.selected != null && one.selected.length == 0) none = one;
        else pruned.add(one);
      }
    }
    if (pruned.isEmpty() && none != null) pruned.add(none);
    return pruned.isEmpty() && !planned.isEmpty() ? planned.subList(0, 1) : pruned;
  }

  private Planned select(List conjuncts, StructType schema, java.util.Map lists) {
    int[] files = bounds == null ? null : bounds.select(conjuncts, schema, lists);
    return files == null ? this : new Planned(pickle, bytes, names, values, bounds, starts, files);
  }

  boolean isInLog(List fields) { return bounds != null && bounds.areOfAllFiles(fields); }

  /** The share of its files that may match. */
  double share() { return selected == null ? 1 : (double) selected.length / bounds.files; }

  /** The pickle of the files that may match. */
  byte[] selectedPickle() {
    return selected == null ? pickle : SparkInternals.pickledCall(NarrowScan.MODULE, "keep_files", pickle, java.util.Arrays.toString(selected));
  }

  private static void take(Expression condition, List conjuncts) {
    if (condition instanceof And) {
      take(((And) condition).left(), conjuncts);
      take(((And) condition).right(), conjuncts);
    } else if (condition.deterministic()) conjuncts.add(condition);
  }

  private boolean mayMatch(Expression condition, StructType schema) {
    if (names.length == 0) return true;
    try {
      boolean[] isColumn = new boolean[1];
      Expression bound = bound(condition, schema, isColumn);
      if (bound == null || !isColumn[0]) return true;
      for (int row = 0; row < values.size(); row++) if (Boolean.TRUE.equals(bound.eval(new GenericInternalRow(row(row, schema))))) return true;
      return false;
    } catch (Throwable error) {
      // A cast that fails for one value, a subquery that has not run: Spark says what is to be said of them.
      return true;
    }
  }

  /** A condition over the values; null if it has other columns. */
  private Expression bound(Expression condition, StructType schema, boolean[] isColumn) {
    if (condition instanceof Attribute) {
      int i = position(((Attribute) condition).name(), schema);
      isColumn[0] = true;
      return i < 0 ? null : new BoundReference(i, condition.dataType(), true);
    }
    List children = new ArrayList();
    for (int i = 0; i < condition.children().length(); i++) {
      Expression child = bound((Expression) condition.children().apply(i), schema, isColumn);
      if (child == null) return null;
      children.add(child);
    }
    return children.isEmpty() ? condition : (Expression) condition.withNewChildren(SparkInternals.seq(children));
  }

  private int position(String name, StructType schema) {
    for (int i = 0; i < names.length; i++) if (names[i].equals(name) && Predicates.isPlain(schema, name)) return i;
    return -1;
  }

  private Object[] row(int row, StructType schema) {
    Object[] made = new Object[names.length];
    for (int i = 0; i < made.length; i++) made[i] = value(row, i, schema.apply(names[i]).dataType());
    return made;
  }

  private Object value(int row, int column, DataType type) {
    JsonNode value = (JsonNode) ((JsonNode) values.get(row)).get(column);
    if (value.isNull()) return null;
    if (type instanceof StringType) return UTF8String.fromString(value.asText());
    if (type instanceof BooleanType) return Boolean.valueOf(value.asBoolean());
    if (type instanceof LongType) return Long.valueOf(value.asLong());
    if (type instanceof IntegerType || type instanceof DateType) return Integer.valueOf(value.asInt());
    if (type instanceof ShortType) return Short.valueOf((short) value.asInt());
    if (type instanceof ByteType) return Byte.valueOf((byte) value.asInt());
    throw new IllegalStateException("a partition value of the type " + type);
  }

  /** False if none of the keys that a join has found is a value of this partition. */
  boolean mayJoin(Predicate[] predicates, StructType schema) {
    for (int i = 0; i < predicates.length; i++) {
      org.apache.spark.sql.connector.expressions.Expression[] inside = predicates[i].children();
      if (!predicates[i].name().equals("IN") || !(inside[0] instanceof NamedReference)) continue;
      String[] path = ((NamedReference) inside[0]).fieldNames();
      int column = path.length == 1 ? position(path[0], schema) : -1;
      if (column >= 0 && !hasOne(column, inside, schema)) return false;
    }
    return true;
  }

  private boolean hasOne(int column, org.apache.spark.sql.connector.expressions.Expression[] inside, StructType schema) {
    DataType type = schema.apply(names[column]).dataType();
    java.util.Set keys = new java.util.HashSet();
    for (int i = 1; i < inside.length; i++) {
      if (!(inside[i] instanceof Literal) || !((Literal) inside[i]).dataType().equals(type)) return true;
      keys.add(((Literal) inside[i]).value());
    }
    for (int row = 0; row < values.size(); row++) if (keys.contains(value(row, column, type))) return true;
    return false;
  }
}
