"""Shredded variants are put together as value by value in plain Python; what the format forbids names the slot."""

import contextlib
import datetime as dt
import decimal
import uuid

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from convert_batches import converted
from hypothesis import given, settings
from hypothesis import strategies as st
from variant_values import decoded, encoded, metadata_of, shredded, tagged

from spark_arrow_ipc.errors import InvalidBodyError
from spark_arrow_ipc.spark.convert import variants

NAMED = {"ARROW:extension:name": "arrow.parquet.variant", "ARROW:extension:metadata": ""}
MISSING = object()
"""Stands for a row that is null."""


def storage_type(shape, list_of=pa.list_):
    """Return the type of the parts of a shape."""
    fields = [pa.field("value", pa.binary())]
    if isinstance(shape, list):
        fields.append(
            pa.field("typed_value", list_of(pa.field("element", storage_type(shape[0], list_of), nullable=False)))
        )
    elif isinstance(shape, dict):
        below = [pa.field(name, storage_type(part, list_of), nullable=False) for name, part in shape.items()]
        fields.append(pa.field("typed_value", pa.struct(below)))
    elif shape is not None:
        fields.append(pa.field("typed_value", pa.int64() if shape is int else pa.string()))
    return pa.struct(fields)


BINARY = pa.binary()


def storage(values, shape, list_of=pa.list_, metadata=BINARY):
    """Return the storage of values; each row has metadata of its own, of other widths."""
    rows = []
    for number, value in enumerate(values):
        keys = ["unused"] * (number % 2)
        parts = None if value is MISSING else shredded(value, shape, keys)
        rows.append(None if parts is None else {"metadata": metadata_of(keys, 2 + number % 3), **parts})
    fields = [pa.field("metadata", pa.binary()), *storage_type(shape, list_of)]
    made = pa.array(rows, pa.struct(fields))
    if metadata == BINARY:
        return made
    part = made.field("metadata")
    encoders = {
        pa.types.is_dictionary: part.dictionary_encode,
        pa.types.is_run_end_encoded: lambda: pc.run_end_encode(part),
    }
    encode = next((encode for is_kind, encode in encoders.items() if is_kind(metadata)), lambda: part.cast(metadata))
    encoded_part = encode()
    fields[0] = pa.field("metadata", encoded_part.type)
    return pa.StructArray.from_arrays(
        [encoded_part, *(made.field(f.name) for f in fields[1:])], fields=fields, mask=made.is_null()
    )


def found(array, metadata=NAMED):
    rows = converted(array, metadata=metadata).to_pylist()
    return [MISSING if row is None else decoded(row["metadata"], row["value"]) for row in rows]


def expected(values):
    return [MISSING if value is MISSING else tagged(value) for value in values]


LONG = "s" * 300
WIDE = {f"k{i:03}": i for i in range(300)}
OBJECT = {"b": int, "a": str, "é": None, "o": {"x": int, "l": [int]}}
VALUES = [
    {"a": "x", "b": 1, "é": [None, True], "o": {"x": 2, "l": [1, 2]}},
    {"b": "no number", "c": {"d": [1, {"e": False}]}, "A": None, "aa": LONG, "z": 1},
    {"o": {"y": 1, "x": None, "a": {}}, "a": None}, {}, MISSING, None, 5, "", [1], {"o": [], "0": 0},
    {"a": LONG, "b": -(2**63)}, WIDE, {"o": {"l": [1, "x", None, [2]]}}, {"o": {"l": list(range(400)), **WIDE}},
]  # fmt: skip
LISTS = [
    [],
    [1, 2],
    MISSING,
    [None, "x"],
    "no list",
    [{"a": 1, "b": 2}, {}, {"b": "x"}, 7],
    [[1]],
    None,
    [{"a": LONG}] * 300,
]
SHAPES = {
    "an object": (VALUES, OBJECT),
    "an object without fields": (VALUES, {}),
    "a number": (VALUES, int),
    "a string": (["", LONG, "s" * 63, "s" * 64, None, MISSING, 1], str),
    "a list": (LISTS, [None]),
    "a list of objects": (LISTS, [{"b": int, "a": None}]),
    "lists of lists": ([[[1], [], [2, "x"]], [[]], MISSING, [1], []], [[int]]),
    "wide objects": ([WIDE, {}, {"k007": "x", "more": 1}], dict.fromkeys(WIDE, int)),
    "no rows": ([], OBJECT),
    "only nulls": ([MISSING] * 3, OBJECT),
}


@pytest.mark.parametrize("case", SHAPES)
def test_values(case):
    values, shape = SHAPES[case]
    assert expected(values) == found(storage(values, shape))


LAYOUTS = {
    "large lists": {"list_of": pa.large_list},
    "list views": {"list_of": pa.list_view},
    "metadata in a dictionary": {"metadata": pa.dictionary(pa.int32(), pa.binary())},
    "metadata in runs": {"metadata": pa.run_end_encoded(pa.int32(), pa.binary())},
    "metadata as views": {"metadata": pa.binary_view()},
}


@pytest.mark.parametrize("case", LAYOUTS)
def test_layouts(case):
    values = [*VALUES, *LISTS]
    array = storage(values, OBJECT | {"o": {"l": [int]}}, **LAYOUTS[case])
    assert expected(values) == found(array)
    assert expected(values[3:9]) == found(array.slice(3, 6))


@pytest.mark.parametrize(("rows", "slots"), [(4, 1 << 22), (1 << 16, 5)])
def test_in_pieces(monkeypatch, rows, slots):
    monkeypatch.setattr(variants, "_CHUNK_ROWS", rows)
    monkeypatch.setattr(variants, "_CHUNK_SLOTS", slots)
    assert expected(VALUES) == found(storage(VALUES, OBJECT), NAMED | {"ARROW:extension:name": "parquet.variant"})


D = decimal.Decimal
MOMENT = dt.datetime(1960, 1, 2, 3, 4, 5, 6)
UUID = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")
PRIMITIVES = [
    ("boolean", pa.array([True, False, None]), [("boolean", True), ("boolean", False)]),
    ("int8", pa.array([-1, None], pa.int8()), [("number 3", -1)]),
    ("int16", pa.array([-300, None], pa.int16()), [("number 4", -300)]),
    ("int32", pa.array([70_000, None], pa.int32()), [("number 5", 70_000)]),
    ("float", pa.array([1.5, None], pa.float32()), [("number 14", 1.5)]),
    ("double", pa.array([-0.1, None], pa.float64()), [("number 7", -0.1)]),
    ("decimal4", pa.array([D("-1.25"), None], pa.decimal128(5, 2)), [("decimal 8", D("-1.25"))]),
    ("decimal4 in 32 bits", pa.array([D("1.25"), None], pa.decimal32(5, 2)), [("decimal 8", D("1.25"))]),
    ("decimal8", pa.array([D("-12345678901.25"), None], pa.decimal128(18, 2)), [("decimal 9", D("-12345678901.25"))]),
    ("decimal16", pa.array([D("12345678901234567890.5"), None], pa.decimal128(30, 1)), [("decimal 10", D("12345678901234567890.5"))]),
    ("date", pa.array([dt.date(2024, 2, 29), None]), [("date", dt.date(2024, 2, 29))]),
    ("timestamp", pa.array([MOMENT, None], pa.timestamp("us", "UTC")), [("timestamp", MOMENT)]),
    ("timestamp_ntz", pa.array([MOMENT, None], pa.timestamp("us")), [("timestamp_ntz", MOMENT)]),
    ("binary", pa.array([b"\0\xff", None], pa.large_binary()), [("binary", b"\0\xff")]),
    ("string", pa.array(["é" * 40, None], pa.string_view()), [("string", "é" * 40)]),
    ("uuid", pa.array([UUID.bytes, None], pa.binary(16)), [("uuid", UUID)]),
]  # fmt: skip


def beside(typed, value=None):
    """Return variants of a shredded array, and bytes beside it."""
    value = pa.nulls(len(typed), pa.binary()) if value is None else pa.array(value, pa.binary())
    return pa.StructArray.from_arrays(
        [pa.array([b"\1\0\0"] * len(typed)), value, typed], ["metadata", "value", "typed_value"]
    )


@pytest.mark.parametrize(("typed", "made"), [case[1:] for case in PRIMITIVES], ids=[case[0] for case in PRIMITIVES])
def test_primitives(typed, made):
    # What is missing at the top is null (VariantShredding.md).
    assert [*made, ("null", None)] == found(beside(typed))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=70),
    lambda values: st.lists(values, max_size=4) | st.dictionaries(st.sampled_from("abcé"), values, max_size=4),
    max_leaves=12,
)
SHAPE = st.recursive(
    st.sampled_from([int, str]),
    lambda shapes: (
        st.lists(shapes | st.none(), min_size=1, max_size=1)
        | st.dictionaries(st.sampled_from("abé"), shapes | st.none(), max_size=3)
    ),
    max_leaves=6,
)


@pytest.mark.slow
@given(st.lists(JSON | st.just(MISSING), max_size=6), SHAPE)
@settings(max_examples=60, deadline=None)
def test_any_values_in_any_shape(values, shape):
    assert expected(values) == found(storage(values, shape))


def parts(metadata, value, typed, type_):
    """Return one row after a sound one."""
    type_ = pa.struct([("metadata", pa.binary()), ("value", pa.binary()), ("typed_value", type_)])
    return pa.array(
        [{"metadata": b"\1\0\0", "value": b"\0"}, {"metadata": metadata, "value": value, "typed_value": typed}], type_
    )


FIELD = pa.struct([("a", pa.struct([("value", pa.binary()), ("typed_value", pa.int64())]))])
ONE = {"a": {"typed_value": 1}}
NO_FIELD = {"a": {}}
A, AB = metadata_of(["a"]), metadata_of(["a", "b"])
REST = encoded({"b": 1}, ["a", "b"])
BROKEN = [
    ("a number beside bytes", parts(A, b"\0", 1, pa.int64()), r"field c: expected value or typed_value of a .*, found both in slot 1"),
    ("a list beside bytes", parts(A, b"\0", [], pa.list_(FIELD["a"].type)), "found both in slot 1"),
    ("a field twice", parts(A, encoded({"a": 1}, ["a"]), ONE, FIELD), "each field of an object in value or typed_value, found one in both in slot 1"),
    ("a field's value twice", parts(A, None, {"a": {"value": b"\0", "typed_value": 1}}, FIELD), "found both in slot 1"),
    ("no object beside fields", parts(A, b"\0\0", ONE, FIELD), "an object beside shredded fields"),
    ("no byte beside fields", parts(A, b"", ONE, FIELD), "an object beside shredded fields"),
    ("a name without a key", parts(metadata_of(["b"]), None, ONE, FIELD), "the name of the field 'a' in the metadata of its variant"),
    ("no metadata", parts(None, None, ONE, FIELD), "a metadata|metadata in every variant that is not null"),
    ("a key that is not there", parts(A, REST, ONE, FIELD), "keys that the metadata have"),
    ("an object cut in its count", parts(AB, REST[:4], ONE, FIELD), "a whole object"),
    ("an object cut in its starts", parts(AB, REST[:9], ONE, FIELD), "a whole object"),
    ("an object without its values", parts(AB, REST[:13], ONE, FIELD), "values inside of their object"),
]  # fmt: skip


@pytest.mark.parametrize(("array", "match"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_what_the_format_forbids_is_an_error(array, match):
    with pytest.raises(InvalidBodyError, match=match):
        converted(array, metadata=NAMED)


@pytest.mark.slow
@given(
    st.sampled_from([{"b": 1, "z": [1], "c": {"d": "x"}}, {"a": "x"}]),
    st.sampled_from(["metadata", "value"]), st.integers(0, 23), st.integers(0, 255) | st.just("cut"),
)  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_changed_bytes_are_values_or_errors_of_ours(value, part, at, change):
    keys = []
    row = shredded(value, OBJECT, keys)
    row["metadata"] = metadata_of(keys, 1)
    octets = bytearray(row[part] or b"\2\0\0")
    at %= len(octets)
    octets[at : len(octets) if change == "cut" else at + 1] = b"" if change == "cut" else bytes([change])
    row[part] = bytes(octets)
    array = pa.array([row], pa.struct([pa.field("metadata", pa.binary()), *storage_type(OBJECT)]))
    with contextlib.suppress(InvalidBodyError):
        converted(array, metadata=NAMED)


def test_what_no_row_shows_is_not_looked_at():
    hidden = BROKEN[0][1].field("value"), BROKEN[0][1].field("typed_value")
    array = pa.StructArray.from_arrays(
        [pa.array([b"\1\0\0", b"?"]), *hidden], ["metadata", "value", "typed_value"], mask=pa.array([False, True])
    )
    assert [("null", None), MISSING] == found(array)
