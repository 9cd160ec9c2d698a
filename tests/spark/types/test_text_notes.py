"""Type notes of before release 0.1.0, as strings."""

import pytest

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.spark.types.text_notes import noted_type, storage_text

NOTES = [
    ("uint8", t.int16, t.uint8),
    ("decimal32(9, -2)", t.Decimal(9, 0), t.Decimal(9, -2, 32)),
    ("time32[ms]", t.Duration(t.TimeUnit.MICROSECOND), t.Time(t.TimeUnit.MILLISECOND, 32)),
    ("timestamp[ns, tz=UTC]", t.int64, t.Timestamp(t.TimeUnit.NANOSECOND, "UTC")),
    ("fixed_size_binary[3]", t.binary, t.FixedSizeBinary(3)),
    ("large_list<uint8>", t.list_(t.int16), t.LargeList(t.field("item", t.uint8))),
    ("fixed_size_list<uint8>[2]", t.list_(t.int16), t.FixedSizeList(t.field("item", t.uint8), 2)),
    (
        "struct<a: b, c: uint8, a: date64[ms]>",
        t.struct([("a", t.date32), ("a: b, c", t.int16)]),
        t.struct([("a: b, c", t.uint8), ("a", t.date64)]),
    ),
    ("map<uint8, date64[ms]>", t.map_(t.int16, t.date32), t.map_(t.uint8, t.date64)),
    ("dictionary<int8, utf8>", t.utf8, t.dictionary(t.int8, t.utf8)),
    ("run_end_encoded<int16, utf8>", t.utf8, t.run_end_encoded(t.int16, t.utf8)),
    ("sparse_union<a: int64=0>", t.struct([("a", t.int64)]), t.struct([("a", t.int64)])),
]


@pytest.mark.parametrize(("note", "usual", "type_"), NOTES, ids=[case[0] for case in NOTES])
def test_a_note_is_read_along_the_column(note, usual, type_):
    assert type_ == noted_type(note, usual)
    if "union" not in note:
        assert note == storage_text(type_)


NO_NOTES = [
    ("more than a type", "uint8 or so", t.int64),
    ("an impossible type", "time32[ns]", t.int64),
    ("other fields", "struct<a: uint8>", t.struct([("b", t.int64)])),
    ("more fields", "struct<a: uint8, b: uint8>", t.struct([("a", t.int64)])),
    ("no struct", "struct<a: uint8>", t.int64),
    ("no list", "large_list<uint8>", t.int64),
    ("no map", "map<int8, uint8>", t.int64),
    ("no length", "fixed_size_list<int64>", t.list_(t.int64)),
    ("an open bracket", "sparse_union<a: int64=0", t.struct([("a", t.int64)])),
    ("no index", "dictionary<utf8, utf8>", t.utf8),
]


@pytest.mark.parametrize(("note", "usual"), [case[1:] for case in NO_NOTES], ids=[case[0] for case in NO_NOTES])
def test_what_is_no_note_of_the_column_is_an_error(note, usual):
    with pytest.raises(ValueError):
        noted_type(note, usual)
