"""The first difference of two contents is one sentence; free choices of a writer are no difference."""

import pytest

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.cli.shared.differences import Comparison

LEFT_RIGHT = Comparison("left", "right")


def schema(type_=t.int32, name="a", nullable=True, field=(), own=()):
    return Schema((t.Field(name, type_, nullable, tuple(field)),), tuple(own))


def map_named(key):
    entries = t.struct([t.field(key, t.utf8, nullable=False), t.field("value", t.int8)])
    return t.Map(t.Field("entries", entries, nullable=False), keys_sorted=False)


PAIRS = (("k", "1"), ("l", "2"))
SCHEMAS = {
    "the same": (schema(), schema(), None),
    "name": (schema(), schema(name="b"), "field a: name is 'a' in left, 'b' in right"),
    "nullable": (schema(), schema(nullable=False), "field a: nullable is True in left, False in right"),
    "type": (schema(), schema(t.int64), "field a: type is int32 in left, int64 in right"),
    "an element": (schema(t.list_(t.int8)), schema(t.list_(t.int16)), "field a[]: type is int8 in left, int16 in right"),
    "encoding": (schema(t.utf8), schema(t.dictionary(t.int8, t.utf8)), "field a: type is utf8 in left"),
    "number of fields": (schema(), Schema(()), "the schema: number of fields is 1 in left, 0 in right"),
    "metadata of a field": (schema(field=PAIRS), schema(), "field a: custom metadata is "),
    "metadata of the schema": (schema(own=PAIRS), schema(), "the schema: custom metadata is "),
    "order of metadata": (schema(field=PAIRS, own=PAIRS), schema(field=PAIRS[::-1], own=PAIRS[::-1]), None),
    "names within maps": (schema(map_named("key")), schema(map_named("k")), None),
}  # fmt: skip


@pytest.mark.parametrize("case", SCHEMAS)
def test_the_first_difference_of_schemas(case):
    a, b, expected = SCHEMAS[case]
    sentence = LEFT_RIGHT.of_schemas(a, b)
    assert sentence is None if expected is None else sentence.startswith(expected)


def test_names_within_maps_count_if_asked():
    comparison = Comparison("left", "right", names_of_maps=True)
    sentence = comparison.of_schemas(schema(map_named("key")), schema(map_named("k")))
    assert "name is 'key' in left, 'k' in right" in sentence


def batch(*values):
    return RecordBatch(schema(), (from_pylist.array(list(values), t.int32),), len(values))


BATCHES = {
    "the same": ([batch(1, None), batch()], [batch(1, None), batch()], None),
    "fewer batches": ([batch(1)], [batch(1), batch(2)], "left has 1 record batch, right has more"),
    "more batches": ([batch(1)], [], "right has 0 record batches, left has more"),
    "rows": ([batch(1)], [batch(1, 2)], "record batch 0: number of rows is 1 in left, 2 in right"),
    "a value": ([batch(1), batch(2)], [batch(1), batch(3)], "record batch 1, first left, then right: "),
}


@pytest.mark.parametrize("case", BATCHES)
def test_the_first_difference_of_batches(case):
    a, b, expected = BATCHES[case]
    sentence = LEFT_RIGHT.of_batches(a, iter(b))
    assert sentence is None if expected is None else sentence.startswith(expected)
