"""`compact`: the same rows and types in fewer files, beside readers, writers and streams."""

import datetime as dt

import arrow_files
import pyarrow as pa
import pyarrow.dataset as pds
import pytest
from commit_jobs import newest_entry
from commit_jobs import table as table_of
from rewrite_jobs import Tasks, files_of, leftovers, tables, values

from spark_arrow_ipc import compact, rewrite
from spark_arrow_ipc.dataset.stream.mode import ALL_AVAILABLE
from spark_arrow_ipc.dataset.stream.table import TableMode, TableOptions
from spark_arrow_ipc.errors import (
    ColumnNotFoundError,
    ConcurrentWriteError,
    FileChangedError,
    InvalidArrowError,
    NoFilesError,
    OptionError,
    SchemaMismatchError,
    UnsupportedError,
)
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.read.dataset_schema import read_spark_schema
from spark_arrow_ipc.spark.read.reader import ArrowIpcBatchReader


def table(ids, **columns):
    return pa.table({"id": pa.array(ids, pa.int64()), **columns})


@pytest.fixture
def lake(tmp_path):
    """Three small files in each of two partitions, and a large one."""
    root = tmp_path / "lake"
    for k in (1, 2):
        for i in range(3):
            arrow_files.write(root / f"k={k}" / f"{i}.arrow", table(range(100 * i + k, 100 * i + k + 9)))
    arrow_files.write(root / "k=1" / "large.arrow", table(range(5000, 15000)))
    return root


AIM = {"file_bytes": 50_000}


def test_small_files_of_each_partition_become_one(lake):
    before, inode = values(lake), (lake / "k=1" / "large.arrow").stat().st_ino
    made = compact(Tasks(), lake, **AIM)
    assert before == values(lake)
    assert (6, 2, 54, 54, 6) == (
        made.files_read, made.files_written, made.rows_read, made.rows_written, made.files_removed,
    )  # fmt: skip
    assert inode == (lake / "k=1" / "large.arrow").stat().st_ino, "it is left alone"
    assert ["k=1", "k=1", "k=2"] == sorted(name.partition("/")[0] for name in files_of(lake))
    assert all(name.startswith("_ipc_replaced/") for name in leftovers(lake))
    assert not compact(Tasks(), str(lake), **AIM).published, "there is nothing to do any more"
    assert before == {
        f"k={k}": sorted(pds.dataset(lake / f"k={k}", format="arrow").to_table()["id"].to_pylist()) for k in (1, 2)
    }


def test_with_spark(spark, lake):
    rows = sorted(map(tuple, spark.read.format("arrowipc").load(str(lake)).collect()))
    planned = spark.read.format("arrowipc").load(str(lake)).where("id < 5000")
    planned.createOrReplaceTempView("planned")
    made = compact(spark, lake, sort_by="id", compression="zstd", **AIM)
    assert (6, 2) == (made.files_read, made.files_written)
    assert rows == sorted(map(tuple, spark.read.format("arrowipc").load(str(lake)).collect()))
    assert 54 == planned.count(), "a read that was planned before goes on"


TYPES = {
    "tag": pa.array(["a", "b", None]).dictionary_encode(),
    "u": pa.array([1, None, 2**64 - 1], pa.uint64()),
    "ns": pa.array([1, 2, None], pa.timestamp("ns")),
    "nsz": pa.array([1, 2, None], pa.timestamp("ns", "Asia/Tokyo")),
    "took": pa.array([1, 2, 3], pa.duration("ns")),
    "time": pa.array([1, 2, 3], pa.time64("ns")),
    "half": pa.array([1.5, None, 2.0], pa.float16()),
    "fixed": pa.array([b"abc", None, b"def"], pa.binary(3)),
    "large": pa.array(["x", "y", "z"], pa.large_string()),
    "vector": pa.array([[1.0, 2.0]] * 3, pa.list_(pa.float32(), 2)),
    "nested": pa.array([{"a": 1, "b": ["x"]}, None, {"a": None, "b": []}], pa.struct([("a", pa.uint8()), ("b", pa.list_(pa.large_string()))])),
    "day": pa.array([dt.date(2024, 1, 1), None, dt.date(1970, 1, 1)], pa.date32()),
    "price": pa.array([1, 2, 3], pa.decimal128(9, 2)),
    "nothing": pa.nulls(3),
}  # fmt: skip


def test_types_and_metadata_stay_as_they_are(tmp_path):
    made = table(range(3), **TYPES).replace_schema_metadata({"owner": "me"})
    for name in "ab":
        arrow_files.write(tmp_path / "t" / f"{name}.arrow", made)
    compact(Tasks(), tmp_path / "t", metadata={"night": "7"})
    (whole,) = tables(tmp_path / "t").values()
    assert {b"owner": b"me", b"night": b"7"} == whole.schema.metadata
    assert [str(field.type) for field in made.schema] == [str(field.type) for field in whole.schema]
    expected = pa.concat_tables([made, made]).unify_dictionaries()
    assert expected.to_pylist() == whole.to_pylist()
    for name in ("ns", "nsz", "took", "time"):
        ours = whole[name].combine_chunks().cast(pa.int64())
        assert [1, 2, *([3] if name in ("took", "time") else [None])] * 2 == ours.to_pylist()


def test_a_type_that_would_change_is_refused(tmp_path):
    union = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])])
    for name in "ab":
        arrow_files.write(tmp_path / f"{name}.arrow", table(range(2), either=union))
    with pytest.raises(UnsupportedError, match="a compaction would change the type of this column") as raised:
        compact(Tasks(), tmp_path)
    assert "either" == raised.value.field_path
    assert ["a.arrow", "b.arrow"] == sorted(files_of(tmp_path))
    assert not list(tmp_path.rglob("*.staged"))


def test_metadata_of_items_stay(tmp_path):
    child = pa.field("x", pa.int64(), metadata={"k": "v"})
    nested = pa.struct([pa.field("s", pa.list_(pa.field("e", pa.struct([child]), metadata={"a": "b"})))])
    for name in "ab":
        arrow_files.write(tmp_path / f"{name}.arrow", table([0], c=pa.array([{"s": [{"x": 1}]}], nested)))
    assert 1 == compact(Tasks(), tmp_path, **AIM).files_written
    (made,) = tables(tmp_path).values()
    assert nested.equals(made.schema.field("c").type, check_metadata=True)


def test_metadata_of_sparks_own_files_goes_into_the_note(tmp_path):
    """Spark has it in a pair of each field where it makes Arrow data itself."""
    sparks = {"SPARK::metadata::json": '{"comment": "y"}'}
    field = pa.field("c", pa.list_(pa.struct([pa.field("x", pa.int64(), metadata=sparks)])), metadata=sparks)
    for name in "ab":
        rows = pa.array([[{"x": 1}]], field.type)
        arrow_files.write(tmp_path / f"{name}.arrow", pa.table([rows], schema=pa.schema([field])))
    before = read_spark_schema(ReadOptions(paths=(str(tmp_path),)))
    compact(Tasks(), tmp_path, **AIM)
    after = read_spark_schema(ReadOptions(paths=(str(tmp_path),)))
    assert {"comment": "y"} == after["c"].metadata == after["c"].dataType.elementType["x"].metadata
    assert before == after


def test_the_older_name_of_a_variant_stays(tmp_path):
    """`rewrite` reads it as today's where it converts it, and writes nothing then."""
    parts = pa.struct(
        [pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)]
    )
    older = pa.list_(pa.field("item", parts, metadata={"ARROW:extension:name": "parquet.variant"}))
    value = [[{"metadata": b"\1\0\0", "value": b"\0"}]]
    for name in "ab":
        arrow_files.write(tmp_path / f"{name}.arrow", table([0], c=pa.array(value, older)))
    with pytest.raises(UnsupportedError, match=r"field c: metadata inside of this column of list.* would change"):
        rewrite(Tasks(), tmp_path, tmp_path, mode="overwrite", restoreTypes=True, extensionTypes="convert")
    compact(Tasks(), tmp_path)
    (made,) = tables(tmp_path).values()
    assert older.value_field.metadata == made.schema.field("c").type.value_field.metadata
    assert value * 2 == made["c"].to_pylist()


def test_columns_are_those_of_all_files_and_of_the_newest(tmp_path):
    arrow_files.write(tmp_path / "a.arrow", pa.table({"id": pa.array([1], pa.int32()), "old": ["x"]}))
    arrow_files.write(tmp_path / "b.arrow", table([2], new=pa.array([0.5])))
    arrow_files.write(tmp_path / "c.arrow", table(range(10, 9000), newest=pa.array(range(8990), pa.int32())))
    compact(Tasks(), tmp_path, **AIM)
    assert {"id", "old", "new", "newest"} == set(read_spark_schema(ReadOptions(paths=(str(tmp_path),))).names)
    small = min(tables(tmp_path).values(), key=lambda each: each.num_rows)
    assert [(1, "x", None, None), (2, None, 0.5, None)] == [
        (row["id"], row["old"], row["new"], row["newest"]) for row in small.to_pylist()
    ]


# ---- beside others


def append(path, ids, name="more.arrow"):
    return lambda *_: arrow_files.write(path / "k=1" / name, table(ids))


def test_files_that_come_meanwhile_stay(lake):
    compact(Tasks(before=append(lake, [77])), lake, **AIM)
    assert 77 in values(lake)["k=1"]
    assert 1 == values(lake)["k=1"].count(77)


@pytest.mark.parametrize(
    ("others", "error", "rows"),
    [("compact", ConcurrentWriteError, 27), ("remove", FileChangedError, 18), ("change", FileChangedError, 19)],
)
def test_a_file_that_others_changed_meanwhile_is_a_conflict(lake, others, error, rows):
    def act(*_):
        if others == "compact":
            compact(Tasks(), lake, **AIM)
        elif others == "remove":
            (lake / "k=2" / "0.arrow").unlink(missing_ok=True)
        else:
            arrow_files.write(lake / "k=2" / "0.arrow", table([99]))

    first = []
    with pytest.raises(error):
        compact(Tasks(before=lambda part, _: None if first else act(first.append(part))), lake, **AIM)
    found = values(lake)
    assert len(found["k=1"]) == len(set(found["k=1"])) == 10_027
    assert rows == len(found["k=2"])
    assert [] == [name for name in leftovers(lake) if not name.startswith("_ipc_replaced/")]


def test_a_stream_of_the_table_sees_nothing_new(lake, tmp_path):
    path = tmp_path / "table"
    for _ in range(2):
        rewrite(Tasks(), lake, path, partitionBy="k")
    mode = TableMode(table_of(path), TableOptions())
    first = mode.latest(mode.initial(), ALL_AVAILABLE)
    rows = sum(len(ids) for ids in values(path).values())
    assert 20_108 == rows
    assert len(files_of(path)) == len(mode.batch(mode.initial(), first).files)
    assert compact(Tasks(), path, file_bytes="1g").files_written
    assert "rewrite" == newest_entry(path).operation
    second = mode.latest(first, ALL_AVAILABLE)
    assert second is first


def test_a_token_makes_the_job_one_of_the_night(lake):
    assert compact(Tasks(), lake, commitToken="night", **AIM).published
    append(lake, [1])()
    append(lake, [2], "again.arrow")()
    assert not compact(Tasks(), lake, commitToken="night", **AIM).published


@pytest.mark.parametrize(("options", "expected"), [({}, True), ({"retention": 0}, False)], ids=["retained", "not"])
def test_removed_files_live_on_for_reads_that_were_planned(lake, options, expected):
    reading = ReadOptions(paths=(str(lake),))
    reader = ArrowIpcBatchReader(read_spark_schema(reading), reading)
    planned = reader.partitions()
    compact(Tasks(), lake, **options, **AIM)
    if expected:
        assert 10_054 == sum(batch.num_rows for part in planned for batch in reader.read(part))
    else:
        with pytest.raises(FileChangedError, match="it is gone"):
            [batch for part in planned for batch in reader.read(part)]


# ---- what is refused


REFUSED = [
    ({"where": "id > 1"}, OptionError, "could change rows, types or partitions"),
    ({"columns": "id"}, OptionError, "could change rows"),
    ({"ignoreCorruptFiles": True}, OptionError, "could change rows"),
    ({"partitionBy": "id"}, OptionError, "use rewrite"),
    ({"dictionaryColumns": "auto"}, OptionError, "use rewrite"),
    ({"compresion": "zstd"}, OptionError, "did you mean compression"),
    ({"file_bytes": "much"}, OptionError, "bytes as file_bytes"),
    ({"sort_by": "nothing"}, ColumnNotFoundError, "nothing"),
]


@pytest.mark.parametrize(("given", "error", "words"), REFUSED, ids=[str(case[0]) for case in REFUSED])
def test_options_that_would_change_rows_are_refused(lake, given, error, words):
    before = sorted(files_of(lake))
    with pytest.raises(error, match=words):
        compact(Tasks(), lake, **AIM | given)
    assert before == sorted(files_of(lake))
    assert not list(lake.rglob("*.staged"))


@pytest.mark.parametrize(
    ("given", "error"),
    [({"sort_by": "nothing"}, ColumnNotFoundError), ({"sort_by": "id", "sort_bytes": "much"}, OptionError)],
)
def test_an_order_is_checked_where_no_file_is_small(lake, given, error):
    compact(Tasks(), lake, **AIM)
    assert not compact(Tasks(), lake, sort_by="id", **AIM).published
    with pytest.raises(error):
        compact(Tasks(), lake, **AIM | given)


BROKEN = [
    ("a stream after a stream", lambda path: path.write_bytes(path.read_bytes() * 2), "concatenated|another stream"),
    ("a broken file", lambda path: path.write_bytes(path.read_bytes()[:-20]), "s.arrows"),
    ("another type", lambda path: arrow_files.write(path, pa.table({"id": ["x"]}), stream=True), "cannot be merged"),
]


@pytest.mark.parametrize(("spoil", "words"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_what_cannot_be_read_whole_is_not_replaced(lake, spoil, words):
    path = lake / "k=2" / "s.arrows"
    arrow_files.write(path, table([1]), stream=True)
    spoil(path)
    before = sorted(str(each) for each in lake.rglob("*.arrow*"))
    with pytest.raises((InvalidArrowError, SchemaMismatchError, UnsupportedError), match=words):
        compact(Tasks(), lake, **AIM)
    assert before == sorted(str(each) for each in lake.rglob("*.arrow*"))


def test_a_filter_chooses_which_files_are_joined(lake):
    made = compact(Tasks(), lake, pathGlobFilter="[01].arrow", **AIM)
    assert (4, 2) == (made.files_read, made.files_written)
    assert (lake / "k=2" / "2.arrow").exists()


def test_files_without_rows_are_left_where_nothing_else_is_there(tmp_path):
    for name in "ab":
        arrow_files.write(tmp_path / f"{name}.arrow", table([]))
    assert not compact(Tasks(), tmp_path).published
    assert ["a.arrow", "b.arrow"] == sorted(files_of(tmp_path))


def test_a_path_that_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(NoFilesError, match="absent: expected the directory of a table, found nothing"):
        compact(Tasks(), tmp_path / "absent")
    assert not list(tmp_path.iterdir())
    assert not compact(Tasks(), tmp_path).published, "an empty directory has nothing to do"
