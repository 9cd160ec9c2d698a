"""Many tables at once say what each says by itself."""

import tracemalloc

import numpy as np
import pytest

from spark_arrow_ipc.ipc.flatbuf import builder, many, reader, tables

COUNT = 100
TYPES = [
    (tables.INT, {"bitWidth": 64, "is_signed": True}), (tables.INT, {"bitWidth": 8}), (tables.UTF8, {}),
    (tables.TIMESTAMP, {"unit": 2, "timezone": "UTC"}), (tables.TIMESTAMP, {"unit": 3}),
]  # fmt: skip
FIELDS = [
    {"name": f"field {i}" if i % 7 else None, "nullable": i % 3 == 0, "type": TYPES[i % len(TYPES)], "children": [] if i % 2 else None}
    for i in range(COUNT)
]  # fmt: skip


@pytest.fixture
def view():
    return reader.root(builder.build(tables.SCHEMA, {"fields": FIELDS}), tables.SCHEMA)


def test_slots_are_those_of_each_table(view):
    one_by_one = view.tables("fields")
    fields = many.ManyTables.of(view, "fields")
    assert len(fields) == COUNT
    for name in ("name", "children", "dictionary", "custom_metadata"):
        assert fields.has(name).tolist() == [field.has(name) for field in one_by_one]
    assert fields.bytes_of("nullable").tolist() == [field.scalar("nullable") for field in one_by_one]
    assert not fields.has_elements("children").any()
    texts = [bytes(fields.memory[start:stop]).decode() for start, stop in zip(*fields.strings("name"), strict=True)]
    assert texts == [field.string("name") or "" for field in one_by_one]


def test_each_distinct_type_is_one_view(view):
    expected = [(field.union("type")[0], reader.to_mapping(field.union("type")[1])) for field in view.tables("fields")]
    found = [None] * COUNT
    views = 0
    for discriminant, own, members in many.ManyTables.of(view, "fields").unions("type"):
        for member, alike in members.distinct():
            views += 1
            for i in own[alike]:
                found[i] = (discriminant, reader.to_mapping(member))
    assert found == expected
    assert views < COUNT / 2


def test_comparing_tables_takes_about_the_memory_of_their_bytes():
    """A table of 16 bytes, of which 12 are compared: an index for each byte would be 96."""
    types = [(tables.DECIMAL, {"precision": 9, "scale": i % 2 + 1, "bitWidth": 64}) for i in range(2_000)]
    data = builder.build(tables.SCHEMA, {"fields": [{"name": "d", "type": type_} for type_ in types]})
    fields = many.ManyTables.of(reader.root(data, tables.SCHEMA), "fields")
    ((_, _, members),) = fields.unions("type")
    assert {16} == {*members.inline_nbytes.tolist()}
    tracemalloc.start()
    try:
        assert [1_000, 1_000] == [len(alike) for _, alike in members.distinct()]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100 * len(types)


def test_the_budget_of_tables_is_that_of_views(view):
    budgets = []
    for read in (lambda: view.tables("fields"), lambda: many.ManyTables.of(view, "fields")):
        walk = view.vector_of_tables("fields")[0]
        before = walk.remaining
        read()
        budgets.append(before - walk.remaining)
    assert budgets == [COUNT, COUNT]


def test_a_changed_byte_is_unusual_or_says_what_a_view_says(view):
    data = bytearray(builder.build(tables.SCHEMA, {"fields": FIELDS}))
    rng = np.random.default_rng(7)
    unusual = 0
    for _ in range(300):
        changed = data.copy()
        changed[int(rng.integers(8, len(data)))] ^= int(rng.integers(1, 256))
        try:
            fields = many.ManyTables.of(reader.root(changed, tables.SCHEMA), "fields")
            found = fields.has("name").tolist()
        except (many.Unusual, reader.InvalidMetadataError):
            unusual += 1
            continue
        assert found == [field.has("name") for field in reader.root(changed, tables.SCHEMA).tables("fields")]
    assert 0 < unusual < 300
