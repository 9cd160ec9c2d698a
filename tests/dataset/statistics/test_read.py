"""Reading statistics: malformed ones are ignored as a whole."""

import base64
import io
import json
import random
import warnings

import pytest
from statistics_cases import batch_of, with_dropped, write_described

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.statistics.format import KEY, MAX, MIN, NULL_COUNT, PATH_KEY, ROW_COUNT, Leaf
from spark_arrow_ipc.dataset.statistics.read import StatisticsWarning, file_statistics, read_statistics


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


@pytest.mark.slow
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


BATCHES = [
    RecordBatch.from_pylist([{"a": i} for i in rows], Schema.of([t.field("a", t.int32)])) for rows in ((1, 2), (3, 4))
]


def described(**options):
    sink = io.BytesIO()
    write_described(sink, BATCHES, BATCHES[0].schema, **options)
    return sink.getvalue()


def unproven():
    """Return a file of ours without checksums, as early builds wrote them."""
    sink = io.BytesIO()
    with ipc.open(described()) as reader, ipc.create(sink, reader.schema) as writer:
        writer.custom_metadata.update(reader.custom_metadata)
        for batch in reader:
            writer.write(batch)
    return sink.getvalue()


def of_another_file():
    """Return a file of ours with its own checksums and the statistics of another one."""
    sink = io.BytesIO()
    with ipc.open(described()) as reader, ipc.create(sink, reader.schema, ipc.WriteOptions(checksums=True)) as writer:
        writer.custom_metadata.update(reader.custom_metadata)
        for batch in reader:
            writer.write(batch)
    return sink.getvalue()


def with_another_header():
    data = bytearray(described())
    with ipc.open(bytes(data)) as reader:
        block = reader.blocks[1]
    data[block.byte_offset + block.metadata_nbytes - 1] ^= 1
    return bytes(data)


MISFITS = [(unproven, "nothing proves"), (of_another_file, "nothing proves"), (with_another_header, "are others than")]


@pytest.mark.parametrize(("make", "words"), MISFITS, ids=[make.__name__ for make, _ in MISFITS])
def test_statistics_of_other_batches_are_ignored_with_a_warning(make, words):
    with ipc.open(make()) as reader, pytest.warns(StatisticsWarning, match=words):
        assert file_statistics(reader) is None


def test_only_the_record_batches_that_are_asked_about_are_looked_at():
    with ipc.open(with_another_header()) as reader:
        assert file_statistics(reader, range(1)).columns["a",].least == (1, 3)


def test_a_projection_has_the_statistics_of_its_columns():
    with ipc.open(described(), columns=[]) as reader:
        assert {} == file_statistics(reader).columns
    with ipc.open(described()) as reader:
        assert (2, 2) == file_statistics(reader).row_counts


def test_columns_that_a_file_does_not_have_are_left_out():
    assert read_statistics((SOUND,), Schema.of([t.field("b", t.int32)]), 2).columns == {}
    assert read_statistics((), Schema.of([]), 2) is None


def test_a_path_is_json_in_the_streams_schema():
    with ipc.open(base64.b64decode(SOUND[1])) as reader:
        assert json.loads(dict(reader.schema.fields[1].custom_metadata)[PATH_KEY]) == ["a"]


def test_no_batch_after_the_second_is_read():
    """Each may take the whole budget of memory, and they are no statistics if there are two."""
    sink = io.BytesIO()
    schema = Schema.of([t.field(ROW_COUNT, t.int64)])
    batch = RecordBatch.from_pydict({ROW_COUNT: [1]}, schema)
    ipc.write(sink, [batch] * 3, schema, ipc.WriteOptions(format="stream"))
    third = len(sink.getvalue()) - len(batch_and_end(batch, schema))
    broken = sink.getvalue()[:third] + b"broken"
    with pytest.warns(StatisticsWarning, match="they are of 2 record batches"):
        assert read_statistics(((KEY, base64.b64encode(broken).decode()),), schema, 1) is None


def batch_and_end(batch, schema):
    """The bytes of a last batch and of the marker after it."""
    lengths = []
    for count in (1, 2):
        sink = io.BytesIO()
        ipc.write(sink, [batch] * count, schema, ipc.WriteOptions(format="stream"))
        lengths.append(len(sink.getvalue()))
    return bytes(lengths[1] - lengths[0] + 8)


def test_values_that_share_memory_have_a_budget(monkeypatch):
    monkeypatch.setattr("spark_arrow_ipc.dataset.statistics.read._MOST_VALUE_NBYTES", 2000)
    schema = Schema.of([t.field("a", t.int32)])
    assert read_statistics((stream([(5, 0, 1, 9)] * 2),), schema, 2) is not None
    with pytest.warns(StatisticsWarning, match="too much memory"):
        assert read_statistics((stream([(5, 0, 1, 9)] * 20),), schema, 20) is None


DROPPED = [
    ("nested", "[" * 1000),
    ("nested in sound brackets", "[" * 500 + "]" * 500),
    ("no list", '{"a": 1}'),
    ("cut", '["a'),
]


@pytest.mark.parametrize("text", [case[1] for case in DROPPED], ids=[case[0] for case in DROPPED])
def test_noted_paths_that_are_not_lists_of_names_are_a_warning(text):
    """Whatever the file says in JSON, however deep it nests."""
    sink = io.BytesIO()
    batch = batch_of(t.int32, 1, 2)
    write_described(sink, [batch], batch.schema, change=with_dropped(text))
    with ipc.open(sink.getvalue()) as reader, pytest.warns(StatisticsWarning, match="are not used"):
        assert file_statistics(reader) is None
