"""``arrowipc copy``: copy a table to another place, while jobs run."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from spark_arrow_ipc.cli.shared import terminal
from spark_arrow_ipc.cli.shared.storages import add_storage_argument, storage_at
from spark_arrow_ipc.cli.shared.terminal import advance
from spark_arrow_ipc.errors import printable
from spark_arrow_ipc.table.copy import CopyReport, copy_table
from spark_arrow_ipc.table.names import TableDirectory


def copy_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc copy``."""
    parser.add_argument("source", metavar="SOURCE", help="the directory of a table, local or a URL")
    parser.add_argument(
        "target",
        metavar="TARGET",
        help="the directory to make, local or a URL; it must not exist, or be left by an earlier copy that was killed",
    )
    add_storage_argument(parser)
    add_storage_argument(
        parser, "--target-storage", "an option of the object store of TARGET, if it has others than SOURCE"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object")


def run_copy(arguments: argparse.Namespace) -> int:
    """Copy the newest snapshot, and say which it is."""
    source = TableDirectory.at(arguments.source, storage_at(arguments.source, arguments.storage))
    storage = storage_at(arguments.target, arguments.target_storage or arguments.storage)
    target = TableDirectory(storage, storage.resolve(arguments.target))
    report = copy_table(source, target, copied=lambda: advance(files=1))
    print(terminal.json_line(asdict(report)) if arguments.json else printable(_copy_line(report)))
    return 0


def _copy_line(report: CopyReport) -> str:
    state = f"entry {report.number:,} of {report.source}" if report.number else f"the files of {report.source}"
    amounts = f"{terminal.count(report.files, 'file')}, {terminal.count(report.rows, 'row')}, {terminal.count(report.nbytes, 'byte')}"
    return f"{report.target}: {amounts}, as of {state}"
