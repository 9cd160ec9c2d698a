"""The kill loop through Spark, at one step. Long: python tests/faults/spark_kill_loop.py --steps jvm --random 30."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.nightly
@pytest.mark.parametrize(("victim", "point"), [("jvm", "committed.put"), ("process", "named.file")])
def test_a_driver_that_is_killed_around_its_entry_loses_and_doubles_nothing(tmp_path, victim, point):
    answer = subprocess.run(
        [sys.executable, str(HERE / "spark_kill_loop.py"), "--steps", victim, "--points", point, "--folder", str(tmp_path)],
        capture_output=True, text=True, timeout=1800, env={**os.environ, "PYTHONPATH": str(HERE.parents[1])},
    )  # fmt: skip
    assert 0 == answer.returncode, answer.stderr
    assert {"kills": 3} == json.loads(answer.stdout)[f"steps, {victim} killed"], "one for each mode"
