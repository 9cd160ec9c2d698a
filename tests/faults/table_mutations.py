"""Take out one rule of the table's protocol after the other, and let random schedules find what is lost, doubled or left.

    python tests/faults/table_mutations.py [--count 3000] [--only fence] [--all]

Each mutation is made in a copy of the package and tried by directed tests. If these find nothing, or with ``--all``, it is tried
in the scenes that it names, over a disk and over a store, until a schedule violates something. Prints a line for each mutation;
ends with 0 if each was found in one of the two ways, and with 1 if not.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PROGRAM = "tests/programs/table_machine.py"
TESTS = tuple(
    f"tests/table/test_{name}.py"
    for name in ("transaction", "closing", "checks", "rules", "log", "power_loss", "failpoints")
)


class Mutation(NamedTuple):
    """What is taken out: a text of a module below table/, and what it becomes."""

    module: str
    before: str
    after: str
    scenes: tuple[str, ...] = ("mixed",)
    kinds: tuple[str, ...] = ("disk", "store")


MUTATIONS = {
    "anybody collects": Mutation("vacuum.py", "gone = collect(directory, fenced)", "gone = {}"),
    "names are used once": Mutation("transaction.py", "job = job or new_id()", 'job = "0" * 32'),
    "the fence": Mutation("vacuum.py", "fenced = fence(directory, state.table, sorted(dead))", "fenced = state"),
    "judged by the state at the fence": Mutation(
        "vacuum.py",
        "fenced = fence(directory, state.table, sorted(dead))",
        "fenced = fence(directory, state.table, sorted(dead)) and state",
        ("hot", "mixed"),
    ),
    "the log is read after a put": Mutation(
        "transaction.py",
        '                    failpoint.hit("committed.put")\n',
        "                    self._go(Phase.COMMITTED)\n                    return state\n",
        ("hole",),
    ),
    "the horizon of a plan": Mutation(
        "transaction.py", "if self.base + 1 < state.horizon:", "if False:", ("hole", "hot")
    ),
    "the horizon of a put": Mutation(
        "transaction.py", "if self._asked and self._asked < state.horizon:", "if False:", ("hole", "hot")
    ),
    "entries name the one before": Mutation(
        "log.py", "if entries[number].previous != previous:", "if False:", ("hole", "hot")
    ),
    "after a lost reply the log is read": Mutation(
        "transaction.py",
        "                errors.append(error)\n",
        "                self._asked = 0\n                raise\n",
        kinds=("store",),
    ),
    "an abort expires the job": Mutation(
        "transaction.py", "if may_be_committed or storage.traits.may_come_late:", "if False:", kinds=("store",)
    ),
    "a missing file is an error": Mutation(
        "snapshot.py",
        "        if status is None or status.nbytes != nbytes:\n            return path, status\n",
        "",
    ),
    "files that a job removes are still there": Mutation(
        "transaction.py", "gone = managed - {*state.files.paths}", "gone = set()"
    ),
    "unmanaged files are looked at again": Mutation(
        "transaction.py",
        "            if status is None or not is_removed(self.directory, removed, status):\n                gone.add(removed.path)\n",
        "            pass\n",
    ),
    "tombstones of unmanaged files are conflicts": Mutation(
        "transaction.py",
        "gone |= {removed.path for removed in unmanaged if removed.identity in identities}",
        "pass",
    ),
    "tokens": Mutation("transaction.py", "state.has_committed(changed)", "False"),
    "log, listing, log: the first": Mutation("snapshot.py", "first = read_state(directory)", "first = None"),
    "log, listing, log: the second": Mutation(
        "snapshot.py",
        "            state = read_state(directory) if first is None else read_newer(directory, first)\n            if not",
        "            state = first\n            if not",
    ),
    "tombstones hide": Mutation(
        "snapshot.py",
        "if not any(self._hides(removed, status) for removed in self._hidden.get(path, ())):",
        "if True:",
    ),
    "closed tombstones hide": Mutation(
        "snapshot.py", "*(r for r, number in state.closed.items() if number > closed_before)", "", ("mixed", "hot")
    ),
    "an entry closes what is gone": Mutation("collect.py", "return match is Match.OTHER", "return True"),
    "a name is looked for before it is missing": Mutation(
        "snapshot.py",
        "            status = directory.storage.status(directory.path(path), follow_links=False)\n        if status is None or status.nbytes",
        "            pass\n        if status is None or status.nbytes",
    ),
    "names are proven": Mutation(
        "transaction.py",
        "            lacking = self._lacking(directories, sizes)\n",
        "            lacking = []\n",
        kinds=("store",),
    ),
    "the log is read before names are given": Mutation(
        "transaction.py",
        "        self._check_alive(self._read_state())\n        moves",
        "        moves",
        ("hot", "removed"),
    ),
    "the mark": Mutation("transaction.py", "        directory.put_mark(job)\n", ""),
    "staged files go before named ones": Mutation(
        "collect.py",
        "    for list_files in of_jobs:\n",
        "    for list_files in reversed(of_jobs):\n",
        kinds=("store",),
    ),
    "deletions are proven": Mutation(
        "collect.py", "for _ in range(_ATTEMPTS):\n        paths", "for _ in range(1):\n        paths", kinds=("store",)
    ),
    "an unmanaged file is compared before it is deleted": Mutation(
        "collect.py", "else compare(directory, removed, status)", "else Match.SAME"
    ),
    "vacuum deletes files of jobs that are known": Mutation(
        "vacuum.py", "dead | (fenced.ended.keys() & orphans)", "dead | orphans"
    ),
    "vacuum deletes what counts for nobody": Mutation(
        "vacuum.py",
        "partial(list_managed, directory, fenced.table, live)",
        "partial(list_managed, directory, fenced.table, ())",
    ),
    "a checkpoint that no entry confirms": Mutation("log.py", " if _can_confirm(listing, number)", "", ()),
    "vacuum deletes late copies of jobs that committed": Mutation(
        "vacuum.py",
        "dead | (fenced.ended.keys() & orphans)",
        "sorted(dead | ({job for job, end in fenced.ended.items() if not end.is_committed} & orphans))",
        ("hot",),
        ("store",),
    ),
    "the newest entry is the listed one": Mutation(
        "log.py", "listing.entries.get(number) if number == listing.newest else None", "None", ("hot",)
    ),
    "an older state is confirmed by the entry after it": Mutation(
        "log.py",
        "    if last < listing.newest:\n        _read_entries(",
        "    if False:\n        _read_entries(",
        ("hole",),
    ),
    "the second newest checkpoint stays": Mutation(
        "log.py", "sorted(listing.checkpoints)[-2]", "listing.newest", ("hot",)
    ),
    "entries are synced before the next": Mutation(
        "log.py", "    storage.sync(directory.entries(state.table))\n    is_put", "    is_put", ("power",), ("disk",)
    ),
    "entries are synced after the put": Mutation(
        "log.py", "    if is_put:\n        storage.sync(directory.entries(state.table))\n", "", ("power",), ("disk",)
    ),
    "the id is synced": Mutation(
        "log.py", "    storage.sync(directory.log)\n    storage.sync(directory.root)\n", "", ("power",), ("disk",)
    ),
    "names are synced": Mutation(
        "transaction.py",
        "            storage.sync(path)\n",
        "            pass\n",
        ("power",),
        ("disk",),
    ),
    "the log is synced before files are deleted": Mutation(
        "collect.py",
        "    storage.sync(directory.entries(state.table))  # an entry",
        "    # an entry",
        ("power",),
        ("disk",),
    ),
    "deletions are synced before the mark goes": Mutation(
        "collect.py", "        _sync_table(directory)\n", "", ("power",), ("disk",)
    ),
    "an entry closes what the job has deleted that removed it": Mutation(
        "collect.py", "if job is not None and job not in left)", ")"
    ),
    "the mark stays until what the job removed is gone": Mutation(
        "collect.py", " - uncollected_jobs(state, gone), None)", ", None)", kinds=("store",)
    ),
    "an entry closes the removal that was collected": Mutation(
        "collect.py", "if state.tombstones.get(removed) == row)", "if removed in state.tombstones)"
    ),
    "a file that may be a new one is an error": Mutation(
        "snapshot.py", "if match is Match.UNSURE and tombstone is not None:", "if False:", ()
    ),
    "a lost id is an error": Mutation(
        "checks.py",
        "if storage.status(entries) is None or storage.status(directory.id_file) is not None:",
        "if True:",
        (),
    ),
    "a first job that ended meanwhile is no loss": Mutation("checks.py", "if not is_newest or ", "if "),
    "a conflict expires a job whose entry may come late": Mutation(
        "transaction.py", "                if self._comes_late(state):\n", "                if False:\n", (), ("store",)
    ),
    "a void entry closes nothing": Mutation(
        "state.py", "        if not is_void:\n            self._apply(entry)\n", "        self._apply(entry)\n"
    ),
    "deletions are synced before their tombstones close": Mutation(
        "collect.py",
        "    for path in {parent(directory.path(path)) for path in paths}:\n        storage.sync(path)\n",
        "    for path in {parent(directory.path(path)) for path in paths}:\n",
        ("power",),
        ("disk",),
    ),
}


def mutate(folder, mutation):
    shutil.copytree(ROOT / "spark_arrow_ipc", folder / "spark_arrow_ipc", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "examples", folder / "examples")  # one of the directed tests reads it
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    path = folder / "spark_arrow_ipc" / "table" / mutation.module
    text = path.read_text()
    assert mutation.before in text, f"{mutation.module} has no {mutation.before!r}"
    path.write_text(text.replace(mutation.before, mutation.after))


def find_by_tests(folder):
    """Return the name of the first directed test that fails, or None."""
    options = ["-q", "-x", "-n", "0", "-p", "no:cacheprovider", "-m", "not nightly", "-k", "not schedules"]
    command = [sys.executable, "-m", "pytest", *options, *TESTS]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode in {0, 1}, done.stdout + done.stderr  # else no test ran
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0].partition("::")[2].partition(" - ")[0] if failed else None


def find_by_schedules(folder, mutation, count):
    """Return the line of the first schedule that violates something, or None."""
    for kind in mutation.kinds:
        for scene in mutation.scenes:
            options = ["--kind", kind, "--scene", scene, "--count", str(count), "--stop"]
            command = [sys.executable, PROGRAM, *options]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode:
                lines = (done.stdout.splitlines() or done.stderr.splitlines())[-1:]
                return f"{kind} {scene}: {lines[0].strip()}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--only", default="")
    parser.add_argument("--all", action="store_true", help="try schedules too where a directed test finds it")
    arguments = parser.parse_args()
    missed = 0
    for name, mutation in MUTATIONS.items():
        if arguments.only not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            mutate(Path(folder), mutation)
            test = find_by_tests(Path(folder))
            is_due = test is None or arguments.all
            schedule = find_by_schedules(Path(folder), mutation, arguments.count) if is_due else None
        missed += test is None and schedule is None
        print(f"{name}: {test or 'no test'}; {schedule or ('no schedule' if is_due else 'not tried')}", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
