"""Schemas survive their tables; a type, unit or width that the format lacks is refused with its path."""

import pytest

from spark_arrow_ipc.arrow import Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import InvalidMetadataError, LimitError, UnsupportedError
from spark_arrow_ipc.ipc.constants import Limits
from spark_arrow_ipc.ipc.flatbuf import builder, reader, tables
from spark_arrow_ipc.ipc.messages.schema import DISCRIMINANTS, TYPES, decode_schema, encode_schema, number_dictionaries

INT = {"type": (tables.INT, {"bitWidth": 8, "is_signed": True})}
SCHEMA = Schema.of(
    [
        t.field("a", t.int8, nullable=False, custom_metadata={"k": "v"}),
        t.field("d", t.dictionary(t.int16, t.list_(t.dictionary(t.int8, t.utf8)))),
        t.field("t", t.Timestamp(t.TimeUnit.MILLISECOND, "UTC")),
    ],
    {"who": "us"},
)


def decoded(values, limits=None, **budget):
    flatbuffer = memoryview(builder.build(tables.SCHEMA, values))
    return decode_schema(reader.root(flatbuffer, tables.SCHEMA, **budget), limits or Limits())


def field_of(values, **more):
    return {"fields": [{"name": "f", **values}], **more}


def test_a_schema_survives_its_table():
    message = number_dictionaries(SCHEMA)
    assert (0, 1) == message.dictionary_ids
    assert message == decoded(encode_schema(message))


def test_every_member_of_the_union_has_a_type():
    assert set(tables.Type) - {tables.Type.NONE} == set(TYPES) == set(DISCRIMINANTS.values())


def test_known_features_are_accepted():
    message = number_dictionaries(SCHEMA)
    assert message == decoded(encode_schema(message, features=(1, 2)))


def test_an_index_without_a_type_is_int32():
    (field,) = decoded(field_of({**INT, "dictionary": {"id": 7}})).schema.fields
    assert t.dictionary(t.int32, t.int8) == field.type


REFUSED = [
    ("no type", field_of({}), InvalidMetadataError, "f: expected a type"),
    ("a list without a child", field_of({"type": (tables.LIST, {})}), InvalidMetadataError, "f: expected one child field, found 0"),
    ("runs without values", field_of({"type": (tables.RUN_END_ENCODED, {}), "children": [INT]}), InvalidMetadataError, "f: expected two child fields, found 1"),
    ("a child of an int", field_of({**INT, "children": [INT]}), InvalidMetadataError, "f: expected no child fields of int8, found 1"),
    ("a child of a width of no int", field_of({"type": (tables.INT, {"bitWidth": 9}), "children": [INT]}), InvalidMetadataError, "f: .*found 9"),
    ("an index of no width", field_of({**INT, "dictionary": {"id": 7, "indexType": {"bitWidth": 9}}}), InvalidMetadataError, "f: .*found 9"),
    ("a kind of dictionaries", field_of({**INT, "dictionary": {"id": 7, "dictionaryKind": 1}}), UnsupportedError, "dictionary kind 1"),
    ("a feature", field_of(INT, features=[8]), UnsupportedError, "feature 8; this release knows DICTIONARY_REPLACEMENT"),
    ("a byte order", field_of(INT, endianness=2), InvalidMetadataError, "endianness of 0 or 1.*found 2"),
    ("a union", field_of({"type": (tables.UNION, {"mode": 2})}), InvalidMetadataError, "f: expected a union mode of 0 .*found 2"),
]  # fmt: skip


@pytest.mark.parametrize(("values", "error", "says"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED])
def test_what_the_format_does_not_have_is_refused(values, error, says):
    with pytest.raises(error, match=says):
        decoded(values)


def test_a_number_of_no_type_is_refused_with_its_field():
    values = memoryview(bytearray(builder.build(tables.SCHEMA, field_of(INT))))
    (view,) = reader.root(values, tables.SCHEMA).tables("fields")
    assert tables.Type.Int == view.discriminant("type")
    for at in range(len(values)):
        if values[at] == tables.Type.Int:
            values[at] = 99
            if view.discriminant("type") == 99:
                break
            values[at] = tables.Type.Int
    with pytest.raises(InvalidMetadataError, match="field f: this release does not know type 99, nor how many buffers"):
        decode_schema(reader.root(values, tables.SCHEMA), Limits())


@pytest.mark.parametrize(("budget", "enough"), [("max_columns", 4), ("max_depth", 2)])
def test_a_field_above_the_budget_is_refused(budget, enough):
    values = encode_schema(number_dictionaries(SCHEMA))
    assert decoded(values, Limits(**{budget: enough}))
    with pytest.raises(LimitError, match=budget):
        decoded(values, Limits(**{budget: enough - 1}))


def test_a_budget_of_tables_is_not_an_error_of_the_type():
    """The fifth table is the type of the indices, after schema, field, dictionary and type."""
    values = field_of({**INT, "dictionary": {"id": 7, "indexType": {"bitWidth": 8}}})
    with pytest.raises(LimitError, match="max_tables"):
        decoded(values, max_tables=4)
    assert decoded(values, max_tables=5)
