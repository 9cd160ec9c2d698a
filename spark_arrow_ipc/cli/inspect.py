"""``arrowipc inspect``: show the metadata of files and of servers' tables, as text or as JSON, without decoding values."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from typing import Any

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.arrow.python_values.to_text import to_text
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.cli.schema import (
    describe_fields,
    pairs_json,
    schema_json,
    without_statistics,
)
from spark_arrow_ipc.cli.shared import files, tensors, terminal
from spark_arrow_ipc.cli.shared.file_metadata import BatchMetadata, FileMetadata, read_file_metadata
from spark_arrow_ipc.cli.shared.files import Input
from spark_arrow_ipc.cli.shared.rows import Chosen, add_row_arguments
from spark_arrow_ipc.cli.stats import MOST_DISTINCT, print_statistics, statistics_json
from spark_arrow_ipc.dataset.statistics.read import BlockStatistics, file_statistics
from spark_arrow_ipc.errors import ArrowIpcError, NoTableError, OptionError, printable
from spark_arrow_ipc.ipc.columns.projection import select_known_columns
from spark_arrow_ipc.ipc.constants import Format
from spark_arrow_ipc.ipc.dissociated.connect import read_served_schema
from spark_arrow_ipc.ipc.dissociated.location import parse_location
from spark_arrow_ipc.ipc.dissociated.shared_memory import Handle

# Batches that are shown without ``--all`` and ``--json``.
_SHOWN_BATCHES = 20


def inspect_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc inspect``."""
    files.add_path_arguments(parser)
    parser.add_argument(
        "--json", action="store_true", help="one JSON object a line for each file or, with --stats, column"
    )
    parser.add_argument(
        "--all", action="store_true", help=f"all batches, not only the first {_SHOWN_BATCHES}; --json has them always"
    )
    parser.add_argument(
        "--stats", action="store_true",
        help="nulls, bounds, distinct values and bytes of each column of all files together; the options below are for it",
    )  # fmt: skip
    parser.add_argument(
        "--scan", action="store_true",
        help=f"read the values of files with statistics too, which counts distinct values (up to {MOST_DISTINCT:,})",
    )  # fmt: skip
    parser.add_argument(
        "--arrow", metavar="FILE", help="write an Arrow file of Arrow's statistics schema, and print nothing"
    )
    add_row_arguments(parser)


def run_inspect(arguments: argparse.Namespace) -> int:
    """Print the metadata of each file, or statistics of all; return 1 if a file cannot be read."""
    if arguments.stats:
        return print_statistics(arguments)
    if arguments.scan or any(each is not None for each in (arguments.arrow, arguments.columns, arguments.where)):
        raise OptionError("--scan, --arrow, --columns and --where are options of --stats; add it, or leave them out")
    refused = files.Refusals()
    # Programs want all batches, people the first ones.
    most = None if arguments.json or arguments.all else _SHOWN_BATCHES
    for i, source in enumerate(files.list_inputs(arguments, refused=refused)):
        try:
            lines = list(_lines(source, most, as_json=arguments.json))
        except (ArrowIpcError, OSError) as error:
            refused(source.path, error)
            continue
        print("\n".join([*([""] if i and not arguments.json else []), *lines]))
    return refused.status


def _lines(source: Input, most: int | None, *, as_json: bool) -> Iterable[str]:
    """Return the text about a file, which holds a table or tensors, or about a server's table."""
    if source.is_served:
        return _remote_lines(source, most, as_json=as_json)
    try:
        metadata = read_file_metadata(source.openable(), measure=most)
    except NoTableError:
        # Only now, as tables are usual and cost nothing then.
        if not tensors.holds_tensors(source):
            raise
        return _tensor_lines(source, as_json=as_json)
    return [terminal.json_line(to_json(metadata, source))] if as_json else describe(metadata, source, most)


def _tensor_lines(source: Input, *, as_json: bool) -> Iterable[str]:
    with tensors.open_tensors(source) as stored:
        # All headers, while the file is open.
        every = list(stored)
    nbytes = every[0].source.nbytes or 0
    if as_json:
        return [terminal.json_line(tensors.to_json(source.path, nbytes, every))]
    return tensors.describe(source.path, nbytes, every)


def describe(metadata: FileMetadata, source: Input, most: int | None = None) -> Iterator[str]:
    """Yield the lines of the text output."""
    schema = metadata.schema
    yield printable(metadata.path)
    yield f"  Arrow IPC {metadata.format}, {terminal.count(metadata.nbytes, 'byte')}, {schema.endianness.name.lower()}-endian"
    batches = terminal.count(len(metadata.record_batches), "record batch", "record batches")
    codecs = ", ".join(metadata.compressions) or "none"
    yield f"  {terminal.count(metadata.num_rows, 'row')} in {batches}, compression {codecs}"
    yield from _sizes(metadata)
    if metadata.next_offset is not None:
        yield f"  another stream begins at byte {metadata.next_offset:,}, which is not shown here"
    yield from _schema(schema)
    yield from _partition(source)
    yield from _schema_metadata(schema)
    yield from _pairs("custom metadata of the footer", without_statistics(metadata.custom_metadata))
    statistics = _statistics(metadata, source)
    if statistics is not None:
        yield ""
        yield f"statistics: {terminal.count(len(statistics.columns), 'column')}, of each record batch; --stats shows them"
        if statistics.dropped:
            paths = ", ".join(".".join(path) for path in statistics.dropped)
            yield f"  without statistics for lack of space: {terminal.cut(paths, 200)}"
    yield from _dictionaries(metadata, most)
    yield from _record_batches(metadata, most)


def _schema(schema: Schema) -> Iterator[str]:
    yield ""
    yield f"schema: {terminal.count(len(schema), 'column')}"
    yield from describe_fields(schema.fields)


def _schema_metadata(schema: Schema) -> Iterator[str]:
    for field in schema.fields:
        yield from _pairs(f"custom metadata of column {printable(field.name)}", field.custom_metadata)
    yield from _pairs("custom metadata of the schema", schema.custom_metadata)


def _remote_lines(source: Input, most: int | None, *, as_json: bool) -> Iterator[str]:
    """Yield the lines about a server's table. Only servers that know no parts send the bodies of its record batches."""
    location = parse_location(source.path)
    schema = read_served_schema(source.path, token=files.server_token())
    # Without columns, so that a server with parts sends no bodies.
    with Chosen(()).open_rows(source) as rows:
        metadata, batches = rows.reader.custom_metadata, tuple(rows.batches)
    num_rows = sum(batch.num_rows for batch in batches)
    bodies = "through the socket"
    if location.remote_handle is not None:
        bodies = f"in shared memory ({Handle.decode(location.remote_handle).kind})"
    if as_json:
        yield terminal.json_line({
            "path": location.without_tags,
            "format": "dissociated",
            "bodies": bodies,
            "num_rows": num_rows,
            "schema": schema_json(schema),
            "custom_metadata": pairs_json(metadata),
            "record_batches": [
                {"length": batch.num_rows, "custom_metadata": pairs_json(batch.custom_metadata)} for batch in batches
            ],
        })  # fmt: skip
        return
    yield printable(location.without_tags)
    yield f"  Dissociated IPC, bodies {bodies}, {schema.endianness.name.lower()}-endian"
    yield f"  {terminal.count(num_rows, 'row')} in {terminal.count(len(batches), 'record batch', 'record batches')}"
    if location.want_part is None:
        yield "  the server reads it out whole only"
    else:
        advised = "" if location.of is None else f", of={location.of} as the URI has it"
        yield f"  can be read in parts, and by columns{advised}"
    yield from _schema(schema)
    yield from _schema_metadata(schema)
    yield from _pairs("custom metadata of the schema's message", metadata)
    if batches:
        yield ""
        yield "record batches:"
        lines = [(str(i), f"{batch.num_rows:,}") for i, batch in enumerate(batches[:most])]
        yield from terminal.table(("#", "rows"), lines, terminal.RIGHT * 2)
        yield from _rest(len(batches), most)
        for i, batch in enumerate(batches[:most]):
            yield from _pairs(f"custom metadata of record batch {i}", batch.custom_metadata)


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


def _statistics(metadata: FileMetadata, source: Input) -> BlockStatistics | None:
    # A stream has no footer, and so no statistics.
    if metadata.format != Format.FILE:
        return None
    with ipc.open_file(source.openable(), columns=select_known_columns) as reader:
        return file_statistics(reader)


def _sizes(metadata: FileMetadata) -> Iterator[str]:
    every = (*metadata.record_batches, *metadata.dictionaries)
    bodies, headers = (sum(getattr(b.block, part) for b in every) for part in ("body_nbytes", "metadata_nbytes"))
    yield f"  bodies of {terminal.count(bodies, 'byte')}, their metadata {terminal.count(headers, 'byte')}"
    measured, body_nbytes, uncompressed_nbytes = metadata.sizes_of_measured
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


def _dictionaries(metadata: FileMetadata, most: int | None) -> Iterator[str]:
    if not metadata.dictionaries:
        return
    yield ""
    yield f"dictionaries: {terminal.count(len(metadata.dictionaries), 'batch', 'batches')}"
    rows = [
        (
            *_place(batch),
            str(batch.dictionary_id),
            "yes" if batch.is_delta else "no",
            terminal.cut(", ".join(metadata.dictionary_fields.get(batch.dictionary_id or 0, ())) or "none"),
        )
        for batch in metadata.dictionaries[:most]
    ]
    head = ("byte offset", "metadata", "body", "uncompressed", "values", "compression", "id", "delta", "fields")
    yield from terminal.table(head, rows, terminal.RIGHT * 5 + terminal.LEFT + terminal.RIGHT)
    yield from _rest(len(metadata.dictionaries), most)


def _record_batches(metadata: FileMetadata, most: int | None) -> Iterator[str]:
    if not metadata.record_batches:
        return
    yield ""
    yield "record batches:"
    rows = [(str(i), *_place(batch)) for i, batch in enumerate(metadata.record_batches[:most])]
    head = ("#", "byte offset", "metadata", "body", "uncompressed", "rows", "compression")
    yield from terminal.table(head, rows, terminal.RIGHT * 6)
    yield from _rest(len(metadata.record_batches), most)
    for i, batch in enumerate(metadata.record_batches[:most]):
        yield from _pairs(f"custom metadata of record batch {i}", batch.custom_metadata)


def _place(batch: BatchMetadata) -> tuple[str, ...]:
    block = batch.block
    numbers = (block.byte_offset, block.metadata_nbytes, block.body_nbytes, batch.uncompressed_nbytes, batch.length)
    return (*("-" if number is None else f"{number:,}" for number in numbers), batch.compression or "none")


def _rest(count: int, most: int | None) -> Iterator[str]:
    if most is not None and count > most:
        yield f"  ... and {count - most:,} more; --all shows them"


def to_json(metadata: FileMetadata, source: Input) -> dict[str, Any]:
    """Convert the metadata for `json.dumps`; nothing is truncated or escaped."""
    schema = metadata.schema
    statistics = _statistics(metadata, source)
    return {
        "path": metadata.path,
        "format": metadata.format,
        "nbytes": metadata.nbytes,
        "num_rows": metadata.num_rows,
        "next_stream_byte_offset": metadata.next_offset,
        "compression": list(metadata.compressions),
        "schema": schema_json(schema),
        "partition": [
            {"name": name, "type": type_, "value": value if value is None else str(value)}
            for name, type_, value in _partition_values(source)
        ],
        "custom_metadata": pairs_json(metadata.custom_metadata),
        "statistics": None if statistics is None else statistics_json(statistics),
        "record_batches": [_batch_json(batch) for batch in metadata.record_batches],
        "dictionaries": [
            {
                "id": batch.dictionary_id,
                "is_delta": batch.is_delta,
                "fields": list(metadata.dictionary_fields.get(batch.dictionary_id or 0, ())),
                **_batch_json(batch),
            }
            for batch in metadata.dictionaries
        ],
    }


def _batch_json(batch: BatchMetadata) -> dict[str, Any]:
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
