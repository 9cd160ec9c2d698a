package sparkarrowipc;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.util.V2ExpressionBuilder;
import scala.Option;

/** Conditions that a scan may drop rows by, as JSON, and as `explain` shows them. Spark's own filter stays above the scan. */
class Conjuncts {
  /** Levels of ANDs and ORs that are taken apart; those below have some more. */
  private static final int MOST_LEVELS = 20;

  final ArrayNode nodes = JsonNodeFactory.instance.arrayNode();
  final List shown = new ArrayList();

  /** Add the conjuncts of a condition, each weakened to what sources can be told; those of which nothing is left are left out. */
  void add(Expression condition) {
    if (condition instanceof And) {
      add(((And) condition).left());
      add(((And) condition).right());
      return;
    }
    try {
      StringBuilder text = new StringBuilder();
      ObjectNode node = weakened(condition, text, MOST_LEVELS);
      if (node == null) return;
      nodes.add(node);
      shown.add(text.toString());
    } catch (Throwable error) {
      // Spark's own translator fails on some conditions, by an assertion: they are not for sources.
    }
  }

  void add(ObjectNode node, String text) {
    nodes.add(node);
    shown.add(text);
  }

  private static ObjectNode weakened(Expression condition, StringBuilder text, int levels) {
    Option built = new V2ExpressionBuilder(condition, true).build();
    if (built.isDefined()) {
      text.append(built.get());
      return Typed.predicate((org.apache.spark.sql.connector.expressions.Expression) built.get());
    }
    boolean isAnd = condition instanceof And;
    if (levels == 0 || (!isAnd && !(condition instanceof Or))) return null;
    StringBuilder leftText = new StringBuilder(), rightText = new StringBuilder();
    ObjectNode left = weakened((Expression) condition.children().apply(0), leftText, levels - 1);
    ObjectNode right = weakened((Expression) condition.children().apply(1), rightText, levels - 1);
    if (left == null || right == null) {
      // One half of an AND is true wherever the whole is; of an OR either may be.
      if (!isAnd || (left == null && right == null)) return null;
      text.append(left == null ? rightText : leftText);
      return left == null ? right : left;
    }
    ObjectNode both = JsonNodeFactory.instance.objectNode();
    both.put("name", isAnd ? "AND" : "OR");
    both.putArray("children").add(left).add(right);
    text.append('(').append(leftText).append(isAnd ? ") AND (" : ") OR (").append(rightText).append(')');
    return both;
  }
}
