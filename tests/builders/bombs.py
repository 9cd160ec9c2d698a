"""Files of few bytes that ask for much: the builders of `bomb_table`. Nothing of them is stored.

Each row of `BOMBS` makes one file from raw messages, as a writer that means harm could.
"""

import base64
import io
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import flatbuffers
import lz4.frame
import numpy as np
import zstandard
from raw_messages import dictionary_batch, framed, message, record_batch, rows, schema, schema_of, schema_values

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import RecordBatch, Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.schema import Endianness
from spark_arrow_ipc.dataset.statistics.format import KEY
from spark_arrow_ipc.ipc.flatbuf import builder, tables

MIB = 1 << 20
MOST = 2**31 - 1
LZ4, ZSTD = 0, 1
END = struct.pack("<ii", -1, 0)


@dataclass(frozen=True)
class Bomb:
    """What a file asks for, and how it is written to a path; `large` ones take seconds, or hundreds of MB to make."""

    what: str
    write: Callable[[Path], None]
    large: bool = False


def stream(*messages):
    return b"".join(messages) + END


def of_bytes(make):
    return lambda path: path.write_bytes(make())


def ints(*numbers):
    return struct.pack(f"<{len(numbers)}i", *numbers)


def longs(*numbers):
    return struct.pack(f"<{len(numbers)}q", *numbers)


def padded(data):
    return data + bytes(-len(data) % 8)


def body_of(*buffers):
    """Return the places of buffers, each at a multiple of 8, and the body."""
    places, body = [], b""
    for data in buffers:
        places.append((len(body), len(data)))
        body += padded(data)
    return places, body


# ---- compressed buffers


@cache
def zstd_zeros(nbytes):
    """A frame of zeros with its length before it: about 30,000 times smaller."""
    packer = zstandard.ZstdCompressor(level=3).compressobj(size=nbytes)
    piece = bytes(MIB)
    frame = b"".join(packer.compress(piece[: min(MIB, nbytes - done)]) for done in range(0, nbytes, MIB))
    return longs(nbytes) + frame + packer.flush()


@cache
def lz4_zeros(nbytes):
    sink = io.BytesIO()
    with lz4.frame.open(sink, "wb") as file:
        for done in range(0, nbytes, MIB):
            file.write(bytes(min(MIB, nbytes - done)))
    return longs(nbytes) + sink.getvalue()


def of_column(type_, length, nodes, *buffers, codec=None, ids=(), before=(), variadic=None):
    places, body = body_of(*buffers)
    batch = record_batch(length, nodes, places, body, codec=codec, variadic=variadic)
    return stream(schema(type_, ids), *before, batch)


def compressed_column(buffer, codec, slots):
    return lambda: of_column(t.int8, slots, [(slots, 0)], b"", buffer(), codec=codec)


# ---- slots without bytes


def nulls():
    return of_column(t.null, MOST, [(MOST, MOST)])


RUN = t.run_end_encoded(t.int32, t.int8)
RUN_NODES = [(MOST, 0), (1, 0), (1, 0)]


def runs():
    return of_column(RUN, MOST, RUN_NODES, b"", ints(MOST), b"", b"\7")


def list_over_a_run():
    return of_column(t.list_(RUN), 1, [(1, 0), *RUN_NODES], b"", ints(0, MOST), b"", ints(MOST), b"", b"\7")


def list_of_nulls():
    return of_column(t.list_(t.null), 1, [(1, 0), (MOST, MOST)], b"", ints(0, MOST))


def list_of_empty_lists():
    type_ = t.list_(t.FixedSizeList(t.Field("item", t.int8), 0))
    return of_column(type_, 1, [(1, 0), (MOST, 0), (0, 0)], b"", ints(0, MOST), b"", b"", b"")


def list_of_empty_structs():
    return of_column(t.list_(t.struct([])), 1, [(1, 0), (MOST, 0)], b"", ints(0, MOST), b"")


def one_list_of_many_nulls():
    type_ = t.FixedSizeList(t.Field("item", t.null), MOST)
    return of_column(type_, 1, [(1, 0), (MOST, MOST)], b"")


def dictionary_of_nulls():
    values = dictionary_batch(MOST, [(MOST, MOST)], [], b"")
    type_ = t.dictionary(t.int32, t.null)
    return of_column(type_, 2, [(2, 0)], b"", ints(0, MOST - 1), ids=(0,), before=[values])


def list_views(levels, each=100):
    """List-views that all cover all slots below: `each` to the power of the levels."""
    type_, nodes, buffers = t.int8, [(each, 0)], [b"", bytes(each)]
    for level in range(levels):
        length = 1 if level == levels - 1 else each
        type_ = t.ListView(t.Field("item", type_))
        nodes = [(length, 0), *nodes]
        buffers = [b"", ints(*[0] * length), ints(*[each] * length), *buffers]
    return lambda: of_column(type_, 1, nodes, *buffers)


def lists_of_one_dictionary_value():
    """A million slots that all stand for one text of a megabyte."""
    text = zstd_zeros(MIB)
    places, body = body_of(b"", longs(-1) + ints(0, MIB), text)
    values = dictionary_batch(1, [(1, 0)], places, body, codec=ZSTD)
    type_ = t.list_(t.dictionary(t.int8, t.utf8))
    nodes = [(1, 0), (MIB, 0)]
    buffers = [b"", longs(-1) + ints(0, MIB), b"", zstd_zeros(MIB)]
    return of_column(type_, 1, nodes, *buffers, codec=ZSTD, ids=(0,), before=[values])


def views_of_one_buffer():
    """A million views of the same 64 MiB of text."""
    view = struct.pack("<iiii", 64 * MIB, 0, 0, 0)
    packed = zstandard.ZstdCompressor().compress(view * MIB)
    buffers = [b"", longs(16 * MIB) + packed, zstd_zeros(64 * MIB)]
    return of_column(t.utf8_view, MIB, [(MIB, 0)], *buffers, codec=ZSTD, variadic=[1])


def one_dictionary_value(nbytes):
    places, body = body_of(b"", longs(-1) + ints(0, nbytes), zstd_zeros(nbytes))
    values = dictionary_batch(1, [(1, 0)], places, body, codec=ZSTD)
    type_ = t.dictionary(t.int8, t.utf8)
    return of_column(type_, MIB, [(MIB, 0)], b"", zstd_zeros(MIB), codec=ZSTD, ids=(0,), before=[values])


def one_run_of_a_text(nbytes):
    type_ = t.run_end_encoded(t.int32, t.utf8)
    buffers = [b"", longs(-1) + ints(MIB), b"", longs(-1) + ints(0, nbytes), zstd_zeros(nbytes)]
    return of_column(type_, MIB, [(MIB, 0), (1, 0), (1, 0)], *buffers, codec=ZSTD)


def list_views_of_one_list():
    """A million list-views of the same million values."""
    places, sizes = bytes(4 * MIB), np.full(MIB, MIB, np.int32).tobytes()
    packed = [longs(4 * MIB) + zstandard.ZstdCompressor().compress(data) for data in (places, sizes)]
    buffers = [b"", *packed, b"", zstd_zeros(MIB)]
    return of_column(t.ListView(t.Field("item", t.int8)), MIB, [(MIB, 0), (MIB, 0)], *buffers, codec=ZSTD)


def bitmaps_that_joining_makes():
    """Two small batches: one leaves out the validity of 2^31 - 1 structs, the other has one."""
    type_ = t.struct([("a", t.LargeList(t.Field("item", t.struct([]))))])
    first = body_of(b"", b"", longs(0, MOST), b"")
    second = body_of(b"", b"", longs(0, 1), b"\0")
    return stream(
        schema(type_),
        record_batch(1, [(1, 0), (1, 0), (MOST, 0)], *first),
        record_batch(1, [(1, 0), (1, 0), (1, 1)], *second),
    )


# ---- frames


def frame_that_claims():
    return longs(1900 * MIB) + zstandard.ZstdCompressor().compress(b"")


def lz4_that_claims():
    return longs(1900 * MIB) + lz4_zeros(MIB)[8:]


def frames(*kinds):
    skippable = struct.pack("<II", 0x184D2A50, 8) + bytes(8)
    one = zstandard.ZstdCompressor().compress(bytes(1000))
    parts = {"frame": one, "skippable": skippable}
    return lambda: longs(1000 * kinds.count("frame")) + b"".join(parts[kind] for kind in kinds)


# ---- many columns, and metadata


def swapped_columns():
    """A hundred big-endian columns that all name the same 64 MiB."""
    count, slots = 100, 8 * MIB
    fields = [t.Field(f"f{i}" if i else "a", t.int64) for i in range(count)]
    batch = message(
        {
            "header": (tables.RECORD_BATCH, rows(slots, [(slots, 0)] * count, [(0, 0), (0, 64 * MIB)] * count)),
            "bodyLength": 64 * MIB,
        }
    )
    return stream(schema_of(fields, endianness=Endianness.BIG), batch, bytes(64 * MIB))


def nested_lists(levels):
    """A schema of lists in each other, built from the inside: builders that recurse cannot."""
    made = flatbuffers.Builder()
    name = made.CreateString("a")
    made.StartVector(4, 0, 4)
    children = made.EndVector()
    made.StartObject(0)
    type_ = made.EndObject()
    discriminant = tables.Type.Null
    for _ in range(levels):
        field = _field(made, name, discriminant, type_, children)
        children, discriminant = _vector(made, [field]), tables.Type.List
    field = _field(made, name, discriminant, type_, children)
    return stream(framed(_schema_message(made, _vector(made, [field]))))


def _field(made, name, discriminant, type_, children):
    made.StartObject(7)
    made.PrependUOffsetTRelativeSlot(0, name, 0)
    made.PrependUint8Slot(2, int(discriminant), 0)
    made.PrependUOffsetTRelativeSlot(3, type_, 0)
    made.PrependUOffsetTRelativeSlot(5, children, 0)
    return made.EndObject()


def _vector(made, places):
    made.StartVector(4, len(places), 4)
    for place in places:
        made.PrependUOffsetTRelative(place)
    return made.EndVector()


def _schema_message(made, fields):
    made.StartObject(4)
    made.PrependUOffsetTRelativeSlot(1, fields, 0)
    schema_table = made.EndObject()
    made.StartObject(5)
    made.PrependInt16Slot(0, 4, 0)
    made.PrependUint8Slot(1, 1, 0)
    made.PrependUOffsetTRelativeSlot(2, schema_table, 0)
    made.Finish(made.EndObject())
    return bytes(made.Output())


def sparse_metadata(path):
    """A stream whose first message has 1 GB of metadata, and a file whose footer has; all of it a hole."""
    with path.open("wb") as file:
        file.write(struct.pack("<ii", -1, 1 << 30))
        file.truncate((1 << 30) + 8)


def sparse_footer(path):
    with path.open("wb") as file:
        file.write(b"ARROW1\0\0")
        file.truncate(1 << 30)
        file.seek(0, io.SEEK_END)
        file.write(struct.pack("<i", (1 << 30) - 8) + b"ARROW1")


def many_columns():
    """A million references to one field."""
    made = flatbuffers.Builder()
    name = made.CreateString("x")
    none = _vector(made, [])
    made.StartObject(0)
    null = made.EndObject()
    field = _field(made, name, tables.Type.Null, null, none)
    return stream(framed(_schema_message(made, _vector(made, [field] * 1_000_000))))


def many_view_buffers():
    """Eight million buffers of one view, all of them empty."""
    count = 8_000_000
    buffers = np.zeros((count + 2, 2), np.int64)
    values = rows(0, [(0, 0)], buffers, variadic=[count])
    return stream(schema(t.utf8_view), message({"header": (tables.RECORD_BATCH, values)}))


def many_blocks(path):
    """A footer of ten million blocks, all of them the same bytes."""
    head = b"ARROW1\0\0" + bytes(256)
    blocks = np.tile(np.array([8, 128, 0], np.int64), (10_000_000, 1))
    values = {"version": 4, "schema": schema_values([t.Field("a", t.null)]), "recordBatches": blocks}
    footer = builder.build(tables.FOOTER, values)
    path.write_bytes(head + footer + struct.pack("<i", len(footer)) + b"ARROW1")


def blocks_apart(path):
    """A file of a million and a half real, empty record batches."""
    batch = record_batch(0, [(0, 0)])
    head = b"ARROW1\0\0" + schema(t.null)
    count = 1_500_000
    blocks = np.zeros((count, 3), np.int64)
    blocks[:, 0] = len(head) + len(batch) * np.arange(count)
    blocks[:, 1] = len(batch)
    values = {"version": 4, "schema": schema_values([t.Field("a", t.null)]), "recordBatches": blocks}
    footer = builder.build(tables.FOOTER, values)
    path.write_bytes(head + batch * count + footer + struct.pack("<i", len(footer)) + b"ARROW1")


# ---- dictionaries


def text_dictionary(nbytes, id_=0, *, is_delta=False):
    places, body = body_of(b"", longs(-1) + ints(0, nbytes), zstd_zeros(nbytes))
    return dictionary_batch(1, [(1, 0)], places, body, id_=id_, is_delta=is_delta, codec=ZSTD)


def many_dictionaries():
    count = 100
    fields = [t.Field(f"f{i}" if i else "a", t.dictionary(t.int8, t.utf8)) for i in range(count)]
    batch = record_batch(1, [(1, 0)] * count, [(0, 0), (0, 1)] * count, bytes(8))
    parts = [text_dictionary(64 * MIB, i) for i in range(count)]
    return stream(schema_of(fields, range(count)), *parts, batch)


def many_deltas(*, used):
    """A dictionary of 100 MB, and 10,000 deltas of a byte; `used` puts a record batch after each tenth of them."""

    def make():
        delta = dictionary_batch(1, [(1, 0)], [(0, 0), (0, 8), (8, 1)], ints(0, 1) + bytes(8), is_delta=True)
        batch = record_batch(1, [(1, 0)], [(0, 0), (0, 4)], bytes(8))
        deltas = [(delta * 1000 + batch) for _ in range(10)] if used else [delta * 10_000, batch]
        return stream(schema(t.dictionary(t.int32, t.utf8), (0,)), text_dictionary(100 * MIB), *deltas)

    return make


# ---- statistics


def with_statistics(make):
    """A file of one row in each of its 100 batches, whose footer has these statistics."""

    def write(path):
        kind = Schema.of([t.field("a", t.utf8_view)])
        options = ipc.WriteOptions(compression=None)
        with ipc.create(str(path), kind, options) as writer:
            for i in range(100):
                writer.write(RecordBatch.from_pydict({"a": [f"{i}"]}, kind))
            writer.custom_metadata[KEY] = base64.b64encode(make()).decode()

    return write


def statistics_of_many_batches():
    """A thousand batches, each within the budget, none of which is one."""
    rows_ = 7 * MIB
    places, body = body_of(b"", zstd_zeros(8 * rows_))
    batch = record_batch(rows_, [(rows_, 0)], places, body, codec=ZSTD)
    return stream(schema_of([t.Field("ARROW:row_count:exact", t.int64, nullable=False)]), batch * 1000)


def statistics_of_shared_views():
    """The least and greatest of a hundred batches are the same 50 MiB."""
    leaf = t.field(
        "a",
        t.Struct(
            (
                t.Field("ARROW:null_count:exact", t.int64),
                t.Field("ARROW:min_value:exact", t.utf8_view),
                t.Field("ARROW:min_value:approximate", t.utf8_view),
                t.Field("ARROW:max_value:exact", t.utf8_view),
                t.Field("ARROW:max_value:approximate", t.utf8_view),
            )
        ),
        custom_metadata={"spark_arrow_ipc.path": '["a"]'},
    )
    raw = [longs(-1) + data for data in (bytes(800), longs(*[1] * 100), struct.pack("<iiii", 50 * MIB, 0, 0, 0) * 100)]
    zeros, ones, views = raw
    empty = longs(-1) + bytes(1600)
    long_text = zstd_zeros(50 * MIB)
    buffers = [b"", ones, b"", b"", zeros, b"", views, long_text, b"", empty, b"", views, longs(-1) + b"x", b"", empty]
    places, body = body_of(*buffers)
    nodes = [(100, 0)] * 7
    batch = record_batch(100, nodes, places, body, codec=ZSTD, variadic=[1, 0, 1, 0])
    return stream(schema_of([t.Field("ARROW:row_count:exact", t.int64), leaf]), batch)


BOMBS = {
    "nulls": Bomb("2^31 - 1 rows of nulls", of_bytes(nulls)),
    "runs": Bomb("2^31 - 1 rows of one run", of_bytes(runs)),
    "list-run": Bomb("a list over one run of 2^31 - 1 values", of_bytes(list_over_a_run)),
    "list-null": Bomb("a list of 2^31 - 1 nulls", of_bytes(list_of_nulls)),
    "list-empty": Bomb("a list of 2^31 - 1 fixed-size lists of width 0", of_bytes(list_of_empty_lists)),
    "list-struct": Bomb("a list of 2^31 - 1 structs without fields", of_bytes(list_of_empty_structs)),
    "wide-list": Bomb("a fixed-size list of 2^31 - 1 nulls", of_bytes(one_list_of_many_nulls)),
    "dict-null": Bomb("a dictionary of 2^31 - 1 nulls", of_bytes(dictionary_of_nulls)),
    "views-4": Bomb("list-views of list-views, 4 levels, sharing elements: 10^8 values", of_bytes(list_views(4))),
    "views-12": Bomb("the same in 12 levels: 10^24 values", of_bytes(list_views(12))),
    "list-text": Bomb("a list of a million times the same text of 1 MiB", of_bytes(lists_of_one_dictionary_value)),
    "views-text": Bomb("a million views of the same 64 MiB", of_bytes(views_of_one_buffer), large=True),
    "dict-text": Bomb("a million indices of the same 64 MiB", of_bytes(lambda: one_dictionary_value(64 * MIB)), large=True),
    "run-text": Bomb("a million rows of one run of 64 MiB", of_bytes(lambda: one_run_of_a_text(64 * MIB)), large=True),
    "views-list": Bomb("a million list-views of the same million values", of_bytes(list_views_of_one_list), large=True),
    "joined-bits": Bomb("a validity bitmap of 2^31 - 1 slots that only joining makes", of_bytes(bitmaps_that_joining_makes)),
    "zstd-1.9g": Bomb("a zstd frame of 1.9 GB of zeros", of_bytes(compressed_column(lambda: zstd_zeros(1900 * MIB), ZSTD, 1900 * MIB)), large=True),
    "zstd-200m": Bomb("a zstd frame of 200 MB of zeros", of_bytes(compressed_column(lambda: zstd_zeros(200 * MIB), ZSTD, 200 * MIB))),
    "zstd-claim": Bomb("an empty zstd frame that claims 1.9 GB", of_bytes(compressed_column(frame_that_claims, ZSTD, 1900 * MIB))),
    "lz4-1.9g": Bomb("an LZ4 frame of 1.9 GB of zeros", of_bytes(compressed_column(lambda: lz4_zeros(1900 * MIB), LZ4, 1900 * MIB)), large=True),
    "lz4-claim": Bomb("an LZ4 frame of 1 MiB that claims 1.9 GB", of_bytes(compressed_column(lz4_that_claims, LZ4, 1900 * MIB))),
    "zstd-two": Bomb("two zstd frames in one buffer", of_bytes(compressed_column(frames("frame", "frame"), ZSTD, 2000))),
    "zstd-skip": Bomb("a zstd frame between skippable frames", of_bytes(compressed_column(frames("skippable", "frame", "skippable"), ZSTD, 1000))),
    "zstd-frames": Bomb("8 million empty zstd frames in a buffer", of_bytes(compressed_column(lambda: longs(0) + zstandard.ZstdCompressor().compress(b"") * (8 * MIB), ZSTD, 0))),
    "swapped": Bomb("100 big-endian columns that share 64 MiB", of_bytes(swapped_columns), large=True),
    "deep": Bomb("a list in a list, 10,000 levels", of_bytes(lambda: nested_lists(10_000))),
    "metadata": Bomb("a message with 1 GB of metadata (a hole)", sparse_metadata),
    "footer": Bomb("a footer of 1 GB (a hole)", sparse_footer),
    "columns": Bomb("a million columns that are one field in 4 MB", of_bytes(many_columns), large=True),
    "buffers": Bomb("8 million buffers of one view", of_bytes(many_view_buffers), large=True),
    "blocks": Bomb("a footer of 10 million blocks that share bytes (240 MB)", many_blocks, large=True),
    "blocks-apart": Bomb("1.5 million empty record batches (300 MB)", blocks_apart, large=True),
    "dicts": Bomb("100 dictionaries of 64 MiB in zstd", of_bytes(many_dictionaries), large=True),
    "deltas": Bomb("10,000 deltas on a dictionary of 100 MiB", of_bytes(many_deltas(used=False)), large=True),
    "deltas-used": Bomb("the same, with 10 record batches between them", of_bytes(many_deltas(used=True)), large=True),
    "stats-many": Bomb("statistics of a thousand batches of 56 MiB in zstd", with_statistics(statistics_of_many_batches)),
    "stats-views": Bomb("statistics of 200 views of the same 50 MiB", with_statistics(statistics_of_shared_views)),
}  # fmt: skip
"""By short name."""
