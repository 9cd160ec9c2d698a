"""Push-down into scans of this format, by a source of the JVM whose Java is compiled on the user's machine.

How it works
------------
1. `registration` gives a session the jar (`spark.jar`). Spark finds `Source` by the jar's service file, prefers it to the
   Python source of that name, and gets a `SourceTable`, which knows path, options and partitions, also of catalog tables.
2. Spark hands conditions, an aggregate or a limit, and columns to `NarrowScanBuilder`, as to any source of the JVM. Conditions
   come as Spark's plan has them; the builder passes each to Spark's translator itself, since that fails for some.
3. `NarrowScan` takes the partitions that Spark planned for the DataFrame, drops those whose partition values cannot match
   (`Planned`), adds the keys that a join finds at run time, and pickles a call of `narrow.command`.
4. A worker loads the call, binds the conditions (`conjuncts`), reads, and computes partial aggregates (`aggregates`).
   Batches reach Spark as columns where Spark's reader has the expected class (`Columns`).

Rule 1: a condition that Spark evaluates again may drop only rows for which it is not true, so one without an exact meaning
here is weakened or left out. That costs time and changes no row.

Rule 2: conditions marked ``exact`` are the scan's alone. It takes only those that tasks can evaluate exactly, and a task that
cannot do so raises an error. Spark hands over aggregates and limits only below such conditions, and finds the filters of a join
only where a Filter is left, so the scan leaves all conditions of a table that Spark may broadcast.

Rule 3: a fault changes no answer. Each step in Java catches everything, logs one warning, and leaves the columns, the filter or
the aggregate to Spark. Once Spark has dropped its filter or its aggregate, it is an error instead.

Rule 4: one DataFrame has one listing. Scans reuse its plan, so `count()`, `filter` and `collect` agree although files are added.
"""
