"""`benchmarks/small.py` at a small size: every contender of every case writes or reads what it should."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("polars")
pytest.importorskip("nanoarrow")
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import small


@pytest.mark.nightly
def test_every_contender_of_every_case_runs(monkeypatch, tmp_path):
    for name in ("FILES", "TINY_BATCHES", "WIDE_BATCHES", "LARGE_BATCHES"):
        monkeypatch.setattr(small, name, 2)
    monkeypatch.setattr(small, "WIDE_COLUMNS", 3)
    monkeypatch.setattr(small, "LARGE_ROWS", 5)
    measured = {case.name: small.measure(case, 1) for case in small.cases(tmp_path)}
    assert {"write 2 files", "open 2 files", "read 2 batches of 3 columns"} <= measured.keys()
    assert all({"ours", "pyarrow"} <= seconds.keys() for seconds in measured.values())
    assert {1} == {len(turns) for seconds in measured.values() for turns in seconds.values()}


def test_ours_and_pyarrow_write_the_same_rows(tmp_path):
    from spark_arrow_ipc.arrow import RecordBatch

    batch = small.rows(7)
    small.write_ours(str(tmp_path / "ours"), RecordBatch.from_arrow(batch), 2)
    small.write_pyarrow(str(tmp_path / "theirs"), batch, 2)
    ours, theirs = (small.pa.ipc.open_file(str(tmp_path / name)).read_all() for name in ("ours", "theirs"))
    assert ours.equals(theirs)
