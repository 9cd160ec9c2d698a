"""What the builder writes is what our reader, the flatbuffers wheel, flatc and pyarrow find in it."""

import json
import shutil
import struct
import subprocess

import numpy as np
import print_fbs
import pytest
from flatbuffers import number_types
from flatbuffers.table import Table

from spark_arrow_ipc.ipc.flatbuf import builder, idl, reader, tables

NAMES = sorted(tables.TABLES)


def full(table, depth=0):
    """Values for every slot of a table, none of them a default; Field's children stop at depth 2."""
    return {slot.name: value(slot, depth) for slot in table.slots if slot.name != "children" or depth < 2}


def value(slot, depth):
    match slot.type:
        case idl.EnumDefinition(members=members):
            return next((int(member) for member in members.__members__.values() if member != slot.default), 0)
        case idl.Scalar(name="bool"):
            return True
        case idl.Scalar():
            return 7 + slot.number
        case idl.String():
            return f"{slot.name} é😀"
        case idl.StructDefinition(fields=fields):
            return tuple(range(1, len(fields) + 1))
        case idl.UnionDefinition(members=members):
            member = tables.TABLES[members(len(members) - 1 - depth).name]
            return (member, full(member, depth + 1))
        case idl.TableReference(name):
            return full(tables.TABLES[name], depth + 1)
        case idl.Vector(idl.TableReference(name)):
            return (
                [full(tables.TABLES[name], depth + 1), {}]
                if name == "KeyValue"
                else [full(tables.TABLES[name], depth + 1)]
            )
        case idl.Vector(idl.StructDefinition(fields=fields)):
            return [tuple(range(row, row + len(fields))) for row in (1, 10, 100)]
        case idl.Vector():
            return [2, 0, 1]


def plain(values):
    """Arrays as lists and rows as tuples, enums at their default left out of comparison by `full`."""
    if isinstance(values, np.ndarray):
        return [tuple(row) for row in values.tolist()] if values.ndim == 2 else values.tolist()
    if isinstance(values, dict):
        return {name: plain(item) for name, item in values.items()}
    if isinstance(values, list):
        return [plain(item) for item in values]
    if isinstance(values, tuple) and isinstance(values[0], idl.TableDefinition):
        return (values[0], plain(values[1]))
    return values


def stored(table, values):
    """What of `values` is written: an enum with one member has only its default."""
    single = {
        slot.name for slot in table.slots if isinstance(slot.type, idl.EnumDefinition) and len(slot.type.members) == 1
    }
    return {name: _stored(table, name, item) for name, item in values.items() if name not in single}


def _stored(table, name, item):
    slot = next(slot for slot in table.slots if slot.name == name)
    match slot.type:
        case idl.UnionDefinition():
            return (item[0], stored(*item))
        case idl.TableReference(target):
            return stored(tables.TABLES[target], item)
        case idl.Vector(idl.TableReference(target)):
            return [stored(tables.TABLES[target], element) for element in item]
    return item


@pytest.mark.parametrize("name", NAMES)
def test_reader_finds_every_slot(name):
    table = tables.TABLES[name]
    values = full(table)
    view = reader.root(builder.build(table, values), table)
    assert plain(reader.to_mapping(view)) == stored(table, values)
    assert view.definition is table


@pytest.mark.parametrize(
    "name", [name for name in NAMES if not any(slot.required for slot in tables.TABLES[name].slots)]
)
def test_absent_slots_have_their_defaults(name):
    table = tables.TABLES[name]
    view = reader.root(builder.build(table, {}), table)
    for slot in table.slots:
        assert not view.has(slot.name)
        match slot.type:
            case idl.Scalar() | idl.EnumDefinition():
                assert view.scalar(slot.name) == slot.default
            case idl.String():
                assert view.string(slot.name) is None
            case idl.TableReference():
                assert view.table(slot.name) is None
            case idl.UnionDefinition():
                assert view.union(slot.name) == (0, None)
            case idl.Vector(idl.TableReference()):
                assert view.tables(slot.name) == []
            case idl.Vector(idl.StructDefinition(fields=fields)):
                assert view.structs(slot.name).shape == (0, len(fields))
            case idl.Vector():
                assert view.scalars(slot.name).shape == (0,)


def test_wheel_reads_the_same_numbers():
    """The flatbuffers package has no checks, but is not ours."""
    buffers = np.arange(60_000, dtype=np.int64).reshape(30_000, 2)
    batch = {"length": -5, "buffers": buffers, "variadicBufferCounts": [3, 4]}
    data = builder.build(tables.MESSAGE, {"version": 4, "header": (tables.RECORD_BATCH, batch), "bodyLength": 1 << 40})
    message = Table(data, struct.unpack_from("<I", data)[0])
    assert message.Get(number_types.Int16Flags, message.Pos + message.Offset(4)) == 4
    assert message.Get(number_types.Uint8Flags, message.Pos + message.Offset(6)) == tables.MessageHeader.RecordBatch
    assert message.Get(number_types.Int64Flags, message.Pos + message.Offset(10)) == 1 << 40
    header = Table(data, message.Indirect(message.Pos + message.Offset(8)))
    assert header.Get(number_types.Int64Flags, header.Pos + header.Offset(4)) == -5
    place = header.Offset(8)
    assert header.VectorLen(place) == 30_000
    start = header.Vector(place)
    assert start % 8 == 0
    assert np.array_equal(np.frombuffer(data, "<i8", 60_000, start), buffers.ravel())


def test_vectors_are_views_into_the_buffer():
    nodes = np.arange(8, dtype=np.int64).reshape(4, 2)
    data = builder.build(tables.RECORD_BATCH, {"nodes": nodes, "variadicBufferCounts": np.array([9, 8])})
    view = reader.root(data, tables.RECORD_BATCH)
    whole = np.frombuffer(data, np.uint8)
    assert np.array_equal(view.structs("nodes"), nodes)
    assert np.shares_memory(view.structs("nodes"), whole)
    assert np.shares_memory(view.scalars("variadicBufferCounts"), whole)


def test_blocks_are_int64_rows_of_offset_metadata_and_body():
    """Their length of metadata is an int and padding follows it, so they are copied."""
    blocks = [(1 << 40, 8, 1 << 41), (-1, -2, -3)]
    data = builder.build(tables.FOOTER, {"recordBatches": blocks})
    rows = reader.root(data, tables.FOOTER).structs("recordBatches")
    assert rows.dtype == np.int64
    assert list(map(tuple, rows.tolist())) == blocks
    assert data.count(struct.pack("<qi4xq", *blocks[1])) == 1


def test_equal_values_give_equal_bytes_in_any_order():
    values = full(tables.FOOTER)
    assert builder.build(tables.FOOTER, values) == builder.build(tables.FOOTER, dict(reversed(values.items())))


def test_a_part_is_the_end_of_every_buffer_that_has_it():
    schema = {"fields": [{"name": "a", "type": (tables.INT, {"bitWidth": 64})}], "custom_metadata": [{"key": "k"}]}
    part = builder.build_part(tables.SCHEMA, schema)
    for table, whole, of_part in (
        (tables.FOOTER, {"schema": schema, "version": 4}, {"schema": part, "version": 4}),
        (tables.MESSAGE, {"header": (tables.SCHEMA, schema)}, {"header": (tables.SCHEMA, part)}),
    ):
        made = builder.build(table, of_part)
        assert made.endswith(part.data)
        assert reader.to_mapping(reader.root(builder.build(table, whole), table)) == reader.to_mapping(
            reader.root(made, table)
        )


def test_none_and_defaults_are_left_out():
    empty = builder.build(tables.TIME, {})
    assert builder.build(tables.TIME, {"unit": 1, "bitWidth": 32}) == empty
    assert builder.build(tables.TIME, {"unit": None}) == empty


FAULTS = [
    ("unknown slot", tables.KEY_VALUE, {"kay": "a"}, "expected slots of KeyValue, found kay"),
    ("hidden discriminant", tables.FIELD, {"type_type": 1}, "found type_type"),
    ("required slot absent", tables.TENSOR, {"shape": []}, r"Tensor\.type, which is required"),
    ("required slot is None", tables.TENSOR, {"type": (tables.INT, {}), "shape": None}, r"Tensor\.shape, which is"),
    ("integer too wide", tables.INT, {"bitWidth": 1 << 31}, r"fits int for Int\.bitWidth"),
    ("enum too wide", tables.MESSAGE, {"version": 1 << 15}, r"fits short for Message\.version"),
    ("not a bool", tables.INT, {"is_signed": 2}, r"fits bool for Int\.is_signed"),
    ("float for integer", tables.INT, {"bitWidth": 8.0}, r"an integer for Int\.bitWidth"),
    ("a string for an integer", tables.INT, {"bitWidth": "8"}, r"an integer for Int\.bitWidth"),
    ("bytes for a string", tables.KEY_VALUE, {"key": b"a"}, r"a string for KeyValue\.key"),
    ("list for table", tables.FOOTER, {"schema": []}, "a mapping for Schema"),
    ("not a member", tables.MESSAGE, {"header": (tables.INT, {})}, r"a table of MessageHeader.* for Message\.header"),
    ("mapping for union", tables.MESSAGE, {"header": {}}, r"a table of MessageHeader.* for Message\.header"),
    ("rows too short", tables.FOOTER, {"recordBatches": [(1, 2)]}, r"rows of 3 integers for Footer\.recordBatches"),
    ("numbers for rows", tables.RECORD_BATCH, {"nodes": [1, 2]}, r"rows of 2 integers for RecordBatch\.nodes"),
    ("struct field too wide", tables.FOOTER, {"dictionaries": [(0, 1 << 31, 0)]}, r"fit int .*metaDataLength"),
    ("floats in vector", tables.TENSOR, full(tables.TENSOR) | {"strides": [1.5]}, r"fit long for Tensor\.strides"),
    ("vector element too wide", tables.UNION, {"typeIds": [1 << 31]}, r"fit int for Union\.typeIds"),
    ("vector element beyond int64", tables.RECORD_BATCH, {"nodes": [(1 << 63, 0)]}, r"fit long for RecordBatch\.nodes"),
    ("number for vector", tables.UNION, {"typeIds": 1}, r"a sequence for Union\.typeIds"),
]


@pytest.mark.parametrize(
    ("table", "values", "message"), [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS]
)
def test_builder_refuses(table, values, message):
    with pytest.raises(ValueError, match=message):
        builder.build(table, values)


# --- flatc


def expected_json(table, values):
    """What ``flatc --json`` prints for the values: names of enums, structs as objects, unions in two parts."""
    printed = {}
    for slot in table.slots:
        if slot.name not in values:
            continue
        item = values[slot.name]
        if isinstance(slot.type, idl.UnionDefinition):
            printed[f"{slot.name}_type"] = item[0].name
        printed[slot.name] = expected_item(slot.type, item)
    return printed


def expected_item(type_, item):
    match type_:
        case idl.UnionDefinition():
            return expected_json(*item)
        case idl.TableReference(name):
            return expected_json(tables.TABLES[name], item)
        case idl.StructDefinition(fields=fields):
            return {field.name: number for field, number in zip(fields, item, strict=True)}
        case idl.EnumDefinition(members=members):
            return members(item).name
        case idl.Vector(element):
            return [expected_item(element, part) for part in item]
    return item


@pytest.fixture(scope="module")
def flatc():
    path = shutil.which("flatc")
    if path is None:
        pytest.skip("flatc is not on PATH (Debian package flatbuffers-compiler)")
    return path


@pytest.mark.parametrize("name", NAMES)
def test_flatc_prints_what_was_built(flatc, tmp_path, name):
    table = tables.TABLES[name]
    values = full(table)
    for file in tables.FILES:
        (tmp_path / file.name).write_text(print_fbs.render(file))
    (tmp_path / "built.bin").write_bytes(builder.build(table, values))
    home = next(file for file in tables.FILES if table in file.definitions)
    command = [flatc, "--json", "--strict-json", "--natural-utf8", "--raw-binary"]
    command += ["--root-type", f"{tables.NAMESPACE}.{name}", home.name, "--", "built.bin"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=60)
    assert json.loads((tmp_path / "built.json").read_text()) == expected_json(table, stored(table, values))


# --- pyarrow

FIELD_CASES = [
    ("int8", {"bitWidth": 8, "is_signed": True}, tables.INT),
    ("uint64", {"bitWidth": 64}, tables.INT),
    ("float64", {"precision": 2}, tables.FLOATING_POINT),
    ("string", {}, tables.UTF8),
    ("large_binary", {}, tables.LARGE_BINARY),
    ("date32", {"unit": 0}, tables.DATE),
    ("date64", {}, tables.DATE),
    ("bool_", {}, tables.BOOL),
    ("null", {}, tables.NULL),
    ("string_view", {}, tables.UTF8_VIEW),
]


def test_pyarrow_reads_the_schema_we_build():
    pa = pytest.importorskip("pyarrow")
    fields = [
        {"name": name, "nullable": True, "type": (table, values), "children": []} for name, values, table in FIELD_CASES
    ]
    pairs = [{"key": "k", "value": "v"}]
    message = {"version": 4, "header": (tables.SCHEMA, {"fields": fields, "custom_metadata": pairs}), "bodyLength": 0}
    data = builder.build(tables.MESSAGE, message)
    schema = pa.ipc.read_schema(pa.py_buffer(struct.pack("<iI", -1, len(data)) + data))
    assert schema.equals(
        pa.schema([(name, getattr(pa, name)()) for name, _, _ in FIELD_CASES], {"k": "v"}), check_metadata=True
    )


def test_reader_finds_what_pyarrow_wrote():
    pa = pytest.importorskip("pyarrow")
    fields = [pa.field(name, getattr(pa, name)(), metadata={"n": name}) for name, _, _ in FIELD_CASES]
    data = memoryview(pa.schema(fields, {"a": "b"}).serialize())[8:]
    message = reader.root(data, tables.MESSAGE)
    assert message.scalar("version") == tables.MetadataVersion.V5
    discriminant, schema = message.union("header")
    assert (discriminant, schema.definition) == (tables.MessageHeader.Schema, tables.SCHEMA)
    assert [(pair.string("key"), pair.string("value")) for pair in schema.tables("custom_metadata")] == [("a", "b")]
    for view, (name, values, table) in zip(schema.tables("fields"), FIELD_CASES, strict=True):
        assert (view.string("name"), view.scalar("nullable")) == (name, True)
        assert view.tables("custom_metadata")[0].string("value") == name
        type_ = view.union("type")[1]
        assert type_.definition is table
        assert {slot.name: type_.scalar(slot.name) for slot in table.slots} == {
            slot.name: values.get(slot.name, slot.default) for slot in table.slots
        }


def test_reader_finds_a_tensor_that_pyarrow_wrote():
    pa = pytest.importorskip("pyarrow")
    sink = pa.BufferOutputStream()
    pa.ipc.write_tensor(pa.Tensor.from_numpy(np.arange(6, dtype=np.int16).reshape(2, 3), dim_names=["x", "y"]), sink)
    data = memoryview(sink.getvalue())[8:]
    tensor = reader.root(data, tables.MESSAGE).union("header")[1]
    assert [(dim.scalar("size"), dim.string("name")) for dim in tensor.tables("shape")] == [(2, "x"), (3, "y")]
    assert tensor.scalars("strides").tolist() == [6, 2]
    assert tensor.struct("data") == (0, 12)
