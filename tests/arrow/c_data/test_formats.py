import nanoarrow as na
import pyarrow as pa
import pytest
from arrow_from_pyarrow import type_to_pyarrow

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.c_data import formats
from spark_arrow_ipc.arrow.layout import LAYOUTS
from spark_arrow_ipc.errors import ArrowIpcError, InvalidMetadataError, UnsupportedError

INT = t.Field("item", t.int32)
PAIR = t.Field("entries", t.Struct((t.Field("key", t.utf8, nullable=False), t.Field("value", t.int8))), nullable=False)
ENDS = t.Field("run_ends", t.int16, nullable=False)

TYPES = {
    "n": t.null, "b": t.bool_, "c": t.int8, "C": t.uint8, "s": t.int16, "S": t.uint16, "i": t.int32, "I": t.uint32,
    "l": t.int64, "L": t.uint64, "e": t.float16, "f": t.float32, "g": t.float64,
    "z": t.binary, "Z": t.large_binary, "vz": t.binary_view, "u": t.utf8, "U": t.large_utf8, "vu": t.utf8_view,
    "d:9,2,32": t.Decimal(9, 2, 32), "d:18,0,64": t.Decimal(18, 0, 64), "d:19,10": t.Decimal(19, 10),
    "d:5,-3": t.Decimal(5, -3), "d:76,10,256": t.Decimal(76, 10, 256),
    "w:0": t.FixedSizeBinary(0), "w:42": t.FixedSizeBinary(42),
    "tdD": t.date32, "tdm": t.date64,
    "tts": t.Time(t.TimeUnit.SECOND, 32), "ttm": t.Time(t.TimeUnit.MILLISECOND, 32),
    "ttu": t.Time(t.TimeUnit.MICROSECOND, 64), "ttn": t.Time(t.TimeUnit.NANOSECOND, 64),
    "tss:": t.Timestamp(t.TimeUnit.SECOND), "tsm:": t.Timestamp(t.TimeUnit.MILLISECOND),
    "tsu:+01:30": t.Timestamp(t.TimeUnit.MICROSECOND, "+01:30"), "tsn:Europe/Paris": t.Timestamp(t.TimeUnit.NANOSECOND, "Europe/Paris"),
    "tDs": t.Duration(t.TimeUnit.SECOND), "tDm": t.Duration(t.TimeUnit.MILLISECOND),
    "tDu": t.Duration(t.TimeUnit.MICROSECOND), "tDn": t.Duration(t.TimeUnit.NANOSECOND),
    "tiM": t.IntervalYearMonth(), "tiD": t.IntervalDayTime(), "tin": t.IntervalMonthDayNano(),
    "+l": t.List(INT), "+L": t.LargeList(INT), "+vl": t.ListView(INT), "+vL": t.LargeListView(INT),
    "+w:3": t.FixedSizeList(INT, 3), "+s": t.Struct((INT, INT)), "+m": t.Map(PAIR),
    "+us:": t.SparseUnion((), ()), "+us:0,5": t.SparseUnion((INT, INT), (0, 5)), "+ud:127": t.DenseUnion((INT,), (127,)),
    "+r": t.RunEndEncoded(ENDS, INT),
}  # fmt: skip
"""Arrow's C data interface, "Data type description -- format strings"."""


@pytest.mark.parametrize(("format_", "type_"), TYPES.items(), ids=TYPES)
def test_formats_both_ways(format_, type_):
    assert format_ == formats.format_of(type_)
    assert type_ == formats.type_of(format_, type_.children, 0)


@pytest.mark.parametrize(("format_", "type_"), TYPES.items(), ids=TYPES)
def test_formats_are_those_of_pyarrow(format_, type_):
    assert format_ == na.c_schema(type_to_pyarrow(type_)).format


def test_every_class_of_types_is_in_the_table():
    assert set(LAYOUTS) - {t.Dictionary} == {type(type_) for type_ in TYPES.values()}


def test_dictionaries_have_the_format_of_their_indices():
    assert "S" == formats.format_of(t.dictionary(t.uint16, t.utf8))


def test_flags_of_maps():
    assert t.Map(PAIR, keys_sorted=True) == formats.type_of("+m", (PAIR,), formats.KEYS_SORTED)


REFUSED = [
    ("", (), UnsupportedError, "the format '' of the Arrow C data interface is not known"),
    ("x", (), UnsupportedError, "not known"),
    ("i:1", (), UnsupportedError, "not known"),
    ("w", (), UnsupportedError, "not known"),
    ("+q", (), UnsupportedError, "not known"),
    ("w:", (), InvalidMetadataError, "a number after the colon"),
    ("w:-1", (), InvalidMetadataError, "a byte width of at least 0"),
    ("w:1,2", (), InvalidMetadataError, "one number after the colon"),
    ("w:99999999999999999999", (), InvalidMetadataError, "a number after the colon"),
    ("d:5", (), InvalidMetadataError, "the precision, scale and bit width"),
    ("d:a,b", (), InvalidMetadataError, "the precision and scale"),
    ("d:39,0", (), InvalidMetadataError, "a decimal precision of 1 to 38"),
    ("d:3,0,48", (), InvalidMetadataError, "a decimal bit width"),
    ("i", (INT,), InvalidMetadataError, "0 children for the format 'i', found 1"),
    ("+l", (), InvalidMetadataError, "1 children for the format '[+]l', found 0"),
    ("+m", (INT,), InvalidMetadataError, "map entries of a struct"),
    ("+us:0", (INT, INT), InvalidMetadataError, "2 union type ids"),
    ("+ud:0,0", (INT, INT), InvalidMetadataError, "distinct union type ids"),
    ("+ud:0,200", (INT, INT), InvalidMetadataError, "of 0 to 127"),
    ("+r", (INT, t.Field("values", t.utf8)), None, ""),
    ("+r", (t.Field("ends", t.utf8), INT), InvalidMetadataError, "run ends of int16, int32 or int64"),
]


@pytest.mark.parametrize(("format_", "fields", "error", "message"), REFUSED, ids=[repr(c[0]) for c in REFUSED])
def test_what_is_no_format_is_refused(format_, fields, error, message):
    if error is None:
        assert formats.type_of(format_, fields, 0).children == fields
        return
    with pytest.raises(error, match=message) as caught:
        formats.type_of(format_, fields, 0)
    assert isinstance(caught.value, ArrowIpcError)


def test_pyarrow_has_no_type_beyond_the_table():
    """A type that a new pyarrow brings is one to add."""
    known = {name for name in dir(pa.lib) if name.startswith("Type_")}
    assert len(known) <= 46, sorted(known)
