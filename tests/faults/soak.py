"""Let writers of every mode, a vacuum and readers work on one table at once, for long; the truth are the entries of its log.

    python tests/faults/soak.py --seconds 1800 [--kills] [--copies]

With --kills the writers and the vacuum are killed again and again, at failpoints and anywhere, and begin anew; with --copies the
storage publishes by copies. Each process notes what it saw. In the end the entries, read as JSON (`History`), say what was true:

- a job that was told that it is committed is in the log, and one that was told that nothing is published is not;
- a listing was the state after one of the entries that were put while it was made;
- a read had each row of its files once, or one of the errors that docs/writing.md names;
- after a vacuum pyarrow, which lists the directory, sees the rows of the last state, and nothing else is left.

Prints a line of JSON and exits with 0, or with what is wrong.
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
from contextlib import closing
from itertools import count
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("", "tests", "tests/oracles", "tests/builders", "tests/fakes", "tests/programs")]  # fmt: skip

from copying_storage import CopyingStorage
from table_jobs import APPEND, DYNAMIC, OVERWRITE, REWRITE, History, foreign, forked, left, number_of, see, write

from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.dataset.scan.file_range import FileRange
from spark_arrow_ipc.dataset.scan.scan import ScanOptions, scan
from spark_arrow_ipc.errors import ConcurrentWriteError, FileChangedError
from spark_arrow_ipc.storage import failpoint
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.paths import relative
from spark_arrow_ipc.table.names import TableDirectory
from spark_arrow_ipc.table.vacuum import vacuum

READER_ERRORS = (FileChangedError, ConcurrentWriteError)
"""Those of the table in docs/writing.md that jobs of this package can cause."""

WRITERS = (APPEND, APPEND, DYNAMIC, OVERWRITE, REWRITE)
READERS = 2
ROWS = 10
"""Of a file; a job has three."""

EXPIRED_EACH = 20
"""Of so many vacuums one expires all jobs that run."""

DIES, SLEEPS = 0.004, 0.02
"""How often a process of a run with kills dies, and sleeps, at a failpoint."""


# ---- processes


class Notes:
    """A file of JSON lines, each of which is one write."""

    def __init__(self, path):
        self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def add(self, **values):
        os.write(self.descriptor, json.dumps(values).encode() + b"\n")


def write_jobs(directory, number, mode, notes, rng, end):
    for job in count():
        if time.monotonic() > end:
            return
        first = (number * 1_000_000 + job) * 3 * ROWS
        partitions = ["k=9"] * 3 if mode is DYNAMIC else [f"k={rng.randrange(4)}" for _ in range(3)]
        files = [(k, list(range(first + i, first + 3 * ROWS, 3))) for i, k in enumerate(partitions)]
        outcome, error = write(directory, mode, files, commit_token=f"{number}.{job}")
        if not (error is None or isinstance(error, (*READER_ERRORS, FileNotFoundError)) or is_expired(str(error))):
            raise error
        notes.add(token=f"{number}.{job}", mode=mode.value, outcome=outcome)
        time.sleep(rng.uniform(0, 0.05))


def is_expired(text):
    """Return whether an error says that a vacuum expired the job."""
    return any(words in text for words in ("was expired", "staging directory is not there", "driver does not find it"))


def read_rows(directory, notes, rng, end):
    storage = directory.storage.inside(None)
    while time.monotonic() < end:
        before = number_of(directory)
        try:
            tree = list_tree([directory.root], storage=storage)
            files = tree.all_files()
        except READER_ERRORS as error:
            notes.add(listing=type(error).__name__)
            continue
        digest = digest_of(relative(file.path, directory.root) for file in files)
        expected = sum(int(state.files.rows.sum()) for state in tree.states.values())
        notes.add(numbers=[before, number_of(directory)], files=len(files), digest=digest)
        time.sleep(rng.choice([0, 0, 0.3]))  # a task that starts late
        ids = Counter()
        try:
            for file in files:
                part = FileRange(file.path, file.nbytes, file.mtime_ns, version=file.version)
                with closing(scan([part], options=ScanOptions(storage=storage))) as ranges:
                    for one in ranges:
                        for batch in one.batches:
                            ids.update(batch.batch.to_pydict()["id"])
        except READER_ERRORS as error:
            notes.add(read=type(error).__name__)
        else:
            notes.add(read="rows", rows=len(ids), doubled=ids.total() - len(ids), expected=expected)


def clear(directory, notes, rng, end):
    while time.monotonic() < end:
        report = vacuum(directory, older_than=-1e10 if rng.randrange(EXPIRED_EACH) == 0 else 600)
        notes.add(swept=len(report.swept))
        time.sleep(rng.uniform(0, 0.5))


def start(run, path, rng, *, kills):
    """Start a process, and return its id; what it raises is noted."""

    def act():
        notes = Notes(path)
        if kills:
            failpoint.hit = unlucky(rng)
        try:
            run(notes, rng)
        except BaseException:  # noqa: BLE001 - whatever it is, it is a fault
            notes.add(violation=traceback.format_exc())

    return forked(act)


def unlucky(rng):
    """Return what a process does at failpoints that may die or sleep there."""

    def hit(_):
        luck = rng.random()
        if luck < DIES:
            os.kill(os.getpid(), signal.SIGKILL)
        elif luck < DIES + SLEEPS:
            time.sleep(rng.uniform(0, 0.3))

    return hit


def keep_running(names, begin, end, rng, *, kills):
    """Run processes until the end, and return the number that died; those that read are not killed."""
    running = {begin(name, 0): name for name in names}
    generations, died = Counter(), 0
    while running:
        if kills and rng.random() < 0.1 and time.monotonic() < end:
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
                    running[begin(name, generations[name])] = name
        time.sleep(0.05)
    return died


# ---- what must hold


def digest_of(names):
    """Return a number that is the same for the same names in any order."""
    value = 0
    for name in names:
        value ^= int.from_bytes(hashlib.blake2b(os.fsencode(name), digest_size=8).digest())
    return value


def check(directory, folder, names):
    """Return counts of what the processes noted, and what is wrong with it."""
    vacuum(directory, older_than=-1e10)
    history, counts, violations = History(directory), Counter(), []
    digests = {number: digest_of(files) for number, files in enumerate(history.states)}
    tokens = Counter(entry["token"] for entry in history.jobs.values() if "token" in entry)
    for name in names:
        path = folder / f"{name}.jsonl"
        for line in path.read_text().splitlines() if path.exists() else ():
            note = json.loads(line)
            violations += [f"{name}: {words}" for words in wrong(note, digests, tokens)]
            counts[kind(name, note)] += 1
    rows, seen = history.states[-1], see(directory)
    ids = Counter(id_ for ids in seen.values() for id_ in ids)
    if {len(ids), ids.total()} != {sum(rows.values())}:
        violations.append(f"{ids.total()} rows, {len(ids)} different ones, and not {sum(rows.values())}")
    if seen != foreign(directory):
        violations.append("pyarrow lists other rows than the snapshot's")
    # No copy of a store dies half-way: what one of `CopyingStorage` leaves then is none of a table.
    violations += [f"vacuum left {path}" for path in left(directory) if "/." not in path]
    return {"entries": len(history.entries), **dict(sorted(counts.items()))}, violations


def wrong(note, digests, tokens):
    if "violation" in note:
        yield note["violation"]
    if "outcome" in note and note["outcome"] != "unknown":
        is_told = note["outcome"] == "committed"
        if tokens[note["token"]] != is_told:
            yield f"the job {note['token']} was told {note['outcome']}, and is in the log {tokens[note['token']]} times"
    if "digest" in note:
        first, last = note["numbers"]
        if note["digest"] not in {digests[number] for number in range(first, last + 1)}:
            yield f"a listing of {note['files']} files is of no entry from {first} to {last}"
    if note.get("doubled"):
        yield f"a read had {note['doubled']} of {note['rows']} rows twice"
    if note.get("rows") != note.get("expected"):
        yield f"a read had {note['rows']} rows of {note['expected']}"


def kind(name, note):
    role = name.rstrip("0123456789")
    for key in ("outcome", "listing", "read"):
        if key in note:
            return f"{role}: {note.get('mode', '')} {key} {note[key]}".replace("  ", " ")
    if "swept" in note:
        return f"{role}: swept {'some' if note['swept'] else 'none'}"
    return f"{role}: listings" if "digest" in note else f"{role}: violations"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--kills", action="store_true", help="kill the writers and the vacuum again and again")
    parser.add_argument("--copies", action="store_true", help="over a storage that publishes by copies")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--folder", default=None, help="where the table is made (default: a temporary directory)")
    arguments = parser.parse_args()
    seed = random.randrange(1 << 32) if arguments.seed is None else arguments.seed
    folder, end = Path(tempfile.mkdtemp(dir=arguments.folder)), time.monotonic() + arguments.seconds
    print(f"seed {seed} in {folder}", file=sys.stderr)
    directory = TableDirectory(CopyingStorage() if arguments.copies else LOCAL, str(folder / "t"))
    assert ("committed", None) == write(directory, APPEND, [("k=0", list(range(-ROWS, 0)))])

    def begin(name, generation):
        role, number = name.rstrip("0123456789"), int(name.lstrip("abcdefghijklmnopqrstuvwxyz") or 0)
        rng, kills = random.Random(f"{seed} {name} {generation}"), arguments.kills and role != "reader"
        runs = {
            "writer": lambda *a: write_jobs(directory, number + len(WRITERS) * generation, WRITERS[number], *a, end),
            "reader": lambda *a: read_rows(directory, *a, end),
            "vacuum": lambda *a: clear(directory, *a, end),
        }
        return start(runs[role], folder / f"{name}.jsonl", rng, kills=kills)

    names = [f"writer{i}" for i in range(len(WRITERS))] + [f"reader{i}" for i in range(READERS)] + ["vacuum"]
    died = keep_running(names, begin, end, random.Random(seed), kills=arguments.kills)
    counts, violations = check(directory, folder, names)
    counts = {"seed": seed, "seconds": arguments.seconds, "died": died, **counts}
    print(json.dumps({**counts, "violations": len(violations)}))
    if violations:
        sys.exit("\n".join([*violations[:20], f"it is in {folder}"]))
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
