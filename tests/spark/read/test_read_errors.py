"""What goes wrong with a read, said by name: where, what was found, what to do; and at planning where that can know."""

import decimal
import os
import pathlib

import arrow_files
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import types as s

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import Array, RecordBatch, Schema, types
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource

D = decimal.Decimal
TABLE = pa.table({"carrier": ["UA", "AA"], "delay": [1, 2]})
DATA = pathlib.Path(__file__).parents[2] / "data"


def reader(spark, **options):
    return spark.read.format("arrowipc").options(**options)


def missing(message, words):
    return [word for word in words if word not in message]


def raised(act):
    with pytest.raises(PySparkException) as caught:
        act()
    return str(caught.value)


def sound(path, **how):
    return arrow_files.write(path, TABLE, **how)


def cut(path, nbytes, **how):
    """Write a file that lacks its last bytes."""
    sound(path, **how)
    os.truncate(path, path.stat().st_size - nbytes)


def staged(path):
    sound(path / "_ipc_stage" / "job" / "a.arrow.staged")


def nested(path):
    sound(path / "2024" / "a.arrow")


def nothing(path):
    path.mkdir()


def copied(name):
    return lambda path: path.write_bytes((DATA / name).read_bytes())


# (What lies at the path, the error, words of its message: the cause, and the next step.) `load` raises them all.
UNREADABLE = {
    "a truncated file": (lambda path: cut(path, 20), "InvalidFramingError", ["the file is truncated", "copy or write it again"]),
    "a file of which only the magic is left": (copied("magic_only.arrow"), "InvalidFramingError", ["the file is truncated", "copy or write it again"]),
    "a file without its footer": (copied("no_footer.arrow"), "InvalidFramingError", ["expected the magic ARROW1 at the end", "its writer did not finish"]),
    "a stream whose schema is cut": (copied("cut_in_schema.arrows"), "TruncatedError", ["it is truncated", "copy or write it again"]),
    "text": (copied("text.arrow"), "NotArrowError", ["looks like text: b'id,name", "spark.read.csv"]),
    "Parquet": (copied("parquet.arrow"), "NotArrowError", ["looks like Parquet", "use spark.read.parquet"]),
    "an empty file": (copied("empty.arrow"), "InvalidFramingError", ["found an empty file", "write it again, or remove it"]),
    "Feather V1": (copied("feather_v1.arrow"), "NotArrowError", ["looks like Feather version 1", "rewrite it with an Arrow release"]),
    "a footer of noise": (copied("footer_noise.arrow"), "InvalidMetadataError", ["expected"]),
    "an empty directory": (nothing, "NoFilesError", ["the directory is empty"]),
    "a directory with only what a write has not committed": (staged, "NoFilesError", ["skipped 1 name", "_ipc_stage holds the staged files of a write that has not committed"]),
    "a directory with only directories": (nested, "NoFilesError", ["found none; skipped 1 subdirectory", "Nested directories (2024) are not read", "give the pattern {path}/*"]),
    "nothing": (lambda _path: None, "NoFilesError", ["the path does not exist", "the nearest directory that does is {parent}"]),
}  # fmt: skip


def beside_json(path):
    """A stream, and JSON that a program of somebody's left beside it."""
    sound(path / "data-00000-of-00001.arrow", stream=True)
    (path / "about.json").write_text('{"citation": ""}')
    (path / "report.json").write_text('{"rows": []}')
    return str(path)


# What reads a directory in which not all files are Arrow.
FOREIGN = {
    "load": lambda spark, path: reader(spark).load(path),
    "load, all schemas": lambda spark, path: reader(spark, mergeSchema="true").load(path),
    "with a schema": lambda spark, path: reader(spark).schema("delay long").load(path).collect(),
    "with where": lambda spark, path: reader(spark, where="delay > 1").load(path).collect(),
    "headers alone": lambda spark, path: reader(spark, metadataOnly="true").load(path).collect(),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_file_that_is_no_arrow_file_is_named_with_the_way_round(spark, tmp_path, name):
    path = beside_json(tmp_path)
    message = raised(lambda: FOREIGN[name](spark, path))
    # The schema is the newest file's.
    assert any(f"NotArrowError: {path}/{name}.json: " in message for name in ("about", "report")), message
    words = ["looks like text", "set the option pathGlobFilter, such as *.arrow"]
    assert missing(message, words) == [], message


def test_the_way_round_reads_what_is_arrow(spark, tmp_path):
    path = beside_json(tmp_path)
    rows = [("UA", 1), ("AA", 2)]
    assert [tuple(row) for row in reader(spark, pathGlobFilter="*.arrow").load(path).collect()] == rows
    assert [tuple(row) for row in reader(spark, ignoreCorruptFiles="true").load(path).collect()] == rows


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_cannot_be_read_is_refused_by_load(spark, tmp_path, name):
    """Planning opens the first file: the error class, the path, what was found, and the next step."""
    make, error, words = UNREADABLE[name]
    path = tmp_path / "at"
    make(path)
    message = raised(lambda: reader(spark).load(str(path)))
    expected = [f"{error}: {path}: ", *(word.format(path=path, parent=tmp_path) for word in words)]
    assert missing(message, expected) == [], message


def test_a_pattern_that_matches_nothing(spark, tmp_path):
    message = raised(lambda: reader(spark).load(f"{tmp_path}/*.arrow"))
    assert missing(message, [f"NoFilesError: {tmp_path}/*.arrow: ", "matches the pattern"]) == [], message


# (Options, words.)
OPTIONS = {
    "unknown": ({"maxPartitionByte": "1m"}, ["there is no option maxpartitionbyte", "did you mean maxPartitionBytes?"]),
    "unknown, near another": ({"colums": "a"}, ["there is no option colums", "did you mean columns?"]),
    "like nothing": ({"xyzzy": "1"}, ["there is no option xyzzy for reading", "python -m spark_arrow_ipc.spark.options"]),
    "of writing": ({"compression": "lz4"}, ["the option compression is for writing", "remove it"]),
    "no size": ({"maxPartitionBytes": "much"}, ["maxPartitionBytes must be bytes", "'much'", "for example: 64m"]),
    "no count": ({"minPartitionNum": "0"}, ["minPartitionNum must be a whole number of at least 1", "'0'", "for example: 200"]),
    "no such word": ({"nanoseconds": "round"}, ["nanoseconds must be one of floor, error, long", "'round'"]),
    "no column list": ({"columns": "a,,b"}, ["columns must be column names", "'a,,b'", "for example: id,"]),
}  # fmt: skip


@pytest.mark.parametrize("name", OPTIONS)
def test_a_wrong_option_is_refused_by_load(spark, tmp_path, name):
    """Before a file is looked at; with the near miss, or what is expected and an example."""
    options, words = OPTIONS[name]
    message = raised(lambda: reader(spark, **options).load(sound(tmp_path / "a.arrow")))
    assert missing(message, ["OptionError: ", *words]) == [], message


def test_a_wrong_option_is_refused_with_a_schema_too(spark, tmp_path):
    """With a user's schema Spark asks for the reader only when a query is planned."""
    frame = reader(spark, colums="a").schema("delay bigint").load(sound(tmp_path / "a.arrow"))
    assert missing(raised(frame.collect), ["OptionError: ", "did you mean columns?"]) == []


def test_a_read_without_a_path_is_refused(spark):
    assert missing(raised(reader(spark).load), ["OptionError: there is no path", "load(path)"]) == []


# (Options, words.)
COLUMNS = {
    "a name": ({"columns": "carrier, dely"}, ["'dely'", "did you mean 'delay'?"]),
    "a position": ({"columns": "#2"}, ["#2", "below 2"]),
    "a field of what is no struct": ({"columns": "carrier.x"}, ["expected carrier to be a struct", "'x'"]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_that_does_not_exist_is_refused_by_load(spark, tmp_path, name):
    """With the columns that there are."""
    options, words = COLUMNS[name]
    path = sound(tmp_path / "a.arrow")
    message = raised(lambda: reader(spark, **options).load(path))
    assert missing(message, [f"ColumnNotFoundError: {path}: ", *words]) == [], message


def test_a_column_of_the_schema_that_does_not_exist_is_null_or_refused_when_it_is_read(spark, tmp_path):
    """Planning need not open the file, and the schema is the user's."""
    path = sound(tmp_path / "a.arrow")
    assert [(None,)] == reader(spark).schema("dely bigint").load(path).distinct().collect()
    frame = reader(spark, missingColumns="error").schema("dely bigint").load(path)
    message = raised(frame.collect)
    assert missing(message, [f"ColumnNotFoundError: {path}: ", "'dely'", "did you mean 'delay'?"]) == [], message


def test_a_large_broken_file_is_refused_at_planning_with_a_schema_too(spark, tmp_path):
    """The footer of a file larger than a split is opened there: before a task runs."""
    path = tmp_path / "a.arrow"
    cut(path, 20)
    frame = reader(spark, maxPartitionBytes="64").schema("delay bigint").load(str(path))
    # Making an RDD plans the query and runs nothing.
    message = raised(lambda: frame.rdd)
    assert missing(message, [f"InvalidFramingError: {path}: ", "truncated"]) == [], message


def rewrite(path):
    arrow_files.write(path, pa.table({"carrier": ["UA"] * 50, "delay": [1] * 50}))


def touch(path):
    os.utime(path, ns=(0, 0))


# (What happens to the file after planning, words.)
CHANGES = {
    "rewritten": (rewrite, ["it had"]),
    "touched": (touch, ["its modification time differs"]),
    "removed": (os.remove, ["it is gone"]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_file_that_changes_after_planning_is_an_error(spark, tmp_path, name):
    """A DataFrame plans once; it never answers from other data than it was planned with."""
    change, words = CHANGES[name]
    path = sound(tmp_path / "a.arrow")
    frame = reader(spark).load(path)
    assert frame.count() == 2
    change(pathlib.Path(path))
    message = raised(frame.count)
    assert (
        missing(
            message,
            [f"FileChangedError: {path}: ", "changed after this read was planned", "read the path again", *words],
        )
        == []
    ), message


def test_the_path_that_is_read_again_has_the_new_rows(spark, tmp_path):
    path = sound(tmp_path / "a.arrow")
    assert reader(spark).load(path).count() == 2
    rewrite(pathlib.Path(path))
    assert reader(spark).load(path).count() == 50


def relabelled(array, type_):
    return pa.Array.from_buffers(type_, len(array), array.buffers())


DECIMALS = relabelled(pa.array([D(1), D(10**5)], pa.decimal128(38, 0)), pa.decimal128(4, 2))
MAPS = pa.array([[("a", 1)], [("b", 1), ("b", 2)]], pa.map_(pa.string(), pa.int8()))
TEXTS = pa.Array.from_buffers(pa.string(), 2, pa.array([b"ok", b"\xff\xfe"]).buffers())
INDICES = pa.DictionaryArray.from_arrays(pa.array([0, 7], pa.int8()), pa.array(["a"]), safe=False)

# (Column, options, error, words.)
VALUES = {
    "a key twice in a map": (MAPS, {}, "SchemaMismatchError", ["the key 'b' twice (slot 1)", "leave the column out"]),
    "a decimal beyond its precision": (DECIMALS, {}, "InvalidBodyError", ["at most 4 digits", "the unscaled value 100000 in slot 1"]),
    "a string that is not UTF-8": (TEXTS, {}, "InvalidBodyError", ["UTF-8"]),
    "an index beyond the dictionary": (INDICES, {}, "InvalidBodyError", ["7"]),
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_a_value_that_breaks_a_rule_is_refused_when_it_is_read(spark, tmp_path, name):
    """Planning reads no body: the task fails, with the record batch and the column; other columns can be read."""
    array, options, error, words = VALUES[name]
    path = arrow_files.write(tmp_path / "a.arrow", pa.table({"c": array, "n": pa.array(range(len(array)))}))
    frame = reader(spark, **options).load(path)
    message = raised(frame.collect)
    assert missing(message, [f"{error}: {path}: record batch 0, field c", *words]) == [], message
    assert reader(spark, columns="n").load(path).count() == len(array)


@pytest.mark.parametrize("validation", ["full", "structural"])
def test_a_null_key_in_a_map_is_refused_when_it_is_read(spark, tmp_path, validation):
    """Whatever is trusted, for pyarrow aborts the process on such a map: so our codec writes it here."""
    entries = types.struct([types.field("key", types.utf8, nullable=False), types.field("value", types.int8)])
    pairs = Array(
        entries,
        3,
        0,
        (None,),
        (from_pylist.array(["a", None, "b"], types.utf8), from_pylist.array([1, 2, 3], types.int8)),
    )
    map_ = types.Map(types.field("entries", entries, nullable=False))
    offsets = memoryview(b"".join(n.to_bytes(4, "little") for n in (0, 1, 3)))
    schema = Schema.of([types.field("c", map_)])
    ipc.write(str(tmp_path / "a.arrow"), [RecordBatch(schema, (Array(map_, 2, 0, (None, offsets), (pairs,)),), 2)])
    message = raised(reader(spark, validation=validation).load(str(tmp_path / "a.arrow")).collect)
    words = [f"InvalidBodyError: {tmp_path}/a.arrow: record batch 0, field c", "expected map keys that are not null"]
    assert missing(message, words) == [], message


def test_a_stream_that_is_cut_in_a_body_is_refused_when_it_is_read(spark, tmp_path):
    """Its schema is sound, and a stream has no footer that planning could ask."""
    path = tmp_path / "a.arrows"
    cut(path, 30, stream=True)
    frame = reader(spark).load(str(path))
    message = raised(frame.collect)
    assert missing(message, [f"TruncatedError: {path}: ", "it is truncated", "copy or write it again"]) == [], message


def test_a_second_file_that_is_broken_is_named(spark, tmp_path):
    """Planning opens the newest file alone."""
    sound(tmp_path / "d" / "a.arrow")
    copied("text.arrow")(tmp_path / "d" / "b.arrow")
    os.utime(tmp_path / "d" / "b.arrow", (1, 1))
    frame = reader(spark).load(str(tmp_path / "d"))
    message = raised(frame.collect)
    assert missing(message, [f"NotArrowError: {tmp_path}/d/b.arrow: ", "looks like text"]) == [], message


def test_a_second_file_of_another_type_is_named(spark, tmp_path):
    sound(tmp_path / "d" / "a.arrow")
    path = arrow_files.write(tmp_path / "d" / "b.arrow", pa.table({"carrier": [1], "delay": [1]}))
    os.utime(path, (1, 1))  # the schema is that of the newest file
    message = raised(reader(spark).load(str(tmp_path / "d")).collect)
    origin = f"the schema of the read, as in the newest file {tmp_path}/d/a.arrow: "
    assert f"SchemaMismatchError: {path}: field carrier: {origin}expected string, found int64" in message


def test_a_batch_that_asks_for_too_much_memory_is_refused(spark, tmp_path):
    path = sound(tmp_path / "a.arrow")
    message = raised(reader(spark, maxBatchBytes="16").load(path).collect)
    assert missing(message, [f"LimitError: {path}: ", "max_batch_bytes"]) == [], message


@pytest.mark.parametrize("path", ["~", "~/flights", "~/a/b.arrow"])
@pytest.mark.parametrize("call", ["schema", "writer", "streamWriter"])
def test_a_path_of_a_home_is_refused_before_a_directory_of_that_name_is_made(path, call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = ArrowIpcDataSource({"path": path})
    arguments = () if call == "schema" else (s.StructType(), False)
    with pytest.raises(OptionError, match="begins with ~, which only shells replace by the home directory"):
        getattr(source, call)(*arguments)
    assert not list(tmp_path.iterdir())
