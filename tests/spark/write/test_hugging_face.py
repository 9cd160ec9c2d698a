"""The layout of HuggingFace's `datasets` from Spark: options, refused columns, what the JSON files name."""

import json

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.layout import LAYOUTS
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.errors import OptionError, UnsupportedError
from spark_arrow_ipc.ipc.constants import Format
from spark_arrow_ipc.spark.options.options import check_streamed, parse_write
from spark_arrow_ipc.spark.write.plan import plan_write
from spark_arrow_ipc.spark.write.schema_check import FEATURES, check_features

REFUSED_TYPES = {
    t.Map, t.SparseUnion, t.DenseUnion, t.RunEndEncoded, t.Dictionary, t.IntervalYearMonth, t.IntervalDayTime, t.IntervalMonthDayNano, t.ListView, t.LargeListView,
}  # fmt: skip


def test_every_type_has_a_feature_or_is_refused():
    assert {*LAYOUTS} == REFUSED_TYPES | FEATURES
    assert set() == REFUSED_TYPES & FEATURES


def field(name, type_, extension=None):
    pairs = () if extension is None else (("ARROW:extension:name", extension), ("ARROW:extension:metadata", ""))
    return t.Field(name, type_, custom_metadata=pairs)


COLUMNS = [
    (field("a", t.Decimal(5, 2, 256)), None),
    (field("a", t.utf8, "arrow.json"), None),
    (field("a", t.binary, "geoarrow.wkb"), None),
    (field("a", t.List(field("item", t.Dictionary(t.int32, t.utf8)))), r"field a\[\]: .*no feature for dictionary"),
    (field("a", t.Decimal(5, 2, 64)), "field a: .*decimal64"),
    (field("a", t.int8, "arrow.bool8"), "the extension arrow.bool8"),
    (field("a", t.Struct((field("b", t.FixedSizeBinary(16), "arrow.uuid"),))), "field a.b: .*arrow.uuid"),
]


@pytest.mark.parametrize(("column", "words"), COLUMNS, ids=lambda value: str(value)[:40])
def test_columns_without_a_feature(column, words):
    if words is None:
        check_features(Schema((column,)))
        return
    with pytest.raises(UnsupportedError, match=words):
        check_features(Schema((column,)))


OPTIONS = [
    ({}, (Format.STREAM, None, True)),
    ({"ipcFormat": "stream", "restoreTypes": "true"}, (Format.STREAM, None, True)),
    ({"compression": "zstd", "RESTORETYPES": "false"}, (Format.STREAM, "zstd", False)),
]


@pytest.mark.parametrize(("given", "expected"), OPTIONS)
def test_defaults_of_the_layout(given, expected):
    options = parse_write({"layout": "huggingface", **given})
    codec = None if options.compression is None else options.compression.word
    assert expected == (options.ipc_format, codec, options.restore_types)
    plain = parse_write({"layout": "plain"})
    assert plain == parse_write({})


CONTRADICTIONS = [
    ({"ipcFormat": "file"}, "for streams: remove the option ipcFormat"),
    ({"partitionBy": "a"}, "for one directory: remove the option partitionBy"),
    ({"dictionaryColumns": "a"}, "remove the option dictionaryColumns"),
    ({"tensorColumns": "a:2x3"}, "remove the option tensorColumns"),
]


@pytest.mark.parametrize(("given", "words"), CONTRADICTIONS)
def test_options_that_the_layout_has_no_place_for(given, words):
    with pytest.raises(OptionError, match=words):
        parse_write({"layout": "huggingface", **given})


def test_a_stream_has_no_layout():
    with pytest.raises(OptionError, match="the option layout is for single jobs"):
        check_streamed(parse_write({"layout": "huggingface"}))


def test_a_map_is_refused_before_any_task_runs():
    schema = s.StructType([s.StructField("m", s.MapType(s.StringType(), s.LongType()))])
    with pytest.raises(UnsupportedError, match=r"field m: .*map_entries.*Nothing is written"):
        plan_write(schema, parse_write({"layout": "huggingface"}))


def write(frame, path, mode="overwrite", **options):
    frame.write.format("arrowipc").options(layout="huggingface", **options).mode(mode).save(str(path))


def rows(path):
    """Return the rows that the JSON files name, by pyarrow."""
    names = [one["filename"] for one in json.loads((path / "state.json").read_text())["_data_files"]]
    return pa.concat_tables([pa.ipc.open_stream((path / name).read_bytes()).read_all() for name in names]).to_pylist()


def test_what_spark_writes_is_named_in_the_order_of_its_tasks(spark, tmp_path):
    frame = spark.range(0, 100, 1, 4)
    write(frame, tmp_path / "x")
    assert [{"id": i} for i in range(100)] == rows(tmp_path / "x")
    assert 100 == spark.read.format("arrowipc").load(str(tmp_path / "x")).count()
    write(frame.where("id > 97"), tmp_path / "x", maxRecordsPerFile=1)
    assert [{"id": 98}, {"id": 99}] == rows(tmp_path / "x")
    write(frame.where("id < 0"), tmp_path / "x")
    assert [] == rows(tmp_path / "x")
    assert ["id"] == spark.read.format("arrowipc").load(str(tmp_path / "x")).columns


def test_an_append_is_refused_and_leaves_what_is_there(spark, tmp_path):
    with pytest.raises(PySparkException, match="mode append would keep others"):
        write(spark.range(3), tmp_path / "x", mode="append")
    assert not (tmp_path / "x").exists()
    write(spark.range(3), tmp_path / "x", mode="append", ifExists="error")
    with pytest.raises(PySparkException, match="others beside them would not be"):
        spark.range(3).write.format("arrowipc").mode("append").save(str(tmp_path / "x"))
    assert [{"id": i} for i in range(3)] == sorted(rows(tmp_path / "x"), key=lambda row: row["id"])


def test_a_streaming_append_is_refused(spark, tmp_path):
    write(spark.range(3), tmp_path / "x")
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 2).load().selectExpr("value AS id")
    query = source.writeStream.format("arrowipc").trigger(once=True).option("checkpointLocation", str(tmp_path / "c"))
    with pytest.raises(PySparkException, match="others beside them would not be"):
        query.start(str(tmp_path / "x")).awaitTermination()
