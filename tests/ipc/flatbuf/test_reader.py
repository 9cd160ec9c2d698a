"""Whatever the bytes, the reader raises InvalidMetadataError or LimitError, soon, and nothing else."""

import dataclasses
import os
import struct
from pathlib import Path

import pytest
from flatbuffers import Builder

from spark_arrow_ipc.errors import InvalidMetadataError, LimitError
from spark_arrow_ipc.ipc.flatbuf import builder, idl, reader, tables
from spark_arrow_ipc.ipc.flatbuf.compiled import SHAPES

# --- one small table, byte by byte

KEY_VALUE = (
    struct.pack("<I", 12)  #               0 root
    + struct.pack("<HHHH", 8, 12, 4, 8)  # 4 vtable: its bytes, inline bytes, key, value
    + struct.pack("<iII", 8, 8, 12)  #    12 table: vtable 8 back, key 8 ahead, value 12 ahead
    + struct.pack("<I4s", 1, b"k")  #     24
    + struct.pack("<I4s", 1, b"v")  #     32
)


def read_key_value(data):
    view = reader.root(data, tables.KEY_VALUE)
    return view.string("key"), view.string("value")


def patched(byte_offset, format_, number):
    data = bytearray(KEY_VALUE)
    struct.pack_into(format_, data, byte_offset, number)
    return bytes(data)


def test_the_undamaged_table_is_read():
    assert read_key_value(KEY_VALUE) == ("k", "v")


def test_a_lenient_string_keeps_bytes_that_are_not_utf8():
    assert read_key_value(patched(36, "<B", 0xFF)) == ("k", "\udcff")


def test_a_strict_string_stays_strict_where_a_lenient_one_shares_its_bytes():
    shared = bytearray(patched(28, "<B", 0xFF))
    struct.pack_into("<I", shared, 20, 4)
    view = reader.root(bytes(shared), tables.KEY_VALUE)
    assert view.string("value") == "\udcff"
    with pytest.raises(InvalidMetadataError, match=r"KeyValue\.key in UTF-8"):
        view.string("key")


DAMAGES = [
    ("no bytes", b"", "at least 4 bytes of metadata"),
    ("three bytes", b"\0\0\0", "at least 4 bytes of metadata"),
    ("root refers to itself", patched(0, "<I", 0), "the root table's offset"),
    ("root outside", patched(0, "<I", len(KEY_VALUE) - 3), "the root table's offset"),
    ("root far outside", patched(0, "<I", 0xFFFFFFFF), "the root table's offset"),
    ("vtable before the buffer", patched(12, "<i", 13), "the vtable of KeyValue within"),
    ("vtable far before the buffer", patched(12, "<i", 0x7FFFFFFF), "the vtable of KeyValue within"),
    ("vtable after the buffer", patched(12, "<i", -26), "the vtable of KeyValue within"),
    ("vtable far after the buffer", patched(12, "<i", -0x80000000), "the vtable of KeyValue within"),
    ("vtable at an odd place", patched(12, "<i", 7), "a vtable of KeyValue"),
    ("vtable of odd size", patched(4, "<H", 7), "a vtable of KeyValue"),
    ("vtable too short", patched(4, "<H", 2), "a vtable of KeyValue"),
    ("vtable too long", patched(4, "<H", 38), "a vtable of KeyValue"),
    ("inline bytes too few", patched(6, "<H", 2), "inline bytes of KeyValue"),
    ("inline bytes too many", patched(6, "<H", 29), "inline bytes of KeyValue"),
    ("slot in the vtable's reference", patched(8, "<H", 3), "KeyValue.key within the table's 12 inline bytes"),
    ("slot past the inline bytes", patched(10, "<H", 9), "KeyValue.value within the table's 12 inline bytes"),
    (
        "table at an odd place",
        struct.pack("<I2x", 14) + KEY_VALUE[4:],
        "KeyValue at a multiple of 4 bytes, found byte 14",
    ),
    ("slot at an odd place", patched(8, "<H", 6), "KeyValue.key at a multiple of 4 bytes, found byte 18"),
    ("string at an odd place", patched(16, "<I", 10), "KeyValue.key to refer to a multiple of 4"),
    ("string refers to itself", patched(16, "<I", 0), "KeyValue.key to refer to"),
    ("string outside", patched(20, "<I", 17), "KeyValue.value to refer to"),
    ("string far outside", patched(20, "<I", 0xFFFFFFFF), "KeyValue.value to refer to"),
    ("string too long", patched(32, "<I", 4), "KeyValue.value of length at most 3"),
    ("string far too long", patched(24, "<I", 0xFFFFFFFF), "KeyValue.key of length at most"),
    ("string without end", patched(37, "<B", 1), "KeyValue.value to end in NUL"),
    ("string not UTF-8", patched(28, "<B", 0xFF), "KeyValue.key in UTF-8"),
]


@pytest.mark.parametrize(("data", "message"), [damage[1:] for damage in DAMAGES], ids=[damage[0] for damage in DAMAGES])
def test_damage_is_named(data, message):
    with pytest.raises(InvalidMetadataError) as caught:
        read_key_value(data)
    assert message in str(caught.value)
    assert 0 <= caught.value.byte_offset <= len(data)


VECTORS = [
    ("structs", tables.RECORD_BATCH, "nodes", [(1, 2), (3, 4)]),
    ("structs", tables.FOOTER, "recordBatches", [(1, 2, 3), (4, 5, 6)]),
    ("scalars", tables.RECORD_BATCH, "variadicBufferCounts", [5, 6]),
    ("tables", tables.FIELD, "children", [{}, {}]),
]


def vector_at(data, table, slot):
    """Where the vector of a slot of the root table begins."""
    number = next(candidate.number for candidate in table.slots if candidate.name == slot)
    root = struct.unpack_from("<I", data)[0]
    vtable = root - struct.unpack_from("<i", data, root)[0]
    place = root + struct.unpack_from("<H", data, vtable + 4 + 2 * number)[0]
    return place + struct.unpack_from("<I", data, place)[0]


@pytest.mark.parametrize("count", [64, 1 << 20, 1 << 28, 0x80000000, 0xFFFFFFFF])
@pytest.mark.parametrize(("method", "table", "slot", "values"), VECTORS, ids=[vector[2] for vector in VECTORS])
def test_vector_longer_than_the_buffer_is_refused(method, table, slot, values, count):
    data = bytearray(builder.build(table, {slot: values}))
    struct.pack_into("<I", data, vector_at(data, table, slot), count)
    with pytest.raises(InvalidMetadataError, match=rf"{slot} of length at most \d+, found {count:,}"):
        getattr(reader.root(data, table), method)(slot)


def test_vector_up_to_the_last_byte_is_read():
    data = builder.build(tables.RECORD_BATCH, {"nodes": [(1, 2), (3, 4)]})
    assert reader.root(data, tables.RECORD_BATCH).structs("nodes").tolist() == [[1, 2], [3, 4]]
    with pytest.raises(InvalidMetadataError, match="nodes of length at most 1, found 2"):
        reader.root(data[:-1], tables.RECORD_BATCH).structs("nodes")


def moved(table, slot, values, shift):
    """The table with a vector's bytes moved on by `shift`, and its reference with them."""
    data = builder.build(table, {slot: values})
    at = vector_at(data, table, slot)
    root = struct.unpack_from("<I", data)[0]
    number = next(candidate.number for candidate in table.slots if candidate.name == slot)
    vtable = root - struct.unpack_from("<i", data, root)[0]
    place = root + struct.unpack_from("<H", data, vtable + 4 + 2 * number)[0]
    changed = bytearray(data[:at] + bytes(shift) + data[at:])
    struct.pack_into("<I", changed, place, at + shift - place)
    return bytes(changed)


MISPLACED = [
    # (method, table, slot, values, error)
    ("structs", tables.RECORD_BATCH, "nodes", [(1, 2)], "RecordBatch.nodes to refer to a multiple of 4"),
    ("scalars", tables.UNION, "typeIds", [5, 6], "Union.typeIds to refer to a multiple of 4"),
    ("tables", tables.FIELD, "children", [{}], "Field.children to refer to a multiple of 4"),
]


@pytest.mark.parametrize("shift", [1, 2, 3])
@pytest.mark.parametrize(("method", "table", "slot", "values", "says"), MISPLACED)
def test_vectors_begin_at_a_multiple_of_four(method, table, slot, values, says, shift):
    with pytest.raises(InvalidMetadataError, match=says):
        getattr(reader.root(moved(table, slot, values, shift), table), method)(slot)


@pytest.mark.parametrize("shift", [4, 8])
def test_vectors_of_longs_may_begin_at_any_multiple_of_four(shift):
    """As those of arrow-rs do."""
    data = moved(tables.RECORD_BATCH, "nodes", [(1, 2)], shift)
    assert reader.root(data, tables.RECORD_BATCH).structs("nodes").tolist() == [[1, 2]]


@pytest.mark.parametrize(("at", "sound"), [(4, True), (8, False), (12, True)])
def test_a_scalar_begins_at_a_multiple_of_its_size(at, sound):
    # root, two bytes of padding, vtable (its bytes, inline bytes, length), table at byte 12
    data = struct.pack("<I2xHHHi16x", 12, 6, 20, at, 6)
    if sound:
        assert reader.root(data, tables.RECORD_BATCH).scalar("length") == 0
        return
    with pytest.raises(InvalidMetadataError, match=r"RecordBatch\.length at a multiple of 8 bytes, found byte 20"):
        reader.root(data, tables.RECORD_BATCH)


def test_layouts_are_proven_again_once_there_are_too_many(monkeypatch):
    monkeypatch.setattr(reader, "_MOST_LAYOUTS", 1)
    SHAPES["RecordBatch"].sound.clear()  # other tests of this process have proven some
    for _ in range(2):
        for values in ({"length": 5}, {"variadicBufferCounts": [1]}):
            reader.root(builder.build(tables.RECORD_BATCH, values), tables.RECORD_BATCH)
            assert len(SHAPES["RecordBatch"].sound) == 1


# --- what a schema of another age or mind writes


def altered(table, *slots):
    """The same table with other slots, so that the builder writes what it otherwise refuses."""
    return dataclasses.replace(table, slots=slots)


def test_slots_of_a_newer_schema_are_passed_over():
    newer = altered(
        tables.KEY_VALUE, *tables.KEY_VALUE.slots, idl.Slot(2, "sort", idl.LONG), idl.Slot(3, "s", idl.STRING)
    )
    data = builder.build(newer, {"key": "k", "value": "v", "sort": 5, "s": "x"})
    assert read_key_value(data) == ("k", "v")


def test_unknown_discriminant_is_refused():
    unlike = altered(
        tables.MESSAGE,
        idl.Slot(0, "version", idl.SHORT),
        idl.Slot(1, "kind", idl.UBYTE),
        idl.Slot(2, "value", idl.TableReference("Null")),
    )
    data = builder.build(unlike, {"kind": 6, "value": {}})
    with pytest.raises(InvalidMetadataError, match=r"Message\.header with a discriminant of at most 5, found 6"):
        reader.root(data, tables.MESSAGE).union("header")


def test_any_byte_but_zero_is_true():
    data = builder.build(
        altered(tables.INT, idl.Slot(0, "bitWidth", idl.INT32), idl.Slot(1, "b", idl.UBYTE)), {"b": 0xFE}
    )
    assert reader.root(data, tables.INT).scalar("is_signed") is True


@pytest.mark.parametrize("missing", ["type", "shape", "data"])
def test_required_slot_is_missed(missing):
    optional = altered(tables.TENSOR, *(dataclasses.replace(slot, required=False) for slot in tables.TENSOR.slots))
    values = {"type": (tables.INT, {}), "shape": [], "data": (0, 0)} | {missing: None}
    with pytest.raises(InvalidMetadataError, match=rf"Tensor\.{missing}, which is required"):
        reader.root(builder.build(optional, values), tables.TENSOR)


@pytest.mark.parametrize("shift", range(1, 8))
def test_any_alignment_is_read(shift):
    values = {"nodes": [(1, 2), (3, 4)], "variadicBufferCounts": [5], "length": 1 << 40}
    data = bytes(shift) + builder.build(tables.RECORD_BATCH, values)
    view = reader.root(memoryview(data)[shift:], tables.RECORD_BATCH)
    assert view.structs("nodes").tolist() == [[1, 2], [3, 4]]
    assert view.scalars("variadicBufferCounts").tolist() == [5]
    assert view.scalar("length") == 1 << 40


# --- budgets


def nested(depth):
    field = {"name": "leaf"}
    for _ in range(depth - 1):
        field = {"children": [field]}
    return builder.build(tables.FIELD, field)


def test_depth_is_limited():
    reader.to_mapping(reader.root(nested(64), tables.FIELD))
    with pytest.raises(LimitError, match="at most 64 nested tables"):
        reader.to_mapping(reader.root(nested(65), tables.FIELD))
    with pytest.raises(LimitError, match="at most 3 nested tables"):
        reader.to_mapping(reader.root(nested(4), tables.FIELD, max_depth=3))


def test_every_visit_of_a_table_is_counted():
    data = builder.build(tables.FIELD, {"children": [{}, {}, {}]})
    view = reader.root(data, tables.FIELD, max_tables=7)
    assert len(view.tables("children")) == 3
    assert len(view.tables("children")) == 3
    with pytest.raises(LimitError, match="at most 7 tables"):
        view.tables("children")


def dag_bomb(levels, width):
    """Fields that share one child each, `width` times: a tree of width ** levels that takes few bytes."""
    bomb = Builder(1024)
    child = None
    for _ in range(levels):
        children = None
        if child is not None:
            bomb.StartVector(4, width, 4)
            for _ in range(width):
                bomb.PrependUOffsetTRelative(child)
            children = bomb.EndVector()
        bomb.StartObject(7)
        if children is not None:
            bomb.PrependUOffsetTRelativeSlot(5, children, 0)
        child = bomb.EndObject()
    bomb.Finish(child)
    return bytes(bomb.Output())


def test_shared_tables_do_not_explode():
    """flatcc issue 63: valid offsets, exponential traversal."""
    data = dag_bomb(levels=40, width=8)
    assert len(data) < 4_000
    with pytest.raises(LimitError, match="tables"):
        reader.to_mapping(reader.root(data, tables.FIELD))


# --- every byte


def field(name, type_, *children, **more):
    return {"name": name, "nullable": True, "type": (type_, {}), "children": list(children)} | more


def built_messages():
    fields = [
        field("a", tables.UTF8, custom_metadata=[{"key": "k", "value": "ä"}]),
        field("b", tables.STRUCT_, field("c", tables.DECIMAL), field("d", tables.TIMESTAMP)),
        field("e", tables.UNION, dictionary={"id": 3, "indexType": {"bitWidth": 8}}),
    ]
    fields[2]["type"] = (tables.UNION, {"mode": 1, "typeIds": [3, 5]})
    schema = {"fields": fields, "features": [1, 2]}
    batch = {
        "length": 3,
        "nodes": [(3, 0)] * 4,
        "buffers": [(0, 8)] * 6,
        "compression": {"codec": 1},
        "variadicBufferCounts": [2],
    }
    tensor = {
        "type": (tables.INT, {"bitWidth": 16}),
        "shape": [{"size": 2, "name": "x"}],
        "strides": [2],
        "data": (0, 4),
    }
    return {
        "schema": (tables.MESSAGE, {"version": 4, "header": (tables.SCHEMA, schema)}),
        "record batch": (tables.MESSAGE, {"version": 4, "header": (tables.RECORD_BATCH, batch), "bodyLength": 64}),
        "dictionary batch": (
            tables.MESSAGE,
            {"header": (tables.DICTIONARY_BATCH, {"id": 1, "data": batch, "isDelta": True})},
        ),
        "tensor": (tables.MESSAGE, {"header": (tables.TENSOR, tensor)}),
        "footer": (tables.FOOTER, {"schema": schema, "recordBatches": [(8, 64, 128)], "dictionaries": [(0, 1, 2)]}),
    }


def corpus_footers():
    """Footers of a few small files, where the environment says that there is a corpus."""
    corpus = os.environ.get("ARROW_IPC_CORPUS")
    found = {}
    for path in (
        sorted(Path(corpus).glob("arrow-testing/data/arrow-ipc-stream/integration/*/*.arrow_file")) if corpus else []
    ):
        data = path.read_bytes()
        nbytes = struct.unpack_from("<i", data, len(data) - 10)[0]
        if nbytes < 1_500:
            found.setdefault(path.name, (tables.FOOTER, data[-10 - nbytes : -10]))
    return dict(list(found.items())[:4])


MESSAGES = {name: (table, builder.build(table, values)) for name, (table, values) in built_messages().items()}
MESSAGES |= corpus_footers()


def read_all(data, table):
    """Read everything; the two errors that may leave are the only ones caught."""
    try:
        return reader.to_mapping(reader.root(data, table))
    except (InvalidMetadataError, LimitError):
        return None


@pytest.mark.parametrize("name", MESSAGES)
def test_truncation_at_every_byte_is_contained(name):
    table, data = MESSAGES[name]
    assert read_all(data, table)
    for end in range(len(data)):
        read_all(data[:end], table)


@pytest.mark.slow
@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
@pytest.mark.parametrize("name", MESSAGES)
def test_damage_of_every_byte_is_contained(name, mask):
    table, data = MESSAGES[name]
    damaged = bytearray(data)
    for i in range(len(damaged)):
        damaged[i] ^= mask
        read_all(damaged, table)
        damaged[i] ^= mask


@pytest.mark.slow
@pytest.mark.parametrize("name", MESSAGES)
def test_noise_in_every_word_is_contained(name):
    """Whole references, lengths and vtable entries become extreme values."""
    table, data = MESSAGES[name]
    for i in range(0, len(data) - 3, 4):
        for word in (0, 1, 4, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFF0004):
            damaged = bytearray(data)
            struct.pack_into("<I", damaged, i, word)
            read_all(damaged, table)


def test_a_view_says_where_it_is():
    view = reader.root(builder.build(tables.KEY_VALUE, {"key": "a"}), tables.KEY_VALUE)
    assert f"<KeyValue at byte {view.byte_offset}>" == repr(view)


def test_a_single_table_may_exceed_the_budget():
    data = builder.build(tables.RECORD_BATCH, {"length": 1, "compression": {"codec": 1}})
    view = reader.root(data, tables.RECORD_BATCH, max_tables=1)
    with pytest.raises(LimitError, match="max_tables"):
        view.table("compression")
