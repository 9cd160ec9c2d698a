import struct

import nanoarrow as na
import pyarrow as pa
import pytest
from arrow_from_pyarrow import field_to_pyarrow, schema_from_pyarrow
from c_structs import SCHEMA, Gives, Producer, capsule

from spark_arrow_ipc.arrow import RecordBatch, Schema, c_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.layout import LAYOUTS
from spark_arrow_ipc.errors import InvalidMetadataError, SchemaMismatchError, UnsupportedError

WORDS = t.dictionary(t.int8, t.utf8, ordered=True)
FIELDS = {
    "plain": t.field("a", t.int32),
    "required": t.field("a", t.int32, nullable=False),
    "without a name": t.field("", t.utf8),
    "a name that is long and grün": t.field("grün " * 100, t.utf8),
    "metadata": t.field("a", t.int32, custom_metadata={"k": "v", "": ""}),
    "metadata of any bytes": t.field("a", t.int32, custom_metadata={"k": b"\xff\x00\x01"}),
    "an extension": t.field("a", t.FixedSizeBinary(16), custom_metadata={"ARROW:extension:name": "arrow.uuid", "ARROW:extension:metadata": ""}),
    "a dictionary": t.field("a", WORDS, nullable=False),
    "a dictionary of structs with dictionaries": t.field("a", t.dictionary(t.uint32, t.struct([("x", WORDS)]))),
    "sorted keys": t.field("a", t.map_(t.utf8, t.list_(WORDS), keys_sorted=True)),
    "a union": t.field("a", t.DenseUnion((t.field("x", t.int8, nullable=False), t.field("y", WORDS)), (5, 7))),
    "runs": t.field("a", t.run_end_encoded(t.int32, t.list_(t.float16))),
    "deep": t.field("a", t.list_(t.list_(t.list_(t.struct([("b", t.list_(t.int8))]))))),
}  # fmt: skip


def schema_of(field):
    return Schema.of([field])


@pytest.mark.parametrize("field", FIELDS.values(), ids=FIELDS)
def test_fields_both_ways(field):
    assert schema_of(field) == Schema.from_arrow(schema_of(field))


@pytest.mark.parametrize("field", FIELDS.values(), ids=FIELDS)
def test_nanoarrow_gives_back_what_it_got(field):
    assert schema_of(field) == Schema.from_arrow(na.c_schema(schema_of(field)))


UNKNOWN_TO_PYARROW = {"an extension", "metadata of any bytes"}
"""It makes a type of its own of a known extension, and its Python class of metadata has no bytes for keys to compare."""


@pytest.mark.parametrize("name", [name for name in FIELDS if name not in UNKNOWN_TO_PYARROW])
def test_pyarrow_reads_the_same(name):
    expected = field_to_pyarrow(FIELDS[name])
    assert expected.equals(pa.schema(schema_of(FIELDS[name])).field(0), check_metadata=True)


def test_a_schema_with_metadata():
    schema = Schema.of(FIELDS.values(), {"k": "v", "twice": "1"})
    assert schema == Schema.from_arrow(schema)
    assert schema == Schema.from_arrow(na.c_schema(schema))
    plain = Schema.of([FIELDS["plain"], FIELDS["runs"]], {"k": "v"})
    assert plain == schema_from_pyarrow(pa.schema(plain))


def test_a_key_that_occurs_twice_stays():
    pairs = (("k", "1"), ("k", "2"))
    schema = Schema.of([t.Field("a", t.int8, custom_metadata=pairs)], pairs)
    assert schema == Schema.from_arrow(schema)


def test_nulls_that_may_not_be_null_are_lent_as_such_that_may():
    """pyarrow has no such field, and says so by an error that is not ours."""
    fields = [t.field("a", t.null, nullable=False), t.field("b", t.list_(t.field("", t.null, nullable=False)))]
    theirs = pa.schema(Schema.of(fields))
    assert pa.schema([("a", pa.null()), ("b", pa.list_(pa.field("", pa.null())))]) == theirs
    assert 2 == len(pa.record_batch(RecordBatch.from_pydict({"a": [None], "b": [[None]]}, Schema.of(fields))).columns)


@pytest.mark.parametrize(
    ("type_", "name", "serialized"),
    [
        (pa.uuid(), "arrow.uuid", ""),
        (pa.fixed_shape_tensor(pa.int8(), [2, 3]), "arrow.fixed_shape_tensor", '{"shape":[2,3]}'),
    ],
    ids=["uuid", "tensor"],
)
def test_an_extension_of_pyarrows_own_keeps_its_name(type_, name, serialized):
    (field,) = Schema.from_arrow(pa.schema([pa.field("a", type_, metadata={"k": "v"})])).fields
    assert name == field.extension_name
    pairs = dict(field.custom_metadata)
    assert ("v", serialized) == (pairs["k"], pairs["ARROW:extension:metadata"])


def test_a_type_is_no_schema():
    with pytest.raises(TypeError, match="expected the structs of a record batch, found an array of int32"):
        Schema.from_arrow(pa.int32())


@pytest.mark.parametrize(
    "field", [t.field("a\0b", t.int8), t.field("a", t.Timestamp(t.TimeUnit.SECOND, "U\0C"))], ids=["name", "time zone"]
)
def test_strings_with_a_zero_byte_are_refused(field):
    with pytest.raises(UnsupportedError, match="no strings with a zero byte"):
        schema_of(field).__arrow_c_schema__()


def metadata(*numbers):
    return struct.pack(f"@{len(numbers)}i", *numbers)


def nested(p, levels):
    built = p.schema()
    for _ in range(levels):
        built = p.schema(b"+l", children=(built,))
    return built


HOSTILE = [
    ("released", lambda p: p.schema(released=True), "released ArrowSchema"),
    ("an unknown format", lambda p: p.schema(b"?"), "format string: '[?]'"),
    ("another unknown format", lambda p: p.schema(b"+q"), "format string: '[+]q'"),
    ("a format with more text", lambda p: p.schema(b"i:1"), "format string: 'i:1'"),
    ("a width below 0", lambda p: p.schema(b"w:-1"), "byte width|format string|negative"),
    ("a decimal without a scale", lambda p: p.schema(b"d:5"), "format string: 'd:5'"),
    ("a decimal of 48 bits", lambda p: p.schema(b"d:3,0,48"), "format string"),
    ("a list without a child", lambda p: p.schema(b"+l"), "Expected 1 children for imported format '[+]l'"),
    ("union type ids above 127", lambda p: p.schema(b"+ud:0,200", children=(p.schema(), p.schema())), "type id|format string"),
    ("many levels", lambda p: nested(p, 70), "ecursion level"),
    ("a released child", lambda p: p.schema(b"+l", children=(p.schema(released=True),)), "released ArrowSchema"),
    ("indices that are text", lambda p: p.schema(b"u", dictionary=p.schema()), "has a dictionary but is not an integer type"),
    ("a dictionary of a dictionary", lambda p: p.schema(dictionary=p.schema(dictionary=p.schema())), "value type that is not a dictionary"),
    ("fewer than no pairs", lambda p: p.schema(metadata=metadata(-1)), "Invalid encoded metadata string"),
    ("a key of less than no bytes", lambda p: p.schema(metadata=metadata(1, -5)), "Invalid encoded metadata string"),
    ("a name that is no text", lambda p: p.schema(name=b"\xff"), "utf-8"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "message"), [c[1:] for c in HOSTILE], ids=[c[0] for c in HOSTILE])
def test_structures_that_say_nonsense_are_refused(make, message):
    producer = Producer()
    source = Gives(capsule(SCHEMA, producer.schema(b"+s", children=(make(producer),))))
    with pytest.raises(InvalidMetadataError, match=message):
        Schema.from_arrow(source)


def test_a_built_one_is_sound():
    producer = Producer()
    source = Gives(capsule(SCHEMA, producer.schema(b"+s", children=(producer.schema(),))))
    assert (t.field("a", t.int32),) == Schema.from_arrow(source).fields


NO_CAPSULES = [
    ("a number", lambda: 5, TypeError, "expected capsules from __arrow_c_schema__"),
    ("of another name", lambda: pa.array([1]).__arrow_c_array__()[1], TypeError, "expected capsules"),
    ("an empty one", lambda: emptied(pa.schema([]).__arrow_c_schema__()), InvalidMetadataError, "released ArrowSchema"),
]


def emptied(schema):
    pa.schema(Gives(schema))
    return schema


@pytest.mark.parametrize(("make", "error", "message"), [c[1:] for c in NO_CAPSULES], ids=[c[0] for c in NO_CAPSULES])
def test_what_is_no_capsule_of_a_schema_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        Schema.from_arrow(Gives(make()))


WANTED = [
    ("None", None, True),
    ("the same", pa.schema([("a", pa.int32()), ("b", pa.utf8())]), True),
    ("another type", pa.schema([("a", pa.int64()), ("b", pa.string_view())]), True),
    ("another name", pa.schema([("a", pa.int32()), ("c", pa.utf8())]), False),
    ("fewer columns", pa.schema([("a", pa.int32())]), False),
    ("no schema", pa.int32(), False),
]


@pytest.mark.parametrize(("wanted", "fits"), [c[1:] for c in WANTED], ids=[c[0] for c in WANTED])
def test_requested_schemas(wanted, fits):
    fields = (t.field("a", t.int32), t.field("b", t.utf8))
    capsule = None if wanted is None else wanted.__arrow_c_schema__()
    if fits:
        c_data.check_requested(fields, capsule)
        return
    with pytest.raises(SchemaMismatchError, match="a requested schema of the columns 'a', 'b', found "):
        c_data.check_requested(fields, capsule)


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
    "+r": t.RunEndEncoded(ENDS, t.Field("values", t.utf8)),
}  # fmt: skip
"""Arrow's C data interface, "Data type description -- format strings"."""


@pytest.mark.parametrize(("format_", "type_"), TYPES.items(), ids=TYPES)
def test_types_both_ways(format_, type_):
    lent = c_data.export_type(type_)
    assert format_ == na.c_schema(lent).format
    assert type_ == c_data.import_field(lent).type


def test_every_class_of_types_crosses():
    assert set(LAYOUTS) - {t.Dictionary} == {type(type_) for type_ in TYPES.values()}


def test_pyarrow_has_no_type_beyond_the_table():
    """A type that a new pyarrow brings is one to add."""
    known = {name for name in dir(pa.lib) if name.startswith("Type_")}
    assert len(known) <= 46, sorted(known)
