"""Damaged files: only an `ArrowIpcError` or a sound decode, soon, and in little memory.

Whatever a byte is changed to and wherever a file ends: opening it, reading all batches and converting them to Python
values must not raise anything else (no MemoryError, RecursionError, struct.error, IndexError, UnicodeDecodeError).
"""

import gc
import io
import os
import struct
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import flatbuffers
import numpy as np
import pytest
import strategies
from raw_messages import dictionary_batch, message, record_batch, rows, schema, schema_values

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import Field, RecordBatch, Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import (
    ArrowIpcError,
    InvalidArrowError,
    InvalidBodyError,
    InvalidDictionaryError,
    InvalidMetadataError,
    LimitError,
    UnsupportedError,
)
from spark_arrow_ipc.ipc.flatbuf import builder, reader, tables
from spark_arrow_ipc.ipc.messages import message as framing

DATA = Path(__file__).parents[1] / "data"
SEED = 20_240_229
MOST_SECONDS = 5.0
MOST_SLOTS = 100_000
"""Slots of types without bytes cost nothing to claim; their Python values do."""
MOST_MEMORY = 1 << 30
MUTATIONS = 3_000
TRUNCATED_MOST = 2_500
"""Files up to this many bytes are cut at every byte, longer ones at every 29th, so that every place inside a word comes up."""

SMALL = [
    "integers.arrow", "integers.zstd.arrows", "integers.v4.legacy.arrows", "texts.arrow", "texts.lz4.arrow", "lists.arrow",
    "structs.arrows", "unions.arrow", "unions.v4.arrows", "dictionaries.arrow", "dictionaries.arrows", "run_ends.arrow",
    "metadata.arrow", "zero_columns.arrow", "nulls.arrows", "temporal.arrow", "decimals.lz4.arrow", "extensions.arrow",
]  # fmt: skip
"""Files of tests/data that have every type and encoding between them."""


def _every_type(options):
    """Return a file with a column of every type class, three batches that share dictionaries."""
    rng = np.random.default_rng(SEED)
    item = t.Field("item", t.int16)
    types = (
        t.null, t.bool_, t.uint8, t.float16, t.Decimal(50, 3, 256), t.date64, t.Time(t.TimeUnit.SECOND, 32),
        t.Timestamp(t.TimeUnit.NANOSECOND, "Europe/Berlin"), t.Duration(t.TimeUnit.MICROSECOND), t.IntervalYearMonth(),
        t.IntervalDayTime(), t.IntervalMonthDayNano(), t.FixedSizeBinary(3), t.binary, t.large_binary, t.binary_view,
        t.utf8, t.large_utf8, t.utf8_view, t.List(item), t.LargeList(item), t.ListView(item), t.LargeListView(item),
        t.FixedSizeList(item, 2), t.struct([("a", t.int8), ("b", t.utf8)]), t.map_(t.utf8, t.int32),
        t.SparseUnion((item, t.Field("s", t.utf8)), (5, 7)), t.DenseUnion((item, t.Field("s", t.utf8)), (5, 7)),
        t.run_end_encoded(t.int32, t.utf8), t.dictionary(t.int8, t.struct([("d", t.dictionary(t.uint8, t.utf8))])),
    )  # fmt: skip
    schema = Schema(tuple(Field(f"f{i}", type_) for i, type_ in enumerate(types)), (("key", "value"),))
    columns = tuple(strategies.random_array(rng, type_, 12) for type_ in types)
    batch = RecordBatch(schema, columns, 12)
    sink = io.BytesIO()
    ipc.write(sink, strategies.portions(batch, [5, 9]), None, options)
    return sink.getvalue()


CONTENTS = {name: (DATA / name).read_bytes() for name in SMALL} | {
    f"every_type.{form}.{codec}": _every_type(ipc.WriteOptions(format=form, compression=codec, alignment=8))
    for form, codec in (("file", None), ("stream", None), ("file", "zstd"), ("stream", "lz4"))
}
NAMES = list(CONTENTS)
FILES = [name for name in NAMES if CONTENTS[name].startswith(b"ARROW1")]
STREAMS = [name for name in NAMES if name not in FILES]


def most_slots(array):
    return max([array.length, *map(most_slots, array.children)])


def read_all(content, **options):
    """Read a file to Python values; return whether it was sound. Other errors leave."""
    try:
        with ipc.open(content, **options) as opened:
            for batch in opened:
                if max(map(most_slots, batch.columns), default=batch.num_rows) <= MOST_SLOTS:
                    batch.to_pylist()
    except ArrowIpcError:
        return False
    return True


def is_sound(content, what, **options):
    """Return whether a file was read to its end; that it was, or was refused, soon and by the right error, is asserted."""
    start = time.process_time()
    try:
        sound = read_all(content, **options)
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
    took = time.process_time() - start
    assert took < MOST_SECONDS, f"{what}: {took:.1f} s"
    return sound


def cuts(content):
    return range(0, len(content), 1 if len(content) <= TRUNCATED_MOST else 29)


def mutations(content, name, count):
    """Yield (what, damaged) for a sample of single bytes, always the same ones."""
    rng = np.random.default_rng([SEED, NAMES.index(name)])
    for _ in range(count):
        at = int(rng.integers(len(content)))
        old = content[at]
        new = (
            int(rng.integers(256)),
            old ^ (1 << int(rng.integers(8))),
            *(n & 0xFF for n in (old + 1, old - 1, 0, 0x7F, 0x80, 0xFF)),
        )
        value = new[int(rng.integers(len(new)))]
        yield f"{name}: byte {at} from {old} to {value}", content[:at] + bytes([value]) + content[at + 1 :]


@pytest.mark.parametrize("name", NAMES)
def test_undamaged_file_is_sound(name):
    assert read_all(CONTENTS[name])


@pytest.mark.no_cover
@pytest.mark.parametrize("name", FILES)
def test_file_that_ends_early_is_refused(name):
    content = CONTENTS[name]
    assert [] == [end for end in cuts(content) if is_sound(content[:end], f"{name} cut at {end}")]


def message_ends(content):
    """Return the places where a stream may end: after the schema and after each other message."""
    ends, at = set(), 0
    while at < len(content):
        prefix = framing.decode_prefix(memoryview(content)[at : at + 8], at)
        at += prefix.nbytes + prefix.flatbuffer_nbytes
        if prefix.flatbuffer_nbytes:
            flatbuffer = memoryview(content)[at - prefix.flatbuffer_nbytes : at]
            at += int(reader.root(flatbuffer, tables.MESSAGE).scalar("bodyLength"))
        ends.add(at)
    return ends


@pytest.mark.slow
@pytest.mark.one_in(8, "exhaustive")
@pytest.mark.no_cover
@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("columns", [None, [0]])
def test_stream_ends_between_messages_or_is_refused(name, columns):
    """Whichever columns are read: bytes that are not needed must be there too, else later batches are missing."""
    content = CONTENTS[name]
    sound = {end for end in cuts(content) if is_sound(content[:end], f"{name} cut at {end}", columns=columns)}
    assert message_ends(content) & set(cuts(content)) == sound


@pytest.mark.slow
@pytest.mark.one_in(8, "exhaustive")
@pytest.mark.no_cover
@pytest.mark.parametrize("validation", ["full", "structural"])
@pytest.mark.parametrize("name", NAMES)
def test_single_wrong_byte_is_refused_or_decoded(name, validation):
    for what, damaged in mutations(CONTENTS[name], name, MUTATIONS // len(NAMES) // 2 + 1):
        is_sound(damaged, what, validation=validation)


@pytest.mark.slow
def test_damaged_files_take_little_memory():
    """One pass with one GiB of address space, where even a large allocation that is never touched fails."""
    script = (
        "import resource, sys\n"
        f"resource.setrlimit(resource.RLIMIT_AS, ({MOST_MEMORY}, {MOST_MEMORY}))\n"
        f"sys.path[:0] = {[str(Path(__file__).parent), *sys.path]!r}\n"
        "import test_damage as own\n"
        "for name, content in own.CONTENTS.items():\n"
        "    for what, damaged in own.mutations(content, name, 50):\n"
        "        own.is_sound(damaged, what)\n"
        "for name, (content, _) in own.HOSTILE.items():\n"
        "    own.is_sound(content, name)\n"
    )
    # Threads of numpy's linear algebra reserve address space for nothing.
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert (0, "") == (answer.returncode, answer.stderr)


# ---- files that somebody made to do harm


def children_of_an_int():
    nested = t.list_(t.dictionary(t.int8, t.utf8))
    values = schema_values([t.Field("a", nested), t.Field("b", t.dictionary(t.int8, t.utf8))], (7, 8))
    values["fields"][0]["type"] = (tables.INT, {"bitWidth": 8, "is_signed": True})
    return message({"header": (tables.SCHEMA, values)})


def dictionary_inside_itself():
    type_ = t.dictionary(t.int8, t.struct([("d", t.dictionary(t.int8, t.utf8))]))
    batches = [
        dictionary_batch(1, [(1, 0), (1, 1)], [(0, 0), (0, 8), (8, 8)], bytes(16)),
        dictionary_batch(1, [(1, 0), (1, 0)], [(0, 0), (0, 0), (0, 8)], bytes(8)),
        record_batch(1, [(1, 0)], [(0, 0), (0, 8)], bytes(8)),
    ]
    return schema(type_, (0, 0)) + b"".join(batches)


def deltas_beyond_their_type():
    body = struct.pack("<h6xii", 30_000, 0, 0)
    part = (30_000, [(30_000, 0), (1, 0), (1, 0)], [(0, 0), (0, 8), (0, 0), (8, 8), (0, 0)], body)
    deltas = dictionary_batch(*part) + dictionary_batch(*part, is_delta=True)
    return schema(t.dictionary(t.int32, t.run_end_encoded(t.int16, t.utf8)), (0,)) + deltas


HUGE = 2**62
MANY = 2**31 - 1
RUNS = t.run_end_encoded(t.int64, t.int8)
HOSTILE = {
    "nulls without end": (schema(t.null) + record_batch(HUGE, [(HUGE, HUGE)]), LimitError),
    "binaries of no bytes": (schema(t.FixedSizeBinary(0)) + record_batch(HUGE, [(HUGE, 0)], [(0, 0)] * 2), LimitError),
    "structs of nothing": (schema(t.struct([])) + record_batch(HUGE, [(HUGE, 0)], [(0, 0)]), LimitError),
    "rows of no columns": (message({"header": (tables.SCHEMA, schema_values([]))}) + record_batch(HUGE, []), LimitError),
    "one endless run": (
        schema(RUNS) + record_batch(
            HUGE, [(HUGE, 0), (1, 0), (1, 0)], [(0, 0), (0, 8), (0, 0), (8, 8)], struct.pack("<qq", HUGE, 7)
        ),
        LimitError,
    ),
    "a child longer than any": (
        schema(t.LargeList(t.Field("item", t.null))) + record_batch(
            1, [(1, 0), (HUGE, HUGE)], [(0, 0), (0, 16)], struct.pack("<qq", 0, HUGE)
        ),
        LimitError,
    ),
    "a map of nothing but null keys": (
        schema(t.map_(t.null, t.null)) + record_batch(
            1, [(1, 0), (MANY, 0), (MANY, MANY), (MANY, MANY)], [(0, 0), (0, 8), (0, 0)], struct.pack("<ii", 0, MANY)
        ),
        InvalidBodyError,
    ),
    "a list whose offsets wrap": (
        schema(t.list_(t.int8)) + record_batch(
            2, [(2, 0), (8, 0)], [(0, 0), (0, 16), (0, 0), (16, 8)], struct.pack("<iii4x8x", 0, 2**31 - 1, -(2**31))
        ),
        InvalidBodyError,
    ),
    "a list-view whose sum wraps": (
        schema(t.LargeListView(t.Field("item", t.int8))) + record_batch(
            1, [(1, 0), (8, 0)], [(0, 0), (0, 8), (8, 8), (0, 0), (16, 8)], struct.pack("<qq8x", 2**63 - 1, 2)
        ),
        InvalidBodyError,
    ),
    "a schema with a body": (schema(t.int8, bodyLength=1 << 20), InvalidMetadataError),
    "children of an integer": (children_of_an_int(), InvalidMetadataError),
    "a dictionary inside itself": (dictionary_inside_itself(), InvalidDictionaryError),
    "deltas beyond their type": (deltas_beyond_their_type(), UnsupportedError),
    "a delta first": (
        schema(t.dictionary(t.int8, t.int8), (0,)) + dictionary_batch(1, [(1, 0)], [(0, 0), (0, 8)], bytes(8), is_delta=True),
        InvalidDictionaryError,
    ),
    "a negative body": (schema(t.int8) + message({"header": (tables.RECORD_BATCH, rows(0, [], [])), "bodyLength": -8}), InvalidMetadataError),
    "a body beyond the end": (
        schema(t.int8) + message({"header": (tables.RECORD_BATCH, rows(0, [(0, 0)], [(0, 0)] * 2)), "bodyLength": 1 << 40}),
        LimitError,
    ),
    "a buffer around the corner": (
        schema(t.int8) + record_batch(1, [(1, 0)], [(0, 0), (2**63 - 8, 16)], bytes(16)), InvalidBodyError
    ),
}  # fmt: skip
"""Small streams that claim much or contradict themselves, and what they are refused with."""


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_stream_is_refused(name):
    content, error = HOSTILE[name]
    with pytest.raises(error), ipc.open(content) as opened:
        list(opened)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_stream_does_no_harm_without_full_validation(name):
    is_sound(HOSTILE[name][0], name, validation="structural")


def shared_name(nbytes, count):
    """Return a schema message of `count` references to one field, whose name is long."""
    made = flatbuffers.Builder()
    name = made.CreateString("x" * nbytes)
    made.StartObject(0)
    null = made.EndObject()
    made.StartObject(7)
    made.PrependUOffsetTRelativeSlot(0, name, 0)
    made.PrependUint8Slot(2, 1, 0)
    made.PrependUOffsetTRelativeSlot(3, null, 0)
    field = made.EndObject()
    made.StartVector(4, count, 4)
    for _ in range(count):
        made.PrependUOffsetTRelative(field)
    fields = made.EndVector()
    made.StartObject(4)
    made.PrependUOffsetTRelativeSlot(1, fields, 0)
    own = made.EndObject()
    made.StartObject(5)
    made.PrependInt16Slot(0, 4, 0)
    made.PrependUint8Slot(1, 1, 0)
    made.PrependUOffsetTRelativeSlot(2, own, 0)
    made.Finish(made.EndObject())
    content = bytes(made.Output())
    content += bytes(-len(content) % 8)
    return b"\xff\xff\xff\xff" + struct.pack("<i", len(content)) + content


LONG = 100_000
AMPLIFIERS = {
    "one long name that many fields share": shared_name(LONG, 3_000),
    "a long name above many fields": message(
        {
            "header": (
                tables.SCHEMA,
                schema_values([t.Field("x" * LONG, t.struct([(f"{i}", t.null) for i in range(3_000)]))]),
            )
        }
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", AMPLIFIERS)
def test_metadata_takes_memory_in_proportion_to_its_bytes(name):
    """Copied for each field, these names would be 300 MB."""
    content = AMPLIFIERS[name]
    tracemalloc.start()
    try:
        with ipc.open(content) as opened:
            assert opened.schema.fields
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100 * len(content)


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts open files in /proc")
def test_an_unclosed_file_is_closed_when_it_is_collected():
    before = open_files()
    for _ in range(20):
        ipc.open(DATA / "integers.arrow")
    gc.collect()
    assert before >= open_files()


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts open files in /proc")
@pytest.mark.parametrize("name", ["text.arrow", "footer_noise.arrow", "cut_in_schema.arrows"])
def test_file_that_is_refused_is_closed(name):
    before = open_files()
    for _ in range(20):
        with pytest.raises(ArrowIpcError):
            ipc.open(DATA / name)
    assert before == open_files()


# ---- a footer whose blocks are not where the messages are (CODEC_CHECKS, row 5)


def with_blocks(content, change):
    """Return a file whose footer names other record batch blocks: `change` gets and gives an int64 array of (n, 3)."""
    with ipc.open_file(content) as file:
        fields = schema_values(file.schema.fields)
        blocks = np.array([(b.byte_offset, b.metadata_nbytes, b.body_nbytes) for b in file.blocks], np.int64)
    nbytes = struct.unpack("<i", content[-10:-6])[0]
    footer = builder.build(tables.FOOTER, {"version": 4, "schema": fields, "recordBatches": change(blocks)})
    return content[: -10 - nbytes] + footer + struct.pack("<i", len(footer)) + b"ARROW1"


def three_batches():
    sink = io.BytesIO()
    kind = Schema((t.Field("a", t.int32),))
    ipc.write(sink, [RecordBatch.from_pydict({"a": [i, i + 1]}, kind) for i in range(3)], kind)
    return sink.getvalue()


def shifted(column, by):
    return lambda blocks: blocks + np.eye(3, dtype=np.int64)[column] * by


BLOCKS = {
    "a byte offset too low": shifted(0, -8),
    "a byte offset too high": shifted(0, 8),
    "metadata too short": shifted(1, -8),
    "metadata too long": shifted(1, 8),
    "a body too short": shifted(2, -8),
    "a body too long": shifted(2, 8),
    "one block twice": lambda blocks: blocks[[0, 1, 1]],
    "one block a thousand times": lambda blocks: blocks[[0] * 1000],
    "a block inside another": lambda blocks: np.array([blocks[0], blocks[0] + (64, 0, -64)]),
    "a block in the footer": lambda blocks: np.array([*blocks, blocks[-1] + (blocks[-1][1:].sum(), 0, 0)]),
    "a block below zero": shifted(0, -(1 << 40)),
    "a sum beyond int64": lambda blocks: np.add(blocks, (0, 0, (1 << 63) - 1024)),
}


def test_the_file_with_its_own_blocks_is_sound():
    assert read_all(with_blocks(three_batches(), lambda blocks: blocks))


def test_blocks_in_another_order_are_read_in_that_order():
    with ipc.open_file(with_blocks(three_batches(), lambda blocks: blocks[::-1])) as file:
        assert [[2, 3], [1, 2], [0, 1]] == [batch.columns[0].to_pylist() for batch in file]


@pytest.mark.parametrize("name", BLOCKS)
def test_block_that_is_not_where_its_message_is_is_refused(name):
    with pytest.raises(InvalidArrowError), ipc.open_file(with_blocks(three_batches(), BLOCKS[name])) as file:
        list(file)
