package sparkarrowipc;

import java.util.EnumSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.types.StructType;

/** A table in the place of Spark's Python table: two of one DataFrame are equal, and read the same files. */
public abstract class OfPython implements SupportsRead {
  final PythonTable table;

  OfPython(PythonTable table) { this.table = table; }

  public String name() { return table.name(); }
  public StructType schema() { return table.schema(); }
  public Column[] columns() { return table.columns(); }
  public Transform[] partitioning() { return table.partitioning(); }
  public Map properties() { return table.properties(); }
  public Set capabilities() { return EnumSet.of(TableCapability.BATCH_READ); }
  public boolean equals(Object other) { return other != null && other.getClass() == getClass() && ((OfPython) other).table == table; }
  public int hashCode() { return System.identityHashCode(table); }
  public String toString() { return table.toString(); }
}
