"""``arrowipc fsck``: compare the records of a dataset with its files, and mend what can be."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Final

from spark_arrow_ipc.cli.shared import terminal
from spark_arrow_ipc.cli.shared.storages import add_storage_argument, storage_at
from spark_arrow_ipc.dataset.write.fsck import Finding, FsckReport, fsck, go_back, repair
from spark_arrow_ipc.errors import printable

_STATES: Final = {
    True: "whole: the state of record {record:,}",
    False: "not the state of record {record:,}",
    None: "record {record:,}",
}


def fsck_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc fsck``."""
    parser.add_argument("path", metavar="PATH", help="the directory of a dataset, local or a URL")
    change = parser.add_mutually_exclusive_group()
    change.add_argument(
        "--repair",
        action="store_true",
        help="mend what can be mended without losing anything; what is taken out is moved to _ipc_aside",
    )
    change.add_argument(
        "--back-to",
        type=int,
        metavar="RECORD",
        help="make the state of an older record the newest one, if the directory holds it whole; no job may run",
    )
    add_storage_argument(parser)
    parser.add_argument("--json", action="store_true", help="print a JSON object")


def run_fsck(arguments: argparse.Namespace) -> int:
    """Print what is wrong and what mends it; return 1 if anything is."""
    storage = storage_at(arguments.path, arguments.storage)
    if arguments.back_to is not None:
        report = go_back(arguments.path, arguments.back_to, storage)
    else:
        report = (repair if arguments.repair else fsck)(arguments.path, storage)
    if arguments.json:
        print(terminal.json_line(asdict(report)))
    else:
        for finding in (*report.done, *report.findings):
            print(printable(_finding_line(finding)))
        print(printable(_fsck_line(report)))
    return 0 if report.is_sound else 1


def _finding_line(finding: Finding) -> str:
    note = "note: " if finding.is_note else ""
    return f"{finding.path}: {note}{finding.what}{'. ' if finding.mend else ''}{finding.mend}"


def _fsck_line(report: FsckReport) -> str:
    state = _STATES[report.is_whole].format(record=report.record) if report.record else "no records"
    faults = sum(not finding.is_note for finding in report.findings)
    return (
        f"{report.path}: {terminal.count(report.files, 'file')}, {terminal.count(report.nbytes, 'byte')}, {state}; "
        f"{terminal.count(faults, 'fault')}"
    )
