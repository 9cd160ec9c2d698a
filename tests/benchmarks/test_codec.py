"""The codec's benchmark runs, at a size that says nothing."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is the contender")
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import codec


@pytest.mark.exhaustive
def test_every_figure_is_measured_and_printed():
    found = list(codec.figures(repeats=1, batches=3, tiny_batches=5, columns=20))
    assert 17 == len(found)
    assert all(figure.ours >= 0 and figure.bar and figure.name in figure.line() for figure in found)
