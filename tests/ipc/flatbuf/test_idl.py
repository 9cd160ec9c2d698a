"""Declarations know their bounds, sizes and names."""

import numpy as np
import pytest

from spark_arrow_ipc.ipc.flatbuf import idl, tables

SCALARS = [idl.BOOL, idl.BYTE, idl.UBYTE, idl.SHORT, idl.INT32, idl.LONG]


@pytest.mark.parametrize("scalar", SCALARS, ids=lambda scalar: scalar.name)
def test_bounds_are_those_of_numpy(scalar):
    if scalar is idl.BOOL:
        assert (0, 1) == scalar.bounds
        return
    limits = np.iinfo(np.dtype("<" + scalar.code))
    assert ((limits.min, limits.max), limits.bits) == (scalar.bounds, 8 * scalar.nbytes)


def test_an_enum_is_stored_as_its_scalar():
    enum = idl.EnumDefinition(idl.SHORT, tables.MetadataVersion)
    assert ("MetadataVersion", idl.SHORT, idl.LONG) == (enum.name, idl.storage(enum), idl.storage(idl.LONG))


STRUCTS = [
    (tables.BLOCK, 24, 8, False, [0, 8, 16]),
    (tables.FIELD_NODE, 16, 8, True, [0, 8]),
    (tables.BUFFER, 16, 8, True, [0, 8]),
]


@pytest.mark.parametrize(
    ("definition", "nbytes", "alignment", "is_all_long", "offsets"), STRUCTS, ids=[case[0].name for case in STRUCTS]
)
def test_a_struct_has_the_layout_of_its_fields(definition, nbytes, alignment, is_all_long, offsets):
    dtype = idl.dtype(definition)
    assert (nbytes, alignment, is_all_long) == (dtype.itemsize, definition.alignment, definition.is_all_long)
    assert offsets == [dtype.fields[field.name][1] for field in definition.fields]


def test_a_union_counts_twice_and_definitions_compare_by_identity():
    union = idl.UnionDefinition(tables.MessageHeader)
    table = idl.TableDefinition("T", (idl.Slot(0, "u", union), idl.Slot(2, "s", idl.STRING)))
    assert ("MessageHeader", 3) == (union.name, table.slot_count)
    assert table != idl.TableDefinition("T", table.slots)
