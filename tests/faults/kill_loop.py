"""Kill -9 at every edge of a job, and anywhere: what readers see is old or new, and vacuum loses nothing.

    python tests/faults/kill_loop.py --steps --repeat 20              every edge x every mode, 20 times, on a disk
    python tests/faults/kill_loop.py --random 300                     300 jobs, each killed at a random moment
    python tests/faults/kill_loop.py --copies --steps --random 300    the same, where a storage publishes by copies
    python tests/faults/kill_loop.py --server seaweedfs --steps       in a real object store (`object_stores.SERVERS`)
    python tests/faults/kill_loop.py --server seaweedfs --races 20    20 runs of 4 writers with 13 jobs each, some killed

Each job runs in a process of its own, which is killed by a failpoint, or by us. The steps begin with a new table each; the
random jobs follow each other in one, over whatever the killed ones left. After each kill:

- a reader sees what was there before or what the job makes, all of it, and by the edge it is clear which of them;
- vacuum changes nothing that a reader sees, also if it is killed, and a second one changes nothing at all;
- after a vacuum pyarrow, which lists the directory, sees the same rows, and nothing else is left;
- another job can write.

In a race the reader of this process looks all the while, and each job's rows must be there all or not at all; in the end the
files are those of the log.

Prints a line of JSON and exits with 0, or raises with what was seen.
"""

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("", "tests", "tests/oracles", "tests/builders", "tests/fakes", "tests/programs")]  # fmt: skip

from copying_storage import CopyingStorage
from object_stores import SERVERS
from table_jobs import (
    APPEND,
    DYNAMIC,
    MODES,
    OVERWRITE,
    RESTORE,
    REWRITE,
    History,
    Job,
    after,
    drop,
    foreign,
    forked,
    is_killed,
    left,
    number_of,
    see,
    write,
)

from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.storage import failpoint
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.open import storage_of
from spark_arrow_ipc.table import collect
from spark_arrow_ipc.table.names import TableDirectory
from spark_arrow_ipc.table.vacuum import vacuum

BY_MODE = {mode.value: mode for mode in MODES}
ROWS = 30
PARTITIONS = ("k=1", "k=2", "k=3")
WRITTEN = ("k=2", "k=4", "k=2")
"""Partitions of a job's tasks: two into one that exists, one into a new one."""

LOOPS = ("T2.batch", "T2.proven", *failpoint.LOCAL_POINTS, "named.file", "collected.removed", "collected.files")
"""Points that most jobs pass several times."""

COMMITTED = ("committed.put", "collected.")
"""Edges that a job passes which is committed."""

OF_ENDING = ("aborted.expired", "collected.files", "collected.mark")
"""Edges of a process that aborts a job, or clears it."""

WRITERS, JOBS = 4, 13

collect._BATCH = 1  # a failpoint for each removed file


def files_of(first, partitions=WRITTEN):
    return [(partition, list(range(first + i, first + ROWS, 3))) for i, partition in enumerate(partitions)]


# ---- processes


def act(directory, do, **options):
    """Do in a child what was asked for."""
    if do == "vacuum":
        vacuum(directory, older_than=-1e10)
    elif do == "abort":
        job = Job(directory, BY_MODE[options["mode"]], options["files"])
        job.abort()
    elif do == "race":
        race(directory, **options)
    else:
        write(directory, BY_MODE[options.pop("mode")], options.pop("files"), **options)


class Disk:
    """Tables on a disk, or in a directory that behaves as a store; children are forks."""

    filesystem = None

    def __init__(self, folder, storage):
        self.folder, self.storage = folder, storage

    def table(self):
        return TableDirectory(self.storage, tempfile.mkdtemp(dir=self.folder) + "/t")

    def child(self, directory, spec, do, **options):
        """Run a child until its end, and return whether it was killed."""
        return is_killed(forked(lambda: act(directory, do, **options), spec))

    def remove(self, directory):
        shutil.rmtree(Path(directory.root).parent)


class Server:
    """Tables in an object store; children are processes of their own, as threads of its library do not survive a fork."""

    def __init__(self, store):
        from pyarrow.fs import S3FileSystem

        self.store = store
        names = {
            "access_key_id": "AWS_ACCESS_KEY_ID",
            "secret_access_key": "AWS_SECRET_ACCESS_KEY",
            "region": "AWS_REGION",
        }
        os.environ.update({names[name]: value for name, value in store.options.items() if name in names})
        os.environ.update(AWS_ENDPOINT_URL=store.options["endpoint"], AWS_ALLOW_HTTP="true")
        self.filesystem = S3FileSystem(
            access_key=store.options["access_key_id"],
            secret_key=store.options["secret_access_key"],
            endpoint_override=store.options["endpoint"].partition("://")[2],
            scheme="http",
            region=store.options.get("region", "us-east-1"),
        )

    def table(self):
        return TableDirectory(*storage_of(self.store.directory()))

    def start(self, directory, spec, do, **options):
        environment = os.environ | ({} if spec is None else {failpoint.VARIABLE: spec})
        command = [sys.executable, __file__, "--child", json.dumps([directory.root, do, options])]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)

    def child(self, directory, spec, do, **options):
        code = (process := self.start(directory, spec, do, **options)).wait()
        process.stdout.close()
        assert code in (0, -signal.SIGKILL), f"a child ended with the status {code}"
        return code != 0

    def remove(self, directory):
        """A bucket ends with its server."""


# ---- what must hold


def check(truth, words, directory):
    if not truth:
        raise AssertionError(f"{words}, in {directory.root}")


def check_nothing_left(directory):
    # No copy of a store dies half-way: what one of `CopyingStorage` leaves then is none of a table.
    names = [path for path in left(directory) if not re.search(r"/\.[0-9a-f]{32}\.staged$", path)]
    check([] == names, f"vacuum left {names}", directory)


def check_rest(place, directory, view, rng):
    """Clear the table by a vacuum that may be killed, then for good; readers of both kinds see the same rows."""
    if rng.random() < 0.5:
        spec = f"{rng.choice([point for point in failpoint.POINTS if point[:3] in ('com', 'col', 'abo')])}:kill"
        place.child(directory, spec, "vacuum")
        check(view == see(directory), f"a vacuum that was killed at {spec} changed what a reader sees", directory)
    vacuum(directory, older_than=-1e10)
    check(view == see(directory), "vacuum changed what a reader sees", directory)
    listed = foreign(directory, place.filesystem)
    check(view == listed, f"after a vacuum pyarrow lists {listed}, and not {view}", directory)
    check_nothing_left(directory)
    number = number_of(directory)
    report = vacuum(directory, older_than=-1e10)
    check(number == number_of(directory) and not report.swept, f"a second vacuum did something: {report}", directory)


def run_step(place, directory, spec, point, mode, who, rng):
    """Kill one process at one edge of a new table; return whether it got there."""
    write(directory, APPEND, files_of(0, PARTITIONS), retention=3600)
    first = see(directory)
    if mode is RESTORE:
        write(directory, OVERWRITE, files_of(ROWS, PARTITIONS))
    else:
        write(directory, APPEND, files_of(ROWS, PARTITIONS))
        write(directory, APPEND, (), retention=rng.choice([0, 3600]))
    for path, ids in (("k=1/other.arrow", [900, 901]), ("k=4/other.arrow", [902])):
        first.setdefault(path[:3], []).extend(drop(directory, path, ids))
    old, files, jobs = see(directory), files_of(1000), len(History(directory).jobs)
    new = after(old, mode, files, restored=first)
    job = {"mode": mode.value, "files": files}
    if who == "abort":
        reached = place.child(directory, spec, "abort", **job)
    elif who == "vacuum":
        before = "named.all" if rng.random() < 0.5 or point == "aborted.expired" else "committed.put"
        check(place.child(directory, f"{before}:kill", "write", **job), "the job was not killed", directory)
        reached = place.child(directory, spec, "vacuum")
    else:
        reached = place.child(directory, spec, "write", **job)
    committed = len(History(directory).jobs) - jobs
    expected = new if committed else old
    check(expected == see(directory), f"expected {expected}, found {see(directory)}", directory)
    if who == "write":
        due = point.startswith(COMMITTED) or not reached
        # An id or an entry is put at a point of the local storage: the log says what it was.
        is_sure = point not in failpoint.LOCAL_POINTS
        check(not is_sure or bool(committed) is due, f"{committed} jobs were committed", directory)
    check_rest(place, directory, expected, rng)
    check(("committed", None) == write(directory, OVERWRITE, files), "the next overwrite", directory)
    check(after({}, OVERWRITE, files) == see(directory), "the next overwrite", directory)
    return reached


def steps(place, repeat, rng):
    count = Counter()
    cases = [("write", point) for point in failpoint.POINTS if point != "aborted.expired"]
    cases += [(who, point) for who in ("abort", "vacuum") for point in OF_ENDING]
    for _ in range(repeat):
        for who, point in cases:
            for mode in MODES if who == "write" else (OVERWRITE, REWRITE):
                directory = place.table()
                spec = f"{point}:kill@{rng.choice([1, 2]) if point in LOOPS else 1}"
                try:
                    reached = run_step(place, directory, spec, point, mode, who, rng)
                except BaseException:
                    print(f"{who} {spec} {mode.value} in {directory.root}", file=sys.stderr)
                    raise
                count["kills" if reached else f"not reached: {who} {mode.value} {spec}"] += 1
                place.remove(directory)
    return count


def randomly(place, jobs, rng):
    """Kill jobs that follow each other in one table, each at a random moment, half of them after their tasks."""
    directory, count = place.table(), Counter()
    write(directory, APPEND, files_of(0, PARTITIONS), retention=3600)
    view = first = see(directory)
    durations = measured(place)
    for number in range(1, jobs + 1):
        mode = rng.choice(MODES)
        files = files_of(number * 1000)
        # What is restored: the rows of entry 1, and files of other programs, of which there are none.
        new = after(view, mode, files, restored=first)
        is_late = rng.random() < 0.5 and mode is not RESTORE
        start, end = os.pipe()
        pid = forked(lambda mode=mode, files=files, end=end: write(
            directory, mode, files, on_staged=lambda: os.write(end, b"x")
        ))  # fmt: skip
        os.close(end)
        if is_late:
            os.read(start, 1)
        time.sleep(rng.uniform(0, 1.2 * durations[is_late]))
        os.kill(pid, signal.SIGKILL)
        count["killed" if is_killed(pid) else "survived"] += 1
        os.close(start)
        seen = see(directory)
        check(seen in (view, new), f"job {number} ({mode.value}): neither old nor new: {seen}", directory)
        count["new" if seen == new else "old"] += 1
        view = seen
        if rng.random() < 0.3:
            check_rest(place, directory, view, rng)
            count["vacuums"] += 1
    check_rest(place, directory, view, rng)
    History(directory)
    place.remove(directory)
    return count


def measured(place):
    """Return the seconds that a job takes, and its commit."""
    directory, moments = place.table(), []
    for number in range(5):
        moments.append(time.perf_counter())
        write(
            directory, (APPEND, DYNAMIC)[number % 2], files_of(0), on_staged=lambda: moments.append(time.perf_counter())
        )
        moments.append(time.perf_counter())
    place.remove(directory)
    commits = [end - staged for staged, end in zip(moments[1::3], moments[2::3], strict=True)]
    jobs = [end - begun for begun, end in zip(moments[::3], moments[2::3], strict=True)]
    return sorted(jobs)[2], sorted(commits)[2]


# ---- races


def race(directory, number, seed):
    """Write jobs of 3 files, one row each, whose rows are the job's number; some are overwrites. Says which are committed."""
    rng = random.Random(f"{seed} {number}")
    for i in range(JOBS):
        mode, row = OVERWRITE if rng.random() < 0.15 else APPEND, number * 1000 + i
        outcome, _ = write(directory, mode, [(partition, [row]) for partition in PARTITIONS])
        print(row if outcome == "committed" else f"{outcome} {row}", flush=True)


def races(place, runs, seed, rng):
    count = Counter()
    for run in range(runs):
        directory = place.table()
        write(directory, APPEND, [(partition, [999_999]) for partition in PARTITIONS])
        writers = [place.start(directory, None, "race", number=n, seed=f"{seed} {run}") for n in range(WRITERS)]
        while any(writer.poll() is None for writer in writers):
            look(directory, count)
            if rng.random() < 0.02:
                rng.choice(writers).kill()
        told = [line for writer in writers for line in writer.stdout.read().splitlines()]
        for writer in writers:
            writer.stdout.close()
        vacuum(directory, older_than=-1e10)
        history, seen = History(directory), see(directory)
        committed = [line for line in told if line.isdecimal()]
        count.update("committed" if line.isdecimal() else line.partition(" ")[0] for line in told)
        # The first job; and some that were committed by a process which died before it could say so.
        more = len(history.jobs) - 1 - len(committed)
        check(0 <= more <= WRITERS + count["unknown"], f"{len(committed)} jobs are told, {history.jobs}", directory)
        check(sum(map(len, seen.values())) == sum(history.states[-1].values()), "rows are lost or doubled", directory)
        check(seen == foreign(directory, place.filesystem), "pyarrow lists other rows than the snapshot's", directory)
        check_nothing_left(directory)
        look(directory, count)
        count["runs"] += 1
        count["entries"] += len(history.entries)
    return count


def look(directory, count):
    """Check that each job's rows are there all or not at all."""
    try:
        rows = Counter(row for ids in see(directory).values() for row in ids)
    except (FileNotFoundError, ArrowIpcError) as error:  # a file that was listed is removed before it is read
        count[f"look: {type(error).__name__}"] += 1
        return
    check({} == {row: n for row, n in rows.items() if n != 3}, f"mixed views: {rows}", directory)
    count["looks"] += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", action="store_true", help="kill at every edge in every mode")
    parser.add_argument("--repeat", type=int, default=1, help="so often (default 1)")
    parser.add_argument("--random", type=int, default=0, metavar="JOBS", help="kill so many jobs at random moments")
    parser.add_argument("--races", type=int, default=0, metavar="RUNS", help="let writers race so often, on a server")
    parser.add_argument("--copies", action="store_true", help="over a storage that publishes by copies")
    parser.add_argument("--server", choices=[name for name in SERVERS if name not in ("memory", "azurite")])
    parser.add_argument("--seed", type=int, default=None, help="of what is random")
    parser.add_argument("--folder", default=None, help="where tables are made (default: a temporary directory)")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        root, do, options = json.loads(arguments.child)
        act(TableDirectory(*storage_of(root)), do, **options)
        return
    if (arguments.server is None and arguments.races) or (arguments.server and arguments.random):
        parser.error("races are on a server, and random moments on a disk")
    seed = random.randrange(1 << 32) if arguments.seed is None else arguments.seed
    rng, begun, told = random.Random(seed), time.perf_counter(), {"seed": seed}
    with ExitStack() as stack:
        if arguments.server:
            place = Server(stack.enter_context(SERVERS[arguments.server]()))
        else:
            folder = tempfile.mkdtemp(dir=arguments.folder)
            print(f"seed {seed} in {folder}", file=sys.stderr)
            place = Disk(folder, CopyingStorage() if arguments.copies else LOCAL)
        if arguments.steps:
            told["steps"] = steps(place, arguments.repeat, rng)
        if arguments.random:
            told["random"] = randomly(place, arguments.random, rng)
        if arguments.races:
            told["races"] = races(place, arguments.races, seed, rng)
    with suppress(NameError):
        shutil.rmtree(folder)
    print(json.dumps({**told, "seconds": round(time.perf_counter() - begun, 1)}))


if __name__ == "__main__":
    main()
