"""Hypothesis strategies for types, fields, schemas, arrays and record batches of every type class.

Hypothesis draws (and shrinks) the structure: types, lengths, offsets. The contents come from a numpy generator
seeded by one drawn number: drawing each value by itself would cost a hundred times more and shows nothing.

`random_array` does not go through `arrow.build`: it lays out buffers as other writers might, with bytes under null
slots, value offsets that do not begin at 0, list-views that overlap, unused dictionary values, children with slots
that nobody refers to. `HYPOTHESIS_PROFILE` chooses how many examples are tried: dev (default), ci, long.
"""

from __future__ import annotations

import os
import string
from itertools import pairwise

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from spark_arrow_ipc.arrow import Array, RecordBatch, Schema, array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array_data import NOT_COUNTED, VIEW

_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}
settings.register_profile("dev", max_examples=10, **_COMMON)
settings.register_profile("ci", max_examples=50, derandomize=True, **_COMMON)
settings.register_profile("long", max_examples=1000, **_COMMON)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev")
settings.load_profile(PROFILE)

MOST_SLOTS = 40
DEPTH = 3
ZONES = (None, "UTC", "Europe/Berlin", "+05:30", "Nowhere/Land")
WORDS = ("", "a", "grün", "twelve bytes", "thirteen byte", "日本語のテキストです", "🏹", "x" * 40, "\x00", "\x7f")
INDEX_TYPES = (t.int8, t.int16, t.int32, t.int64, t.uint8, t.uint16, t.uint32, t.uint64)

# ---- types

LEAVES = {
    t.Null: st.just(t.null),
    t.Bool: st.just(t.bool_),
    t.Int: st.sampled_from(INDEX_TYPES),
    t.FloatingPoint: st.sampled_from((t.float16, t.float32, t.float64)),
    t.Decimal: st.one_of(
        st.builds(t.Decimal, st.integers(1, 9), st.integers(-3, 12), st.just(32)),
        st.builds(t.Decimal, st.integers(1, 18), st.integers(-3, 20), st.just(64)),
        st.builds(t.Decimal, st.integers(1, 38), st.integers(-3, 40), st.just(128)),
        st.builds(t.Decimal, st.integers(1, 76), st.integers(-3, 80), st.just(256)),
    ),
    t.Date: st.sampled_from((t.date32, t.date64)),
    t.Time: st.sampled_from([t.Time(unit, 32 if unit <= t.TimeUnit.MILLISECOND else 64) for unit in t.TimeUnit]),
    t.Timestamp: st.builds(t.Timestamp, st.sampled_from(t.TimeUnit), st.sampled_from(ZONES)),
    t.Duration: st.builds(t.Duration, st.sampled_from(t.TimeUnit)),
    t.IntervalYearMonth: st.just(t.IntervalYearMonth()),
    t.IntervalDayTime: st.just(t.IntervalDayTime()),
    t.IntervalMonthDayNano: st.just(t.IntervalMonthDayNano()),
    t.FixedSizeBinary: st.builds(t.FixedSizeBinary, st.sampled_from((0, 1, 3, 16))),
    t.Binary: st.just(t.binary),
    t.LargeBinary: st.just(t.large_binary),
    t.BinaryView: st.just(t.binary_view),
    t.Utf8: st.just(t.utf8),
    t.LargeUtf8: st.just(t.large_utf8),
    t.Utf8View: st.just(t.utf8_view),
}
"""By type class: the types without children."""

names = st.text(string.ascii_lowercase + "Ä🏹 .#`", max_size=3)
custom_metadata = st.lists(st.tuples(st.text(max_size=4), st.text(max_size=4)), max_size=2).map(tuple)


def fields(depth: int, only=None, named=names):
    return st.builds(t.Field, named, types(depth, only), st.booleans(), custom_metadata)


@st.composite
def _unions(draw, cls, depth, only):
    members = tuple(draw(st.lists(fields(depth, only), min_size=1, max_size=3)))
    ids = draw(st.lists(st.integers(0, 127), min_size=len(members), max_size=len(members), unique=True))
    return cls(members, tuple(ids))


def _no_dictionary(type_):
    return not isinstance(type_, t.Dictionary)


def _structs(depth, only):
    # Unique names: of fields that share one, `to_pylist` can show only the last.
    return st.lists(fields(depth, only), max_size=3, unique_by=lambda field: field.name).map(
        lambda f: t.Struct(tuple(f))
    )


@st.composite
def _maps(draw, depth, only):
    # A key behind runs, indices or a type id may not be null either, so there is no null type in it at all.
    key = draw(types(depth, only).filter(lambda type_: not holds(type_, t.Null)))
    entries = t.Struct((t.Field("key", key, nullable=False), draw(fields(depth, only, st.just("value")))))
    return t.Map(t.Field("entries", entries, nullable=False), draw(st.booleans()))


NESTED = {
    t.List: lambda depth, only: st.builds(t.List, fields(depth, only)),
    t.LargeList: lambda depth, only: st.builds(t.LargeList, fields(depth, only)),
    t.ListView: lambda depth, only: st.builds(t.ListView, fields(depth, only)),
    t.LargeListView: lambda depth, only: st.builds(t.LargeListView, fields(depth, only)),
    t.FixedSizeList: lambda depth, only: st.builds(t.FixedSizeList, fields(depth, only), st.sampled_from((0, 1, 3))),
    t.Struct: _structs,
    t.Map: _maps,
    t.SparseUnion: lambda depth, only: _unions(t.SparseUnion, depth, only),
    t.DenseUnion: lambda depth, only: _unions(t.DenseUnion, depth, only),
    t.RunEndEncoded: lambda depth, only: st.builds(
        t.run_end_encoded, st.sampled_from((t.int16, t.int32, t.int64)), types(depth, only)
    ),
    t.Dictionary: lambda depth, only: st.builds(
        t.Dictionary, st.sampled_from(INDEX_TYPES), types(depth, only).filter(_no_dictionary), st.booleans()
    ),
}
"""By type class: from the depth that is left and the classes allowed to types of types."""

EVERY_CLASS = (*LEAVES, *NESTED)


def types(depth: int = DEPTH, only=None):
    """Types up to `depth` levels, of the classes in `only` (default: all)."""
    leaves = [strategy for cls, strategy in LEAVES.items() if only is None or cls in only]
    nested = [make for cls, make in NESTED.items() if only is None or cls in only]
    plain = st.one_of(leaves)
    if depth <= 1 or not nested:
        return plain
    return st.one_of(plain, *(st.deferred(lambda make=make: make(depth - 1, only)) for make in nested))


def types_of(cls, depth: int = DEPTH):
    """Types of one class, their children of any."""
    return LEAVES[cls] if cls in LEAVES else NESTED[cls](depth - 1, None)


def holds(type_: t.DataType, *classes) -> bool:
    """Return whether a type is, or is made of, one of some classes."""
    below = [field.type for field in type_.children]
    if isinstance(type_, t.Dictionary):
        below = [type_.value]
    return isinstance(type_, classes) or any(holds(child, *classes) for child in below)


# ---- arrays, straight into buffers


def random_array(rng, type_: t.DataType, length: int, *, nulls: bool = True) -> Array:
    """Return an array of so many slots, at any offset, laid out as the format allows and not only as we write it."""
    before = int(rng.integers(0, 10)) if rng.random() < 0.25 else 0
    behind = int(rng.integers(0, 4)) if rng.random() < 0.25 else 0
    whole = ARRAYS[type(type_)](rng, type_, before + length + behind, nulls)
    return whole.slice(before, length)


def _bytes(values) -> memoryview:
    return memoryview(np.ascontiguousarray(values).tobytes())


def _valid(rng, length, nulls):
    """Return the slots that are valid, the bitmap and the null count: without nulls with a bitmap or without."""
    share = rng.choice([0.0, 0.3, 1.0], p=[0.4, 0.5, 0.1]) if nulls else 0.0
    valid = rng.random(length) >= share
    count = length - int(valid.sum())
    packed = None
    if count or rng.random() < 0.2:
        packed = memoryview(bytes(array_data.pack_bits(valid)) + bytes(int(rng.integers(0, 3))))
    return valid, packed, count if rng.random() < 0.8 else NOT_COUNTED


def _plain(values_of):
    def make(rng, type_, length, nulls):
        _, validity, count = _valid(rng, length, nulls)
        return Array(type_, length, count, (validity, _bytes(values_of(rng, type_, length))))

    return make


def _integers(rng, length, dtype, low=None, high=None):
    info = np.iinfo(dtype)
    low, high = info.min if low is None else low, info.max if high is None else high
    values = rng.integers(low, high, length, dtype, endpoint=True)
    small = rng.integers(max(low, -3), min(high, 3), length, dtype, endpoint=True)
    return np.where(rng.random(length) < 0.3, small, values)


def _ints(rng, type_, length):
    return _integers(rng, length, np.dtype(f"{'i' if type_.signed else 'u'}{type_.bit_width // 8}"))


def _floats(rng, type_, length):
    special = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.5])
    drawn = np.where(rng.random(length) < 0.4, rng.choice(special, length), rng.normal(size=length) * 100)
    return drawn.astype(f"f{type_.bit_width // 8}")


def _decimals(rng, type_, length):
    digits = rng.integers(1, type_.precision + 1, length)
    numbers = [int.from_bytes(rng.bytes(40)) % 10 ** int(n) * int(rng.choice([-1, 1])) for n in digits]
    width = type_.bit_width // 8
    return np.frombuffer(b"".join(n.to_bytes(width, "little", signed=True) for n in numbers), np.uint8)


def _dates(rng, type_, length):
    if type_ == t.date32:
        return _integers(rng, length, np.int32)
    return _integers(rng, length, np.int64, -800_000, 3_000_000) * 86_400_000


def _times(rng, type_, length):
    return _integers(rng, length, np.dtype(f"i{type_.bit_width // 8}"), 0, 86_400 * type_.unit.per_second - 1)


def _instants(rng, type_, length):
    per_second = type_.unit.per_second
    usual = _integers(rng, length, np.int64, -(2**33), 2**33)
    usual = np.where(np.abs(usual) < 2**62 // per_second, usual, 0) * per_second
    return np.where(rng.random(length) < 0.2, _integers(rng, length, np.int64), usual)


def _words(count, bit_width):
    return lambda rng, _, length: _integers(rng, count * length, np.dtype(f"i{bit_width // 8}"))


def _month_day_nano(rng, _, length):
    return rng.integers(0, 256, 16 * length, np.uint8)


def _null(rng, type_, length, nulls):
    return Array(type_, length, length, ())


def _bool(rng, type_, length, nulls):
    _, validity, count = _valid(rng, length, nulls)
    return Array(type_, length, count, (validity, memoryview(rng.bytes((length + 7) // 8))))


def _texts(rng, type_, length, valid):
    """Return bytes for each slot: text for text types, but anything under nulls."""
    is_text = isinstance(type_, t.Utf8 | t.LargeUtf8 | t.Utf8View)
    texts = [rng.choice(WORDS).encode() for _ in range(length)]
    others = [rng.bytes(int(rng.integers(0, 20))) for _ in range(length)]
    return [text if is_text and ok else other for text, other, ok in zip(texts, others, valid, strict=True)]


def _offsets(rng, sizes, bit_width):
    """Return value offsets, which begin anywhere, and how much lies before and behind what they refer to."""
    first, behind = (int(rng.integers(0, 5)) if rng.random() < 0.3 else 0 for _ in range(2))
    ends = first + np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    dtype = np.dtype(f"i{bit_width // 8}")
    if len(sizes) == 0 and rng.random() < 0.5:
        return memoryview(b""), first + behind, 0
    return _bytes(ends.astype(dtype)), int(ends[-1]) + behind, first


def _binary(bit_width):
    def make(rng, type_, length, nulls):
        valid, validity, count = _valid(rng, length, nulls)
        texts = _texts(rng, type_, length, valid)
        offsets, nbytes, first = _offsets(rng, [len(text) for text in texts], bit_width)
        data = (b"\xff" * first + b"".join(texts)).ljust(nbytes, b"\xfe")
        return Array(type_, length, count, (validity, offsets, memoryview(data)))

    return make


def _views(rng, type_, length, nulls):
    valid, validity, count = _valid(rng, length, nulls)
    texts = _texts(rng, type_, length, valid)
    buffers = [bytearray(b"\xff" * int(rng.integers(0, 3))) for _ in range(int(rng.integers(1, 4)))]
    views = bytearray()
    for text, ok in zip(texts, valid, strict=True):
        if not ok and rng.random() < 0.5:
            views += rng.bytes(16)  # a null slot may hold anything
            continue
        views += len(text).to_bytes(4, "little")
        if len(text) <= 12:
            views += text.ljust(12, b"\0")
            continue
        number = int(rng.integers(len(buffers)))
        at = buffers[number].find(text) if rng.random() < 0.5 else -1
        if at < 0:
            at = len(buffers[number])
            buffers[number] += text
        views += text[:4] + number.to_bytes(4, "little") + at.to_bytes(4, "little")
    if length and not any(_is_long(views)) and rng.random() < 0.5:
        buffers = []
    return Array(type_, length, count, (validity, memoryview(bytes(views)), *(memoryview(bytes(b)) for b in buffers)))


def _is_long(views):
    return np.frombuffer(views, VIEW)["size"] > 12


def _sizes(rng, valid):
    sizes = rng.integers(0, 4, len(valid))
    return np.where(valid | (rng.random(len(valid)) < 0.5), sizes, 0)


def _list(bit_width):
    def make(rng, type_, length, nulls):
        valid, validity, count = _valid(rng, length, nulls)
        offsets, slots, _ = _offsets(rng, _sizes(rng, valid), bit_width)
        child = random_array(rng, type_.value.type, slots, nulls=type_.value.nullable)
        return Array(type_, length, count, (validity, offsets), (child,))

    return make


def _map(rng, type_, length, nulls):
    valid, validity, count = _valid(rng, length, nulls)
    offsets, slots, _ = _offsets(rng, _sizes(rng, valid), 32)
    keys = random_array(rng, type_.key.type, slots, nulls=False)
    items = random_array(rng, type_.item.type, slots, nulls=type_.item.nullable)
    entries = Array(type_.entries.type, slots, 0, (None,), (keys, items))
    return Array(type_, length, count, (validity, offsets), (entries,))


def _list_view(bit_width):
    def make(rng, type_, length, nulls):
        _, validity, count = _valid(rng, length, nulls)
        slots = int(rng.integers(0, 2 * length + 2))
        starts = rng.integers(0, slots + 1, length)
        sizes = np.minimum(rng.integers(0, 4, length), slots - starts)
        dtype = np.dtype(f"i{bit_width // 8}")
        child = random_array(rng, type_.value.type, slots, nulls=type_.value.nullable)
        return Array(
            type_, length, count, (validity, _bytes(starts.astype(dtype)), _bytes(sizes.astype(dtype))), (child,)
        )

    return make


def _fixed_size_list(rng, type_, length, nulls):
    _, validity, count = _valid(rng, length, nulls)
    child = random_array(rng, type_.value.type, length * type_.list_size, nulls=type_.value.nullable)
    return Array(type_, length, count, (validity,), (child,))


def _struct(rng, type_, length, nulls):
    _, validity, count = _valid(rng, length, nulls)
    children = tuple(random_array(rng, field.type, length, nulls=field.nullable) for field in type_.fields)
    return Array(type_, length, count, (validity,), children)


def _sparse_union(rng, type_, length, nulls):
    ids = rng.choice(np.array(type_.type_ids, np.int8), length)
    children = tuple(random_array(rng, field.type, length, nulls=nulls and field.nullable) for field in type_.fields)
    return Array(type_, length, 0, (_bytes(ids),), children)


def _dense_union(rng, type_, length, nulls):
    ids = rng.choice(np.array(type_.type_ids, np.int8), length)
    positions = np.zeros(length, np.int32)
    children = []
    for type_id, field in zip(type_.type_ids, type_.fields, strict=True):
        own = np.flatnonzero(ids == type_id)
        slots = len(own) + int(rng.integers(0, 3))
        positions[own] = np.sort(rng.choice(slots, len(own), replace=False)) if len(own) else 0
        children.append(random_array(rng, field.type, slots, nulls=nulls and field.nullable))
    return Array(type_, length, 0, (_bytes(ids), _bytes(positions)), tuple(children))


def _runs(rng, type_, length, nulls):
    ends = np.unique(np.append(rng.integers(1, length + 1, rng.integers(0, 5)), length)) if length else np.zeros(0)
    if length and rng.random() < 0.3:
        ends = np.append(ends, length + 1 + rng.integers(0, 5))  # a run that nobody sees
    width = type_.run_ends.type.bit_width // 8
    run_ends = Array(type_.run_ends.type, len(ends), 0, (None, _bytes(ends.astype(f"i{width}"))))
    values = random_array(rng, type_.values.type, len(ends), nulls=nulls and type_.values.nullable)
    return Array(type_, length, 0, (), (run_ends, values))


def _dictionary(rng, type_, length, nulls):
    size = int(rng.integers(1, 8))
    values = random_array(rng, type_.value, size, nulls=nulls and rng.random() < 0.3)
    return _indices(rng, type_, length, values, nulls=nulls)


def _indices(rng, type_, length, values, *, nulls):
    valid, validity, count = _valid(rng, length, nulls)
    dtype = np.dtype(f"{'i' if type_.index.signed else 'u'}{type_.index.bit_width // 8}")
    indices = np.where(valid, rng.integers(0, values.length, length), 99).astype(dtype)
    return Array(type_, length, count, (validity, _bytes(indices)), (), values)


ARRAYS = {
    t.Null: _null,
    t.Bool: _bool,
    t.Int: _plain(_ints),
    t.FloatingPoint: _plain(_floats),
    t.Decimal: _plain(_decimals),
    t.Date: _plain(_dates),
    t.Time: _plain(_times),
    t.Timestamp: _plain(_instants),
    t.Duration: _plain(_instants),
    t.IntervalYearMonth: _plain(_words(1, 32)),
    t.IntervalDayTime: _plain(_words(2, 32)),
    t.IntervalMonthDayNano: _plain(_month_day_nano),
    t.FixedSizeBinary: _plain(lambda rng, type_, length: rng.integers(0, 256, length * type_.byte_width, np.uint8)),
    t.Binary: _binary(32),
    t.LargeBinary: _binary(64),
    t.BinaryView: _views,
    t.Utf8: _binary(32),
    t.LargeUtf8: _binary(64),
    t.Utf8View: _views,
    t.List: _list(32),
    t.LargeList: _list(64),
    t.ListView: _list_view(32),
    t.LargeListView: _list_view(64),
    t.FixedSizeList: _fixed_size_list,
    t.Struct: _struct,
    t.Map: _map,
    t.SparseUnion: _sparse_union,
    t.DenseUnion: _dense_union,
    t.RunEndEncoded: _runs,
    t.Dictionary: _dictionary,
}
"""By type class: from a generator, a type, a length and whether slots may be null to an array."""

# ---- strategies of arrays and batches

lengths = st.integers(0, MOST_SLOTS)
generators = st.integers(0, 2**32 - 1).map(np.random.default_rng)


@st.composite
def arrays(draw, types=types()):  # noqa: B008 - a strategy is a value
    """Arrays of any length and offset, zero and all-null ones among them."""
    return random_array(draw(generators), draw(types), draw(lengths))


def schemas(types=types()):  # noqa: B008 - a strategy is a value
    columns = st.lists(st.builds(t.Field, names, types, custom_metadata=custom_metadata), max_size=4)
    return st.builds(lambda fields, pairs: Schema(tuple(fields), pairs), columns, custom_metadata)


@st.composite
def batches(draw, types=types(), count=1):  # noqa: B008 - a strategy is a value
    """Lists of `count` record batches of one schema. Each has dictionaries of its own."""
    schema, rng = draw(schemas(types)), draw(generators)
    made = []
    for _ in range(count):
        rows = draw(lengths)
        columns = tuple(random_array(rng, field.type, rows) for field in schema.fields)
        made.append(RecordBatch(schema, columns, rows, draw(custom_metadata)))
    return made


def portions(batch: RecordBatch, cuts) -> list[RecordBatch]:
    """Return slices of a batch, which share its dictionaries: what one file can hold."""
    ends = [0, *sorted(min(cut, batch.num_rows) for cut in cuts), batch.num_rows]
    return [batch.slice(first, behind - first) for first, behind in pairwise(ends)]
