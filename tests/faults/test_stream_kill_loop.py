"""The kill loop of streams, for one driver. Long: python tests/faults/stream_kill_loop.py --runs 200."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.nightly
@pytest.mark.parametrize("store", [[], ["--store", "moto"]], ids=["disk", "store"])
def test_a_driver_that_is_killed_loses_and_doubles_nothing(tmp_path, store):
    answer = subprocess.run(
        [sys.executable, str(HERE / "stream_kill_loop.py"), "--runs", "2", *store],
        capture_output=True, text=True, timeout=600,
        env={**os.environ, "PYTHONPATH": str(HERE.parents[1]), "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert 0 == answer.returncode, answer.stdout + answer.stderr
    assert {"runs": 2, "wrong": 0}.items() <= json.loads(answer.stdout.splitlines()[-1]).items()
