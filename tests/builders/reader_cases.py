"""A file and a stream of three record batches, for the tests of readers."""

import io
import struct

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import RecordBatch, Schema
from spark_arrow_ipc.arrow import types as t

ROWS = 300
SCHEMA = Schema.of(
    [
        t.field("a", t.int64),
        t.field("s", t.utf8),
        t.field("p", t.struct([("x", t.int32), ("y", t.utf8), ("z", t.list_(t.int16))])),
        t.field("d", t.dictionary(t.int8, t.utf8)),
    ]
)
WORDS = ["red", "green", "blue"]


def rows(batch_number):
    return [
        {
            "a": i,
            "s": f"text {i}",
            "p": None if i % 7 == 0 else {"x": -i, "y": f"inner {i}", "z": [i % 100] * (i % 3)},
            "d": WORDS[i % 3],
        }
        for i in range(batch_number * ROWS, (batch_number + 1) * ROWS)
    ]


ALL_ROWS = [rows(i) for i in range(3)]
BATCHES = [RecordBatch.from_pylist(rows_, SCHEMA) for rows_ in ALL_ROWS]


def written(*, compression=None, **options):
    """Write the batches with buffers whose bytes a test finds or breaks, unless it names a codec."""
    file = io.BytesIO()
    ipc.write(file, BATCHES, options=ipc.WriteOptions(compression=compression, **options))
    return file.getvalue()


FILE, STREAM = written(), written(format="stream")
CONTENTS = {"file": FILE, "stream": STREAM}


class Pipe:
    """A file object that cannot seek and whose reads are short."""

    def __init__(self, data):
        self._file = io.BytesIO(data)

    def read(self, nbytes=-1):
        return self._file.read(min(nbytes, 1000))


def read(source, **how):
    with ipc.open(source, **how) as reader:
        return [batch.to_pylist() for batch in reader]


def saved(data, tmp_path):
    path = tmp_path / "x.arrow"
    path.write_bytes(data)
    return path


class Recorder(io.BytesIO):
    """A file object that notes what is read of it."""

    def __init__(self, data):
        super().__init__(data)
        self.reads = []

    def read(self, nbytes=-1):
        self.reads.append((self.tell(), nbytes))
        return super().read(nbytes)


WIDE = Schema.of([t.field(name, t.int64) for name in ("a", "b", "c")] + [t.field("s", t.struct([("x", t.int64), ("y", t.int64)]))])  # fmt: skip
WIDE_ROWS = 20_000
WIDE_BATCH = RecordBatch.from_pydict({**{name: range(WIDE_ROWS) for name in "abc"}, "s": [(i, i) for i in range(WIDE_ROWS)]}, WIDE)  # fmt: skip


def wide(kind):
    file = io.BytesIO()
    ipc.write(file, [WIDE_BATCH, WIDE_BATCH], options=ipc.WriteOptions(format=kind, compression=None))
    return file.getvalue()


def block_of(number, *, dictionary=False):
    with ipc.open_file(FILE) as reader:
        return (reader.dictionary_blocks if dictionary else reader.blocks)[number]


def header_of(number):
    with ipc.open_file(FILE) as reader:
        return reader.read_header(number)


def stream_places():
    """Return the places of each message of STREAM and of its body."""
    places, at = [], 0
    while True:
        (length,) = struct.unpack_from("<i", STREAM, at + 4)
        if not length:
            return places
        body = at + 8 + length
        nbytes = next(block.body_nbytes for block in BODIES[len(places)])
        places.append((at, body))
        at = body + nbytes


with ipc.open_file(FILE) as _reader:
    _EMPTY = ipc.Block(0, 0, 0)
    BODIES = [(_EMPTY,), *((block,) for block in (*_reader.dictionary_blocks, *_reader.blocks))]
PLACES = stream_places()
