"""``arrowipc stream``: show the checkpoint or the source log of a streaming query, and the faults that stop it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from typing import Final

from spark_arrow_ipc.cli.shared import terminal
from spark_arrow_ipc.cli.shared.storages import add_storage_argument, storage_at
from spark_arrow_ipc.dataset.listing.data_file import time_text
from spark_arrow_ipc.dataset.stream.checkpoint import Seen, look
from spark_arrow_ipc.dataset.stream.mode import TABLE
from spark_arrow_ipc.errors import printable

_HEAD: Final = ("batch", "planned", "committed", "mode", "files", "bytes", "position")

# A checkpoint has the id of its table, not the path, and no options of the query.
_MAY_END: Final = (
    ", and ends with SourceOverwrittenError if a later entry of the table's log removed rows ('arrowipc history TABLE' shows "
    "them) and the query has neither onOverwrite nor readChangeFeed"
)


def stream_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc stream``."""
    parser.add_argument("path", metavar="PATH", help="the checkpoint of a streaming query, or its sourceLog")
    parser.add_argument(
        "--source-log",
        metavar="PATH",
        help="the sourceLog of the checkpoint's query, which names the files of its batches; that of ingest is found",
    )
    parser.add_argument("-n", type=_number, default=10, metavar="BATCHES", help="the newest ones that are shown (10)")
    add_storage_argument(parser)
    parser.add_argument("--json", action="store_true", help="print a JSON object")


def run_stream(arguments: argparse.Namespace) -> int:
    """Print the newest batches, bad files and remedies; return 1 if the next start would end with an error."""
    storage = storage_at(arguments.path, arguments.storage)
    seen = look(
        arguments.path,
        storage,
        lambda path: storage_at(path, arguments.storage),
        arguments.source_log,
        arguments.n,
    )
    if arguments.json:
        print(terminal.json_line(asdict(seen)))
    else:
        for line in _lines(seen):
            print(printable(line))
    return 1 if seen.stuck else 0


def _number(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1_000:
        raise argparse.ArgumentTypeError(f"expected a number of 1 to 1,000, found {text!r}")
    return int(text)


def _lines(seen: Seen) -> Iterator[str]:
    what = "checkpoint" if seen.kind == "checkpoint" else "source log"
    of = "no query yet" if seen.query is None else f"query {seen.query}"
    yield f"{seen.path}: the {what} of {of}"
    rows = [
        (
            str(batch.number),
            _time(batch.planned_ns),
            _time(batch.committed_ns) if seen.kind == "checkpoint" else "",
            part.mode or "",
            _count(part.files),
            _count(part.nbytes),
            part.position,
        )
        for batch in seen.batches
        for part in batch.parts
    ]
    if rows:
        yield from terminal.table(_HEAD, rows, "><<<>><")
    for bad in seen.bad:
        yield f"passed over: {bad.path}: {terminal.count(bad.nbytes, 'byte')}, of {time_text(bad.mtime_ns)}: {bad.reason}"
    yield from (f"stuck: {each.what}{'. ' if each.mend else ''}{each.mend}" for each in seen.stuck)
    yield _state(seen)


def _state(seen: Seen) -> str:
    if seen.kind != "checkpoint":
        entries = terminal.count(len(seen.batches), "entry", "entries")
        return f"{entries} shown; give the checkpoint, with --source-log {seen.path}, to see what is committed"
    if not seen.batches:
        return "no batch was planned yet"
    newest = seen.batches[-1]
    if newest.committed_ns is not None:
        may_end = any(part.mode == TABLE for part in newest.parts)
        return f"batch {newest.number} is committed; the next start looks for what is new{_MAY_END if may_end else ''}"
    files = (
        ""
        if seen.waiting_files is None
        else f", {terminal.count(seen.waiting_files, 'file')} of {terminal.count(seen.waiting_nbytes or 0, 'byte')}"
    )
    again = f"batch {newest.number}{files}, is not committed: "
    if seen.stuck:
        return f"{again}the next start runs it again, and ends with an error until the above is mended"
    return f"{again}the running query is at it, or the next start runs it again"


def _time(time_ns: int | None) -> str:
    # Without fractions of a second.
    return "" if time_ns is None else time_text(time_ns)[:19]


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"
