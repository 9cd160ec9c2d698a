"""Let a proxy before a store carry out PUT and COPY late and twice, while jobs run, die and are given up.

    python tests/faults/late_requests.py --runs 1000 [--seed 1]
    python tests/faults/late_requests.py --runs 100 --staged    finds the fault that ADR 22 says remains

Each PUT and COPY may be carried out once more after later requests and jobs, or only then, its client told of a broken
connection. What readers see is compared with what jobs were told. One thing is left out, unless `--staged` asks for it:
that the proxy repeats the upload of a staged file which was deleted, and then its copy.

Prints what it counted and exits with 0, or raises with the run's seed.
"""

import argparse
import contextlib
import json
import logging
import random
import sys
import time
import urllib.parse
from collections import Counter
from pathlib import Path
from unittest import mock

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("", "tests", "tests/oracles", "tests/builders", "tests/fakes", "tests/programs")]  # fmt: skip

import s3_requests
from commit_jobs import Died
from fault_server import LATE, TWICE, FaultServer, Request, fault_server
from job_plans import plan_job
from store_jobs import Place

from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory
from spark_arrow_ipc.dataset.commit_log.log import read_pending
from spark_arrow_ipc.dataset.write import WriteMode
from spark_arrow_ipc.dataset.write.commit import abort, commit
from spark_arrow_ipc.dataset.write.publisher import TIMING
from spark_arrow_ipc.dataset.write.task import TaskOutput
from spark_arrow_ipc.dataset.write.vacuum import give_up, vacuum
from spark_arrow_ipc.errors import CommitError
from spark_arrow_ipc.storage import failpoint

ACTIONS = 10
"""Of a run."""

P_TWICE, P_LATE, P_DELIVERED = 0.3, (0.02, 0.02, 0.9), (0.1, 0.001)
"""Of a PUT or COPY to be repeated; to be carried out late, during a job; of a late request to come before another, in a run."""

P_DEATH = 0.4
"""Of a job."""

POINTS = [point for point in failpoint.POINTS if point.startswith(("C", "H")) and "torn" not in point]
"""Steps of a commit."""


class Proxy(FaultServer):
    """The store, and a proxy before it."""

    def __init__(self, rng, *, staged):
        super().__init__()
        self.rng, self.staged = rng, staged
        self.count = Counter()
        self.recreated = set()
        self.p_delivered = rng.choice(P_DELIVERED)
        self.p_late = 0.0
        """Whether anything is late, and how much."""

    def _take_fault(self, request, key):
        for late in [late for late in self._late if self.rng.random() < self.p_delivered]:
            self._late.remove(late)
            self.carry_out(*late)
        told = super()._take_fault(request, key)
        if self.p_late and request in {Request.PUT, Request.COPY}:
            number = self.rng.random()
            told = LATE if number < self.p_late else TWICE if number < self.p_late + P_TWICE else told
        return told

    def carry_out(self, head, request, body):
        source = urllib.parse.unquote(head.headers.get("x-amz-copy-source", "")).lstrip("/").partition("/")[2]
        if source in self.recreated and not self.staged:
            return
        if request is Request.PUT and "_ipc_stage" in head.key and head.key not in self.objects.by_key:
            self.recreated.add(head.key)
        answer = s3_requests.perform(self.objects, head, request, body)
        self.count[f"{request.name} late: {answer.status}"] += 1

    def deliver_all(self):
        """Carry out what is late, in any order."""
        late, self._late = self._late, []
        for each in self.rng.sample(late, len(late)):
            self.carry_out(*each)


class Run:
    """A dataset, and what its readers may see: several states as long as a job that died may still be committed."""

    def __init__(self, place, rng, count):
        self.place, self.rng, self.count = place, rng, count
        self.may_see = [place.ours()]
        self.is_open = False
        self.number = 0

    def look(self, what):
        seen = self.place.ours()
        assert seen in self.may_see, f"{what}: readers see {seen}, and not one of {self.may_see}"
        if not self.is_open:
            self.may_see = [seen]

    def decided(self):
        """Another record has the number that a dead job asked for."""
        self.is_open = False

    def job(self):
        mode = self.rng.choice([WriteMode.APPEND, WriteMode.APPEND, WriteMode.OVERWRITE, WriteMode.REWRITE])
        kept = self.rng.choice([0, 3600])
        self.number += 1
        texts = [f"{self.number}.{i}" for i in range(self.rng.randint(1, 3))]
        point = self.rng.choice(POINTS) if self.rng.random() < P_DEATH else None
        passed = self.rng.randint(1, 3)
        changes = {WriteMode.APPEND: lambda rows: sorted(rows + texts), WriteMode.OVERWRITE: lambda _: texts}
        after = [changes.get(mode, list)(rows) for rows in self.may_see]
        what = f"{mode.value} of {texts}, dead at {point}"
        staging = None
        self.place.server.p_late = self.rng.choice(P_LATE)
        try:
            with dying_at(point, passed):
                plan = plan_job(self.place.root, mode, storage=self.place.storage, keep_replaced=kept)
                staging = plan.staging
                if mode is WriteMode.REWRITE:
                    texts = ["|".join(self.read(file) for file in plan.intent.snapshot)]
                outputs = [
                    TaskOutput(staging.jobid, (self.place.stage(plan, text),)) for text in texts if not plan.skip
                ]
                commit(plan, outputs, write_empty=None)
        except Died:
            self.count["died"] += 1
            self.may_see += after
            self.is_open = True
        except (CommitError, OSError) as error:
            self.failed(staging, after, str(error))
        else:
            self.count[f"{mode.value} published"] += 1
            self.may_see = after
            self.decided()
        self.look(what)

    def read(self, file):
        return self.place.storage.read(f"{self.place.root}/{file.path}", 1000).decode()

    def failed(self, staging, after, told):
        """Go on as Spark does, and as the error says."""
        unknown = "unknown" in told
        self.count["unknown" if unknown else "failed"] += 1
        if staging is None:
            return
        if not abort(staging):
            with contextlib.suppress(CommitError, OSError):
                give_up(staging.root, staging.jobid, storage=staging.storage)
                self.decided()
                return
            if unknown or "the job is committed" in told:
                self.may_see += after
                self.is_open = True
            return
        self.decided()

    def clean(self):
        self.count["vacuums"] += 1
        with contextlib.suppress(CommitError, OSError):
            vacuum(self.place.root, storage=self.place.storage, older_than_seconds=0)
            self.decided()
        self.look("vacuum")

    def take_back(self):
        dataset = DatasetDirectory(self.place.storage, self.place.root)
        pending = read_pending(dataset)
        if pending is None or not pending.record.is_of_job:
            return
        before = self.before(pending)
        try:
            give_up(self.place.root, pending.record.jobid, older_than_seconds=0, storage=self.place.storage)
        except (CommitError, OSError):  # an old file is gone already; or the store did not confirm it, or its end
            self.may_see.append(before)
            self.is_open = True
            return
        self.count["given up"] += 1
        self.decided()
        assert self.place.ours() == before, (self.place.ours(), before)
        self.may_see = [before]

    def before(self, pending):
        """What readers saw before a pending job."""
        own = {pending.dataset.path(add.final) for add in pending.record.adds}
        found = [file for file in self.place.listed() if file not in own]
        return sorted(row for path in found for row in self.place.storage.read(path, 1000).decode().split("|"))


@contextlib.contextmanager
def dying_at(point, passed):
    """Let what runs inside die when it passes a failpoint for so many-th time, if it gets there."""
    left = [passed]

    def hit(name):
        if name == point:
            left[0] -= 1
            if left[0] == 0:
                raise Died

    with mock.patch.object(failpoint, "hit", hit):
        yield


def run(seed, count, *, staged=False):
    """Run some jobs and vacuums over one dataset; raise if a reader sees what nobody was told of."""
    rng = random.Random(seed)
    passed = [0.0]

    def sleep(seconds):
        passed[0] += seconds

    with (
        fault_server(Proxy(random.Random(seed), staged=staged)) as server,
        mock.patch.multiple(TIMING, sleep=sleep, clock=lambda: passed[0]),
    ):
        place = Place(server, max_retries="0")
        one = Run(place, rng, count)
        try:
            for _ in range(ACTIONS):
                rng.choice([one.job, one.job, one.job, one.job, one.clean, one.take_back])()
            server.p_late = 0.0
            one.clean()
            server.deliver_all()
            one.look("the last requests")
            expected = one.may_see[0]
            for text in ("y", "z"):
                place.save(WriteMode.APPEND, [text])
                expected = sorted([*expected, text])
            vacuum(place.root, storage=place.storage, older_than_seconds=0)
            assert expected == place.ours() == place.plain(), (expected, place.ours(), place.plain())
            assert not [key for key in server.objects.data() if "_ipc_stage" in key]
        except BaseException as error:
            error.add_note(f"the run of the seed {seed}")
            raise
        count["runs"] += 1
        count.update(server.count)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--staged", action="store_true", help="repeat uploads of staged files before their copies, too")
    chosen = parser.parse_args()
    logging.disable(logging.WARNING)  # of aborts and jobs that died
    begun = time.monotonic()
    count = Counter()
    for number in range(chosen.runs):
        run(chosen.seed + number, count, staged=chosen.staged)
    print(json.dumps({**dict(sorted(count.items())), "seconds": round(time.monotonic() - begun)}))


if __name__ == "__main__":
    main()
