"""Arrow types noted in the metadata of Spark fields, as integration JSON."""

import json

import pytest
import strategies
from hypothesis import given

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.spark.types import field_metadata
from spark_arrow_ipc.spark.types.field_metadata import (
    annotation_of,
    is_storage_of,
    readable,
    simplify,
    storage,
    type_of_annotation,
)


def test_a_note_is_integration_json():
    note = {"type": {"name": "utf8"}, "dictionary": {"indexType": {"name": "int", "bitWidth": 8, "isSigned": True}, "isOrdered": True}, "children": []}  # fmt: skip
    assert note == json.loads(annotation_of(t.dictionary(t.int8, t.utf8, ordered=True)))


@pytest.mark.slow
@given(strategies.types())
def test_every_type_is_the_storage_of_its_note(type_):
    note = annotation_of(type_)
    assert is_storage_of(type_, note)
    assert is_storage_of(storage(type_), note)
    assert storage(type_) == storage(storage(type_))
    assert simplify(type_) == simplify(simplify(type_))
    assert str(simplify(type_)) == readable(note)


@pytest.mark.slow
@given(strategies.types(), strategies.types())
def test_two_types_have_one_note_only_if_all_that_is_noted_is_one(a, b):
    assert (simplify(a) == simplify(b)) == (annotation_of(a) == annotation_of(b))


STRUCT = t.struct([("a", t.int64), ("b", t.utf8)])
ALONG = [
    ("a width", t.uint8, t.int16, t.uint8),
    ("a dictionary", t.dictionary(t.int8, t.large_utf8), t.utf8, t.dictionary(t.int8, t.large_utf8)),
    ("elements", t.LargeList(t.field("item", t.uint8)), t.List(t.field("e", t.int16, nullable=False)), t.LargeList(t.field("item", t.uint8, nullable=False))),
    ("elements of a number", t.FixedSizeList(t.field("x", t.uint8), 2), t.list_(t.int16), t.FixedSizeList(t.field("x", t.uint8), 2)),
    ("fields in another order", t.struct([("b", t.large_utf8), ("a", t.uint8)]), STRUCT, t.struct([("b", t.large_utf8), ("a", t.uint8)])),
    ("fields of misleading names", t.struct([("a: int8, b", t.uint8)]), t.struct([("a: int8, b", t.int16)]), t.struct([("a: int8, b", t.uint8)])),
    ("metadata of a field", t.struct([("a", t.uint8)]), t.struct([t.field("a", t.int16, custom_metadata={"k": "v"})]), t.struct([t.field("a", t.uint8, custom_metadata={"k": "v"})])),
    ("a map", t.map_(t.uint8, t.date64), t.map_(t.int16, t.date32), t.map_(t.uint8, t.date64)),
    ("runs", t.run_end_encoded(t.int16, t.large_utf8), t.utf8, t.run_end_encoded(t.int16, t.large_utf8)),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "usual", "expected"), [case[1:] for case in ALONG], ids=[case[0] for case in ALONG])
def test_a_note_is_read_along_the_column(type_, usual, expected):
    assert expected == type_of_annotation(annotation_of(type_), usual)
    assert expected == type_of_annotation(type_, usual)


UNFIT = [
    ("no struct", t.struct([("a", t.uint8)]), t.int16),
    ("other fields", t.struct([("a", t.uint8)]), t.struct([("b", t.int16)])),
    ("one field less", STRUCT, t.struct([("a", t.int64)])),
    ("one field twice", t.struct([("a", t.uint8), ("a", t.uint8)]), t.struct([("a", t.int64)])),
    ("no list", t.LargeList(t.field("item", t.uint8)), t.int16),
    ("no map", t.map_(t.int8, t.int8), t.list_(t.int8)),
    ("the order of a dictionary", t.dictionary(t.int8, t.utf8, ordered=True), t.utf8),
    ("the order of keys", t.map_(t.uint8, t.date64, keys_sorted=True), t.map_(t.int16, t.date32)),
    ("a union", t.SparseUnion((t.field("a", t.int64), t.field("b", t.utf8)), (0, 1)), STRUCT),
    ("a union in a list", t.LargeList(t.field("item", t.DenseUnion((), ()))), t.list_(t.struct([]))),
    ("no JSON", "{", t.int16),
    ("no type", "{}", t.int16),
    ("too deep", '{"a":' * 100_000, t.int16),
    ("no characters", "{\ud800", t.int16),
]


@pytest.mark.parametrize(("note", "usual"), [case[1:] for case in UNFIT], ids=[case[0] for case in UNFIT])
def test_what_is_no_note_of_the_column_is_an_error(note, usual):
    with pytest.raises(ValueError):
        type_of_annotation(note, usual)


@pytest.mark.parametrize("note", ["{", "{}", "int16", "", None, 7, annotation_of(t.int16)])
def test_what_is_no_note_of_a_type_names_no_storage(note):
    assert not is_storage_of(t.uint8, note)


def test_both_tables_have_every_type_with_children_or_a_value():
    assert {*strategies.NESTED} == set(field_metadata._SIMPLIFY) == set(field_metadata._ALONG)
