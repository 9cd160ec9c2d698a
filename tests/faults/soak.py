"""Four writers, two readers and a vacuum at once in one dataset, for as long as you like.

    python tests/faults/soak.py --minutes 30

Two writers append, one overwrites partitions, one everything; the vacuum finishes what it finds, and at times withdraws
all jobs that run. Each process notes what it does, and in the end the notes are compared with the chain of records:

- a job that was reported as published is in the chain once, one that was not is not;
- each listing of a reader has exactly the files of one record that was the newest meanwhile;
- what it read then has each row once, or ended in one of the errors of the table in docs/writing.md;
- no other error leaves any process, and the files that are left are those of the chain, with all their rows.

Prints a line of JSON and exits with 0, or prints the violations and exits with 1.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from kill_loop import OPTIONS, ROWS, SCHEMA, moved

from spark_arrow_ipc.arrow import RecordBatch, types
from spark_arrow_ipc.arrow.types import field
from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory
from spark_arrow_ipc.dataset.commit_log.log import read_head
from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.dataset.scan.file_range import FileRange
from spark_arrow_ipc.dataset.scan.scan import scan
from spark_arrow_ipc.dataset.write.commit import abort, commit
from spark_arrow_ipc.dataset.write.job_plan import plan_job
from spark_arrow_ipc.dataset.write.live_files import live_files
from spark_arrow_ipc.dataset.write.modes import WriteMode
from spark_arrow_ipc.dataset.write.task import TaskOutput, write_task
from spark_arrow_ipc.dataset.write.vacuum import vacuum
from spark_arrow_ipc.errors import CommitError, ConcurrentWriteError, FileChangedError
from spark_arrow_ipc.storage.local import LOCAL, LocalStorage
from spark_arrow_ipc.storage.paths import relative

READER_ERRORS = (FileChangedError, ConcurrentWriteError)
"""Those of the table in docs/writing.md that jobs of this package can cause."""

WRITERS = ("append", "append", "dynamic", "overwrite")
READERS = 2
PARTITIONED = (field("k", types.utf8),)
WITHDRAWN_EACH = 20
"""Of so many vacuums one withdraws all jobs that run."""


# Processes


class Notes:
    """A file of JSON lines; each is one write, so that several processes may share one."""

    def __init__(self, path):
        self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def add(self, **values):
        os.write(self.descriptor, json.dumps(values).encode() + b"\n")


def note_records(notes):
    """Note each record that this process makes."""
    real = LocalStorage.put_if_absent

    def put_if_absent(self, path, data, **options):
        made = real(self, path, data, **options)
        if made and path.endswith(".json"):
            record = json.loads(data)
            notes.add(
                seq=record["seq"], jobid=record["jobid"], is_job=not record["withdraws"],
                adds=[[add[1], add[3]] for add in record["adds"]], removes=[file[0] for file in record["removes"]],
            )  # fmt: skip
        return made

    LocalStorage.put_if_absent = put_if_absent


def writing(root, number, mode, notes, rng, end):
    for job in range(sys.maxsize):
        if time.monotonic() > end:
            return
        first = (number * 10_000_000 + job) * ROWS
        jobid, outcome = None, "published"
        try:
            plan = plan_job(root, WriteMode(mode), partition_by=PARTITIONED)
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
            if not isinstance(error, ConcurrentWriteError) and not withdrawn(str(error)):
                raise
        notes.add(jobid=jobid, mode=mode, outcome=outcome)
        time.sleep(rng.uniform(0, 0.05))


def withdrawn(text):
    """Return whether an error says that the job was withdrawn by a vacuum."""
    return any(words in text for words in ("withdrawn", "the staged files are gone", "staging directory is not there",
                                           "the driver does not find it"))  # fmt: skip


def reading(root, notes, rng, end):
    dataset = DatasetDirectory(LOCAL, root)
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
                part = FileRange(file.path, file.nbytes, file.mtime_ns, staged=file.staged)
                for scanned in scan([part]):
                    for block in scanned.batches:
                        ids.update(block.batch.to_pydict()["id"])
        except READER_ERRORS as error:
            notes.add(read=type(error).__name__)
        else:
            notes.add(read="rows", rows=len(ids), doubled=ids.total() - len(ids), expected=len(files) * ROWS // 3)


def vacuuming(root, notes, rng, end):
    while time.monotonic() < end:
        all_jobs = rng.randrange(WITHDRAWN_EACH) == 0
        report = vacuum(root, older_than_seconds=0 if all_jobs else 600)
        notes.add(withdrawn=len(report.withdrawn), finished=report.finished is not None)
        time.sleep(rng.uniform(0, 0.5))


def forked(name, folder, seed, run):
    """Start a process, and return its name and id; what it raises is noted."""
    pid = os.fork()
    if pid:
        return name, pid
    notes = Notes(folder / f"{name}.jsonl")
    status = 1
    try:
        note_records(Notes(folder / "records.jsonl"))
        run(notes, random.Random(f"{seed} {name}"))
        status = 0
    except BaseException:  # noqa: BLE001  # the child must end here, whatever it is
        notes.add(violation=traceback.format_exc())
    finally:
        os._exit(status)


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


def check(root, folder, names):
    counts = Counter()
    files, digests, jobs, violations = history(lines(folder / "records.jsonl"))
    counts["records"] = len(digests) - 1
    for name in names:
        for note in lines(folder / f"{name}.jsonl"):
            violations += [f"{name}: {words}" for words in wrong(note, digests, jobs)]
            counts[kind(name, note)] += 1
    vacuum(root, older_than_seconds=0)
    left = {file.path for file in live_files(DatasetDirectory(LOCAL, root))}
    if left != set(files):
        violations.append(f"{len(set(files) - left)} files are lost, {len(left - set(files))} are too many")
    found = Counter(
        value
        for file in list_tree([root]).all_files()
        for scanned in scan([FileRange(file.path, file.nbytes, file.mtime_ns)])
        for block in scanned.batches
        for value in block.batch.to_pydict()["id"]
    )
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--folder", default=None, help="where the dataset is made (default: a temporary directory)")
    arguments = parser.parse_args()
    seed = random.randrange(1 << 32) if arguments.seed is None else arguments.seed
    folder = Path(tempfile.mkdtemp(dir=arguments.folder))
    root, end = str(folder / "data"), time.monotonic() + arguments.minutes * 60
    Path(root).mkdir()
    print(f"seed {seed} in {folder}", file=sys.stderr)
    plan_job(root, WriteMode.APPEND)
    processes = [
        forked(f"writer{number}", folder, seed, lambda *a, n=number, m=mode: writing(root, n, m, *a, end))
        for number, mode in enumerate(WRITERS)
    ]
    processes += [
        forked(f"reader{number}", folder, seed, lambda *a: reading(root, *a, end)) for number in range(READERS)
    ]
    processes += [forked("vacuum", folder, seed, lambda *a: vacuuming(root, *a, end))]
    for _, pid in processes:
        os.waitpid(pid, 0)
    counts, violations = check(root, folder, [name for name, _ in processes])
    print(json.dumps({"seed": seed, "minutes": arguments.minutes, **counts, "violations": len(violations)}))
    if violations:
        sys.exit("\n".join([*violations[:20], f"kept in {folder}"]))
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
