"""``arrowipc history``: print what the log entries of a table did, the newest first."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Final

from spark_arrow_ipc.cli.shared import terminal
from spark_arrow_ipc.cli.shared.rows import positive
from spark_arrow_ipc.cli.shared.storages import add_storage_argument, storage_at
from spark_arrow_ipc.errors import printable
from spark_arrow_ipc.table.history import Change, History, read_history
from spark_arrow_ipc.table.names import TableDirectory

_HEAD: Final = ("entry", "time", "operation", "files", "rows", "bytes", "job", "by")
_MOST_TEXT: Final = 40


def history_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc history``."""
    parser.add_argument("path", metavar="PATH", help="the directory of a table, local or a URL")
    parser.add_argument("-n", type=positive, metavar="ENTRIES", dest="limit", help="only so many entries, the newest")
    add_storage_argument(parser)
    parser.add_argument("--json", action="store_true", help="print a JSON object for each entry")


def run_history(arguments: argparse.Namespace) -> int:
    """Print a line for each entry of the log."""
    directory = TableDirectory.at(arguments.path, storage_at(arguments.path, arguments.storage))
    history = read_history(directory, arguments.limit)
    if arguments.json:
        for change in history.changes:
            print(terminal.json_line(asdict(change)))
        return 0
    if history.changes:
        for line in terminal.fit_lines(terminal.table(_HEAD, map(_cells, history.changes), align="><<>>><<")):
            print(line)
    print(printable(f"{directory.root}: {_summary(history, arguments.limit)}"))
    return 0


def _cells(change: Change) -> tuple[str, ...]:
    operation = "void" if change.is_void else change.operation
    if change.restores is not None:
        operation += f" {change.restores:,}"
    removed = "?" if change.rows_removed is None else f"{change.rows_removed:,}"
    by = [change.application, change.user, f"token {change.token}" if change.token is not None else ""]
    by += [] if change.query is None else [f"batch {change.batch:,} of {change.query}"]
    return (
        f"{change.number:,}",
        _time_text(change.time),
        operation,
        f"+{change.files_added:,} -{change.files_removed:,}",
        f"+{change.rows_added:,} -{removed}",
        f"+{change.nbytes_added:,} -{change.nbytes_removed:,}",
        change.job[:8],
        terminal.cut(", ".join(filter(None, by)), _MOST_TEXT),
    )


def _time_text(milliseconds: int) -> str:
    try:
        return f"{datetime.fromtimestamp(milliseconds // 1000, UTC):%Y-%m-%d %H:%M:%S}.{milliseconds % 1000:03d}Z"
    except (ValueError, OverflowError, OSError):  # a year outside of Python's calendar
        return f"{milliseconds:,} ms"


def _summary(history: History, limit: int | None) -> str:
    shown = terminal.count(len(history.changes), "entry", "entries")
    if not history.before:
        return shown
    earlier = f"those up to {history.before:,} are gone"
    if len(history.changes) == limit:
        earlier = "older ones are not shown (-n)"
    return f"{shown}; {earlier}"
