"""Some copies beside four writers. Long: python tests/faults/copies.py --count 500."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import copies


@pytest.mark.parametrize(
    "number", [pytest.param(4, marks=pytest.mark.exhaustive), pytest.param(100, marks=pytest.mark.nightly)]
)
def test_a_copy_is_one_state_or_fsck_says_that_it_is_not(number):
    counts = copies.run(number, seed=number, seconds=900)
    assert counts["copies"] == number
    assert counts["copy_table: sound"] == number / len(copies.WAYS)
