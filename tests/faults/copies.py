"""Copy a table while writers work on it: by `copy_table`, by `cp -r`, `cp -a`, and slowly in any order.

    python tests/faults/copies.py --count 500 [--seed 1] [--seconds 1800]

Copies of the first kind have the rows of one state, also if the process was killed and began again. The others are sound by
`check_table`, and have the rows of the entry that they end with; or it says that they are not: then a reader gets an error, and
where files are missing, what is left without them can be read. What a state is, the entries of the source say, read as JSON. A
copy that is sound goes on as a table: a job appends to it, and a vacuum clears it.

Prints a line of JSON and exits with 0, or raises with what is wrong.
"""

import argparse
import json
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from itertools import count
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("", "tests", "tests/oracles", "tests/builders", "tests/fakes", "tests/programs")]  # fmt: skip

from table_jobs import (
    APPEND,
    DYNAMIC,
    OVERWRITE,
    REWRITE,
    History,
    after,
    foreign,
    forked,
    ids_of,
    is_killed,
    number_of,
    see,
    write,
)

from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.paths import parent
from spark_arrow_ipc.table.copy import copy_table
from spark_arrow_ipc.table.fsck import check_table
from spark_arrow_ipc.table.names import REPLACED_DIRECTORY, STAGED_SUFFIX, TableDirectory
from spark_arrow_ipc.table.repair import forget_missing
from spark_arrow_ipc.table.vacuum import vacuum

WRITERS, PARTITIONS = 4, 4
PAUSES_SECONDS = [0.01, 0.1, 0.5]
"""Between two jobs of a writer."""

ROUND = 8
"""Copies of one table; after that another is made."""

P_KILLED = 0.4
"""Of a `copy_table`."""

WAYS = ["copy_table", "cp -r", "cp -a", "slowly"]


def write_jobs(directory, seed, pause_seconds):
    rng = random.Random(seed)
    for number in count():
        mode = rng.choice([APPEND] * 6 + [DYNAMIC] * 2 + [REWRITE] * 2 + [OVERWRITE])
        ids = range(seed * 10_000 + 10 * number, seed * 10_000 + 10 * number + rng.randint(1, 4))
        options = {"choose": lambda files: rng.sample(files, min(len(files), 5))} if mode is REWRITE else {}
        write(directory, mode, [(f"k={rng.randrange(PARTITIONS)}", [id_]) for id_ in ids], **options)
        time.sleep(rng.random() * 2 * pause_seconds)


# ---- the copies


def copy_by_us(source, target, rng, counts):
    """Copy by the command, in processes that are killed at times."""
    for _ in range(2):
        # One that was killed late may have committed, and another copy into that directory is refused.
        if rng.random() < P_KILLED and not (number_of(target) and see(target)):
            pid = forked(lambda: copy_table(source, target))
            time.sleep(rng.random() ** 2 * 0.3)
            os.kill(pid, signal.SIGKILL)
            counts["copy_table: killed"] += is_killed(pid)
    if not number_of(target) or not see(target):
        copy_table(source, target)


def copy_slowly(source, target, rng):
    """Copy as a program does that goes through directories in any order, and passes over what is gone."""
    target.mkdir()
    paths = list(source.iterdir())
    rng.shuffle(paths)
    for path in paths:
        if rng.random() < 0.1:
            time.sleep(rng.random() * 0.2)
        with suppress(FileNotFoundError, IsADirectoryError):  # it may be gone, or be back, between two calls
            if path.is_dir():
                copy_slowly(path, target / path.name, rng)
            else:
                shutil.copyfile(path, target / path.name)


def copy_by(way, source, target, rng, counts):
    if way == "copy_table":
        copy_by_us(source, target, rng, counts)
    elif way == "slowly":
        copy_slowly(Path(source.root), Path(target.root), rng)
    else:
        subprocess.run([*way.split(), source.root, target.root], capture_output=True, check=False)


# ---- what must hold


class States:
    """The rows of each state of the source, which retains the files that it removes."""

    def __init__(self, source):
        self.source, self.history, self.ids = source, History(source), {}

    def of(self, number, *, without=()):
        rows = {}
        for path in self.history.states[number]:
            if path not in without:
                rows.setdefault(parent(path), []).extend(self._read(path))
        return {partition: sorted(ids) for partition, ids in rows.items()}

    def _read(self, path):
        if path not in self.ids:
            root = Path(self.source.root)
            places = [root / path, *root.glob(f"{REPLACED_DIRECTORY}/*/{path}{STAGED_SUFFIX}")]
            self.ids[path] = ids_of(self.source, str(next(place for place in places if place.exists())))
        return self.ids[path]


def check_goes_on(table, rows):
    assert rows == see(table)
    assert ("committed", None) == write(table, APPEND, [("k=9", [-1])])
    vacuum(table, older_than=-1e10)
    expected = after(rows, APPEND, [("k=9", [-1])])
    assert expected == see(table) == foreign_of_ours(table, expected), "an append and a vacuum lose nothing"
    report = check_table(table, deep=True)
    assert report.is_sound, report.findings


def foreign_of_ours(table, expected):
    """Return what pyarrow lists; files of jobs that the log of the copy does not know stay, as a vacuum says."""
    return expected if vacuum(table, older_than=-1e10, dry_run=True).unknown else foreign(table)


def check(way, table, states, numbers):
    """Return what became of a copy."""
    report = check_table(table, deep=True)
    if way == "copy_table":
        assert report.is_sound, report.findings
        rows = see(table)
        assert any(rows == states.of(number) for number in range(numbers[0], numbers[1] + 1)), "it is no state"
        check_goes_on(table, rows)
        return "sound"
    if report.is_sound:
        check_goes_on(table, states.of(report.number) if report.table else {})
        return "sound" if report.table else "nothing of it"
    try:
        seen = see(table)
    except ArrowIpcError:
        seen = None
    faults = [finding for finding in report.findings if not finding.is_note]
    missing = {os.path.relpath(finding.path, table.root) for finding in faults if "entry " in finding.what}
    assert seen is None or len(missing) < len(faults), f"a reader sees {seen}, and {report.findings}"
    if len(missing) < len(faults):
        return "not sound, and its log is incomplete"
    forget_missing(table)
    check_goes_on(table, states.of(report.number, without=missing))
    return "not sound, and without what is missing it goes on"


def copy_some(folder, copies, end, rng, counts):
    """Let writers make a table, and copy it some times."""
    source, made = TableDirectory(LOCAL, str(folder / "source")), []
    files = [(f"k={k}", [-10 - k]) for k in range(PARTITIONS)]
    assert ("committed", None) == write(source, APPEND, files, retention=24 * 3600)
    pause, seed = rng.choice(PAUSES_SECONDS), rng.randrange(1 << 30)
    writers = [forked(lambda i=i: write_jobs(source, seed + i, pause)) for i in range(WRITERS)]
    try:
        for number in range(copies):
            if time.monotonic() > end:
                break
            time.sleep(rng.random() * 0.3)
            way, target = WAYS[number % len(WAYS)], TableDirectory(LOCAL, str(folder / f"copy-{number}"))
            first = number_of(source)
            copy_by(way, source, target, rng, counts)
            made.append((way, target, (first, number_of(source))))
    finally:
        for pid in writers:
            os.kill(pid, signal.SIGKILL)
            is_killed(pid)
    states = States(source)
    for way, target, numbers in made:
        try:
            counts[f"{way}: {check(way, target, states, numbers)}"] += 1
        except BaseException:
            print(f"{way}, in {shutil.copytree(folder, tempfile.mkdtemp() + '/copies')}", file=sys.stderr)
            raise
    counts.update(copies=len(made), entries=len(states.history.entries))


def run(copies, seed, seconds=3600.0):
    """Make copies until there are enough; return what was counted."""
    rng, counts = random.Random(seed), Counter()
    end = time.monotonic() + seconds
    while counts["copies"] < copies and time.monotonic() < end:
        with tempfile.TemporaryDirectory(prefix="copies-") as folder:
            copy_some(Path(folder), min(ROUND, copies - counts["copies"]), end, rng, counts)
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100, help="copies to make (default 100)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3600.0, help="begin none after so long")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    print(json.dumps(run(arguments.count, arguments.seed, arguments.seconds), sort_keys=True))


if __name__ == "__main__":
    main()
