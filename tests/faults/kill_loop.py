"""Kill -9 at every step of a write, and anywhere: what readers see is old or new, and recovery loses nothing.

    python tests/faults/kill_loop.py --steps --repeat 20     every failpoint x every mode, 20 times
    python tests/faults/kill_loop.py --random 300            300 jobs, each killed at a random moment
    python tests/faults/kill_loop.py --copies --steps ...    the same, where a storage publishes by copies

Each job runs in a forked child, which is killed by a failpoint, or by us. The steps begin with a new dataset each;
the random jobs follow each other in one, over whatever the killed ones left. After each kill:

- a reader sees what was there before or what the job makes, whole, and by the step it is clear which of them;
- recovery changes nothing that a reader sees, also if it is killed, and a second recovery changes nothing at all;
- vacuum leaves the data, _SUCCESS and the newest records.

With --copies a server of this process makes the copies, which end even if the process that asked for them is dead.

Prints a line of JSON and exits with 0, or raises with what was seen.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("", "tests", "tests/oracles", "tests/builders", "tests/fakes", "tests/programs")]  # fmt: skip

from copy_server import CopyServer, served

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import RecordBatch, Schema, types
from spark_arrow_ipc.arrow.types import field
from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory, StagedFile
from spark_arrow_ipc.dataset.commit_log.log import KEPT_RECORDS, newest_record, read_pending
from spark_arrow_ipc.dataset.commit_log.record import TAKEN_BACK
from spark_arrow_ipc.dataset.commit_log.stored_record import read_kept
from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.dataset.write import WriteMode
from spark_arrow_ipc.dataset.write.commit import abort, commit
from spark_arrow_ipc.dataset.write.existing_files import live_files
from spark_arrow_ipc.dataset.write.fsck import fsck
from spark_arrow_ipc.dataset.write.job_plan import CommitIntent, plan_job
from spark_arrow_ipc.dataset.write.staged_file import SinkOptions
from spark_arrow_ipc.dataset.write.task import TaskOutput, write_task
from spark_arrow_ipc.dataset.write.vacuum import give_up, vacuum
from spark_arrow_ipc.storage import failpoint
from spark_arrow_ipc.storage.local import LOCAL

SCHEMA = Schema.of([field("id", types.int64)])
OPTIONS = SinkOptions(record_batch_rows=10)
ROWS = 30
PARTITIONS = ("k=1", "k=2", "k=3")
RETENTION = 3600
"""Seconds for which records are kept."""

WRITTEN = ("k=2", "k=4", "k=2")
"""A dynamic overwrite's tasks: two into a partition that exists, one into a new one."""

STORAGE = LOCAL
"""The storage of all datasets."""

LOOPS = {"T2.batch": 2, "C3.torn": 1, "C4.renamed": 2, "C5.unlinked": 2}
"""Points inside loops are passed a few times first."""


# A job and what a reader sees


def write(root, mode, rows, *, partitioned, commits=True, staged=lambda: None):
    """Run a whole job of three tasks in this process; `staged` is called when they are done."""
    plan = plan_job(root, CommitIntent(mode, commit_retention=RETENTION))
    outputs = []
    for i, directory in enumerate(WRITTEN):
        batch = RecordBatch.from_pydict({"id": rows[i::3]}, SCHEMA)
        output = write_task(plan.staging, [batch], SCHEMA, partition_id=i, options=OPTIONS)
        if partitioned:
            output = TaskOutput(output.jobid, tuple(moved(file, directory) for file in output.files))
        outputs.append(output)
    staged()
    if commits:
        commit(plan, outputs, write_empty=None)
    else:
        abort(plan.staging)


def moved(file, directory):
    return StagedFile(file.staged, f"{directory}/{file.final}", file.nbytes, file.rows, file.crc32)


def see(root):
    """Return each partition's ids, as a reader of the dataset sees them, sorted; a row that is doubled is there twice."""
    found = {}
    for file in list_tree([root]).all_files():
        with ipc.open(file.path if Path(file.path).exists() else file.staged) as reader:
            ids = [row["id"] for batch in reader for row in batch.to_pylist()]
        found.setdefault(directory_of(Path(file.path).relative_to(root)), []).extend(ids)
    return {directory: sorted(ids) for directory, ids in found.items()}


def directory_of(relative):
    return "" if str(Path(relative).parent) == "." else str(Path(relative).parent)


def after(view, mode, rows, *, partitioned):
    """Return what a reader shall see after the job."""
    new = {}
    for i, directory in enumerate(WRITTEN):
        new.setdefault(directory if partitioned else "", []).extend(rows[i::3])
    if mode in (WriteMode.OVERWRITE, WriteMode.REWRITE):  # the loop rewrites all files, by other rows
        view = {}
    elif mode is WriteMode.DYNAMIC:
        view = {directory: ids for directory, ids in view.items() if directory not in new}
    return {directory: sorted([*view.get(directory, []), *new.get(directory, [])]) for directory in {*view, *new}}


def tree(root):
    """Return everything below a directory, with what a needless change would change."""
    return {
        str(path.relative_to(root)): (path.stat().st_ino, path.stat().st_mtime_ns if path.is_file() else 0)
        for path in Path(root).rglob("*")
    }


# Children


def forked(function, spec=None):
    """Run a function in a child with a failpoint armed, and return its process id."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        if spec is not None:
            failpoint.hit = failpoint.Failpoint.parse(spec).hit
        function()
        status = 0
    except BaseException:  # noqa: BLE001  # the child must end here, whatever it is
        traceback.print_exc()
    finally:
        os._exit(status)


def ended(pid):
    """Return whether the child was killed; anything but that and success is a failure of the test."""
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return True
    assert status == 0, f"the child ended with the status {status}"
    return False


# What must hold


def check_recovery(root, view, rng=None):
    """Recover in a child, which may be killed, too, then for good; nothing that a reader sees may change."""
    if rng is not None and rng.random() < 0.5:
        point = rng.choice([point for point in points() if point[:2] in ("H.", "C4", "C5", "C6")])
        ended(forked(lambda: vacuum(root, older_than_seconds=0), f"{point}:kill"))
        check(view == see(root), "a recovery that was killed changed what a reader sees", root)
    vacuum(root, older_than_seconds=0)
    check(view == see(root), "recovery changed what a reader sees", root)
    first = tree(root)
    again = vacuum(root, older_than_seconds=0)
    check(first == tree(root), "a second recovery changed something", root)
    check(
        (None, (), (), 0, ()) == (again.finished, again.withdrawn, again.files, again.nbytes, again.kept), again, root
    )
    check_kept(root)
    visible = ("_SUCCESS", "_ipc_commits", "_ipc_commits/log")
    left = [name for name in first if not name.startswith(("part-", "k=", "_ipc_commits/log/")) and name not in visible]
    records = [name for name in left if name.startswith("_ipc_commits/")]
    check(left == records and len(records) <= 2 * KEPT_RECORDS, f"vacuum left {left}", root)
    empty = [path.name for path in Path(root).glob("k=*") if not any(path.iterdir())]
    check(not empty, f"empty directories {empty}", root)
    listed = {directory_of(file.path) for file in live_files(DatasetDirectory(STORAGE, root))}
    check(listed == view.keys(), "after recovery the plain listing is the truth", root)
    report = fsck(str(root), STORAGE)
    check((True, ()) == (report.is_whole, report.findings), f"after recovery fsck finds {report}", root)


def check_kept(root):
    """The record of every job is kept, without a gap, but of one that was taken back before it was done."""
    dataset = DatasetDirectory(STORAGE, str(root))
    head = newest_record(dataset)[0].seq
    kept = [read_kept(dataset, seq) for seq in range(1, head + 1)]
    modes = ["none" if record is None else record.mode for record in kept]
    gaps = [seq for seq, mode in enumerate(modes, 1) if mode == "none" and [TAKEN_BACK] != modes[seq : seq + 1]]
    check(not gaps, f"of {head} records {gaps} are not kept", root)


def check(truth, words, root):
    if not truth:
        raise AssertionError(f"{words}\n" + "\n".join(sorted(tree(root))))


def points():
    """Return the failpoints that a job passes, or a process that helps it."""
    return [point for point in failpoint.POINTS if STORAGE is not LOCAL or point not in failpoint.OF_COPIES]


def step_specs():
    for point in points():
        yield f"{point}:kill@{LOOPS.get(point, 1)}", point


COMMITTED = ("C3.linked", "C3.synced", "C4.", "C5.", "C6.", "H.")

OF_HELPERS = ("H.announced", "C4.waited")
"""Points that only a process passes which helps a job of another one."""


def run_step(root, spec, point, mode, rng):
    """Kill one job at one step of a new dataset."""
    partitioned = mode is WriteMode.DYNAMIC
    old = {}
    for number in range(2):
        rows = list(range(number * ROWS, number * ROWS + ROWS))
        if partitioned:
            seed(root, rows)
            old = {directory: sorted([*old.get(directory, []), *rows[i::3]]) for i, directory in enumerate(PARTITIONS)}
        else:
            write(root, WriteMode.APPEND, rows, partitioned=False)
            old = after(old, WriteMode.APPEND, rows, partitioned=False)
    check(old == see(root), "the old data", root)
    rows = list(range(1000, 1000 + ROWS))
    new = after(old, mode, rows, partitioned=partitioned)
    withdrawn, given_up = point.startswith("A."), point.startswith("G.")
    first = "C4.renamed:kill" if given_up or point in OF_HELPERS else spec
    killed = ended(forked(lambda: write(root, mode, rows, partitioned=partitioned, commits=not withdrawn), first))
    if point in OF_HELPERS:
        killed = ended(forked(lambda: vacuum(root), spec))
    if given_up:
        jobid = read_pending(DatasetDirectory(STORAGE, root)).record.jobid
        killed = ended(forked(lambda: give_up(root, jobid), spec))
        check(see(root) == (new if point == "G.claimed" else old), "a job that is being given up", root)
        if point == "G.claimed" or rng.random() < 0.5:
            give_up(root, jobid)
    reached = not (point.startswith("C5.") and mode is WriteMode.APPEND)
    check(killed == reached, f"killed: {killed}", root)
    expected = new if point.startswith(COMMITTED) or not reached else old
    check(see(root) == expected, f"expected the {'new' if expected is new else 'old'} data, found {see(root)}", root)
    check_recovery(root, expected, rng)
    # The next job goes on: an overwrite after a pending append brings none of its rows back.
    rows = list(range(2000, 2000 + ROWS))
    write(root, WriteMode.OVERWRITE, rows, partitioned=partitioned)
    check(see(root) == after({}, WriteMode.OVERWRITE, rows, partitioned=partitioned), "the next overwrite", root)
    return killed


def seed(root, rows):
    """Append to the three partitions."""
    plan = plan_job(root, CommitIntent(WriteMode.APPEND, commit_retention=RETENTION))
    outputs = []
    for i, directory in enumerate(PARTITIONS):
        batch = RecordBatch.from_pydict({"id": rows[i::3]}, SCHEMA)
        output = write_task(plan.staging, [batch], SCHEMA, partition_id=i, options=OPTIONS)
        outputs.append(TaskOutput(output.jobid, tuple(moved(file, directory) for file in output.files)))
    commit(plan, outputs, write_empty=None)


def steps(folder, repeat, rng):
    count = Counter()
    for _ in range(repeat):
        for spec, point in step_specs():
            for mode in WriteMode:
                root = tempfile.mkdtemp(dir=folder)
                try:
                    count["kills" if run_step(root, spec, point, mode, rng) else "not reached"] += 1
                except BaseException:
                    print(f"{spec} {mode.value} in {root}", file=sys.stderr)
                    raise
                shutil.rmtree(root)
    return count


def randomly(folder, jobs, rng):
    """Kill jobs that follow each other in one dataset, each at a random moment, of half of them one of the commit."""
    root = tempfile.mkdtemp(dir=folder)
    count = Counter()
    view = {}
    seed(root, list(range(ROWS)))
    view = see(root)
    durations = measured(folder)
    for number in range(1, jobs + 1):
        mode = rng.choice(list(WriteMode))
        rows = list(range(number * 1000, number * 1000 + ROWS))
        new = after(view, mode, rows, partitioned=True)
        late = rng.random() < 0.5
        start, end = os.pipe()
        pid = forked(lambda mode=mode, rows=rows, end=end: write(
            root, mode, rows, partitioned=True, staged=lambda: os.write(end, b"x")
        ))  # fmt: skip
        os.close(end)
        if late:
            os.read(start, 1)
        time.sleep(rng.uniform(0, 1.2 * durations[late]))
        os.kill(pid, signal.SIGKILL)
        count["killed" if ended(pid) else "survived"] += 1
        os.close(start)
        found = see(root)
        check(found in (view, new), f"job {number} ({mode.value}): neither old nor new: {found}", root)
        count["new" if found == new else "old"] += 1
        view = found
        if rng.random() < 0.3:
            check_recovery(root, view, rng)
            count["recovered"] += 1
        if sum(map(len, view.values())) > 20 * ROWS:
            write(root, WriteMode.OVERWRITE, rows, partitioned=True)
            view = after({}, WriteMode.OVERWRITE, rows, partitioned=True)
    check_recovery(root, view)
    shutil.rmtree(root)
    return count


def measured(folder):
    """Return the seconds that a job takes, and its commit."""
    root = tempfile.mkdtemp(dir=folder)
    moments = []
    for number in range(5):
        moments.append(time.perf_counter())
        rows = list(range(ROWS))
        note = lambda: moments.append(time.perf_counter())  # noqa: E731
        write(root, WriteMode(("append", "dynamic")[number % 2]), rows, partitioned=True, staged=note)
        moments.append(time.perf_counter())
    shutil.rmtree(root)
    commits = [end - staged for staged, end in zip(moments[1::3], moments[2::3], strict=True)]
    jobs = [end - begun for begun, end in zip(moments[::3], moments[2::3], strict=True)]
    return sorted(jobs)[2], sorted(commits)[2]


def main():
    global STORAGE  # noqa: PLW0603 - the storage of this run
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", action="store_true", help="kill at every step in every mode")
    parser.add_argument("--repeat", type=int, default=1, help="so often (default 1)")
    parser.add_argument("--random", type=int, default=0, metavar="JOBS", help="kill so many jobs at random moments")
    parser.add_argument("--copies", action="store_true", help="over a storage that publishes by copies")
    parser.add_argument("--seed", type=int, default=None, help="of the random moments")
    parser.add_argument("--folder", default=None, help="where the datasets are made (default: a temporary directory)")
    arguments = parser.parse_args()
    seed_ = random.randrange(1 << 32) if arguments.seed is None else arguments.seed
    rng = random.Random(seed_)
    begun = time.perf_counter()
    told = {"seed": seed_}
    folder = tempfile.mkdtemp(dir=arguments.folder)
    print(f"seed {seed_} in {folder}", file=sys.stderr)
    with ExitStack() as stack:
        if arguments.copies:
            STORAGE = stack.enter_context(
                served(stack.enter_context(CopyServer(seconds=0.01, lost=0, seed=seed_)), patience=0.02)
            )
        if arguments.steps:
            told["steps"] = steps(folder, arguments.repeat, rng)
        if arguments.random:
            told["random"] = randomly(folder, arguments.random, rng)
    shutil.rmtree(folder)
    print(json.dumps({**told, "seconds": round(time.perf_counter() - begun, 1)}))


if __name__ == "__main__":
    main()
