"""The jobs that are compared: a read or a write by one contender.

Strategy
--------
A job is made in two steps. The first makes the files and is not measured; it gives the second, which is: from
``spark.read`` or ``df.write`` to the end of the job, planning included.

A contender may need what is not there: an option that this release does not have, a package that is not installed.
Then it is absent, with the reason, and nothing else changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TypeAlias

from bench import Bench
from contenders import BLOCKS
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from scans import SINKS
from workloads import ROW_GROUP_ROWS, Workload

from spark_arrow_ipc.spark.options.options import OPTIONS

Job: TypeAlias = Callable[[], object]
Ready: TypeAlias = Callable[[Bench], Job]

PUBLISHED = "pyspark_datasources"
"""The module of the package `pyspark-data-sources`."""

TASKS = 2
"""Tasks of a write."""

_OPTIONS = frozenset(option.name for option in OPTIONS)


@cache
def imports(module: str) -> bool:
    """Tell whether a module and all that it imports are installed."""
    try:
        import_module(module)
    except ImportError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Contender:
    """One who does the job of a case.

    Parameters
    ----------
    name
        `arrowipc` is ours; other ways of ours begin with that word.
    ready
        Makes the files and gives the job.
    options
        Of `arrowipc`, which a release may lack.
    module
        Which must be installed.
    """

    name: str
    ready: Ready
    options: tuple[str, ...] = ()
    module: str | None = None

    def absence(self) -> str | None:
        """Return why it cannot take part, or None."""
        if self.module is not None and not imports(self.module):
            return f"needs the module {self.module}, which is not installed with all that it imports"
        missing = [name for name in self.options if name not in _OPTIONS]
        return f"needs the option {', '.join(missing)}, which this release lacks" if missing else None


@dataclass(frozen=True, slots=True)
class Asked:
    """What is read of a workload.

    Parameters
    ----------
    workload
        Of the files.
    sink
        Of `SINKS`.
    select
        Columns that Spark keeps; all where it is empty.
    condition
        Rows that Spark keeps, in SQL, from the bench's scaled workload; all where it is None.
    """

    workload: Workload
    sink: str = "noop"
    select: tuple[str, ...] = ()
    condition: Callable[[Workload], str] | None = None


Place: TypeAlias = Callable[[Bench, Workload], tuple[str, Mapping[str, str]]]
"""Gives the path and the options of a source."""


@dataclass(frozen=True, slots=True)
class Source:
    """How a contender reads: the name of its format, and where its files are."""

    format: str
    place: Place


SOURCES: Mapping[str, Source] = {
    "arrowipc": Source("arrowipc", lambda bench, workload: (bench.arrow(workload), {})),
    "own": Source("arrowipc", lambda bench, workload: (bench.own(workload), {})),
    "null": Source(
        "benchmark_null", lambda bench, workload: (bench.first_file(workload), {BLOCKS: bench.blocks(workload)})
    ),
    "pyarrow": Source("benchmark_pyarrow", lambda bench, workload: (bench.arrow(workload), {})),
    "published": Source("arrow", lambda bench, workload: (bench.arrow(workload), {})),
    "parquet": Source("parquet", lambda bench, workload: (bench.parquet(workload, "snappy"), {})),
    "parquet zstd": Source("parquet", lambda bench, workload: (bench.parquet(workload, "zstd"), {})),
    "empty": Source("benchmark_empty", lambda _bench, _workload: ("", {})),
}
"""By name; `own` reads what `arrowipc` wrote."""


def parquet_of(row_group_rows: int = ROW_GROUP_ROWS) -> Source:
    """Return Parquet, snappy, in row groups of so many rows."""
    return Source("parquet", lambda bench, workload: (bench.parquet(workload, "snappy", row_group_rows), {}))


def read(source: str | Source, asked: Asked, options: Mapping[str, str | Callable[[Workload], str]] = {}) -> Ready:
    """Return a read; an option that is a function is asked for the scaled workload."""
    reads = SOURCES[source] if isinstance(source, str) else source

    def ready(bench: Bench) -> Job:
        path, given = reads.place(bench, asked.workload)
        scaled = bench.scaled(asked.workload)
        given = {**given, **{name: text if isinstance(text, str) else text(scaled) for name, text in options.items()}}
        condition = None if asked.condition is None else asked.condition(scaled)

        def job() -> None:
            reader = bench.spark.read.format(reads.format).options(**given)
            rows = reader.load(path) if path else reader.load()
            if condition is not None:
                rows = rows.filter(condition)
            if asked.select:
                rows = rows.select(*asked.select)
            SINKS[asked.sink](rows)

        return job

    return ready


@dataclass(frozen=True, slots=True)
class Written:
    """What is written: rows that the JVM makes at little cost, the same in every turn.

    Parameters
    ----------
    rows
        Of a run of size 1.
    keys
        Values of the column `k`, which come in turn, so that every batch has rows of all.
    """

    rows: int
    keys: int = 10

    def frame(self, spark: SparkSession, size: float) -> DataFrame:
        """Return the rows, in two tasks."""
        number = f.col("id")
        return spark.range(0, max(TASKS, round(self.rows * size)), numPartitions=TASKS).select(
            number,
            (number % self.keys).cast("int").alias("k"),
            (number * 0.5).alias("amount"),
            number.cast("string").alias("name"),
            f.timestamp_micros(number * 1000).alias("at"),
        )


def write(sink: str, written: Written, options: Mapping[str, str] = {}, partition_by: str | None = None) -> Ready:
    """Return a write into a directory that is not there; `partition_by` is for Spark's own sinks."""

    def ready(bench: Bench) -> Job:
        def job() -> None:
            writer = written.frame(bench.spark, bench.size).write.format(sink).options(**options)
            if partition_by is not None:
                writer = writer.partitionBy(partition_by)
            # Spark lets `noop` be overwritten only, and a source without a table be appended to only.
            mode = "overwrite" if sink == "noop" else "append"
            writer.mode(mode).save(*([] if sink == "noop" else [bench.output()]))

        return job

    return ready
