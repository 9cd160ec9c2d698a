"""Schemas of several files become one, or an error that names both files."""

import pytest
from pyspark.sql import types as s

from spark_arrow_ipc.errors import ColumnNotFoundError, SchemaMismatchError
from spark_arrow_ipc.spark.types.merge import merge_schemas

pytestmark = pytest.mark.usefixtures("spark")


def ddl(text):
    return s.StructType.fromDDL(text)


def merged(*texts):
    return merge_schemas((f"/{i}.arrow", ddl(text)) for i, text in enumerate(texts))


MERGED = {
    "one": (["a int, b string"], "a int, b string"),
    "alike": (["a int, b string"] * 3, "a int, b string"),
    "new columns stand behind": (["a int", "b int, a int", "c int, b int"], "a int, b int, c int"),
    "names in another case": (["Ab int", "aB int"], "Ab int"),
    "integers": (["a tinyint", "a int", "a smallint", "a bigint"], "a bigint"),
    "floats": (["a double", "a float"], "a double"),
    "decimals": (["a decimal(10, 2)", "a decimal(9, 4)"], "a decimal(12, 4)"),
    "date and timestamp_ntz": (["a date", "a timestamp_ntz"], "a timestamp_ntz"),
    "void first": (["a void", "a array<int>"], "a array<int>"),
    "void second": (["a map<string, int>", "a void"], "a map<string, int>"),
    "structs": (["a struct<x: int>", "a struct<y: string, x: bigint>"], "a struct<x: bigint, y: string>"),
    "arrays": (["a array<struct<x: int>>", "a array<struct<y: int>>"], "a array<struct<x: int, y: int>>"),
    "maps": (["a map<int, int>", "a map<bigint, void>"], "a map<bigint, int>"),
}


@pytest.mark.parametrize("case", MERGED)
def test_schemas_unite(case):
    texts, expected = MERGED[case]
    assert ddl(expected) == merged(*texts)


CONFLICTS = {
    "text and number": (["a int", "b int", "b string"], "b: int in /1.arrow and string in /2.arrow cannot be merged"),
    "integer and float": (["a int", "a double"], "a: int in /0.arrow and double in /1.arrow"),
    "decimal and text": (["a decimal(5, 2)", "a string"], "a: decimal(5,2) in /0.arrow and string in /1.arrow"),
    "zone and none": (["a timestamp", "a timestamp_ntz"], "timestamp in /0.arrow and timestamp_ntz in /1.arrow"),
    "in a struct": (["s struct<x: int>", "s struct<y: int>", "s struct<y: date>"], "s.y: int in /1.arrow and date in /2.arrow"),
    "in an array": (["s array<int>", "s array<string>"], "s.element: int in /0.arrow and string in /1.arrow"),
    "struct and array": (["a struct<x: int>", "a array<int>"], "struct<x:int> in /0.arrow and array<int> in /1.arrow"),
    "too many digits": (["a decimal(38, 0)", "a decimal(38, 38)"], "decimal(38,0) in /0.arrow and decimal(38,38) in"),
}  # fmt: skip


@pytest.mark.parametrize("case", CONFLICTS)
def test_a_conflict_names_both_files(case):
    texts, expected = CONFLICTS[case]
    with pytest.raises(SchemaMismatchError) as caught:
        merged(*texts)
    assert expected in str(caught.value)


def test_a_name_that_may_stand_for_two_columns_is_an_error():
    with pytest.raises(ColumnNotFoundError, match="may stand for"):
        merged("Ab int, AB int", "ab int")


def test_metadata_goes_with_the_type_it_tells_of():
    narrow = s.StructType([s.StructField("a", s.IntegerType(), metadata={"ARROW:type": "uint16"})])
    wide = s.StructType([s.StructField("a", s.LongType(), metadata={"ARROW:type": "uint32"})])
    assert {"ARROW:type": "uint32"} == merge_schemas([("/0", narrow), ("/1", wide)])["a"].metadata
    assert {"ARROW:type": "uint32"} == merge_schemas([("/0", wide), ("/1", narrow)])["a"].metadata
    assert {"ARROW:type": "uint16"} == merge_schemas([("/0", narrow), ("/1", narrow)])["a"].metadata
