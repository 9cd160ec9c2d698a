"""Push-down into scans of this format, by a rule of Spark's optimizer that is compiled where it runs.

How it works
------------
1. `registration.push_down` compiles the Java sources and adds the rule `PushDown` to the session. It runs just before
   Spark's own push-down.
2. The rule replaces each table of this format by a `NarrowTable`, which Spark treats like any table of the JVM. It
   remembers the filter above the table, and whether tasks can compute the aggregate above it (`Aggregates.below`).
3. Spark hands the required columns, the limit and the aggregate to the table's scan builder. The rule passes the conjuncts
   of the filter to Spark's translator one by one, since the translator fails for some.
4. `NarrowScan` takes the partitions that Spark planned for the DataFrame, drops those whose partition values cannot match
   (`Planned`), adds the keys that a join finds at run time, and pickles a call of `narrow.command`.
5. A worker loads the call, binds the conditions (`conjuncts`), reads, and computes partial aggregates (`aggregates`).
   Batches reach Spark as columns where Spark's reader has the expected class (`Columns`).

Rule 1: Spark retains its filter. A pushed condition may drop only rows for which that filter is not true, so a condition
without an exact meaning here is weakened or left out. That costs time and changes no row.

Rule 2: below a pushed aggregate Spark drops its filter. Each condition is then marked ``exact``, the rule pushes the aggregate
only if every condition can be evaluated exactly, and a task that cannot do so raises an error.

Rule 3: a fault changes no answer. Each step in Java catches everything, logs one warning, and leaves the plan, the
columns, the filter or the aggregate to Spark. After Rule 2 has apply_function, it is an error instead.

Rule 4: one DataFrame has one listing. Scans reuse its plan, so `count()`, `filter` and `collect` agree although files are added.
"""
