"""Let a process stand still at an edge of its job while others do what they like: nothing is lost, doubled, mixed or blocked.

    python tests/faults/pauses.py --runs 2000                 an edge x a mode x what others do meanwhile, at random
    python tests/faults/pauses.py --runs 300 --recreate       meanwhile the directory is removed, and written anew
    python tests/faults/pauses.py --copies --runs 2000        the same, where a storage publishes by copies

A run is a table of its own: two appends, then a process that commits, aborts or clears, and stands still at one of its edges.
What is true are the entries, read as JSON (`History`), and what other programs have dropped. Whenever somebody has done
something, and in the end:

- a reader sees exactly these files, and after a vacuum every other reader does, too;
- a job that was reported as committed is in the log, and one of which it was said that nothing is published is not;
- a process that is refused says so in a sentence that is known here; the next append is not refused.

Prints a line of JSON and exits with 0, or raises with what was seen, and how to run that run again.
"""

import argparse
import json
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path
from unittest import mock

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("", "tests", "tests/oracles", "tests/builders", "tests/fakes", "tests/programs")]  # fmt: skip

from copying_storage import CopyingStorage
from table_jobs import (
    APPEND,
    MODES,
    RESTORE,
    REWRITE,
    Died,
    History,
    Job,
    at,
    die,
    drop,
    foreign,
    ids_of,
    left,
    see,
    write,
)

from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.storage.failpoint import POINTS
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.paths import parent
from spark_arrow_ipc.table import collect, log, state
from spark_arrow_ipc.table.names import TableDirectory
from spark_arrow_ipc.table.vacuum import vacuum

OF_JOBS = [point for point in POINTS if point != "aborted.expired"]
OF_ENDING = ["aborted.expired", "collected.files", "collected.mark"]
OF_VACUUM = [*OF_ENDING, "collected.removed"]
SENTENCES = re.compile(
    "nothing is published|nothing is restored|found entries up to|is unknown|no longer tells|was expired|nothing is written|no longer retained"
    "|staging directory is not there|nothing is deleted|files of the table are not there|was removed"
)
"""What processes say that are refused."""


class Run:
    """One table, what is true of it, and what its jobs were told."""

    def __init__(self, folder, rng, storage):
        self.rng, self.number, self.told = rng, 0, {}
        self.directory = TableDirectory(storage, f"{folder}/t")
        self.dropped, self.ids = {}, {}

    def history(self):
        with suppress(FileNotFoundError):
            return History(self.directory)
        return None

    def files(self, count=2):
        self.number += 1
        first = self.number * 100
        partitions = [f"k={1 + self.number % 2}", f"k={3 + self.number % 3}"]
        return [(partition, [first + i, first + i + 50]) for i, partition in enumerate(partitions[:count])]

    # ---- what must hold

    def truth(self):
        """The ids of each partition: of files that the log counts, and of other programs' that no entry removes."""
        history, rows = self.history(), {}
        paths = [] if history is None else history.states[-1]
        removed = {} if history is None else history.removed
        for path in paths:
            ids = self.ids.setdefault(path, None) or ids_of(self.directory, self.directory.path(path))
            self.ids[path] = ids
            rows.setdefault(parent(path), []).extend(ids)
        for (path, version), ids in self.dropped.items():
            if version not in removed.get(path, ()):
                rows.setdefault(parent(path), []).extend(ids)
        return {partition: sorted(ids) for partition, ids in rows.items()}

    def look(self, seen=see):
        found = seen(self.directory) if Path(self.directory.root).exists() else {}
        expected = self.truth()
        assert expected == found, f"expected {expected}, found {found} by {seen.__name__}"

    def check_told(self):
        history = self.history()
        for job, outcome in self.told.items():
            is_there = history is not None and job in history.jobs
            assert outcome in ("unknown", "removed") or is_there is (outcome == "committed"), (
                f"{job} was told {outcome}"
            )

    # ---- what processes do

    def save(self, mode, **options):
        """Run a job as Spark does, and note what it is told."""
        try:
            job = Job(self.directory, mode, self.files(), **options)
        except (ArrowIpcError, FileNotFoundError) as error:
            self.check_sentence(error)
            return
        name = None if job.plan is None or job.plan.skip else job.plan.staging.jobid
        self.finish(job, name)

    def finish(self, job, name):
        try:
            outcome = "committed" if job.commit() else "nothing"
        except (ArrowIpcError, OSError) as error:
            self.check_sentence(error)
            outcome = "unknown" if job.plan is None or not job.abort() else "nothing"
        if name is not None:
            self.told.setdefault(name, outcome)

    @staticmethod
    def check_sentence(error):
        # A task of a rewrite meets a file that is gone.
        assert isinstance(error, FileNotFoundError) or SENTENCES.search(str(error)), f"no sentence: {error!r}"

    def trying(self, act):
        try:
            act()
        except (ArrowIpcError, FileNotFoundError) as error:
            self.check_sentence(error)

    # ---- what others do meanwhile

    def touch(self):
        """All files of ours get other times, earlier ones or later."""
        seconds = time.time() + self.rng.choice([-3600, 0, 3600])
        for path in Path(self.directory.root).rglob("part-*"):
            with suppress(FileNotFoundError):
                os.utime(path, (seconds, seconds))

    def drop(self):
        self.number += 1
        path = f"k=1/other{self.number}.arrow"
        ids = drop(self.directory, path, [self.number * 100 + 99])
        status = self.directory.storage.status(self.directory.path(path))
        self.dropped[path, status.version or str(status.mtime_ns)] = ids

    def copy(self):
        """A copy is the table: a reader of it sees the same, and a vacuum of it leaves that."""
        copy = shutil.copytree(self.directory.root, self.directory.root + "-copy", copy_function=shutil.copy2)
        other, expected = TableDirectory(self.directory.storage.inside(None), str(copy)), self.truth()
        assert expected == see(other)
        vacuum(other, older_than=-1e10)
        assert expected == see(other) == foreign(other)
        shutil.rmtree(copy)

    def dead(self):
        with at(self.rng.choice(OF_JOBS), die), suppress(Died):
            write(self.directory, self.rng.choice(MODES), self.files())

    def several(self):
        for _ in range(5):
            self.save(APPEND)

    def meanwhile(self, job):
        acts = [
            *(partial(self.save, mode) for mode in MODES),
            partial(self.save, REWRITE, choose=lambda files: files[::2]),
            partial(vacuum, self.directory, older_than=3600),
            partial(vacuum, self.directory, older_than=-1e10),
            self.several, self.touch, self.copy, self.drop, self.dead,
        ]  # fmt: skip
        if job is not None and job.plan is not None:
            acts.append(job.abort)
        self.look()
        for act in self.rng.choices(acts, k=self.rng.choice([1, 1, 2, 3])):
            self.trying(act)
            self.look()

    def recreate(self):
        """Remove the directory, and write jobs into it; the last one may die."""
        self.look()
        shutil.rmtree(self.directory.root)
        self.told = dict.fromkeys(self.told, "removed")
        self.dropped = {}
        for _ in range(self.rng.choice([0, 1, 1, 2, 5])):
            self.save(APPEND)
        if self.rng.random() < 0.7:
            self.dead()
        self.look()


def run(number, chosen, folder, storage):
    """Do one run; return what stood still, and at which edge, or None if it did not get there."""
    rng = random.Random(f"{chosen.seed}.{number}")
    this = Run(folder, rng, storage)
    what = "commit" if chosen.recreate else rng.choice(["commit"] * 7 + ["abort", "vacuum"])
    point = rng.choice({"commit": OF_JOBS, "abort": OF_ENDING, "vacuum": OF_VACUUM}[what])
    mode, job = rng.choice(MODES), None
    nth = rng.choice([1, 1, 2]) if point in ("named.file", "collected.files", "T2.batch") else 1
    remembered = rng.choice([1000] * 4 + [4])
    with (
        mock.patch.object(log, "CHECKPOINT_INTERVAL", rng.choice([2, 32])),
        mock.patch.object(state, "REMEMBERED", remembered),
        mock.patch.object(collect, "REMEMBERED", remembered),
    ):
        this.save(APPEND, retention=rng.choice([None, 3600]))
        this.save(APPEND)
        if rng.random() < 0.3:
            this.drop()
        jobs = []

        def act():
            try:
                this.recreate() if chosen.recreate else this.meanwhile(jobs[0] if jobs else None)
            except Exception as error:  # which the process would take for one of the storage
                raise AssertionError(f"meanwhile: {error!r}") from error

        if what == "vacuum":
            with at(rng.choice(["named.all", "committed.put"]), die), suppress(Died):
                write(this.directory, rng.choice(MODES[:-1]), this.files())
            with at(point, act, nth) as reached:
                this.trying(partial(vacuum, this.directory, older_than=-1e10))
        else:
            is_early = point.startswith(("planned", "staged"))
            with at(point, act, nth) as reached:
                if is_early or what == "commit":
                    try:
                        job = Job(this.directory, mode, this.files())
                        jobs.append(job)
                    except (ArrowIpcError, FileNotFoundError) as error:
                        this.check_sentence(error)
                    if job is not None:
                        is_made = job.plan is not None and not job.plan.skip
                        this.finish(job, job.plan.staging.jobid if is_made else None)
                else:
                    job = Job(this.directory, APPEND if mode is RESTORE else mode, this.files())
                    this.trying(job.abort)
        if chosen.recreate:
            this.told = dict.fromkeys(this.told, "removed") if reached else this.told
        this.look()
        this.check_told()
        history = this.history()
        before = 0 if history is None else len(history.jobs)
        this.save(APPEND)
        assert before + 1 == len(this.history().jobs), "the next append is refused"
        vacuum(this.directory, older_than=-1e10)
        this.look()
        this.look(foreign)
        assert [] == left(this.directory), f"vacuum left {left(this.directory)}"
    return f"{what} {point}" if reached else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000, help="those that get to their edge")
    parser.add_argument("--recreate", action="store_true", help="meanwhile the directory is removed and written anew")
    parser.add_argument("--copies", action="store_true", help="over a storage that publishes by copies")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first run")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin none after so long")
    parser.add_argument("--folder", default=None, help="where tables are made (default: a temporary directory)")
    chosen = parser.parse_args()
    begun, number, reached = time.monotonic(), chosen.first, Counter()
    storage = CopyingStorage() if chosen.copies else LOCAL
    while reached.total() < chosen.runs and time.monotonic() - begun < chosen.seconds:
        with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
            try:
                stood = run(number, chosen, folder, storage)
            except BaseException:
                again = [*sys.argv[1:], "--seed", str(chosen.seed), "--first", str(number), "--runs", "1"]
                print(f"again: {' '.join(again)}", file=sys.stderr)
                raise
        number += 1
        if stood is not None:
            reached[stood] += 1
    told = {"runs": reached.total(), "numbers": [chosen.first, number], "edges": dict(sorted(reached.items()))}
    print(json.dumps({**told, "seconds": round(time.monotonic() - begun, 1)}))


if __name__ == "__main__":
    main()
