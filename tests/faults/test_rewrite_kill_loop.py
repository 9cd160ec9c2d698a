"""The kill loop of rewrites, short. Long: python tests/faults/rewrite_kill_loop.py --kills 100 --spark 10."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "kills"), [("kills", 3), pytest.param("spark", 2, marks=pytest.mark.nightly)], ids=["forks", "Spark"]
)
def test_drivers_that_are_killed_lose_and_double_nothing(tmp_path, mode, kills):
    answer = subprocess.run(
        [sys.executable, str(HERE / "rewrite_kill_loop.py"), f"--{mode}", str(kills), "--folder", str(tmp_path)],
        capture_output=True, text=True, timeout=600, env={**os.environ, "PYTHONPATH": str(HERE.parents[1])},
    )  # fmt: skip
    assert 0 == answer.returncode, answer.stderr
    assert kills == json.loads(answer.stdout.splitlines()[-1])[mode]["killed"]
    assert [] == list(tmp_path.iterdir())
