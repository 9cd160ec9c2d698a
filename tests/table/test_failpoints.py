"""The failure table: a job stops at each edge of its transaction, in each mode, and what readers and the next job then find."""

from contextlib import suppress

import pytest
from table_jobs import (
    APPEND,
    MODES,
    OVERWRITE,
    RESTORE,
    REWRITE,
    Died,
    Job,
    after,
    at,
    die,
    drop,
    foreign,
    left,
    number_of,
    see,
    write,
)

from spark_arrow_ipc.storage.failpoint import TABLE_POINTS, TASK_POINTS
from spark_arrow_ipc.table.log import read_state
from spark_arrow_ipc.table.vacuum import vacuum

FIRST = [("k=1", [1, 2]), ("k=2", [3])]
FILES = [("k=2", [10, 11]), ("k=4", [12])]
COMMITTED = ("committed.put", "collected.")
"""Points that a job passes which is committed."""

NOT_REACHED = {
    (APPEND, "collected.removed"): "it removes nothing",
    **{(RESTORE, point): "no task runs" for point in TASK_POINTS},
}
POINTS = (*TASK_POINTS, *TABLE_POINTS)


def prepared(directory):
    """Return what readers see of a table after its first job, which a restore brings back, and after its second."""
    write(directory, APPEND, FIRST)
    first = see(directory)
    write(directory, OVERWRITE, [("k=2", [4]), ("k=3", [5])], retention=3600)
    vacuum(directory, older_than=-1e10)
    return first, see(directory)


def jobs(directory):
    """Return the jobs that the log says are committed."""
    return {job for job, end in read_state(directory).ended.items() if end.is_committed}


def expected(view, first, mode):
    return after(view, mode, FILES, restored=first)


def run(directory, mode):
    options = {OVERWRITE: {"retention": 0}}.get(mode, {})
    return write(directory, mode, FILES, **options)[0]


def check_at_rest(directory, view):
    """Vacuum changes nothing that readers see, leaves nothing, and does nothing again; the next job goes on."""
    vacuum(directory, older_than=-1e10)
    assert view == see(directory) == foreign(directory)
    assert [] == left(directory)
    number = number_of(directory)
    vacuum(directory, older_than=-1e10)
    assert number == number_of(directory), "a second vacuum finds nothing to do"
    assert ("committed", None) == write(directory, OVERWRITE, FILES)
    assert after({}, OVERWRITE, FILES) == see(directory) == foreign(directory)


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
@pytest.mark.parametrize("point", [point for point in POINTS if point != "aborted.expired"])
def test_a_process_dies(directory, point, mode):
    first, before = prepared(directory)
    jobs_before = jobs(directory)
    with at(point, die) as reached, suppress(Died):
        run(directory, mode)
    assert bool(reached) is ((mode, point) not in NOT_REACHED)
    is_committed = point.startswith(COMMITTED) or not reached
    assert is_committed is (jobs_before != jobs(directory))
    view = expected(before, first, mode) if is_committed else before
    assert view == see(directory)
    check_at_rest(directory, view)


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
@pytest.mark.parametrize("point", POINTS)
def test_a_call_fails(directory, point, mode):
    """The job is aborted as Spark does it, and what it is told of its outcome is so."""
    first, before = prepared(directory)
    jobs_before = jobs(directory)

    def fail():
        raise OSError(5, "Input/output error")

    with at(point, fail) as reached:
        outcome = run(directory, mode)
    is_committed = jobs_before != jobs(directory)
    assert ("committed" if is_committed else "nothing") == outcome
    assert is_committed is (point.startswith((*COMMITTED, "aborted.")) or not reached)
    check_at_rest(directory, expected(before, first, mode) if is_committed else before)


@pytest.mark.parametrize("point", ["aborted.expired", "collected.files", "collected.mark"])
@pytest.mark.parametrize("how", ["abort", "vacuum"])
def test_a_process_dies_that_ends_a_job(directory, point, how):
    _, before = prepared(directory)
    job = Job(directory, OVERWRITE, FILES)
    with at("named.all", die), suppress(Died):
        job.commit()
    with at(point, die, nth=2 if point == "collected.files" else 1) as reached, suppress(Died):
        job.abort() if how == "abort" else vacuum(directory, older_than=-1e10)
    assert reached
    assert before == see(directory)
    check_at_rest(directory, before)


def test_files_of_another_program_are_replaced_once(directory):
    """An overwrite dies when it has removed them; a file of the same name that comes then counts."""
    drop(directory, "k=1/other.arrow", [7])
    with at("committed.put", die), suppress(Died):
        run(directory, OVERWRITE)
    drop(directory, "k=1/other.arrow", [8, 9])
    check_at_rest(directory, {**after({}, OVERWRITE, FILES), "k=1": [8, 9]})


def test_a_rewrite_that_dies_has_the_rows_once(directory):
    _, before = prepared(directory)
    for nth in (1, 2):
        with at("named.file", die, nth=nth), suppress(Died):
            run(directory, REWRITE)
        assert before == see(directory)
    assert "committed" == run(directory, REWRITE)
    check_at_rest(directory, before)
