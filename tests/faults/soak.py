"""Four writers, two readers and a vacuum at once in one dataset, for as long as you like.

    python tests/faults/soak.py --minutes 30
    python tests/faults/soak.py --copies --kills --minutes 10

Two writers append, one overwrites partitions, one everything; the vacuum finishes what it finds, and at times withdraws
all jobs that run. Each process notes what it does, and in the end the notes are compared with the chain of records:

- a job that was reported as published is in the chain once, one that was not is not;
- each listing of a reader has exactly the files of one record that was the newest meanwhile;
- what it read then has each row once, or ended in one of the errors of the table in docs/writing.md;
- no other error leaves any process, and the files that are left are those of the chain, with all their rows.

With --kills the writers and the vacuum die by SIGKILL at failpoints and at any moment, sleep at failpoints, and are
started again. With --copies the storage publishes by copies, which a server of this process makes (`copy_server`); of
some no reply comes.

Prints a line of JSON and exits with 0, or prints the violations and exits with 1.
"""

import argparse
import hashlib
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

from kill_loop import OPTIONS, ROWS, SCHEMA, CopyServer, moved, served

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import RecordBatch, types
from spark_arrow_ipc.arrow.types import field
from spark_arrow_ipc.dataset.commit_log import log
from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory
from spark_arrow_ipc.dataset.commit_log.log import read_head
from spark_arrow_ipc.dataset.commit_log.record import Record
from spark_arrow_ipc.dataset.commit_log.stored_record import read_record
from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.dataset.scan.file_range import FileRange
from spark_arrow_ipc.dataset.scan.scan import scan
from spark_arrow_ipc.dataset.write import WriteMode
from spark_arrow_ipc.dataset.write.commit import abort, commit
from spark_arrow_ipc.dataset.write.existing_files import live_files
from spark_arrow_ipc.dataset.write.job_plan import CommitIntent, plan_job
from spark_arrow_ipc.dataset.write.task import TaskOutput, write_task
from spark_arrow_ipc.dataset.write.vacuum import vacuum
from spark_arrow_ipc.errors import CommitError, ConcurrentWriteError, FileChangedError
from spark_arrow_ipc.storage import failpoint
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.paths import relative

READER_ERRORS = (FileChangedError, ConcurrentWriteError)
"""Those of the table in docs/writing.md that jobs of this package can cause."""

WRITERS = ("append", "append", "dynamic", "overwrite")
READERS = 2
PARTITIONED = (field("k", types.utf8),)
WITHDRAWN_EACH = 20
"""Of so many vacuums one withdraws all jobs that run."""


STORAGE = LOCAL
"""The storage of the dataset."""

DIES, SLEEPS = 0.004, 0.02
"""How often a process of a run with kills dies, and sleeps, at a failpoint."""

UNLUCKY = "could not be brought to its end"
"""What a writer says if a copy of another job, which it helps, got no reply."""


# Processes


class Notes:
    """A file of JSON lines; each is one write, so that several processes may share one."""

    def __init__(self, path):
        self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def add(self, **values):
        os.write(self.descriptor, json.dumps(values).encode() + b"\n")


def note_records(notes):
    """Note each record that this process makes."""
    kind = type(STORAGE)
    real = kind.put_if_absent

    def put_if_absent(self, path, data, **options):
        made = real(self, path, data, **options)
        if made and path.endswith(".json"):
            notes.add(**noted(Record.from_bytes(data)))
        return made

    kind.put_if_absent = put_if_absent


def noted(record):
    return {
        "seq": record.seq, "jobid": record.jobid, "is_job": record.is_of_job,
        "adds": [[add.final, add.rows] for add in record.adds], "removes": [file.path for file in record.removes],
    }  # fmt: skip


def writing(root, number, mode, notes, rng, end):
    for job in range(sys.maxsize):
        if time.monotonic() > end:
            return
        first = (number * 10_000_000 + job) * ROWS
        jobid, outcome = None, "published"
        try:
            plan = plan_job(root, CommitIntent(WriteMode(mode), partition_by=PARTITIONED))
            jobid = plan.staging.jobid
            outputs = []
            for task in range(3):
                batch = RecordBatch.from_pydict({"id": list(range(first + task, first + ROWS, 3))}, SCHEMA)
                output = write_task(plan.staging, [batch], SCHEMA, partition_id=task, options=OPTIONS)
                directory = f"k={rng.randrange(4) if mode != 'dynamic' else 9}"
                outputs.append(TaskOutput(output.jobid, tuple(moved(file, directory) for file in output.files)))
            commit(plan, outputs, write_empty=None, fits=lambda _: True)
        except CommitError as error:
            outcome = type(error).__name__
            if jobid is not None:
                abort(plan.staging)
            if not isinstance(error, ConcurrentWriteError) and not withdrawn(str(error)) and UNLUCKY not in str(error):
                raise
        notes.add(jobid=jobid, mode=mode, outcome=outcome)
        time.sleep(rng.uniform(0, 0.05))


def withdrawn(text):
    """Return whether an error says that the job was withdrawn by a vacuum."""
    return any(words in text for words in ("withdrawn", "the staged files are gone", "staging directory is not there",
                                           "the driver does not find it"))  # fmt: skip


def reading(root, notes, rng, end):
    dataset = DatasetDirectory(STORAGE, root)
    while time.monotonic() < end:
        before = read_head(dataset).seq
        try:
            files = list_tree([root]).all_files()
        except READER_ERRORS as error:
            notes.add(listing=type(error).__name__)
            continue
        notes.add(seqs=[before, read_head(dataset).seq], files=len(files),
                  digest=digest(relative(file.path, root) for file in files))  # fmt: skip
        ids = Counter()
        time.sleep(rng.choice([0, 0, 0.3]))  # a task that starts late
        try:
            for file in files:
                ids.update(ids_of(file))
        except READER_ERRORS as error:
            notes.add(read=type(error).__name__)
        else:
            notes.add(read="rows", rows=len(ids), doubled=ids.total() - len(ids), expected=len(files) * ROWS // 3)


def ids_of(file):
    """Return the values in a file that was listed."""
    if STORAGE is LOCAL:
        part = FileRange(file.path, file.nbytes, file.mtime_ns, staged=file.staged)
        return [value for scanned in scan([part]) for b in scanned.batches for value in b.batch.to_pydict()["id"]]
    try:
        with ipc.open(file.open(STORAGE)) as reader:
            return [value for batch in reader for value in batch.to_pydict()["id"]]
    except FileNotFoundError as error:
        raise FileChangedError("it is gone", path=file.path) from error


def vacuuming(root, notes, rng, end):
    while time.monotonic() < end:
        all_jobs = rng.randrange(WITHDRAWN_EACH) == 0
        try:
            report = vacuum(root, older_than_seconds=0 if all_jobs else 600)
        except CommitError as error:
            if UNLUCKY not in str(error):
                raise
            continue
        notes.add(withdrawn=len(report.withdrawn), finished=report.finished is not None)
        time.sleep(rng.uniform(0, 0.5))


def forked(name, folder, seed, run, generation=0, *, kills=False):
    """Start a process, and return its id; what it raises is noted."""
    pid = os.fork()
    if pid:
        return pid
    notes = Notes(folder / f"{name}.jsonl")
    status = 1
    try:
        if kills:
            failpoint.hit = unlucky(random.Random(f"{seed} {name} {generation} dies"))
        else:
            note_records(Notes(folder / "records.jsonl"))
        run(generation, notes, random.Random(f"{seed} {name} {generation}"))
        status = 0
    except BaseException:  # noqa: BLE001  # the child must end here, whatever it is
        notes.add(violation=traceback.format_exc())
    finally:
        os._exit(status)


def unlucky(rng):
    """Return what a process does at failpoints that may die or sleep there."""

    def hit(_):
        luck = rng.random()
        if luck < DIES:
            os.kill(os.getpid(), signal.SIGKILL)
        elif luck < DIES + SLEEPS:
            time.sleep(rng.uniform(0, 0.3))

    return hit


def kept_running(processes, start, end, rng):
    """Kill processes, start them again, and return the number that died; those that read are left alone."""
    running = {start(name, 0): name for name in processes}
    generations, died = Counter(), 0
    while running:
        if rng.random() < 0.1 and time.monotonic() < end:
            victim = rng.choice([pid for pid, name in running.items() if not name.startswith("reader")] or [0])
            if victim:
                os.kill(victim, signal.SIGKILL)
        for pid in list(running):
            done, status = os.waitpid(pid, os.WNOHANG)
            if not done:
                continue
            name = running.pop(pid)
            if os.WIFSIGNALED(status):
                died += 1
                generations[name] += 1
                if time.monotonic() < end:
                    running[start(name, generations[name])] = name
        time.sleep(0.05)
    return died


# What must hold


def digest(names):
    value = 0
    for name in names:
        value ^= int.from_bytes(hashlib.blake2b(os.fsencode(name), digest_size=8).digest())
    return value


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def history(records):
    """Return the files after each record, as a digest, and those of the last one with their rows."""
    first = {}
    for record in records:
        first.setdefault(record["seq"], record)  # a later one of the same number filled a hole, and counts for nothing
    files, digests, jobs = {}, {0: 0}, Counter()
    violations = []
    if sorted(first) != list(range(1, len(first) + 1)):
        violations.append("the numbers of the records leave a gap")
    for seq in sorted(first):
        record = first[seq]
        lost = [name for name in record["removes"] if name not in files]
        if lost:
            violations.append(f"the record {seq} removes {lost[:3]}, which are not there")
        for name in record["removes"]:
            files.pop(name, None)
        files.update(record["adds"])
        digests[seq] = digest(files)
        if record["is_job"]:
            jobs[record["jobid"]] += 1
    return files, digests, jobs, violations


def kept_records(root):
    """Return the notes of all records, where none was removed: who made one may have died before it could note it."""
    dataset = DatasetDirectory(STORAGE, root)
    return [noted(read_record(dataset, seq)) for seq in range(1, read_head(dataset).seq + 1)]


def check(root, folder, names, *, kills=False):
    counts = Counter()
    files, digests, jobs, violations = history(kept_records(root) if kills else lines(folder / "records.jsonl"))
    counts["records"] = len(digests) - 1
    for name in names:
        for note in lines(folder / f"{name}.jsonl"):
            violations += [f"{name}: {words}" for words in wrong(note, digests, jobs)]
            counts[kind(name, note)] += 1
    vacuum(root, older_than_seconds=0)
    left = {file.path for file in live_files(DatasetDirectory(STORAGE, root))}
    if left != set(files):
        violations.append(f"{len(set(files) - left)} files are lost, {len(left - set(files))} are too many")
    found = Counter(value for file in list_tree([root]).all_files() for value in ids_of(file))
    if (len(found), found.total()) != (sum(files.values()), sum(files.values())):
        violations.append(f"{found.total()} rows, {len(found)} different ones, and not {sum(files.values())}")
    return dict(sorted(counts.items())), violations


def wrong(note, digests, jobs):
    if "violation" in note:
        yield note["violation"]
    if "outcome" in note and jobs[note["jobid"]] != (note["outcome"] == "published"):
        yield f"the job {note['jobid']} was {note['outcome']}, and is in the chain {jobs[note['jobid']]} times"
    if "digest" in note:
        start, stop = note["seqs"]
        if note["digest"] not in {digests[seq] for seq in range(start, stop + 1)}:
            yield f"a listing of {note['files']} files is of no record from {start} to {stop}"
    if note.get("doubled") or note.get("rows") != note.get("expected"):
        yield f"a read had {note['rows']} rows of {note['expected']}, and {note['doubled']} of them twice"


def kind(name, note):
    role = name.rstrip("0123456789")
    for key in ("outcome", "listing", "read"):
        if key in note:
            return f"{role}: {note.get('mode', '')} {key} {note[key]}".replace("  ", " ")
    if "withdrawn" in note:
        return f"{role}: withdrew {'some' if note['withdrawn'] else 'none'}"
    return f"{role}: listings" if "digest" in note else f"{role}: violations"


def main():
    global STORAGE  # noqa: PLW0603 - the storage of this run
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--kills", action="store_true", help="kill the writers and the vacuum again and again")
    parser.add_argument("--copies", action="store_true", help="over a storage that publishes by copies")
    parser.add_argument("--no-grace", action="store_true", help="wait for no copies of others: must find violations")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--folder", default=None, help="where the dataset is made (default: a temporary directory)")
    arguments = parser.parse_args()
    seed = random.randrange(1 << 32) if arguments.seed is None else arguments.seed
    folder = Path(tempfile.mkdtemp(dir=arguments.folder))
    root, end = str(folder / "data"), time.monotonic() + arguments.minutes * 60
    Path(root).mkdir()
    print(f"seed {seed} in {folder}", file=sys.stderr)
    runs = {
        f"writer{number}": lambda g, *a, n=number, m=mode: writing(root, n + len(WRITERS) * g, m, *a, end)
        for number, mode in enumerate(WRITERS)
    }
    runs |= {f"reader{number}": lambda _, *a: reading(root, *a, end) for number in range(READERS)}
    runs["vacuum"] = lambda _, *a: vacuuming(root, *a, end)

    def start(name, generation):
        kills = arguments.kills and not name.startswith("reader")
        return forked(name, folder, seed, runs[name], generation, kills=kills)

    counts = {"seed": seed, "minutes": arguments.minutes}
    with ExitStack() as stack:
        if arguments.copies:
            server = stack.enter_context(CopyServer(seconds=0.2, seed=seed))
            STORAGE = stack.enter_context(served(server, patience=0.05, rules=not arguments.no_grace))
        if arguments.kills:
            log.KEPT_RECORDS, log._KEPT_NS, log._KEPT_NBYTES = 10**9, 1 << 62, 1 << 40
        plan_job(root, CommitIntent(WriteMode.APPEND))
        if arguments.kills:
            counts["died"] = kept_running(runs, start, end, random.Random(seed))
        else:
            for pid in [start(name, 0) for name in runs]:
                os.waitpid(pid, 0)
        if arguments.copies:
            counts |= {"copies": server.copies, "replies lost": server.replies_lost}
        found, violations = check(root, folder, list(runs), kills=arguments.kills)
    print(json.dumps({**counts, **found, "violations": len(violations)}))
    if violations:
        sys.exit("\n".join([*violations[:20], f"kept in {folder}"]))
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
