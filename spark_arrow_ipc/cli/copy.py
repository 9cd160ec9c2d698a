"""``arrowipc copy``: copy a dataset to another place, while jobs run."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from spark_arrow_ipc.cli.shared import terminal
from spark_arrow_ipc.cli.shared.storages import add_storage_argument, storage_at
from spark_arrow_ipc.cli.shared.terminal import advance
from spark_arrow_ipc.dataset.write.copy import CopyReport, copy_dataset
from spark_arrow_ipc.errors import printable


def copy_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc copy``."""
    parser.add_argument("source", metavar="SOURCE", help="the directory of a dataset, local or a URL")
    parser.add_argument(
        "target",
        metavar="TARGET",
        help="the directory to make, local or a URL; it must not exist, or be left by an earlier copy that was killed, "
        "which goes on",
    )
    add_storage_argument(parser)
    add_storage_argument(
        parser, "--target-storage", "an option of the object store of TARGET, if it has others than SOURCE"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object")


def run_copy(arguments: argparse.Namespace) -> int:
    """Copy the newest state, and say which it is."""
    report = copy_dataset(
        arguments.source,
        arguments.target,
        storage=storage_at(arguments.source, arguments.storage),
        target_storage=storage_at(arguments.target, arguments.target_storage or arguments.storage),
        copied=lambda: advance(files=1),
    )
    print(terminal.json_line(asdict(report)) if arguments.json else printable(_copy_line(report)))
    return 0


def _copy_line(report: CopyReport) -> str:
    state = f"the state of record {report.record:,} of {report.source}" if report.record else f"of {report.source}"
    reused = f"; {report.reused:,} of them were there" if report.reused else ""
    return f"{report.target}: {terminal.count(report.files, 'file')}, {terminal.count(report.nbytes, 'byte')}, {state}{reused}"
