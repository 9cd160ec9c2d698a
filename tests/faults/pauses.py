"""Let a process stand still at a step while others do what they like: nothing is lost, doubled, mixed, hidden or blocked.

    python tests/faults/pauses.py --runs 2000                 a step x a mode x what others do meanwhile, at random
    python tests/faults/pauses.py --runs 300 --recreate       meanwhile the directory is removed, and written anew
    python tests/faults/pauses.py --copies --runs 2000        the same, where a storage publishes by copies

A run is a dataset of its own: two appends, then a process that commits, aborts, gives up or clears, and stands still at
one of its steps. What is true is kept by the run itself: at each step that makes a record it applies the record to a
mapping of file names. Whenever somebody has done something, and in the end:

- a reader sees exactly that mapping, and after a vacuum every other reader does, too;
- a job that was reported as published is in the chain, and one of which it was said that nothing is published is not;
- whoever is refused is told so in a sentence that is known here; the next append is not refused.

Prints a line of JSON and exits with 0, or raises with what was seen, and how to run that run alone.
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
from contextlib import ExitStack, nullcontext
from pathlib import Path
from unittest import mock

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("", "tests", "tests/oracles", "tests/builders", "tests/fakes", "tests/programs")]  # fmt: skip

from commit_jobs import (
    APPEND,
    DYNAMIC,
    OVERWRITE,
    REWRITE,
    Died,
    dataset,
    finish,
    foreign,
    leftovers,
    ours,
    run_tasks,
)
from copying_storage import CopyingStorage, local_paths_are_copied
from job_plans import plan_job

from spark_arrow_ipc.dataset.commit_log import log, record
from spark_arrow_ipc.dataset.commit_log.log import newest_record
from spark_arrow_ipc.dataset.write import record_chain, roll_forward
from spark_arrow_ipc.dataset.write.commit import abort
from spark_arrow_ipc.dataset.write.vacuum import give_up, vacuum
from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.storage import failpoint

MODES = (APPEND, OVERWRITE, DYNAMIC, REWRITE)
COMMIT = [
    "P0.begin", "P0.snapshot", "P0.staging", "C1.checked", "C2.synced", "C3.checked", "C3.torn", "C3.written", "C3.linked",
    "C3.synced", "C4.directories", "C4.renamed", "C4.synced", "C5.unlinked", "C5.synced", "C6.success", "C6.kept", "C6.done",
    "C6.pruned", "C6.cleaned",
]  # fmt: skip
OF_COPIES = ["C4.proven", "C4.sources"]
STEPS = {
    "commit": COMMIT,
    "abort": ["A.looked", "C3.written", "C3.linked", "A.withdrawn", "C6.success", "C6.done", "A.removed"],
    "give up": ["G.claimed", "C3.linked", "G.recorded", "C4.synced", "C5.unlinked", "C6.done", "C6.cleaned"],
    "vacuum": ["C3.synced", "C4.directories", "C4.renamed", "C4.synced", "C5.unlinked", "C6.success", "C6.done"],
}
"""What a process does, and where it may stand still; those that give up or clear find a job that died half-way."""

SENTENCES = re.compile(
    "nothing is published|is unknown|is committed|was withdrawn|cannot be (?:given up|taken back)|removed and made anew|nothing is written"
    "|faster than its state can be read|may be removing them"
)
KEPT = [(64, 60 * 10**9, 1 << 20)] * 3 + [(64, 3, 1 << 20), (2, 0, 0)]
"""Records that are kept: how many, how much older than the youngest, and how large."""


class Run:
    """One dataset, what is true of it, and who stands still."""

    def __init__(self, folder, rng):
        self.path, self.rng = Path(folder) / "data", rng
        self.texts = {}
        """What is in the file of a name, for each that was ever staged."""
        self.jobs = 0
        self.begin()
        self.stops = self.dies = None
        self.reached = False

    def begin(self):
        self.head, self.chain = 0, None
        self.truth, self.before = {}, {}
        self.committed, self.withdrawn = [], set()
        self.mode = ""
        """That of the newest record."""

    # What is true

    def hit(self, name):
        if name == "C3.linked":
            self.note()
        if self.stops is not None and self.stops[0] == name:
            self.stops[1] -= 1
            if self.stops[1] == 0:
                act, self.stops, self.reached = self.stops[2], None, True
                try:
                    act()
                except Exception as error:  # which the process would take for one of the storage
                    raise AssertionError(f"meanwhile: {error!r}") from error
                return
        if self.dies == name:
            self.dies = None
            raise Died

    def note(self):
        """Apply the records that are new."""
        for found in sorted(self.path.glob("_ipc_commits/*.json")):
            data = json.loads(found.read_bytes())
            seq = data["seq"]
            if seq <= self.head or (seq > 1 and data["chain"] != self.chain):
                continue  # in the place of a pruned one, or of a chain that was removed
            assert seq == self.head + 1, "a record leaves a gap"
            self.head, self.chain, self.mode = seq, data["chain"], data["mode"]
            self.withdrawn |= {*data["withdraws"]}
            if data["mode"] == "taken back":
                assert self.committed.pop() in data["withdraws"], "another job than the newest is taken back"
                self.truth = self.before
            elif data["mode"] != "withdrawn":
                assert data["jobid"] not in {*self.committed, *self.withdrawn}, "a job commits twice, or was withdrawn"
                self.committed.append(data["jobid"])
                self.before, removed = self.truth, {removal[0] for removal in data["removes"]}
                assert removed <= {*self.truth}, "an overwrite removes what is not there"
                kept = {path: text for path, text in self.truth.items() if path not in removed}
                self.truth = kept | {add[1]: self.texts[add[1]] for add in data["adds"]}

    def look(self, seen=ours, path=None, truth=None):
        self.note()
        found = seen(path or self.path) if self.path.exists() else []
        expected = sorted((self.truth if truth is None else truth).values())
        assert expected == found, f"expected {expected}, found {found} by {seen.__name__}"

    # What processes do

    def planned(self, mode, **options):
        self.jobs += 1
        texts = [f"k={1 + self.jobs % 2}:{self.jobs}", f"k={3 + self.jobs % 3}:{self.jobs}"]
        plan = plan_job(self.path, mode, durable=False, **options)
        outputs = run_tasks(plan, *(() if plan.skip else texts))
        self.texts |= {output.files[0].final: text for output, text in zip(outputs, texts, strict=False)}
        return plan, outputs

    def save(self, mode, **options):
        self.commit(*self.planned(mode, **options))

    def commit(self, plan, outputs):
        """Commit a job, and do as Spark does where that fails."""
        jobid = plan.staging.jobid
        try:
            summary = finish(plan, outputs)
        except ArrowIpcError as error:
            self.note()
            self.check_sentence(error, is_published=jobid in self.committed)
            self.abort(plan)
            return
        self.note()
        assert not summary.published or jobid in self.ever, "a job that is reported as published is not"

    @property
    def ever(self):
        """All jobs that were committed; where the directory was removed, nobody knows."""
        return {*self.committed, *self.lost}

    lost = ()

    def abort(self, plan):
        gave_up = abort(plan.staging)
        self.note()
        assert not (gave_up and plan.staging.jobid in self.committed[-record.REMEMBERED :]), (
            "an abort of a committed job"
        )

    @staticmethod
    def check_sentence(error, *, is_published=False):
        assert SENTENCES.search(str(error)), f"no sentence: {error!r}"
        assert not is_published or "nothing is published" not in str(error), f"it is published: {error}"

    def trying(self, act):
        try:
            act()
        except ArrowIpcError as error:
            self.check_sentence(error)

    def dying(self, act, points):
        """Do something in a process that dies, if it gets there."""
        self.dies = self.rng.choice(points)
        try:
            act()
        except Died:
            return
        self.dies = None

    # What others do meanwhile

    def touch(self):
        """All files of ours get other times, earlier ones or later."""
        seconds = time.time() + self.rng.choice([-3600, 0, 3600])
        for found in self.path.rglob("*"):
            if found.is_file() and not found.name.startswith("foreign"):
                os.utime(found, (seconds, seconds))

    def write_foreign(self):
        name = f"k=1/foreign-{self.jobs}.arrow"
        self.jobs += 1
        (self.path / "k=1").mkdir(exist_ok=True, parents=True)
        (self.path / name).write_text(str(self.jobs))
        self.truth, self.before = ({**state, name: f"k=1:{self.jobs}"} for state in (self.truth, self.before))

    def copy(self):
        """Whoever goes on with a copy finds what is committed."""
        copy = shutil.copytree(self.path, self.path.with_name("copy"), copy_function=shutil.copyfile)
        self.look(ours, copy)
        vacuum(copy, older_than_seconds=0)
        # A person who gives a job up says so before the record that takes it back: that goes on in the copy, too.
        is_taken_back = newest_record(dataset(copy))[1].mode == record.TAKEN_BACK != self.mode
        truth = self.before if is_taken_back else self.truth
        self.look(ours, copy, truth)
        self.look(foreign, copy, truth)
        shutil.rmtree(copy)

    def withdraw_all(self):
        vacuum(self.path, older_than_seconds=0)

    def several(self):
        for _ in range(5):
            self.save(APPEND)

    def die(self):
        self.dying(lambda: self.save(self.rng.choice(MODES)), COMMIT)

    def meanwhile(self, plan):
        acts = [
            *(lambda mode=mode: self.save(mode) for mode in MODES),
            lambda: self.save(REWRITE, choose=lambda files: files[::2]),
            lambda: vacuum(self.path),
            self.withdraw_all, self.several, self.touch, self.copy, self.write_foreign, self.die,
        ]  # fmt: skip
        if plan is not None:
            jobid = plan.staging.jobid
            acts += [lambda: self.abort(plan), lambda: give_up(self.path, jobid, older_than_seconds=float("inf"))]
        self.look()
        for act in self.rng.choices(acts, k=self.rng.choice([1, 1, 2, 3])):
            self.trying(act)
            self.look()

    def recreate(self):
        """Remove the directory, and write jobs into it; the last one may die."""
        self.look()
        shutil.rmtree(self.path)
        self.lost = (*self.lost, *self.committed)
        self.begin()
        for _ in range(self.rng.choice([0, 1, 1, 2, 5])):
            self.save(APPEND)
        if self.rng.random() < 0.7:
            self.dying(lambda: self.save(self.rng.choice(MODES)), COMMIT)
        self.look()


def run(number, chosen, folder):
    """Do one run; return what stood still, and at which step, or None if it did not get there."""
    rng = random.Random(f"{chosen.seed}.{number}")
    this = Run(folder, rng)
    what = "commit" if chosen.recreate else rng.choice(["commit"] * 7 + ["abort", "give up", "vacuum"])
    steps = STEPS[what] + (OF_COPIES if chosen.copies and what == "commit" else [])
    step, mode = rng.choice(steps), rng.choice(MODES)
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(failpoint, "hit", this.hit))
        numbers = dict(zip(("KEPT_RECORDS", "_KEPT_NS", "_KEPT_NBYTES"), rng.choice(KEPT), strict=True))
        stack.enter_context(mock.patch.multiple(log, **numbers))
        if rng.random() < 0.2:
            for module in (record, record_chain, roll_forward):
                stack.enter_context(mock.patch.object(module, "REMEMBERED", 3))
        options = {"keep_replaced": rng.choice([0, 0, 3600])}
        this.save(APPEND, commit_retention=rng.choice([None, 3600]))
        this.save(APPEND)
        plan = None

        def act():
            this.recreate() if chosen.recreate else this.meanwhile(plan)

        nth = rng.choice([1, 1, 2]) if step in ("C4.renamed", "C5.unlinked") else 1
        if step.startswith("P0"):
            this.stops = [step, nth, act]
        try:
            plan, outputs = this.planned(mode, **options)
            if what in ("give up", "vacuum"):
                this.dying(lambda: finish(plan, outputs), COMMIT[COMMIT.index("C3.linked") : COMMIT.index("C6.done")])
            this.stops = [step, nth, act] if not step.startswith("P0") else this.stops
            if what == "commit":
                this.commit(plan, outputs)
            elif what == "abort":
                this.abort(plan)
            elif what == "give up":
                give_up(this.path, plan.staging.jobid, older_than_seconds=float("inf"))
            else:
                vacuum(this.path)
        except ArrowIpcError as error:
            this.check_sentence(error)
        except FileNotFoundError:  # a task of a job that was withdrawn
            assert plan is None, "an error of the system leaves a commit"
        this.stops = None
        this.look()
        made = len(this.committed)
        this.save(APPEND)
        assert made + 1 == len(this.committed), "the next append is refused"
        vacuum(this.path, older_than_seconds=0)
        this.look()
        this.look(foreign)
        left = [
            name
            for name in leftovers(this.path)
            if "foreign" not in name and not name.startswith(("_ipc_replaced", "_ipc_commits/log"))
        ]
        assert not left, f"vacuum left {left}"
    return f"{what} {step}" if this.reached else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000, help="those that get to their step")
    parser.add_argument("--recreate", action="store_true", help="meanwhile the directory is removed and written anew")
    parser.add_argument("--copies", action="store_true", help="over a storage that publishes by copies")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first run")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin none after so long")
    parser.add_argument("--folder", default=None, help="where the datasets are made (default: a temporary directory)")
    chosen = parser.parse_args()
    begun, number, reached = time.monotonic(), chosen.first, Counter()
    with local_paths_are_copied(CopyingStorage()) if chosen.copies else nullcontext():
        while reached.total() < chosen.runs and time.monotonic() - begun < chosen.seconds:
            with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
                try:
                    stood = run(number, chosen, folder)
                except BaseException:
                    again = [*sys.argv[1:], "--seed", str(chosen.seed), "--first", str(number), "--runs", "1"]
                    print(f"again: {' '.join(again)}", file=sys.stderr)
                    raise
            number += 1
            if stood is not None:
                reached[stood] += 1
    told = {"runs": reached.total(), "numbers": [chosen.first, number], "steps": dict(sorted(reached.items()))}
    print(json.dumps({**told, "seconds": round(time.monotonic() - begun, 1)}))


if __name__ == "__main__":
    main()
