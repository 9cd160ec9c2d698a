"""The kill loops, short. Long: python tests/faults/kill_loop.py [--copies] --steps --repeat 20 --random 300."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_arrow_ipc.dataset.write import WriteMode
from spark_arrow_ipc.storage.failpoint import OF_COPIES, POINTS

HERE = Path(__file__).parent


def run(*arguments, folder):
    answer = subprocess.run(
        [sys.executable, str(HERE / "kill_loop.py"), *arguments, "--folder", str(folder)],
        capture_output=True, text=True, timeout=300, env={**os.environ, "PYTHONPATH": str(HERE.parents[1])},
    )  # fmt: skip
    assert 0 == answer.returncode, answer.stderr
    return json.loads(answer.stdout)


@pytest.mark.parametrize(
    ("publishing", "points"),
    [
        pytest.param((), len(POINTS) - len(OF_COPIES), id="renames", marks=pytest.mark.exhaustive),
        pytest.param(("--copies",), len(POINTS), id="copies", marks=pytest.mark.nightly),
    ],
)
def test_killed_at_every_step_in_every_mode(tmp_path, publishing, points):
    """An append never passes the two points of C5."""
    found = run("--steps", *publishing, folder=tmp_path)["steps"]
    assert {"kills": points * len(WriteMode) - 2, "not reached": 2} == found
    assert [] == list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("publishing", "jobs"),
    [pytest.param((), 15, id="renames"), pytest.param(("--copies",), 20, id="copies", marks=pytest.mark.nightly)],
)
def test_killed_at_random_moments(tmp_path, publishing, jobs):
    found = run("--random", str(jobs), *publishing, folder=tmp_path)["random"]
    assert jobs == found.get("old", 0) + found.get("new", 0) == found.get("killed", 0) + found.get("survived", 0)
