"""The batch reader without Spark: what it plans is pickled, read again, and has Spark's exact schema."""

import os
import pickle
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from arrow_files import write
from pyspark.sql import types as s

from spark_arrow_ipc.dataset.predicate import CASE, SETTINGS
from spark_arrow_ipc.errors import (
    ArrowIpcError,
    ColumnNotFoundError,
    FileChangedError,
    InvalidArrowError,
    NoTableError,
    OptionError,
)
from spark_arrow_ipc.ipc import ConcatenatedStreamsWarning
from spark_arrow_ipc.spark import session_settings
from spark_arrow_ipc.spark.convert import compile_converter, pyarrow_schema
from spark_arrow_ipc.spark.options.options import parse_read
from spark_arrow_ipc.spark.read import reader as reader_module
from spark_arrow_ipc.spark.read import where
from spark_arrow_ipc.spark.read.dataset_schema import read_spark_schema
from spark_arrow_ipc.spark.read.reader import ArrowIpcBatchReader

FINE = {"maxPartitionBytes": "2k", "minPartitionNum": "1"}
TABLE = pa.table({"id": range(1000), "name": [f"n{i}" for i in range(1000)]})


@pytest.fixture
def lake(tmp_path):
    for k in (1, 2):
        (tmp_path / f"k={k}").mkdir()
        write(tmp_path / f"k={k}" / "a.arrow", TABLE, rows=100)
    return tmp_path


def reader_of(path, schema=None, **options):
    parsed = parse_read({"path": str(path), **options})
    return ArrowIpcBatchReader(read_spark_schema(parsed) if schema is None else schema, parsed)


def batches(reader):
    """Batches as executors read them: reader and partitions are sent there."""
    sent = pickle.loads(pickle.dumps((reader, reader.partitions())))
    return [batch for partition in sent[1] for batch in sent[0].read(partition)]


def ids(found):
    return sorted(value for batch in found for value in batch["id"].to_pylist())


READS = {
    "everything": ({}, ["id", "name", "k"], 2 * [*range(1000)]),
    "some columns": ({"columns": "k,id"}, ["k", "id"], 2 * [*range(1000)]),
    "some rows": ({"where": "k = 2 AND id < 150"}, ["id", "name", "k"], [*range(150)]),
    "metadata columns": (
        {"metadataColumns": "true", "columns": "id"},
        ["id", "_file_path", "_file_size", "_file_modification_time", "_block", "_row_index"],
        2 * [*range(1000)],
    ),
}


@pytest.mark.parametrize("splits", [{}, FINE], ids=["large splits", "small splits"])
@pytest.mark.parametrize("name", READS)
def test_the_partitions_of_a_plan_give_each_row_once(lake, name, splits):
    options, names, expected = READS[name]
    reader = reader_of(lake, **options, **splits)
    found = batches(reader)
    assert sorted(expected) == ids(found)
    schema = pyarrow_schema(read_spark_schema(parse_read({"path": str(lake), **options})))
    assert names == schema.names
    assert {schema} == {batch.schema for batch in found}


STRUCTS = {
    "fields as asked": ("b.y, b.x", {"b": {"y": "7", "x": 7}}),
    "fields as in the file": ("b.x, b.y", {"b": {"x": 7, "y": "7"}}),
    "a field of a field": ("b.z.q, a, B.y, b.z.p", {"b": {"z": {"q": 9, "p": 8}, "y": "7"}, "a": 7}),
    "a whole column": ("b, a", {"b": {"x": 7, "y": "7", "z": {"p": 8, "q": 9}}, "a": 7}),
}


@pytest.fixture
def structs(tmp_path):
    values = {"x": 7, "y": "7", "z": {"p": 8, "q": 9}}
    return write(tmp_path / "a.arrow", pa.table({"a": [7], "b": [values]}))


@pytest.mark.parametrize(("columns", "row"), STRUCTS.values(), ids=STRUCTS)
def test_the_fields_of_a_struct_come_in_the_order_that_was_asked_for(structs, columns, row):
    (batch,) = batches(reader_of(structs, columns=columns))
    (found,) = batch.to_pylist()
    assert repr(row) == repr(found)  # which has the order of fields


@pytest.mark.parametrize("columns", ["a, a", "a, A", "a, #0", "b, b.x", "b.x, b", "b.x, b.y, B.X", "b.z, b.z.p"])
def test_a_column_that_is_named_twice_is_refused(structs, columns):
    with pytest.raises(OptionError, match="name each column once"):
        reader_of(structs, columns=columns)


TENSORS = {
    "schema": {},
    "merged schema": {"mergeSchema": "true"},
    "large files": {"maxPartitionBytes": "1k"},
}


@pytest.mark.slow
@pytest.mark.parametrize("options", TENSORS.values(), ids=TENSORS)
def test_a_tensor_among_the_files_is_no_table(lake, options, caplog):
    """Whichever file the schema is taken from."""
    tensor = lake / "k=1" / "tensor.arrow"
    with pa.OSFile(str(tensor), "wb") as sink:
        pa.ipc.write_tensor(pa.Tensor.from_numpy(np.arange(1000.0)), sink)
    for time in (1, 2_000_000_000):
        os.utime(tensor, (time, time))
        with pytest.raises(NoTableError, match=r"holds a tensor, .* pathGlobFilter") as caught:
            batches(reader_of(lake, **options))
        assert str(tensor) == caught.value.path
        caplog.clear()
        assert sorted(2 * [*range(1000)]) == ids(batches(reader_of(lake, ignoreCorruptFiles="true", **options)))
        assert 1 == sum(f"{tensor}: skipped" in line and "tensor" in line for line in caplog.messages)
        assert sorted(2 * [*range(1000)]) == ids(batches(reader_of(lake, pathGlobFilter="a.*", **options)))


@pytest.fixture
def joined_streams(tmp_path):
    """Return the path of two streams that were put one after the other."""
    parts = [Path(write(tmp_path / f"{i}.part", TABLE.slice(500 * i, 500), stream=True, rows=50)) for i in range(2)]
    (tmp_path / "c.arrows").write_bytes(b"".join(part.read_bytes() for part in parts))
    return tmp_path / "c.arrows"


@pytest.mark.parametrize("recover", ["false", "true"])
@pytest.mark.parametrize("splits", [{}, FINE], ids=["large splits", "small splits"])
def test_the_first_of_streams_one_after_the_other_is_read_with_a_warning(joined_streams, splits, recover):
    options = {"metadataColumns": "true", "recover": recover, **splits}
    with pytest.warns(ConcatenatedStreamsWarning, match=f"{joined_streams}: another stream begins"):
        assert [*range(500)] == ids(batches(reader_of(joined_streams, **options)))


def test_small_splits_make_more_partitions(lake):
    assert 1 == len(reader_of(lake, minPartitionNum="1").partitions())
    assert len(reader_of(lake, **FINE).partitions()) > 10


def test_rows_are_numbered_by_block_and_file_also_in_parts_of_files(lake):
    for batch in batches(reader_of(lake, metadataColumns="true", **FINE)):
        assert batch["id"] == batch["_row_index"].cast(pa.int64())
        assert [i // 100 for i in batch["id"].to_pylist()] == batch["_block"].to_pylist()


def test_a_schema_of_ones_own_selects_and_casts_partitions(lake):
    schema = s.StructType([s.StructField("k", s.StringType()), s.StructField("id", s.LongType())])
    found = batches(reader_of(lake, schema))
    assert {pyarrow_schema(schema)} == {batch.schema for batch in found}
    assert {"1", "2"} == {value for batch in found for value in batch["k"].to_pylist()}


NUMBERS, WIDE = pa.array([1, 2, None], pa.int32()), pa.array([3, 4, None], pa.int64())
SCHEMAS_IN_TURN = {  # the files of one task, and how often conversions are compiled
    "one schema": ([{"a": NUMBERS}] * 4, 1),
    "one after the other": ([{"a": NUMBERS}] * 2 + [{"a": WIDE}] * 2, 2),
    "by turns, but a task begins with the large ones": ([{"a": NUMBERS}, {"a": WIDE}] * 2, 2),
    "another order of columns": ([{"a": NUMBERS, "b": WIDE}, {"b": WIDE, "a": NUMBERS}] * 2, 1),
    "dictionaries, whose budget is that of a file": ([{"a": NUMBERS, "b": WIDE.dictionary_encode()}] * 3, 3),
}


@pytest.mark.parametrize("where", [None, "a >= 2"])
@pytest.mark.parametrize("name", SCHEMAS_IN_TURN)
def test_conversions_are_compiled_once_for_files_that_follow_with_one_schema(tmp_path, monkeypatch, name, where):
    files, expected = SCHEMAS_IN_TURN[name]
    for i, columns in enumerate(files):
        write(tmp_path / f"{i}.arrow", pa.table(columns))
    compiled = []
    monkeypatch.setattr(
        reader_module,
        "compile_converter",
        lambda *given, **late: compiled.append(given) or compile_converter(*given, **late),
    )
    asked = s.StructType([s.StructField(column, s.LongType()) for column in sorted(files[0])])
    one_task = {"minPartitionNum": "1"} | ({} if where is None else {"where": where})
    made = reader_of(tmp_path, asked, **one_task)
    (part,) = made.partitions()
    found = pa.Table.from_batches(made.read(part))
    wanted = pa.concat_tables(
        pa.table({column: files[int(Path(each.path).stem)][column].cast(pa.int64()) for column in asked.names})
        for each in part.ranges
    )
    assert found.equals(wanted if where is None else wanted.filter(pc.field("a") >= 2))
    assert expected == len(compiled)


def test_an_empty_plan_gives_no_rows(lake):
    """Spark makes one partition of None of an empty list of them."""
    reader = reader_of(lake, where="k = 3")
    assert [] == reader.partitions()
    assert [] == list(reader.read(None))


def test_a_file_is_closed_when_its_reader_stops(lake):
    def open_names():
        links = Path("/proc/self/fd").iterdir()
        return {link.readlink().name for link in links if link.exists()}

    reader = reader_of(lake, minPartitionNum="1")
    rows = reader.read(reader.partitions()[0])
    assert "a.arrow" not in open_names()
    next(rows)
    assert "a.arrow" in open_names()
    rows.close()
    assert "a.arrow" not in open_names()


def test_a_file_that_changed_after_the_plan_is_named_with_its_time(lake):
    reader = reader_of(lake, minPartitionNum="1")
    (partition,) = reader.partitions()
    path = lake / "k=1" / "a.arrow"
    os.utime(path, ns=(0, 0))
    with pytest.raises(FileChangedError, match=f"planned at {partition.planned_at:%Y-%m-%d}") as caught:
        list(reader.read(partition))
    assert str(path) == caught.value.path


def test_an_error_names_the_file_and_the_block(lake):
    path = lake / "k=2" / "a.arrow"
    data = bytearray(path.read_bytes())
    position = data.rindex(b"n500")  # the first one is in padding of the block before
    data[position] = 0xFF
    path.write_bytes(data)
    with pytest.raises(InvalidArrowError) as caught:
        batches(reader_of(lake))
    assert (str(path), 5) == (caught.value.path, caught.value.block_number)


NUMBERS = pa.array([1, 2, 3, None], pa.int32())
STRUCTS = pa.StructArray.from_arrays([NUMBERS], ["x"])
AS_STRUCTS = {
    "sparse union": (pa.UnionArray.from_sparse(pa.array([0, 0, 0, 0], pa.int8()), [NUMBERS, NUMBERS], ["x", "y"]), "v.x"),
    "dense union": (
        pa.UnionArray.from_dense(pa.array([0] * 4, pa.int8()), pa.array(range(4), pa.int32()), [NUMBERS, STRUCTS], ["x", "y"]),
        "v.X",
    ),
    "union in a struct": (
        pa.StructArray.from_arrays(
            [pa.UnionArray.from_sparse(pa.array([0] * 4, pa.int8()), [NUMBERS, STRUCTS], ["x", "y"]), STRUCTS], ["u", "z"]
        ),
        "v.u.x",
    ),
    "struct": (STRUCTS, "v.x"),
    "runs of structs": (pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 4], pa.int32()), STRUCTS[:3]), "v.x"),
}  # fmt: skip


@pytest.mark.parametrize("merge", ["true", "false"])
@pytest.mark.parametrize("case", AS_STRUCTS)
def test_a_predicate_enters_all_columns_that_spark_sees_as_structs(tmp_path, case, merge):
    values, path = AS_STRUCTS[case]
    write(tmp_path / "a.arrow", pa.table({"id": pa.array(range(4)), "v": values}))
    whole = ids(batches(reader_of(tmp_path, where=f"{path} < 3", mergeSchema=merge)))
    assert whole in ([0, 1], [0, 1, 2])
    assert whole == ids(batches(reader_of(tmp_path, where=f"{path} < 3", columns="id", mergeSchema=merge)))


@pytest.mark.parametrize("merge", ["true", "false"])
@pytest.mark.parametrize("case", AS_STRUCTS)
def test_columns_names_fields_of_all_that_spark_sees_as_structs(tmp_path, case, merge):
    values, path = AS_STRUCTS[case]
    write(tmp_path / "a.arrow", pa.table({"id": pa.array(range(4)), "v": values}))
    *above, last = path.lower().split(".")

    def field_of(reader):
        (column,) = [batch.column("v") for batch in batches(reader)]
        for name in above[1:]:
            column = column.field(name)
        assert last in [field.name for field in column.type]
        return column, pc.struct_field(column, [last]).to_pylist()

    whole, expected = field_of(reader_of(tmp_path, columns="v", mergeSchema=merge))
    chosen, found = field_of(reader_of(tmp_path, columns=path, mergeSchema=merge))
    assert expected == found
    assert 1 == chosen.type.num_fields <= whole.type.num_fields
    assert (
        found == field_of(reader_of(tmp_path, columns=path, where="v IS NOT NULL OR v IS NULL", mergeSchema=merge))[1]
    )


@pytest.mark.parametrize("options", [{"columns": "id.x"}, {"columns": "v", "where": "id.x = 1"}, {"where": "id.x = 1"}])
def test_a_field_of_what_is_not_a_struct_in_spark_is_an_error_in_its_words(tmp_path, options):
    write(tmp_path / "a.arrow", pa.table({"id": pa.array(range(4)), "v": STRUCTS}))
    with pytest.raises(
        ColumnNotFoundError, match="expected id to be a struct, so that 'x' can be one of its fields, found bigint"
    ):
        reader_of(tmp_path, **options)


@pytest.mark.parametrize("options", [{"columns": "a.b"}, {"where": "a.b = 2"}, {"columns": "c", "where": "a.b = 2"}])
def test_a_name_with_a_dot_is_told_from_a_field_of_a_column_that_has_none(tmp_path, options):
    write(tmp_path / "a.arrow", pa.table({"a": [1], "a.b": [2], "c": [3]}))
    with pytest.raises(
        ColumnNotFoundError, match=r"the option (columns|where).*: a name with a dot stands in backticks: `a.b`$"
    ):
        reader_of(tmp_path, **options)


def test_fields_of_a_union_come_in_the_order_of_the_option(tmp_path):
    values = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [NUMBERS[:2], STRUCTS[:2]], ["x", "y"])
    write(tmp_path / "a.arrow", pa.table({"v": values}))
    (batch,) = batches(reader_of(tmp_path, columns="v.y, v.x"))
    assert [{"y": None, "x": 1}, {"y": {"x": 2}, "x": None}] == batch.column("v").to_pylist()
    with pytest.raises(
        OptionError,
        match="columns: v is named more than once, or together with one of its fields; name each column once",
    ):
        reader_of(tmp_path, columns="v.y, v")


A_LONG, B_TEXT = s.StructType().add("a", "long"), s.StructType().add("b", "string")
MAY_BE = "the name 'a' may stand for #0 'a', #1 'A' without spark.sql.caseSensitive=true; choose by position"
LEAVE = "the option where: the name 'a' may stand for 'a', 'A' without spark.sql.caseSensitive=true; leave one out"
# (Options and schema; the rows where a and A are two names; the error, or None, where they are not.)
ALIKE = {
    "all columns": ({}, None, [(1, 10, "x"), (2, 20, "y")], None),
    "another column": ({"columns": "b", "where": "b = 'x'"}, None, [("x",)], None),
    "both": ({"columns": "A, a"}, None, [(10, 1), (20, 2)], None),
    "one by its position": ({"columns": "#1"}, None, [(10,), (20,)], None),
    "one by its position, and where": ({"columns": "#1", "where": "A = 10"}, None, [(10,)], None),
    "one of them": ({"columns": "a"}, None, [(1,), (2,)], f"the option columns: {MAY_BE}"),
    "one in a schema": ({}, A_LONG, [(1,), (2,)], f"the schema of the read: {MAY_BE}"),
    "where": ({"where": "a = 1"}, None, [(1, 10, "x")], LEAVE),
    "where that no row matches": ({"where": "a = 1 AND 1 = 2"}, None, [], LEAVE),
    "where of another column": ({"where": "a = 1"}, B_TEXT, [("x",)], f"the option where: {MAY_BE}"),
}  # fmt: skip


@pytest.mark.parametrize("sensitive", ["true", "false"])
@pytest.mark.parametrize("case", ALIKE)
def test_no_column_is_taken_for_one_that_differs_in_case_alone(tmp_path, monkeypatch, case, sensitive):
    """As Spark's Parquet source and filters: the session says whether those are two names."""
    options, schema, rows, error = ALIKE[case]
    monkeypatch.setattr(session_settings, "value_of", lambda name, defaults: sensitive if name == CASE else "false")
    monkeypatch.setattr(where, "value_of", lambda name, defaults: SETTINGS[name].default)
    write(tmp_path / "a.arrow", pa.table({"a": [1, 2], "A": [10, 20], "b": ["x", "y"]}))
    reader = reader_of(tmp_path, schema, **options)
    if sensitive == "true" or error is None:
        assert rows == [tuple(row.values()) for batch in batches(reader) for row in batch.to_pylist()]
    else:
        with pytest.raises(ColumnNotFoundError, match=re.escape(error)):
            batches(reader)


# (The option columns, and the error after the path.)
NAMED_TWICE = [
    ("b,b", "the option columns: b is named more than once, or together with one of its fields; name each column once"),
    ("b,#2", "the option columns: b is named more than once, or together with one of its fields; name each column once"),
    ("b,B", "the option columns: b is named more than once, or together with one of its fields; name each column once"),
    ("a", "the option columns: the name 'a' may stand for #0 'a', #1 'a'; choose by position with the option columns"),
    ("#0,#1", "columns have the same name, which Spark cannot carry: 'a' at #0, #1; choose by position with the option columns, for example columns=#0"),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "says"), NAMED_TWICE)
def test_a_column_that_is_named_twice_is_an_error_that_names_it_once(tmp_path, columns, says):
    path = write(tmp_path / "a.arrow", pa.Table.from_arrays([pa.array([1])] * 3, names=["a", "a", "b"]))
    with pytest.raises(ArrowIpcError) as caught:
        reader_of(tmp_path, columns=columns)
    assert f"{path}: {says}" == str(caught.value)


# (Options and schema, and the sentence of the error after the path.)
ABSENT = {
    "columns": ({"columns": "colunm_001"}, None, "the option columns: there is no column 'colunm_001'; did you mean 'column_001', 'column_901', 'column_900'?"),
    "a field of columns": (
        {"columns": "place.twon"}, None, "the option columns: there is no field 'twon' in place; did you mean 'town'?",
    ),
    "columns with mergeSchema": (
        {"columns": "colunm_001", "mergeSchema": "true"}, None, "the option columns: there is no column 'colunm_001'; did you mean 'column_001', 'column_901', 'column_900'?",
    ),
    "a field of columns with mergeSchema": (
        {"columns": "place.twon", "mergeSchema": "true"}, None, "the option columns: there is no field 'twon' in place; did you mean 'town'?",
    ),
    "a name with a dot": ({"columns": "a.b"}, None, "the option columns: a name with a dot stands in backticks: `a.b`"),
    "where": ({"where": "colunm_001 = 1"}, None, "the option where: there is no column 'colunm_001'; did you mean 'column_001', 'column_901', 'column_900'?"),
    "where and columns": (
        {"columns": "#0", "where": "colunm_001 = 1"}, None, "the option where: there is no column 'colunm_001'; did you mean 'column_001', 'column_901', 'column_900'?",
    ),
    "where and a schema": (
        {"where": "colunm_001 = 1"}, s.StructType().add("column_001", "long"), "the option where: there is no column 'colunm_001'; did you mean 'column_001', 'column_901', 'column_900'?",
    ),
    "a schema": (
        {"missingColumns": "error"}, s.StructType().add("colunm_001", "long"), "the schema of the read: there is no column 'colunm_001'; did you mean 'column_001', 'column_901', 'column_900'?",
    ),
    "a field of a schema": (
        {"missingColumns": "error"}, s.StructType().add("place", s.StructType().add("twon", "string")),
        "the schema of the read: there is no field 'twon' in place; did you mean 'town'?",
    ),
    "nothing like it": ({"columns": "zzz"}, None, "the option columns: there is no column 'zzz'; the columns are 'column_000', 'column_001', "),
    "a position": ({"columns": "#5000"}, None, "the option columns: expected a column position below 1002, found #5000"),
}  # fmt: skip


# (Options and schema of a read of two files in the directories day=1 and region=x below it, and the sentence of the error.)
ABSENT_BESIDE_DIRECTORIES = {
    "where": ({"where": "dya = 1"}, None, "the option where: there is no column 'dya'; did you mean 'day'?"),
    "where, nothing like it": ({"where": "zzz = 1"}, None, "the option where: there is no column 'zzz'; the columns are 'day', 'region', 'amount'"),
    "where and columns": ({"columns": "amount", "where": "dya = 1"}, None, "the option where: there is no column 'dya'; did you mean 'day'?"),
    "where with mergeSchema": ({"where": "dya = 1", "mergeSchema": "true"}, None, "the option where: there is no column 'dya'; did you mean 'day'?"),
    "where with mergeSchema, a column of the older file": (
        {"where": "discuont = 1", "mergeSchema": "true"}, None, "the option where: there is no column 'discuont'; did you mean 'discount'?",
    ),
    "where and a schema": (
        {"where": "dya = 1"}, s.StructType().add("amount", "long"), "the option where: there is no column 'dya'; did you mean 'day'?",
    ),
    "columns": ({"columns": "regoin"}, None, "the option columns: there is no column 'regoin'; did you mean 'region'?"),
    "columns, nothing like it": ({"columns": "zzz"}, None, "the option columns: there is no column 'zzz'; the columns are 'day', 'region', 'amount'"),
    "columns with mergeSchema": ({"columns": "dya", "mergeSchema": "true"}, None, "the option columns: there is no column 'dya'; did you mean 'day'?"),
    "a schema": (
        {"missingColumns": "error"}, s.StructType().add("dya", "long"), "the schema of the read: there is no column 'dya'; did you mean 'day'?",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ABSENT_BESIDE_DIRECTORIES)
def test_the_error_for_an_absent_column_names_those_of_directories_and_of_all_files(tmp_path, case):
    options, schema, words = ABSENT_BESIDE_DIRECTORIES[case]
    old, new = tmp_path / "day=1" / "region=x" / "old.arrow", tmp_path / "day=2" / "region=y" / "new.arrow"
    for seconds, path, columns in [(1, old, {"amount": [1], "discount": [1]}), (2, new, {"amount": [2]})]:
        path.parent.mkdir(parents=True)
        write(path, pa.table(columns))
        os.utime(path, (seconds, seconds))
    with pytest.raises(ColumnNotFoundError) as caught:
        batches(reader_of(tmp_path, schema, **options))
    said = str(caught.value).removeprefix(f"{new}: ").removeprefix(f"{old}: ")
    assert words == said


@pytest.mark.parametrize("case", ABSENT)
def test_the_error_for_an_absent_column_names_what_asks_for_it_and_is_short(tmp_path, case):
    options, schema, words = ABSENT[case]
    columns = {f"column_{i:03}": [i] for i in range(1000)}
    path = write(tmp_path / "a.arrow", pa.table({**columns, "place": [{"town": "x"}], "a.b": [1]}))
    with pytest.raises(ColumnNotFoundError) as caught:
        batches(reader_of(tmp_path, schema, **options))
    said = str(caught.value).removeprefix(f"{path}: ")
    assert said.startswith(words)
    assert len(said) < 200
