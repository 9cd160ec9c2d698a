"""Take out one mend of the commit after the other, and let the state machine find what is lost, doubled or hidden then.

    python tests/faults/mutations.py [--examples 2000] [--seed 1] [--only D5]

Each mutation is made in a copy of the package, over storages that rename and over storages that copy. Prints one line
for each; ends with 0 if each was found over one of the two, and with 1 if not.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = "spark_arrow_ipc"
PROGRAM = "tests/faults/state_machine.py"
BESIDE = ("tests/fakes/commit_machine.py", "tests/fakes/memory_storage.py", "tests/builders/job_plans.py", PROGRAM)

LOG, STORED, FILES = "commit_log/log.py", "commit_log/stored_record.py", "commit_log/dataset_directory.py"
APPEND, APPLY = "write/record_chain.py", "write/roll_forward.py"
EXISTING, NESTED = "write/existing_files.py", "write/nested.py"

MUTATIONS = [
    # what is taken out, with the finding that it mends; the file below dataset/; a text of it, and what it becomes
    ("D1 files of ours are known by their names", FILES, "if has_own_name(self.path):", "if False:"),
    (
        "D2 what others added meanwhile is in the schema of the record",
        "write/conflicts.py",
        "schema = new.beside(there.schema, there.path)",
        "new.beside(there.schema, there.path)",
    ),
    (
        "D2 a read has the columns of the newest record",
        "scan/schemas.py",
        "if recorded is None:",
        "if False:",
    ),
    (
        "D2 a job that is taken back takes its columns with it",
        "write/record_chain.py",
        "return before.schema",
        "return record.schema",
    ),
    (
        "D3 readers apply the records of all datasets around a directory",
        "listing/committed_view.py",
        "dataset = None if dataset == parent(dataset) else self._datasets.get(parent(dataset))",
        "dataset = None",
    ),
    (
        "D4 records name the job before them",
        LOG,
        "if not all(record.follows(before) for before, record in pairwise(changes)):",
        "if any(record.is_of_job and record.jobid not in newest.jobs for record in records):",
    ),
    (
        "D5 a mark names its job",
        STORED,
        "return _first_bytes(dataset, dataset.done_mark(record.seq)).startswith(record.first_bytes)",
        "return True",
    ),
    ("D5 a reader looks for whose mark it is", STORED, "if marked == job_in(first) else None", ""),
    ("D5 the record is looked for before it is marked", APPLY, "if not check_is_there(dataset, record):", "if False:"),
    (
        "D5 the record is looked for before files are removed",
        APPLY,
        "    if record.removes or record.documents:\n        check_is_there(",
        "    if False:\n        check_is_there(",
    ),
    (
        "D5 a new record follows the one that it names",
        STORED,
        "if record.seq == 1 or _job(",
        "if True or _job(",
    ),
    (
        "D5 only an own record is deleted",
        APPEND,
        "if is_there(dataset, record):\n        dataset",
        "if True:\n        dataset",
    ),
    ("D6 after a long pause the outcome is unknown", APPEND, "if newest.seq - record.seq < REMEMBERED:", "if True:"),
    (
        "D13 a first job looks for other datasets before its record",
        "write/commit.py",
        "check_alone(staging.dataset, before if intent.copies is None else None)",
        "pass",
    ),
    ("D13 a first job minds what is staged above", NESTED, "    if first:\n        for", "    if False:\n        for"),
    ("D13 a first job minds what is staged below", NESTED, "if first and listing.staging and", "if False and"),
    (
        "D14 a placeholder is listed before it is replaced",
        EXISTING,
        "listed = existing if existing.rows is None else _listed(dataset)",
        "listed = existing",
    ),
]


def mutated(folder, path, text, other):
    """Copy the package and the machine into a folder, and change the one place of a text."""
    shutil.copytree(ROOT / PACKAGE, folder / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    for name in BESIDE:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    changed = folder / PACKAGE / "dataset" / path
    source = changed.read_text()
    if source.count(text) != 1:
        raise SystemExit(f"{path} has {source.count(text)} places of {text!r}")
    changed.write_text(source.replace(text, other))


def run(folder, publishing, chosen):
    """Return what the machine says of the package in a folder, or None if it finds nothing."""
    command = [sys.executable, str(folder / PROGRAM), "--examples", str(chosen.examples), "--seed", str(chosen.seed)]
    answer = subprocess.run(
        [*command, "--publishing", publishing, "--first"], capture_output=True, text=True, env={}, cwd=folder
    )
    if answer.returncode == 0:
        return None
    found = re.search(r"^violated .*", answer.stdout, re.MULTILINE)
    if found is None:
        raise SystemExit(answer.stderr)
    return found[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="the mutations of one finding")
    chosen = parser.parse_args()
    missed = 0
    for what, path, text, other in MUTATIONS:
        if not what.startswith(chosen.only):
            continue
        found = {}
        with tempfile.TemporaryDirectory() as folder:
            mutated(Path(folder), path, text, other)
            for publishing in ("renames", "copies"):
                found[publishing] = run(Path(folder), publishing, chosen)
        missed += not any(found.values())
        print(f"{what}: " + "; ".join(f"{name}: {words or 'not found'}" for name, words in found.items()), flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
