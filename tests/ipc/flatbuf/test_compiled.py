"""Compiled shapes have every slot of the declarations, by kind, and read structs with their padding."""

import struct

import pytest

from spark_arrow_ipc.ipc.flatbuf import idl, tables
from spark_arrow_ipc.ipc.flatbuf.compiled import SHAPES, VTABLE_SLOTS

KINDS = {
    idl.Scalar: "scalars",
    idl.EnumDefinition: "scalars",
    idl.String: "strings",
    idl.StructDefinition: "structs",
    idl.TableReference: "tables",
    idl.UnionDefinition: "unions",
}
VECTORS = {
    idl.Scalar: "scalar_vectors",
    idl.EnumDefinition: "scalar_vectors",
    idl.StructDefinition: "struct_vectors",
    idl.TableReference: "table_vectors",
}


@pytest.mark.parametrize("table", tables.TABLES.values(), ids=lambda table: table.name)
def test_every_slot_is_in_the_mapping_of_its_kind(table):
    shape = SHAPES[table.name]
    for slot in table.slots:
        is_vector = isinstance(slot.type, idl.Vector)
        kind = VECTORS[type(slot.type.element)] if is_vector else KINDS[type(slot.type)]
        held = [name for name in {*KINDS.values(), *VECTORS.values()} if slot.name in getattr(shape, name)]
        assert [kind] == held
    assert {slot.name for slot in table.slots} == set(shape.numbers)
    assert {slot.name for slot in table.slots if slot.required} == {slot.name for slot in shape.inline if slot.required}


def test_a_union_has_two_numbers():
    shape = SHAPES["Message"]
    assert (1, 2) == (shape.unions["header"][0], shape.numbers["header"])


def test_a_struct_is_read_with_its_padding():
    vector = SHAPES["Footer"].struct_vectors["recordBatches"][1]
    assert (24, 3) == (vector.nbytes, vector.width)
    assert [0, 8, 16] == [vector.dtype.fields[name][1] for name in vector.dtype.names]
    _, unpack, nbytes = SHAPES["Tensor"].structs["data"]
    assert ((5, 7), 16) == (unpack(struct.pack("<qq", 5, 7)), nbytes)


def test_a_vector_of_longs_needs_no_dtype():
    assert SHAPES["RecordBatch"].struct_vectors["nodes"][1].dtype is None


def test_vtables_of_every_length_are_unpacked():
    longest = max(shape.slot_count for shape in SHAPES.values())
    assert [tuple(range(n)) for n in range(longest + 1)] == [
        unpack(struct.pack(f"<{n}H", *range(n))) for n, unpack in enumerate(VTABLE_SLOTS)
    ]
