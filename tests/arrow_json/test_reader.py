"""Arrow's integration JSON to arrays: every type's values, and every way in which a document can be wrong."""

import copy
import json
from decimal import Decimal

import integration_json
import pytest

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import (
    ArrowIpcError,
    InvalidBodyError,
    InvalidDictionaryError,
    InvalidMetadataError,
    LimitError,
)


def field(type_, *children, name="c", **members):
    return {"name": name, "nullable": True, "type": type_, "children": list(children), **members}


def column(count, *children, name="c", **buffers):
    return {"name": name, "count": count, **buffers, **({"children": list(children)} if children else {})}


def document(field_, column_, *dictionaries):
    batch = {"count": column_["count"], "columns": [column_]}
    return {"schema": {"fields": [field_]}, "batches": [batch], "dictionaries": list(dictionaries)}


def dictionary(id_, column_):
    return {"id": id_, "data": {"count": column_["count"], "columns": [column_]}}


INT8, INT32 = ({"name": "int", "bitWidth": bits, "isSigned": True} for bits in (8, 32))
UINT64 = {"name": "int", "bitWidth": 64, "isSigned": False}
SINGLE, HALF = ({"name": "floatingpoint", "precision": p} for p in ("SINGLE", "HALF"))
ENCODED = {"id": 7, "indexType": INT8, "isOrdered": False}
ITEM = field(INT8, name="item")
ITEMS = column(3, name="item", VALIDITY=[1, 0, 1], DATA=[1, 99, 3])
TWO = {"VALIDITY": [1, 0]}
BINARY_VIEW = {"name": "binaryview"}
LONG = {"SIZE": 13, "PREFIX_HEX": "61626364", "BUFFER_INDEX": 0, "OFFSET": 1}
UNION = field(
    {"name": "union", "mode": "DENSE", "typeIds": [5, 9]}, field(INT8, name="a"), field({"name": "utf8"}, name="b")
)
UNION_CHILDREN = (
    column(1, name="a", VALIDITY=[1], DATA=[4]),
    column(2, name="b", VALIDITY=[1, 0], OFFSET=[0, 1, 1], DATA=["x", ""]),
)

VALUES = [
    ("null", document(field({"name": "null"}), column(2)), [None, None]),
    ("bool", document(field({"name": "bool"}), column(2, VALIDITY=[1, 1], DATA=[True, False])), [True, False]),
    ("bool as numbers", document(field({"name": "bool"}), column(2, VALIDITY=[1, 1], DATA=[1, 0])), [True, False]),
    ("int", document(field(INT8), column(2, **TWO, DATA=[-128, 5])), [-128, None]),
    ("uint64", document(field(UINT64), column(2, **TWO, DATA=["18446744073709551615", "0"])), [2**64 - 1, None]),
    ("single is rounded", document(field(SINGLE), column(1, VALIDITY=[1], DATA=[0.1])), [0.10000000149011612]),
    ("half is rounded", document(field(HALF), column(1, VALIDITY=[1], DATA=[0.1])), [0.0999755859375]),
    (
        "decimal256 is unscaled",
        document(
            field({"name": "decimal", "precision": 50, "scale": 2, "bitWidth": 256}),
            column(2, **TWO, DATA=["-1" + "0" * 45, "0"]),
        ),
        [Decimal("-1" + "0" * 43 + ".00"), None],
    ),
    (
        "decimal without a width has 128 bits",
        document(field({"name": "decimal", "precision": 5, "scale": 2}), column(1, VALIDITY=[1], DATA=["-11697"])),
        [Decimal("-116.97")],
    ),
    (
        "noise in null slots",
        document(field({"name": "interval", "unit": "DAY_TIME"}), column(2, VALIDITY=[0, 0], DATA=[{}, "x"])),
        [None, None],
    ),
    (
        "fixed size binary is hex",
        document(field({"name": "fixedsizebinary", "byteWidth": 2}), column(2, **TWO, DATA=["00FF", "zz"])),
        [b"\x00\xff", None],
    ),
    (
        "utf8",
        document(field({"name": "utf8"}), column(2, **TWO, OFFSET=[0, 2, 2], DATA=["é", ""])),
        ["é", None],
    ),
    (
        "large binary has offsets in strings",
        document(field({"name": "largebinary"}), column(2, **TWO, OFFSET=["0", "1", "1"], DATA=["FF", ""])),
        [b"\xff", None],
    ),
    (
        "views, inlined and not",
        document(
            field(BINARY_VIEW),
            column(
                3,
                VALIDITY=[1, 0, 1],
                VIEWS=[{"SIZE": 1, "INLINED": "FF"}, {}, LONG],
                VARIADIC_DATA_BUFFERS=["00" + b"abcdefghijklm".hex()],
            ),
        ),
        [b"\xff", None, b"abcdefghijklm"],
    ),
    (
        "list",
        document(field({"name": "list"}, ITEM), column(3, ITEMS, VALIDITY=[1, 0, 1], OFFSET=[0, 2, 2, 3])),
        [[1, None], None, [3]],
    ),
    (
        "list without slots and without offsets",
        document(
            field({"name": "list"}, ITEM), column(0, column(0, VALIDITY=[], DATA=[]), VALIDITY=[], OFFSET=[])
        ),
        [],
    ),
    (
        "list view in any order",
        document(
            field({"name": "largelistview"}, ITEM), column(2, ITEMS, VALIDITY=[1, 1], OFFSET=["2", "0"], SIZE=["1", "2"])
        ),
        [[3], [1, None]],
    ),
    ("dense union", document(UNION, column(3, *UNION_CHILDREN, TYPE_ID=[9, 5, 9], OFFSET=[0, 0, 1])), ["x", 4, None]),
    (
        "validity of a V4 union is ignored",
        document(UNION, column(3, *UNION_CHILDREN, VALIDITY=[1, 1, 1], TYPE_ID=[9, 5, 9], OFFSET=[0, 0, 1])),
        ["x", 4, None],
    ),
    (
        "run ends",
        document(
            field({"name": "runendencoded"}, field(INT32, name="run_ends", nullable=False), field(INT8, name="values")),
            column(5, column(3, VALIDITY=[1] * 3, DATA=[1, 3, 5]), ITEMS),
        ),
        [1, None, None, 3, 3],
    ),
    (
        "dictionary",
        document(
            field({"name": "utf8"}, dictionary=ENCODED),
            column(3, VALIDITY=[1, 0, 1], DATA=[1, 77, 0]),
            dictionary(7, column(2, VALIDITY=[1, 1], OFFSET=[0, 1, 2], DATA=["a", "b"])),
        ),
        ["b", None, "a"],
    ),
    (
        "dictionary in a dictionary",
        document(
            field({"name": "list"}, field({"name": "utf8"}, name="item", dictionary=ENCODED), dictionary={**ENCODED, "id": 1}),
            column(2, VALIDITY=[1, 1], DATA=[0, 0]),
            dictionary(1, column(1, column(2, VALIDITY=[1, 1], DATA=[1, 0]), VALIDITY=[1], OFFSET=[0, 2])),
            dictionary(7, column(2, VALIDITY=[1, 1], OFFSET=[0, 1, 2], DATA=["a", "b"])),
        ),
        [["b", "a"], ["b", "a"]],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("document_", "expected"), [case[1:] for case in VALUES], ids=[case[0] for case in VALUES])
def test_values_are_those_of_the_document(document_, expected):
    (batch,) = integration_json.read(document_).batches
    assert expected == batch.columns[0].to_pylist()


def test_shared_dictionary_is_decoded_once():
    encoded = field({"name": "utf8"}, dictionary=ENCODED)
    indices = column(1, VALIDITY=[1], DATA=[0])
    made = document(encoded, indices, dictionary(7, column(1, VALIDITY=[1], OFFSET=[0, 1], DATA=["a"])))
    made["schema"]["fields"] *= 2
    made["batches"][0]["columns"] *= 2
    first, second = integration_json.read(made).batches[0].columns
    assert first.dictionary is second.dictionary


METADATA = [
    ("absent", {}, ()),
    ("null", {"metadata": None}, ()),
    ("empty", {"metadata": []}, ()),
    ("ordered, with a key twice", {"metadata": [{"key": "b", "value": "1"}, {"key": "a", "value": ""}, {"key": "b", "value": "2"}]},
     (("b", "1"), ("a", ""), ("b", "2"))),
]  # fmt: skip


@pytest.mark.parametrize(("members", "expected"), [case[1:] for case in METADATA], ids=[case[0] for case in METADATA])
def test_custom_metadata_keeps_order_and_duplicates(members, expected):
    made = document(field(INT8, **members), column(0, VALIDITY=[], DATA=[]))
    made["schema"] |= members
    schema = integration_json.read(made).schema
    assert (expected, expected) == (schema.custom_metadata, schema.fields[0].custom_metadata)


TYPES = [
    ("newest C++ name of a narrow decimal", {"name": "decimal32", "precision": 5, "scale": 1}, t.Decimal(5, 1, 32)),
    ("time zone", {"name": "timestamp", "unit": "SECOND", "timezone": "UTC"}, t.Timestamp(t.TimeUnit.SECOND, "UTC")),
    ("no time zone", {"name": "timestamp", "unit": "NANOSECOND"}, t.Timestamp(t.TimeUnit.NANOSECOND)),
    ("date", {"name": "date", "unit": "MILLISECOND"}, t.date64),
    ("interval", {"name": "interval", "unit": "MONTH_DAY_NANO"}, t.IntervalMonthDayNano()),
]


@pytest.mark.parametrize(("spelled", "expected"), [case[1:] for case in TYPES], ids=[case[0] for case in TYPES])
def test_type_is_read_by_its_name(spelled, expected):
    schema = {"fields": [field(spelled)]}
    assert expected == integration_json.read({"schema": schema, "batches": []}).schema.fields[0].type


SOUND = document(
    field({"name": "list"}, field({"name": "utf8"}, name="item", dictionary=ENCODED)),
    column(2, column(2, VALIDITY=[1, 1], DATA=[1, 0]), VALIDITY=[1, 1], OFFSET=[0, 1, 2]),
    dictionary(7, column(2, VALIDITY=[1, 1], OFFSET=[0, 1, 2], DATA=["a", "b"])),
)
FIELD, COLUMN = ("schema", "fields", 0), ("batches", 0, "columns", 0)
VALUES_OF_7 = ("dictionaries", 0, "data", "columns", 0)
ABSENT = object()

BROKEN = [
    ("no schema", ("schema",), ABSENT, InvalidMetadataError, "'schema' at $"),
    ("no batches", ("batches",), ABSENT, InvalidMetadataError, "'batches' at $"),
    ("fields are no array", ("schema", "fields"), {}, InvalidMetadataError, "$.schema.fields"),
    ("field is no object", FIELD, 3, InvalidMetadataError, "$.schema.fields[0]"),
    ("no nullable", (*FIELD, "nullable"), ABSENT, InvalidMetadataError, "'nullable' at $.schema.fields[0]"),
    ("nullable is a number", (*FIELD, "nullable"), 1, InvalidMetadataError, "$.schema.fields[0].nullable"),
    ("name is a number", (*FIELD, "name"), 1, InvalidMetadataError, "$.schema.fields[0].name"),
    ("unknown type", (*FIELD, "type", "name"), "tensor", InvalidMetadataError, "$.schema.fields[0].type.name"),
    ("children missing", (*FIELD, "children"), [], InvalidMetadataError, "0 children at $.schema.fields[0].type"),
    ("impossible width", (*FIELD, "type"), {**INT8, "bitWidth": 7}, InvalidMetadataError, "$.schema.fields[0].type"),
    (
        "unknown unit",
        (*FIELD, "children", 0, "type"),
        {"name": "duration", "unit": "YEAR"},
        InvalidMetadataError,
        "type.unit",
    ),
    ("metadata without value", (*FIELD, "metadata"), [{"key": "a"}], InvalidMetadataError, "fields[0].metadata[0]"),
    (
        "index is no integer",
        (*FIELD, "children", 0, "dictionary", "indexType"),
        HALF,
        InvalidMetadataError,
        "indexType",
    ),
    ("columns missing", ("batches", 0, "columns"), [], InvalidBodyError, "1 columns at $.batches[0]"),
    ("count differs", ("batches", 0, "count"), 3, InvalidBodyError, "3 slots at $.batches[0].columns[0]"),
    ("negative count", (*COLUMN, "count"), -1, InvalidBodyError, "$.batches[0].columns[0].count"),
    ("count is a float", (*COLUMN, "count"), 2.0, InvalidBodyError, "$.batches[0].columns[0].count"),
    ("count is beyond int64", (*COLUMN, "count"), 1 << 63, InvalidBodyError, "$.batches[0].columns[0].count"),
    ("no validity", (*COLUMN, "VALIDITY"), ABSENT, InvalidBodyError, "'VALIDITY' at $.batches[0].columns[0]"),
    ("short validity", (*COLUMN, "VALIDITY"), [1], InvalidBodyError, "2 elements at $.batches[0].columns[0].VALIDITY"),
    ("validity of twos", (*COLUMN, "VALIDITY"), [1, 2], InvalidBodyError, "$.batches[0].columns[0].VALIDITY"),
    ("short offsets", (*COLUMN, "OFFSET"), [0, 1], InvalidBodyError, "3 elements at $.batches[0].columns[0].OFFSET"),
    ("offset beyond int32", (*COLUMN, "OFFSET"), [0, 1, 1 << 31], InvalidBodyError, "columns[0].OFFSET"),
    ("offset beyond child", (*COLUMN, "OFFSET"), [0, 1, 3], InvalidBodyError, "field c"),
    ("offsets decrease", (*COLUMN, "OFFSET"), [0, 2, 1], InvalidBodyError, "field c"),
    ("no child", (*COLUMN, "children"), ABSENT, InvalidBodyError, "1 children at $.batches[0].columns[0]"),
    ("index out of type", (*COLUMN, "children", 0, "DATA"), [0, 128], InvalidBodyError, "children[0].DATA[1]"),
    ("index out of dictionary", (*COLUMN, "children", 0, "DATA"), [0, 2], InvalidBodyError, "field c[]"),
    ("index is text", (*COLUMN, "children", 0, "DATA"), [0, "x"], InvalidBodyError, "children[0].DATA[1]"),
    ("index is true", (*COLUMN, "children", 0, "DATA"), [0, True], InvalidBodyError, "children[0].DATA[1]"),
    (
        "text is a number",
        (*VALUES_OF_7, "DATA"),
        ["a", 5],
        InvalidBodyError,
        "$.dictionaries[0].data.columns[0].DATA[1]",
    ),
    ("text is half a character", (*VALUES_OF_7, "DATA"), ["a", "\ud800"], InvalidBodyError, "columns[0].DATA[1]"),
    ("offsets contradict text", (*VALUES_OF_7, "OFFSET"), [0, 2, 3], InvalidBodyError, "columns[0].OFFSET"),
    ("no dictionaries", ("dictionaries",), ABSENT, InvalidDictionaryError, "a dictionary of id 7"),
    ("unknown id", ("dictionaries", 0, "id"), 8, InvalidDictionaryError, "a dictionary of id 7"),
    ("id twice", ("dictionaries",), SOUND["dictionaries"] * 2, InvalidDictionaryError, "one dictionary of id 7"),
    ("dictionary of two columns", (*VALUES_OF_7[:-1],), [{}, {}], InvalidBodyError, "$.dictionaries[0].data"),
]


@pytest.mark.parametrize(
    ("place", "value", "error", "words"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN]
)
def test_wrong_document_is_refused_with_the_place(place, value, error, words):
    made = copy.deepcopy(SOUND)
    parent = made
    for step in place[:-1]:
        parent = parent[step]
    if value is ABSENT:
        del parent[place[-1]]
    else:
        parent[place[-1]] = value
    with pytest.raises(error) as caught:
        integration_json.read(made)
    assert words in str(caught.value)


def test_document_that_is_broken_in_the_table_above_is_sound_before():
    assert [["b"], ["a"]] == integration_json.read(SOUND).batches[0].columns[0].to_pylist()


def test_dictionary_that_needs_itself_is_refused():
    encoded = field({"name": "utf8"}, name="item", dictionary=ENCODED)
    made = document(
        field({"name": "list"}, encoded, dictionary=ENCODED),
        column(1, VALIDITY=[1], DATA=[0]),
        dictionary(7, column(1, column(1, VALIDITY=[1], DATA=[0]), VALIDITY=[1], OFFSET=[0, 1])),
    )
    with pytest.raises(InvalidDictionaryError, match="needs itself"):
        integration_json.read(made)


def deep(levels):
    made = field(INT8)
    for _ in range(levels):
        made = field({"name": "list"}, made)
    return json.dumps({"schema": {"fields": [made]}, "batches": []}).encode()


BYTES = [
    ("an array", b"[]", InvalidMetadataError, "an object at $"),
    ("65 levels of fields", deep(64), LimitError, "64 levels"),
]


@pytest.mark.parametrize(("content", "error", "words"), [case[1:] for case in BYTES], ids=[case[0] for case in BYTES])
def test_bytes_that_are_no_document_are_refused(content, error, words):
    with pytest.raises(error, match=words.replace("$", r"\$")):
        integration_json.read(content)


@pytest.mark.slow
def test_wide_null_slot_takes_no_memory():
    wide = field({"name": "fixedsizebinary", "byteWidth": (1 << 31) - 1})
    assert integration_json.read(document(wide, column(0, VALIDITY=[], DATA=[]))).batches[0].num_rows == 0
    with pytest.raises(LimitError, match="columns"):
        integration_json.read(document(wide, column(1, VALIDITY=[0], DATA=[""])))


def test_error_names_the_file(tmp_path):
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(ArrowIpcError, match=r"a\.json: expected a member 'schema'"):
        integration_json.read(tmp_path / "a.json")
