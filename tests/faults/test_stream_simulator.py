"""The simulator of streams, short. Long: python tests/faults/stream_simulator.py --trials 1000."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from stream_simulator import MODES, run


@pytest.mark.slow
@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("late_share", [0.0, 0.1])
@pytest.mark.parametrize("mode", MODES)
def test_every_file_is_read_once_whatever_dies(mode, late_share):
    sums = run(mode, 3, late_share)
    assert (0, 0) == (sums["wrong trials"], sums["doubled"])
    assert 300 < sums["files"]
    assert sums["lost"] == (sums["named"] if mode == "window" else 0)
