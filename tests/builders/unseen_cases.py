"""Arrays of every type whose slots are unseen in every way, and hold the worst bytes there are.

`CASES` is total by construction: each array of `arrow_cases.ARRAYS` below each way of `WAYS`. A way puts an array of
eleven slots below others and says which of its slots no row sees; `poison` fills these; what rows see is told by
pyarrow's values of the clean array.
"""

from dataclasses import replace

import numpy as np
import pytest
from arrow_cases import ARRAYS
from arrow_from_pyarrow import from_pyarrow

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import Array, Field, RecordBatch, Schema, array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array_data import as_buffer
from spark_arrow_ipc.arrow.kernels import growing_dictionary
from spark_arrow_ipc.arrow.layout import BIT_WIDTHS, LAYOUTS, Family, by_type
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.ipc.columns import dictionaries, encode

SLOTS = 11


# The worst bytes


def poison(array, unseen, *, keeps_validity=False):
    """Return an array whose slots of a mask are broken in all that is undefined; others stay as they are."""
    if array.validity is not None and not keeps_validity:
        valid = array_data.unpack_bits(array.validity, 0, array.length) | unseen
        array = replace(
            array, null_count=int((~valid).sum()), buffers=(array_data.pack_bits(valid), *array.buffers[1:])
        )
    return POISONS[type(array.type)](array, unseen)


def _same(array, _):
    return array


def _bits(array, unseen):
    return replace(array, buffers=(array.buffers[0], array_data.pack_bits(array_data.data_values(array) | unseen)))


def _fixed(array, unseen):
    width = BIT_WIDTHS[type(array.type)](array.type) // 8
    rows = np.frombuffer(array.buffers[1], np.uint8)[: width * array.length].reshape(array.length, width).copy()
    rows[unseen] = 0xFF
    return replace(array, buffers=(array.buffers[0], as_buffer(rows)))


def _binary(array, unseen):
    sizes = np.diff(array_data.value_offsets(array))
    data = np.frombuffer(array.buffers[2], np.uint8)[: int(sizes.sum())].copy()
    data[np.repeat(unseen, sizes)] = 0xFF
    return replace(array, buffers=(*array.buffers[:2], as_buffer(data)))


def _views(array, unseen):
    views = array_data.views(array).copy()
    views[unseen] = np.frombuffer(b"\xff" * 4 + b"\x80" * 12, array_data.VIEW)[0]
    views[np.flatnonzero(unseen)[::2]] = np.frombuffer(b"\x7f" * 16, array_data.VIEW)[0]
    return replace(array, buffers=(array.buffers[0], as_buffer(views), *array.buffers[2:]))


def _ranges(child, starts, sizes, seen):
    """Return a child whose elements are broken unless a slot that is seen has them."""
    used = np.zeros(child.length, np.bool_)
    for start, size in zip(starts[seen].tolist(), sizes[seen].tolist(), strict=True):
        used[start : start + size] = True
    return poison(child, ~used)


def _seen(array, unseen):
    valid = array_data.validity_mask(array)
    return ~unseen if valid is None else ~unseen & valid


def _list(array, unseen):
    offsets = array_data.value_offsets(array)
    child = _ranges(array.children[0], offsets[:-1], np.diff(offsets), _seen(array, unseen))
    return replace(array, children=(child,))


def _list_view(array, unseen):
    positions, sizes = array_data.positions(array).copy(), array_data.sizes(array).copy()
    child = _ranges(array.children[0], positions, sizes, _seen(array, unseen))
    below = unseen & (True if array.validity is None else array_data.unpack_bits(array.validity, 0, array.length))
    positions[below] = np.iinfo(positions.dtype).max
    sizes[below] = np.iinfo(sizes.dtype).max
    buffers = (array.buffers[0], as_buffer(positions), as_buffer(sizes))
    return replace(array, buffers=buffers, children=(child,))


def _fixed_size_list(array, unseen):
    size = array.type.list_size
    return replace(array, children=(poison(array.children[0], np.repeat(~_seen(array, unseen), size)),))


def _struct(array, unseen):
    return replace(array, children=tuple(poison(child, ~_seen(array, unseen)) for child in array.children))


def _sparse_union(array, unseen):
    ids = array_data.type_ids(array).copy()
    children = [
        poison(child, unseen | (ids != type_id))
        for type_id, child in zip(array.type.type_ids, array.children, strict=True)
    ]
    ids[unseen] = -1
    return replace(array, buffers=(as_buffer(ids),), children=tuple(children))


def _dense_union(array, unseen):
    ids, positions = array_data.type_ids(array).copy(), array_data.positions(array).copy()
    children = []
    for type_id, child in zip(array.type.type_ids, array.children, strict=True):
        used = np.zeros(child.length, np.bool_)
        used[positions[(ids == type_id) & ~unseen]] = True
        children.append(poison(child, ~used))
    ids[unseen], positions[unseen] = -1, -1
    return replace(array, buffers=(as_buffer(ids), as_buffer(positions)), children=tuple(children))


def _runs(array, unseen):
    ends = array_data.data_values(array.children[0])
    used = np.zeros(array.children[1].length, np.bool_)
    used[np.searchsorted(ends, np.flatnonzero(~unseen), "right")] = True
    return replace(array, children=(array.children[0], poison(array.children[1], ~used)))


def _dictionary(array, unseen):
    indices = array_data.data_values(array)[_seen(array, unseen)]
    used = np.zeros(array.dictionary.length, np.bool_)
    used[indices] = True
    return replace(_fixed(array, unseen), dictionary=poison(array.dictionary, ~used))


POISONS = by_type(
    {
        Family.NULL: _same,
        Family.BITS: _bits,
        Family.FIXED_WIDTH: _fixed,
        Family.BINARY: _binary,
        Family.VIEW: _views,
        Family.LIST: _list,
        Family.LIST_VIEW: _list_view,
        Family.FIXED_SIZE_LIST: _fixed_size_list,
        Family.STRUCT: _struct,
        Family.SPARSE_UNION: _sparse_union,
        Family.DENSE_UNION: _dense_union,
        Family.RUN_END_ENCODED: _runs,
        Family.DICTIONARY: _dictionary,
    }
)


# Ways of being unseen: (an array of eleven slots, its values) -> (the array above it, its values)

PAIRS = np.array([0, 2, 4, 6, 8, 11], np.int32)
VALID = [True, False, True, False, True]


def _mask(*slots, length=SLOTS):
    mask = np.zeros(length, np.bool_)
    mask[list(slots)] = True
    return mask


def _bitmap(valid):
    return array_data.pack_bits(valid)


def own_null(array, values):
    """Null by its own validity bitmap."""
    valid = ~_mask(0, 5, 9)
    if array.validity is not None:
        valid &= array_data.unpack_bits(array.validity, 0, array.length)
    array = replace(array, null_count=int((~valid).sum()), buffers=(_bitmap(valid), *array.buffers[1:]))
    expected = [value if valid[i] else None for i, value in enumerate(values)]
    return poison(array, ~valid, keeps_validity=True), expected


def null_structs(array, values):
    outer, inner = _mask(0, 1, 4, 10), _mask(2, 7)
    array = poison(array, outer | inner)
    low = Array(t.Struct((Field("x", array.type),)), SLOTS, 6, (_bitmap(~inner & ~outer),), (array,))
    high = Array(t.Struct((Field("s", low.type),)), SLOTS, 4, (_bitmap(~outer),), (low,))
    expected = [None if outer[i] else {"s": None if inner[i] else {"x": value}} for i, value in enumerate(values)]
    return high, expected


def not_null_in_null_structs(array, values):
    """Below a field that may not be null: nothing may become null there."""
    outer = _mask(0, 1, 4, 10)
    array = poison(array, outer)
    type_ = t.Struct((Field("x", array.type, nullable=False),))
    return Array(type_, SLOTS, 4, (_bitmap(~outer),), (array,)), [
        None if outer[i] else {"x": value} for i, value in enumerate(values)
    ]


def _listed(values):
    return [
        values[start:stop] if valid else None
        for start, stop, valid in zip(PAIRS[:-1].tolist(), PAIRS[1:].tolist(), VALID, strict=True)
    ]


BETWEEN = _mask(2, 3, 6, 7)


def null_list(array, values):
    array = poison(array, BETWEEN)
    type_ = t.List(Field("item", array.type))
    return Array(type_, 5, 2, (_bitmap(VALID), as_buffer(PAIRS)), (array,)), _listed(values)


def null_map(array, values):
    keys = from_pylist.array([f"key {i}" for i in range(SLOTS)], t.utf8)
    entries_type = t.Struct((Field("key", t.utf8, nullable=False), Field("value", array.type)))
    entries = Array(entries_type, SLOTS, 0, (None,), (poison(keys, BETWEEN), poison(array, BETWEEN)))
    type_ = t.Map(Field("entries", entries_type, nullable=False))
    expected = _listed([(f"key {i}", value) for i, value in enumerate(values)])
    return Array(type_, 5, 2, (_bitmap(VALID), as_buffer(PAIRS)), (entries,)), expected


def null_fixed_size_list(array, values):
    array = poison(array, BETWEEN | _mask(10))
    type_ = t.FixedSizeList(Field("item", array.type), 2)
    expected = [values[2 * i : 2 * i + 2] if valid else None for i, valid in enumerate(VALID)]
    return Array(type_, 5, 2, (_bitmap(VALID),), (array,)), expected


def null_list_view(array, values):
    array = poison(array, BETWEEN)
    starts, sizes = PAIRS[:-1][::-1], np.diff(PAIRS)[::-1]
    type_ = t.ListView(Field("item", array.type))
    buffers = (_bitmap(VALID[::-1]), as_buffer(starts), as_buffer(sizes))
    return Array(type_, 5, 2, buffers, (array,)), _listed(values)[::-1]


def _union(array, class_, buffers, length, other):
    fields = (Field("n", t.int8), Field("x", array.type))
    return Array(class_(fields, (3, 5)), length, 0, buffers, (from_pylist.array([7] * other, t.int8), array))


def unselected_in_a_sparse_union(array, values):
    unseen = _mask(1, 2, 5, 9)
    ids = np.where(unseen, 3, 5).astype(np.int8)
    above = _union(poison(array, unseen), t.SparseUnion, (as_buffer(ids),), SLOTS, SLOTS)
    return above, [7 if unseen[i] else value for i, value in enumerate(values)]


def unpointed_in_a_dense_union(array, values):
    unseen = _mask(0, 2, 5, 10)
    used = np.flatnonzero(~unseen)
    ids, positions = np.append(np.full(len(used), 5), 3), np.append(used, 0)
    buffers = (as_buffer(ids.astype(np.int8)), as_buffer(positions.astype(np.int32)))
    above = _union(poison(array, unseen), t.DenseUnion, buffers, len(ids), 1)
    return above, [*(values[i] for i in used), 7]


def no_row_reaches_the_run(array, values):
    ends = from_pylist.array([2 * i + 2 for i in range(SLOTS)], t.int16)
    type_ = t.run_end_encoded(t.int16, array.type)
    return Array(type_, 15, 0, (), (ends, poison(array, _mask(8, 9, 10)))), [values[i // 2] for i in range(15)]


def unused_in_a_dictionary(array, values):
    unseen = _mask(0, 3, 9)
    used = np.flatnonzero(~unseen)
    type_ = t.dictionary(t.int8, array.type)
    above = Array(type_, len(used), 0, (None, as_buffer(used.astype(np.int8))), dictionary=poison(array, unseen))
    return above, [values[i] for i in used]


WAYS = {
    "null by itself": own_null,
    "below two null structs": null_structs,
    "below a null struct, not nullable": not_null_in_null_structs,
    "between the offsets of a null list": null_list,
    "in a null map": null_map,
    "in a null fixed-size list": null_fixed_size_list,
    "in a null list-view": null_list_view,
    "unselected in a sparse union": unselected_in_a_sparse_union,
    "unpointed in a dense union": unpointed_in_a_dense_union,
    "in a run that no row reaches": no_row_reaches_the_run,
    "an unused value of a dictionary": unused_in_a_dictionary,
}

_NO_BITMAP = "the type has no validity bitmap"
IMPOSSIBLE = {
    (Family.NULL, "null by itself"): _NO_BITMAP,
    (Family.SPARSE_UNION, "null by itself"): _NO_BITMAP,
    (Family.DENSE_UNION, "null by itself"): _NO_BITMAP,
    (Family.RUN_END_ENCODED, "null by itself"): _NO_BITMAP,
    (Family.DICTIONARY, "an unused value of a dictionary"): "the values of a dictionary are no indices",
}
"""The ways in which slots of a family cannot be unseen, and why."""


def build(name, way, *, clean=False):
    """Return the broken array, or the clean one, and the values that rows see."""
    with pytest.MonkeyPatch.context() as patch:
        if clean:
            patch.setitem(globals(), "poison", lambda array, *_, **__: array)
        return WAYS[way](from_pyarrow(ARRAYS[name]), ARRAYS[name].to_pylist())


def family(name):
    return LAYOUTS[type(from_pyarrow(ARRAYS[name]).type)].family


CASES = {(name, way): build(name, way) for name in ARRAYS for way in WAYS if (family(name), way) not in IMPOSSIBLE}


def batches(*, clean=False, cases=CASES):
    """Return batches of all cases: those of as many rows are the columns of one."""
    arrays = {case: build(*case, clean=clean)[0] for case in cases}
    made = []
    for length in sorted({array.length for array in arrays.values()}):
        columns = {f"{name} {way}": array for (name, way), array in arrays.items() if array.length == length}
        schema = Schema(tuple(Field(name, array.type) for name, array in columns.items()))
        made.append(RecordBatch(schema, tuple(columns.values()), length))
    return made


def write_raw(sink, batch, **options):
    """Write a batch with all that no row sees, which the writer would make zeros."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encode, "zero_nulls", lambda array: array)
        patch.setattr(growing_dictionary, "check_expansion", lambda array: None)
        patch.setattr(dictionaries.SoundDictionaries, "columns", lambda _, __, columns: columns)
        ipc.write(sink, [batch], batch.schema, ipc.WriteOptions(**options))
