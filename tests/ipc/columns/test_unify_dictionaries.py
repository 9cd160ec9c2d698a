"""Batches with different dictionaries get one for each field, at every depth."""

import io

import numpy as np
import pytest
import strategies
from hypothesis import given, settings

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import Array, RecordBatch, Schema, equality
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.kernels import growing_dictionary, take
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.errors import UnsupportedError
from spark_arrow_ipc.ipc.bytes import sinks

pa = pytest.importorskip("pyarrow")

import pyarrow_bits  # noqa: E402 - needs pyarrow
import unified_tables  # noqa: E402 - needs pyarrow
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
    with ipc.create(file, ENCODED) as sink:
        sink.write(encoded(many, 99))
        with pytest.raises(
            UnsupportedError, match="d: the batches bring 200 different values, and its indices count 128"
        ):
            sink.write(encoded([chr(0x5E00 + i) for i in range(100)], 0))
        sink.write(encoded(many[::-1], 0))
    assert [many[99], many[99]] == read_by_pyarrow(file.getvalue())["d"].to_pylist()
    with ipc.open(file.getvalue()) as reader:
        assert 100 == reader.read_dictionary_header(0).data.length


@pytest.mark.parametrize(("later", "refused"), [("abc", True), ("b", True), ("ca", True), ("a", False), ("acd", False)])
@pytest.mark.parametrize("options", [{}, {"dictionaries": "delta"}, {"format": "stream", "dictionaries": "delta"}])
def test_an_order_that_has_a_meaning_is_kept_or_refused(later, refused, options):
    """As pyarrow reads it: the categories of all batches are the same ones, in the order that each batch gave them."""
    given = [pa.array([0], pa.int8()), pa.array([len(later) - 1], pa.int8())]
    batches = [
        pa.record_batch({"d": pa.DictionaryArray.from_arrays(indices, pa.array(list(words)), ordered=True)})
        for indices, words in zip(given, ["ac", later], strict=True)
    ]
    if refused:
        with pytest.raises(UnsupportedError, match="d: the batches bring ordered dictionaries that do not continue"):
            written(batches, **options)
    else:
        found = read_by_pyarrow(written(batches, **options))["d"].combine_chunks()
        assert found.type.ordered
        assert [] == [word for word, kept in zip("acd", found.dictionary.to_pylist(), strict=False) if word != kept]
    separate = written(batches, format="stream")
    of_first, of_later = (batch["d"].dictionary.to_pylist() for batch in pa.ipc.open_stream(separate))
    assert (["a", "c"], list(later)) == (of_first, of_later[: len(later)])


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


# ---- values stay what they are

BERLIN = t.Timestamp(t.TimeUnit.SECOND, "Europe/Berlin")
TWO_OF_ONE_NAME = t.Struct((t.Field("x", t.int32), t.Field("x", t.int32)))
UNION = t.SparseUnion((t.Field("a", t.int32), t.Field("b", t.int64)), (0, 1))
NANS = np.array([0x7FF8000000000000, 0x7FF8000000000001, 0xFFF8000000000000], np.uint64)
SAME_IN_PYTHON = [
    ("instants when clocks go back", from_pylist.array([1698539400, 1698543000, 1698539400], BERLIN)),
    ("dates with a time of day", from_pylist.array([86_400_000, 86_400_001, 3], t.date64)),
    ("structs with two fields of one name", from_pylist.array([(9, 5), (2, 5), (9, 5)], TWO_OF_ONE_NAME)),
    ("children of a union", from_pylist.array([(0, 5), (1, 5), (0, 5)], UNION)),
    ("zeros of both signs", from_pylist.array([0.0, -0.0, 0.0], t.float64)),
    ("NaNs of other bits", Array(t.float64, 3, 0, (None, memoryview(NANS.tobytes())))),
    ("nulls of the values", from_pylist.array([None, 1, None], t.int8)),
    ("bytes and views", from_pylist.array([b"", b"\0", b"\0" * 20], t.binary_view)),
]
WAYS = [{}, {"dictionaries": "delta"}, {"format": "stream"}, {"format": "stream", "dictionaries": "delta"}]


def assert_same_bits(expected, data):
    with ipc.open(data) as reader:
        found = list(reader)
    assert len(expected) == len(found)
    for batch, other in zip(expected, found, strict=True):
        for column, read in zip(batch.columns, other.columns, strict=True):
            assert equality.difference(equality.as_bits(column), equality.as_bits(read)) is None


@pytest.mark.parametrize("options", WAYS, ids=[" ".join(way.values()) or "default" for way in WAYS])
@pytest.mark.parametrize("values", [case[1] for case in SAME_IN_PYTHON], ids=[case[0] for case in SAME_IN_PYTHON])
def test_values_that_python_takes_for_equal_stay_apart(values, options):
    """By bytes; pyarrow decodes what is written and what was given to the same bytes, where it can decode the type."""
    type_ = t.dictionary(t.int8, values.type)
    schema = Schema.of([t.field("d", type_)])

    def batch(*order):
        indices = from_pylist.array(list(range(len(order))), t.int8)
        dictionary = take.take(values, np.array(order))
        return RecordBatch(schema, (Array(type_, len(order), 0, indices.buffers, (), dictionary),), len(order))

    batches = [batch(0), batch(2, 1), batch(1, 0, 2)]
    data = written(batches, **options)
    assert_same_bits(batches, data)
    # pyarrow takes no slots of unions, structs and views, and refuses to join dates with a time of day.
    if not values.type.children and values.type not in (t.binary_view, t.date64):
        opened = pa.ipc.open_stream(data) if "format" in options else pa.ipc.open_file(data)
        expected = [pa.record_batch(batch).column(0) for batch in batches]
        assert bytes_of(expected) == bytes_of(opened.read_all().column(0).chunks)


def bytes_of(chunks):
    """Return the nulls and the bytes of dictionary-encoded arrays of pyarrow, decoded by it."""
    values = [chunk.dictionary.take(chunk.indices) for chunk in chunks]
    return [(array.is_null().to_pylist(), array.fill_null(0).buffers()[1].to_pybytes()) for array in values]


EMBEDDED = {
    "pyarrow": lambda stream: pa.ipc.open_stream(stream).read_all()["d"].to_pylist(),
    "polars": lambda stream: pytest.importorskip("polars").read_ipc_stream(io.BytesIO(stream))["d"].to_list(),
    "this package": lambda stream: [row["d"] for batch in ipc.open_stream(stream) for row in batch.to_pylist()],
}


@pytest.mark.parametrize("compression", [None, "lz4"])
@pytest.mark.parametrize("read", EMBEDDED.values(), ids=EMBEDDED)
def test_the_bytes_of_a_file_are_a_stream(read, compression):
    """Columnar.rst, "Equivalence with the IPC Streaming Format": a dictionary stands before its first use."""
    data = written([encoded(words, *indices) for words, indices in REPLACED], compression=compression, checksums=True)
    assert ["a", "b", "b", "a", "a", "c", "a"] == read(data[8:])


@pytest.mark.parametrize("alignment", [8, 16, 64])
@pytest.mark.parametrize("most", [0, 100, 1 << 20])
def test_batches_that_wait_in_a_file_are_those_in_memory(monkeypatch, most, alignment):
    batches = [encoded(words, *indices) for words, indices in REPLACED]
    expected = written(batches, alignment=alignment)
    monkeypatch.setattr(sinks, "_IN_MEMORY_NBYTES", most)
    monkeypatch.setattr(sinks, "_COPIED_NBYTES", 7)
    assert expected == written(batches, alignment=alignment)
    assert read_by_pyarrow(expected)["d"].to_pylist() == ["a", "b", "b", "a", "a", "c", "a"]


@pytest.mark.nightly
@given(unified_tables.tables())
@settings(max_examples=3_000 if strategies.PROFILE == "long" else 60)
def test_what_is_unified_is_what_was_given(batches):
    """For dictionaries of every type, nested ones, and equal field names: by bits, as pyarrow has them, if it has the types.

    The bytes of a file behind its magic are the same as a stream.
    """
    expected = pyarrow_bits.of_batches(batches)
    for options in WAYS:
        data = written(batches, **options)
        for stream in [data] if "format" in options else [data, data[8:]]:
            assert_same_bits(batches, stream)
            if expected is not None:
                assert expected == pyarrow_bits.of_batches(pyarrow_bits.batches_of(stream))


@pytest.mark.slow
@given(unified_tables.tables())
def test_hashes_that_collide_change_nothing(batches):
    sound = growing_dictionary.hashes
    growing_dictionary.hashes = lambda of: sound(of) & np.uint64(1)
    try:
        assert_same_bits(batches, written(batches))
    finally:
        growing_dictionary.hashes = sound
