"""Rows are sorted within files, in runs of so many bytes."""

import pytest
from job_plans import plan_job

from spark_arrow_ipc.arrow import RecordBatch, Schema, types
from spark_arrow_ipc.arrow.types import field
from spark_arrow_ipc.dataset.write import WriteMode
from spark_arrow_ipc.dataset.write import task as sorting
from spark_arrow_ipc.dataset.write.task import Order, sort_into_runs, write_runs, write_task

SCHEMA = Schema.of([field("a", types.int64), field("b", types.utf8)])


def batch(a, b, schema=SCHEMA):
    return RecordBatch.from_pydict({"a": a, "b": b}, schema)


BATCHES = [batch([3, None, 1], ["x", "y", "z"]), batch([2, 1], ["v", None]), batch([9], ["w"]), batch([0], ["u"])]


def runs(nbytes, columns, rows=2, batches=BATCHES):
    found = sort_into_runs(batches, Order(columns, nbytes), rows=rows)
    return [[[tuple(row.values()) for row in part.to_pylist()] for part in run] for run in found]


CASES = [
    ("one run", 1 << 20, (0,), [[(None, "y"), (0, "u")], [(1, "z"), (1, None)], [(2, "v"), (3, "x")], [(9, "w")]]),
    ("two columns", 1 << 20, (0, 1), [[(None, "y"), (0, "u")], [(1, None), (1, "z")], [(2, "v"), (3, "x")], [(9, "w")]]),
]  # fmt: skip


@pytest.mark.parametrize(("nbytes", "columns", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_order(nbytes, columns, expected):
    assert [expected] == runs(nbytes, columns)


def test_a_run_has_at_most_so_many_bytes_and_at_least_a_row():
    assert [1] * 7 == [sum(map(len, run)) for run in runs(1, (0,))]
    several = [sum(map(len, run)) for run in runs(60, (0,))]
    assert sum(several) == 7
    assert 1 < len(several) < 4
    assert [] == runs(100, (0,), batches=[])


def test_a_batch_that_is_larger_than_a_run_is_cut():
    whole = batch([*range(1000, 0, -1)], ["é"] * 1000)
    found = runs(6_000, (0,), rows=1000, batches=[whole, batch([2000], ["y"])])
    lengths = [sum(map(len, run)) for run in found]
    assert sum(lengths) == 1001
    assert all(150 < length < 500 for length in lengths[:-1])
    rows = [[row for part in run for row in part] for run in found]
    assert rows == [sorted(run) for run in rows]
    assert sorted(row for run in rows for row in run) == [*((i, "é") for i in range(1, 1001)), (2000, "y")]


@pytest.mark.slow
def test_a_batch_of_indices_is_not_cut_by_the_values_that_they_stand_for():
    """A run would hold all pieces again: one for each row took minutes for values of a few hundred KB."""
    type_ = types.Dictionary(types.int8, types.utf8, ordered=False)
    whole = batch([*range(500)], ["x" * 10_000] * 500, Schema.of([field("a", types.int64), field("b", type_)]))
    assert 1 == len(list(sorting._pieces([whole], 10_000)))
    assert [500] == [sum(map(len, run)) for run in runs(10_000, (0,), rows=1000, batches=[whole])]
    assert 1 < len(list(sorting._pieces([whole], 1_000)))


def test_a_run_ends_where_a_type_changes():
    other = Schema.of([field("a", types.int64), field("b", types.large_utf8)])
    found = runs(1 << 20, (0,), batches=[*BATCHES[:2], batch([1], ["t"], other)])
    assert [5, 1] == [sum(map(len, run)) for run in found]


def test_files_of_finished_runs_are_removed_if_a_later_one_fails(tmp_path):
    plan = plan_job(str(tmp_path / "d"), WriteMode.APPEND)
    staged = tmp_path / "d" / "_ipc_stage" / plan.staging.jobid

    def broken():
        yield BATCHES[0]
        assert 1 == len(list(staged.glob("*.staged")))
        raise ValueError("broken")

    def write(run):
        return write_task(plan.staging, run, SCHEMA, partition_id=3, directory="k=1")

    with pytest.raises(ValueError, match="broken"):
        write_runs(plan.staging, [iter(BATCHES), broken()], write)
    assert [".begin"] == [path.name for path in staged.iterdir()]
    made = write_runs(plan.staging, [iter(BATCHES), iter(BATCHES)], write)
    assert [7, 7] == [file.rows for file in made.files]
    assert {("k=1", 3)} == {(file.directory, file.task) for file in made.files}
