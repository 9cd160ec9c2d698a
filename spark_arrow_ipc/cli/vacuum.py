"""``arrowipc vacuum``: delete what dead jobs left in a table, and what its retention is over for."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from typing import Final

from spark_arrow_ipc.cli.shared import terminal
from spark_arrow_ipc.cli.shared.storages import add_storage_argument, storage_at
from spark_arrow_ipc.dataset.write.nested import table_above
from spark_arrow_ipc.errors import NoFilesError, printable
from spark_arrow_ipc.table.checks import is_table
from spark_arrow_ipc.table.names import TableDirectory
from spark_arrow_ipc.table.vacuum import DEFAULT_AGE_SECONDS, VacuumReport, list_staged_jobs, vacuum

_UNITS: Final[Mapping[str, int]] = {"s": 1, "m": 60, "h": 3600, "d": 24 * 3600}
_DURATION: Final = re.compile(r"(\d+)([smhd]?)")


def vacuum_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc vacuum``."""
    parser.add_argument("path", metavar="PATH", help="the directory of a table, local or a URL")
    parser.add_argument(
        "--older-than",
        type=_seconds,
        default=DEFAULT_AGE_SECONDS,
        metavar="DURATION",
        help="keep jobs that wrote something within this time: 30m, 12h, 7d (the default); "
        "0 also stops running jobs, which then fail",
    )
    add_storage_argument(parser)
    parser.add_argument("--dry-run", action="store_true", help="only print what would be deleted")


def run_vacuum(arguments: argparse.Namespace) -> int:
    """Clean the directory, and print what was deleted."""
    directory = TableDirectory.at(arguments.path, storage_at(arguments.path, arguments.storage))
    outer = None if list_staged_jobs(directory) or is_table(directory) else table_above(directory)
    if outer is not None:
        raise NoFilesError(
            f"this is a directory of the table {outer}, which has the log; give that one", path=directory.root
        )
    report = vacuum(directory, older_than=arguments.older_than, dry_run=arguments.dry_run)
    for line in _vacuum_lines(report, "would be" if arguments.dry_run else "are"):
        print(printable(line))
    total = sum(amount.nbytes for amount in report.deleted.values())
    did = f"{total:,} bytes {'would be' if arguments.dry_run else 'are'} deleted"
    print(printable(f"{directory.root}: {did if report.deleted or report.swept else 'nothing to do'}"))
    return 0


def _seconds(string: str) -> float:
    match = _DURATION.fullmatch(string)
    if match is None:
        raise argparse.ArgumentTypeError(f"expected a duration such as 30m, 12h or 7d, found {string!r}")
    return float(int(match[1]) * _UNITS[match[2] or "s"])


def _vacuum_lines(report: VacuumReport, would: str) -> list[str]:
    lines = [f"job {job}: its files {would} deleted" for job in report.swept]
    lines += [
        f"job {job}: it may still run, and keeps {row.nbytes:,} bytes; it wrote {_ago(row.seconds)} ago; if no job "
        "runs: --older-than 0"
        for job, row in report.young.items()
    ]
    lines += [
        f"{path}: it stays, and nobody reads it: the log does not know its job; run arrowipc fsck"
        for path in report.unknown
    ]
    lines += [
        f"{kind}: {terminal.count(amount.files, 'file')}, {terminal.count(amount.nbytes, 'byte')}"
        for kind, amount in report.deleted.items()
    ]
    return lines


def _ago(seconds: float) -> str:
    for unit in ("d", "h", "m"):
        if seconds >= _UNITS[unit]:
            return f"{int(seconds // _UNITS[unit])} {unit}"
    return f"{max(0, int(seconds))} s"
