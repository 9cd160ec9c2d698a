"""``arrowipc inspect``: show the metadata of files and of servers' tables, as text or as JSON, without decoding values."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.arrow.python_values.to_text import to_text
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.arrow.types import CustomMetadata
from spark_arrow_ipc.cli.schema import (
    describe_fields,
    describe_statistics,
    field_json,
    pairs_json,
    statistics_json,
    without_statistics,
)
from spark_arrow_ipc.cli.shared import files, tensors, terminal
from spark_arrow_ipc.cli.shared.files import Input
from spark_arrow_ipc.cli.shared.outline import BatchOutline, FileOutline, read_outline
from spark_arrow_ipc.cli.shared.rows import Chosen
from spark_arrow_ipc.dataset.statistics.read import BlockStatistics, file_statistics
from spark_arrow_ipc.errors import ArrowIpcError, NoTableError, printable
from spark_arrow_ipc.ipc.columns.projection import select_known_columns
from spark_arrow_ipc.ipc.constants import Format
from spark_arrow_ipc.ipc.dissociated.connect import read_served_schema
from spark_arrow_ipc.ipc.dissociated.location import Location, parse_location
from spark_arrow_ipc.ipc.dissociated.shared_memory import Handle


@dataclass(frozen=True, slots=True)
class ServedTable:
    """A server's table without its values."""

    # Address, ticket and part: the URI without its tags
    path: str
    # The place of the bodies, in words
    bodies: str
    # The ways to read it, in words
    parts: str
    schema: Schema
    custom_metadata: CustomMetadata
    batches: tuple[RecordBatch, ...]

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return sum(batch.num_rows for batch in self.batches)


def read_served(source: Input) -> ServedTable:
    """Read a table's schema and the rows of its record batches. Bodies travel only from servers that know no parts."""
    location = parse_location(source.path)
    schema = read_served_schema(source.path, token=files.server_token())
    with Chosen(()).open_rows(source) as rows:
        metadata, batches = rows.reader.custom_metadata, tuple(rows.batches)
    return ServedTable(location.shown, _bodies(location), _parts(location), schema, metadata, batches)


def _bodies(location: Location) -> str:
    if location.remote_handle is None:
        return "through the socket"
    return f"in shared memory ({Handle.decode(location.remote_handle).kind})"


def _parts(location: Location) -> str:
    if location.want_part is None:
        return "the server reads it out whole only"
    advised = "" if location.of is None else f", of={location.of} as the URI has it"
    return f"can be read in parts, and by columns{advised}"


_SHOWN_BATCHES = 20
"""Batches that are shown without ``--all`` and ``--json``."""


def inspect_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc inspect``."""
    files.add_path_arguments(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object a line for each file")
    parser.add_argument(
        "--all", action="store_true", help=f"all batches, not only the first {_SHOWN_BATCHES}; --json has them always"
    )


def run_inspect(arguments: argparse.Namespace) -> int:
    """Print the outline of each file; return 1 if a file cannot be read."""
    refused = files.Refusals()
    most = None if arguments.json or arguments.all else _SHOWN_BATCHES
    for i, source in enumerate(files.named_by(arguments, refused=refused)):
        try:
            lines = _lines(source, most, as_json=arguments.json)
        except (ArrowIpcError, OSError) as error:
            refused(source.path, error)
            continue
        print("\n".join([*([""] if i and not arguments.json else []), *lines]))
    return refused.status


def _lines(source: Input, most: int | None, *, as_json: bool) -> Iterable[str]:
    """Return the text to print about a file, which holds a table or tensors, or about a server's table."""
    if source.is_served:
        table = read_served(source)
        return [terminal.json_line(_remote_to_json(table))] if as_json else _describe_served(table, most)
    try:
        outline = read_outline(source.openable(), measure=most)
    except NoTableError:
        if not tensors.holds_tensors(source):
            raise
        return _tensor_lines(source, as_json=as_json)
    return [terminal.json_line(to_json(outline, source))] if as_json else describe(outline, source, most)


def _tensor_lines(source: Input, *, as_json: bool) -> Iterable[str]:
    with tensors.open_tensors(source) as stored:
        every = list(stored)
    nbytes = every[0].source.nbytes or 0
    if as_json:
        return [terminal.json_line(tensors.to_json(source.path, nbytes, every))]
    return tensors.describe(source.path, nbytes, every)


def describe(outline: FileOutline, source: Input, most: int | None = None) -> Iterator[str]:
    """Yield the lines of the text output."""
    schema = outline.schema
    yield printable(outline.path)
    yield f"  Arrow IPC {outline.format}, {terminal.count(outline.nbytes, 'byte')}, {schema.endianness.name.lower()}-endian"
    batches = terminal.count(len(outline.record_batches), "record batch", "record batches")
    codecs = ", ".join(outline.compressions) or "none"
    yield f"  {terminal.count(outline.num_rows, 'row')} in {batches}, compression {codecs}"
    yield from _sizes(outline)
    if outline.next_offset is not None:
        yield f"  another stream begins at byte {outline.next_offset:,}, which is not shown here"
    yield from _schema(schema)
    yield from _partition(source)
    yield from _schema_metadata(schema)
    yield from _pairs("custom metadata of the footer", without_statistics(outline.custom_metadata))
    statistics = _statistics(outline, source)
    if statistics is not None:
        yield from describe_statistics(statistics)
    yield from _dictionaries(outline, most)
    yield from _record_batches(outline, most)


def _schema(schema: Schema) -> Iterator[str]:
    yield ""
    yield f"schema: {terminal.count(len(schema), 'column')}"
    yield from describe_fields(schema.fields)


def _schema_metadata(schema: Schema) -> Iterator[str]:
    for field in schema.fields:
        yield from _pairs(f"custom metadata of column {printable(field.name)}", field.custom_metadata)
    yield from _pairs("custom metadata of the schema", schema.custom_metadata)


def _describe_served(table: ServedTable, most: int | None) -> Iterator[str]:
    """Yield the lines of the text output of a server's table."""
    yield printable(table.path)
    yield f"  Dissociated IPC, bodies {table.bodies}, {table.schema.endianness.name.lower()}-endian"
    batches = terminal.count(len(table.batches), "record batch", "record batches")
    yield f"  {terminal.count(table.num_rows, 'row')} in {batches}"
    yield f"  {table.parts}"
    yield from _schema(table.schema)
    yield from _schema_metadata(table.schema)
    yield from _pairs("custom metadata of the schema's message", table.custom_metadata)
    if table.batches:
        yield ""
        yield "record batches:"
        rows = [(str(i), f"{batch.num_rows:,}") for i, batch in enumerate(table.batches[:most])]
        yield from terminal.table(("#", "rows"), rows, terminal.RIGHT * 2)
        yield from _rest(len(table.batches), most)
        for i, batch in enumerate(table.batches[:most]):
            yield from _pairs(f"custom metadata of record batch {i}", batch.custom_metadata)


def _remote_to_json(table: ServedTable) -> dict[str, Any]:
    """Convert a server's table for `json.dumps`; nothing is truncated or escaped."""
    return {
        "path": table.path,
        "format": "dissociated",
        "bodies": table.bodies,
        "num_rows": table.num_rows,
        "schema": _schema_json(table.schema),
        "custom_metadata": pairs_json(table.custom_metadata),
        "record_batches": [
            {"length": batch.num_rows, "custom_metadata": pairs_json(batch.custom_metadata)} for batch in table.batches
        ],
    }


def _partition(source: Input) -> Iterator[str]:
    if source.fields:
        yield ""
        yield f"columns of the path: {len(source.fields)}"
        rows = [
            (terminal.cut(name), type_, terminal.cut(str(value))) for name, type_, value in _partition_values(source)
        ]
        yield from terminal.table(("name", "type", "value"), rows)


def _partition_values(source: Input) -> Iterator[tuple[str, str, Any]]:
    for field, value in zip(source.fields, source.values, strict=True):
        (text,) = to_text(from_pylist.array([value], field.type))
        yield field.name, str(field.type), text


def _statistics(outline: FileOutline, source: Input) -> BlockStatistics | None:
    if outline.format != Format.FILE:
        return None
    with ipc.open_file(source.openable(), columns=select_known_columns) as reader:
        return file_statistics(reader)


def _sizes(outline: FileOutline) -> Iterator[str]:
    every = (*outline.record_batches, *outline.dictionaries)
    metadata, bodies = (sum(getattr(b.block, part) for b in every) for part in ("metadata_nbytes", "body_nbytes"))
    yield f"  bodies of {terminal.count(bodies, 'byte')}, their metadata {terminal.count(metadata, 'byte')}"
    measured, body_nbytes, uncompressed_nbytes = outline.measured
    if measured and body_nbytes:
        which = (
            "" if measured == len(every) else f", in {measured:,} of {terminal.count(len(every), 'batch', 'batches')}"
        )
        ratio = f"{uncompressed_nbytes / body_nbytes:,.2f}"
        yield f"  compression ratio {ratio}: {uncompressed_nbytes:,} bytes in {body_nbytes:,}{which}"


def _pairs(title: str, pairs: t.CustomMetadata) -> Iterator[str]:
    if pairs:
        yield ""
        yield f"{title}:"
        yield from (f"  {terminal.cut(key)}: {terminal.cut(value)}" for key, value in pairs)


def _dictionaries(outline: FileOutline, most: int | None) -> Iterator[str]:
    if not outline.dictionaries:
        return
    yield ""
    yield f"dictionaries: {terminal.count(len(outline.dictionaries), 'batch', 'batches')}"
    rows = [
        (
            *_place(batch),
            str(batch.dictionary_id),
            "yes" if batch.is_delta else "no",
            terminal.cut(", ".join(outline.dictionary_fields.get(batch.dictionary_id or 0, ())) or "none"),
        )
        for batch in outline.dictionaries[:most]
    ]
    head = ("byte offset", "metadata", "body", "uncompressed", "values", "compression", "id", "delta", "fields")
    yield from terminal.table(head, rows, terminal.RIGHT * 5 + terminal.LEFT + terminal.RIGHT)
    yield from _rest(len(outline.dictionaries), most)


def _record_batches(outline: FileOutline, most: int | None) -> Iterator[str]:
    if not outline.record_batches:
        return
    yield ""
    yield "record batches:"
    rows = [(str(i), *_place(batch)) for i, batch in enumerate(outline.record_batches[:most])]
    head = ("#", "byte offset", "metadata", "body", "uncompressed", "rows", "compression")
    yield from terminal.table(head, rows, terminal.RIGHT * 6)
    yield from _rest(len(outline.record_batches), most)
    for i, batch in enumerate(outline.record_batches[:most]):
        yield from _pairs(f"custom metadata of record batch {i}", batch.custom_metadata)


def _place(batch: BatchOutline) -> tuple[str, ...]:
    block = batch.block
    numbers = (block.byte_offset, block.metadata_nbytes, block.body_nbytes, batch.uncompressed_nbytes, batch.length)
    return (*("-" if number is None else f"{number:,}" for number in numbers), batch.compression or "none")


def _rest(count: int, most: int | None) -> Iterator[str]:
    if most is not None and count > most:
        yield f"  ... and {count - most:,} more; --all shows them"


def to_json(outline: FileOutline, source: Input) -> dict[str, Any]:
    """Convert the outline for `json.dumps`; nothing is truncated or escaped."""
    schema = outline.schema
    statistics = _statistics(outline, source)
    return {
        "path": outline.path,
        "format": outline.format,
        "nbytes": outline.nbytes,
        "num_rows": outline.num_rows,
        "next_stream_byte_offset": outline.next_offset,
        "compression": list(outline.compressions),
        "schema": _schema_json(schema),
        "partition": [
            {"name": name, "type": type_, "value": value if value is None else str(value)}
            for name, type_, value in _partition_values(source)
        ],
        "custom_metadata": pairs_json(outline.custom_metadata),
        "statistics": None if statistics is None else statistics_json(statistics),
        "record_batches": [_batch_json(batch) for batch in outline.record_batches],
        "dictionaries": [
            {
                "id": batch.dictionary_id,
                "is_delta": batch.is_delta,
                "fields": list(outline.dictionary_fields.get(batch.dictionary_id or 0, ())),
                **_batch_json(batch),
            }
            for batch in outline.dictionaries
        ],
    }


def _schema_json(schema: Schema) -> dict[str, Any]:
    return {
        "endianness": schema.endianness.name.lower(),
        "fields": [field_json(field) for field in schema.fields],
        "custom_metadata": pairs_json(schema.custom_metadata),
    }


def _batch_json(batch: BatchOutline) -> dict[str, Any]:
    return {
        "byte_offset": batch.block.byte_offset,
        "metadata_nbytes": batch.block.metadata_nbytes,
        "body_nbytes": batch.block.body_nbytes,
        "uncompressed_nbytes": batch.uncompressed_nbytes,
        "length": batch.length,
        "compression": batch.compression,
        "metadata_version": batch.metadata_version,
        "custom_metadata": pairs_json(batch.custom_metadata),
    }
