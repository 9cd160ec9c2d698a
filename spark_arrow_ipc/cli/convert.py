"""``arrowipc convert``: convert between Arrow files, streams, Parquet, CSV and JSON lines.

The formats follow from the names, or from ``--from`` and ``--to``. This package reads and writes Arrow, and writes JSON
lines; pyarrow does the rest, and is imported only then. Record batches cross by the Arrow C data interface, one at a
time and without a copy, and those from pyarrow are checked as a file is.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.cli.shared import files, terminal
from spark_arrow_ipc.cli.shared.files import STDIN
from spark_arrow_ipc.cli.shared.rows import Chosen, Table, add_row_arguments, fit_columns, json_lines, one_table
from spark_arrow_ipc.errors import (
    ArrowIpcError,
    InvalidArrowError,
    NotArrowError,
    SchemaMismatchError,
    UnsupportedError,
    error_context,
    printable,
)
from spark_arrow_ipc.ipc.constants import ENDINGS
from spark_arrow_ipc.ipc.writer import create
from spark_arrow_ipc.storage.paths import name_of

if TYPE_CHECKING:
    import pyarrow as pa

# By ending of a name: the format
_ENDINGS: Final = {
    **{ending: str(form) for ending, form in ENDINGS.items()},
    "parquet": "parquet",
    "pq": "parquet",
    "csv": "csv",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
}

_WAY: Final = "give another name, or say the format by --to"

# By format that pyarrow reads: its module
_MODULES: Final = {"parquet": "pyarrow.parquet", "csv": "pyarrow.csv", "jsonl": "pyarrow.json"}


@contextmanager
def _pyarrow(form: str, doing: str, path: str | None = None) -> Iterator[tuple[Any, Any]]:
    """Import pyarrow and its module of a format, and turn its errors into ours."""
    try:
        import pyarrow as pa

        module = import_module(_MODULES[form])
    except ModuleNotFoundError as error:
        raise UnsupportedError(
            f"Parquet, CSV and JSON lines that are read need pyarrow ({error}): pip install pyarrow"
        ) from error
    try:
        with error_context(path=path):
            yield pa, module
    except pa.ArrowException as error:
        is_unsupported = isinstance(error, pa.ArrowNotImplementedError)
        kind = InvalidArrowError if isinstance(error, pa.ArrowInvalid) else ArrowIpcError
        raise (UnsupportedError if is_unsupported else kind)(f"pyarrow cannot {doing}: {error}", path=path) from error


def _read_other(form: str, paths: Sequence[str]) -> Table:
    """Open files of one schema, which are read while the batches are iterated."""
    doing = f"read it as {form}"

    def open_one(pa: Any, module: Any, path: str) -> tuple[Any, Iterable[Any]]:
        if path != STDIN and Path(path).is_dir():
            files_in = f"{path.rstrip('/')}/*.{form}"
            raise UnsupportedError(f"directories are read only of Arrow files; name the files, such as {files_in}")
        source = sys.stdin.buffer if path == STDIN else path
        if form == "parquet":
            # A pipe cannot seek, and Parquet is read from its end.
            file = module.ParquetFile(pa.BufferReader(sys.stdin.buffer.read()) if path == STDIN else path)
            return file.schema_arrow, file.iter_batches()
        reader = module.open_csv(source) if form == "csv" else module.read_json(source).to_reader()
        return reader.schema, reader

    # The first file is opened before anything is written, so that a bad one leaves no target.
    with _pyarrow(form, doing, paths[0]) as (pa, module):
        schema, first = open_one(pa, module, paths[0])

    def batches() -> Iterator[RecordBatch]:
        for number, path in enumerate(paths):
            with _pyarrow(form, doing, path) as (pa, module):
                other, read = open_one(pa, module, path) if number else (schema, first)
                if other != schema:
                    # CSV and JSON have the types that pyarrow infers, file by file: rows of others would need a choice.
                    raise SchemaMismatchError(f"its schema is not that of {paths[0]}: {other}", path=path)
                yield from map(RecordBatch.from_arrow, read)

    return Table(Schema.from_arrow(schema), (), batches())


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
        # pyarrow writes none of these types as CSV, but casts to the plain ones.
        plain.append(field.with_type(type_))
    return pa.schema(plain)


def _write_other(sink: BinaryIO, table: Table, form: str, compression: str) -> int:
    with _pyarrow(form, f"write {form}") as (pa, module):
        schema, batches = pa.schema(table.schema), map(pa.record_batch, table.batches)
        if form == "parquet":
            with module.ParquetWriter(sink, schema, compression=compression or "zstd") as writer:
                return files.write_all(writer, batches)[1]
        schema = _plain_schema(pa, schema)
        with module.CSVWriter(sink, schema) as writer:
            return files.write_all(writer, (batch.cast(schema) for batch in batches))[1]


def _write_arrow(sink: BinaryIO, table: Table, form: str, compression: str) -> int:
    options = files.write_options_of(form, compression)
    pairs = None if form == "file" else table.pairs
    # A stream has no footer: its first message has the pairs.
    with create(sink, table.schema, options, schema_metadata=pairs) as writer:
        if form == "file":
            writer.custom_metadata.update(table.pairs)
        return files.write_all(writer, table.batches)[1]


def _write_json(sink: BinaryIO, table: Table, _: str, __: str) -> int:
    rows = 0
    for rows, line in enumerate(json_lines(table.schema, table.batches), 1):  # noqa: B007 - the last one is the answer
        sink.write(line.encode() + b"\n")
    return rows


# By format: writes a table with a compression, which may be empty for the default; returns the rows
_WRITERS: Final[Mapping[str, Callable[[BinaryIO, Table, str, str], int]]] = {
    "file": _write_arrow,
    "stream": _write_arrow,
    "parquet": _write_other,
    "csv": _write_other,
    "jsonl": _write_json,
}

# Formats without record batches, and their names
_WITHOUT_BATCHES: Final = {"parquet": "Parquet", "csv": "CSV", "jsonl": "JSON"}


def convert_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc convert``."""
    files.add_path_arguments(parser)
    parser.add_argument("target", metavar="TARGET", help="the file to write; - for stdout")
    parser.add_argument(
        "--from", dest="source_format", choices=("arrow", *_MODULES),
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
        help="of Arrow and Parquet (default: zstd, and lz4 for an Arrow stream)",
    )  # fmt: skip
    files.add_force_argument(parser)


def run_convert(arguments: argparse.Namespace) -> int:
    """Write the rows of all files, which have one schema, as one file."""
    target = arguments.target
    # Rows on a terminal are most useful as text.
    to = arguments.target_format or ("jsonl" if target == STDIN else files.format_of(target, _ENDINGS, _WAY))
    metadata = files.MetadataCount()
    with _open_sources(arguments) as table, files.open_target(arguments, target) as sink:
        # Formats of Arrow keep the metadata of record batches.
        batches = metadata.read(table.batches) if to in _WITHOUT_BATCHES else table.batches
        rows = _WRITERS[to](sink, replace(table, batches=batches), to, arguments.compression)
    if target != STDIN:
        # Not for stdout, whose reader wants only the rows.
        metadata.complain(target, f"is left out: {_WITHOUT_BATCHES.get(to)} has no record batches")
        print(f"{printable(target)}: {terminal.count(rows, 'row')}")
    return 0


@contextmanager
def _open_sources(arguments: argparse.Namespace) -> Iterator[Table]:
    if arguments.target != STDIN:
        files.check_target(arguments, arguments.target, ())  # before inputs are listed, which may take long
    form = arguments.source_format or _ENDINGS.get(files.ending_of(arguments.paths[0]), "arrow")
    chosen = Chosen.of(arguments)
    if form not in _MODULES:
        sources = list(files.list_inputs(arguments, columns=True))
    elif chosen.columns is not None or chosen.where is not None:
        raise UnsupportedError("--columns and --where choose from Arrow files; convert first, then choose")
    else:
        sources = list(map(files.Input, arguments.paths))
    if arguments.target != STDIN:
        files.check_target(arguments, arguments.target, sources)
    opened = nullcontext(_read_other(form, arguments.paths)) if form in _MODULES else one_table(sources, chosen)
    try:
        with opened as table:
            yield table if chosen.is_whole(sources) else fit_columns(table)
    except NotArrowError as error:
        # The error advises to convert the file by this command.
        raise _not_arrow(error, arguments.paths) from error


def _not_arrow(error: NotArrowError, paths: Sequence[str]) -> NotArrowError:
    """Return the error of a file of another format, which was read as Arrow by its name or that of its directory."""
    path = error.path or STDIN
    if path in paths:
        return NotArrowError("this is no Arrow file; say its format by --from", path=path)
    ending = files.ending_of(path)
    pattern = path.removesuffix(name_of(path)) + "*"
    is_known = _ENDINGS.get(ending) in _MODULES
    way = f"name the files, such as {pattern}" + (f".{ending}" if is_known else ", and their format by --from")
    return NotArrowError(f"this is no Arrow file, and directories are read only of those; {way}", path=path)
