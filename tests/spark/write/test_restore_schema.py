"""Noted types are the written schema, or an error before any task says why not."""

import pyarrow as pa
import pytest
from pyspark.sql import types as s
from restored_columns import EXTENSION, RESTORE, UUIDS, noted, spark_column, written

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.errors import UnsupportedError
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.options.values import Nanoseconds, Vectors
from spark_arrow_ipc.spark.options.write_options import SparkWriteOptions
from spark_arrow_ipc.spark.types import spark_to_arrow
from spark_arrow_ipc.spark.types.merge import merge_schemas
from spark_arrow_ipc.spark.write.plan import plan_write

S, MS, US, NS = t.TimeUnit


def test_an_extension_inside_a_struct_comes_back():
    type_ = t.Struct((t.field("u", t.FixedSizeBinary(16), custom_metadata={EXTENSION: "arrow.uuid"}),))
    array = from_pylist.array([{"u": value} for value in UUIDS], type_)
    (column,) = written(*spark_column(array)).columns
    assert (type_, array.to_pylist()) == (column.type, column.to_pylist())


UUID = {EXTENSION: "arrow.uuid", "k": "v"}
OF_ITEMS = [
    ("an extension in a list", t.list_(t.field("item", t.FixedSizeBinary(16), custom_metadata=UUID)), [UUIDS]),
    ("in a list view", t.ListView(t.field("item", t.FixedSizeBinary(16), custom_metadata=UUID)), [UUIDS]),
    ("in a list of lists", t.LargeList(t.field("outer", t.list_(t.field("e", t.FixedSizeBinary(16), custom_metadata=UUID)))), [[UUIDS]]),
    ("of a fixed size", t.FixedSizeList(t.field("x", t.utf8, custom_metadata={EXTENSION: "arrow.json"}), 1), [["{}"]]),
    ("in a map", t.Map(t.field("all", t.Struct((t.field("k", t.utf8, nullable=False, custom_metadata={"a": "b"}), t.field("v", t.FixedSizeBinary(16), custom_metadata=UUID))), nullable=False, custom_metadata={"m": "n"})), [[("x", UUIDS[0])]]),
    ("in a struct of a list", t.list_(t.field("e", t.Struct((t.field("u", t.list_(t.field("z", t.FixedSizeBinary(16), custom_metadata=UUID))),)))), [[{"u": UUIDS}]]),
    ("only a name", t.list_(t.field("element", t.int64)), [[1]]),
    ("bytes that are not UTF-8", t.list_(t.field("item", t.int64, custom_metadata={"k": b"\xff"})), [[1]]),
    ("runs", t.RunEndEncoded(t.field("ends", t.int32, nullable=False, custom_metadata={"a": "b"}), t.field("value", t.utf8, custom_metadata={"c": "d"})), ["x", "x"]),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "values"), [case[1:] for case in OF_ITEMS], ids=[case[0] for case in OF_ITEMS])
def test_names_extensions_and_metadata_of_items_come_back(type_, values):
    """Spark has no fields for items, keys and values, so the note of the column has theirs."""
    batch = written(*spark_column(from_pylist.array(values, type_)))
    (column,) = batch.columns
    assert (type_, values) == (batch.schema.fields[0].type, column.to_pylist())


def test_an_item_that_became_an_extension_of_sparks_own_keeps_its_name():
    noted_as = t.list_(t.field("e", spark_to_arrow._VARIANT, custom_metadata={EXTENSION: "a.test", "k": "v"}))
    schema, _ = noted(s.ArrayType(s.VariantType()), noted_as, [], pa.null())
    (item,) = plan_write(schema, RESTORE).columns.schema.fields[0].type.children
    assert ("e", "arrow.parquet.variant", "v") == (item.name, item.extension_name, dict(item.custom_metadata)["k"])


NS_ZONED = t.Timestamp(NS, "UTC")
ORDERED = t.dictionary(t.int8, t.utf8, ordered=True)
FLOOR, EXACT, COUNTS = (ReadOptions(nanoseconds=value) for value in Nanoseconds)
NEVER_BACK = [
    ("a union", t.SparseUnion((t.field("n", t.uint8),), (0,)), EXACT, "would become sparse_union"),
    ("a union in a list", t.list_(t.SparseUnion((t.field("n", t.uint8),), (0,))), EXACT, "would become list<"),
    ("a dictionary with an order", ORDERED, EXACT, "would become dictionary"),
    ("a map with an order", t.map_(t.utf8, t.int8, keys_sorted=True), EXACT, "would become map"),
    ("rounded instants", NS_ZONED, FLOOR, "nanoseconds=floor"),
    ("rounded durations in a list", t.list_(t.Duration(NS)), FLOOR, "nanoseconds=floor"),
    ("rounded times", t.Time(NS, 64), FLOOR, "nanoseconds=floor"),
    ("rounded values of a dictionary", t.dictionary(t.int8, NS_ZONED), FLOOR, "nanoseconds=floor"),
    ("days of instants", t.date64, FLOOR, "nanoseconds=floor"),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "read", "words"), [case[1:] for case in NEVER_BACK], ids=[c[0] for c in NEVER_BACK])
def test_a_column_that_cannot_come_back_as_it_was_is_an_error_before_any_task(type_, read, words):
    schema, batches = spark_column(from_pylist.array([], type_), read)
    with pytest.raises(UnsupportedError, match=rf"field c: .*{words}.*leave restoreTypes out"):
        plan_write(schema, RESTORE)
    assert 1 == len(plan_write(schema, SparkWriteOptions(vectors=Vectors.BINARY)).columns.schema)
    assert 0 == written(schema, batches, SparkWriteOptions()).num_rows


@pytest.mark.parametrize("read", [EXACT, COUNTS], ids=["error", "long"])
@pytest.mark.parametrize("type_", [NS_ZONED, t.Duration(NS), t.Time(NS, 64), t.date64, t.list_(NS_ZONED)], ids=str)
def test_what_was_read_exactly_comes_back(type_, read):
    assert (
        type_ == plan_write(spark_column(from_pylist.array([], type_), read)[0], RESTORE).columns.schema.fields[0].type
    )


def test_a_merged_column_is_as_exact_as_its_parts():
    parts = [spark_column(from_pylist.array([], t.Timestamp(unit, "UTC")), FLOOR)[0] for unit in (US, NS)]
    for order in (parts, parts[::-1]):
        with pytest.raises(UnsupportedError, match="nanoseconds=floor"):
            plan_write(merge_schemas([("a", order[0]), ("b", order[1])]), RESTORE)


def test_without_the_option_the_widened_type_stays():
    schema, batches = spark_column(from_pylist.array([1], t.uint8))
    assert t.int16 == written(schema, batches, SparkWriteOptions()).columns[0].type


A = s.StructType([s.StructField("a", s.LongType())])
NO_WAY_BACK = [
    ("another kind", s.StringType(), t.uint8, "uint8"),
    ("no zone", s.TimestampNTZType(), t.Timestamp(MS, "UTC"), r"timestamp\[ms, tz=UTC\]"),
    ("other fields", s.StructType([s.StructField("b", s.LongType())]), t.struct([("a", t.uint8)]), "struct<a: uint8>"),
    ("more fields", A, t.struct([("a", t.uint8), ("b", t.uint8)]), "struct<a: uint8, b: uint8>"),
    ("no struct any more", s.LongType(), t.struct([("a", t.uint8)]), "struct<a: uint8>"),
    ("no list any more", s.LongType(), t.LargeList(t.field("item", t.uint8)), "large_list<item: uint8>"),
    ("no map any more", s.LongType(), t.map_(t.int8, t.uint8), "map<"),
    ("a dictionary of structs", A, t.dictionary(t.int32, t.struct([("a", t.int64)])), "dictionary<"),
    ("16 bytes of another text", s.StringType(), t.FixedSizeBinary(15), r"fixed_size_binary\[15\]"),
    ("an element", s.ArrayType(s.StringType()), t.list_(t.uint8), "list<"),
    ("no JSON", s.LongType(), "{", "{ again"),
    ("JSON of no type", s.LongType(), "{}", "{} again"),
    ("an impossible type", s.LongType(), '{"type":{"name":"int","bitWidth":9,"isSigned":true},"children":[]}', '"bitWidth":9'),
    ("JSON that is too deep", s.LongType(), '{"type":' * 100_000, "type"),
    ("no characters", s.LongType(), "{\ud800", "again"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("spark_type", "note", "shown"), [case[1:] for case in NO_WAY_BACK], ids=[case[0] for case in NO_WAY_BACK]
)
def test_a_note_that_does_not_fit_the_column_is_an_error_before_any_task(spark_type, note, shown):
    schema, _ = noted(spark_type, note, [], pa.null())
    with pytest.raises(
        UnsupportedError, match=rf"field c: .*restoreTypes.*would become .*{shown}.*withMetadata\(column, \{{\}}\)"
    ):
        plan_write(schema, RESTORE)


def test_record_batches_are_no_longer_than_run_ends_count():
    schema, _ = spark_column(from_pylist.array([1], t.run_end_encoded(t.int16, t.int64)))
    assert 32_767 == plan_write(schema, RESTORE).sink.record_batch_rows
