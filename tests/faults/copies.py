"""Copy a dataset while four writers work on it: by `arrowipc copy`, by `cp -r`, `cp -a`, and slowly in any order.

    python tests/faults/copies.py --copies 500 [--seed 1] [--minutes 30]

Copies of the first kind must be whole, also where the process is killed and begins again. The others are whole, or `fsck`
says that they are not, and the commands that it names lead to one committed state, or it says that nothing does. What a
state is, is known from all records that the writers made. A copy that reads as one state goes on as a dataset: a job
appends to it, and vacuum clears it.

Prints what it counted and exits with 0, or raises with what is wrong.
"""

import argparse
import contextlib
import json
import logging
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
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("", "tests", "tests/oracles", "tests/builders", "tests/fakes", "tests/programs")]  # fmt: skip

from commit_jobs import APPEND, DYNAMIC, OVERWRITE, REWRITE, dataset, planned, save

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.commit_log.log import newest_record
from spark_arrow_ipc.dataset.commit_log.stored_record import read_kept
from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.dataset.write.commit import commit
from spark_arrow_ipc.dataset.write.copy import copy_dataset
from spark_arrow_ipc.dataset.write.fsck import fsck, go_back, repair
from spark_arrow_ipc.dataset.write.vacuum import vacuum
from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.storage.local import LOCAL

WRITERS = 4
PARTITIONS = 4
BY = (t.field("k", t.int32),)
KEPT_SECONDS = 24 * 3600
PAUSES_SECONDS = [0.01, 0.1, 0.5]
"""Between two jobs of a writer."""

ROUND = 25
"""Copies of one dataset; after that another is made."""

P_KILLED = 0.4
"""Of an `arrowipc copy`."""

WAYS = ["arrowipc copy", "cp -r", "cp -a", "slowly"]
CANNOT = "cannot be mended from here"


# The writers


def texts(rng, name):
    return [f"k={rng.randrange(PARTITIONS)}:{name}.{i}" for i in range(rng.randint(1, 4))]


def job(source, rng, name):
    mode = rng.choice([APPEND] * 6 + [DYNAMIC] * 2 + [REWRITE] * 2 + [OVERWRITE])
    options = {"durable": False, "partition_by": BY, "commit_retention": KEPT_SECONDS}
    if mode is REWRITE:
        options["choose"] = lambda files: rng.sample(files, min(len(files), 5))
    plan, outputs = planned(source, mode, *texts(rng, name), **options)
    if not plan.skip:
        commit(plan, outputs, write_empty=None, fits=lambda _: True)


def write(source, seed, pause_seconds):
    rng = random.Random(seed)
    for number in range(1_000_000):
        with contextlib.suppress(ArrowIpcError, OSError):  # another writer was faster
            job(source, rng, f"{seed}.{number}")
        time.sleep(rng.random() * 2 * pause_seconds)


def forked(work):
    """Return the id of a process that does something, and ends."""
    pid = os.fork()
    if not pid:
        try:
            logging.disable(logging.CRITICAL)
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return pid


def ended(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


# The copies


def copied(source, target, rng, count):
    """Copy by the command, killed at times; return whether a run said that the copy is whole."""
    for attempt in range(10):
        pid = forked(lambda: copy_dataset(source, target, storage=LOCAL, target_storage=LOCAL))
        if attempt < 3 and rng.random() < P_KILLED:
            time.sleep(rng.random() ** 2 * 0.2)
            os.kill(pid, signal.SIGKILL)
        status = ended(pid)
        if not status:
            return True
        count[
            "arrowipc copy: killed" if status == -signal.SIGKILL else "arrowipc copy: begun again after an error"
        ] += 1
        with contextlib.suppress(ArrowIpcError):
            if newest_record(dataset(target))[1] is not None and status != -signal.SIGKILL:
                shutil.rmtree(target)  # it holds the state of a record that the source has left: the error says so
    return False


def copied_slowly(source, target, rng):
    """Copy as a program does that goes through directories in any order; return whether it found all that it listed."""
    is_well = True
    target.mkdir()
    paths = list(source.iterdir())
    rng.shuffle(paths)
    for path in paths:
        if rng.random() < 0.1:
            time.sleep(rng.random() * 0.2)
        try:
            if path.is_dir():
                is_well &= copied_slowly(path, target / path.name, rng)
            else:
                shutil.copyfile(path, target / path.name)
        except OSError:
            is_well = False
    return is_well


def copied_by(way, source, target, rng, count):
    if way == "arrowipc copy":
        return copied(source, target, rng, count)
    if way == "slowly":
        return copied_slowly(source, target, rng)
    return not subprocess.run([*way.split(), str(source), str(target)], capture_output=True, check=False).returncode


# What is in them


def seen(root):
    """The files that a reader of this package sees, and their sizes; None if it gets an error."""
    try:
        files = list_tree([str(root)]).all_files()
        return {str(Path(file.path).relative_to(root)): len(Path(file.current_path()).read_bytes()) for file in files}
    except (ArrowIpcError, OSError):
        return None


class States:
    """The states of the source by the numbers of its records, from all of them."""

    def __init__(self, source):
        self.source, self.by_number = dataset(source), {0: {}}

    def of(self, number):
        for n in range(max(self.by_number) + 1, number + 1):
            while (record := read_kept(self.source, n)) is None:  # its job is being put in place
                time.sleep(0.01)
            files = dict(self.by_number[n - 1])
            for file in record.removes:
                del files[file.path]
            self.by_number[n] = files | {add.final: add.nbytes for add in record.adds}
            if n > 3000:
                self.by_number.pop(n - 3000)
        return self.by_number[number]


def number_of(root, way):
    """The number of the record whose state a copy says that it is."""
    record = newest_record(dataset(root))[1]
    return 0 if record is None else record.seq - (way == "arrowipc copy")


def check_goes_on(root, before):
    save(root, APPEND, "k=9:new", partition_by=BY, durable=False)
    vacuum(root, older_than_seconds=0)
    report = fsck(str(root), LOCAL)
    assert (True, True) == (report.is_sound, report.is_whole), report
    assert before.items() < seen(root).items(), "an append and a vacuum lose nothing"


def check(way, root, states, is_well):
    """Return what became of a copy, mended or not."""
    first = fsck(str(root), LOCAL)
    if first.is_sound:
        number = number_of(root, way)
        assert seen(root) == states.of(number), f"{way}: fsck finds nothing, and this is not the state {number}"
        assert first.is_whole
        check_goes_on(root, states.of(number))
        return "whole" if is_well else "whole, with an error of the copy"
    assert way != "arrowipc copy", first.findings
    before = seen(root)
    report = repair(str(root), LOCAL)
    named = [re.search(r"fsck --back-to (\d+) ", finding.mend) for finding in report.findings]
    if not report.is_sound and any(named):
        report = go_back(str(root), int(next(filter(None, named))[1]), LOCAL)
    if report.is_sound:
        number = number_of(root, way)
        assert seen(root) == states.of(number), f"{way}: mended, and this is not the state {number}: {first.findings}"
        check_goes_on(root, states.of(number))
        return "mended to its newest record" if not any(named) else "mended to an older record"
    assert any(CANNOT in finding.mend for finding in report.findings), report.findings
    assert before is None or before != states.of(number_of(root, way)), f"whole, and fsck does not see it: {report}"
    return "not one state, and fsck says so"


def copy_some(folder, copies, end, rng, count):
    """Let writers make a dataset, and copy it some times."""
    source, target = folder / "source", folder / "target"
    save(source, APPEND, *(f"k={k}:first" for k in range(PARTITIONS)), partition_by=BY, commit_retention=KEPT_SECONDS)
    pause, seed = rng.choice(PAUSES_SECONDS), rng.randrange(1 << 30)
    writers = [forked(lambda i=i: write(source, seed + i, pause)) for i in range(WRITERS)]
    states = States(source)
    try:
        for number in range(copies):
            if time.monotonic() > end:
                break
            way = WAYS[number % len(WAYS)]
            is_well = copied_by(way, source, target, rng, count)
            assert is_well or way != "arrowipc copy", "arrowipc copy did not succeed"
            try:
                count[f"{way}: {check(way, target, states, is_well)}"] += 1
            except BaseException:
                shutil.copytree(target, Path(tempfile.mkdtemp(prefix="copies-failed-")) / "target")
                raise
            count["copies"] += 1
            shutil.rmtree(target)
    finally:
        for pid in writers:
            os.kill(pid, signal.SIGKILL)
            ended(pid)
    count["records"] += newest_record(dataset(source))[1].seq


def run(copies, seed, minutes=60.0):
    """Make copies until there are enough; return what was counted."""
    rng, count = random.Random(seed), Counter()
    end = time.monotonic() + 60 * minutes
    while count["copies"] < copies and time.monotonic() < end:
        with tempfile.TemporaryDirectory(prefix="copies-") as folder:
            copy_some(Path(folder), min(ROUND, copies - count["copies"]), end, rng, count)
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60.0)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    print(json.dumps(run(arguments.copies, arguments.seed, arguments.minutes), indent=1, sort_keys=True))


if __name__ == "__main__":
    main()
