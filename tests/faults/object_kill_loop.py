"""Kill -9 at every step of a write into a real object store, and writers that race while a reader looks.

    python tests/faults/object_kill_loop.py --steps              every failpoint x every mode, on SeaweedFS
    python tests/faults/object_kill_loop.py --races 20           20 runs of 4 writers with 13 jobs each
    python tests/faults/object_kill_loop.py --server moto ...    on another server of `object_stores.SERVERS`

Every job runs in a process of its own, which a failpoint kills. After each kill a reader sees what was there before or
what the job makes, whole, by the step; then vacuum recovers, which changes nothing that a reader sees and leaves no
staged file, and another job writes. In a race the reader of this process looks all the while, and each job's rows must
be there all or not at all; at the end the listing must be what the records say, one after the other.

Prints a line of JSON and exits with 0, or raises with what was seen.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("", "tests", "tests/oracles", "tests/builders", "tests/fakes", "tests/programs")]  # fmt: skip

import kill_loop
from job_plans import plan_job
from kill_loop import COMMITTED, OF_HELPERS, OPTIONS, ROWS, SCHEMA, after
from object_stores import SERVERS

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import RecordBatch
from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory
from spark_arrow_ipc.dataset.commit_log.log import read_head, read_pending
from spark_arrow_ipc.dataset.commit_log.stored_record import read_record
from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.dataset.write import WriteMode
from spark_arrow_ipc.dataset.write.commit import commit
from spark_arrow_ipc.dataset.write.publisher import TIMING
from spark_arrow_ipc.dataset.write.task import write_task
from spark_arrow_ipc.dataset.write.vacuum import give_up, vacuum
from spark_arrow_ipc.errors import CommitError
from spark_arrow_ipc.storage import failpoint
from spark_arrow_ipc.storage.open import storage_of
from spark_arrow_ipc.storage.paths import parent, relative

LOCAL_POINTS = ("C3.torn", "C3.written", "C3.linked")
"""Points inside the local storage alone: here a record is one request."""

TIMING.patience_seconds, TIMING.grace_seconds, TIMING.poll_seconds = 0.5, 0.5, 0.05
"""Short, as the processes of a test are dead when we say so."""

WRITERS, JOBS = 4, 13


# What a reader sees


def see(root):
    """Return each partition's ids, sorted; a row that is doubled is there twice."""
    storage, _ = storage_of(root)
    found = {}
    for file in list_tree([root], storage=storage).all_files():
        with ipc.open(file.open(storage)) as reader:
            ids = [row["id"] for batch in reader for row in batch.to_pylist()]
        found.setdefault(relative(parent(file.path), root), []).extend(ids)
    return {directory: sorted(ids) for directory, ids in found.items()}


def staged(root):
    """Return the staged files; SeaweedFS lists a directory for a while after its last file is deleted."""
    storage, _ = storage_of(root)
    jobs = [status.path for status in storage.list(f"{root}/_ipc_stage")]
    return [file.path for job in jobs for file in storage.list(job)]


def check(truth, words):
    if not truth:
        raise AssertionError(words)


# Kills


def child(action, *arguments, spec=None):
    """Run an action in a new process, with a failpoint armed; return whether it was killed."""
    environment = dict(os.environ)
    if spec is not None:
        environment[failpoint.VARIABLE] = spec
    command = [sys.executable, __file__, "--child", json.dumps([action, *arguments])]
    status = subprocess.run(command, env=environment).returncode
    check(status in {0, -signal.SIGKILL}, f"a child ended with the status {status}")
    return status == -signal.SIGKILL


def act(action, root, *arguments):
    """Do in a child what was asked for."""
    if action == "write":
        mode, rows, partitioned, commits = arguments
        kill_loop.write(root, WriteMode(mode), rows, partitioned=partitioned, commits=commits)
    elif action == "vacuum":
        vacuum(root, older_than_seconds=0)
    elif action == "give up":
        give_up(root, *arguments)
    else:
        race(root, *arguments)


def steps(store):
    count = Counter()
    for point in failpoint.POINTS:
        for mode in WriteMode:
            if point not in LOCAL_POINTS:
                spec = f"{point}:kill@{kill_loop.LOOPS.get(point, 1)}"
                try:
                    count["kills" if run_step(store.directory(), spec, point, mode) else "not reached"] += 1
                except BaseException:
                    print(f"{spec} {mode.value}", file=sys.stderr)
                    raise
    return count


def run_step(root, spec, point, mode):
    """Kill one job at one step of a new dataset."""
    partitioned = mode is WriteMode.DYNAMIC
    rows = list(range(ROWS))
    kill_loop.write(root, WriteMode.APPEND, rows, partitioned=partitioned)
    old = after({}, WriteMode.APPEND, rows, partitioned=partitioned)
    check(old == see(root), "the old data")
    rows = list(range(1_000, 1_000 + ROWS))
    new = after(old, mode, rows, partitioned=partitioned)
    given_up = point.startswith("G.")
    first = "C4.renamed:kill" if given_up or point in OF_HELPERS else spec
    killed = child("write", root, mode.value, rows, partitioned, not point.startswith("A."), spec=first)
    if point in OF_HELPERS:
        killed = child("vacuum", root, spec=spec)
    if given_up:
        jobid = read_pending(dataset(root)).record.jobid
        killed = child("give up", root, jobid, spec=spec)
        give_up(root, jobid)
    # Old files are deleted by one request, after which the point is passed once.
    reached = killed or (point.startswith("C5.") and mode is WriteMode.APPEND) or "@" in spec
    check(reached, "the job ended at no step")
    expected = new if (point.startswith(COMMITTED) or not killed) and not given_up else old
    check(see(root) == expected, f"expected the {'new' if expected is new else 'old'} data, found {see(root)}")
    vacuum(root, older_than_seconds=0)
    check(see(root) == expected, "recovery changed what a reader sees")
    check([] == staged(root), f"recovery left {staged(root)}")
    again = vacuum(root, older_than_seconds=0)
    check((None, (), (), 0) == (again.finished, again.withdrawn, again.files, again.nbytes), again)
    rows = list(range(2_000, 2_000 + ROWS))
    kill_loop.write(root, WriteMode.OVERWRITE, rows, partitioned=partitioned)
    check(see(root) == after({}, WriteMode.OVERWRITE, rows, partitioned=partitioned), "the next overwrite")
    return killed


def dataset(root):
    return DatasetDirectory(*storage_of(root))


# Races


def race(root, number, seed):
    """Write jobs of 3 files, one row each, whose rows are the job's number; some are overwrites."""
    rng = random.Random(f"{seed} {number}")
    for i in range(JOBS):
        mode = WriteMode.OVERWRITE if rng.random() < 0.15 else WriteMode.APPEND
        batch = RecordBatch.from_pydict({"id": [number * 1_000 + i]}, SCHEMA)
        try:
            plan = plan_job(root, mode)
            outputs = [write_task(plan.staging, [batch], SCHEMA, partition_id=p, options=OPTIONS) for p in range(3)]
            commit(plan, outputs, write_empty=None, fits=lambda _: True)
        except CommitError as error:
            print(f"job {number * 1_000 + i}: {error}"[:150], file=sys.stderr)
        else:
            print(number * 1_000 + i, flush=True)


def races(store, runs, seed, kills):
    count = Counter()
    for run in range(runs):
        root = store.directory()
        kill_loop.write(root, WriteMode.APPEND, [999_999] * 3, partitioned=False)
        rng = random.Random(f"{seed} {run}")
        command = [sys.executable, __file__, "--child"]
        writers = [
            subprocess.Popen(
                [*command, json.dumps(["race", root, n, f"{seed} {run}"])], stdout=subprocess.PIPE, text=True
            )
            for n in range(WRITERS)
        ]
        records = {}
        while any(writer.poll() is None for writer in writers):
            look(root, records, count)
            if kills and rng.random() < 0.05:
                rng.choice(writers).kill()
        told = [int(line) for writer in writers for line in writer.stdout.read().split()]
        count["jobs told published"] += len(told)
        vacuum(root, older_than_seconds=0)
        look(root, records, count)
        newest = read_head(dataset(root)).seq
        check(sorted(records) == list(range(1, newest + 1)), f"records {sorted(records)} of {newest}")
        live, published = set(), set()
        for _, record in sorted(records.items()):
            live -= {file.path for file in record.removes}
            live |= {file.final for file in record.adds}
            published.add(record.jobid)
        listed = {relative(file.path, root) for file in list_tree([root], storage=storage_of(root)[0]).all_files()}
        check(live == listed, f"lost {live - listed}, resurrected {listed - live}")
        check(len(told) <= len(published), "a job is told published that no record has")
        count["records"] += newest
        count["runs"] += 1
    return count


def look(root, records, count):
    """Check that each job's rows are there all or not at all, and note the records that came."""
    try:
        rows = Counter(row for ids in see(root).values() for row in ids)
    except Exception as error:  # noqa: BLE001 - a file that was listed may be replaced before it is read
        count[f"look: {type(error).__name__}"] += 1
    else:
        mixed = {row: n for row, n in rows.items() if n != 3}
        check(not mixed, f"mixed views: {mixed}")
        count["looks"] += 1
    for seq in range(max(records, default=0) + 1, read_head(dataset(root)).seq + 1):
        records[seq] = read_record(dataset(root), seq)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="seaweedfs", choices=[name for name in SERVERS if name != "memory"])
    parser.add_argument("--steps", action="store_true", help="kill at every step in every mode")
    parser.add_argument("--races", type=int, default=0, metavar="RUNS", help="let writers race so often")
    parser.add_argument("--kills", action="store_true", help="kill some of the writers that race")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        act(*json.loads(arguments.child))
        return
    seed = random.randrange(1 << 32) if arguments.seed is None else arguments.seed
    begun, told = time.perf_counter(), {"seed": seed, "server": arguments.server}
    with SERVERS[arguments.server]() as store:
        names = {
            "access_key_id": "AWS_ACCESS_KEY_ID",
            "secret_access_key": "AWS_SECRET_ACCESS_KEY",
            "region": "AWS_REGION",
        }
        os.environ.update({names[name]: value for name, value in store.options.items() if name in names})
        os.environ.update(AWS_ENDPOINT_URL=store.options["endpoint"], AWS_ALLOW_HTTP="true")
        if arguments.steps:
            told["steps"] = steps(store)
        if arguments.races:
            told["races"] = races(store, arguments.races, seed, arguments.kills)
    print(json.dumps({**told, "seconds": round(time.perf_counter() - begun, 1)}))


if __name__ == "__main__":
    main()
