"""``arrowipc vacuum``: finish or remove what failed jobs left in a dataset."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from typing import Final

from spark_arrow_ipc.cli.shared.storages import add_storage_argument, storage_at
from spark_arrow_ipc.dataset.write.vacuum import DEFAULT_AGE_SECONDS, GivenUpJob, VacuumReport, give_up, vacuum
from spark_arrow_ipc.errors import printable

_JOBID: Final = re.compile(r"[0-9a-f]{32}")
_UNITS: Final[Mapping[str, int]] = {"s": 1, "m": 60, "h": 3600, "d": 24 * 3600}
_DURATION: Final = re.compile(r"(\d+)([smhd]?)")


def vacuum_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc vacuum``."""
    parser.add_argument("path", metavar="PATH", help="the directory of a dataset")
    parser.add_argument(
        "--older-than",
        type=_seconds,
        default=DEFAULT_AGE_SECONDS,
        metavar="DURATION",
        help="keep jobs that wrote something within this time: 30m, 12h, 7d (the default); "
        "0 also withdraws running jobs, which then fail",
    )
    parser.add_argument(
        "--give-up",
        type=_jobid,
        metavar="JOB",
        help="take back a job that cannot be brought to its end, or of which it is unknown whether it is committed; the "
        "error tells its id; the old files must all be there",
    )
    add_storage_argument(parser)
    parser.add_argument("--dry-run", action="store_true", help="only print what would be done")


def run_vacuum(arguments: argparse.Namespace) -> int:
    """Clean the directory, or take a job back, and print what was done."""
    storage = storage_at(arguments.path, arguments.storage)
    if arguments.give_up is not None:
        job = give_up(
            arguments.path,
            arguments.give_up,
            older_than_seconds=arguments.older_than,
            dry_run=arguments.dry_run,
            storage=storage,
        )
        for line in _given_up_lines(job, would="would be " if arguments.dry_run else ""):
            print(printable(line))
        return 0
    report = vacuum(arguments.path, older_than_seconds=arguments.older_than, dry_run=arguments.dry_run, storage=storage)
    for line in _vacuum_lines(report, would="would be " if arguments.dry_run else ""):
        print(printable(line))
    return 0


def _seconds(string: str) -> float:
    match = _DURATION.fullmatch(string)
    if match is None:
        raise argparse.ArgumentTypeError(f"expected a duration such as 30m, 12h or 7d, found {string!r}")
    return float(int(match[1]) * _UNITS[match[2] or "s"])


def _jobid(string: str) -> str:
    if not _JOBID.fullmatch(string):
        raise argparse.ArgumentTypeError(f"expected the 32 hexadecimal digits of a job's id, found {string!r}")
    return string


def _given_up_lines(job: GivenUpJob, would: str) -> list[str]:
    lines = [f"{name}: {would or 'is '}removed" for name in job.files]
    kept = f"; {job.kept} old files {would or 'are '}kept" if job.kept else ""
    return [*lines, f"{job.path}: the job {job.jobid} {would or 'is '}taken back{kept}"]


def _vacuum_lines(report: VacuumReport, would: str) -> list[str]:
    lines = []
    if report.finished is not None:
        lines.append(f"job {report.finished}: committed; {would}brought to its end")
    lines += [f"job {jobid}: its staging {would or 'is '}removed" for jobid in report.withdrawn]
    lines += [f"{path}: {would or 'is '}removed" for path in report.files]
    lines += [
        f"job {job.jobid}: kept with {job.nbytes:,} bytes, it wrote {_ago(job.age_seconds)} ago" for job in report.kept
    ]
    total = f"{report.nbytes:,} bytes {would or 'are '}removed" if lines else "nothing to do"
    return [*lines, f"{report.path}: {total}"]


def _ago(seconds: float) -> str:
    for unit in ("d", "h", "m"):
        if seconds >= _UNITS[unit]:
            return f"{int(seconds // _UNITS[unit])} {unit}"
    return f"{max(0, int(seconds))} s"
