"""The kill loops, short. Long: python tests/faults/kill_loop.py [--copies] --steps --repeat 20 --random 300."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from table_jobs import MODES

from spark_arrow_ipc.storage.failpoint import POINTS

HERE = Path(__file__).parent
STORAGES = [pytest.param((), id="renames"), pytest.param(("--copies",), id="copies", marks=pytest.mark.nightly)]


def run(*arguments, folder):
    answer = subprocess.run(
        [sys.executable, str(HERE / "kill_loop.py"), *arguments, "--folder", str(folder)],
        capture_output=True, text=True, timeout=600, env={**os.environ, "PYTHONPATH": str(HERE.parents[1])},
    )  # fmt: skip
    assert 0 == answer.returncode, answer.stderr
    return json.loads(answer.stdout)


@pytest.mark.nightly
@pytest.mark.parametrize("how", [(), ("--copies",), ("--server", "seaweedfs")], ids=["renames", "copies", "seaweedfs"])
def test_killed_at_every_edge_in_every_mode(tmp_path, how):
    """All edges but one for each mode, and three of a process that ends a job, in two ways and two modes."""
    seen = run("--steps", *how, folder=tmp_path)["steps"]
    assert (len(POINTS) - 1) * len(MODES) + 3 * 2 * 2 == sum(seen.values())
    assert seen["kills"] > 0.8 * sum(seen.values())
    assert [] == list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("how", STORAGES)
def test_killed_at_random_moments(tmp_path, how):
    seen = run("--random", "20", *how, folder=tmp_path)["random"]
    assert 20 == seen.get("old", 0) + seen.get("new", 0) == seen.get("killed", 0) + seen.get("survived", 0)


@pytest.mark.nightly
def test_writers_that_race_and_are_killed(tmp_path):
    assert 1 == run("--server", "moto", "--races", "1", folder=tmp_path)["races"]["runs"]
