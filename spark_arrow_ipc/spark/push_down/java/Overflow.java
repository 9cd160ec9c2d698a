package sparkarrowipc;

import java.math.BigDecimal;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.QueryContext;
import org.apache.spark.sql.types.Decimal;

/** Raises Spark's own error of arithmetic for a value that a task could not hold: its condition, SQLSTATE and advice. */
class Overflow {
  /** The sentence of `spark_arrow_ipc.spark.push_down.aggregates`: the number of the expression, its value, and its type. */
  private static final Pattern SENTENCE =
    Pattern.compile("expression (\\d{1,9}) overflows: (-?[0-9.]{1,100}) does not fit decimal\\((\\d{1,2}),(\\d{1,2})\\)");

  /** Raise what Spark would, if an error of a worker says that a value has too many digits. */
  static void raise(RuntimeException error, QueryContext[] contexts) {
    Matcher says = SENTENCE.matcher(String.valueOf(error.getMessage()));
    if (contexts == null || !says.find()) return;
    int number = Integer.parseInt(says.group(1));
    if (number >= contexts.length) return;
    Decimal.apply(new BigDecimal(says.group(2))).toPrecision(Integer.parseInt(says.group(3)), Integer.parseInt(says.group(4)),
      Decimal.ROUND_HALF_UP(), false, contexts[number]);
  }
}
