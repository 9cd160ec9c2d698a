import ctypes
import struct

import nanoarrow as na
import pyarrow as pa
import pytest
from arrow_from_pyarrow import field_to_pyarrow, schema_from_pyarrow

from spark_arrow_ipc.arrow import Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.c_data import schemas, structs
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


@pytest.mark.parametrize("field", FIELDS.values(), ids=FIELDS)
def test_fields_both_ways(field):
    assert field == schemas.field_of_capsule(schemas.field_capsule(field))


@pytest.mark.parametrize("field", FIELDS.values(), ids=FIELDS)
def test_nanoarrow_gives_back_what_it_got(field):
    assert field == schemas.field_of_capsule(na.c_schema(field).__arrow_c_schema__())


UNKNOWN_TO_PYARROW = {"an extension", "metadata of any bytes"}
"""It makes a type of its own of a known extension, and its Python class of metadata has no bytes for keys to compare."""


@pytest.mark.parametrize("name", [name for name in FIELDS if name not in UNKNOWN_TO_PYARROW])
def test_pyarrow_reads_the_same(name):
    assert field_to_pyarrow(FIELDS[name]).equals(pa.field(FIELDS[name]), check_metadata=True)


def test_a_schema_with_metadata():
    schema = Schema.of(FIELDS.values(), {"k": "v", "twice": "1"})
    assert schema == Schema.from_arrow(schema)
    assert schema == Schema.from_arrow(na.c_schema(schema))
    plain = Schema.of([FIELDS["plain"], FIELDS["runs"]], {"k": "v"})
    assert plain == schema_from_pyarrow(pa.schema(plain))


def test_a_schema_that_is_lent_again_and_again():
    """Each capsule has structures of its own, whichever is released first, and whatever is lent in between."""
    one, two = (Schema.of(FIELDS.values(), {"k": text}) for text in ("1", "2"))
    lent = [schema.__arrow_c_schema__() for schema in (one, one, two, one, two, two)]
    again = [schemas.field_of_capsule(capsule) for capsule in (lent[1], lent[0], lent[5], lent[3], lent[2], lent[4])]
    assert ["1", "1", "2", "1", "2", "2"] == [field.custom_metadata[0][1] for field in again]
    assert all(tuple(FIELDS.values()) == field.type.children for field in again)


def test_a_huge_schema_is_not_held_after_it_was_lent(monkeypatch):
    monkeypatch.setattr(schemas, "_MOST_KEPT_NBYTES", 1_000)
    small, huge = (Schema.of([t.field(f"c{i}", t.int8) for i in range(columns)]) for columns in (3, 30))
    for schema, is_kept in ((small, True), (huge, False), (huge, False), (small, True)):
        assert schema == Schema.from_arrow(schema)
        assert is_kept is bool(schemas._recent)


def test_types_and_fields_give_themselves():
    assert pa.list_(pa.int32()) == pa.DataType._import_from_c_capsule(t.list_(t.int32).__arrow_c_schema__())
    assert pa.field("a", pa.int32(), nullable=False) == pa.field(FIELDS["required"])


def test_a_type_is_no_schema():
    with pytest.raises(TypeError, match="expected the structs of a record batch, found an array of int32"):
        Schema.from_arrow(pa.int32())


@pytest.mark.parametrize(
    "field", [t.field("a\0b", t.int8), t.field("a", t.Timestamp(t.TimeUnit.SECOND, "U\0C"))], ids=["name", "time zone"]
)
def test_strings_with_a_zero_byte_are_refused(field):
    with pytest.raises(UnsupportedError, match="no strings with a zero byte"):
        field.__arrow_c_schema__()


class Built:
    """A structure as some producer might write it."""

    def __init__(
        self,
        format_=b"i",
        name=b"a",
        metadata=None,
        flags=2,
        children=(),
        n_children=None,
        dictionary=None,
        released=False,
    ):
        self.kept = [
            ctypes.create_string_buffer(text) if text is not None else None for text in (format_, name, metadata)
        ]
        pointers = [0 if text is None else ctypes.addressof(text) for text in self.kept]
        self.children = (ctypes.c_size_t * max(len(children), 1))(*(child.address for child in children))
        self.kept += [children, dictionary]
        self.memory = bytearray(structs.SCHEMA.nbytes)
        self.address = structs.address_of(self.memory)
        structs.SCHEMA.layout.pack_into(
            self.memory, 0, *pointers, flags, len(children) if n_children is None else n_children,
            ctypes.addressof(self.children) if children else 0, dictionary.address if dictionary else 0, 0 if released else 1, 0,
        )  # fmt: skip


def metadata(*numbers):
    return struct.pack(f"@{len(numbers)}i", *numbers)


def nested(levels):
    built = Built()
    for _ in range(levels):
        built = Built(b"+l", children=(built,))
    return built


HOSTILE = [
    ("no format", lambda: Built(None), InvalidMetadataError, "an ArrowSchema with a format"),
    ("released", lambda: Built(released=True), InvalidMetadataError, "or a released one"),
    ("an unknown format", lambda: Built(b"?"), UnsupportedError, "field a: the format '[?]'"),
    ("a format that is no text", lambda: Built(b"\xff"), InvalidMetadataError, "a format in UTF-8"),
    ("a name that is no text", lambda: Built(name=b"\xff"), InvalidMetadataError, "a name in UTF-8"),
    ("fewer than no children", lambda: Built(b"+s", n_children=-1), InvalidMetadataError, "found -1 at NULL"),
    ("children at NULL", lambda: Built(b"+s", n_children=3), InvalidMetadataError, "found 3 at NULL"),
    ("billions of children", lambda: Built(b"+s", n_children=2**40), UnsupportedError, "1,000,000 fields"),
    ("many levels", lambda: nested(70), UnsupportedError, "64 levels"),
    ("a released child", lambda: Built(b"+l", children=(Built(released=True),)), InvalidMetadataError, "field a: "),
    ("indices that are text", lambda: Built(b"u", dictionary=Built()), InvalidMetadataError, "integers as indices"),
    ("a dictionary of a dictionary", lambda: Built(dictionary=Built(dictionary=Built())), InvalidMetadataError, "indices of dictionary"),
    ("fewer than no pairs", lambda: Built(metadata=metadata(-1)), InvalidMetadataError, "a number of pairs"),
    ("a key of less than no bytes", lambda: Built(metadata=metadata(1, -5)), InvalidMetadataError, "the bytes of a key"),
    ("a key of 2 GB", lambda: Built(metadata=metadata(1, 2**31 - 1)), InvalidMetadataError, "the bytes of a key"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "error", "message"), [c[1:] for c in HOSTILE], ids=[c[0] for c in HOSTILE])
def test_structures_that_say_nonsense_are_refused(make, error, message):
    built = make()
    with pytest.raises(error, match=message):
        schemas.import_field(built.address)


def test_a_built_one_is_sound():
    assert t.field("a", t.int32) == schemas.import_field(Built().address)


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
        schemas.check_requested(fields, capsule)
        return
    with pytest.raises(SchemaMismatchError, match="a requested schema of the columns 'a', 'b', found "):
        schemas.check_requested(fields, capsule)
