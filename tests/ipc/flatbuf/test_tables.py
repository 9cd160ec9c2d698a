"""The declarations agree with themselves, and with what pyarrow writes."""

import pytest

from spark_arrow_ipc.ipc.flatbuf import idl, tables

UNIONS = (tables.TYPE, tables.MESSAGE_HEADER, tables.SPARSE_TENSOR_INDEX)


@pytest.mark.parametrize("table", tables.TABLES.values(), ids=lambda table: table.name)
def test_slots_are_numbered_without_gaps(table):
    """A union takes two numbers: its discriminant's and its value's."""
    number = 0
    for slot in table.slots:
        assert slot.number == number
        number += 2 if isinstance(slot.type, idl.UnionDefinition) else 1
    assert table.slot_count == number


@pytest.mark.parametrize("union", UNIONS, ids=lambda union: union.name)
def test_discriminants_count_up_and_name_tables(union):
    assert list(union.members) == list(range(len(union.members)))
    assert union.members(0).name == "NONE"
    assert {member.name for member in union.members} - {"NONE"} <= tables.TABLES.keys()


@pytest.mark.parametrize("struct", [tables.BUFFER, tables.FIELD_NODE, tables.BLOCK], ids=lambda struct: struct.name)
def test_struct_fields_are_aligned_as_in_c(struct):
    end = 0
    for field in struct.fields:
        assert field.byte_offset == -(-end // field.type.nbytes) * field.type.nbytes
        end = field.byte_offset + field.type.nbytes
    assert struct.nbytes == -(-end // struct.alignment) * struct.alignment


def test_every_definition_stands_in_exactly_one_file():
    declared = [definition.name for file in tables.FILES for definition in file.definitions]
    assert len(declared) == len(set(declared))
    referred = {
        slot.type.name for table in tables.TABLES.values() for slot in table.slots if hasattr(slot.type, "name")
    }
    scalars = {"bool", "byte", "ubyte", "short", "int", "long"}
    assert referred - scalars <= set(declared)


DEFAULTS = {
    ("Date", "unit"): 1,
    ("Time", "unit"): 1,
    ("Time", "bitWidth"): 32,
    ("Duration", "unit"): 1,
    ("Decimal", "bitWidth"): 128,
}


def test_only_five_defaults_are_not_zero():
    found = {(table.name, slot.name): slot.default for table in tables.TABLES.values() for slot in table.slots}
    assert {name: default for name, default in found.items() if default} == DEFAULTS


NOUNS = ["none", "schema", "dictionary batch", "record batch", "tensor", "sparse tensor"]


def test_kinds_and_codecs_have_words():
    assert NOUNS == [kind.noun for kind in tables.MessageHeader]
    assert ["lz4", "zstd"] == [codec.word for codec in tables.CompressionType]


def test_an_enum_of_ours_is_spelled_as_the_format_spells_it():
    enum = tables.ENDIANNESS
    assert ["Little", "Big"] == [enum.spelling(name) for name in enum.members.__members__]
