"""Commits under crashes and interleavings: `commit_machine` with few examples; more by tests/faults/state_machine.py."""

from commit_machine import CommitMachine
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test


def test_readers_see_exactly_what_is_committed():
    few = settings(max_examples=150, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(CommitMachine, settings=few)
