"""The benchmark beside the codec's peers runs, at a size that says nothing."""

import sys
from itertools import islice
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import peers


@pytest.mark.parametrize("cases", peers.CASES)
def test_contenders_take_turns(cases, tmp_path, monkeypatch):
    monkeypatch.setattr(peers, "CODEC_ROWS", 100)
    monkeypatch.setattr(peers, "CODEC_BATCHES", 2)
    make, contenders = peers.CASES[cases]
    names = []
    for name, path in islice(make(tmp_path, 20_000), 2):
        names.append(name)
        found = peers.measured(path, contenders, turns=1)
        assert found.keys() == contenders.keys()
        assert all(cpu >= 0 and wall > 0 for cpu, wall in found.values())
    assert len(set(names)) == 2
