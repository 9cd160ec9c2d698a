"""Types are checked when they are made, compare by value, and are written as people read them."""

import pytest

from spark_arrow_ipc.arrow import types as t

IMPOSSIBLE = [
    ("an integer of 7 bits", lambda: t.Int(7, signed=True), "bit width of 8, 16, 32 or 64, found 7"),
    ("a decimal of 100 bits", lambda: t.Decimal(3, 1, 100), "bit width of 32, 64, 128 or 256, found 100"),
    ("a decimal of too many digits", lambda: t.Decimal(19, 1, 64), "precision of 1 to 18, found 19"),
    ("a decimal without digits", lambda: t.Decimal(0, 0), "precision of 1 to 38, found 0"),
    ("microseconds in 32 bits", lambda: t.Time(t.TimeUnit.MICROSECOND, 32), "bit width of 64, found 32"),
    ("an empty time zone", lambda: t.Timestamp(t.TimeUnit.SECOND, ""), "found an empty name"),
    ("bytes of a negative width", lambda: t.FixedSizeBinary(-1), "at least 0, found -1"),
    ("a list of a negative size", lambda: t.FixedSizeList(t.Field("x", t.int8), -1), "at least 0, found -1"),
    ("a map of one field", lambda: t.Map(t.Field("x", t.struct([("k", t.int8)]))), "a struct with two fields"),
    ("a union with too few ids", lambda: t.SparseUnion((t.Field("x", t.int8),), ()), "1 union type ids"),
    ("a union with an id twice", lambda: t.DenseUnion((t.Field("x", t.int8),) * 2, (1, 1)), "distinct union type ids"),
    ("a union id above 127", lambda: t.DenseUnion((t.Field("x", t.int8),), (128,)), "0 to 127"),
    ("run ends of 8 bits", lambda: t.run_end_encoded(t.int8, t.utf8), "run ends of int16, int32 or int64"),
    ("an index that is no integer", lambda: t.dictionary(t.utf8, t.utf8), "index of an integer type"),
    ("a dictionary of dictionaries", lambda: t.dictionary(t.int8, t.dictionary(t.int8, t.utf8)), "not a dictionary"),
]


@pytest.mark.parametrize(("make", "words"), [c[1:] for c in IMPOSSIBLE], ids=[c[0] for c in IMPOSSIBLE])
def test_impossible_types_are_refused(make, words):
    with pytest.raises(ValueError) as caught:
        make()
    assert words in str(caught.value)


WRITTEN = [
    (t.uint8, "uint8"),
    (t.float16, "float16"),
    (t.Decimal(5, -2, 64), "decimal64(5, -2)"),
    (t.date64, "date64[ms]"),
    (t.Timestamp(t.TimeUnit.NANOSECOND, "UTC"), "timestamp[ns, tz=UTC]"),
    (t.list_(t.Field("x", t.int8, nullable=False)), "list<x: int8 not null>"),
    (t.map_(t.utf8, t.int8), "map<key: utf8 not null, value: int8>"),
    (t.map_(t.utf8, t.int8, keys_sorted=True), "map<key: utf8 not null, value: int8, sorted>"),
    (t.SparseUnion((t.Field("x", t.int8),), (5,)), "sparse_union<x: int8=5>"),
    (t.dictionary(t.int8, t.utf8, ordered=True), "dictionary<int8, utf8, ordered>"),
]


@pytest.mark.parametrize(("type_", "expected"), WRITTEN, ids=[c[1] for c in WRITTEN])
def test_types_as_people_read_them(type_, expected):
    assert expected == str(type_)


def test_types_compare_by_value():
    assert t.list_(t.int8) == t.list_(t.Field("item", t.int8))
    assert 1 == len({t.struct([("a", t.int8)]), t.struct([t.Field("a", t.int8)])})
    assert t.list_(t.int8) != t.List(t.Field("element", t.int8))


def test_the_extension_of_a_field_is_in_its_metadata():
    assert t.field("x", t.utf8).extension_name is None
    assert "a.b" == t.field("x", t.utf8, custom_metadata={"ARROW:extension:name": "a.b"}).extension_name
