"""Statistics in Arrow's statistics schema: the specification's examples, and pyarrow's own answers."""

import io

import pytest
from statistics_cases import write_described

import spark_arrow_ipc
from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.cli.main import main
from spark_arrow_ipc.dataset.statistics import Statistics

pa = pytest.importorskip("pyarrow")
pc = pytest.importorskip("pyarrow.compute")


def described(table, *, rows=None, which=Statistics.ALL):
    """A file of ours with the rows of a table of pyarrow's, in record batches of some rows."""
    batches = [RecordBatch.from_arrow(batch) for batch in table.to_batches(max_chunksize=rows)]
    sink = io.BytesIO()
    write_described(sink, batches, batches[0].schema, which)
    return sink.getvalue()


def by_column(batch):
    """The statistics of each index of a column, as pyarrow reads the batch."""
    theirs = pa.record_batch(batch)
    theirs.validate(full=True)
    return {row["column"]: dict(row["statistics"]) for row in theirs.to_pylist()}


SIMPLE = pa.table({
    "vendor_id": pa.array([5, 1, 5, 1, 5], pa.int32()),
    "passenger_count": pa.array([1, 1, 2, 0, None], pa.int64()),
})  # fmt: skip

COMPLEX = pa.table({
    "col1": pa.array(
        [{"a": 1, "b": [20, 30, 40], "c": 2.9}, {"a": 2, "b": None, "c": -2.9}, {"a": 3, "b": [99], "c": None}],
        pa.struct([("a", pa.int32()), ("b", pa.list_(pa.int64())), ("c", pa.float64())]),
    ),
    "col2": ["x", None, "z"],
})  # fmt: skip
"""The two examples of the specification."""

EXACT = {key: f"ARROW:{key}:exact" for key in ("row_count", "null_count", "distinct_count", "max_value", "min_value")}


def known(**values):
    return {EXACT[key]: value for key, value in values.items()}


def test_the_simple_example_of_the_specification():
    expected = {
        None: known(row_count=5),
        0: known(null_count=0, max_value=5, min_value=1),
        1: known(null_count=1, max_value=2, min_value=0),
    }
    assert expected == by_column(spark_arrow_ipc.statistics(described(SIMPLE)))
    assert expected == by_column(spark_arrow_ipc.statistics(described(SIMPLE, rows=2)))


def test_columns_inside_of_others_have_the_indices_of_the_example():
    found = by_column(spark_arrow_ipc.statistics(described(COMPLEX)))
    nans = {"spark_arrow_ipc:nan_count:exact": 0}
    assert found == {
        None: known(row_count=3),
        1: known(null_count=0, max_value=3, min_value=1),
        4: known(null_count=1, max_value=2.9, min_value=-2.9) | nans,
        5: known(null_count=1, max_value="z", min_value="x"),
    }


def test_the_command_counts_distinct_values_as_the_example_does(tmp_path):
    pa_file(tmp_path / "in.arrow", SIMPLE)
    assert 0 == main(["inspect", "--stats", "--arrow", str(tmp_path / "out.arrow"), str(tmp_path / "in.arrow")])
    (batch,) = pa.ipc.open_file(tmp_path / "out.arrow").read_all().to_batches()
    assert by_column(batch) == {
        None: known(row_count=5),
        0: known(null_count=0, distinct_count=2, max_value=5, min_value=1),
        1: known(null_count=1, distinct_count=3, max_value=2, min_value=0),
    }


def pa_file(path, table):
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)


def test_the_schema_is_the_specifications():
    theirs = pa.record_batch(spark_arrow_ipc.statistics(described(SIMPLE)))
    column, statistics = theirs.schema
    assert (pa.int32(), True, "column") == (column.type, column.nullable, column.name)
    assert ("statistics", False) == (statistics.name, statistics.nullable)
    assert pa.types.is_map(statistics.type)
    assert pa.dictionary(pa.int32(), pa.string()) == statistics.type.key_type
    items = statistics.type.item_type
    assert "dense" == items.mode
    assert [pa.int64(), pa.int32()] == [field.type for field in items]
    assert not statistics.type.item_field.nullable


VALUES = {
    "bool": pa.array([True, None, False]),
    "uint64": pa.array([2**64 - 1, 0, None], pa.uint64()),
    "float32": pa.array([1.5, float("nan"), -2.0], pa.float32()),
    "decimal": pa.array(["1.50", None, "-2.25"]).cast(pa.decimal128(10, 2)),
    "date": pa.array([3, 1, None], pa.date32()),
    "time": pa.array([3, 1, None], pa.time64("ns")),
    "timestamp": pa.array([3, 1, None], pa.timestamp("us", "Europe/Berlin")),
    "duration": pa.array([3, 1, None], pa.duration("ms")),
    "binary": pa.array([b"a", b"b\xff", None]),
    "fixed-size binary": pa.array([b"ab", b"cd", None], pa.binary(2)),
    "string view": pa.array(["a", "b", None], pa.string_view()),
    "dictionary": pa.array(["b", "a", None]).dictionary_encode(),
}


@pytest.mark.parametrize("case", VALUES)
def test_bounds_have_the_type_of_the_column_and_are_pyarrows(case):
    values = VALUES[case]
    found = by_column(spark_arrow_ipc.statistics(described(pa.table({"c": values}))))[0]
    plain = values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values
    finite = plain.filter(pc.invert(pc.is_nan(plain))) if pa.types.is_floating(plain.type) else plain
    ordered = sorted(value for value in finite.to_pylist() if value is not None)
    assert (values.null_count, ordered[0], ordered[-1]) == (
        found[EXACT["null_count"]], found[EXACT["min_value"]], found[EXACT["max_value"]],
    )  # fmt: skip
    if case == "float32":
        assert 1 == found["spark_arrow_ipc:nan_count:exact"]


def test_a_bound_that_was_cut_is_approximate():
    found = by_column(spark_arrow_ipc.statistics(described(pa.table({"c": ["a" * 1000, "b" * 1000]}))))[0]
    assert {"ARROW:null_count:exact", "ARROW:max_value:approximate", "ARROW:min_value:approximate"} == set(found)
    assert found["ARROW:min_value:approximate"] <= "a" * 1000
    assert "b" * 1000 <= found["ARROW:max_value:approximate"]


def test_a_record_batch_without_a_bound_leaves_none_of_the_column(capsys, tmp_path):
    """Long bytes of 0xff have nothing above them that is shorter: the bound was that of the other record batches."""
    parts = [b"a"], [b"\xff" * 100], [None]
    table = pa.concat_tables([pa.table({"c": pa.array(values, pa.binary())}) for values in parts])
    source = described(table)
    assert {EXACT["null_count"]: 1, EXACT["min_value"]: b"a"} == by_column(spark_arrow_ipc.statistics(source))[0]
    (tmp_path / "a.arrow").write_bytes(source)
    assert 0 == main(["inspect", "--stats", str(tmp_path / "a.arrow")])
    assert 1 == capsys.readouterr().out.count("b'a'")


def test_what_has_children_moves_the_indices_of_what_follows():
    layout = pa.table({
        "list": pa.array([[1]], pa.list_(pa.int64())),
        "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
        "dictionary": pa.array(["a"]).dictionary_encode(),
        "nested": pa.array([{"x": {"y": 1}, "z": 2}]),
        "last": [7],
    })  # fmt: skip
    # list 0, item 1, map 2, entries 3, key 4, value 5, dictionary 6, nested 7, x 8, y 9, z 10, last 11
    found = by_column(spark_arrow_ipc.statistics(described(layout)))
    assert [None, 6, 9, 10, 11] == list(found)
    assert 7 == found[11][EXACT["max_value"]]


def test_files_without_statistics_have_none(tmp_path):
    sink = io.BytesIO()
    ipc.write(sink, SIMPLE)
    assert spark_arrow_ipc.statistics(sink.getvalue()) is None
    sink = io.BytesIO()
    ipc.write(sink, SIMPLE, options=ipc.WriteOptions(format="stream"))
    assert spark_arrow_ipc.statistics(sink.getvalue()) is None


def test_statistics_of_no_rows():
    batch = RecordBatch.from_arrow(pa.record_batch({"n": pa.array([], pa.int64())}))
    sink = io.BytesIO()
    write_described(sink, [batch], Schema.of([t.field("n", t.int64)]))
    assert {None: known(row_count=0), 0: known(null_count=0)} == by_column(spark_arrow_ipc.statistics(sink.getvalue()))


def test_the_command_counts_all_files_and_columns_that_have_no_bounds(tmp_path):
    for i in (1, 2):
        (tmp_path / f"k={i}").mkdir()
        pa_file(tmp_path / f"k={i}" / "a.arrow", COMPLEX)
    target = tmp_path / "out.arrow"
    assert 0 == main(["inspect", "--stats", "--arrow", str(target), "--columns", "col1,col2,k", str(tmp_path)])
    with ipc.open(target) as reader:
        (batch,) = reader
    found = by_column(batch)
    assert known(row_count=6) == found[None]
    assert known(null_count=2, distinct_count=2, max_value="z", min_value="x") == found[5]
    assert (1, 2, 2) == tuple(found[6][EXACT[key]] for key in ("min_value", "max_value", "distinct_count"))


def test_the_command_replaces_no_file_and_prints_nothing(capsys, tmp_path):
    source, target = tmp_path / "in.arrow", tmp_path / "out.arrow"
    pa_file(source, SIMPLE)
    assert 0 == main(["inspect", "--stats", "--arrow", str(target), str(source)])
    before = target.read_bytes()
    assert "" == capsys.readouterr().out
    assert 1 == main(["inspect", "--stats", "--arrow", str(target), str(source)])
    assert "files are not overwritten" in capsys.readouterr().err
    assert before == target.read_bytes()
    assert 1 == main(["inspect", "--stats", "--arrow", str(tmp_path / "none.arrow"), str(tmp_path / "nowhere")])
    assert not (tmp_path / "none.arrow").exists()
