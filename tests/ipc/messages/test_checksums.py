"""Checksums: they prove which file they are of, and every changed byte of what is read is found."""

import base64
import io
import random
from itertools import pairwise

import numpy as np
import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import RecordBatch, Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import InvalidArrowError, InvalidBodyError
from spark_arrow_ipc.ipc.messages.checksums import (
    CHECKSUMS_KEY,
    FileChecksums,
    ManyChecksums,
    RunningChecksums,
    checksum,
    checksum_of_pieces,
    decode_checksums,
)

SCHEMA = Schema.of([t.field("a", t.int64), t.field("s", t.utf8), t.field("n", t.struct([("x", t.float64), ("y", t.utf8)]))])  # fmt: skip
ROWS = 50


def batch(first, count=ROWS):
    rows = [
        {"a": i, "s": None if i % 7 == 0 else f"n{i}", "n": {"x": i / 2, "y": str(i)}}
        for i in range(first, first + count)
    ]
    return RecordBatch.from_pylist(rows, SCHEMA)


BATCHES = [batch(0), batch(50), batch(100, 20)]


def written(batches=BATCHES, **options):
    sink = io.BytesIO()
    ipc.write(sink, batches, batches[0].schema, ipc.WriteOptions(**{"checksums": True, **options}))
    return sink.getvalue()


def one_by_one(reader):
    return list(reader)


def joined(reader):
    return [found for found, _ in reader.read_joined(0, len(reader), below_rows=10_000)]


def in_pieces(reader):
    found = []
    for i in range(len(reader)):
        rows = reader.batch_rows(i)
        edges = [*range(0, rows.num_rows, 8), rows.num_rows]
        found += [rows.read(start, stop) for start, stop in pairwise(edges)]
    return found


READS = {"one by one": one_by_one, "joined": joined, "in pieces": in_pieces}


def values(batches):
    return [row for found in batches for row in found.to_pylist()]


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("read", READS)
def test_a_sound_file_is_read(read, compression):
    if read == "in pieces" and compression is not None:
        return
    with ipc.open(written(compression=compression)) as reader:
        assert reader.checksums is not None
        assert reader.headers_fit(range(3))
        assert values(BATCHES) == values(READS[read](reader))


def test_the_fingerprint_is_of_one_file():
    fingerprints = set()
    for _ in range(3):
        with ipc.create(io.BytesIO(), SCHEMA, ipc.WriteOptions(checksums=True)) as writer:
            fingerprints.add(writer.fingerprint)
    assert 3 == len(fingerprints)
    with ipc.create(io.BytesIO(), SCHEMA) as writer:
        assert writer.fingerprint is None


def places(data):
    """Return a byte of each header and each buffer: name, byte offset."""
    with ipc.open(data) as reader:
        for i, block in enumerate(reader.blocks):
            yield f"header {i}", block.byte_offset + block.metadata_nbytes // 2
            body = block.byte_offset + block.metadata_nbytes
            for number, (start, nbytes) in enumerate(reader.read_header(i).buffers.tolist()):
                if nbytes:
                    yield f"batch {i} buffer {number}", body + start + nbytes // 2


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("read", READS)
def test_a_changed_byte_is_found_where_it_is_read(read, compression):
    if read == "in pieces" and compression is not None:
        return
    data = written(compression=compression)
    for name, byte_offset in places(data):
        changed = bytearray(data)
        changed[byte_offset] ^= 0x10
        with pytest.raises(InvalidArrowError) as caught, ipc.open(bytes(changed)) as reader:
            READS[read](reader)
        assert int(name.split()[1]) == caught.value.block_number or read == "in pieces", name


def test_an_error_names_the_column_and_the_place():
    data = bytearray(written())
    data[dict(places(bytes(data)))["batch 1 buffer 1"]] ^= 1
    with pytest.raises(InvalidBodyError, match=r"changed after it was written.*verifyChecksums=false") as caught:
        ipc.open(bytes(data)).read_batch(1)
    assert ("a", 1) == (caught.value.field_path, caught.value.block_number)
    with ipc.open(bytes(data), verify_checksums=False) as reader:
        assert values(BATCHES) != values(reader)


@pytest.mark.slow
@pytest.mark.parametrize("columns", [["s"], [("n", "y")]], ids=str)
def test_a_projection_verifies_what_it_reads(columns):
    data = written()
    refused = set()
    for name, byte_offset in places(data):
        changed = bytearray(data)
        changed[byte_offset] ^= 0x10
        try:
            with ipc.open(bytes(changed), columns=columns) as reader:
                list(reader)
        except InvalidArrowError:
            refused.add(name)
    headers = {f"header {i}" for i in range(3)}
    # Buffers in pre-order: validity and values of a; validity, offsets and bytes of s; of n, of x, then of y.
    expected = {"s": {2, 3, 4}, ("n", "y"): {9, 10}}[columns[0]]
    assert headers | {f"batch {i} buffer {number}" for i in range(3) for number in expected} == refused


def test_a_dictionary_is_verified():
    type_ = t.dictionary(t.int8, t.utf8)
    schema = Schema.of([t.field("d", type_)])
    data = bytearray(written([RecordBatch.from_pylist([{"d": value} for value in ("one", "two", "one")], schema)]))
    data[data.index(b"onetwo")] = ord("O")
    with pytest.raises(InvalidBodyError, match="checksum") as caught, ipc.open(bytes(data)) as reader:
        list(reader)
    assert "dictionary batch" == caught.value.block_kind


def test_a_copied_pair_is_of_another_file():
    """Whoever copies the metadata of a footer copies no schema message."""
    original = written()
    with ipc.open(original) as reader:
        pairs = dict(reader.custom_metadata)
    sink = io.BytesIO()
    with ipc.create(sink, SCHEMA) as writer:
        writer.custom_metadata.update(pairs)
        for other in BATCHES:
            writer.write(other)
    with ipc.open(sink.getvalue()) as reader:
        assert CHECKSUMS_KEY not in dict(reader.custom_metadata)
        assert reader.checksums is None
        assert values(BATCHES) == values(reader)


def test_pyarrow_copies_the_pair_and_it_is_ignored():
    pa = pytest.importorskip("pyarrow")
    original = pa.ipc.open_file(written())
    table = original.read_all()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema, metadata=original.metadata) as writer:
        for found in reversed(table.to_batches()):
            writer.write_batch(found)
    with ipc.open(sink.getvalue().to_pybytes()) as reader:
        assert CHECKSUMS_KEY in dict(reader.custom_metadata)
        assert reader.checksums is None
        assert not reader.headers_fit(range(3))
        assert sorted(row["a"] for row in values(BATCHES)) == sorted(row["a"] for row in values(reader))


def test_pairs_that_are_none_are_ignored():
    with ipc.open(written()) as reader:
        value = dict(reader.custom_metadata)[CHECKSUMS_KEY]
    octets = base64.b64decode(value)
    sound = decode_checksums(((CHECKSUMS_KEY, value),))
    assert 3 == sound.num_record_batches
    cases = [
        "",
        "%",
        value[:-4],
        base64.b64encode(octets + bytes(8)).decode(),
        base64.b64encode(b"XXH2" + octets[4:]).decode(),
    ]
    r = random.Random(1)
    cases += [base64.b64encode(octets[: r.randrange(len(octets))]).decode() for _ in range(50)]
    assert [None] * len(cases) == [decode_checksums(((CHECKSUMS_KEY, case),)) for case in cases]
    assert decode_checksums(((CHECKSUMS_KEY, value),) * 2) is None
    assert decode_checksums(()) is None


def test_pieces_have_the_checksum_of_the_whole():
    assert 0 == checksum_of_pieces(()) == checksum_of_pieces((b"",))
    assert checksum(b"ab") == checksum_of_pieces((b"a", b"b")) == checksum_of_pieces((b"ab",))


@pytest.mark.slow
@pytest.mark.parametrize("nbytes", [8, 2000], ids=["copied", "viewed"])
def test_many_messages_are_compared_at_once(nbytes):
    """Two messages of 16 bytes of metadata and three buffers, the second of them empty; one changed byte each time."""
    body, message = 2 * nbytes, 16 + 2 * nbytes
    data = bytearray(np.arange(2 * message, dtype=np.uint64).astype(np.uint8))
    starts = np.array([0, message])
    buffers = np.array([[[0, nbytes], [nbytes, 0], [nbytes, nbytes]]] * 2)
    headers = [checksum(data[start : start + 16]) for start in (0, message)]
    pieces = [[data[s + 16 : s + 16 + nbytes], b"", data[s + 16 + nbytes : s + 16 + body]] for s in (0, message)]
    expected = [[checksum(piece) if piece else 0 for piece in of_one] for of_one in pieces]
    many = ManyChecksums(np.array([*headers, 7], np.uint64), np.array([*expected, [7, 7, 7]], np.uint64))
    assert many.fit(memoryview(data), starts, 16, buffers)
    assert not many.fit(memoryview(data), starts, 16, buffers[:, :2])
    for i in range(len(data)):
        data[i] ^= 1
        assert not many.fit(memoryview(data), starts, 16, buffers), i
        data[i] ^= 1


def test_neighbours_of_unlike_numbers_of_buffers_are_verified_one_by_one():
    counts = np.array([0, 2, 4, 7])
    checksums = FileChecksums(0, 0, np.zeros(3, np.uint64), np.arange(7, dtype=np.uint64), counts, 3)
    assert [[2, 3]] == checksums.record_batches(1, 2).buffers.tolist()
    assert [[0, 1], [2, 3]] == checksums.record_batches(0, 2).buffers.tolist()
    assert checksums.record_batches(0, 3) is None


def test_verified_neighbours_are_joined():
    """What did not fit would be read one by one, with the same rows."""
    with ipc.open(written()) as reader:
        assert [120] == [found.num_rows for found in joined(reader)]


PIECES = {
    "whole": ([(0, 10)], True),
    "in order": ([(0, 4), (4, 10)], True),
    "overlapping": ([(0, 4), (2, 7), (2, 5), (7, 10)], True),
    "not to the end": ([(0, 4)], False),
    "not from the start": ([(1, 10)], False),
    "with a gap": ([(0, 4), (5, 10)], False),
}


@pytest.mark.parametrize(("pieces", "is_verified"), PIECES.values(), ids=PIECES)
def test_a_buffer_in_pieces_is_verified_if_all_of_it_was_there(pieces, is_verified):
    data = np.arange(10, dtype=np.uint8).data
    for expected in (checksum(data), checksum(data) ^ 1):
        running = RunningChecksums([expected])
        for start, stop in pieces:
            running.add(0, start, data[start:stop])
        if is_verified and expected != checksum(data):
            with pytest.raises(InvalidBodyError, match="checksum"):
                running.check(0, 10)
        else:
            running.check(0, 10)


def test_other_readers_read_them():
    pa, polars, nanoarrow = map(pytest.importorskip, ("pyarrow", "polars", "nanoarrow"))
    data = written()
    assert values(BATCHES) == pa.ipc.open_file(data).read_all().to_pylist()
    assert values(BATCHES) == polars.read_ipc(io.BytesIO(data)).to_dicts()
    # A file is a stream after its magic, and only a reader of streams looks at the message of the schema.
    stream = data[8:]
    assert values(BATCHES) == pa.ipc.open_stream(stream).read_all().to_pylist()
    assert ROWS * 2 + 20 == len(nanoarrow.ArrayStream.from_readable(stream).read_all())
