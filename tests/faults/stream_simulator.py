"""A stream's mode against hostile arrivals, without Spark: thousands of deaths in a minute.

    python tests/faults/stream_simulator.py --trials 1000 [--mode window log] [--late 0 0.1]

Files become visible in a memory storage, a share of them late, with old times, equal times and random names. A driver
as Spark's asks the mode for offsets, writes them down, reads batches and commits them; it dies at random moments: before
and after each of these writes, and where the mode writes a log of its own. The sink commits a batch once by its number.
In the end every file must have been read once; in the mode `window`, every file that did not come later than the window,
and every other one must have been named in a warning while the driver ran.

Prints a line of JSON for each mode and share, and exits with 1 if a file was lost, doubled or not named.
"""

import argparse
import json
import logging
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("", "tests", "tests/oracles", "tests/builders", "tests/fakes", "tests/programs")]  # fmt: skip

from memory_storage import MemoryStorage

from spark_arrow_ipc.dataset.stream import waiting_files
from spark_arrow_ipc.dataset.stream.admission import Admission
from spark_arrow_ipc.dataset.stream.log import LogMode, LogOptions
from spark_arrow_ipc.dataset.stream.mode import ALL_AVAILABLE, Limit
from spark_arrow_ipc.dataset.stream.source_files import SourceFiles
from spark_arrow_ipc.dataset.stream.source_log import SourceLog
from spark_arrow_ipc.dataset.stream.waiting_files import WaitingFiles
from spark_arrow_ipc.dataset.stream.window import WindowMode, WindowOptions

SOURCE = "memory:/in"
SECOND = 1_000_000_000
LATE_SECONDS = 60
STEPS, ARRIVING = 160, 130


class Died(BaseException):
    """The process of the driver is killed here."""


@dataclass
class World:
    """The storage and the clock, which outlive the driver."""

    random: random.Random
    late_share: float
    storage: MemoryStorage = field(default_factory=lambda: MemoryStorage(renames=False))
    now: float = 1_700_000_000.0
    names: dict = field(default_factory=dict)
    """When each file appeared, and how much older than that it said it was."""

    def arrive(self):
        """Make a file visible; its time is of whole seconds, as in S3, and that of a late one is the past."""
        self.now += self.random.choice([0, 0, 1, 1, 3]) + 1e-5
        behind = self.random.expovariate(1 / 20) if self.random.random() < self.late_share else 0
        path = (
            f"{SOURCE}/{self.random.choice(['', 'k=1/', 'k=2/'])}f{self.random.randrange(10**6):06d}-{len(self.names)}"
        )
        self.storage.put(path, b"ARROW1")
        self.storage._files[path].mtime_ns = int(self.now - behind) * SECOND
        self.names[path] = (self.clock(), behind)

    def clock(self):
        return int(self.now * SECOND)


class DyingStorage:
    """A storage in which a process dies around a write, now and then."""

    def __init__(self, world, chance, rnd):
        self._storage, self._world, self._chance, self._random = world.storage, world, chance, rnd

    def __getattr__(self, name):
        return getattr(self._storage, name)

    def inside(self, directory):
        return self

    def status(self, path, **options):
        """Return a state with the time at which a file appeared, as on a disk."""
        status = self._storage.status(path, **options)
        appeared, _ = self._world.names.get(path, (0, 0))
        return status and status._replace(ctime_ns=appeared)

    def put_if_absent(self, path, data, **options):
        self._die()
        written = self._storage.put_if_absent(path, data, **options)
        self._die()
        return written

    def put(self, path, data, **options):
        self._die()
        self._storage.put(path, data, **options)
        self._die()

    def delete_all(self, paths):
        for path in paths:
            self._die()
            self._storage.delete(path)

    def _die(self):
        if self._random.random() < self._chance:
            raise Died


def window(world, storage):
    source = SourceFiles(storage, (SOURCE,), recursive=True)
    waiting = WaitingFiles(source, Admission(storage), seconds=lambda: world.now)
    return WindowMode(waiting, WindowOptions(late_seconds=LATE_SECONDS), clock=world.clock)


def log(world, storage):
    source = SourceFiles(storage, (SOURCE,), recursive=True)
    waiting = WaitingFiles(source, Admission(storage), seconds=lambda: world.now)
    return LogMode(waiting, SourceLog(storage, "memory:/log", (SOURCE,)), LogOptions())


MODES = {"window": window, "log": log}


def trial(make, seed, late_share):
    """Run one query to its end; return the files that were lost, doubled, and late as the mode says, and the largest offset."""
    rnd = random.Random(seed)
    world = World(rnd, late_share)
    storage = DyingStorage(world, 0.03, rnd)
    offsets, commits, sink, largest = [], -1, {}, 0
    mode = None
    for step in range(STEPS):
        for _ in range(rnd.choice([0, 0, 1, 2, 5]) if step < ARRIVING else 0):
            world.arrive()
        try:
            mode = mode or make(world, storage)
            number = commits + 1
            start = offsets[number - 1] if number else mode.initial()
            if number == len(offsets):
                limit = ALL_AVAILABLE if rnd.random() < 0.1 else Limit(max_files=4)
                end = json.loads(json.dumps(mode.latest(start, limit)))
                if json.dumps(end) == json.dumps(start):
                    continue
                largest = max(largest, len(json.dumps(end)))
                if rnd.random() < 0.05:
                    raise Died  # before Spark has written the offset down
                offsets.append(end)
            end = offsets[number]
            if rnd.random() < 0.05:
                raise Died
            files = [file.path for file in mode.batch(start, end).files]
            for _ in range(rnd.choice([0, 0, 2])):
                world.arrive()
            assert files == sink.setdefault(number, files), "a batch that was run again has other files"
            if rnd.random() < 0.05:
                raise Died  # the sink has committed it, and Spark does not know
            commits = number
            mode.committed(end)
        except Died:
            mode = None
    read = [path for files in sink.values() for path in files]
    return {
        "files": len(world.names),
        "lost": (lost := set(world.names) - set(read)),
        "not late": [path for path in lost if world.names[path][1] < LATE_SECONDS - 1],
        "doubled": len(read) - len(set(read)),
        "largest offset": largest,
    }


class Named(logging.Handler):
    """Collects the names in the warnings of late files."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def emit(self, record):
        self.names |= set(record.args[-1].split(", "))


def run(mode, trials, late_share, *, first=0):
    """Run trials; return the sums, and how many trials were wrong."""
    sums = {"mode": mode, "late share": late_share, "trials": trials, "files": 0, "lost": 0, "doubled": 0}
    sums |= {"named": 0, "wrong trials": 0, "largest offset": 0}
    log = logging.getLogger(waiting_files.__name__)
    for seed in range(first, first + trials):
        handler = Named()
        log.addHandler(handler)
        log.propagate = False
        try:
            found = trial(MODES[mode], seed, late_share)
        finally:
            log.removeHandler(handler)
            log.propagate = True
        sums["files"] += found["files"]
        sums["lost"] += len(found["lost"])
        sums["doubled"] += found["doubled"]
        sums["named"] += len(handler.names)
        sums["largest offset"] = max(sums["largest offset"], found["largest offset"])
        sums["wrong trials"] += bool(
            found["not late"] or (mode == "log" and found["lost"]) or found["doubled"] or handler.names != found["lost"]
        )
    return sums


def main(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--mode", nargs="*", choices=MODES, default=list(MODES))
    parser.add_argument("--late", nargs="*", type=float, default=[0.0, 0.1])
    given = parser.parse_args(arguments)
    wrong = 0
    for mode in given.mode:
        for late_share in given.late:
            sums = run(mode, given.trials, late_share)
            wrong += sums["wrong trials"]
            print(json.dumps(sums), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
