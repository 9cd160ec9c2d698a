"""Wide schemas: decoded at once as field by field, whatever the bytes."""

import numpy as np
import pyarrow as pa
import pytest
from arrow_from_pyarrow import schema_from_pyarrow

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.ipc.columns.plan import Leaves, compile_plan, plan_of_leaves
from spark_arrow_ipc.ipc.flatbuf.tables import MetadataVersion
from spark_arrow_ipc.ipc.limits import Limits
from spark_arrow_ipc.ipc.messages import schema as schema_module
from spark_arrow_ipc.ipc.messages.message import decode_message

SEED = 20_240_229
MUTATIONS = 600
PLAIN = [
    pa.int64(), pa.int8(), pa.uint16(), pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.large_string(), pa.binary(),
    pa.binary(7), pa.decimal128(9, 2), pa.decimal256(50, 3), pa.date32(), pa.date64(), pa.time32("ms"), pa.time64("ns"),
    pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("ns", "Europe/Amsterdam"), pa.duration("s"), pa.null(),
    pa.string_view(), pa.binary_view(), pa.month_day_nano_interval(),
]  # fmt: skip


def wide(*more, copies=3):
    fields = [
        pa.field(f"{type_} {i}", type_, bool(i % 2) or type_ == pa.null()) for i in range(copies) for type_ in PLAIN
    ]
    return pa.schema([*fields, *more], {"key": "value"})


def flatbuffer_of(schema):
    return bytearray(schema.serialize().to_pybytes()[8:])


def decoded(flatbuffer, limits=Limits()):  # noqa: B008 - as of `ipc.open`
    return schema_module.decode_schema(decode_message(memoryview(flatbuffer), limits).header.view, limits)


@pytest.fixture
def both(monkeypatch):
    """A function that gives what the two ways make of a flatbuffer: a message, or all that an error says."""

    def outcomes(flatbuffer, limits=Limits()):  # noqa: B008
        found = []
        for at_once in (True, False):
            with monkeypatch.context() as patch:
                if not at_once:
                    patch.setattr(schema_module, "plain_fields", lambda *_: None)
                try:
                    message = decoded(flatbuffer, limits)
                    found.append((message.schema, message.dictionary_ids))
                except ArrowIpcError as error:
                    found.append((type(error), str(error), error.field_path, error.byte_offset))
        return found

    return outcomes


def test_the_fields_are_pyarrows_and_made_when_they_are_asked_for():
    schema = wide()
    message = decoded(flatbuffer_of(schema))
    assert message.plain is not None
    assert len(message.schema) == len(schema)
    make = message.schema._late[1]
    assert message.schema.fields == schema_from_pyarrow(schema).fields
    assert make is not message.schema._late[1], "what made them is let go"
    assert message.schema == schema_from_pyarrow(schema)
    assert len(message.plain.types) == len(PLAIN)


NOT_PLAIN = {
    "a list": pa.field("x", pa.list_(pa.int8())),
    "a struct without fields": pa.field("x", pa.struct([])),
    "a dictionary": pa.field("x", pa.dictionary(pa.int8(), pa.string())),
    "metadata": pa.field("x", pa.int8(), metadata={"a": "b"}),
    "a name beyond ASCII": pa.field("größe", pa.int8()),
    "a map": pa.field("x", pa.map_(pa.string(), pa.int8())),
    "a union": pa.field("x", pa.sparse_union([pa.field("a", pa.int8())])),
}


OTHERS = [field for name, field in NOT_PLAIN.items() if name != "a struct without fields"]
OTHERS += [pa.field("deep", pa.list_(pa.struct([("a", pa.list_(pa.dictionary(pa.int8(), pa.string())))])))]


@pytest.mark.parametrize("case", NOT_PLAIN)
def test_a_few_other_fields_are_decoded_field_by_field(case, both):
    schema = wide(NOT_PLAIN[case])
    flatbuffer = flatbuffer_of(schema)
    message = decoded(flatbuffer)
    has_no_type_at_once = case == "a struct without fields"  # its table looks as that of a type without children
    assert (message.plain is None) == has_no_type_at_once
    assert message.plain is None or list(message.plain.others) == [len(schema) - 1]
    assert message.schema.fields == schema_from_pyarrow(schema).fields
    at_once, by_itself = both(flatbuffer)
    assert at_once == by_itself


def test_many_other_fields_are_decoded_field_by_field():
    schema = wide(*NOT_PLAIN.values(), *[pa.field(f"more {i}", pa.list_(pa.int8())) for i in range(20)])
    message = decoded(flatbuffer_of(schema))
    assert message.plain is None
    assert message.schema.fields == schema_from_pyarrow(schema).fields


@pytest.mark.parametrize("case", NOT_PLAIN)
def test_decoding_them_at_once_takes_no_more_of_the_budget_of_tables(case, monkeypatch):
    flatbuffer = flatbuffer_of(wide(NOT_PLAIN[case]))
    left = []
    for at_once in (True, False):
        if not at_once:
            monkeypatch.setattr(schema_module, "plain_fields", lambda *_: None)
        view = decode_message(memoryview(flatbuffer), Limits()).header.view
        schema_module.decode_schema(view, Limits())
        left.append(view.vector_of_tables("fields")[0].remaining)
    assert left[0] == left[1]


@pytest.mark.no_cover
def test_a_broken_schema_is_the_same_error(both):
    """Each byte of a wide schema may be changed: its vtables, references, names and types."""
    flatbuffer = flatbuffer_of(wide(*OTHERS, copies=2))
    rng = np.random.default_rng(SEED)
    refused = 0
    for _ in range(MUTATIONS):
        changed = flatbuffer.copy()
        changed[int(rng.integers(len(changed)))] ^= int(rng.integers(1, 256))
        at_once, by_itself = both(changed)
        assert at_once == by_itself
        refused += isinstance(at_once[0], type)
    assert MUTATIONS // 10 < refused < MUTATIONS


LIMITS = [("max_columns", 71), ("max_columns", 72), ("max_columns", 86), ("max_columns", 87), ("max_depth", 0)]


@pytest.mark.parametrize("more", [(), OTHERS], ids=["plain", "not all plain"])
@pytest.mark.parametrize(("name", "value"), [*LIMITS, ("max_depth", 1), ("max_depth", 2), ("max_depth", 3)])
def test_limits_are_the_same(name, value, more, both):
    at_once, by_itself = both(flatbuffer_of(wide(*more)), Limits(**{name: value}))
    assert at_once == by_itself


@pytest.mark.parametrize("version", [MetadataVersion.V4, MetadataVersion.V5])
@pytest.mark.parametrize("more", [(), OTHERS], ids=["plain", "not all plain"])
def test_the_plan_of_leaves_is_that_of_their_fields(more, version):
    # Between the plain ones, which are numbered behind them.
    schema = wide()
    schema = pa.schema([*[*schema][:40], *more, *[*schema][40:]])
    message = decoded(flatbuffer_of(schema))
    plain, ids = message.plain, message.dictionary_ids
    made = compile_plan(message.schema.fields, ids, version)
    late = plan_of_leaves(Leaves(plain.types, plain.type_of, plain.others, lambda: message.schema.fields, ids, version))
    assert len(late.leaves.others) == len(more)
    for name in ("nodes", "buffers", "variadics", "dictionaries", "is_whole", "fields", "steps"):
        assert getattr(late, name) == getattr(made, name), name


def test_reading_a_wide_table_makes_no_fields(monkeypatch):
    """The work in Python does not grow with the columns."""
    table = pa.table({f"c{i}": pa.array([1, None, 3]) for i in range(300)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    monkeypatch.setattr(t, "Field", None)
    with ipc.open(sink.getvalue().to_pybytes()) as reader:
        (batch,) = reader
        assert len(batch.columns) == len(reader.schema) == 300
        assert batch.columns[7].null_count == 1
