"""``arrowipc convert``: convert between Arrow files, streams, Parquet, CSV and JSON lines.

The formats follow from the names, or from ``--from`` and ``--to``. Arrow and JSON lines are written by this package;
Parquet and CSV, and JSON lines that are read, by pyarrow, which is imported when one is asked for: these formats are
not ours. Record batches cross without a copy by the Arrow PyCapsule interface, one at a time, and what pyarrow gives
is checked as a file is.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.cli.shared import files, terminal
from spark_arrow_ipc.cli.shared.files import STDIN
from spark_arrow_ipc.cli.shared.rows import Chosen, Table, add_row_arguments, fit_columns, json_lines, one_table
from spark_arrow_ipc.errors import (
    ArrowIpcError,
    InvalidArrowError,
    SchemaMismatchError,
    UnsupportedError,
    error_context,
    printable,
)
from spark_arrow_ipc.ipc.constants import ENDINGS
from spark_arrow_ipc.ipc.writer import create

if TYPE_CHECKING:
    import pyarrow as pa

_ENDINGS: Final = {
    **{ending: str(form) for ending, form in ENDINGS.items()},
    "parquet": "parquet",
    "pq": "parquet",
    "csv": "csv",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
}
"""By ending of a name: the format."""

_WAY: Final = "give another name, or say the format by --to"


# ---- pyarrow's formats


def _pyarrow() -> Any:
    try:
        import pyarrow as pa
    except ModuleNotFoundError as error:
        raise UnsupportedError(
            f"Parquet, CSV and JSON lines that are read need pyarrow ({error}): pip install pyarrow"
        ) from error
    return pa


@contextmanager
def _named(pa: Any, path: str | None, doing: str) -> Iterator[None]:
    """Turn pyarrow's errors into ours."""
    try:
        with error_context(path=path):
            yield
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedError(f"pyarrow cannot {doing}: {error}", path=path) from error
    except pa.ArrowInvalid as error:
        raise InvalidArrowError(f"pyarrow cannot {doing}: {error}", path=path) from error
    except pa.ArrowException as error:
        raise ArrowIpcError(f"pyarrow cannot {doing}: {error}", path=path) from error


def _read_parquet(source: Any) -> tuple[Any, Iterator[Any]]:
    import pyarrow.parquet as pq

    if source is sys.stdin.buffer:
        source = _pyarrow().BufferReader(source.read())
    file = pq.ParquetFile(source)
    return file.schema_arrow, file.iter_batches()


def _read_csv(source: Any) -> tuple[Any, Iterator[Any]]:
    import pyarrow.csv

    reader = pyarrow.csv.open_csv(source)
    return reader.schema, iter(reader)


def _read_json(source: Any) -> tuple[Any, Iterator[Any]]:
    import pyarrow.json

    table = pyarrow.json.read_json(source)
    return table.schema, iter(table.to_batches())


_READERS: Final[Mapping[str, Callable[[Any], tuple[Any, Iterator[Any]]]]] = {
    "parquet": _read_parquet,
    "csv": _read_csv,
    "jsonl": _read_json,
}
"""By format: opens a path or a file object; returns its schema and record batches."""


@contextmanager
def _open_other(form: str, paths: Sequence[str]) -> Iterator[Table]:
    """Open files of one schema; they are read while the batches are iterated."""
    pa = _pyarrow()
    doing = f"read it as {form}"
    sources = [sys.stdin.buffer if path == STDIN else path for path in paths]
    with _named(pa, paths[0], doing):
        schema, batches_of_first = _READERS[form](sources[0])

    def batches() -> Iterator[Any]:
        for number, path in enumerate(paths):
            with _named(pa, path, doing):
                other, read = _READERS[form](sources[number]) if number else (schema, batches_of_first)
                if other != schema:
                    raise SchemaMismatchError(f"its schema is not that of {paths[0]}: {other}", path=path)
                yield from map(RecordBatch.from_arrow, read)

    yield Table(Schema.from_arrow(schema), (), batches())


def _plain_schema(pa: Any, schema: pa.Schema) -> pa.Schema:
    """Return a schema without encodings, which CSV lacks."""
    plain = []
    for field in schema:
        type_ = field.type
        while pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_):
            type_ = type_.value_type
        if pa.types.is_string_view(type_):
            type_ = pa.string()
        if pa.types.is_nested(type_):
            raise UnsupportedError(f"CSV has no {type_}; leave the column out with --columns", field_path=field.name)
        plain.append(field.with_type(type_))
    return pa.schema(plain)


def _write_csv(sink: BinaryIO, table: Table, _: str, __: str) -> int:
    pa = _pyarrow()
    import pyarrow.csv

    with _named(pa, None, "write csv"):
        schema = _plain_schema(pa, pa.schema(table.schema))
        with pyarrow.csv.CSVWriter(sink, schema) as writer:
            return _write_batches(writer, (pa.record_batch(batch).cast(schema) for batch in table.batches))


def _write_parquet(sink: BinaryIO, table: Table, _: str, compression: str) -> int:
    pa = _pyarrow()
    import pyarrow.parquet as pq

    with (
        _named(pa, None, "write parquet"),
        pq.ParquetWriter(sink, pa.schema(table.schema), compression=compression or "zstd") as writer,
    ):
        return _write_batches(writer, map(pa.record_batch, table.batches))


def _write_batches(writer: Any, batches: Iterator[Any]) -> int:
    rows = 0
    for batch in batches:
        writer.write_batch(batch)
        rows += batch.num_rows
    return rows


# ---- our formats


def _write_arrow(sink: BinaryIO, table: Table, form: str, compression: str) -> int:
    options = files.write_options_of(form, compression or "lz4")
    pairs = None if form == "file" else table.pairs
    with create(sink, table.schema, options, schema_metadata=pairs) as writer:
        if form == "file":
            writer.custom_metadata.update(table.pairs)
        _, rows = files.write_all(writer, table.batches)
    return rows


def _write_json(sink: BinaryIO, table: Table, _: str, __: str) -> int:
    rows = 0
    for line in json_lines(table.schema, table.batches):
        sink.write(line.encode() + b"\n")
        rows += 1
    return rows


_WRITERS: Final[Mapping[str, Callable[[BinaryIO, Table, str, str], int]]] = {
    "file": _write_arrow,
    "stream": _write_arrow,
    "parquet": _write_parquet,
    "csv": _write_csv,
    "jsonl": _write_json,
}
"""By format: writes a table with a compression, which may be empty for the default; returns the rows."""


_WITHOUT_BATCHES: Final = {"parquet": "Parquet", "csv": "CSV", "jsonl": "JSON"}
"""Formats without record batches, and their names."""


# ---- the command


def convert_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc convert``."""
    files.add_path_arguments(parser)
    parser.add_argument("target", metavar="TARGET", help="the file to write; - for stdout")
    parser.add_argument(
        "--from", dest="source_format", choices=("arrow", *_READERS),
        help="the format to read; by default that of the first name's ending",
    )  # fmt: skip
    parser.add_argument(
        "--to", dest="target_format", choices=tuple(_WRITERS),
        help="the format to write; by default that of the name's ending: .arrow, .arrows (a stream), .parquet, "
        ".csv or .jsonl, and an Arrow file for a name without one; for stdout JSON lines",
    )  # fmt: skip
    add_row_arguments(parser)
    parser.add_argument(
        "--compression", choices=("lz4", "zstd", "none"), default="",
        help="of Arrow (default: lz4) and Parquet (default: zstd)",
    )  # fmt: skip
    files.add_force_argument(parser)


def run_convert(arguments: argparse.Namespace) -> int:
    """Write the rows of all files, which have one schema, as one file."""
    target = arguments.target
    to = arguments.target_format or ("jsonl" if target == STDIN else files.format_of(target, _ENDINGS, _WAY))
    metadata = files.MetadataCount()
    with _source(arguments) as table, files.open_target(arguments, target) as sink:
        batches = metadata.read(table.batches) if to in _WITHOUT_BATCHES else table.batches
        rows = _WRITERS[to](sink, replace(table, batches=batches), to, arguments.compression)
    if target != STDIN:
        metadata.complain(target, f"is left out: {_WITHOUT_BATCHES.get(to)} has no record batches")
        print(f"{printable(target)}: {terminal.count(rows, 'row')}")
    return 0


@contextmanager
def _source(arguments: argparse.Namespace) -> Iterator[Table]:
    if arguments.target != STDIN:
        files.check_target(arguments, arguments.target, ())
    form = arguments.source_format or _ENDINGS.get(files.ending_of(arguments.paths[0]), "arrow")
    chosen = Chosen.of(arguments)
    if form not in _READERS:
        sources = list(files.list_inputs(arguments, columns=True))
    elif chosen.columns is not None or chosen.where is not None:
        raise UnsupportedError("--columns and --where choose from Arrow files; convert first, then choose")
    else:
        sources = list(map(files.Input, arguments.paths))
    if arguments.target != STDIN:
        files.check_target(arguments, arguments.target, sources)
    with _open_other(form, arguments.paths) if form in _READERS else one_table(sources, chosen) as table:
        yield table if chosen.is_whole(sources) else fit_columns(table)
