"""A server and a client of Dissociated IPC, written from its document and from format/dissociated.md, not from our code."""

import contextlib
import io
import mmap
import os
import socket
import struct
import threading

import pyarrow as pa

HEAD = struct.Struct("<B3sQQ")
UNTAGGED, TAGGED, ERROR, MEMORY, TOKEN = range(5)
WANT, FREE = 11, 2**64 - 12
SEALS = 1033, 1 | 2 | 4 | 8


def frame(kind, data=b"", tag=0):
    return HEAD.pack(kind, b"\0\0\0", tag, len(data)) + data


def metadata(sequence, flatbuffer):
    return frame(UNTAGGED, b"\x01" + struct.pack("<I", sequence) + flatbuffer)


def packed(sequence, body):
    return frame(TAGGED, body, sequence)


def listed(sequence, pairs, total=None):
    words = [
        sum(n for _, n in pairs) if total is None else total,
        len(pairs),
        *(word for pair in pairs for word in pair),
    ]
    return frame(TAGGED, struct.pack(f"<{len(words)}Q", *words), sequence | 1 << 56)


def end(sequence):
    return frame(UNTAGGED, b"\x00" + struct.pack("<I", sequence))


def messages_of(table_or_bytes):
    """Return (flatbuffer, body or None) of each message of a stream, by pyarrow."""
    data = table_or_bytes
    if isinstance(data, pa.Table | pa.RecordBatch):
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, data.schema) as writer:
            writer.write(data)
        data = sink.getvalue()
    return [
        (bytes(m.metadata), None if m.type == "schema" else bytes(m.body))
        for m in pa.ipc.MessageReader.open_stream(data)
    ]


def packed_frames(messages):
    made = [metadata(i, flatbuffer) for i, (flatbuffer, _) in enumerate(messages)]
    return [*made, *(packed(i, body) for i, (_, body) in enumerate(messages) if body is not None), end(len(messages))]


def sealed(data, seals=SEALS[1]):
    """Return the descriptor of unnamed memory with these bytes."""
    descriptor = os.memfd_create("toy", os.MFD_ALLOW_SEALING)
    os.write(descriptor, data)
    if seals:
        import fcntl

        fcntl.fcntl(descriptor, SEALS[0], seals)
    return descriptor


class ToyServer:
    """Sends frames to whoever connects, and keeps what it gets.

    Parameters
    ----------
    frames
        Of the stream.
    descriptors
        Passed with the first byte of the stream.
    step
        Bytes of each write; None for all of a frame.
    stays
        Whether the connection stays open after the last frame.
    connections
        Served one after the other.
    """

    def __init__(self, frames, *, path=None, descriptors=(), step=None, stays=True, query="", connections=1):
        self.frames, self.descriptors, self.step, self.stays = frames, descriptors, step, stays
        self.connections = connections
        self.received = b""
        self.socket = socket.socket(socket.AF_UNIX if path else socket.AF_INET)
        self.socket.bind(str(path) if path else ("127.0.0.1", 0))
        self.socket.listen()
        where = f"dissociated+unix://{path}" if path else f"dissociated+tcp://127.0.0.1:{self.socket.getsockname()[1]}"
        self.uri = f"{where}?want_data={WANT}{query}"
        self.gone = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        for _ in range(self.connections):
            self.received = b""
            try:
                opened, _ = self.socket.accept()
            except OSError:
                return
            self.serve(opened)
        self.gone.set()

    def serve(self, opened):
        with opened, contextlib.suppress(OSError):
            opened.settimeout(10)
            while len(self.received) < HEAD.size:
                self.received += opened.recv(65536)
            data = b"".join(self.frames)
            if self.descriptors:
                socket.send_fds(opened, [data[:1]], list(self.descriptors))
                data = data[1:]
            step = self.step or max(len(data), 1)
            for start in range(0, len(data), step):
                opened.sendall(data[start : start + step])
            if not self.stays:
                opened.shutdown(socket.SHUT_WR)
            while part := opened.recv(65536):
                self.received += part

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join(10)
        for descriptor in self.descriptors:
            os.close(descriptor)

    def frames_received(self):
        return split(self.received)


def split(data):
    """Return (kind, tag, bytes) of each frame."""
    found = []
    while data:
        kind, zeros, tag, nbytes = HEAD.unpack_from(data)
        assert zeros == b"\0\0\0"
        found.append((kind, tag, data[HEAD.size : HEAD.size + nbytes]))
        data = data[HEAD.size + nbytes :]
    return found


class ToyClient:
    """Reads the whole stream of one ticket, and puts it together as a stream of Arrow IPC."""

    def __init__(self, address, want, ticket, token=None):
        self.socket = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
        self.socket.settimeout(10)
        self.socket.connect(address)
        if token is not None:
            self.socket.sendall(frame(TOKEN, token))
        self.socket.sendall(frame(TAGGED, ticket, want))
        self.region = None
        self.offsets = []
        self.raw = []

    def exactly(self, nbytes):
        data = b""
        while len(data) < nbytes:
            part, descriptors, _, _ = socket.recv_fds(self.socket, nbytes - len(data), 1)
            for descriptor in descriptors:
                self.region = mmap.mmap(descriptor, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
                os.close(descriptor)
            if not part:
                raise EOFError(len(data))
            data += part
        return data

    def frame(self):
        kind, zeros, tag, nbytes = HEAD.unpack(self.exactly(HEAD.size))
        assert zeros == b"\0\0\0"
        return kind, tag, self.exactly(nbytes)

    def read(self):
        """Return {number: flatbuffer} and {number: (tag, bytes)} up to the end of the stream."""
        headers, bodies, last = {}, {}, None
        while last is None or len(headers) < last or len(bodies) < last - 1:
            kind, tag, data = self.frame()
            self.raw.append((kind, tag, data))
            if kind == UNTAGGED:
                (number,) = struct.unpack_from("<I", data, 1)
                if data[0] == 0:
                    assert len(data) == 5
                    last = number
                else:
                    headers[number] = data[5:]
            elif kind == TAGGED:
                bodies[tag & 0xFFFFFFFF] = tag, data
            elif kind == ERROR:
                raise ConnectionError(data.decode())
        return headers, bodies

    def body(self, flatbuffer, tag, data):
        """Return the bytes of a body, packed as the metadata says."""
        if tag >> 56 == 0:
            return data
        words = struct.unpack(f"<{len(data) // 8}Q", data)
        assert words[1] == (len(words) - 2) // 2
        pairs = list(zip(words[2::2], words[3::2], strict=True))
        assert words[0] == sum(n for _, n in pairs)
        self.offsets += [start for start, n in pairs if n]
        return pairs

    def stream(self):
        """Return the stream as bytes of the ordinary format; only for packed bodies."""
        headers, bodies = self.read()
        made = b""
        for number in sorted(headers):
            flatbuffer = headers[number]
            flatbuffer += bytes(-len(flatbuffer) % 8)
            made += b"\xff\xff\xff\xff" + struct.pack("<i", len(flatbuffer)) + flatbuffer
            if number in bodies:
                body = self.body(flatbuffer, *bodies[number])
                assert isinstance(body, bytes)
                made += body
        return made + b"\xff\xff\xff\xff\0\0\0\0"

    def free(self, offsets):
        self.socket.sendall(frame(TAGGED, struct.pack(f"<{len(offsets)}Q", *offsets), FREE))

    def close(self):
        self.socket.close()
