"""The client against servers that were written from the document, sound ones and hostile ones."""

import itertools
import json
import random
import struct

import corpus
import numpy as np
import pyarrow as pa
import pytest
from dissociated_peers import (
    ERROR,
    FREE,
    MEMORY,
    TAGGED,
    TOKEN,
    UNTAGGED,
    WANT,
    ToyServer,
    end,
    frame,
    listed,
    messages_of,
    metadata,
    packed,
    packed_frames,
    sealed,
)  # fmt: skip
from small_files import small_files

from spark_arrow_ipc import ipc
from spark_arrow_ipc.errors import (
    ArrowIpcError,
    InvalidBodyError,
    InvalidFramingError,
    InvalidMetadataError,
    LimitError,
    OptionError,
    UnsupportedError,
)  # fmt: skip
from spark_arrow_ipc.ipc.dissociated.location import parse_location
from spark_arrow_ipc.ipc.dissociated.shared_memory import Handle, SharedMemory

FILES = small_files()
NONCE = bytes(range(16))
BATCH = pa.record_batch([pa.array([1, 2, 3]), pa.array(["x", None, "z"])], ["a", "b"])


def stream_of(name):
    sink = pa.BufferOutputStream()
    with pa.ipc.open_file(FILES[name]) as reader:
        options = pa.ipc.IpcWriteOptions(compression="lz4" if "lz4" in name else None)
        with pa.ipc.new_stream(sink, reader.schema, options=options) as writer:
            for i in range(reader.num_record_batches):
                writer.write_batch(reader.get_batch(i))
    return sink.getvalue().to_pybytes()


def shared(messages, gap=8):
    """Return frames with lists of buffers, and the memory they are in: each buffer on its own, in reverse order."""
    memory, frames = bytearray(NONCE + bytes(48)), []
    for number, (flatbuffer, body) in enumerate(messages):
        frames.append(metadata(number, flatbuffer))
        if body is None:
            continue
        pairs = []
        for start, nbytes in buffers_of(flatbuffer):
            memory += bytes(-len(memory) % 8 + gap)
            pairs.append((len(memory) if nbytes else 0, nbytes))
            memory += body[start : start + nbytes]
        frames.append(listed(number, pairs))
    return [*frames, end(len(messages))], bytes(memory)


def buffers_of(flatbuffer):
    from spark_arrow_ipc.ipc.messages.message import decode_message

    header = decode_message(memoryview(flatbuffer), ipc.Limits()).header
    return getattr(header, "data", header).buffers.tolist()


def query(memory, free=True):
    handle = Handle(SharedMemory.MEMFD, len(memory), NONCE)
    encoded = parse_location("dissociated+tcp://h:1?want_data=1")
    from dataclasses import replace

    uri = replace(encoded, remote_handle=handle.encode()).uri
    return f"&free_data={FREE}" * free + "&" + uri.partition("?want_data=1&")[2]


def with_memory(path, frames, memory):
    """Return a server that passes its memory before the first frame."""
    frames = [frame(MEMORY), *frames]
    return ToyServer(frames, path=path / "s", descriptors=[sealed(memory)], query=query(memory))


@pytest.mark.parametrize("name", FILES)
def test_packed_bodies_of_every_type_are_read_in_any_order(name):
    frames = packed_frames(messages_of(stream_of(name)))
    random.Random(name).shuffle(frames)
    with (
        ToyServer(frames) as server,
        ipc.connect(server.uri, ticket="t", timeout=120) as reader,
        ipc.open(FILES[name]) as file,
    ):
        assert file.schema == reader.schema
        assert [b.to_pylist() for b in file] == [b.to_pylist() for b in reader]
    assert (TAGGED, WANT, b"t") == server.frames_received()[0]


@pytest.mark.parametrize("name", FILES)
def test_lists_of_buffers_of_every_type_are_read_in_any_order(name, tmp_path):
    frames, memory = shared(messages_of(stream_of(name)))
    random.Random(name).shuffle(frames)
    with with_memory(tmp_path, frames, memory) as server, ipc.open(FILES[name]) as file:
        with ipc.connect(server.uri, ticket="t", timeout=120) as reader:
            assert file.schema == reader.schema
            assert [b.to_pylist() for b in file] == [b.to_pylist() for b in reader]
        server.gone.wait(120)
    sent = {start for f in frames if f[0] == TAGGED for start in offsets_in(f[20:])}
    freed = {n for _, tag, data in server.frames_received()[1:] for n in struct.unpack(f"<{len(data) // 8}Q", data)}
    assert freed <= sent
    assert freed or not sent


def offsets_in(body):
    words = struct.unpack(f"<{len(body) // 8}Q", body)
    return [start for start, nbytes in zip(words[2::2], words[3::2], strict=True) if nbytes]


def test_bytes_may_come_one_by_one():
    with ToyServer(packed_frames(messages_of(BATCH)), step=1) as server, ipc.connect(server.uri, ticket="t") as reader:
        assert [BATCH.to_pylist()] == [batch.to_pylist() for batch in reader]


def test_metadata_and_bodies_may_come_from_two_servers():
    messages = messages_of(BATCH)
    frames = packed_frames(messages)
    of_metadata = [f for f in frames if f[0] == UNTAGGED]
    for stays in (True, False):
        with (
            ToyServer(of_metadata, stays=stays) as first,
            ToyServer([f for f in frames if f[0] == TAGGED]) as second,
            ipc.connect([first.uri, second.uri], ticket="t", timeout=120) as reader,
        ):
            assert [BATCH.to_pylist()] == [batch.to_pylist() for batch in reader]


def test_no_copy_is_made_of_what_is_shared(tmp_path):
    frames, memory = shared(messages_of(pa.record_batch([pa.array(np.arange(1000))], ["a"])))
    with with_memory(tmp_path, frames, memory) as server, ipc.connect(server.uri, ticket="t") as reader:
        (batch,) = reader
        mapping = np.frombuffer(reader._stream._shared._mapping, np.uint8)
        first = mapping.ctypes.data
        place = np.frombuffer(batch.columns[0].buffers[1], np.uint8).ctypes.data
        assert first <= place < first + len(mapping)


def test_a_batch_outlives_its_reader_and_server(tmp_path):
    frames, memory = shared(messages_of(BATCH))
    with with_memory(tmp_path, frames, memory) as server, ipc.connect(server.uri, ticket="t") as reader:
        (batch,) = reader
    del reader
    assert BATCH.to_pylist() == batch.to_pylist()


def test_columns_are_chosen():
    with (
        ToyServer(packed_frames(messages_of(BATCH))) as server,
        ipc.connect(server.uri, ticket="t", columns=["b"]) as reader,
    ):
        assert [[{"b": "x"}, {"b": None}, {"b": "z"}]] == [batch.to_pylist() for batch in reader]


def test_tags_that_are_shifted_by_55_are_read_on_request(tmp_path):
    frames, memory = shared(messages_of(BATCH))
    shifted = [HEAD_55(f) if f[0] == TAGGED else f for f in frames]
    with with_memory(tmp_path, shifted, memory) as server, ipc.connect(server.uri, ticket="t", lenient=True) as reader:
        assert [BATCH.to_pylist()] == [batch.to_pylist() for batch in reader]


def HEAD_55(data):
    (tag,) = struct.unpack_from("<Q", data, 4)
    return data[:4] + struct.pack("<Q", tag & 0xFFFFFFFF | 1 << 55) + data[12:]


MESSAGES = messages_of(BATCH)
(SCHEMA, _), (HEADER, BODY) = MESSAGES
PLAIN = packed_frames(MESSAGES)

HOSTILE = [
    ("a tag with reserved bits", [PLAIN[0], PLAIN[1], frame(TAGGED, BODY, 1 | 1 << 40)], InvalidFramingError, "bits 32 to 55"),
    ("a body type of the future", [PLAIN[0], PLAIN[1], frame(TAGGED, BODY, 1 | 2 << 56)], UnsupportedError, "bodies of type 2"),
    ("buffers without memory", [PLAIN[0], PLAIN[1], listed(1, [])], UnsupportedError, "no remote_handle"),
    ("memory without a handle", [frame(MEMORY)], InvalidFramingError, "MEMORY"),
    ("a token from a server", [frame(TOKEN, b"x")], InvalidFramingError, "TOKEN"),
    ("a frame of another kind", [frame(9)], UnsupportedError, "frames of kind 9"),
    ("http", [b"HTTP/1.1 400 Bad Request\r\n\r\n"], UnsupportedError, "is the peer a server"),
    ("an end first", [end(0)], InvalidFramingError, "expected a schema"),
    ("metadata of a gigabyte", [PLAIN[0][:12] + struct.pack("<Q", 1 << 30)], LimitError, "max_metadata_bytes"),
    ("a body of an exabyte", [PLAIN[0], PLAIN[1], packed(1, b"")[:12] + struct.pack("<Q", 1 << 60)], LimitError, "max_batch_bytes"),
    ("a short body", [PLAIN[0], PLAIN[1], packed(1, BODY[:-8])], InvalidBodyError, "a body of"),
    ("a long body", [PLAIN[0], PLAIN[1], packed(1, BODY + bytes(8))], InvalidBodyError, "a body of"),
    ("a body that is cut", [PLAIN[0], PLAIN[1], packed(1, BODY)[:-1]], InvalidFramingError, "the connection ends"),
    ("no body", [PLAIN[0], PLAIN[1], end(2)], InvalidFramingError, "read it again"),
    ("no end", PLAIN[:-1], InvalidFramingError, "without an end of stream"),
    ("a gap", [PLAIN[0], metadata(2, HEADER), packed(2, BODY), end(3)], InvalidFramingError, "read it again"),
    ("a message twice", [PLAIN[0], PLAIN[0]], InvalidFramingError, "numbers from 1 on"),
    ("a schema twice", [PLAIN[0], metadata(1, SCHEMA)], InvalidMetadataError, "one schema"),
    ("an end twice", [*PLAIN[:-1], end(3), end(3)], InvalidFramingError, "a second one"),
    ("noise for metadata", [metadata(0, b"\xff" * 64)], InvalidMetadataError, "expected"),
    ("nothing", [], InvalidFramingError, "without an end of stream"),
    ("a reason", [frame(ERROR, b"no table")], ConnectionError, "no table"),
]  # fmt: skip


@pytest.mark.parametrize(("frames", "error", "words"), [c[1:] for c in HOSTILE], ids=[c[0] for c in HOSTILE])
def test_hostile_servers_are_refused(frames, error, words):
    with (
        ToyServer(frames, stays=False) as server,
        pytest.raises(error, match=words or "."),
        ipc.connect(server.uri, ticket="t", timeout=120) as reader,
    ):
        list(reader)


SOUND, MEMORY_BYTES = shared(MESSAGES)
PAIRS = list(zip(*[iter(struct.unpack(f"<{(len(SOUND[2]) - 20) // 8}Q", SOUND[2][20:])[2:])] * 2, strict=True))
SIZE = len(MEMORY_BYTES)


def changed(place, pair):
    return listed(1, [*PAIRS[:place], pair, *PAIRS[place + 1 :]])


HOSTILE_LISTS = [
    ("more buffers than memory has", frame(TAGGED, struct.pack("<QQ", 0, 2**60), 1 | 1 << 56)),
    ("no pairs", listed(1, [])),
    ("a pair less", listed(1, PAIRS[:-1])),
    ("a pair more", listed(1, [*PAIRS, (64, 8)])),
    ("another sum", listed(1, PAIRS, total=1)),
    ("after the end", changed(1, (SIZE + 8, PAIRS[1][1]))),
    ("across the end", changed(1, (SIZE // 8 * 8 - 8, SIZE))),
    ("an offset of 64 bits", changed(1, (2**64 - 8, PAIRS[1][1]))),
    ("a length of 64 bits", listed(1, [*PAIRS[:1], (8, 2**64 - 1), *PAIRS[2:]], total=2**64 - 1)),
    ("an odd offset", changed(1, (65, PAIRS[1][1]))),
    ("too short", changed(1, (PAIRS[1][0], PAIRS[1][1] - 1))),
    ("half a pair", frame(TAGGED, SOUND[2][20:-8], 1 | 1 << 56)),
]


@pytest.mark.parametrize("body", [c[1] for c in HOSTILE_LISTS], ids=[c[0] for c in HOSTILE_LISTS])
def test_hostile_lists_are_refused(body, tmp_path):
    with (
        with_memory(tmp_path, [SOUND[0], SOUND[1], body, end(2)], MEMORY_BYTES) as server,
        ipc.connect(server.uri, ticket="t", timeout=120) as reader,
        pytest.raises(InvalidBodyError),
    ):
        list(reader)


def test_overlapping_buffers_are_counted_together(tmp_path):
    """A few bytes of memory may stand for many: the budget counts each time they are sent."""
    with (
        with_memory(tmp_path, SOUND, MEMORY_BYTES) as server,
        pytest.raises(LimitError, match="max_batch_bytes"),
        ipc.connect(server.uri, ticket="t", limits=ipc.Limits(max_batch_bytes=16)) as reader,
    ):
        list(reader)


def test_memory_that_was_not_passed_is_an_error(tmp_path):
    with (
        ToyServer(SOUND, path=tmp_path / "s", query=query(MEMORY_BYTES)) as server,
        ipc.connect(server.uri, ticket="t", timeout=120) as reader,
        pytest.raises(InvalidFramingError, match="shared memory before"),
    ):
        list(reader)


def test_every_byte_of_lists_and_metadata_may_be_wrong(tmp_path):
    """Each byte is changed in turn: rows or a typed error, and never another exception."""
    from spark_arrow_ipc.ipc.dissociated import protocol

    body = bytearray(SOUND[2][20:])
    expected = [nbytes for _, nbytes in buffers_of(HEADER)]
    for place, value in itertools.product(range(len(body)), (0x01, 0x80, 0xFF)):
        made = bytearray(body)
        made[place] ^= value
        try:
            pairs = protocol.decode_pairs(memoryview(made), expected, SIZE)
        except ArrowIpcError:
            continue
        assert all(0 <= start <= SIZE - nbytes for start, nbytes in pairs.tolist())


def test_a_silent_server_ends_in_time():
    with (
        ToyServer(PLAIN[:2]) as server,
        ipc.connect(server.uri, ticket="t", timeout=0.1) as reader,
        pytest.raises(TimeoutError, match="timeout="),
    ):
        next(reader)


def test_two_silent_servers_end_in_time():
    with (
        ToyServer(PLAIN[:1]) as first,
        ToyServer([]) as second,
        ipc.connect([first.uri, second.uri], ticket="t", timeout=0.1) as reader,
        pytest.raises(TimeoutError, match="sent nothing for"),
    ):
        next(reader)


ARGUMENTS = [
    ("no ticket", "dissociated+tcp://h:1?want_data=1", {}, OptionError, "a ticket"),
    ("a long ticket", "dissociated+tcp://h:1?want_data=1", {"ticket": "x" * 65537}, OptionError, "65,536"),
    ("three servers", ["a", "b", "c"], {"ticket": "t"}, OptionError, "one URI, or two"),
    ("another transport", "ucx://h:1?want_data=1", {"ticket": "t"}, UnsupportedError, "ucx:"),
    ("a word", "dissociated+tcp://h:1?want_data=1", {"validation": "none"}, ValueError, "'full' or 'structural'"),
]


@pytest.mark.parametrize(("uri", "given", "error", "words"), [c[1:] for c in ARGUMENTS], ids=[c[0] for c in ARGUMENTS])
def test_arguments_are_checked(uri, given, error, words):
    with pytest.raises(error, match=words):
        ipc.connect(uri, **given)


RECORDED = sorted((corpus.root() / "dissociated").glob("*.json")) if corpus.root() else []


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_the_reference_servers_messages_give_the_values_of_its_file(path):
    frames = [
        frame(UNTAGGED if m["kind"] == "untagged" else TAGGED, bytes.fromhex(m["bytes"]), int(m.get("tag", "0"), 16))
        for m in json.loads(path.read_text())["messages"]
    ]
    with ToyServer(frames) as server, ipc.connect(server.uri, ticket="t") as reader:
        found = [batch.to_pylist() for batch in reader]
    with pa.ipc.open_file(path.with_suffix(".arrow")) as file, ipc.open(path.with_suffix(".arrow")) as ours:
        assert file.num_record_batches == len(found)
        assert [batch.to_pylist() for batch in ours] == found
