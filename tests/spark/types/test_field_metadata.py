"""Arrow's key-value pairs in the metadata of a Spark field, there and back."""

import json

import pytest

from spark_arrow_ipc.arrow import Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.types import arrow_to_spark, field_metadata
from spark_arrow_ipc.spark.types.field_metadata import annotation_of

METADATA = {
    "none": (t.field("c", t.int8), {}),
    "keys that Spark interprets": (
        t.field("c", t.int8, custom_metadata=[("spark.watermarkDelayMs", "1"), ("__x", "2"), ("spark.watermarkDelayMs", "3")]),
        {"arrow.custom_metadata": [{"key": "spark.watermarkDelayMs", "value": "1"}, {"key": "__x", "value": "2"}, {"key": "spark.watermarkDelayMs", "value": "3"}]},
    ),
    "Arrow's own": (
        t.field("c", t.int8, custom_metadata={"ARROW:extension:name": "my.own", "a": "b"}),
        {"ARROW:extension:name": "my.own", "arrow.custom_metadata": [{"key": "a", "value": "b"}], "arrow.type": annotation_of(t.int8)},
    ),
    "a value that is not UTF-8": (
        t.field("c", t.int8, custom_metadata={"sha": b"\xff\0", "a": "b"}),
        {"arrow.custom_metadata": [{"key": "sha", "base64": "/wA="}, {"key": "a", "value": "b"}]},
    ),
    "a pickled extension type": (
        t.field("c", t.int8, custom_metadata={"ARROW:extension:name": "arrow.py_extension_type", "ARROW:extension:metadata": b"\x80\x04"}),
        {"ARROW:extension:name": "arrow.py_extension_type", "arrow.custom_metadata": [{"key": "ARROW:extension:metadata", "base64": "gAQ="}], "arrow.type": annotation_of(t.int8)},
    ),
    "Spark's own": (
        t.field("c", t.utf8, custom_metadata={"SPARK::metadata::json": '{"comment": "x", "n": [1, 2], "__CHAR_VARCHAR_TYPE_STRING": "varchar(5)"}', "a": "b"}),
        {"comment": "x", "n": [1, 2], "__CHAR_VARCHAR_TYPE_STRING": "varchar(5)", "arrow.custom_metadata": [{"key": "a", "value": "b"}]},
    ),
    "Spark's own with keys that it acts on": (
        t.field("c", t.int8, custom_metadata={"SPARK::metadata::json": '{"comment": "x", "spark.watermarkDelayMs": 1}'}),
        {"comment": "x", "arrow.custom_metadata": [{"key": "SPARK::metadata::json", "value": '{"comment": "x", "spark.watermarkDelayMs": 1}'}]},
    ),
    **{
        f"no metadata of Spark: {value[:30]}": (
            t.field("c", t.int8, custom_metadata={"SPARK::metadata::json": value}),
            {"arrow.custom_metadata": [{"key": "SPARK::metadata::json", "value": value}]},
        )
        for value in (
            "", "no JSON", "[1]", "[" * 100_000, '{"a": ' * 30 + "1" + "}" * 30, '{"n": NaN}', r'{"n": "\ud800"}', '{"n": [1, "a"]}', '{"n": [null]}', '{"n": 9223372036854775808}',
            '{"__CHAR_VARCHAR_TYPE_STRING": "drop; table"}', '{"__CHAR_VARCHAR_TYPE_STRING": 5}',
            # Spark's Java casts a comment to a string, and has no lists of lists.
            '{"comment": 5}', '{"comment": {"a": "b"}}', '{"n": [[1], [2]]}', '{"n": {"m": [[]]}}',
        )
    },
    **{
        f"a declared type of a field named {name}": (
            t.field("c", t.struct([(name, t.utf8)]), custom_metadata={"SPARK::metadata::json": json.dumps({"__CHAR_VARCHAR_TYPE_STRING": declared})}),
            {"__CHAR_VARCHAR_TYPE_STRING": declared} if is_parsed
            else {"arrow.custom_metadata": [{"key": "SPARK::metadata::json", "value": json.dumps({"__CHAR_VARCHAR_TYPE_STRING": declared})}]},
        )
        for name, declared, is_parsed in (
            ("a", "struct<a:char(3)>", True), ("_1", "struct<_1:char(3)>", True), ("a b", "struct<a b:char(3)>", False),
            ("é", "struct<é:char(3)>", False), ("1", "struct<1:char(3)>", False), ("a:int,b", "struct<a:int,b:char(3)>", False),
        )
    },
    "a widened type": (t.field("c", t.uint8), {"arrow.type": annotation_of(t.uint8)}),
    "nullability alone is not noted": (t.field("c", t.list_(t.field("item", t.int8, nullable=False))), {}),
    "another name of an item": (t.field("c", t.list_(t.field("x", t.int8))), {"arrow.type": annotation_of(t.list_(t.field("x", t.int8)))}),
}  # fmt: skip


@pytest.mark.parametrize("case", METADATA)
def test_metadata_of_a_field(case):
    """A file's keys never become keys of Spark: it interprets some."""
    field, expected = METADATA[case]
    assert expected == arrow_to_spark.spark_schema(Schema.of([field]), ReadOptions())["c"].metadata


EXTENSION = {"ARROW:extension:name": "arrow.uuid", "ARROW:extension:metadata": ""}
UUID = t.FixedSizeBinary(16)
PAIRS = [
    ("none", {}, t.int8, {}),
    ("keys that Spark acts on", {"spark.watermarkDelayMs": 1, "CURRENT_DEFAULT": "1", "__metadata_col": "x"}, t.int8, {}),
    ("keys of Spark, which the note of the schema has", {"comment": "x", "ml_attr": {"vals": ["a"]}}, t.int8, {}),
    ("keys of Spark and others of the file", {"comment": "x", "arrow.custom_metadata": [{"key": "SPARK::metadata::json", "value": '{"__a":1}'}, {"key": "a", "value": "b"}]}, t.int8, {"a": "b", "SPARK::metadata::json": '{"__a":1}'}),
    ("an extension on its storage", {**EXTENSION, "arrow.type": annotation_of(UUID)}, UUID, EXTENSION),
    ("an extension on another storage", {**EXTENSION, "arrow.type": annotation_of(UUID)}, t.utf8, {}),
    ("an extension of ours without a note", EXTENSION, UUID, EXTENSION),
    ("another extension without a note", {"ARROW:extension:name": "my.own"}, UUID, {}),
    ("another of Arrow's own", {"ARROW:other": "x"}, t.int8, {"ARROW:other": "x"}),
    ("pairs", {"arrow.custom_metadata": [{"key": "a", "value": "b"}]}, t.int8, {"a": "b"}),
    ("a value that is not UTF-8", {"arrow.custom_metadata": [{"key": "sha", "base64": "/wA="}]}, t.int8, {"sha": "\udcff\0"}),
    ("an extension's metadata that is not UTF-8", {"arrow.custom_metadata": [{"key": "ARROW:extension:metadata", "base64": "gAQ="}]}, t.int8, {}),
    ("no base64", {"arrow.custom_metadata": [{"key": "sha", "base64": "?"}, {"key": "a", "base64": 1}]}, t.int8, {}),
    ("pairs of another shape", {"arrow.custom_metadata": [{"key": 1}, "x", {"key": "a", "value": None}]}, t.int8, {}),
    ("no list of pairs", {"arrow.custom_metadata": "x", "ARROW:other": 1}, t.int8, {}),
]  # fmt: skip


@pytest.mark.parametrize(("metadata", "written", "pairs"), [c[1:] for c in PAIRS], ids=[c[0] for c in PAIRS])
def test_pairs_come_back(metadata, written, pairs):
    assert pairs == dict(field_metadata.from_spark(metadata, written))
