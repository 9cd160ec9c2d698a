"""Which structs are the storage of variants, and which of their values Spark's variants lack."""

import pytest

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import UnsupportedError
from spark_arrow_ipc.spark.types.extension_columns import check_variant, is_shredded, is_variant

US, NS, S = t.TimeUnit.MICROSECOND, t.TimeUnit.NANOSECOND, t.TimeUnit.SECOND
META = ("metadata", t.binary)
NODE = t.struct([("value", t.binary), ("typed_value", t.int64)])


def typed(type_, *others):
    return t.struct([META, *others, ("typed_value", type_)])


STORAGE = [
    ("whole", t.struct([META, ("value", t.binary_view)]), True),
    ("in another order", t.struct([("value", t.binary), META]), True),
    ("metadata in a dictionary", t.struct([("metadata", t.dictionary(t.int8, t.binary)), ("value", t.binary)]), True),
    ("only shredded", typed(t.int64), True),
    ("an object", typed(t.struct([("a", NODE), ("b", t.struct([("value", t.binary)]))])), True),
    ("an object without fields", typed(t.struct([])), True),
    ("a list", typed(t.list_(NODE), ("value", t.binary)), True),
    ("a list of lists", typed(t.LargeList(t.Field("element", typed(t.list_(NODE)).fields[1].type.value.type))), True),
    ("nanoseconds, which are an error", typed(t.Timestamp(NS)), True),
    ("no metadata", t.struct([("value", t.binary)]), False),
    ("only metadata", t.struct([META]), False),
    ("another field", t.struct([META, ("value", t.binary), ("x", t.int8)]), False),
    ("a field twice", t.struct([META, META, ("value", t.binary)]), False),
    ("metadata of strings", t.struct([("metadata", t.utf8), ("value", t.binary)]), False),
    ("a value of strings", t.struct([META, ("value", t.utf8)]), False),
    ("no struct", t.binary, False),
    ("unsigned numbers", typed(t.uint8), False),
    ("seconds", typed(t.Timestamp(S)), False),
    ("a decimal of too many digits", typed(t.Decimal(39, 2, 256)), False),
    ("a decimal of a negative scale", typed(t.Decimal(5, -2)), False),
    ("a list of numbers", typed(t.list_(t.int64)), False),
    ("an object of numbers", typed(t.struct([("a", t.int64)])), False),
    ("an object with a field twice", typed(t.struct([("a", NODE), ("a", NODE)])), False),
    ("an empty node", typed(t.struct([("a", t.struct([]))])), False),
]


@pytest.mark.parametrize(("type_", "expected"), [case[1:] for case in STORAGE], ids=[case[0] for case in STORAGE])
def test_what_is_the_storage_of_a_variant(type_, expected):
    assert expected == is_variant(type_)


def test_what_is_shredded():
    assert [False, True] == [is_shredded(type_) for type_ in (STORAGE[0][1], typed(t.int64))]


LACKING = [
    ("nanoseconds", typed(t.Timestamp(NS)), "v"),
    ("a time in a list", typed(t.list_(t.struct([("typed_value", t.Time(US, 64))]))), r"v\[\]"),
    (
        "nanoseconds in an object",
        typed(t.struct([("a", t.struct([("typed_value", t.Timestamp(NS, "UTC"))]))])),
        r"v\.a",
    ),
]


@pytest.mark.parametrize(("type_", "path"), [case[1:] for case in LACKING], ids=[case[0] for case in LACKING])
def test_what_spark_lacks_is_an_error_that_names_the_part(type_, path):
    assert is_variant(type_)
    with pytest.raises(
        UnsupportedError, match=f"field {path}: .*Spark's variant has no such type; .*extensionTypes=storage"
    ):
        check_variant(type_, "v")


def test_what_spark_has_is_no_error():
    check_variant(typed(t.struct([("a", NODE)])), "v")
