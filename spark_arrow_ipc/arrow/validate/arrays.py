"""Check arrays against their type: first the sizes, then the values.

How it works
------------
`check_sizes` checks that buffers and children exist and are long enough, so that no read is out of bounds. After it,
`check_values` checks the bytes: null counts, value offsets, UTF-8, views, dictionary indices, union type ids, run ends,
list-views, map keys. Decoding a file checks the sizes itself, by the plan, and calls only `check_values`; batches that
users build or slice go through `check`.

Tables keyed by layout family have the checks of each type. Children are checked in full, by their own validity. If a check
fails, slots that no row can see are made harmless (`arrow.unseen`), and the array is checked again. So an array is refused
only for a value that a row can see, or for one that the format requires to be valid in null slots too. The ranges of
decimals, times and dates are not checked: valid files exceed them, and readers agree on the values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array_data import NOT_COUNTED, ArrayData, Doubt
from spark_arrow_ipc.arrow.column_path import child_path
from spark_arrow_ipc.arrow.layout import LAYOUTS, Family, Layout, Role, by_type, child_slots, least_nbytes
from spark_arrow_ipc.arrow.unseen import clear_unseen
from spark_arrow_ipc.arrow.validate.text import BINARY_SPEC, CHUNK_SLOTS, Bools, body_error, check_text, first_failure
from spark_arrow_ipc.arrow.validate.views import check_views
from spark_arrow_ipc.errors import InvalidBodyError

_A = TypeVar("_A", bound=ArrayData)

_VALIDITY = 'Columnar.rst "Validity bitmaps"'
_BUFFERS = 'Columnar.rst "Buffer Listing for Each Layout"'
_LENGTHS = 'Columnar.rst "Array lengths"'
_NULL_COUNT = 'Columnar.rst "Null count"'
_LIST = 'Columnar.rst "List Layout"'
_LIST_VIEW = 'Columnar.rst "ListView Layout"'
_FIXED_SIZE_LIST = 'Columnar.rst "Fixed-Size List Layout"'
_STRUCT = 'Columnar.rst "Struct Layout"'
_DENSE_UNION = 'Columnar.rst "Dense Union"'
_SPARSE_UNION = 'Columnar.rst "Sparse Union"'
_UNION = 'Columnar.rst "Union Layout"'
_RUNS = 'Columnar.rst "Run-End Encoded Layout"'
_DICTIONARY = 'Columnar.rst "Dictionary-encoded Layout"'
_MAP = "Schema.fbs, Map"


def check(array: ArrayData, path: str, *, full: bool = True) -> None:
    """Raise InvalidBodyError if an array, its children or its dictionary has a wrong size or, with `full`, a wrong value."""
    check_sizes(array, path)
    if full:
        with_sound_values(array, path)


def with_sound_values(array: _A, path: str, *, dictionaries: bool = True) -> _A:
    """Check values; return the array, or a copy without the values of unseen slots if one of those was wrong.

    Raises InvalidBodyError for a wrong slot that a row can see.
    """
    try:
        check_values(array, path, dictionaries=dictionaries)
    except InvalidBodyError:
        cleared = clear_unseen(array, dictionaries=dictionaries)
        check_values(cleared, path, dictionaries=dictionaries)
        return cleared
    return array


def check_sizes(array: ArrayData, path: str) -> None:
    """Raise InvalidBodyError unless buffers and children exist and are long enough for the slots. O(buffers)."""
    layout = LAYOUTS[type(array.type)]
    _check_lengths(array, path)
    _check_buffers(array, path, layout)
    _check_children(array, path)
    if isinstance(array.type, t.Dictionary):
        if array.dictionary is None or array.dictionary.type != array.type.value:
            actual = "none" if array.dictionary is None else f"one of {array.dictionary.type}"
            raise body_error(path, f"a dictionary of {array.type.value}", actual, _DICTIONARY)
        check_sizes(array.dictionary, _dictionary_path(path))


def check_values(array: ArrayData, path: str, *, dictionaries: bool = True) -> None:
    """Raise InvalidBodyError with the first wrong slot of an array whose sizes are already checked.

    O(bytes), vectorised, in bounded memory. `dictionaries` says whether dictionaries are checked, at every depth;
    a reader that shares them among batches checks them once.
    """
    validity = array.validity
    if validity is not None and array.null_count != NOT_COUNTED:
        _check_null_count(array, path, validity)
    if array.length:
        VALUE_CHECKS[type(array.type)](array, path)
    if array.children:
        for field, child in zip(array.type.children, array.children, strict=True):
            # Numbers without nulls have nothing to check, and for wide structs even their paths take time.
            if type(child.type) not in _NUMBERS or child.buffers[0] is not None:
                check_values(child, child_path(array.type, path, field), dictionaries=dictionaries)
    values = array.dictionary
    if values is not None and (dictionaries or values.doubt is not None):
        if values.doubt is None:
            check_values(values, _dictionary_path(path), dictionaries=dictionaries)
        else:
            _check_doubtful(values, values.doubt, path, dictionaries=dictionaries)


def _check_doubtful(values: ArrayData, doubt: Doubt, path: str, *, dictionaries: bool) -> None:
    """Repeat the check of a doubtful dictionary, whose unused values have been cleared since."""
    doubt.spend(values)
    try:
        check_values(values, _dictionary_path(path), dictionaries=dictionaries)
    except InvalidBodyError:
        raise doubt.error from None


def sound_columns(columns: Sequence[_A], fields: Sequence[t.Field], *, dictionaries: bool = True) -> tuple[_A, ...]:
    """Return columns, each after `with_sound_values` unless it has numbers without nulls."""
    return tuple(
        with_sound_values(column, field.name, dictionaries=dictionaries)
        if type(column.type) not in _NUMBERS or column.buffers[0] is not None
        else column
        for column, field in zip(columns, fields, strict=True)
    )


def _dictionary_path(path: str) -> str:
    return f"{path} (dictionary)"


# Sizes


def _check_lengths(array: ArrayData, path: str) -> None:
    if array.length < 0 or array.offset < 0:
        actual = f"a length of {array.length} from offset {array.offset} on"
        raise body_error(path, "a length and an offset of at least 0", actual, _LENGTHS)
    if not NOT_COUNTED <= array.null_count <= array.length:
        raise body_error(path, f"a null count from 0 to {array.length}", str(array.null_count), _NULL_COUNT)


def _check_buffers(array: ArrayData, path: str, layout: Layout) -> None:
    count, fixed = len(array.buffers), layout.num_fixed_buffers
    if count < fixed or (count > fixed and not layout.is_variadic):
        expected = f"{'at least ' if layout.is_variadic else ''}{fixed} buffers for {array.type}"
        raise body_error(path, expected, str(count), _BUFFERS)
    if layout.has_validity and array.null_count > 0 and array.buffers[0] is None:
        expected = f"a validity bitmap for {array.null_count} nulls"
        raise body_error(path, expected, "none", _VALIDITY)
    # Variadic buffers, which follow the rows of the layout, have no least size
    for number, (buffer, row) in enumerate(zip(array.buffers, layout.buffers, strict=False)):
        if buffer is None:
            if number == 0 and layout.has_validity:
                continue
            raise body_error(path, f"a buffer of {_role(row.role)}", "none", _BUFFERS)
        needed = least_nbytes(array.type, row, array.offset + array.length)
        if buffer.nbytes < needed:
            raise body_error(path, f"{_role(row.role)} of at least {needed} bytes", str(buffer.nbytes), _BUFFERS)


# The words of the specification where they differ from the name of the role
_ROLES = {Role.OFFSETS: "value offsets", Role.POSITIONS: "value offsets", Role.VALIDITY: "a validity bitmap"}


def _role(role: Role) -> str:
    return _ROLES.get(role, role.name.lower().replace("_", " "))


def _check_children(array: ArrayData, path: str) -> None:
    fields = array.type.children
    if len(array.children) != len(fields):
        expected = f"{len(fields)} child arrays for {array.type}"
        raise body_error(path, expected, str(len(array.children)), _LENGTHS)
    if not fields:
        return
    needed = (array.offset + array.length) * (child_slots(array.type) or 0)
    for field, child in zip(fields, array.children, strict=True):
        where = child_path(array.type, path, field)
        if child.type != field.type:
            raise body_error(where, f"a child array of {field.type}", f"one of {child.type}", _LENGTHS)
        if child.length < needed:
            spec = _CHILD_SPECS.get(type(array.type), _LENGTHS)
            raise body_error(where, f"a child array of at least {needed} slots", str(child.length), spec)
        check_sizes(child, where)


# The sections of the specification for families with a fixed number of child slots for each slot
_CHILD_SPECS = by_type(
    {Family.STRUCT: _STRUCT, Family.SPARSE_UNION: _SPARSE_UNION, Family.FIXED_SIZE_LIST: _FIXED_SIZE_LIST}
)


# Values


def _check_null_count(array: ArrayData, path: str, validity: memoryview) -> None:
    nulls = array.length - array_data.count_bits(validity, array.offset, array.length)
    if nulls != array.null_count:
        expected = f"a null count of {nulls}, as the validity bitmap has it"
        raise body_error(path, expected, str(array.null_count), _NULL_COUNT)


def _sound(_: ArrayData, __: str) -> None:
    """Accept all bytes, because each is a value of the type."""


def _check_offsets(array: ArrayData, path: str, end: int, what: str, spec: str) -> None:
    offsets = array_data.value_offsets(array)
    if offsets[0] < 0:
        raise body_error(path, "value offsets from 0 on", f"{offsets[0]} in slot 0", spec)
    slot = first_failure(array.length, lambda i, j: offsets[i + 1 : j + 1] >= offsets[i:j])
    if slot is not None:
        actual = f"{offsets[slot]} and then {offsets[slot + 1]} in slot {slot}"
        raise body_error(path, "value offsets that do not fall", actual, spec)
    if offsets[-1] > end:
        # `end` in the type of the offsets: numpy would otherwise widen all of them
        slot = int(np.searchsorted(offsets, offsets.dtype.type(end), "right")) - 1
        raise body_error(path, f"value offsets up to the {end} {what}", f"{offsets[slot + 1]} in slot {slot}", spec)


# Up to so many slots and bytes Python's own integers and bytes are faster than numpy (measured)
_FEW_SLOTS = 64
_FEW_NBYTES = 1 << 12


def _are_few_sound(array: ArrayData) -> bool:
    """Return True if there are few strings or binary values, all sound, and the strings are ASCII."""
    if array.length > _FEW_SLOTS:
        return False
    offsets, data = array.buffers[1:]
    if offsets is None or data is None:
        return False
    nbytes = LAYOUTS[type(array.type)].buffers[1].bit_width // 8
    own_offsets = offsets[array.offset * nbytes : (array.offset + array.length + 1) * nbytes]
    numbers = own_offsets.cast("i" if nbytes == 4 else "q").tolist()
    first, last = numbers[0], numbers[-1]
    if not 0 <= first <= last <= min(data.nbytes, first + _FEW_NBYTES) or numbers != sorted(numbers):
        return False
    return type(array.type) not in t.UTF8_CLASSES or data[first:last].tobytes().isascii()


def _check_binary(array: ArrayData, path: str) -> None:
    if _are_few_sound(array):
        return
    data = array.buffers[2]
    _check_offsets(array, path, 0 if data is None else data.nbytes, "bytes of data", BINARY_SPEC)
    if type(array.type) in t.UTF8_CLASSES:
        check_text(array, path)


def _check_list(array: ArrayData, path: str) -> None:
    _check_offsets(array, path, array.children[0].length, "slots of the child array", _LIST)


def _check_map(array: ArrayData, path: str) -> None:
    """Check that valid maps have no null entry or key."""
    _check_list(array, path)
    offsets = array_data.value_offsets(array)
    start, stop = int(offsets[0]), int(offsets[-1])
    if start == stop:
        return
    if isinstance(array.type.children[0].type.children[0].type, t.Null):
        _check_no_entries(array, path, offsets)
        return
    entries = array.children[0].slice(start, stop - start)
    keys = array.children[0].children[0].slice(entries.offset, entries.length)
    valid = array_data.validity_mask(array)
    # Entries outside of all valid maps may be null.
    for begin in range(0, entries.length, CHUNK_SLOTS):
        end = min(begin + CHUNK_SLOTS, entries.length)
        for what, values in (("entries", entries), ("keys", keys)):
            mask = array_data.validity_mask(values, begin, end)
            if mask is None or mask.all():
                continue
            nulls = offsets.dtype.type(start + begin) + np.flatnonzero(~mask).astype(offsets.dtype)
            slots = np.searchsorted(offsets, nulls, "right") - 1
            if valid is not None:
                slots = slots[valid[slots]]
            if len(slots):
                raise body_error(path, f"map {what} that are not null", f"a null in slot {slots[0]}", _MAP)


def _check_no_entries(array: ArrayData, path: str, offsets: npt.NDArray[Any]) -> None:
    """Check that valid maps with keys of type null have no entries."""
    # Only offsets are used: there may be more entries of type null than fit in memory.
    some = np.diff(offsets) > 0
    valid = array_data.validity_mask(array)
    bad = some if valid is None else some & valid
    if bad.any():
        raise body_error(path, "map keys that are not null", f"a null in slot {int(bad.argmax())}", _MAP)


def _check_list_view(array: ArrayData, path: str) -> None:
    """Check positions and sizes of every slot."""
    # Null ones too: "every list-view value, including null values" has to be in range.
    positions, sizes = array_data.positions(array), array_data.sizes(array)
    end = np.int64(array.children[0].length)

    def within(i: int, j: int) -> Bools:
        start, size = positions[i:j], sizes[i:j]
        # A subtraction, because a sum of two int64 may overflow.
        ok: Bools = (start >= 0) & (size >= 0) & (start <= end - size)
        return ok

    slot = first_failure(array.length, within)
    if slot is not None:
        expected = f"list-views within the {end} slots of the child array"
        actual = f"{sizes[slot]} slots from {positions[slot]} on in slot {slot}"
        raise body_error(path, expected, actual, _LIST_VIEW)


def _check_dictionary(array: ArrayData, path: str) -> None:
    assert array.dictionary is not None
    indices = array_data.data_values(array)
    length = array.dictionary.length
    # As unsigned numbers negative indices are too large, so one comparison checks both bounds.
    unsigned = indices.view(np.dtype(f"u{indices.itemsize}"))
    slot = first_failure(array.length, lambda i, j: unsigned[i:j] < length, skip_nulls_of=array)
    if slot is not None:
        expected = f"dictionary indices from 0 to below {length}"
        raise body_error(path, expected, f"{indices[slot]} in slot {slot}", _DICTIONARY)


def _check_type_ids(array: ArrayData, path: str) -> None:
    assert isinstance(array.type, t.SparseUnion | t.DenseUnion)
    type_ids = array_data.type_ids(array)
    is_type_id = np.zeros(256, np.bool_)  # for every byte: negative ids have an entry too
    is_type_id[list(array.type.type_ids)] = True
    unsigned = type_ids.view(np.uint8)
    slot = first_failure(array.length, lambda i, j: is_type_id[unsigned[i:j]])
    if slot is not None:
        expected = f"type ids of {', '.join(map(str, array.type.type_ids))}"
        raise body_error(path, expected, f"{type_ids[slot]} in slot {slot}", _UNION)


def _check_dense_union(array: ArrayData, path: str) -> None:
    _check_type_ids(array, path)
    assert isinstance(array.type, t.DenseUnion)
    type_ids, positions = array_data.type_ids(array), array_data.positions(array)
    present = np.bincount(type_ids, minlength=128)  # children without slots need no pass over all type ids
    for type_id, child, field in zip(array.type.type_ids, array.children, array.type.fields, strict=True):
        if not present[type_id]:
            continue
        slots = np.flatnonzero(type_ids == type_id)
        member_positions = positions[slots]
        where = child_path(array.type, path, field)
        outside = (member_positions < 0) | (member_positions.astype(np.int64) >= child.length)
        if outside.any():
            i = int(outside.argmax())
            expected = f"value offsets from 0 to below the {child.length} slots of the child array"
            raise body_error(where, expected, f"{member_positions[i]} in slot {slots[i]}", _DENSE_UNION)
        falls = member_positions[1:] < member_positions[:-1]
        if falls.any():
            i = int(falls.argmax())
            actual = f"{member_positions[i]} and then {member_positions[i + 1]} in slot {slots[i + 1]}"
            raise body_error(where, "value offsets that do not fall", actual, _DENSE_UNION)


def _check_runs(array: ArrayData, path: str) -> None:
    run_ends, values = array.children
    if array.null_count not in (0, NOT_COUNTED):
        raise body_error(path, "a null count of 0 for runs", str(array.null_count), _RUNS)
    if run_ends.count_nulls():
        raise body_error(path, "run ends that are not null", f"{run_ends.count_nulls()} nulls", _RUNS)
    if run_ends.length > values.length:
        raise body_error(path, f"a value for each of {run_ends.length} runs", str(values.length), _RUNS)
    ends = array_data.data_values(run_ends)
    if len(ends) and ends[0] < 1:
        raise body_error(path, "run ends from 1 on", f"{ends[0]} in run 0", _RUNS)
    run = first_failure(max(len(ends) - 1, 0), lambda i, j: ends[i + 1 : j + 1] > ends[i:j])
    if run is not None:
        raise body_error(path, "run ends that rise", f"{ends[run]} and then {ends[run + 1]} in run {run + 1}", _RUNS)
    last = int(ends[-1]) if len(ends) else 0
    if last < array.offset + array.length:
        raise body_error(path, f"a last run end of at least {array.offset + array.length}", str(last), _RUNS)


VALUE_CHECKS: Mapping[type[t.DataType], Callable[[ArrayData, str], None]] = {
    **by_type(
        {
            Family.NULL: _sound,
            Family.BITS: _sound,
            Family.FIXED_WIDTH: _sound,
            Family.BINARY: _check_binary,
            Family.VIEW: check_views,
            Family.LIST: _check_list,
            Family.LIST_VIEW: _check_list_view,
            Family.FIXED_SIZE_LIST: _sound,
            Family.STRUCT: _sound,
            Family.SPARSE_UNION: _check_type_ids,
            Family.DENSE_UNION: _check_dense_union,
            Family.RUN_END_ENCODED: _check_runs,
            Family.DICTIONARY: _check_dictionary,
        }
    ),
    t.Map: _check_map,
}
"""Checks values beyond their null count, by layout family; for arrays of at least one slot."""

# The types of slots of a fixed width, booleans among them
_NUMBERS = frozenset(by_type(dict.fromkeys((Family.BITS, Family.FIXED_WIDTH), True)))
