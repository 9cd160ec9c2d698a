"""A schema that was decoded once is not decoded again, and what is remembered is what would be decoded."""

import numpy as np
import pyarrow as pa
import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.ipc.constants import Limits
from spark_arrow_ipc.ipc.flatbuf import builder, reader, tables
from spark_arrow_ipc.ipc.messages import footer as footer_module
from spark_arrow_ipc.ipc.messages.footer import decode_footer, decode_schema_once
from spark_arrow_ipc.ipc.messages.schema import decode_schema, encode_schema, number_dictionaries

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata={"k": "v"}),
        pa.field("name", pa.dictionary(pa.int8(), pa.string())),
        pa.field("s", pa.struct([("x", pa.list_(pa.float32())), ("t", pa.timestamp("ns", "UTC"))])),
    ],
    metadata={"who": "pyarrow"},
)


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch):
    monkeypatch.setattr(footer_module, "_CACHE", {})


def footer_of_pyarrow(batches, schema=SCHEMA, **pairs):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema, metadata=pairs) as writer:
        for _ in range(batches):
            writer.write_batch(pa.record_batch([pa.nulls(3, field.type) for field in schema], schema=schema))
    data = sink.getvalue().to_pybytes()
    nbytes = int.from_bytes(data[-10:-6], "little")
    return memoryview(data)[-10 - nbytes : -10]


def footer_of_ours(batches, **pairs):
    """A footer by the official builder of Flatbuffers."""
    blocks = [(8 + 200 * i, 192, 8) for i in range(batches)]
    message = number_dictionaries(ipc.read_schema(pa_file()))
    values = {"schema": encode_schema(message), "recordBatches": np.array(blocks, np.int64).reshape(-1, 3)}
    metadata = [{"key": key, "value": value} for key, value in pairs.items()]
    return memoryview(builder.build(tables.FOOTER, {"version": 4, "custom_metadata": metadata, **values}))


def pa_file():
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, SCHEMA):
        pass
    return sink.getvalue().to_pybytes()


def both(footer, limits=None):
    """Decode the schema of a footer in both ways: what they return, or the error with its place."""
    limits = limits or Limits()
    found = []
    ways = (
        lambda view: decode_schema_once(view, limits),
        lambda view: decode_schema(view, limits),
    )
    for decode in ways:
        try:
            view = decode_footer(footer, 1 << 40, limits).schema.view
            message = decode(view)
            found.append((message.schema, message.schema.fields, message.dictionary_ids))
        except ArrowIpcError as error:
            found.append((type(error), str(error)))
    return found


@pytest.mark.parametrize("footer_of", [footer_of_pyarrow, footer_of_ours])
def test_files_of_one_schema_share_it(footer_of):
    schemas = []
    for footer in (footer_of(1), footer_of(5, long="x" * 99), footer_of(2, a="", b="é"), footer_of(70)):
        known, decoded = both(footer)
        assert known == decoded
        assert known[0].custom_metadata == (("who", "pyarrow"),)
        schemas.append(known[0])
    assert 1 == len(set(map(id, schemas)))


def test_another_schema_or_other_limits_are_decoded_anew():
    both(footer_of_pyarrow(1))
    known, decoded = both(footer_of_pyarrow(1, pa.schema([*SCHEMA, ("z", pa.int8())])))
    assert known == decoded
    assert "z" == known[1][-1].name
    assert both(footer_of_pyarrow(1), Limits(max_columns=2))[0][0].__name__ == "LimitError"
    for i in range(40):
        known, decoded = both(footer_of_pyarrow(1, pa.schema([(f"c{i}", pa.int8())])))
        assert known == decoded
    assert len(footer_module._CACHE) <= 16


@pytest.mark.slow
def test_a_long_schema_is_not_kept():
    footer = footer_of_pyarrow(1, pa.schema([(f"column number {i}", pa.int8()) for i in range(20_000)]))
    known, decoded = both(footer)
    assert known == decoded
    assert not footer_module._CACHE


@pytest.mark.slow
@pytest.mark.parametrize("footer_of", [footer_of_pyarrow, footer_of_ours])
def test_a_changed_byte_means_the_same_in_both_ways(footer_of):
    """Whatever byte of the footer is changed, also to what it could refer to, and whether the sound one is known or not."""
    sound = footer_of(2, pair="value")
    both(sound)
    errors = 0
    for at in range(len(sound)):
        for value in (1, sound[at] ^ 0x10):
            changed = bytearray(sound)
            changed[at] = value
            known, decoded = both(memoryview(bytes(changed)))
            assert known == decoded, (at, value)
            errors += isinstance(known[0], type)
    assert errors > len(sound) // 4


def test_a_schema_with_a_vtable_before_it_is_decoded_where_it_is():
    """Tables may share vtables, which may lie before both: what is remembered refers to nothing before its start."""
    footer = bytearray(footer_of_pyarrow(1))
    view = reader.root(memoryview(footer), tables.FOOTER).table("schema")
    (field, *_) = view.tables("fields")
    at, vtable = field.extents()
    copy = bytes(footer[vtable.start : vtable.stop])
    # A root of 16 bytes more: the vtable of a field stands before everything.
    moved = bytearray(16 + len(copy) + (-len(copy) % 8)) + footer
    shift = len(moved) - len(footer)
    moved[:4] = (int.from_bytes(footer[:4], "little") + shift).to_bytes(4, "little")
    moved[16 : 16 + len(copy)] = copy
    moved[at.start + shift : at.start + shift + 4] = (at.start + shift - 16).to_bytes(4, "little")
    known, decoded = both(memoryview(bytes(moved)))
    assert known == decoded == both(memoryview(bytes(footer)))[1]


def test_a_schema_of_more_fields_than_bytes_is_not_kept():
    """Its fields share their bytes: a small file could take any amount of memory for as long as the process lives."""
    inner = pa.struct([(f"x{i}", pa.null()) for i in range(100)])
    schema = pa.schema([("s", pa.struct([("a", inner), *((f"b{i}", pa.null()) for i in range(60))]))])
    footer = bytearray(footer_of_pyarrow(0, schema))
    (outer,) = reader.root(memoryview(footer), tables.FOOTER).table("schema").tables("fields")
    start, count = outer._vector("children", outer._shape.table_vectors["children"][0], 4)
    shared = outer.tables("children")[0].byte_offset
    for at in range(start, start + 4 * count, 4):
        footer[at : at + 4] = (shared - at).to_bytes(4, "little")
    known, decoded = both(memoryview(bytes(footer)))
    assert known == decoded
    assert 61 * 100 == sum(len(child.type.fields) for child in known[1][0].type.fields)
    assert not footer_module._CACHE


def test_readers_of_one_schema_share_it_and_its_plans():
    batch = pa.record_batch([pa.nulls(3, field.type) for field in SCHEMA], schema=SCHEMA)
    messages = []
    for new in 2 * [pa.ipc.new_file] + 2 * [pa.ipc.new_stream]:
        sink = pa.BufferOutputStream()
        with new(sink, SCHEMA) as writer:
            writer.write_batch(batch)
        with ipc.open(sink.getvalue().to_pybytes()) as reader_:
            assert 3 == sum(read.num_rows for read in reader_)
            messages.append(reader_._columns.message)
    assert (messages[0] is messages[1], messages[2] is messages[3]) == (True, True)
    assert [1, 1] == [len(messages[0].plans), len(messages[2].plans)]


@pytest.mark.nightly
def test_what_is_kept_has_a_bound():
    for i in range(12):
        both(footer_of_pyarrow(1, pa.schema([(f"column number {i} {j}", pa.int8()) for j in range(7_000)])))
        assert sum(len(alone) for alone, _ in footer_module._CACHE) <= 4 << 20
