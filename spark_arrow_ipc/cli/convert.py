"""``arrowipc convert``: convert between Arrow files, streams, Parquet, CSV and JSON lines.

Strategy
--------
The formats follow from the names, or from ``--from`` and ``--to``. Arrow and JSON lines are written by this package;
Parquet and CSV, and JSON lines that are read, need pyarrow. Record batches go from reader to writer, one at a time.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import BinaryIO, Final

from spark_arrow_ipc.cli.shared import files, inputs, other_formats, render
from spark_arrow_ipc.cli.shared.inputs import STDIN
from spark_arrow_ipc.cli.shared.print_rows import json_lines
from spark_arrow_ipc.cli.shared.rows import Chosen, Table, add_row_arguments, each_given, one_table
from spark_arrow_ipc.errors import UnsupportedError, printable
from spark_arrow_ipc.ipc.constants import ENDINGS
from spark_arrow_ipc.ipc.writer import create

_ENDINGS: Final = {
    **{ending: str(form) for ending, form in ENDINGS.items()},
    "parquet": "parquet",
    "pq": "parquet",
    "csv": "csv",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
}
"""The formats of names."""

_ARROW: Final = ("file", "stream")
_WAY: Final = "give another name, or say the format by --to"
_READ: Final = ("arrow", *other_formats.READERS)
_WRITTEN: Final = (*_ARROW, *other_formats.WRITERS, "jsonl")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc convert``."""
    inputs.add_path_arguments(parser)
    parser.add_argument("target", metavar="TARGET", help="the file to write; - for stdout")
    parser.add_argument(
        "--from",
        dest="source_format",
        choices=_READ,
        help="the format to read; by default that of the first name's ending",
    )
    parser.add_argument(
        "--to", dest="target_format", choices=_WRITTEN,
        help="the format to write; by default that of the name's ending: .arrow, .arrows (a stream), .parquet, "
        ".csv or .jsonl, and an Arrow file for a name without one; for stdout JSON lines",
    )  # fmt: skip
    add_row_arguments(parser)
    parser.add_argument(
        "--compression", choices=("lz4", "zstd", "none"),
        help="of Arrow (default: lz4) and Parquet (default: zstd)",
    )  # fmt: skip
    files.add_force_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the rows of all files, which have one schema, as one file."""
    target = arguments.target
    to = arguments.target_format or ("jsonl" if target == STDIN else files.format_of(target, _ENDINGS, _WAY))
    with _source(arguments) as table:
        rows = _write(arguments, table, to, target)
    if target != STDIN:
        print(f"{printable(target)}: {render.count(rows, 'row')}")
    return 0


@contextmanager
def _source(arguments: argparse.Namespace) -> Iterator[Table]:
    target = arguments.target
    if target != STDIN:
        files.check_target(arguments, target, ())
    form = arguments.source_format or _ENDINGS.get(files.ending_of(arguments.paths[0]), "arrow")
    if form in other_formats.READERS:
        with _others(arguments, form) as table:
            yield table
        return
    given = list(each_given(arguments))
    if target != STDIN:
        files.check_target(arguments, target, given)
    with one_table(given, Chosen.of(arguments)) as table:
        yield table


def _others(arguments: argparse.Namespace, form: str) -> AbstractContextManager[Table]:
    if arguments.columns is not None or arguments.where is not None:
        raise UnsupportedError("--columns and --where choose from Arrow files; convert first, then choose")
    if arguments.target != STDIN:
        files.check_target(arguments, arguments.target, map(inputs.Input, arguments.paths))
    paths: Sequence[str] = arguments.paths
    return other_formats.open_table(form, paths, sys.stdin.buffer)


def _write(arguments: argparse.Namespace, table: Table, to: str, target: str) -> int:
    with files.open_target(arguments, target) as sink:
        return _WRITE[to](arguments, table, to, sink)


def _write_arrow(arguments: argparse.Namespace, table: Table, to: str, sink: BinaryIO) -> int:
    rows = 0
    options = files.write_options_of(to, arguments.compression or "lz4")
    pairs = None if to == "file" else table.pairs
    with create(sink, table.schema, options, schema_metadata=pairs) as writer:
        if to == "file":
            writer.custom_metadata.update(table.pairs)
        for batch in table.batches:
            writer.write(batch)
            rows += batch.num_rows
    return rows


def _write_json(_: argparse.Namespace, table: Table, __: str, sink: BinaryIO) -> int:
    rows = 0
    for line in json_lines(table.schema, table.batches):
        sink.write(line.encode() + b"\n")
        rows += 1
    return rows


def _write_other(arguments: argparse.Namespace, table: Table, to: str, sink: BinaryIO) -> int:
    return other_formats.write_table(to, table, sink, arguments.compression or "zstd")


_WRITE: Final = {
    "file": _write_arrow,
    "stream": _write_arrow,
    "jsonl": _write_json,
    **dict.fromkeys(other_formats.WRITERS, _write_other),
}
"""By format to write."""
