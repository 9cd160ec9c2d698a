"""Tasks of a narrowed scan: read the required columns, and the rows that pushed conditions do not exclude.

Step 3 of `push_down` pickles a call of `command`. A worker loads it instead of the function that Spark's planner made for
the complete read, so a narrowed scan needs no planner process. Partitions come from the complete read. Two classes wrap
them: `Filtered` adds the conditions that a join found at run time, and `Combined` gives several partitions to one task,
which computes their aggregates from headers.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as s
from pyspark.sql.datasource import InputPartition

from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.spark.bridge import PyArrowBatch
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource, read_options, reader_of
from spark_arrow_ipc.spark.options.options import READING
from spark_arrow_ipc.spark.read.columns import METADATA_COLUMNS
from spark_arrow_ipc.spark.read.exact import exact_reading
from spark_arrow_ipc.spark.read.reader import Answers, ArrowIpcBatchReader, ArrowIpcInputPartition, SessionCheck

if TYPE_CHECKING:
    from spark_arrow_ipc.spark.push_down.conjuncts import Node


def command(
    source: bytes, request: str
) -> tuple[Callable[[Iterator[PyArrowBatch]], Iterator[PyArrowBatch]], s.StructType]:
    """Return the function of a narrowed scan, and its schema, as a worker of Spark expects them."""
    parsed = parse_json(request)
    schema, frame = (_schema_of(parsed[name]) for name in ("schema", "frame"))
    data_source: ArrowIpcDataSource = pickle.loads(source)  # noqa: S301 - Spark's planner pickled it in this session
    # The option `columns` has chosen the columns of the frame, and `schema` chooses among them.
    options = replace(read_options(data_source.options_of(READING)), columns=None)
    if not {*map(str.lower, schema.names)} & METADATA_COLUMNS.keys() <= {*map(str.lower, frame.names)}:
        options = replace(options, metadata_columns=True)
    if parsed.get("isExact"):
        options = exact_reading(options, {name.lower() for name in data_source.options})
    reader = reader_of(options)(schema, options)
    if isinstance(reader, ArrowIpcBatchReader) and _differ_in_case(frame):
        # The complete read has all columns of such a name, and Spark requests one by its exact name.
        reader = ArrowIpcBatchReader(schema, options, is_case_sensitive=lambda: True)
    if isinstance(reader, ArrowIpcBatchReader):
        reader = reader.decoding(frame)

    aggregate = None
    if "aggregates" in parsed:
        from spark_arrow_ipc.spark.push_down.aggregates import compile_aggregates  # few scans have any

        aggregate = compile_aggregates(parsed["aggregates"], schema, _schema_of(parsed["output"]), options)

    def read(batches: Iterator[PyArrowBatch]) -> Iterator[PyArrowBatch]:
        # One batch of one row: the pickled partition.
        for batch in batches:
            partition = pickle.loads(batch.column(0)[0].as_py())  # noqa: S301 - as above
            read_rows = partial(_read, reader, partition, frame, parsed["conjuncts"])
            yield from read_rows() if aggregate is None else aggregate(read_rows)

    return (lambda batches: _limit(read(batches), parsed.get("limit"))), schema


def _schema_of(json: str) -> s.StructType:
    # Fields nest 64 levels deep at most, and Spark's JSON has three levels for a struct.
    return s.StructType.fromJson(parse_json(json, most_levels=256))


def _differ_in_case(type_: s.DataType) -> bool:
    """Return True if names of a struct, at any depth, differ only in case."""
    if not isinstance(type_, s.StructType):
        return False
    folded = {name.casefold() for name in type_.names}
    return len(folded) < len(type_.names) or any(_differ_in_case(field.dataType) for field in type_.fields)


@dataclass(frozen=True)
class Filtered(InputPartition):  # type: ignore[misc]  # PySpark is not typed for mypy's strict mode here
    """A partition of the complete read, and conditions that a join found while the query ran."""

    partition: InputPartition | None
    conjuncts: Sequence[Node]


def add_conjuncts(partition: bytes, conjuncts: str) -> Filtered:
    """Return a partition with more conditions."""
    return Filtered(pickle.loads(partition), parse_json(conjuncts))  # noqa: S301 - as above


def keep_files(partition: bytes, positions: str) -> InputPartition:
    """Return a partition with the ranges of some positions, as the bounds of the other files exclude a condition."""
    complete: ArrowIpcInputPartition = pickle.loads(partition)  # noqa: S301 - as above
    return replace(complete, ranges=tuple(complete.ranges[i] for i in parse_json(positions)))


@dataclass(frozen=True)
class Combined(InputPartition):  # type: ignore[misc]  # as above
    """Partitions of the complete read whose aggregates one task computes from headers."""

    partitions: tuple[InputPartition | None, ...]


def combine_partitions(pickles: bytes, number: str) -> Combined:
    """Return several partitions, pickled one after the other, as one."""
    stream = BytesIO(pickles)
    return Combined(tuple(pickle.load(stream) for _ in range(int(number))))  # noqa: S301 - as above


def _limit(batches: Iterator[PyArrowBatch], rows: int | None) -> Iterator[PyArrowBatch]:
    """Yield the first rows of batches, or all if `rows` is None."""
    for batch in batches:
        if rows is None:
            yield batch
            continue
        yield batch.slice(0, rows)
        rows -= batch.num_rows
        if rows <= 0:
            return


def _read(
    reader: Any,
    partition: InputPartition | None,
    frame: s.StructType,
    conjuncts: Sequence[Node],
    answers: Answers | None = None,
) -> Iterator[PyArrowBatch]:
    if isinstance(partition, Combined):
        for each in partition.partitions:
            yield from _read(reader, each, frame, conjuncts, answers)
        return
    if isinstance(partition, Filtered):
        conjuncts = [*conjuncts, *partition.conjuncts]
        partition = partition.partition
    if (
        isinstance(reader, ArrowIpcBatchReader)
        and isinstance(partition, ArrowIpcInputPartition)
        and not isinstance(partition, SessionCheck)
        and (conjuncts or partition.selection is not None)
    ):
        from spark_arrow_ipc.spark.push_down.conjuncts import narrow_selection  # few reads need predicates

        added = METADATA_COLUMNS if reader.options.metadata_columns else {}
        file_columns = ArrowIpcBatchReader(frame, reader.options).data_columns
        selection = narrow_selection(partition.selection, file_columns, reader.data_columns, tuple(added), conjuncts)
        # Files in partitions that cannot match are not opened.
        fields = partition.partition_fields
        ranges = tuple(part for part in partition.ranges if selection is None or selection.keeps_file(fields, part))
        partition = replace(partition, selection=selection, ranges=ranges)
    elif not isinstance(reader, ArrowIpcBatchReader) and any("exact" in node for node in conjuncts):
        raise RuntimeError(
            "this reader evaluates no conditions; report this, and read with spark.arrowipc.pushDown=false"
        )
    yield from reader.read(partition) if answers is None else reader.read(partition, answers=answers)
