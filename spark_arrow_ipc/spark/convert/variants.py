"""Assemble shredded variants: the bytes of Spark's VARIANT from columns of values (VariantShredding.md).

How it works
------------
A shredded variant is a tree of objects, lists and primitives; each node may also have bytes for values that did not
fit its type. The tree is compiled once. For a batch every node returns the bytes of all its values as one array, null
where a value is missing, and its parent joins the arrays of its children after heads that it computes for all rows.
Python runs once for each node, never for each row.

An object may have more fields than are shredded. They are in the bytes of a second object, whose keys and starts are
merged with the shredded ones. A value that the specification forbids (bytes in addition to a primitive or a list, a
field twice) is an error that names the column and the slot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.kernels.take import positions_of_runs, take
from spark_arrow_ipc.errors import InvalidBodyError
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.convert import binary_and_text
from spark_arrow_ipc.spark.convert.conversion import (
    Conversion,
    Mask,
    Numbers,
    Site,
    buffer_values,
    offsets,
    offsets_of_sizes,
    pyarrow_type,
    valid,
    validity,
    visible_slots,
)
from spark_arrow_ipc.spark.convert.variant_bytes import (
    Keys,
    check_size,
    choose,
    heads,
    join_bytes,
    lengths,
    numbers_at,
    parts,
    present,
    primitives,
)
from spark_arrow_ipc.spark.types.extension_columns import (
    LISTS,
    METADATA,
    TYPED,
    VALUE,
    is_shredded,
    primitive_of_typed_value,
)

_SPEC: Final = "VariantShredding.md"
_NULL: Final = b"\0"
"""The variant null, which is not SQL's null."""

_OBJECT: Final = 2
_CHUNK_ROWS: Final = 1 << 16
_CHUNK_SLOTS: Final = 1 << 22
"""Rows times names, rows times fields, or elements, that are computed at once; each costs a few dozen bytes."""

Booleans = npt.NDArray[np.bool_]

Build = Callable[[Array, Booleans, Numbers, Keys], pa.Array]
"""Takes the array of a node, its live slots, the row of each slot, and the keys; returns bytes, null if missing."""


def variant(type_: t.Struct, natural: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of arrow.parquet.variant, shredded or not."""
    if not is_shredded(type_):
        return binary_and_text.variant(type_, natural, site)
    to = pyarrow_type(natural, site.path)
    position = [child.name for child in type_.fields].index(METADATA)
    metadata = site.compile(type_.fields[position], s.BinaryType(), f"{site.path}.{METADATA}", nullable=True)
    names: dict[str, int] = {}
    node = _node(type_, site, site.path, names)
    chunk = max(1, min(_CHUNK_ROWS, _CHUNK_SLOTS // max(1, len(names))))

    def convert_chunk(array: Array, live: Booleans) -> tuple[pa.Array, pa.Array]:
        keys_part = array.children[position].slice(array.offset, array.length)
        dictionaries = metadata.convert(keys_part, live)
        missing = live & ~present(dictionaries)
        if missing.any():
            _refuse(f"{METADATA} in every variant that is not null", "none", missing, site.path)
        keys = Keys(choose(live, dictionaries, None), list(names), site.path)
        values = node(array, live, np.arange(array.length), keys)
        # A missing value is the variant null here (VariantShredding.md, "Value Shredding").
        return values.fill_null(bridge.scalar(_NULL, pa.binary())), dictionaries

    def convert(array: Array, live: Mask) -> pa.Array:
        mask = visible_slots(array, live)
        shown = np.ones(array.length, np.bool_) if mask is None else mask
        starts = range(0, max(1, array.length), chunk)
        chunks = [convert_chunk(array.slice(i, min(chunk, array.length - i)), shown[i : i + chunk]) for i in starts]
        columns = [_together(pieces, site.path) for pieces in zip(*chunks, strict=True)]
        return pa.Array.from_buffers(to, array.length, [validity(array)], array.null_count, children=columns)

    return Conversion(convert, checks=True)


def _node(type_: t.DataType, site: Site, path: str, names: dict[str, int]) -> Build:
    """Compile a node of bytes, a shredded type, or both; adds the names of shredded fields to `names`."""
    positions = {child.name: i for i, child in enumerate(type_.children)}
    value_at, typed_at = positions.get(VALUE, -1), positions.get(TYPED, -1)
    value = typed = None
    if value_at >= 0:
        value = site.compile(type_.children[value_at], s.BinaryType(), f"{path}.{VALUE}", nullable=True)
    if typed_at >= 0:
        typed = _shredded_type(type_.children[typed_at], site, path, names)

    def build(array: Array, live: Booleans, rows: Numbers, keys: Keys) -> pa.Array:
        rest = pa.nulls(array.length, pa.binary())
        if value is not None:
            rest = value.convert(array.children[value_at].slice(array.offset, array.length), live)
        rest = choose(live & present(rest), rest, None)  # hidden slots may hold anything
        if typed is None:
            return rest
        child = array.children[typed_at].slice(array.offset, array.length)
        live_here = visible_slots(child, live)
        return typed(child, live if live_here is None else live_here, rest, rows, keys)

    return build


Typed = Callable[[Array, Booleans, pa.Array, Numbers, Keys], pa.Array]
"""Takes the array of a shredded type, its live slots that are not null, the other bytes, the rows and the keys."""


def _shredded_type(field: t.Field, site: Site, path: str, names: dict[str, int]) -> Typed:
    if isinstance(field.type, t.Struct):
        return _object(field.type, site, path, names)
    build = (
        _list(field.type, site, path, names) if isinstance(field.type, LISTS) else _primitive(field.type, site, path)
    )

    def build_typed(child: Array, live: Booleans, rest: pa.Array, rows: Numbers, keys: Keys) -> pa.Array:
        both = live & present(rest)
        if both.any():
            _refuse(f"{VALUE} or {TYPED} of a {field.type}", "both", both, path)
        return choose(live, build(child, live, rows, keys), rest)

    return build_typed


def _primitive(type_: t.DataType, site: Site, path: str) -> Build:
    natural = primitive_of_typed_value(type_)
    assert natural is not None
    values = site.compile(t.Field(TYPED, type_), natural, f"{path}.{TYPED}", nullable=True)
    return lambda array, live, _rows, _keys: primitives(values.convert(array, live), type_, path)


def _list(type_: t.DataType, site: Site, path: str, names: dict[str, int]) -> Build:
    element = _node(type_.children[0].type, site, f"{path}[]", names)
    is_view = isinstance(type_, t.ListView | t.LargeListView)
    dtype = np.dtype(np.int64 if isinstance(type_, t.LargeList | t.LargeListView) else np.int32)

    def block(child: Array, starts: Numbers, sizes: Numbers, live: Booleans, *, rows: Numbers, keys: Keys) -> pa.Array:
        from pyarrow import compute

        ends = offsets_of_sizes(sizes)
        owner = np.repeat(np.arange(len(sizes)), sizes)
        picked = positions_of_runs(starts, sizes)
        values = _build_picked(element, child, picked, rows[owner], keys).fill_null(bridge.scalar(_NULL, pa.binary()))
        nbytes = offsets_of_sizes(lengths(values))
        before = nbytes[ends[:-1]]
        totals = nbytes[ends[1:]] - before
        # The size is checked first: pyarrow's kernel would fail without a name.
        list_heads = heads(live, owner, nbytes[:-1] - before[owner], totals, path)
        check_size(int(lengths(list_heads).sum() + nbytes[-1]), path)
        bodies = compute.binary_join(
            pa.ListArray.from_arrays(bridge.numbers(ends.astype(np.int32)), values),
            bridge.scalar(b"", pa.binary()),
        )
        return join_bytes(list_heads, bodies)

    def build(array: Array, live: Booleans, rows: Numbers, keys: Keys) -> pa.Array:
        if is_view:
            starts = buffer_values(array, 1, dtype, array.length).astype(np.int64)
            sizes = buffer_values(array, 2, dtype, array.length).astype(np.int64)
        else:
            list_offsets = offsets(array, dtype).astype(np.int64)
            starts, sizes = list_offsets[:-1], np.diff(list_offsets)
        sizes = np.where(live, sizes, 0)
        # An element may be a single bit, and costs dozens of bytes here, so rows are computed in blocks.
        pieces = [
            block(array.children[0], starts[a:b], sizes[a:b], live[a:b], rows=rows[a:b], keys=keys)
            for a, b in _blocks(sizes)
        ]
        return _together(pieces, path)

    return build


def _blocks(sizes: Numbers) -> Iterator[tuple[int, int]]:
    """Yield blocks of rows with at most `_CHUNK_SLOTS` elements, or of one row; at least one block."""
    ends = offsets_of_sizes(sizes)
    start, last = 0, len(sizes)
    while True:
        most = int(np.searchsorted(ends, ends[start] + _CHUNK_SLOTS, side="right")) - 1
        stop = min(last, max(most, start + 1))
        yield start, stop
        if stop >= last:
            return
        start = stop


def _together(pieces: Sequence[pa.Array], path: str) -> pa.Array:
    check_size(sum(int(lengths(piece).sum()) for piece in pieces), path)
    return pa.concat_arrays(pieces) if len(pieces) > 1 else pieces[0]


def _build_picked(element: Build, child: Array, picked: Numbers, rows: Numbers, keys: Keys) -> pa.Array:
    """Return the values of some slots of a list's child; a slot may occur twice."""
    start = int(picked[0]) if len(picked) else 0
    if np.array_equal(picked, np.arange(start, start + len(picked))):
        part = child.slice(start, len(picked))
        return element(part, _all_of(part), rows, keys)
    # An element that rows share has different keys in each, so elements are gathered before they are converted.
    part = take(child, picked)
    return element(part, _all_of(part), rows, keys)


def _all_of(part: Array) -> Booleans:
    is_valid = valid(part)
    return np.ones(part.length, np.bool_) if is_valid is None else is_valid


def _object(type_: t.Struct, site: Site, path: str, names: dict[str, int]) -> Typed:
    # VariantEncoding.md: fields are in the order of the bytes of their names.
    order = sorted(range(len(type_.fields)), key=lambda i: type_.fields[i].name.encode())
    fields = []
    for i in order:
        field = type_.fields[i]
        number = names.setdefault(field.name, len(names))
        fields.append((i, field.name, number, _node(field.type, site, f"{path}.{field.name}", names)))

    def block(child: Array, live: Booleans, rest: pa.Array, rows: Numbers, keys: Keys) -> pa.Array:
        values, has = [], np.zeros((child.length, len(fields)), np.bool_)
        ids = np.zeros(has.shape, np.int64)
        starts = np.zeros(has.shape, np.int64)
        total = np.zeros(child.length, np.int64)
        for column, (i, name, number, node) in enumerate(fields):
            part = child.children[i].slice(child.offset, child.length)
            fields_value = node(part, live & _all_of(part), rows, keys)
            has[:, column] = present(fields_value)
            ids[:, column] = keys.ids(number, rows)
            absent = has[:, column] & (ids[:, column] < 0)
            if absent.any():
                _refuse(f"the name of the field {name!r} in the metadata of its variant", "none", absent, path)
            starts[:, column] = total
            total += lengths(fields_value)
            values.append(fields_value)
        owner, at = np.nonzero(has)
        key, start = ids[owner, at], starts[owner, at]
        mixed = live & present(rest)
        if mixed.any():
            # Fields of the second object come after the shredded values, and both are sorted by name.
            others = _Objects(rest, np.flatnonzero(mixed), keys, rows, path)
            key, start = np.append(key, others.ids), np.append(start, total[others.slots] + others.starts)
            numbers = np.array([number for _, _, number, _ in fields], np.int64)
            ranks = np.append(keys.ranks_of_names()[numbers[at]], keys.ranks(rows[others.slots], others.ids))
            owner = np.append(owner, others.slots)
            order = np.lexsort((ranks, owner))
            owner, key, start, ranks = owner[order], key[order], start[order], ranks[order]
            # Neighbours of one row and one rank are the same field.
            twice = np.zeros(child.length, np.bool_)
            twice[owner[1:][(owner[1:] == owner[:-1]) & (ranks[1:] == ranks[:-1])]] = True
            if twice.any():
                _refuse(f"each field of an object in {VALUE} or {TYPED}", "one in both", twice, path)
            total = total + others.nbytes
            values.append(others.bodies)
        fields_value = heads(live, owner, start, np.where(live, total, 0), path, ids=key)
        check_size(int(lengths(fields_value).sum() + total.sum()), path)
        values_joined = join_bytes(fields_value, *values)
        return choose(live, values_joined, rest)

    step = max(1, _CHUNK_SLOTS // max(1, len(fields)))

    def build_object(child: Array, live: Booleans, rest: pa.Array, rows: Numbers, keys: Keys) -> pa.Array:
        pieces = []
        for i in range(0, max(1, child.length), step):
            part, until = child.slice(i, min(step, child.length - i)), i + step
            pieces.append(block(part, live[i:until], rest.slice(i, step), rows[i:until], keys))
        return _together(pieces, path)

    return build_object


class _Objects:
    """The fields of the objects in some slots of `values`; raises InvalidBodyError for other values."""

    def __init__(self, values: pa.Array, slots: Numbers, keys: Keys, rows: Numbers, path: str) -> None:
        ends, octets = parts(values)
        at, nbytes = ends[slots], np.diff(ends)[slots]
        self._slots, self._path = slots, path
        self._check(nbytes >= _OBJECT, "an object beside shredded fields")
        # VariantEncoding.md, "Value Data for Object": the header has the widths of counts, keys and starts.
        headers = octets[at].astype(np.int64)
        self._check(headers & 3 == _OBJECT, "an object beside shredded fields")
        start_width, id_width = ((headers >> 2) & 3) + 1, ((headers >> 4) & 3) + 1
        count_width = np.where(headers >> 6 & 1, 4, 1)
        self._check(1 + count_width <= nbytes, "a whole object")
        counts = numbers_at(octets, at + 1, count_width)
        ids_at = 1 + count_width
        starts_at = ids_at + counts * id_width
        head = starts_at + (counts + 1) * start_width
        self._check(head <= nbytes, "a whole object")
        owner = np.repeat(np.arange(len(slots)), counts)
        nth = np.arange(len(owner)) - (np.cumsum(counts) - counts)[owner]
        self.ids = numbers_at(octets, (at + ids_at)[owner] + nth * id_width[owner], id_width[owner])
        self.starts = numbers_at(octets, (at + starts_at)[owner] + nth * start_width[owner], start_width[owner])
        self.slots = slots[owner]
        self._check_elements(self.ids < keys.counts(rows[self.slots]), owner, "keys that the metadata have")
        self._check_elements(self.starts < (nbytes - head)[owner], owner, "values inside of their object")
        self.nbytes = np.zeros(len(values), np.int64)
        self.nbytes[slots] = nbytes - head
        # One array over the same bytes has head and body of each value in turn, so that no body is copied before `take`.
        cuts = np.repeat(ends, 2)[:-1]
        cuts[1::2] = ends[1:]
        cuts[2 * slots + 1] = at + head
        buffers = [None, pa.py_buffer(cuts.astype(np.int32)), pa.py_buffer(octets)]
        halves = pa.Array.from_buffers(pa.binary(), 2 * len(values), buffers)
        self.bodies = halves.take(bridge.numbers(2 * np.arange(len(values)) + 1))

    def _check(self, sound: Booleans, expected: str) -> None:
        if not sound.all():
            slot = int(self._slots[np.flatnonzero(~sound)[0]])
            raise InvalidBodyError(
                expected=expected, found=f"something else in slot {slot}", field_path=self._path, spec=_SPEC
            )

    def _check_elements(self, sound: Booleans, owner: Numbers, expected: str) -> None:
        is_sound = np.ones(len(self._slots), np.bool_)
        is_sound[owner[~sound]] = False
        self._check(is_sound, expected)


def _refuse(expected: str, actual: str, where: Booleans, path: str) -> NoReturn:
    raise InvalidBodyError(
        expected=expected, found=f"{actual} in slot {int(where.argmax())}", field_path=path, spec=_SPEC
    )
