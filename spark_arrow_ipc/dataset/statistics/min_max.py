"""Count nulls and NaNs of an array, and find its least and greatest value.

How it works: numpy on complete buffers, never a Python value for each slot. `_BOUNDS` has a row for each type class that has
an order; dictionaries and runs are reduced to the values that their slots use.

The order is Spark's: strings and binaries by unsigned bytes, NaN apart (it is counted), -0.0 is 0.0. Strings are
compared byte by byte: one pass finds the slots that share the least byte, and only those are compared further, up to
`MOST_BYTES`. Strings that seem to be alike are compared by many bytes at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.layout import Role
from spark_arrow_ipc.dataset.predicate.expressions import Raw

MOST_BYTES: Final = 64
"""Bytes of a string that are compared and stored."""

Mask: TypeAlias = npt.NDArray[np.bool_] | None
"""One boolean for each slot; None stands for all true."""

_Numbers: TypeAlias = npt.NDArray[Any]
_Bounds: TypeAlias = tuple[Raw, Raw] | None

_KEY: Final = 8
"""Bytes of a string that are compared at once, as a number, if one byte would not differ enough."""

_FEW: Final = 16
"""Up to this many strings Python compares: cheaper than another pass of numpy."""

_MANY: Final = 2048
"""From this many strings on, a sample is compared first."""

_SOME: Final = 8
"""Strings in the sample."""

_ALIKE: Final = 4
"""From this many equal bytes in the sample on, eight bytes are compared at once."""

_RETURNED: Final = MOST_BYTES + _KEY
"""Bytes of a string that are returned: enough to tell that it is longer, and to find the start of its last code point."""


@dataclass(frozen=True, slots=True)
class ValueSummary:
    """Nulls, NaNs and bounds of the slots of an array."""

    null_count: int  # slots that are null, or have a parent that is
    nan_count: int | None = None  # slots that are NaN; None for types that have none
    # in the unit of the type; None without any value; strings of more than `MOST_BYTES` are cut, but still longer than that
    least: Raw | None = None
    greatest: Raw | None = None


def has_bounds(type_: t.DataType) -> bool:
    """Return whether statistics have bounds for values of a type."""
    return type(type_) in _BOUNDS


def valid_slots(array: Array, live: Mask) -> Mask:
    """Return the mask of slots that are live (not in a null struct) and not null."""
    valid = array_data.validity_mask(array)
    if valid is None or live is None:
        return live if valid is None else valid
    return valid & live


def summarise(array: Array, live: Mask = None) -> ValueSummary:
    """Return nulls, NaNs and bounds of the live slots of an array, in O(slots)."""
    special = _SPECIAL.get(type(array.type))
    if special is not None:
        return special(array, live)
    if live is None and array.count_nulls() == 0:
        valid, null_count = None, 0
    else:
        valid = valid_slots(array, live)
        null_count = 0 if valid is None else array.length - int(np.count_nonzero(valid))
    is_float = isinstance(array.type, t.FloatingPoint)
    if null_count == array.length:
        return ValueSummary(null_count, 0 if is_float else None)
    if is_float:
        return _floats(array, valid if null_count else None, null_count)
    bounds = _BOUNDS[type(array.type)](array, valid if null_count else None)
    return ValueSummary(null_count, None, *bounds) if bounds is not None else ValueSummary(null_count)


def _fill_nulls(values: _Numbers, valid: Mask) -> _Numbers:
    """Return the values with a valid value in place of nulls, which costs less than filtering them out."""
    return values if valid is None else np.where(valid, values, values[valid.argmax()])


def _numbers(array: Array, valid: Mask) -> _Bounds:
    values = _fill_nulls(array_data.data_values(array), valid)
    return values.min().item(), values.max().item()


def _floats(array: Array, valid: Mask, null_count: int) -> ValueSummary:
    values = _fill_nulls(array_data.data_values(array), valid)
    least, greatest = values.min(), values.max()
    nan_count = 0
    if least != least:  # noqa: PLR0124 - the minimum is NaN where any value is
        nans = values != values  # noqa: PLR0124
        if valid is not None:
            nans &= valid
        nan_count = int(np.count_nonzero(nans))
        if nan_count + null_count == array.length:
            return ValueSummary(null_count, nan_count)
        finite = array_data.data_values(array)[~nans if valid is None else valid & ~nans]
        least, greatest = finite.min(), finite.max()
    # -0.0 + 0.0 is 0.0, so that both zeros have one bound.
    return ValueSummary(null_count, nan_count, float(least) + 0.0, float(greatest) + 0.0)


def _decimals(array: Array, valid: Mask) -> _Bounds:
    values = array_data.data_values(array)
    if values.dtype.names is None:
        return _numbers(array, valid)
    columns = [values[name] for name in sorted(values.dtype.names, reverse=True)]
    words = columns if valid is None else [column[valid] for column in columns]
    return _extreme(words, np.min), _extreme(words, np.max)


def _extreme(words: Sequence[_Numbers], best: Callable[[_Numbers], Any]) -> int:
    """Return the least or greatest wide decimal: by its highest word, which comes first, among equals by the next."""
    highest, *lower = words
    word = best(highest)
    if not lower:
        return int(word)
    is_best = highest == word
    # The highest words of most columns are all 0, which is quicker to see than to select.
    below = _extreme(lower if is_best.all() else [column[is_best] for column in lower], best)
    return int(word) << 64 * len(lower) | below


def _bools(array: Array, valid: Mask) -> _Bounds:
    buffer = array_data.buffer_of(array, Role.DATA)
    if valid is None and buffer is not None:
        count = array_data.count_bits(buffer, array.offset, array.length)  # without a byte for each bit
        return int(count == array.length), int(count > 0)
    values = array_data.data_values(array)
    values = values if valid is None else values[valid]
    return int(values.all()), int(values.any())


def _offset_bytes(array: Array, valid: Mask) -> _Bounds:
    offsets = array_data.value_offsets(array)
    buffer = array_data.buffer_of(array, Role.BYTES)
    starts, lengths = offsets[:-1], offsets[1:] - offsets[:-1]
    if valid is not None:
        starts, lengths = starts[valid], lengths[valid]
    return _string_bounds(array_data.byte_values(buffer), starts, lengths)


def _equal_bytes(array: Array, valid: Mask) -> _Bounds:
    assert isinstance(array.type, t.FixedSizeBinary)
    width = array.type.byte_width
    count = array.length if valid is None else int(np.count_nonzero(valid))
    slots = np.arange(array.length, dtype=np.int64) if valid is None else np.flatnonzero(valid)
    region = array_data.byte_values(array_data.buffer_of(array, Role.DATA))
    return _string_bounds(region, (slots + array.offset) * width, np.full(count, width, np.int64))


def _view_bytes(array: Array, valid: Mask) -> _Bounds:
    """Return the bounds of views."""
    # Their inline bytes and all data buffers are copied into one region, so that one offset finds each string.
    slots = np.arange(array.length, dtype=np.int64) if valid is None else np.flatnonzero(valid)
    views = array_data.views(array)[slots]
    regions = [array_data.byte_values(buffer) for buffer in array.buffers[2:]]
    inline = np.frombuffer(views.tobytes(), np.uint8)
    begins = np.cumsum([len(inline), *(len(region) for region in regions)], dtype=np.int64)
    lengths = views["size"].astype(np.int64)
    is_long = lengths > array_data.VIEW_INLINE_NBYTES
    starts = np.arange(len(views), dtype=np.int64) * array_data.VIEW.itemsize + 4
    index = np.where(is_long, views["index"], 0)
    starts = np.where(is_long, begins[index] + views["offset"], starts)
    return _string_bounds(np.concatenate([inline, *regions]), starts, lengths)


@dataclass(frozen=True, slots=True)
class _Strings:
    """Strings in a region of bytes."""

    region: npt.NDArray[np.uint8]
    starts: _Numbers
    lengths: _Numbers

    def take(self, slots: _Numbers) -> _Strings:
        return _Strings(self.region, self.starts.take(slots), self.lengths.take(slots))

    def prefix(self, slot: int) -> bytes:
        """Return the first `_RETURNED` bytes of a string."""
        start, nbytes = int(self.starts[slot]), int(self.lengths[slot])
        return self.region[start : start + min(nbytes, _RETURNED)].tobytes()

    def gather(self, done: int, nbytes: int) -> npt.NDArray[np.void]:
        """Return `nbytes` bytes of each string after the first `done`; all strings must have them."""
        # A window at each byte of the region, without a copy, so that one index gathers strings of any width.
        count = len(self.region) - done - nbytes + 1
        windows = np.ndarray(count, f"V{nbytes}", self.region.data, done, strides=(1,))
        gathered: npt.NDArray[np.void] = windows[self.starts]
        return gathered

    def keys(self, done: int, nbytes: int) -> _Numbers:
        """Return one to eight bytes of each string after the first `done`, as numbers in the order of bytes."""
        if nbytes == 1:
            return self.region[done:].take(self.starts)
        words = self.gather(done, nbytes)
        if nbytes < _KEY:
            padded = np.zeros((len(words), _KEY), np.uint8)
            padded[:, :nbytes] = words.view(np.uint8).reshape(-1, nbytes)
            words = padded.reshape(-1).view("V8")
        keys: _Numbers = words.view("<u8").byteswap(inplace=True)  # big-endian numbers have the order of bytes
        return keys


@dataclass(frozen=True, slots=True)
class _Difference:
    """All strings share `done` bytes; then one string ends, or they differ in `keys`, of the next `nbytes`."""

    done: int
    keys: _Numbers | None = None
    nbytes: int = 0


def _string_bounds(region: npt.NDArray[np.uint8], starts: _Numbers, lengths: _Numbers) -> _Bounds:
    """Return the least and greatest string, each by its first `_RETURNED` bytes."""
    strings = _Strings(region, starts.astype(np.int64, copy=False), lengths)
    difference = _difference(strings, 0)
    return _extreme_string(strings, difference, min), _extreme_string(strings, difference, max)


def _extreme_string(strings: _Strings, difference: _Difference, best: Callable[[Iterable[bytes]], bytes]) -> bytes:
    """Return the least or greatest of strings from their first difference."""
    is_least = best is min
    while len(strings.starts) > _FEW:
        done, keys = difference.done, difference.keys
        if keys is not None:
            strings = strings.take(np.flatnonzero(keys == (keys.min() if is_least else keys.max())))
            done += difference.nbytes
        elif is_least or done >= _RETURNED or int(strings.lengths.max()) <= done:
            # The string that ends first is the least; beyond the returned bytes all strings are equal.
            return strings.prefix(int(strings.lengths.argmin()))
        else:
            strings = strings.take(np.flatnonzero(strings.lengths > done))
        if len(strings.starts) > _FEW:
            difference = _difference(strings, done)
    return best([strings.prefix(slot) for slot in range(len(strings.starts))])


def _difference(strings: _Strings, done: int) -> _Difference:
    """Find the first difference of strings that share `done` bytes."""
    # Most strings differ early, and one byte of each is gathered eight times as fast as eight or more. If a sample has a
    # long common prefix, as addresses have, all may have it: then many bytes are compared at once. Below `_MANY` strings,
    # eight bytes cost as little as one.
    shortest = min(int(strings.lengths.min()), _RETURNED)
    is_many = len(strings.starts) > _MANY
    while done < shortest:
        alike = _alike_in_some(strings, done, shortest) if is_many else 0
        if alike >= _KEY:
            nbytes = alike // _KEY * _KEY
            words = strings.gather(done, nbytes).view(np.uint64).reshape(-1, nbytes // _KEY)
            if all(bool((words[:, i] == words[0, i]).all()) for i in range(words.shape[1])):
                done += nbytes
                continue
        nbytes = min(_KEY, shortest - done) if alike >= _ALIKE or not is_many else 1
        keys = strings.keys(done, nbytes)
        if keys.min() != keys.max():
            return _Difference(done, keys, nbytes)
        done += nbytes
    return _Difference(done)


def _alike_in_some(strings: _Strings, done: int, end: int) -> int:
    """Return the number of bytes from `done`, up to `end`, that a sample of the strings shares."""
    some = strings.starts[:: max(1, len(strings.starts) // _SOME)].tolist()
    pieces = {strings.region[start + done : start + end].tobytes() for start in some}
    if len(pieces) == 1:
        return end - done
    # All share the common prefix of the least and the greatest.
    least, greatest = (np.frombuffer(piece, np.uint8) for piece in (min(pieces), max(pieces)))
    return int((least != greatest).argmax())


def _dictionary(array: Array, live: Mask) -> ValueSummary:
    assert array.dictionary is not None
    valid = valid_slots(array, live)
    indices = array_data.data_values(array)
    return _summarise_references(array.dictionary, indices if valid is None else indices[valid], array.length)


def _runs(array: Array) -> _Numbers:
    """Return the run of each slot."""
    ends = array_data.data_values(array.children[0])
    return np.searchsorted(ends, np.arange(array.offset, array.offset + array.length), side="right")


def _summarise_references(values: Array, positions: _Numbers, length: int) -> ValueSummary:
    """Summarise slots that refer to values by position; the other slots are null."""
    # Values that no slot refers to must not widen the bounds.
    used = np.zeros(values.length, np.bool_)
    used[positions] = True
    of_values = summarise(values, used)
    valid = _present(values)
    present = len(positions) if valid is None else int(np.count_nonzero(valid[positions]))
    nan_count = of_values.nan_count
    if nan_count and not isinstance(values.type, t.FloatingPoint):
        nan_count = None
    if nan_count:
        floats = array_data.data_values(values)
        nans = floats != floats  # noqa: PLR0124
        nans = nans if valid is None else nans & valid
        nan_count = int(np.count_nonzero(nans[positions]))
    return ValueSummary(length - present, nan_count, of_values.least, of_values.greatest)


def _present(array: Array) -> Mask:
    """Return the mask of slots that are not null and do not refer to a null."""
    valid = valid_slots(array, None)
    if isinstance(array.type, t.RunEndEncoded):
        of_runs = _present(array.children[1])
        return None if of_runs is None else of_runs[_runs(array)]
    of_values = _present(array.dictionary) if array.dictionary is not None else None
    if of_values is None:
        return valid
    present = np.ones(array.length, np.bool_) if valid is None else valid.copy()
    present[present] = of_values[array_data.data_values(array)[present]]
    return present


_SPECIAL: Final[Mapping[type[t.DataType], Callable[[Array, Mask], ValueSummary]]] = {
    t.Dictionary: _dictionary,
    t.RunEndEncoded: lambda array, live: _summarise_references(
        array.children[1], _runs(array) if live is None else _runs(array)[live], array.length
    ),
}
"""Types whose slots refer to values of a child or dictionary."""

_BOUNDS: Final[Mapping[type[t.DataType], Callable[[Array, Mask], _Bounds]]] = {
    t.Bool: _bools,
    t.Int: _numbers,
    t.FloatingPoint: _numbers,
    t.Decimal: _decimals,
    t.Date: _numbers,
    t.Time: _numbers,
    t.Timestamp: _numbers,
    t.Duration: _numbers,
    t.IntervalYearMonth: _numbers,
    t.FixedSizeBinary: _equal_bytes,
    t.Binary: _offset_bytes,
    t.LargeBinary: _offset_bytes,
    t.BinaryView: _view_bytes,
    t.Utf8: _offset_bytes,
    t.LargeUtf8: _offset_bytes,
    t.Utf8View: _view_bytes,
}
"""By type class: a function that returns the least and greatest of the valid slots; at least one slot is valid."""
