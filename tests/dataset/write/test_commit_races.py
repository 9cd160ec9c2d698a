"""Jobs of several processes at once in one directory: nothing is lost, nothing doubled, and one of two overwrites wins."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from commit_jobs import APPEND, foreign, leftovers, ours, save

TESTS = Path(__file__).parents[2]

PROGRAM = """
import json, sys
sys.path.insert(0, sys.argv[1])
from commit_jobs import WriteMode, finish, planned
from spark_arrow_ipc.dataset.write.commit import abort
from spark_arrow_ipc.errors import ConcurrentWriteError
path, mode, name, jobs = sys.argv[2:]
published, refused = [], []
for number in range(int(jobs)):
    text = f"{name}.{number}"
    plan, outputs = planned(path, WriteMode(mode), "k=1:" + text, f"k={name}:" + text)
    try:
        finish(plan, outputs)
    except ConcurrentWriteError:
        abort(plan)
        refused.append(text)
    else:
        published.append(text)
print(json.dumps([published, refused]))
"""


def run(path, *writers, failpoint=None):
    """Run writers, each a mode and a number of jobs, at once; return what each published, and what was refused."""
    environment = {**os.environ, "PYTHONPATH": str(TESTS.parent)}
    if failpoint is not None:
        environment["ARROWIPC_FAILPOINT"] = failpoint
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(TESTS / "builders"), str(path), mode, f"{mode}{i}", str(jobs)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
        )
        for i, (mode, jobs) in enumerate(writers)
    ]  # fmt: skip
    answers = []
    for process in running:
        out, err = process.communicate(timeout=120)
        assert 0 == process.returncode, err
        answers.append(json.loads(out))
    return [answer[0] for answer in answers], [answer[1] for answer in answers]


def rows(names):
    return sorted(f"k={directory}:{name}" for name in names for directory in ("1", name.partition(".")[0]))


@pytest.mark.slow
def test_appends_at_once_keep_each_other(tmp_path):
    published, refused = run(tmp_path, ("append", 10), ("append", 10), ("append", 10))
    assert [[], [], []] == refused
    assert rows([name for names in published for name in names]) == foreign(tmp_path) == ours(tmp_path)
    assert 60 == len(foreign(tmp_path))
    assert [] == leftovers(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["overwrite", "dynamic"])
def test_overwrites_at_once_leave_the_last_of_them(tmp_path, mode):
    save(tmp_path, APPEND, "k=1:old")
    published, _ = run(tmp_path, (mode, 10), (mode, 10))
    first = [text for text in foreign(tmp_path) if text.startswith("k=1:")]
    assert 1 == len(first)
    assert first[0].removeprefix("k=1:") in [name for names in published for name in names]
    assert foreign(tmp_path) == ours(tmp_path)
    if mode == "overwrite":
        assert rows([first[0].removeprefix("k=1:")]) == foreign(tmp_path)
    else:
        assert [f"k=dynamic{i}:{names[-1]}" for i, names in enumerate(published) if names] == foreign(tmp_path)[1:]
    assert [] == leftovers(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["overwrite", "dynamic"])
def test_appends_against_overwrites_are_never_torn(tmp_path, mode):
    """Every job's two files are there, or both are gone (of a static overwrite), and refused jobs left nothing."""
    published, refused = run(tmp_path, ("append", 15), (mode, 15))
    assert [] == refused[0]
    names = {text.partition(":")[2] for text in foreign(tmp_path)}
    assert names <= {name for names in published for name in names}
    if mode == "overwrite":
        assert rows(names) == foreign(tmp_path)
    assert len(set(foreign(tmp_path))) == len(foreign(tmp_path))
    assert foreign(tmp_path) == ours(tmp_path)


@pytest.mark.slow
@pytest.mark.one_in(8, "exhaustive")
@pytest.mark.parametrize(
    "point",
    [
        "planned.mark",
        "named.file",
        "named.all",
        "committed.asked",
        "committed.put",
        "collected.removed",
        "collected.mark",
    ],
)
def test_processes_that_pause_at_a_step_are_overtaken_and_lose_nothing(tmp_path, point):
    """Each process stops at its second passage, and the others finish its job or overtake it."""
    save(tmp_path, APPEND, "k=1:old")
    published, refused = run(tmp_path, ("append", 4), ("append", 4), ("dynamic", 4), failpoint=f"{point}:delay=0.3@2")
    assert [[], []] == refused[:2]
    seen = foreign(tmp_path)
    assert seen == ours(tmp_path)
    assert len(set(seen)) == len(seen)
    for names in published[:2]:  # partitions of their own, which no other job overwrites
        own = [f"k={name.partition('.')[0]}:{name}" for name in names]
        assert own == [text for text in seen if text in own]
        assert 4 == len(own)
    assert [] == leftovers(tmp_path)
