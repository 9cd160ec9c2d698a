"""A sample of the random SQL that `tests/programs/random_queries.py` sets beside Parquet; nightly runs have more."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "tests" / "programs" / "random_queries.py"


@pytest.mark.nightly
def test_answers_are_those_of_parquet():
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, str(PROGRAM), "--queries", "12", "--seed", "2"]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert 0 == done.returncode, done.stdout[-4000:]
    names = ("queries", "narrowed", "aggregated")
    queries, narrowed, aggregated = (int(re.search(rf"'{name}': (\d+)", done.stdout)[1]) for name in names)
    assert 12 == queries
    assert narrowed >= 9
    assert aggregated >= 2
