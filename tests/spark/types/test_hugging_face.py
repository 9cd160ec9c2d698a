"""The features of HuggingFace's schemas at Spark's columns and back."""

import json

import pytest
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.listing.hugging_face import METADATA_KEY as KEY
from spark_arrow_ipc.spark.options.options import parse_read, parse_write
from spark_arrow_ipc.spark.types.arrow_to_spark import spark_schema
from spark_arrow_ipc.spark.types.merge import merge_schemas
from spark_arrow_ipc.spark.types.schema_pairs import FEATURE_KEY, feature_pairs, split_features
from spark_arrow_ipc.spark.write.plan import plan_write

LABEL = {"names": ["neg", "pos"], "_type": "ClassLabel"}
IMAGE = {"_type": "Image", "mode": None}
TEXT = {"dtype": "string", "_type": "Value"}


def pair(**features):
    return KEY, json.dumps({"info": {"features": features}, "fingerprint": "f"})


NOTED = [
    ("names of a label", [pair(label=LABEL, text=TEXT)], {"label": LABEL}),
    ("an image", [pair(image=IMAGE)], {"image": IMAGE}),
    ("lists of values are inferred", [pair(a={"feature": TEXT, "length": 3, "_type": "List"})], {}),
    ("large lists of structs of values", [pair(a={"feature": {"x": TEXT}, "_type": "LargeList"})], {}),
    ("a list of labels", [pair(a={"feature": LABEL, "_type": "List"})], {"a": {"feature": LABEL, "_type": "List"}}),
    ("a struct with a label", [pair(a={"x": TEXT, "y": LABEL})], {"a": {"x": TEXT, "y": LABEL}}),
    ("a struct with a field _type", [pair(a={"_type": TEXT, "y": LABEL})], {"a": {"_type": TEXT, "y": LABEL}}),
    ("a list of older releases", [pair(a=[LABEL])], {"a": [LABEL]}),
    ("what may come", [pair(a={"_type": "Smell"})], {"a": {"_type": "Smell"}}),
    ("none", [], {}),
    ("twice the same", [pair(label=LABEL)] * 2, {"label": LABEL}),
    ("two that disagree", [pair(label=LABEL), pair(label=IMAGE)], {}),
    ("no JSON", [(KEY, "{")], {}),
    ("too deep", [(KEY, "[" * 1000 + "]" * 1000)], {}),
    ("a list", [(KEY, "[]")], {}),
    ("no info", [(KEY, '{"info": 1}')], {}),
    ("no features", [(KEY, '{"info": {"features": null}}')], {}),
]  # fmt: skip


@pytest.mark.parametrize("case", [case[1:] for case in NOTED], ids=[case[0] for case in NOTED])
def test_what_arrow_types_do_not_say_is_noted(case):
    pairs, expected = case
    assert expected == {name: json.loads(note) for name, note in split_features(tuple(pairs)).items()}


def of_file(*pairs):
    fields = (t.field("label", t.int64), t.field("text", t.utf8))
    return spark_schema(Schema(fields, tuple(pairs)), parse_read({"path": "/x"}))


def test_a_spark_column_says_its_feature():
    schema = of_file(pair(label=LABEL, text=TEXT, absent=IMAGE))
    assert [LABEL, None] == [json.loads(field.metadata.get(FEATURE_KEY, "null")) for field in schema.fields]


def test_a_feature_reaches_what_is_written_under_the_columns_name():
    label = of_file(pair(label=LABEL))["label"]
    renamed = s.StructType(
        [s.StructField("y", s.LongType(), metadata=label.metadata), s.StructField("n", s.LongType())]
    )
    (plan,) = [plan_write(renamed, parse_write({}))]
    assert {"y": LABEL} == json.loads(dict(plan.file_schema.custom_metadata)[KEY])["info"]["features"]
    assert plan.file_schema.custom_metadata == spark_read_back(plan.file_schema)


def spark_read_back(schema):
    return plan_write(spark_schema(schema, parse_read({"path": "/x"})), parse_write({})).file_schema.custom_metadata


def test_a_users_own_pair_stands():
    metadata = parse_write({"metadata.huggingface": "{}"})
    assert "{}" == dict(plan_write(of_file(pair(label=LABEL)), metadata).file_schema.custom_metadata)[KEY]


def test_a_partition_column_is_in_no_file():
    schema = of_file(pair(label=LABEL))
    assert () == plan_write(schema, parse_write({"partitionBy": "label"})).file_schema.custom_metadata


@pytest.mark.parametrize("note", [7, "{", "7", '"x"', None, {"names": "x"}])
def test_what_a_user_makes_of_a_note_is_no_feature(note):
    assert () == feature_pairs(s.StructType([s.StructField("a", s.LongType(), metadata={FEATURE_KEY: note})]))


def test_files_that_disagree_merge_without_a_feature():
    one, other, plain = of_file(pair(label=LABEL)), of_file(pair(label={**LABEL, "names": ["pos", "neg"]})), of_file()
    assert FEATURE_KEY in merge_schemas([("a", one), ("b", one)])["label"].metadata
    assert FEATURE_KEY not in merge_schemas([("a", one), ("b", other)])["label"].metadata
    assert FEATURE_KEY not in merge_schemas([("a", plain), ("b", one)])["label"].metadata
    assert FEATURE_KEY not in merge_schemas([("a", one), ("b", plain)])["label"].metadata
