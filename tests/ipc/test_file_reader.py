"""A file is read in any order; errors name the block, the field and the byte offset."""

import itertools
import os
import pickle
import struct

import pytest
from reader_cases import ALL_ROWS, FILE, ROWS, Recorder, block_of, header_of, read, saved, wide, written

from spark_arrow_ipc import ipc
from spark_arrow_ipc.errors import (
    ArrowIpcError,
    InvalidBodyError,
    InvalidFramingError,
    InvalidMetadataError,
    LimitError,
)


def test_a_file_is_read_in_any_order_and_again():
    with ipc.open_file(FILE) as reader:
        assert 3 == len(reader) == len(reader.blocks)
        assert ALL_ROWS[2] == reader.read_batch(2).to_pylist()
        assert ALL_ROWS[0] == reader.read_batch(0).to_pylist()
        assert 2 * ALL_ROWS == [batch.to_pylist() for batch in itertools.chain(reader, reader)]


@pytest.mark.parametrize("number", [-1, 3])
def test_a_batch_that_does_not_exist_is_an_index_error(number):
    with ipc.open_file(FILE) as reader:
        for method in (reader.read_batch, reader.read_header):
            with pytest.raises(IndexError, match=f"0 to 2, found {number}"):
                method(number)


def test_a_header_is_read_without_its_body():
    file = Recorder(FILE)
    with ipc.open_file(file) as reader:
        opened = len(file.reads)
        headers = [reader.read_header(i) for i in range(len(reader))]
        assert [ROWS] * 3 == [header.length for header in headers]
        assert 8 == len(headers[0].nodes)
        assert [(block.byte_offset, block.metadata_nbytes) for block in reader.blocks] == file.reads[opened:]
        dictionary = reader.read_dictionary_header(0)
        assert (0, 3, False) == (dictionary.id, dictionary.data.length, dictionary.is_delta)


@pytest.mark.parametrize("columns", [None, ["a"], ["c", "a"], ["a", "b", "c", ("s", "x")], []])
def test_wanted_bytes_are_what_is_read(columns):
    file = Recorder(wide("file"))
    with ipc.open(file, columns=columns) as reader:
        known = reader.nbytes_to_read(1)
        file.reads.clear()
        reader.read_batch(1)
    assert known == sum(nbytes for _, nbytes in file.reads)


def buffer_at(number, buffer_number):
    """Return the place of a buffer of a record batch in FILE, and that of its (offset, length)."""
    block, (start, nbytes) = block_of(number), header_of(number).buffers[buffer_number].tolist()
    place = FILE.index(struct.pack("<qq", start, nbytes), block.byte_offset)
    assert place < block.byte_offset + block.metadata_nbytes
    return block.byte_offset + block.metadata_nbytes + start, place


def damaged(place, format_, *numbers):
    data = bytearray(FILE)
    struct.pack_into(format_, data, place, *numbers)
    return bytes(data)


# Buffers of SCHEMA in order: a 0-1, s 2-4, p 5, p.x 6-7, p.y 8-10, p.z 11-12, p.z[] 13-14, d 15-16.
def damages():
    s_offsets, s_offsets_entry = buffer_at(1, 3)
    y_bytes, y_bytes_entry = buffer_at(2, 10)
    z_offsets, _ = buffer_at(0, 12)
    d_indices, _ = buffer_at(2, 16)
    p_validity, p_validity_entry = buffer_at(1, 5)
    start, _ = header_of(2).buffers[10].tolist()
    first, words = block_of(1), block_of(0, dictionary=True)
    node = FILE.index(struct.pack("<qq", ROWS, 0), first.byte_offset)
    flatbuffer = first.byte_offset + 8
    body_nbytes = FILE.index(struct.pack("<q", first.body_nbytes), first.byte_offset)
    assert body_nbytes < flatbuffer + first.metadata_nbytes
    return [
        # name, bytes, error, block kind, block number, field, byte offset (None: only inside the block)
        ("values too short", damaged(s_offsets_entry + 8, "<q", 8), InvalidBodyError, "record batch", 1, "s", s_offsets),
        ("validity too short", damaged(p_validity_entry + 8, "<q", 8), InvalidBodyError, "record batch", 1, "p", p_validity),
        ("no validity though nulls", damaged(p_validity_entry + 8, "<q", 0), InvalidBodyError, "record batch", 1, "p", p_validity),
        ("a buffer after the body", damaged(y_bytes_entry, "<q", 1 << 40), InvalidBodyError, "record batch", 2, "p.y", None),
        ("a buffer before the body", damaged(y_bytes_entry, "<q", -8), InvalidBodyError, "record batch", 2, "p.y", None),
        ("a buffer at an odd place", damaged(y_bytes_entry, "<q", start + 4), InvalidBodyError, "record batch", 2, "p.y", None),
        ("a buffer of negative length", damaged(y_bytes_entry + 8, "<q", -1), InvalidBodyError, "record batch", 2, "p.y", None),
        ("a buffer whose end overflows", damaged(y_bytes_entry, "<qq", 1 << 62, (1 << 63) - 1), InvalidBodyError, "record batch", 2, "p.y", None),
        ("offsets that decrease", damaged(s_offsets + 40, "<i", 3), InvalidBodyError, "record batch", 1, "s", None),
        ("offsets below zero", damaged(z_offsets, "<i", -1), InvalidBodyError, "record batch", 0, "p.z", None),
        ("offsets after the bytes", damaged(s_offsets + 4 * ROWS, "<i", 1 << 30), InvalidBodyError, "record batch", 1, "s", None),
        ("a string that is no UTF-8", damaged(y_bytes + 10, "<B", 0xFF), InvalidBodyError, "record batch", 2, "p.y", None),
        ("an index beyond the dictionary", damaged(d_indices + 5, "<b", 3), InvalidBodyError, "record batch", 2, "d", None),
        ("a negative index", damaged(d_indices + 5, "<b", -1), InvalidBodyError, "record batch", 2, "d", None),
        ("a column of another length", damaged(node, "<q", ROWS + 1), InvalidBodyError, "record batch", 1, "a", None),
        ("more nulls than slots", damaged(node + 8, "<q", ROWS + 1), InvalidMetadataError, "record batch", 1, None, None),
        ("a negative length", damaged(node, "<q", -1), InvalidMetadataError, "record batch", 1, None, None),
        ("a prefix that contradicts the footer", damaged(first.byte_offset + 4, "<i", 16), InvalidFramingError, "record batch", 1, None, first.byte_offset),
        ("a negative prefix", damaged(first.byte_offset + 4, "<i", -8), InvalidFramingError, "record batch", 1, None, first.byte_offset + 4),
        ("a table outside the message", damaged(flatbuffer, "<I", 1 << 30), InvalidMetadataError, "record batch", 1, None, flatbuffer),
        ("a body length that contradicts the footer", damaged(body_nbytes, "<q", first.body_nbytes - 8), InvalidFramingError, "record batch", 1, None, first.byte_offset),
        ("a broken dictionary", damaged(words.byte_offset + 8, "<I", 1 << 30), InvalidMetadataError, "dictionary batch", 0, "d", words.byte_offset + 8),
    ]  # fmt: skip


DAMAGES = damages()


@pytest.mark.parametrize("case", DAMAGES, ids=[case[0] for case in DAMAGES])
def test_a_damaged_file_is_located(tmp_path, case):
    _, data, error, kind, number, field, byte_offset = case
    path = saved(data, tmp_path)
    with pytest.raises(error) as caught:
        read(path)
    found = caught.value
    assert (str(path), kind, number, field) == (found.path, found.block_kind, found.block_number, found.field_path)
    block = block_of(number, dictionary=kind == "dictionary batch")
    if byte_offset is None:
        assert block.byte_offset <= found.byte_offset <= block.byte_offset + block.nbytes
    else:
        assert byte_offset == found.byte_offset
    for part in filter(None, (str(path), f"{kind} {number}", field, f"(byte offset {found.byte_offset:,}")):
        assert part in str(found)
    arrived = pickle.loads(pickle.dumps(found))
    assert (type(found), str(found)) == (type(arrived), str(arrived))


@pytest.mark.parametrize("case", DAMAGES, ids=[case[0] for case in DAMAGES])
def test_other_blocks_of_a_damaged_file_are_read(case):
    _, data, _, kind, number, _, _ = case
    if kind == "dictionary batch":
        assert [[{"a": row["a"]} for row in rows_] for rows_ in ALL_ROWS] == read(data, columns=["a"])
        return
    with ipc.open_file(data) as reader:
        for i in {0, 1, 2} - {number}:
            assert ALL_ROWS[i] == reader.read_batch(i).to_pylist()


def test_structural_validation_leaves_out_the_values_only():
    """With `structural`, what could harm memory is still refused."""
    by_name = {case[0]: case[1] for case in DAMAGES}
    assert 3 == len(read(by_name["a string that is no UTF-8"], validation="structural", columns=["a"]))
    with ipc.open(by_name["a string that is no UTF-8"], validation="structural") as reader:
        assert [ROWS] * 3 == [batch.num_rows for batch in reader]
    for name in ("values too short", "a buffer after the body", "a column of another length"):
        with pytest.raises(ArrowIpcError):
            read(by_name[name], validation="structural")
    with pytest.raises(ValueError, match="expected validation 'full' or 'structural', found 'none'"):
        ipc.open(FILE, validation="none")


def test_a_file_cut_under_an_open_reader_is_an_error(tmp_path):
    path = saved(written(dictionaries="delta"), tmp_path)  # the dictionary lies before the batches
    with ipc.open_file(path) as reader:
        block = reader.blocks[1]
        os.truncate(path, block.byte_offset + 500)
        assert ALL_ROWS[0] == reader.read_batch(0).to_pylist()
        with pytest.raises(InvalidFramingError, match="truncated") as caught:
            reader.read_batch(1)
    assert (str(path), 1, block.byte_offset) == (caught.value.path, caught.value.block_number, caught.value.byte_offset)


def test_a_batch_beyond_the_budget_is_refused_before_it_is_read():
    file = Recorder(wide("file"))
    with ipc.open_file(file, limits=ipc.Limits(max_batch_bytes=100_000)) as reader, pytest.raises(LimitError):
        reader.read_batch(0)
    assert sum(nbytes for _, nbytes in file.reads) < 10_000
