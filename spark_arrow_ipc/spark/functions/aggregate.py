"""`aggregate`: Spark's own answers, of which the largest part is computed where the data are decoded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Unpack

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from spark_arrow_ipc.spark.functions.aggregate_plan import plan_aggregate
from spark_arrow_ipc.spark.functions.map_in_arrow import load_mapped, load_plain
from spark_arrow_ipc.spark.functions.shipped_function import ship
from spark_arrow_ipc.spark.options.arguments import Paths
from spark_arrow_ipc.spark.options.keywords import FunctionKeywords


def aggregate(
    spark: SparkSession,
    path: Paths,
    *,
    aggregates: Mapping[str, str],
    group_by: Sequence[str] = (),
    **options: Unpack[FunctionKeywords],
) -> DataFrame:
    """Return Spark's answer to ``load(path).groupBy(...).agg(...)``, with most of the work done in the workers.

    Each task groups what it decodes; what crosses to Spark is a row for each group and task, of which Spark makes the
    result. Only the columns that are named are read.

    Parameters
    ----------
    spark
        The session, classic or Connect.
    path
        What to read, as for ``load``.
    aggregates
        For each column of the result one of ``count(*)``, ``count(c)``, ``min(c)``, ``max(c)``, ``sum(c)``, where c is a
        column. Names with other marks than letters, digits and ``_`` stand in backticks.
    group_by
        Names of columns, those of partition directories too. Without any the result is one row.
    **options
        Those of ``spark.read.format("arrowipc")``.

    Returns
    -------
    DataFrame
        The keys, then the aggregates, in Spark's types. A sum that does not fit is an error under ANSI mode, and wraps
        or is null without it, as in Spark. Where numbers between overflow and the sum itself does not, Spark's answer
        depends on the order of the rows, and this is the sum.

    Raises
    ------
    AggregateError
        An aggregate could differ from Spark's answer: sums of floats, orders of collated strings. The message shows how
        to write it with Spark alone.
    ColumnNotFoundError, OptionError
        A column does not exist, a name is used twice, or nothing is asked for.
    """
    group_by = [group_by] if isinstance(group_by, str) else list(group_by)
    schema = load_plain(spark, path, options).schema
    plan = plan_aggregate(schema, group_by, aggregates, path)
    partial = load_mapped(spark, path, ship(plan.partials), plan.output, options, asked=plan.asked)
    grouped = partial.groupBy(*plan.keys).agg(*plan.totals)
    keys = [f.col(key).alias(name) for key, name in zip(plan.keys, plan.key_names, strict=True)]
    return grouped.select(*keys, *(f.col(f"`{name.replace('`', '``')}`") for name in aggregates))
