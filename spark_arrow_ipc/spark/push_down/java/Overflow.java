package sparkarrowipc;

import java.math.BigDecimal;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.types.Decimal;

/** Raises Spark's own error of arithmetic for a value that a task could not hold: its condition, SQLSTATE and advice. */
class Overflow {
  /** The sentence of `spark_arrow_ipc.spark.push_down.aggregates`: a value and its type. */
  private static final Pattern SENTENCE =
    Pattern.compile("an expression overflows: (-?[0-9.]{1,100}) does not fit decimal\\((\\d{1,2}),(\\d{1,2})\\)");

  /** Raise Spark's error if an error of a worker says that a value has too many digits; Spark tells a source no place in the query. */
  static void raise(RuntimeException error) {
    Matcher sentence = SENTENCE.matcher(String.valueOf(error.getMessage()));
    if (!sentence.find()) return;
    Decimal.apply(new BigDecimal(sentence.group(1))).toPrecision(Integer.parseInt(sentence.group(2)), Integer.parseInt(sentence.group(3)),
      Decimal.ROUND_HALF_UP(), false, null);
  }
}
