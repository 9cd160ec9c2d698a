"""States: what is remembered, and for how long."""

import log_cases
import numpy as np

from spark_arrow_ipc.table import state
from spark_arrow_ipc.table.entry import Entry, Operation, Removed
from spark_arrow_ipc.table.files import Files
from spark_arrow_ipc.table.names import new_id
from spark_arrow_ipc.table.state import State


def test_ended_jobs_are_remembered_by_number_and_the_horizon_says_since_when(monkeypatch):
    monkeypatch.setattr(state, "REMEMBERED", 3)
    jobs = [new_id() for _ in range(5)]
    after, previous = State(log_cases.TABLE), ""
    for number, job in enumerate(jobs, 1):
        entry = Entry(number, previous, Operation.APPEND, job=job, base=number - 1)
        after, previous = after.after(entry), entry.id
    assert jobs[2:] == list(after.ended)
    assert 3 == after.horizon


def test_a_closed_tombstone_stays_until_the_horizon_has_passed_it(monkeypatch):
    """A reader that listed before the close must hide the file."""
    monkeypatch.setattr(state, "REMEMBERED", 2)
    removed = Removed("other.arrow", 5, "v1")
    entries = [
        Entry(1, "", Operation.OVERWRITE, job=new_id(), remove=(removed,)),
        Entry(2, "", Operation.CLOSE, close=(removed,)),
        *(Entry(number, "", Operation.APPEND, job=new_id()) for number in (3, 4, 5)),
    ]
    steps = [State(log_cases.TABLE).after(*entries[:stop]) for stop in range(1, 6)]
    assert [{removed}, set(), set(), set(), set()] == [set(step.tombstones) for step in steps]
    assert [set(), {removed}, {removed}, {removed}, set()] == [set(step.closed) for step in steps]


def test_a_closed_tombstone_of_a_managed_file_is_forgotten():
    """Its name hides it; a thousand overwrites of a large table would make each state as large as all of their files."""
    removed = Removed("a.arrow", 5)
    before = State(log_cases.TABLE).after(Entry(1, "", Operation.OVERWRITE, job=new_id(), remove=(removed,)))
    after = before.after(Entry(2, before.entry, Operation.CLOSE, close=(removed,)))
    assert ({}, {}) == (after.tombstones, after.closed)


def test_a_restored_table_forgets_the_tokens_of_later_jobs():
    entries = [
        Entry(1, "", Operation.APPEND, job=new_id(), token="a"),
        Entry(2, "", Operation.APPEND, job=new_id(), token="b"),
        Entry(3, "", Operation.RESTORE, job=new_id(), restores=1, queries=(("q", 4, 1),)),
    ]
    after = State(log_cases.TABLE).after(*entries)
    assert {"a": 1} == after.tokens
    assert {"q": (4, 1)} == after.queries
    assert 3 == len(after.ended), "their names are used"


def test_a_state_of_many_files_costs_little_to_replay():
    """Files are joined once: a replay of 32 entries onto 20,000 files copies them once."""
    rows = [(f"k={i % 7}/part-{i:05d}-{log_cases.TABLE}-{'0' * 32}.arrow", i, i, i) for i in range(20_000)]
    big = Entry(1, "", Operation.APPEND, job=new_id(), add=Files.of(rows, 1))
    after = State(log_cases.TABLE).after(big)
    small = [
        Entry(
            n,
            "",
            Operation.REWRITE,
            job=new_id(),
            remove=(Removed(rows[n][0], rows[n][1]),),
            add=Files.of([(f"n{n}.arrow", 1, 1, 1)], n),
        )
        for n in range(2, 34)
    ]
    calls = []
    real = state.concat_files
    state.concat_files = lambda parts: calls.append(len(parts)) or real(parts)
    try:
        after = after.after(*small)
    finally:
        state.concat_files = real
    assert [33] == calls
    assert 20_000 == len(after.files)
    assert np.array_equal(np.sort(after.files.numbers)[-32:], np.arange(2, 34))
