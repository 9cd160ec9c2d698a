"""Commits under crashes and interleavings: `commit_machine` with few examples; more by tests/faults/state_machine.py."""

import pytest
from commit_machine import MACHINES
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from spark_arrow_ipc.dataset.write.publisher import TIMING, Timing


@pytest.fixture
def timing(monkeypatch):
    """Give the machine's clock back."""
    for name in Timing.__slots__:
        monkeypatch.setattr(TIMING, name, getattr(TIMING, name))


@pytest.mark.slow
@pytest.mark.parametrize(("publishing", "examples"), [("renames", 100), ("copies", 50)])
@pytest.mark.usefixtures("timing")
def test_readers_see_exactly_what_is_committed(publishing, examples):
    few = settings(
        max_examples=examples, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck)
    )
    run_state_machine_as_test(MACHINES[publishing], settings=few)
