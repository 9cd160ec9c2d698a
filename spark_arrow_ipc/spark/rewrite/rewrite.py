"""`rewrite`: read, change, sort and write files in the workers, and commit like a write of Spark.

How Arrow's types are retained
------------------------------
1. A rewrite with ``restoreTypes`` writes the values and types of the files, or raises before it replaces files.
2. Values that only pass through are read in their stored form: nanoseconds as counts, timestamps with their offsets, and
   extension types as their storage, unless a file has annotations of Spark's types, which are written again.
3. If a function, ``where`` or ``partitionBy`` gets values in Spark's types, a value that such a type cannot hold is an error
   that names the column.
4. Types that cannot be restored from Spark's types are refused (`restore_schema`). `check_types` compares its result with
   the files, so that types do not depend on annotations only.
"""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Final, Unpack

from pyspark.sql import SparkSession
from pyspark.sql import types as s
from pyspark.sql.datasource import InputPartition

from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.predicate.expressions import columns
from spark_arrow_ipc.dataset.predicate.parser import parse
from spark_arrow_ipc.dataset.write import commit
from spark_arrow_ipc.dataset.write.commit import CommitSummary
from spark_arrow_ipc.dataset.write.existing_files import live_files
from spark_arrow_ipc.dataset.write.job_plan import JobPlan
from spark_arrow_ipc.errors import ConcurrentWriteError, OptionError
from spark_arrow_ipc.spark.datasource import read_options, reader_of, schema_of
from spark_arrow_ipc.spark.functions.user_function import BatchFunction, ship
from spark_arrow_ipc.spark.options import values
from spark_arrow_ipc.spark.options.keywords import RewriteKeywords
from spark_arrow_ipc.spark.options.options import READING, STREAMING, WRITING, Side, check_known, parse_write
from spark_arrow_ipc.spark.options.read_options import PATHS, STORAGE, ReadOptions
from spark_arrow_ipc.spark.options.typed import Paths, strings_of_read, strings_without_paths
from spark_arrow_ipc.spark.options.values import Nanoseconds
from spark_arrow_ipc.spark.read.dataset_schema import file_schemas
from spark_arrow_ipc.spark.read.exact import as_stored, without_rounding, without_skipping
from spark_arrow_ipc.spark.read.reader import ArrowIpcInputPartition
from spark_arrow_ipc.spark.rewrite.in_place import check_spellings, is_in_place
from spark_arrow_ipc.spark.rewrite.job import (
    ChangedRows,
    Part,
    RewriteTask,
    abort_on_error,
    commit_reports,
    context_of,
    run_tasks,
)
from spark_arrow_ipc.spark.write.plan import WritePlan, plan_write
from spark_arrow_ipc.spark.write.same_types import check_types, with_metadata
from spark_arrow_ipc.spark.write.writer import check_fit, plan_batch_job
from spark_arrow_ipc.storage.paths import is_remote
from spark_arrow_ipc.table.snapshot import Snapshot


def exact(
    reading: ReadOptions,
    names: Collection[str],
    schemas: Iterable[Schema],
    partition_by: Sequence[object],
    *,
    has_function: bool,
) -> ReadOptions:
    """Return the options of a read that changes no value or raises; `names` are the user's options in lower case."""
    if "nanoseconds" in names and reading.nanoseconds is Nanoseconds.FLOOR:
        raise OptionError(
            "nanoseconds=floor drops what is finer than Spark's types, and restoreTypes=true writes what was in the files: "
            "give nanoseconds=error or long, or leave restoreTypes out"
        )
    stored = as_stored(reading, schemas, names)
    checked = without_rounding(replace(stored, extension_types=reading.extension_types), names)
    if has_function:
        return checked
    predicate = () if reading.where is None else columns(parse(reading.where))
    # Columns whose values are used in Spark's types.
    seen = [*(column.path[0] for column in predicate), *partition_by]
    return stored if not seen or _have_same_types(seen, checked, stored) else checked


def _have_same_types(seen: Iterable[object], checked: ReadOptions, stored: ReadOptions) -> bool:
    """Return True if columns have the same Spark types in two reads."""
    ours, theirs = (
        {key: field.dataType for i, field in enumerate(schema_fields) for key in (i, field.name.casefold())}
        # Without the predicate, which can perhaps be bound only to the types of `checked`.
        for schema_fields in (schema_of(replace(each, where=None)).fields for each in (checked, stored))
    )
    keys = [name.casefold() if isinstance(name, str) else name for name in seen]
    return all(key in ours and ours[key] == theirs[key] for key in keys)


def _unite_sides(doing: str, done: str, *sides: Side) -> Side:
    attributes = {name: rows for side in sides for name, rows in side.attributes.items() if name not in PATHS}
    return Side(doing, done, attributes)


_REWRITTEN: Final = _unite_sides("rewriting", "rewritten", READING, WRITING)
_INGESTED: Final = _unite_sides("ingesting", "ingested", READING, STREAMING, WRITING)


def split_options(
    user_options: Mapping[str, Any],
    source: Paths,
    target: str | os.PathLike[str],
    *,
    notes: Sequence[str] | None = None,
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the options of the read, of a stream if it has paths of `notes`, and the options of the write, as strings."""
    # The table of options decides the sides of an option; an option of both sides (``vectors``) goes to both, and options of
    # a storage go to the remote sides.
    strings, ingested = strings_without_paths(user_options), notes is not None
    check_known(strings, _INGESTED if ingested else _REWRITTEN, *(() if ingested else (STREAMING,)))
    paths = [source] if isinstance(source, (str, os.PathLike)) else list(source)
    remote = any(is_remote(os.fspath(path)) for path in paths), is_remote(os.fspath(target))
    any_remote = any([*remote, *map(is_remote, notes or ())])
    readers = (READING, STREAMING) if ingested else (READING,)
    of_read, of_write = (
        {
            name: text
            for name, text in strings.items()
            if any(side.option(name) for side in sides)
            and (is_elsewhere or not any_remote or not name.lower().startswith(_OF_STORAGE))
        }
        for sides, is_elsewhere in zip((readers, (WRITING,)), remote, strict=True)
    )
    return of_read, of_write


def byte_argument(name: str, value: int | str, *, least: int = 1, most: int | None = None) -> int:
    """Return the number of bytes of an argument with or without a unit."""
    try:
        nbytes = values.byte_size(str(value))
    except ValueError:
        nbytes = 0
    if nbytes < least or (most is not None and nbytes > most):
        bounds = "" if most is None else f" from {least >> 20}m to {most >> 30}g"
        raise OptionError(expected=f"bytes{bounds} as {name}, as 256m", found=repr(value))
    return nbytes


@dataclass(frozen=True, slots=True)
class RewriteResult:
    """The figures of a rewrite. A notebook shows them as a table.

    Parameters
    ----------
    files_read, files_written
        Number of files. A file of the source counts if a part was planned to be read.
    rows_read, rows_written
        Number of rows; rows are read after ``where`` and before the function.
    bytes_read, bytes_written
        Sizes of these files in the storage.
    files_removed
        Number of files that were replaced.
    published
        False if the job had nothing to do: the token was committed before, ``ifExists=ignore`` found files, or no files
        were small enough for a compaction.
    jobid
        Id of the job in the log; empty without a job.
    """

    files_read: int = 0
    files_written: int = 0
    rows_read: int = 0
    rows_written: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    files_removed: int = 0
    published: bool = False
    jobid: str = ""

    @classmethod
    def of(cls, summary: CommitSummary, sizes: dict[str, int], rows_read: int) -> RewriteResult:
        """Return the result of a job."""
        return cls(
            len(sizes), summary.files, rows_read, summary.rows, sum(sizes.values()), summary.nbytes, summary.removed,
            summary.published, summary.jobid,
        )  # fmt: skip

    def __str__(self) -> str:
        """Return the figures as a line."""
        if not self.published:
            return "nothing to do"
        return (
            f"{self.files_read:,} files ({self.rows_read:,} rows, {self.bytes_read:,} bytes) became "
            f"{self.files_written:,} ({self.rows_written:,} rows, {self.bytes_written:,} bytes)"
        )

    def _repr_html_(self) -> str:
        figures = asdict(self)
        texts = {
            name: f"{value:,}" if type(value) is int else html.escape(str(value)) for name, value in figures.items()
        }
        rows = "".join(
            f"<tr><td>{html.escape(name.replace('_', ' '))}</td><td style='text-align:right'>{text}</td></tr>"
            for name, text in texts.items()
        )
        return f"<table>{rows}</table>"


_MODES: Final = ("append", "overwrite")

_PLANNED: Final = 5
"""Most times that a rewrite in place is planned if others change the directory each time."""

_OF_STORAGE: Final = STORAGE[0].removesuffix("*")

_LEAST_SORTED: Final = 1 << 20
"""Fewest bytes that are sorted together: each run is a file, and a number without its unit would make millions."""

_MOST_SORTED: Final = 1 << 30
"""Most bytes that are sorted together: value offsets of 32 bits count 2 GiB."""


def rewrite(
    spark: SparkSession,
    source: Paths,
    target: str | os.PathLike[str],
    function: BatchFunction | None = None,
    schema: s.StructType | str | None = None,
    *,
    mode: str = "append",
    sort_by: str | Sequence[str] = (),
    sort_bytes: int | str = "256m",
    **options: Unpack[RewriteKeywords],
) -> RewriteResult:
    """Write the rows of a read as files of a table, without a row that reaches the JVM.

    Files and commit equal ``load(source)`` and ``write.save(target)`` with the same options: either all files become visible
    or none. Spark repeats a task that fails; of a task that ran twice one result counts.

    Parameters
    ----------
    spark
        A classic session: the driver's process plans and commits.
    source
        The source, as for ``load``.
    target
        The directory of the table. It may be the source, with ``mode="overwrite"``: exactly the files that were read are
        then replaced, also if others add files meanwhile. An older version cannot be put over newer rows in this way.
    function
        Gets an iterator of `pyarrow.RecordBatch` in the schema of ``load(source)``, and returns or yields such batches, as
        for `map_in_arrow`.
    schema
        The schema of the function's result, a `StructType` or a string such as ``"id bigint"``; by default the input's.
    mode
        ``append``, or ``overwrite`` (with ``partitionOverwriteMode=dynamic`` only the written partitions).
    sort_by
        Names of columns by which the rows of each file are sorted, nulls first, as Spark sorts. Files have no order.
    sort_bytes
        Bytes of the rows that are sorted together, uncompressed and without dictionaries, from 1m to 1g; a file has at
        most so many. A task needs about twice as much memory, and a record batch of the source.
    **options
        Options of a read and of a write: ``where="year = 2024"``, ``compression="zstd"``, ``partitionBy=["year"]``. An option
        of both (``storage.*``, ``vectors``) applies to both. ``nanoseconds`` is ``error`` by default.

    Returns
    -------
    RewriteResult
        The numbers of files, rows and bytes that were read and written.

    Raises
    ------
    OptionError, NoFilesError, ArrowIpcError
        As for a read and a write, before any task.
    FunctionError
        The function cannot be sent to the workers.
    PySparkException
        A task failed, as often as Spark repeats it. Nothing is published, and staged files are removed.
    CommitError
        Either nothing is published, or the message has the published files.
    UnsupportedError
        The session is one of Spark Connect.
    """
    context_of(spark)
    of_read, of_write = split_options(options, source, target)
    reading = read_options(strings_of_read(source, of_read))
    writing = parse_write({**of_write, "path": os.fspath(target)})
    if mode not in _MODES:
        raise OptionError(expected=f"one of {', '.join(_MODES)} as mode", found=repr(mode))
    if function is None and schema is not None:
        raise OptionError(
            "a schema is that of a function's result; without a function the columns are those of the read"
        )
    shipped = None if function is None else ship(function)  # raises before any file is touched
    names = {name.lower() for name in of_read}
    if mode == "overwrite":
        reading = without_skipping(reading)
    schemas: list[Schema] = []
    if writing.restore_types:
        schemas = file_schemas(reading)
        reading = exact(reading, names, schemas, writing.partition_by or (), has_function=shipped is not None)
        writing = with_metadata(writing, schemas[0] if schemas else None)
    else:
        reading = without_rounding(reading, names)
    read_schema = schema_of(reading)
    output = read_schema if schema is None else s.StructType.fromDDL(schema) if isinstance(schema, str) else schema
    plan = order_plan(plan_write(output, writing), sort_by, sort_bytes)
    # A function may change types, and a struct of which only some fields are read has another type.
    if shipped is None and not any(isinstance(path, tuple) for path in reading.columns or ()):
        check_types(plan.file_schema, schemas)
    reader = reader_of(reading)(read_schema, reading)
    plan_it = partial(plan_batch_job, plan, os.fspath(target), writing, overwrite=mode == "overwrite")
    job, plan, partitions = _plan(plan_it, reader.partitions, reading)
    if job.skip:
        return RewriteResult(jobid=job.staging.jobid)
    if shipped is not None and not partitions:
        partitions = [None]  # without rows the function is called once, as by mapInArrow
    parts = [Part(number, each) for number, each in enumerate(partitions)]
    changed = ChangedRows(zone_of(spark), output, shipped, reading.nanoseconds)
    task = RewriteTask(reader, plan, job.staging, changed)
    with abort_on_error(job):
        reports = run_tasks(spark, task, parts, f"rewrite into {job.staging.root}")
        plan = plan.settle(report.output for report in reports)
        summary = commit_reports(
            job,
            reports,
            write_empty=lambda: plan.write_empty(job.staging),
            fits=check_fit(plan, writing.schema_check, job.staging.storage),
            schema=plan.new_schema(writing.schema_check),
        )
    return RewriteResult.of(summary, _measure_files(partitions), sum(report.rows_read for report in reports))


def zone_of(spark: SparkSession) -> str:
    """Return the session's time zone."""
    return str(spark.conf.get("spark.sql.session.timeZone"))


def order_plan(plan: WritePlan, sort_by: str | Sequence[str], sort_bytes: int | str) -> WritePlan:
    """Return a plan that sorts rows by some columns, or the same plan without columns."""
    names = [sort_by] if isinstance(sort_by, str) else list(sort_by)
    nbytes = byte_argument("sort_bytes", sort_bytes, least=_LEAST_SORTED, most=_MOST_SORTED)
    return plan.with_order(names, nbytes) if names else plan


def _plan(
    plan_it: Callable[[], tuple[JobPlan, WritePlan]], partitions: Any, reading: ReadOptions
) -> tuple[JobPlan, WritePlan, list[InputPartition | None]]:
    """Plan the job and the read, with the same files in both if the job replaces files that it reads."""
    # Others may change the directory between the two plans.
    for _ in range(_PLANNED):
        job, plan = plan_it()
        if job.skip:
            return job, plan, []
        with abort_on_error(job):
            planned = list(partitions())
            in_place = is_in_place(job, reading)
            if in_place:
                check_spellings(each for each in planned if isinstance(each, ArrowIpcInputPartition))
            if not in_place or live_files(Snapshot.open(job.staging.directory)) == job.intent.snapshot:
                return job, plan, planned
        commit.abort(job)
    raise ConcurrentWriteError(
        f"others changed the directory each of {_PLANNED} times that this rewrite in place was planned; nothing is written",
        path=job.staging.root,
    )


def _measure_files(partitions: Sequence[InputPartition | None]) -> dict[str, int]:
    """Return the size of each file that is read, by path."""
    planned = (each for each in partitions if isinstance(each, ArrowIpcInputPartition))
    return {part.path: part.nbytes for each in planned for part in each.ranges}
