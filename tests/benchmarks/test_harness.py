"""The benchmarks run: a file of 4 MB, one turn each. No figure is judged here."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the benchmarks need the extra 'spark'")

RUN = Path(__file__).with_name("run.py")
TINY = ["--rows", "100000", "--batches", "8", "--max-partition-bytes", "1m"]

pytestmark = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the benchmarks read Linux' /proc")


def run(*words):
    done = subprocess.run([sys.executable, RUN, *words], capture_output=True, text=True, env=dict(os.environ))
    assert 0 == done.returncode, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def scan(tmp_path_factory):
    """What a tiny scan prints, and its values."""
    values = tmp_path_factory.mktemp("benchmarks") / "values.json"
    contenders = ["null", "arrowipc", "pyarrow", "parquet"]
    printed = run("scan", *TINY, "--pairs", "1", "--warm-up", "0", "--contenders", *contenders, "--json", str(values))
    return printed, json.loads(values.read_text())


def test_every_contender_is_measured(scan):
    """Python sources have workers; Parquet has none, and nobody else's are counted as its."""
    _, values = scan
    assert ["null", "arrowipc", "pyarrow", "parquet"] == list(values)
    for name, [cost] in values.items():
        assert cost["wall"] > 0
        assert cost["jvm"] > 0
        assert (name != "parquet") == (cost["peak_nbytes"] > 0)


def test_the_bars_are_printed(scan):
    printed, _ = scan
    assert "worker CPU s a GB above null: " in printed
    assert "CPU of JVM and workers, times null: " in printed
    assert "8 record batches, 8 tasks" in printed
