"""Files of a table are skipped by the statistics in its log: those without a matching row, and no other."""

import warnings
from dataclasses import replace

import commit_jobs as jobs
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.dataset.predicate.bind import bind
from spark_arrow_ipc.dataset.predicate.parser import parse
from spark_arrow_ipc.dataset.scan.prune_files import file_filter
from spark_arrow_ipc.dataset.statistics import Statistics
from spark_arrow_ipc.dataset.statistics.read import StatisticsWarning
from spark_arrow_ipc.dataset.write.staged_file import SinkOptions
from spark_arrow_ipc.dataset.write.task import write_task
from spark_arrow_ipc.table.log import read_state

OPTIONS = SinkOptions(statistics=Statistics.ALL)
FIELDS = (t.field("a", t.int64), t.field("s", t.utf8), t.field("g", t.Struct((t.field("x", t.float64),))))


def rows(*values):
    """Rows of three columns; a value stands in each of them."""
    return pa.table(
        {
            "a": pa.array(values, pa.int64()),
            "s": pa.array([None if value is None else f"{value:04}" for value in values]),
            "g": pa.array([{"x": None if value is None else float(value)} for value in values]),
        }
    )


def append(path, *tables):
    """Commit a job with a file of each table."""
    plan = jobs.plan_job(str(path), jobs.APPEND)
    outputs = []
    for i, content in enumerate(tables):
        batches = [RecordBatch.from_arrow(batch) for batch in content.to_batches()]
        outputs.append(write_task(plan.staging, batches, batches[0].schema, partition_id=i, options=OPTIONS))
    jobs.finish(plan, outputs)


def kept(path, sql, fields=FIELDS, states=None, **options):
    """Return the first values of `a` in the files that a predicate does not exclude."""
    tree = list_tree([str(path)])
    may_match = file_filter(bind(parse(sql), fields), states or tree.states, lambda _: {}, **options)
    files = [file for file in tree.all_files() if may_match(file)]
    return sorted(pa.ipc.open_file(file.path).read_all().columns[0][0].as_py() for file in files)


@pytest.mark.parametrize(
    ("sql", "first"),
    [
        ("a = 15", [10]),
        ("A = 15", [10]),
        ("a >= 15", [10, 20]),
        ("a BETWEEN 5 AND 12", [0, 10]),
        ("a IN (0, 29)", [0, 20]),
        ("a = 15 OR s = '0001'", [0, 10]),
        ("NOT (a < 20)", [20]),
        ("g.x > 25", [20]),
        ("s LIKE '001%'", [10]),
        ("a = 100", []),
        ("a IS NULL", [20]),
        ("a IS NOT NULL AND g.x = 3.5", [0]),
    ],
)
def test_a_predicate_excludes_files_by_their_bounds(tmp_path, sql, first):
    append(tmp_path, rows(*range(10)), rows(*range(10, 20)))
    append(tmp_path, rows(*range(20, 30), None))
    assert first == kept(tmp_path, sql)


def test_an_unmanaged_file_is_never_excluded(tmp_path):
    append(tmp_path, rows(1, 2))
    with pa.ipc.new_file(str(tmp_path / "foreign.arrow"), rows(7).schema) as writer:
        writer.write_table(rows(7))
    assert [7] == kept(tmp_path, "a = 100")


def test_a_file_without_statistics_of_the_column_is_read(tmp_path):
    append(tmp_path, rows(1, 2))
    append(tmp_path, rows(5).drop_columns(["s"]))
    assert [5] == kept(tmp_path, "s = 'x'")


def test_each_file_is_judged_by_the_type_that_its_column_has(tmp_path):
    append(tmp_path, rows(1, 2))
    append(tmp_path, pa.table({"a": pa.array([5], pa.int32())}))
    assert [5] == kept(tmp_path, "a = 5")
    assert [1] == kept(tmp_path, "a = 2")


def test_a_name_that_matches_columns_of_two_names_is_not_judged(tmp_path):
    append(tmp_path, rows(1, 2))
    append(tmp_path, pa.table({"A": pa.array([5], pa.int64())}))
    assert [1, 5] == kept(tmp_path, "a = 100")


def test_values_that_do_not_come_from_the_file_are_used_before_its_statistics(tmp_path):
    append(tmp_path, rows(1), rows(2))
    tree = list_tree([str(tmp_path)])
    bound = bind(parse("a = 7"), FIELDS)
    for value, is_kept in ((7, True), (8, False)):
        may_match = file_filter(bound, tree.states, lambda _, value=value: {"a": value})
        assert [is_kept] * 2 == [may_match(file) for file in tree.all_files()]
    assert [1, 2] == kept(tmp_path, "a = 7", unknown=("a",))


@pytest.mark.parametrize("damage", ["more nulls than rows", "bounds in the wrong order"])
def test_statistics_that_contradict_themselves_are_not_used(tmp_path, damage):
    append(tmp_path, rows(1, 2, None))
    state = read_state(jobs.table(tmp_path))
    files = state.files
    if damage == "more nulls than rows":
        broken = replace(files, rows=files.rows * 0)
    else:
        batch = files.statistics
        swapped = []
        for field, column in zip(batch.schema.fields, batch.columns, strict=True):
            children = list(column.children)
            names = [child.name for child in field.type.fields]
            low, high = (names.index(f"ARROW:{which}_value:exact") for which in ("min", "max"))
            children[low], children[high] = children[high], children[low]
            swapped.append(replace(column, children=tuple(children)))
        broken = replace(files, statistics=RecordBatch(batch.schema, tuple(swapped), batch.num_rows))
    with pytest.warns(StatisticsWarning, match="not used"):
        assert [1] == kept(tmp_path, "a = 100", states={str(tmp_path): replace(state, files=broken)})


def test_all_matching_rows_are_in_the_files_that_are_kept(tmp_path):
    tables = [rows(*range(i, i + 7), None) for i in range(0, 70, 5)]
    append(tmp_path, *tables)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for value in range(-1, 80, 3):
            having = [i for i, table in enumerate(tables) if pc.any(pc.equal(table["a"], value)).as_py()]
            assert [5 * i for i in having] == kept(tmp_path, f"a = {value}")
