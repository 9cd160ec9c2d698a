"""The programs that set SQL beside Parquet run, with equal answers, on small tables. No figure is judged here."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the benchmarks need the extra 'spark'")
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the benchmarks read Linux' /proc"),
]
ROOT = Path(__file__).parents[2]
GENERATOR = shutil.which("tpcgen-cli")
NO_GENERATOR = pytest.mark.skipif(GENERATOR is None, reason="tpcgen-cli is not on PATH")
TOOLS = ["--tools", str(Path(GENERATOR or "").parent), "--scale", "0.01"]
PROGRAMS = [
    pytest.param("groupby.py", ["--rows", "5000", "--files", "2", "--queries", "q1", "q3", "q7", "count"], 4, id="groupby"),
    pytest.param("groupby.py", ["--rows", "50", "--files", "1", "--links", "3", "--queries", "count", "extremes"], 2, id="links"),
    pytest.param("tpc.py", ["h", *TOOLS, "--queries", "1", "6"], 2, id="tpch", marks=NO_GENERATOR),
    pytest.param("tpc.py", ["ds", *TOOLS, "--queries", "3", "96"], 2, id="tpcds", marks=NO_GENERATOR),
]  # fmt: skip


@pytest.mark.parametrize(("program", "words", "queries"), PROGRAMS)
def test_answers_are_equal(program, words, queries, tmp_path):
    figures = tmp_path / "figures.json"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, str(ROOT / "benchmarks" / program), "--folder", str(tmp_path / "data"), "--turns", "1"]
    done = subprocess.run([*command, "--json", str(figures), *words], capture_output=True, text=True, env=env)
    assert 0 == done.returncode, done.stderr[-2000:]
    assert f"answers that differ: none of {queries}" in done.stdout
    assert "geometric mean: " in done.stdout
    assert queries == len(json.loads(figures.read_text()))
