"""What headers, statistics and paths answer is what decoding answers: counts, extremes, nulls, and what broken files lose."""

import sys

import arrow_files
import pyarrow as pa
import pytest
from pushed import SETTING
from pyspark import cloudpickle
from pyspark.sql import functions as f
from pyspark.sql import types as s
from statistics_cases import write_described

from spark_arrow_ipc import aggregate, count, map_in_arrow
from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.functions.block_answers import BlockAnswers
from spark_arrow_ipc.spark.functions.partial_aggregates import Part, PartialAggregates
from spark_arrow_ipc.spark.options.options import parse_read
from spark_arrow_ipc.spark.read.dataset_schema import read_spark_schema
from spark_arrow_ipc.spark.read.reader import ArrowIpcBatchReader

pytestmark = pytest.mark.usefixtures("large")

# Workers cannot import a test: its functions go by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def pairs(name, metadata=""):
    return {"ARROW:extension:name": name, "ARROW:extension:metadata": metadata}


def with_offset(instants, mask=None):
    fields = [pa.field("timestamp", pa.timestamp("us", "UTC")), pa.field("offset_minutes", pa.int16())]
    minutes = pa.array([60] * len(instants), pa.int16())
    return pa.StructArray.from_arrays([pa.array(instants, fields[0].type), minutes], fields=fields, mask=mask)


def variants(*values):
    return pa.array(
        [None if value is None else {"metadata": b"\x01\0\0", "value": value or None} for value in values],
        pa.struct([("metadata", pa.binary()), ("value", pa.binary())]),
    )


def decimals(*values):
    octets = b"".join(value.to_bytes(16, "little", signed=True) for value in values)
    return pa.Array.from_buffers(pa.decimal128(3, 0), len(values), [None, pa.py_buffer(octets)])


OFFSETS = pairs("arrow.timestamp_with_offset")
HIDDEN = pa.array([False, False, False, True])
SOUND = {
    "offset": (with_offset([1, None, 3, 4], HIDDEN), OFFSETS, 2),
    "offsets in a struct": (pa.StructArray.from_arrays([with_offset([1, None, 3, 4])], fields=[pa.field("at", with_offset([1]).type, metadata=OFFSETS)]), {}, 4),
    "offsets in a list": (pa.ListArray.from_arrays(pa.array([0, 1, 2, 3, 4]), with_offset([1, None, 3, 4])), {}, 4),
    "variant": (variants(b"\x0c\x01", None, b"\0", b"\x0c\x02"), pairs("arrow.parquet.variant"), 3),
    "uuid": (pa.array([bytes(16), None, b"\xff" * 16, bytes(16)], pa.binary(16)), pairs("arrow.uuid"), 3),
    "bool8": (pa.array([0, None, -1, 7], pa.int8()), pairs("arrow.bool8"), 3),
    "json": (pa.array(["null", None, "{}", ""]), pairs("arrow.json"), 3),
    "opaque": (pa.array([b"a", None, b"", b"b"]), pairs("arrow.opaque", '{"type_name": "t", "vendor_name": "v"}'), 3),
    "dictionary": (pa.DictionaryArray.from_arrays(pa.array([0, 1, 1, None], pa.int8()), pa.array(["a", None])), {}, 1),
    "runs": (pa.RunEndEncodedArray.from_arrays(pa.array([1, 3, 4], pa.int32()), pa.array([5, None, 7])), {}, 2),
    "union": (pa.UnionArray.from_sparse(pa.array([0, 0, 1, 1], pa.int8()), [pa.array([1, None, None, 4]), pa.array(["a", "b", None, "d"])]), {}, 4),
    "void": (pa.nulls(4), {}, 0),
    "nanoseconds": (pa.array([1, None, -1, 5], pa.timestamp("ns")), {}, 3),
    "seconds": (pa.array([1, None, -1, 5], pa.timestamp("s", "UTC")), {}, 3),
    "day": (pa.array([86_400_000, None, 0, -86_400_000], pa.int64()).view(pa.date64()), {}, 3),
    "decimal": (decimals(-999, 999, 1, 0), {}, 4),
    "float": (pa.array([float("nan"), None, -0.0, 0.0]), {}, 3),
    "map": (pa.array([[("k", 1)], None, [], [("k", None)]], pa.map_(pa.string(), pa.int32())), {}, 3),
}  # fmt: skip
"""By name: an array, metadata of its field, and how many rows are not null in Spark."""

ORDERED = ["uuid", "json", "dictionary", "runs", "nanoseconds", "seconds", "day", "decimal", "bool8", "opaque"]
OPTIONS = {
    "as they are": {},
    "strings with offsets": {"timestampsWithOffset": "string"},
    "structs with offsets": {"timestampsWithOffset": "struct"},
    "storage": {"extensionTypes": "storage"},
    "counts": {"nanoseconds": "long", "times": "long"},
    "all extension types": {"extensionTypes": "all"},
}


def table_of(columns):
    fields = [pa.field(name, array.type, metadata=metadata) for name, (array, metadata, *_) in columns.items()]
    return pa.Table.from_batches([pa.record_batch([array for array, *_ in columns.values()], schema=pa.schema(fields))])


def write(path, table, *, ours, rows=2):
    path.parent.mkdir(parents=True, exist_ok=True)
    batches = table.to_batches(max_chunksize=rows)
    if ours:
        ours_ = [bridge.batch_from_pyarrow(batch) for batch in batches]
        write_described(str(path), ours_, ours_[0].schema)
        return
    with pa.ipc.new_file(str(path), table.schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


@pytest.fixture(scope="module", params=["pyarrow", "ours"])
def sound(request, tmp_path_factory):
    """A file of all sound columns, by pyarrow or with statistics of ours."""
    path = tmp_path_factory.mktemp("sound") / "a.arrow"
    write(path, table_of(SOUND), ours=request.param == "ours")
    return str(path)


def rows_of(spark, frame_of, *, push_down):
    """Return the rows of a query with or without push-down."""
    spark.conf.set(SETTING, str(push_down).lower())
    try:
        return [tuple(row) for row in frame_of().collect()]
    finally:
        spark.conf.set(SETTING, "true")


def reads_parts(options):
    """Whether a timestamp with an offset is read as a struct, which is not null where its instant is."""
    return options.get("extensionTypes") == "storage" or options.get("timestampsWithOffset") == "struct"


@pytest.mark.one_in(3)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_counts_and_extremes_are_those_of_rows(pushed, sound, options):
    named = {f"n{i}": f"count(`{name}`)" for i, name in enumerate(SOUND)}
    named |= {f"{word}{i}": f"{word}(`{name}`)" for i, name in enumerate(ORDERED) for word in ("min", "max")}

    def frame():
        calls = [f.expr(text).alias(name) for name, text in named.items()]
        return pushed.read.format("arrowipc").options(**options).load(sound).agg(*calls)

    (by_rows,) = rows_of(pushed, frame, push_down=False)
    wanted = {name: rows for name, (*_, rows) in SOUND.items()} | ({"offset": 3} if reads_parts(options) else {})
    assert list(wanted.values()) == list(by_rows[: len(SOUND)])
    assert [by_rows] == rows_of(pushed, frame, push_down=True)
    assert [by_rows] == [tuple(row) for row in aggregate(pushed, sound, aggregates=named, **options).collect()]


BROKEN = 3
"""The record batch, of six of 10 rows, whose column `word` is not UTF-8 text."""


def broken_lake(root, kind):
    """Write a sound file, one that breaks in a column, and one that is none."""
    for name, first in (("a", 0), ("b", 100)):
        ids = range(first, first + 60)
        words = [f"word {i:04}" for i in ids]
        table = pa.table(
            {"id": ids, "st": [{"p": i, "q": word} for i, word in zip(ids, words, strict=True)], "word": words}
        )
        path = root / f"p={name}" / f"{name}.arrow"
        if kind == "ours":
            write(path, table, ours=True, rows=10)
        else:
            arrow_files.write(path, table, rows=10, stream=kind == "stream")
    data = bytearray(path.read_bytes())
    data[data.rindex(f"word {100 + 10 * BROKEN:04}".encode())] = 0xFF
    path.write_bytes(data)
    (root / "p=b" / "c.arrow").write_bytes(b"no Arrow")
    return str(root)


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    return broken_lake(tmp_path_factory.mktemp("lake"), "ours")


def ids_of(batches):
    for batch in batches:
        yield pa.record_batch([batch["id"]], ["id"])


LOST = {
    "rows": lambda load: load(),
    "one column": lambda load: load().select("id"),
    "a field": lambda load: load().select("st.p"),
    "a condition": lambda load: load().where("id >= 0").select("id"),
    "a condition that skips record batches": lambda load: load().where("id BETWEEN 120 AND 145").select("id"),
    "the partition": lambda load: load().select("p"),
    "count": lambda load: load().agg(f.count("*")),
    "groups": lambda load: load().groupBy("p").agg(f.count("*"), f.min("id"), f.max("id"), f.count("word")),
    "sums": lambda load: load().where("p = 'b'").agg(f.sum("id"), f.max("st.p")),
    "a join": lambda load: load().join(load().select("id").where("id > 140"), "id").select("id"),
    "a limit": lambda load: load().select("id").limit(1000),
}  # fmt: skip
"""Queries of one frame."""


def test_each_query_of_a_frame_has_the_rows_before_the_first_broken_record_batch(pushed, lake):
    def load(**more):
        return pushed.read.format("arrowipc").options(ignoreCorruptFiles="true", **more).load(lake)

    sound = [*range(60), *range(100, 100 + 10 * BROKEN)]
    assert sound == sorted(row.id for row in load().collect())
    for name, query in LOST.items():
        by_rows, by_columns = (
            sorted(rows_of(pushed, lambda query=query: query(load), push_down=on)) for on in (False, True)
        )
        assert by_rows == by_columns, name
    # What `where` skips would be read otherwise.
    assert len([i for i in sound if i > 125]) == load(where="id > 125").count() == len(load(where="id > 125").collect())
    options = {"ignoreCorruptFiles": True}
    assert len(sound) == load().count() == count(pushed, lake, **options)
    assert len([i for i in sound if i > 125]) == count(pushed, lake, where="id > 125", **options)
    named = {"rows": "count(*)", "ids": "count(id)", "least": "min(id)", "most": "max(id)"}
    ((*counted,),) = aggregate(pushed, lake, aggregates=named, **options).collect()
    assert [len(sound), len(sound), 0, max(sound)] == counted
    assert sound == sorted(row.id for row in map_in_arrow(pushed, lake, ids_of, "id bigint", **options).collect())


# ---- in this process


NEEDED = {
    "no column": s.StructType([]),
    "a column": s.StructType([s.StructField("id", s.LongType())]),
    "a field": s.StructType([s.StructField("st", s.StructType([s.StructField("p", s.LongType())]))]),
}


@pytest.mark.parametrize("needed", NEEDED.values(), ids=NEEDED)
@pytest.mark.parametrize("kind", ["file", "stream", "ours"])
def test_a_query_of_few_columns_ends_where_the_frame_does(tmp_path, kind, needed):
    """Files are cut into parts, as the frame's are."""
    small = {"maxPartitionBytes": "3000"}
    options = parse_read({"path": broken_lake(tmp_path, kind), "ignoreCorruptFiles": "true", **small})
    frame = read_spark_schema(options)
    counted = []
    for reader in (ArrowIpcBatchReader(frame, options), ArrowIpcBatchReader(needed, options).decoding(frame)):
        partitions = reader.partitions()
        counted.append(sorted(sum(batch.num_rows for batch in reader.read(partition)) for partition in partitions))
        assert len(partitions) > 2
    assert counted[0] == counted[1]
    assert sum(counted[0]) < 120


def rows_in_process(path, schema=None, **options):
    """Return the rows of a read, as its tasks yield them."""
    parsed = parse_read({"path": str(path), **options})
    reader = ArrowIpcBatchReader(schema or read_spark_schema(parsed), parsed)
    return sum(batch.num_rows for partition in reader.partitions() for batch in reader.read(partition))


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("name", [name for name in SOUND if name != "void"])
def test_what_is_skipped_as_null_is_null(sound, name, options):
    wanted = SOUND[name][2] + (name == "offset" and reads_parts(options))
    assert wanted == rows_in_process(sound, where=f"`{name}` IS NOT NULL", **options)
    assert len(HIDDEN) - wanted == rows_in_process(sound, where=f"`{name}` IS NULL", **options)


HOURS, DECIMALS = s.DayTimeIntervalType(0, 1), s.DecimalType(3, 0)
REFUSED = {
    "a variant without a value": (variants(b"\0", b""), pairs("arrow.parquet.variant"), None, {}),
    "decimals of more digits": (decimals(1, 1000), {}, None, {}),
    "decimals of more digits in a struct": (pa.StructArray.from_arrays([decimals(1, -1000)], ["d"]), {}, None, {}),
    "instants beyond 64 bits": (pa.array([1, 1 << 62], pa.timestamp("s")), {}, None, {}),
    "nanoseconds": (pa.array([0, 1, 2000], pa.timestamp("ns")), {}, None, {"nanoseconds": "error"}),
    "a time of day": (pa.array([0, 1, 86_400_000], pa.int64()).cast(pa.date64(), safe=False), {}, None, {"nanoseconds": "error"}),
    "a time of day beside counts": (pa.array([0, 1, 86_400_000], pa.int64()).view(pa.date64()), {}, None, {"nanoseconds": "long"}),
    "two days": (pa.array([0, 2 * 86_400], pa.time32("s")), {}, None, {"times": "time"}),
    "half an hour": (pa.array([0, 1800, 3600], pa.duration("s")), {}, HOURS, {}),
    "nulls where none may be": (pa.array([1, None, 3]), {}, s.LongType(), {}),
    "another type": (pa.array(["1", "2"]), {}, s.IntegerType(), {}),
    "a key that is there twice": (pa.array([[("k", 1), ("k", 2)], []], pa.map_(pa.string(), pa.int32())), {}, None, {}),
    "an offset of a year beyond 9999": (with_offset([1 << 62, 1]), OFFSETS, None, {"timestampsWithOffset": "string"}),
    "no well-known binary": (pa.array([b"\1\1\0\0\0" + bytes(16), b"x"]), pairs("geoarrow.wkb"), None, {"extensionTypes": "geometry"}),
}  # fmt: skip
"""Columns that a read refuses: an array, metadata of its field, the type that is asked for, and options."""


@pytest.mark.parametrize("ours", [False, True], ids=["pyarrow", "ours"])
@pytest.mark.parametrize("case", REFUSED)
def test_no_count_and_no_extreme_is_answered_where_a_read_is_refused(tmp_path, case, ours):
    array, metadata, type_, options = REFUSED[case]
    path = tmp_path / "a.arrow"
    # Statistics are of plain columns.
    write(path, table_of({"c": (array, metadata), "id": (pa.array(range(len(array))), {})}), ours=ours, rows=len(array))
    parsed = parse_read({"path": str(path), "columns": "c", **options})
    asked = (
        read_spark_schema(parsed)
        if type_ is None
        else s.StructType([s.StructField("c", type_, nullable=case != "nulls where none may be")])
    )
    reader = ArrowIpcBatchReader(asked, parsed)
    with pytest.raises(ArrowIpcError):
        rows_in_process(path, asked, **options)
    for function in ("count", "min", "max"):
        answers = BlockAnswers(PartialAggregates((), (Part(function, 0),)), asked, parsed, "UTC")
        with pytest.raises(ArrowIpcError):
            _ = [[*reader.read(partition, answers=answers)] for partition in reader.partitions()], [*answers.take()]
