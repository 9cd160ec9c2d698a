"""Some copies beside four writers. Long: python tests/faults/copies.py --copies 500."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import copies


@pytest.mark.parametrize(
    "number", [pytest.param(8, marks=pytest.mark.exhaustive), pytest.param(100, marks=pytest.mark.nightly)]
)
def test_a_copy_is_one_state_or_fsck_says_that_it_is_not(number):
    count = copies.run(number, seed=number, minutes=15)
    assert count["copies"] == number
    assert count["arrowipc copy: whole"] == number / len(copies.WAYS)
