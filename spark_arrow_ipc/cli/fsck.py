"""``arrowipc fsck``: compare the log of a table with its files, and repair what a person asks for."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from spark_arrow_ipc.cli.shared import terminal
from spark_arrow_ipc.cli.shared.rows import positive
from spark_arrow_ipc.cli.shared.storages import add_storage_argument, storage_at
from spark_arrow_ipc.cli.shared.terminal import advance
from spark_arrow_ipc.errors import printable
from spark_arrow_ipc.table.fsck import Finding, FsckReport, check_table
from spark_arrow_ipc.table.names import TableDirectory
from spark_arrow_ipc.table.repair import forget_missing, renew_id
from spark_arrow_ipc.table.restore import restore


def fsck_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc fsck``."""
    parser.add_argument("path", metavar="PATH", help="the directory of a table, local or a URL")
    change = parser.add_mutually_exclusive_group()
    change.add_argument(
        "--back-to",
        type=positive,
        metavar="ENTRY",
        help="bring the files of an older entry back, as a new entry; 'arrowipc history' has the numbers",
    )
    change.add_argument(
        "--forget-missing",
        action="store_true",
        help="remove files that are missing, or of another size, from the log: their rows are lost",
    )
    change.add_argument(
        "--new-id",
        action="store_true",
        help="give a table that was copied, or restored from a backup, an id and a log of its own; no job may run",
    )
    parser.add_argument("--deep", action="store_true", help="also read all bytes of each file, and check them")
    add_storage_argument(parser)
    parser.add_argument("--json", action="store_true", help="print a JSON object")


def run_fsck(arguments: argparse.Namespace) -> int:
    """Print what is wrong and what repairs it; return 1 if anything is."""
    directory = TableDirectory.at(arguments.path, storage_at(arguments.path, arguments.storage))
    done = _change(directory, arguments)
    report = check_table(directory, deep=arguments.deep, checked=lambda: advance(files=1))
    if arguments.json:
        print(terminal.json_line({**asdict(report), "done": done}))
    else:
        for line in (*done, *map(_finding_line, report.findings), _report_line(report)):
            print(printable(line))
    return 0 if report.is_sound else 1


def _change(directory: TableDirectory, arguments: argparse.Namespace) -> list[str]:
    """Do what is asked for, and return what was done."""
    if arguments.back_to is not None:
        state = restore(directory, arguments.back_to)
        return [f"{directory.root}: entry {state.number:,} has the files of entry {arguments.back_to:,}"]
    if arguments.new_id:
        return [f"{directory.root}: the table has the id {renew_id(directory).table}"]
    if arguments.forget_missing:
        lost = forget_missing(directory)
        rows = lost.rows.tolist()
        lines = [
            f"{directory.path(path)}: removed from the log; {count:,} rows are lost"
            for path, count in zip(lost.paths, rows, strict=True)
        ]
        return [
            *lines,
            f"{directory.root}: {terminal.count(sum(rows), 'row')} of {terminal.count(len(lost), 'file')} are lost",
        ]
    return []


def _finding_line(finding: Finding) -> str:
    note = "note: " if finding.is_note else ""
    return f"{finding.path}: {note}{finding.what}{'. ' if finding.fix else ''}{finding.fix}"


def _report_line(report: FsckReport) -> str:
    faults = sum(not finding.is_note for finding in report.findings)
    state = f"entry {report.number:,} of the table {report.table}" if report.table else "no log"
    if report.table and not report.number and faults:
        state = f"the log of the table {report.table} cannot be read"
    return (
        f"{report.path}: {state}: {terminal.count(report.files, 'file')}, {terminal.count(report.rows, 'row')}, "
        f"{terminal.count(report.nbytes, 'byte')}; {terminal.count(faults, 'fault')}"
    )
