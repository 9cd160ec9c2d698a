"""Inputs that broke other readers, and inputs that broke ours: decoded soundly or refused, soon and in little memory.

The first are the fuzz files of Arrow's own corpus (ARROW_IPC_CORPUS). What our reader makes of each is found in one
child process with a bounded address space, so that an allocation by a length that a file only claims cannot pass.
"""

import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import corpus
import pytest
from fuzz import mutants, seeds, targets

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t

MOST_SECONDS = 5.0
MOST_MEMORY = 512 << 20
"""Bytes of address space beyond what the interpreter and the imports have."""

MARKS = ("clusterfuzz", "/crash-", "forward-compatibility", "tensor")

READ_ALL = """
import json, os, resource, sys, time
from spark_arrow_ipc import ipc
from spark_arrow_ipc.errors import ArrowIpcError

for path in (sys.argv[1], *sys.argv[1:]):  # the first one twice: what is imported late is imported before the limit
    pages = int(open("/proc/self/statm").read().split()[0])
    if path == sys.argv[1]:
        limit = pages * resource.getpagesize() + int(os.environ["MOST_MEMORY"])
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    start = time.process_time()
    try:
        with ipc.open(path) as reader:
            rows = [batch.num_rows for batch in reader]
        outcome = {"rows": rows}
    except ArrowIpcError as error:
        outcome = {"refused": f"{type(error).__name__}: {error}"}
    except BaseException as error:
        outcome = {"wrong": f"{type(error).__name__}: {error}"}
    print(json.dumps([path, time.process_time() - start, outcome]), flush=True)
"""


def fuzz_entries():
    directory = corpus.root()
    if directory is None:
        return ()
    return tuple(entry for entry in corpus.entries(directory) if any(mark in entry.name for mark in MARKS))


@pytest.fixture(scope="module")
def outcomes():
    """What a child process with little memory says of each fuzz file: seconds, and the outcome."""
    if not fuzz_entries():
        pytest.skip(f"{corpus.VARIABLE} is not set")
    paths = [str(entry.path) for entry in fuzz_entries()]
    child = subprocess.run(
        [sys.executable, "-c", READ_ALL, *paths],
        env=os.environ | {"MOST_MEMORY": str(MOST_MEMORY)},
        capture_output=True,
        text=True,
        timeout=120 + len(paths) * MOST_SECONDS,
    )
    assert child.returncode == 0, child.stderr
    return {path: (seconds, outcome) for path, seconds, outcome in map(json.loads, child.stdout.splitlines())}


@pytest.mark.slow
def test_fuzz_files_are_decoded_or_refused_soon_and_in_little_memory(outcomes):
    assert len(fuzz_entries()) >= 73
    assert {str(entry.path) for entry in fuzz_entries()} == set(outcomes)
    assert {path: outcome for path, (_, outcome) in outcomes.items() if "wrong" in outcome} == {}
    assert {path: seconds for path, (seconds, _) in outcomes.items() if seconds > MOST_SECONDS} == {}


@pytest.mark.slow
def test_fuzz_files_that_are_decoded_equal_what_pyarrow_reads(outcomes):
    """Each of them passes pyarrow's `validate(full=True)`, and holds the same."""
    pytest.importorskip("pyarrow")
    import differential

    unlike = {}
    for entry in fuzz_entries():
        if "rows" not in outcomes[str(entry.path)][1]:
            continue
        content = entry.path.read_bytes()
        is_file = content.startswith(b"ARROW1")
        theirs = differential.read_theirs(content, is_file=is_file)
        unlike[entry.path.name] = (
            "pyarrow refuses it"
            if theirs is None
            else differential.difference(differential.read_ours(content, is_file=is_file), theirs)
        )
    assert {name: found for name, found in unlike.items() if found is not None} == {}


def test_the_limit_of_memory_holds():
    """The child would not notice a large allocation otherwise."""
    program = "import os, resource\nresource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))\nbytes(2**31)"
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert "MemoryError" in child.stderr
    assert resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY


# ---- found by our own fuzzing


@pytest.mark.parametrize("name", ["nulls.arrow", "nulls.arrows"])
def test_null_arrays_are_all_null_whatever_the_node_says(name):
    """A type without a validity bitmap has no null count of its own (found by tests/programs/differential.py)."""
    content = (Path(__file__).parents[1] / "data" / name).read_bytes()
    node = (3).to_bytes(8, "little") * 2
    assert content.count(node)
    changed = content.replace(node, (3).to_bytes(8, "little") + (1).to_bytes(8, "little"))
    with ipc.open(changed) as reader:
        columns = [column for batch in reader for column in batch.columns if isinstance(column.type, t.Null)]
    assert columns
    assert [column.length for column in columns] == [column.count_nulls() for column in columns]


# ---- the fuzz targets


SEEDS = {target: sorted(contents) for target, contents in seeds.seeds().items()}


def test_every_target_has_seeds():
    assert set(SEEDS) == set(targets.TARGETS)


@pytest.mark.slow
@pytest.mark.parametrize("target", targets.TARGETS)
def test_target_takes_its_seeds(target):
    """So a change of the reader's interface shows here, and not in the next run of the fuzzer."""
    for content in SEEDS[target][:100]:
        targets.TARGETS[target](content)
        targets.TARGETS[target](content[: len(content) // 2])


# ---- structured mutants


@pytest.mark.exhaustive
def test_mutants_leak_nothing():
    """A sample; `python tests/fuzz/mutants.py --count 1000000` runs more."""
    sound, leaks = mutants.run(0, 300)
    assert leaks == []
    assert 30 < sound < 270


@pytest.mark.slow
def test_mutants_of_tensors_leak_nothing():
    """A sample; `python tests/fuzz/mutants.py --tensors --count 100000` runs more."""
    sound, leaks = mutants.run(0, 300, of_tensors=True)
    assert leaks == []
    assert 30 < sound < 270


@pytest.mark.slow
def test_a_mutant_is_its_number():
    assert mutants.mutant(7) == mutants.mutant(7)
    assert len({mutants.mutant(number)[1] for number in range(20)}) == 20


LEAKS = [
    ("an error of another kind", "raise ZeroDivisionError", "mutant 1 .*ZeroDivisionError"),
    ("a hang", "while True: pass", "mutant 1 .*more than 1 s"),
    ("too much memory", "bytearray(1 << 33)", "mutant 1 .*MemoryError"),
    ("the end of the process", "import os; os._exit(3)", "mutant 1: the process ended with 3"),
]


@pytest.mark.slow
@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize(("program", "says"), [leak[1:] for leak in LEAKS], ids=[leak[0] for leak in LEAKS])
def test_a_leak_is_found_and_costs_its_mutant_only(monkeypatch, program, says):
    code = compile(program, "leak", "exec")

    def read(content, *, is_file):
        if content == mutants.mutant(1)[1]:
            exec(code, {})
        return True

    monkeypatch.setattr(mutants, "read", read)
    monkeypatch.setattr(mutants, "MOST_SECONDS", 1)
    sound, leaks = mutants.run(0, 4)
    assert sound == 3
    (leak,) = leaks
    assert re.search(says, leak, re.DOTALL)
