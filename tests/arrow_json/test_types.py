"""Types and fields as integration JSON: what is written is read again as the same."""

import json

import pytest
import strategies
from hypothesis import given

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.layout import LAYOUTS
from spark_arrow_ipc.arrow_json.document import load
from spark_arrow_ipc.arrow_json.types import (
    MAX_DEPTH,
    MEMBERS,
    field_from_json,
    field_to_json,
    type_from_json,
    type_to_json,
)
from spark_arrow_ipc.errors import InvalidMetadataError, LimitError


def again(members):
    return load(json.dumps(members).encode())


@pytest.mark.slow
@given(strategies.types())
def test_every_type_survives(type_):
    assert type_ == type_from_json(again(type_to_json(type_)))


@pytest.mark.slow
@given(strategies.fields(3))
def test_every_field_survives(field):
    assert field == field_from_json(again(field_to_json(field)))


INT8 = {"name": "int", "bitWidth": 8, "isSigned": True}
UTF8 = {"name": "utf8"}

SPELT = [
    ("without parameters", t.utf8, {"type": UTF8, "children": []}),
    (
        "with a child",
        t.List(t.Field("n", t.int8, nullable=False)),
        {"type": {"name": "list"}, "children": [{"name": "n", "nullable": False, "type": INT8, "children": []}]},
    ),
    (
        "an ordered dictionary",
        t.Dictionary(t.int8, t.utf8, ordered=True),
        {"type": UTF8, "dictionary": {"indexType": INT8, "isOrdered": True}, "children": []},
    ),
    (
        "a dictionary of a nested type",
        t.Dictionary(t.int8, t.list_(t.utf8)),
        {
            "type": {"name": "list"},
            "dictionary": {"indexType": INT8, "isOrdered": False},
            "children": [{"name": "item", "nullable": True, "type": UTF8, "children": []}],
        },
    ),
]


@pytest.mark.parametrize(("type_", "members"), [c[1:] for c in SPELT], ids=[c[0] for c in SPELT])
def test_types_are_spelt_as_the_format_says(type_, members):
    assert members == type_to_json(type_)


def nested(levels):
    """Return a type with the given number of levels of fields."""
    type_ = t.int8
    for _ in range(levels - 1):
        type_ = t.list_(type_)
    return type_to_json(type_)


WRONG = [
    ("no type", {"children": []}, "a member 'type' at $"),
    ("no children", {"type": UTF8}, "a member 'children' at $"),
    ("too many children", type_to_json(t.list_(t.int8)) | {"type": UTF8}, "a type with 1 children at $.type"),
    ("an unknown name", {"type": {"name": "text"}, "children": []}, "one of null, bool"),
    ("an impossible type", {"type": INT8 | {"bitWidth": 7}, "children": []}, "an integer bit width"),
    (
        "an index that is no integer",
        {"type": UTF8, "children": [], "dictionary": {"indexType": UTF8, "isOrdered": False}},
        "an integer type at $.dictionary.indexType",
    ),
]


@pytest.mark.parametrize(("members", "expected"), [c[1:] for c in WRONG], ids=[c[0] for c in WRONG])
def test_wrong_json_is_refused_with_its_place(members, expected):
    with pytest.raises(InvalidMetadataError) as caught:
        type_from_json(again(members))
    assert expected in str(caught.value)


def test_levels_are_bounded():
    assert type_from_json(again(nested(MAX_DEPTH)))
    with pytest.raises(LimitError, match="64 levels"):
        type_from_json(again(nested(MAX_DEPTH + 1)))


def test_every_type_has_a_name():
    assert MEMBERS.keys() == LAYOUTS.keys()
