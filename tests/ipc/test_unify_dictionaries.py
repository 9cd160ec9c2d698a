"""Batches with different dictionaries get one for each field, at every depth."""

import io

import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import RecordBatch, Schema
from spark_arrow_ipc.arrow import types as t

pa = pytest.importorskip("pyarrow")

from writer_cases import (  # noqa: E402 - needs pyarrow
    ENCODED,
    REPLACED,
    WORDS,
    encoded,
    read_by_pyarrow,
    written,
)


@pytest.mark.parametrize(("policy", "deltas"), [("unify", [False]), ("delta", [False, True])])
def test_a_file_has_one_dictionary_whatever_batches_bring(policy, deltas):
    """Indices are given anew; polars does not know deltas, so one dictionary is the default."""
    data = written([encoded(words, *indices) for words, indices in REPLACED], dictionaries=policy)
    expected = ["a", "b", "b", "a", "a", "c", "a"]
    assert expected == read_by_pyarrow(data)["d"].to_pylist()
    with ipc.open(data) as reader:
        assert expected == [row["d"] for batch in reader for row in batch.to_pylist()]
        headers = [reader.read_dictionary_header(i) for i in range(len(reader.dictionary_blocks))]
    assert [(0, delta) for delta in deltas] == [(header.id, header.is_delta) for header in headers]
    if policy == "unify":
        polars = pytest.importorskip("polars")
        assert expected == polars.read_ipc(io.BytesIO(data))["d"].to_list()


def test_deltas_of_a_stream_extend_what_batches_bring():
    data = written([encoded(words, *indices) for words, indices in REPLACED], format="stream", dictionaries="delta")
    expected = ["a", "b", "b", "a", "a", "c", "a"]
    assert expected == read_by_pyarrow(data)["d"].to_pylist()


def test_more_values_than_indices_can_count_is_refused_and_the_writer_is_sound():
    many = [chr(0x4E00 + i) for i in range(100)]
    file = io.BytesIO()
    with ipc.create(file, ENCODED) as writer:
        writer.write(encoded(many, 99))
        with pytest.raises(ValueError, match="d: the batches bring 200 different values, and its indices count 128"):
            writer.write(encoded([chr(0x5E00 + i) for i in range(100)], 0))
        writer.write(encoded(many[::-1], 0))
    assert [many[99], many[99]] == read_by_pyarrow(file.getvalue())["d"].to_pylist()
    with ipc.open(file.getvalue()) as reader:
        assert 100 == reader.read_dictionary_header(0).data.length


def test_dictionaries_of_several_batches_inside_dictionaries_are_unified():
    outer = t.dictionary(t.int16, t.struct([("w", WORDS), ("n", t.int32)]))
    schema = Schema.of([t.field("o", t.list_(outer))])
    rows = [
        [[{"w": "x", "n": 1}, None], [], [{"w": "y", "n": 1}, {"w": "x", "n": 1}]],
        [[{"w": "z", "n": 1}, {"w": "y", "n": 1}], [{"w": None, "n": 2}]],
    ]
    batches = [RecordBatch.from_pydict({"o": part}, schema) for part in rows]
    for options in ({}, {"dictionaries": "delta"}, {"format": "stream"}, {"format": "stream", "dictionaries": "delta"}):
        data = written(batches, **options)
        with ipc.open(data) as reader:
            assert rows == [batch.to_pydict()["o"] for batch in reader], options
        if "dictionaries" not in options:  # pyarrow does not know deltas of nested dictionaries
            assert rows[0] + rows[1] == read_by_pyarrow(data)["o"].to_pylist(), options


def test_a_dictionary_with_equal_values_is_unified():
    data = written([encoded("ab", 0, 1), encoded("cac", 0, 1, 2)])
    assert ["a", "b", "c", "a", "c"] == read_by_pyarrow(data)["d"].to_pylist()
    with ipc.open(data) as reader:
        assert 3 == reader.read_dictionary_header(0).data.length
