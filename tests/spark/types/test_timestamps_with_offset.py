"""``arrow.timestamp_with_offset``: read as an instant, as text or in parts, and written by the metadata of a column."""

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pytest
from convert_batches import converted
from pyspark.sql import functions as f
from pyspark.sql import types as s

from spark_arrow_ipc import ipc
from spark_arrow_ipc.cli.main import main
from spark_arrow_ipc.errors import UnsupportedError
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.options.values import ExtensionTypes, Nanoseconds, TimestampsWithOffset
from spark_arrow_ipc.spark.types.field_metadata import storage

NAMED = {"ARROW:extension:name": "arrow.timestamp_with_offset", "ARROW:extension:metadata": ""}
ARROW_RS = Path(__file__).parents[2] / "extension_data/arrow_rs.arrow"
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
AS_TEXT, IN_PARTS = (ReadOptions(timestamps_with_offset=TimestampsWithOffset(how)) for how in ("string", "struct"))


def column(instants, minutes, unit="us", *, encode=None):
    """Return the storage: both parts may be None, and so may a row (where both lists have ...)."""
    nulls = pa.array([value is ... for value in instants])
    offsets = pa.array([None if value is ... else value for value in minutes], pa.int16())
    if encode == "dictionary":
        offsets = offsets.dictionary_encode()
    elif encode == "runs":
        offsets = pa.compute.run_end_encode(offsets)
    counts = pa.array([None if value is ... else value for value in instants], pa.timestamp(unit, "UTC"))
    return pa.StructArray.from_arrays([counts, offsets], ["timestamp", "offset_minutes"], mask=nulls)


def shown(count, minutes, unit):
    """Return a value as Python's datetime prints it, with the digits of the unit."""
    whole, part = divmod(count, PER_SECOND[unit])
    zone = timezone(timedelta(minutes=minutes))
    text = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=whole)).astimezone(zone).isoformat()
    digits = len(str(PER_SECOND[unit])) - 1
    seconds, label = text[:19], "Z" if minutes == 0 else text[19:]
    return seconds + (f".{part:0{digits}}" if digits else "") + label


MINUTES = [0, 120, -570, 1, -1, 345, 1439, -1439]
COUNTS = {unit: [0, -1, 7, 1_772_350_200 * per, -1_772_350_200 * per - 1, 1, 2, 3] for unit, per in PER_SECOND.items()}


@pytest.mark.parametrize("encode", [None, "dictionary", "runs"])
@pytest.mark.parametrize("unit", PER_SECOND)
def test_text_is_that_of_python(unit, encode):
    array = column(COUNTS[unit], MINUTES, unit, encode=encode)
    made = converted(array, AS_TEXT, metadata=NAMED)
    assert [
        shown(count, minutes, unit) for count, minutes in zip(COUNTS[unit], MINUTES, strict=True)
    ] == made.to_pylist()


YEAR_1, YEAR_9999 = -62_135_596_800, 253_402_300_799
ENDS = [
    ("the first second", YEAR_1, 0, "0001-01-01T00:00:00Z"),
    ("the last second", YEAR_9999, 0, "9999-12-31T23:59:59Z"),
    ("the first one by a clock ahead", YEAR_1 - 3600, 60, "0001-01-01T00:00:00+01:00"),
    ("a clock behind", YEAR_1, -1, None),
    ("a clock ahead", YEAR_9999, 1, None),
    ("far away", 2**62, 0, None),
    ("far before", -(2**63), -(2**15), None),
    ("an offset of a day", 0, 1440, None),
]


@pytest.mark.parametrize(("count", "minutes", "expected"), [case[1:] for case in ENDS], ids=[case[0] for case in ENDS])
def test_text_has_years_of_four_digits(count, minutes, expected):
    array = column([0, count], [0, minutes], "s")
    if expected is not None:
        assert expected == converted(array, AS_TEXT, metadata=NAMED).to_pylist()[1]
        return
    with pytest.raises(UnsupportedError, match=rf"field c: .*{count} s and {minutes} minutes in slot 1; read it with"):
        converted(array, AS_TEXT, metadata=NAMED)
    hidden = pa.StructArray.from_buffers(
        array.type, 2, [pa.py_buffer(b"\1")], children=[array.field(0), array.field(1)]
    )
    assert ["1970-01-01T00:00:00Z", None] == converted(hidden, AS_TEXT, metadata=NAMED).to_pylist()


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PARTS = column([0, None, ..., 7], [None, 60, ..., -60])


@pytest.mark.parametrize(
    "rows", [PARTS, PARTS[1:], PARTS[2:], PARTS[4:]], ids=["whole", "a slice", "another", "no rows"]
)
def test_a_part_may_be_null(rows):
    """Without an instant the value is null; without an offset it has none (CanonicalExtensions.rst)."""
    start = 4 - len(rows)
    seven = EPOCH + timedelta(microseconds=7)
    assert [EPOCH, None, None, seven][start:] == converted(rows, metadata=NAMED).to_pylist()
    expected = ["1970-01-01T00:00:00.000000Z", None, None, "1969-12-31T23:00:00.000007-01:00"]
    assert expected[start:] == converted(rows, AS_TEXT, metadata=NAMED).to_pylist()
    assert rows.to_pylist() == converted(rows, IN_PARTS, metadata=NAMED).to_pylist()


def test_it_is_what_it_is_inside_of_others():
    inside = pa.ListArray.from_arrays([0, 1, 4], PARTS)
    field = pa.field("item", PARTS.type, metadata=NAMED)
    array = pa.Array.from_buffers(pa.list_(field), 2, inside.buffers()[:2], children=[PARTS])
    assert [[EPOCH], [None, None, EPOCH + timedelta(microseconds=7)]] == converted(array).to_pylist()
    whole = PARTS.take(pa.array([3, 3, 2]))
    coded = pa.DictionaryArray.from_arrays(pa.array([1, 0, 2], pa.int8()), whole)
    assert [EPOCH + timedelta(microseconds=7)] * 2 + [None] == converted(coded, metadata=NAMED).to_pylist()


NANOSECONDS = column([1999, -1], [60, 0], "ns")
BY_OPTIONS = [
    ("rounded down", ReadOptions(), [EPOCH + timedelta(microseconds=1), EPOCH - timedelta(microseconds=1)]),
    ("counts", ReadOptions(nanoseconds=Nanoseconds.LONG), [1999, -1]),
    ("storage", ReadOptions(nanoseconds=Nanoseconds.LONG, extension_types=ExtensionTypes.STORAGE), [{"timestamp": 1999, "offset_minutes": 60}, {"timestamp": -1, "offset_minutes": 0}]),
]  # fmt: skip


@pytest.mark.parametrize(("given", "expected"), [case[1:] for case in BY_OPTIONS], ids=[case[0] for case in BY_OPTIONS])
def test_nanoseconds(given, expected):
    assert expected == converted(NANOSECONDS, given, metadata=NAMED).to_pylist()


OTHERS = {
    "another zone": [("timestamp", pa.timestamp("us", "Europe/Berlin")), ("offset_minutes", pa.int16())],
    "no zone": [("timestamp", pa.timestamp("us")), ("offset_minutes", pa.int16())],
    "wide offsets": [("timestamp", pa.timestamp("us", "UTC")), ("offset_minutes", pa.int32())],
    "another order": [("offset_minutes", pa.int16()), ("timestamp", pa.timestamp("us", "UTC"))],
    "one part": [("offset_minutes", pa.int16())],
}


@pytest.mark.parametrize("fields", OTHERS.values(), ids=OTHERS)
def test_another_storage_is_read_as_what_it_is(fields):
    assert [None] == converted(pa.array([None], pa.struct(fields)), metadata=NAMED).to_pylist()
    assert pa.types.is_struct(converted(pa.array([None], pa.struct(fields)), metadata=NAMED).type)


COLUMNS = {"plain_us": "us", "plain_s": "s", "dictionary_ns": "ns", "runs_ms": "ms"}


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    directory = tmp_path_factory.mktemp("offsets")
    (directory / "a.arrow").write_bytes(ARROW_RS.read_bytes())
    return directory


def reader(spark, **given):
    return spark.read.format("arrowipc").options(**given)


def test_what_arrow_rs_wrote(spark, lake):
    per = {name: PER_SECOND[unit] for name, unit in COLUMNS.items()}
    counts = {name: [0, 1_772_350_200 * n + (n > 1), -1] for name, n in per.items()}
    expected = {name: [shown(c, m, unit) for c, m in zip(counts[name], (120, -570, 0), strict=True)] for name, unit in COLUMNS.items()}  # fmt: skip
    text = reader(spark, timestampsWithOffset="string").load(str(lake)).toPandas()
    assert {name: [*values, None] for name, values in expected.items()} == text.to_dict("list")
    df = reader(spark).load(str(lake))
    assert [s.TimestampType()] * 4 == [field.dataType for field in df.schema]
    # Spark reads the text as the same instants, as far as it has their digits.
    cast = spark.createDataFrame(
        text, df.columns and "plain_us string, plain_s string, dictionary_ns string, runs_ms string"
    )
    casts = [cast[name].cast("timestamp").alias(name) for name in COLUMNS if name != "dictionary_ns"]
    assert cast.select(*casts).collect() == df.drop("dictionary_ns").collect()


PREDICATES = [
    ("plain_us >= '2026-01-01 00:00:00Z'", {}, 1),
    ("plain_us IS NULL", {}, 1),
    ("dictionary_ns < '1970-01-01 00:00:00Z'", {}, 1),
    ("runs_ms LIKE '%-09:30'", {"timestampsWithOffset": "string"}, 1),
    ("runs_ms.offset_minutes = 120", {"timestampsWithOffset": "struct"}, 1),
    ("dictionary_ns.offset_minutes = 120", {"extensionTypes": "storage"}, 1),
]


@pytest.mark.parametrize(("predicate", "given", "rows"), PREDICATES, ids=[case[0] for case in PREDICATES])
def test_where_sees_the_type_of_the_read(spark, lake, predicate, given, rows):
    df = reader(spark, **given).load(str(lake))
    assert rows == df.where(predicate).count() == reader(spark, where=predicate, **given).load(str(lake)).count()


def test_a_column_is_written_by_its_metadata(spark, tmp_path):
    """The offset of a column that Spark made, with pyarrow as the reader."""
    df = spark.sql("SELECT struct(timestamp'2026-03-01 07:30:00Z' AS timestamp, 120S AS offset_minutes) AS at")
    df = df.withMetadata("at", NAMED)
    df.write.format("arrowipc").mode("append").save(str(tmp_path / "out"))
    (path,) = (tmp_path / "out").glob("*.arrow")
    field = pa.ipc.open_file(path).schema.field("at")
    assert {key.encode(): value.encode() for key, value in NAMED.items()} == field.metadata
    read = reader(spark, timestampsWithOffset="string").load(str(tmp_path / "out"))
    assert [("2026-03-01T09:30:00.000000+02:00",)] == [tuple(row) for row in read.collect()]
    other = df.select(f.col("at.timestamp").alias("at", metadata=NAMED))
    other.write.format("arrowipc").mode("append").save(str(tmp_path / "other"))
    (path,) = (tmp_path / "other").glob("*.arrow")
    assert pa.ipc.open_file(path).schema.field("at").metadata is None


def test_parts_come_back_as_they_were(spark, lake, tmp_path):
    df = reader(spark, timestampsWithOffset="struct", nanoseconds="long").load(str(lake))
    df.write.format("arrowipc").mode("append").option("restoreTypes", "true").save(str(tmp_path / "out"))
    (path,) = (tmp_path / "out").glob("*.arrow")
    with ipc.open_file(path) as ours, ipc.open_file(ARROW_RS) as theirs:
        fields = list(zip(theirs.schema.fields, ours.schema.fields, strict=True))
    assert [storage(before.type) for before, _ in fields] == [
        storage(after.type) for _, after in fields
    ]  # all is nullable
    assert [before.extension_name for before, _ in fields] == [after.extension_name for _, after in fields]
    assert pa.ipc.open_file(ARROW_RS).read_all().to_pylist() == pa.ipc.open_file(path).read_all().to_pylist()


@pytest.mark.parametrize(
    ("how", "words"), [("timestamp", "timestamps are read without offsets"), ("string", "would become struct")]
)
def test_what_lost_its_offset_does_not_become_one_again(spark, lake, tmp_path, how, words):
    df = reader(spark, timestampsWithOffset=how).load(str(lake)).select("plain_us")
    with pytest.raises(Exception, match=words):
        df.write.format("arrowipc").mode("append").option("restoreTypes", "true").save(str(tmp_path / "out"))
    df.write.format("arrowipc").mode("append").save(str(tmp_path / "plain"))
    (path,) = (tmp_path / "plain").glob("*.arrow")
    assert "ARROW:extension:name" not in (pa.ipc.open_file(path).schema.field(0).metadata or {})


def test_the_command_line_keeps_it(lake, tmp_path, capsys):
    path = tmp_path / "out.arrow"
    assert 0 == main(["rewrite", str(lake / "a.arrow"), str(path)]), capsys.readouterr()
    before, after = (pa.ipc.open_file(each).read_all() for each in (ARROW_RS, path))
    assert before.to_pylist() == after.to_pylist()
    assert [field.metadata for field in before.schema] == [field.metadata for field in after.schema]
