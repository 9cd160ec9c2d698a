"""Reading statistics: malformed ones are ignored as a whole."""

import base64
import io
import json
import random
import warnings

import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.statistics.format import KEY, MAX, MIN, NULL_COUNT, PATH_KEY, ROW_COUNT, Leaf
from spark_arrow_ipc.dataset.statistics.read import StatisticsWarning, read_statistics


def stream(rows, *, path=("a",), type_=t.int32, counts=None):
    """Return a pair made by hand: rows of (row count, null count, min, max)."""
    leaf = Leaf(path, (0,), type_).field()
    schema = Schema.of([t.field(ROW_COUNT, t.int64), leaf])
    structs = [{NULL_COUNT: nulls, MIN[0]: low, MAX[0]: high} for _, nulls, low, high in rows]
    pylist = [{ROW_COUNT: row[0], leaf.name: struct} for row, struct in zip(rows, structs, strict=True)]
    sink = io.BytesIO()
    ipc.write(sink, [RecordBatch.from_pylist(pylist, schema)], schema, ipc.WriteOptions(format="stream"))
    return KEY, base64.b64encode(sink.getvalue()).decode()


SOUND = stream([(5, 0, 1, 9), (5, 5, None, None)])
BROKEN = [
    ("no_base64", [(KEY, "%%%")]),
    ("no_stream", [(KEY, base64.b64encode(b"hello").decode())]),
    ("truncated", [(KEY, SOUND[1][: len(SOUND[1]) // 8 * 4])]),
    ("twice", [SOUND, SOUND]),
    ("other_number_of_blocks", [stream([(5, 0, 1, 9)])]),
    ("other_type", [stream([(5, 0, 1, 9)] * 2, type_=t.int64)]),
    ("more_nulls_than_rows", [stream([(5, 6, 1, 9)] * 2)]),
    ("negative_count", [stream([(-5, 0, 1, 9)] * 2)]),
    ("null_count_is_null", [stream([(5, None, 1, 9)] * 2)]),
    ("least_above_greatest", [stream([(5, 0, 9, 1)] * 2)]),
]


@pytest.mark.parametrize("pairs", [pytest.param(pairs, id=name) for name, pairs in BROKEN])
def test_broken_statistics_are_ignored_with_a_warning(pairs):
    schema = Schema.of([t.field("a", t.int32)])
    with pytest.warns(StatisticsWarning, match="are not used"):
        assert read_statistics(tuple(pairs), schema, 2) is None


def test_every_changed_byte_is_survived():
    schema = Schema.of([t.field("a", t.int32)])
    octets = bytearray(base64.b64decode(SOUND[1]))
    r = random.Random(5)
    for _ in range(300):
        changed = bytearray(octets)
        changed[r.randrange(len(changed))] ^= 1 << r.randrange(8)
        pair = (KEY, base64.b64encode(changed).decode())
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            statistics = read_statistics((pair,), schema, 2)
        assert (statistics is None) is bool(told)


def test_columns_that_a_file_does_not_have_are_left_out():
    assert read_statistics((SOUND,), Schema.of([t.field("b", t.int32)]), 2).columns == {}
    assert read_statistics((), Schema.of([]), 2) is None


def test_a_path_is_json_in_the_streams_schema():
    with ipc.open(base64.b64decode(SOUND[1])) as reader:
        assert json.loads(dict(reader.schema.fields[1].custom_metadata)[PATH_KEY]) == ["a"]
