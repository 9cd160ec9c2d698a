"""Let a proxy before a store carry out PUT, COPY and DELETE late and twice, while jobs run, die and are aborted.

    python tests/faults/late_requests.py --runs 1000 [--seed 1]
    python tests/faults/late_requests.py --runs 100 --staged    finds what ADR 44 says remains

Each request may be carried out once more after later requests and jobs, or only then, its client told of a broken connection.
What readers see is compared with what jobs were told. One thing is left out, unless `--staged` asks for it: that the proxy
repeats the upload of a staged file which was deleted, and then its copy. That makes a file which counts for nobody, and which
programs that list see until the next vacuum.

Prints what it counted and exits with 0, or raises with the run's seed.
"""

import argparse
import json
import logging
import random
import sys
import time
import urllib.parse
from collections import Counter
from contextlib import suppress
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("", "tests", "tests/oracles", "tests/builders", "tests/fakes", "tests/programs")]  # fmt: skip

import s3_requests
from fault_server import LATE, TWICE, FaultServer, Request, fault_server
from table_jobs import (
    APPEND,
    DYNAMIC,
    OVERWRITE,
    RESTORE,
    REWRITE,
    Died,
    History,
    after,
    at,
    die,
    left,
    see,
    write,
)

from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.storage.failpoint import POINTS
from spark_arrow_ipc.storage.open import storage_of
from spark_arrow_ipc.storage.paths import parent
from spark_arrow_ipc.table.names import TableDirectory
from spark_arrow_ipc.table.snapshot import list_data_files
from spark_arrow_ipc.table.vacuum import vacuum

ACTIONS = 10
"""Of a run."""

CHANGES = {Request.PUT, Request.COPY, Request.DELETE, Request.DELETE_MANY}
P_TWICE, P_LATE, P_DELIVERED = 0.3, (0.02, 0.02, 0.9), (0.1, 0.001)
"""Of a change to be repeated; to be carried out late, during a job; of a late one to come before another request, in a run."""

P_DEATH = 0.4
"""Of a job."""


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
        if self.p_late and request in CHANGES:
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
    """A table, and what its readers may see: several states as long as a job may still be committed that died."""

    def __init__(self, server, rng, count):
        self.server, self.rng, self.count, self.number = server, rng, count, 0
        options = server.options | {"max_retries": "0"}
        self.directory = TableDirectory(*storage_of(f"{server.url}/t", tuple(options.items())))
        write(self.directory, APPEND, self.files(), retention=3600)
        self.first = see(self.directory)
        self.may_see = [self.first]

    def files(self):
        self.number += 1
        return [(f"k={self.rng.randrange(3)}", [10 * self.number + i]) for i in range(self.rng.randint(1, 3))]

    def look(self, what):
        seen = see(self.directory)
        assert seen in self.may_see, f"{what}: readers see {seen}, and not one of {self.may_see}"
        self.check_by_log(seen)

    def check_by_log(self, seen):
        """What readers see is what the entries say, read as JSON."""
        rows = Counter(parent(path) for path, rows in History(self.directory).states[-1].items() for _ in range(rows))
        assert rows == {partition: len(ids) for partition, ids in seen.items()}

    def job(self):
        mode = self.rng.choice([APPEND, APPEND, OVERWRITE, DYNAMIC, REWRITE, RESTORE])
        files, point = self.files(), self.rng.choice(list(POINTS)) if self.rng.random() < P_DEATH else None
        new = [after(view, mode, files, restored=self.first) for view in self.may_see]
        self.server.p_late = self.rng.choice(P_LATE)
        try:
            with at(point, die, self.rng.randint(1, 3)):
                outcome, error = write(self.directory, mode, files)
        except Died:
            outcome, error = "died", None
        self.server.p_late = 0.0
        self.count[f"{mode.value} {outcome}"] += 1
        told = f"{mode.value} of {files}, {outcome} at {point}: {error}"
        if outcome == "committed":
            self.may_see = new
        elif outcome != "nothing":
            self.may_see = [*self.may_see, *new]
        self.look(told)

    def clean(self):
        """All jobs that died have ended then: what is seen stays."""
        self.count["vacuums"] += 1
        with suppress(ArrowIpcError, OSError):
            vacuum(self.directory, older_than=-1e10)
            self.may_see = [see(self.directory)] if see(self.directory) in self.may_see else []
        self.look("vacuum")


def run(seed, count, *, staged=False):
    """Run some jobs and vacuums over one table; raise if a reader sees what nobody was told of."""
    rng = random.Random(seed)
    with fault_server(Proxy(random.Random(seed), staged=staged)) as server:
        one = Run(server, rng, count)
        try:
            for _ in range(ACTIONS):
                rng.choice([one.job, one.job, one.job, one.job, one.clean])()
            one.clean()
            server.deliver_all()
            one.look("the last requests")
            files = one.files()
            expected = after(one.may_see[0], APPEND, files)
            assert ("committed", None) == write(one.directory, APPEND, files)
            vacuum(one.directory, older_than=-1e10)
            assert expected == see(one.directory), (expected, see(one.directory))
            listed = {*list_data_files(one.directory)}
            counted = {*History(one.directory).states[-1]}
            assert listed == counted, f"too many {listed - counted}, too few {counted - listed}"
            assert [] == left(one.directory), left(one.directory)
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
    begun, count = time.monotonic(), Counter()
    for number in range(chosen.runs):
        run(chosen.seed + number, count, staged=chosen.staged)
    print(json.dumps({**dict(sorted(count.items())), "seconds": round(time.monotonic() - begun)}))


if __name__ == "__main__":
    main()
