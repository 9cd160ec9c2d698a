"""The bytes of variants, many at once: primitives, and the heads of objects and arrays.

A column of variants is an array of bytes, null where a value is missing. Lengths and positions are computed for all
rows together. Values of a fixed width are written into a matrix, numbers of differing widths one byte position at a
time, and pyarrow's kernels join the bytes of values. Parts have the names of VariantEncoding.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import InvalidBodyError, LimitError
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.convert.conversion import offsets_of_sizes

Octets = npt.NDArray[np.uint8]
Numbers = npt.NDArray[Any]

_MAX_OFFSET: Final = 2**31 - 1
_SHORT_STRING: Final = 64
"""Strings of fewer bytes have their length in the first byte."""

_MOST_SMALL: Final = 255
"""The most elements that an object or array counts with one byte."""

_TRUE, _FALSE, _DECIMAL4, _BINARY, _STRING, _UUID = 1, 2, 8, 15, 16, 20
_INTEGERS: Final = {8: 3, 16: 4, 32: 5, 64: 6}
_DIGITS_4, _DIGITS_8 = 9, 18
"""Digits of the decimals of 4 and of 8 bytes."""


def binary_array(offsets: Numbers, octets: Octets, present: npt.NDArray[np.bool_] | None, path: str) -> pa.Array:
    """Return an array of bytes from its offsets, bytes and validity."""
    check_size(int(offsets[-1]), path)
    bits = None if present is None else pa.py_buffer(np.packbits(present, bitorder="little"))
    buffers = [bits, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(octets)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def check_size(nbytes: int, path: str) -> None:
    """Refuse more bytes than Spark's 32-bit offsets count."""
    if nbytes > _MAX_OFFSET:
        raise LimitError(
            f"the variants of one batch take {nbytes:,} bytes, and Spark's value offsets end at {_MAX_OFFSET:,}; "
            "read it with extensionTypes=storage, or leave it out with the option columns",
            field_path=path,
        )


def present(array: pa.Array) -> npt.NDArray[np.bool_]:
    """Return the mask of the slots that are not null."""
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False), np.bool_)


def lengths(array: pa.Array) -> npt.NDArray[np.int64]:
    """Return the bytes of each value; 0 for nulls."""
    if not len(array):
        return np.zeros(0, np.int64)
    offsets, _ = parts(array)
    return np.where(present(array), np.diff(offsets), 0)


def parts(array: pa.Array) -> tuple[npt.NDArray[np.int64], Octets]:
    """Return the value offsets and the bytes of an array of bytes."""
    _, offsets, octets = array.buffers()
    if not len(array):
        return np.zeros(1, np.int64), np.zeros(0, np.uint8)
    numbers = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    return numbers, np.frombuffer(octets, np.uint8) if octets is not None else np.zeros(0, np.uint8)


def join_bytes(*arrays: pa.Array) -> pa.Array:
    """Join arrays of bytes row by row; a null has no bytes."""
    # Imported late: it takes long, and most tables do not need it.
    from pyarrow import compute

    return compute.binary_join_element_wise(*arrays, bridge.scalar(b"", pa.binary()), null_handling="skip")


def choose(mask: npt.NDArray[np.bool_], array: pa.Array, other: pa.Array | None) -> pa.Array:
    """Return the slots of `array` where a mask is true, and the slots of `other`, or nulls, elsewhere."""
    from pyarrow import compute

    return compute.if_else(bridge.numbers(mask), array, bridge.scalar(None, pa.binary()) if other is None else other)


def primitives(values: pa.Array, type_: t.DataType, path: str) -> pa.Array:
    """Return the variants of primitive values."""
    if isinstance(type_, t.FixedSizeBinary):
        encoded = _prefix_values(values, np.full((len(values), 1), _UUID << 2, np.uint8), path)
    elif pa.types.is_string(values.type):
        encoded = _strings(values.view(pa.binary()), path)
    elif pa.types.is_binary(values.type):
        encoded = _prefix_values(values, _size_headers(_BINARY, lengths(values)), path)
    elif pa.types.is_boolean(values.type):
        bits = values.fill_null(bridge.scalar(value=False, type_=pa.bool_())).to_numpy(zero_copy_only=False)
        encoded = _matrix(np.where(bits, _TRUE << 2, _FALSE << 2).astype(np.uint8)[:, None], values, path)
    else:
        encoded = _encode_numbers(values, type_, path)
    return encoded


def _encode_numbers(values: pa.Array, type_: t.DataType, path: str) -> pa.Array:
    """Return the variants of numbers: a header, for decimals a scale, and the number."""
    width = values.type.bit_width // 8
    raw = np.frombuffer(values.buffers()[1], np.uint8) if len(values) else np.zeros(0, np.uint8)
    numbers = raw[values.offset * width : (values.offset + len(values)) * width].reshape(len(values), width)
    if isinstance(type_, t.Decimal):
        size = (type_.precision > _DIGITS_4) + (type_.precision > _DIGITS_8)
        # Two's complement, little-endian: digits were checked before, so the lowest bytes hold the number.
        head, numbers = [(_DECIMAL4 + size) << 2, type_.scale], numbers[:, : 4 << size]
    else:
        head = [_primitive_type(type_) << 2]
    matrix = np.empty((len(values), len(head) + numbers.shape[1]), np.uint8)
    matrix[:, : len(head)] = head
    matrix[:, len(head) :] = numbers
    return _matrix(matrix, values, path)


def _primitive_type(type_: t.DataType) -> int:
    # VariantEncoding.md, "Encoding types".
    if isinstance(type_, t.Int):
        return _INTEGERS[type_.bit_width]
    if isinstance(type_, t.Timestamp):
        return 13 if type_.timezone is None else 12
    return {t.float64: 7, t.date32: 11, t.float32: 14}[type_]


def _matrix(matrix: Octets, values: pa.Array, path: str) -> pa.Array:
    rows, width = matrix.shape
    return binary_array(np.arange(rows + 1, dtype=np.int64) * width, matrix.reshape(-1), present(values), path)


def _strings(values: pa.Array, path: str) -> pa.Array:
    """Return the variants of strings, of which short ones have their length in the header."""
    nbytes = lengths(values)
    short = nbytes < _SHORT_STRING
    heads = _size_headers(_STRING, nbytes)
    offsets = offsets_of_sizes(np.where(short, 1, heads.shape[1]))
    heads[short, 0] = (nbytes[short] << 2) | 1
    # Short strings keep one byte of the five that were made for each.
    is_kept = np.ones(heads.shape, np.bool_)
    is_kept[short, 1:] = False
    return _with_heads(values, binary_array(offsets, heads[is_kept], None, path), path)


def _size_headers(primitive: int, nbytes: Numbers) -> Octets:
    """Return headers with a size of four bytes, of shape ``(rows, 5)``."""
    heads = np.empty((len(nbytes), 5), np.uint8)
    heads[:, 0] = primitive << 2
    heads[:, 1:] = nbytes.astype("<u4").view(np.uint8).reshape(-1, 4)
    return heads


def _prefix_values(values: pa.Array, heads: Octets, path: str) -> pa.Array:
    rows, width = heads.shape
    return _with_heads(
        values, binary_array(np.arange(rows + 1, dtype=np.int64) * width, heads.reshape(-1), None, path), path
    )


def _with_heads(values: pa.Array, heads: pa.Array, path: str) -> pa.Array:
    check_size(int(lengths(values).sum() + lengths(heads).sum()), path)
    return choose(present(values), join_bytes(heads, values), None)


def numbers_at(octets: Octets, positions: Numbers, widths: Numbers) -> npt.NDArray[np.int64]:
    """Read unsigned little-endian numbers of 1 to 4 bytes, each of its own width."""
    numbers = np.zeros(len(positions), np.int64)
    for byte in range(4):
        wide = np.flatnonzero(widths > byte)
        numbers[wide] |= octets[positions[wide] + byte].astype(np.int64) << (8 * byte)
    return numbers


def _write_numbers(octets: Octets, positions: Numbers, numbers: Numbers, widths: Numbers) -> None:
    for byte in range(4):
        wide = np.flatnonzero(widths > byte)
        octets[positions[wide] + byte] = (numbers[wide] >> (8 * byte)) & 0xFF


def _width(numbers: Numbers) -> npt.NDArray[np.int64]:
    """Return the bytes, 1 to 4, that unsigned numbers need."""
    return 1 + (numbers > 0xFF).astype(np.int64) + (numbers > 0xFFFF) + (numbers > 0xFFFFFF)


def heads(
    shown: npt.NDArray[np.bool_],
    rows: Numbers,
    starts: Numbers,
    totals: Numbers,
    path: str,
    *,
    ids: Numbers | None = None,
) -> pa.Array:
    """Return the heads of arrays, or with `ids` of objects: header, count, keys and offsets."""
    # For each element: its row, its start after the head, and its key; the keys of a row are in the order of names.
    counts = np.bincount(rows, minlength=len(shown))
    large = counts > _MOST_SMALL
    count_width = np.where(large, 4, 1)
    start_width = _width(totals)
    id_width = np.zeros(len(shown), np.int64)
    if ids is not None:
        most = np.zeros(len(shown), np.int64)
        np.maximum.at(most, rows, ids)  # the largest key sets the width for its row
        id_width = _width(most)
        first = 2 | ((start_width - 1) | ((id_width - 1) << 2) | (large.astype(np.int64) << 4)) << 2
    else:
        first = 3 | ((start_width - 1) | (large.astype(np.int64) << 2)) << 2
    ids_at = 1 + count_width
    starts_at = ids_at + counts * id_width
    nbytes = np.where(shown, starts_at + (counts + 1) * start_width, 0)
    offsets = offsets_of_sizes(nbytes)
    check_size(int(offsets[-1]), path)
    octets = np.zeros(int(offsets[-1]), np.uint8)
    slots = np.flatnonzero(shown)
    at = offsets[slots]
    octets[at] = first[slots]
    _write_numbers(octets, at + 1, counts[slots], count_width[slots])
    # One start more than elements: the end of the last.
    last_at = at + starts_at[slots] + counts[slots] * start_width[slots]
    _write_numbers(octets, last_at, totals[slots], start_width[slots])
    before = np.cumsum(counts) - counts
    nth = np.arange(len(rows)) - before[rows]
    at = offsets[rows]
    if ids is not None:
        _write_numbers(octets, at + ids_at[rows] + nth * id_width[rows], ids, id_width[rows])
    _write_numbers(octets, at + starts_at[rows] + nth * start_width[rows], starts, start_width[rows])
    return binary_array(offsets, octets, None, path)


# The keys of variants: the dictionaries in their metadata, read for many rows at once.
#
# Most rows share a few dictionaries, so each distinct one is read once. Their strings are one array of bytes over the
# metadata's own buffer, in which the strings of one dictionary are consecutive. The bytes between the strings of two
# dictionaries are an element of that array too, which is not a key. Every size and offset is checked before its use.
_SPEC: Final = "VariantEncoding.md, metadata"
_VERSION: Final = 1
_EMPTY: Final = b"\1\0\0"
"""Metadata without keys: the header, the number of keys, and the end of the last."""

_LEAST: Final = len(_EMPTY)


class Keys:
    """The keys in the metadata of some rows, and of the shredded fields; raises InvalidBodyError for broken metadata."""

    def __init__(self, metadata: pa.Array, names: Sequence[str], path: str) -> None:
        encoded = metadata.dictionary_encode()
        of_row = (
            encoded.indices.fill_null(bridge.scalar(0, encoded.indices.type))
            .to_numpy(zero_copy_only=False)
            .astype(np.int64)
        )
        self.path = path
        self._names = bridge.array([name.encode() for name in names], pa.binary())
        self._of_row = of_row
        # All rows may be null: metadata without keys stand for theirs.
        distinct = encoded.dictionary if len(encoded.dictionary) else bridge.array([_EMPTY], pa.binary())
        self._read(distinct, np.flatnonzero(present(metadata)))
        self._ranks: Numbers | None = None
        self._ids: Numbers = self._ids_of_names()

    def _read(self, distinct: pa.Array, shown: Numbers) -> None:
        """Read the strings of all distinct metadata."""
        offsets, octets = parts(distinct)
        starts, nbytes = offsets[:-1], np.diff(offsets)
        _check(nbytes >= _LEAST, f"metadata of at least {_LEAST} bytes", nbytes, self, shown)
        headers = octets[starts].astype(np.int64)
        _check(headers & 0xF == _VERSION, f"metadata of version {_VERSION}", headers & 0xF, self, shown)
        widths = (headers >> 6) + 1
        _check(1 + 2 * widths <= nbytes, "metadata with the number of keys and an offset", nbytes, self, shown)
        self._sizes = numbers_at(octets, starts + 1, widths)
        heads = 1 + widths * (self._sizes + 2)
        _check(heads <= nbytes, "metadata that hold an offset for each key", self._sizes, self, shown)
        counts = self._sizes + 1
        self._bases = np.cumsum(counts) - counts
        owners = np.repeat(np.arange(len(counts)), counts)
        nth = np.arange(len(owners)) - self._bases[owners]
        ends = numbers_at(octets, (starts + 1 + widths)[owners] + nth * widths[owners], widths[owners])
        falls = np.zeros(len(ends), np.bool_)
        # Within one dictionary the ends rise from 0 to at most its bytes.
        falls[1:] = (np.diff(ends) < 0) & (nth[1:] > 0)
        falls |= (nth == 0) & (ends != 0)
        falls |= ends > (nbytes - heads)[owners]
        wrong = np.zeros(len(counts), np.bool_)
        wrong[owners[falls]] = True
        _check(~wrong, "offsets of keys that begin at 0 and do not fall", self._sizes, self, shown)
        flat = (starts + heads)[owners] + ends
        buffers = [None, pa.py_buffer(flat.astype(np.int32)), pa.py_buffer(octets)]
        self._strings = pa.Array.from_buffers(pa.binary(), max(0, len(flat) - 1), buffers)
        self._owners, self._nth = owners[: len(self._strings)], nth[: len(self._strings)]

    def _ids_of_names(self) -> Numbers:
        """Return the key of each name in each of the distinct metadata, -1 without one."""
        from pyarrow import compute

        ids = np.full((len(self._sizes), len(self._names)), -1, np.int64)
        if len(self._names) and len(self._strings):
            name = compute.index_in(self._strings, value_set=self._names).fill_null(bridge.scalar(-1, pa.int32()))
            name = name.to_numpy()
            # Without the elements between two dictionaries.
            is_present = (name >= 0) & (self._nth < self._sizes[self._owners])
            ids[self._owners[is_present], name[is_present]] = self._nth[is_present]
        return ids

    def ids(self, name: int, rows: Numbers) -> Numbers:
        """Return the key of a shredded name in each of some rows, -1 without one."""
        return np.asarray(self._ids[self._of_row[rows], name])

    def counts(self, rows: Numbers) -> Numbers:
        """Return the number of keys of each of some rows."""
        return np.asarray(self._sizes[self._of_row[rows]])

    def ranks_of_names(self) -> Numbers:
        """Return the rank of each shredded name among all names."""
        return self._all_ranks()[len(self._strings) :]

    def ranks(self, rows: Numbers, ids: Numbers) -> Numbers:
        """Return the rank of keys among all names; `ids` must be below `counts` of their rows."""
        return np.asarray(self._all_ranks()[self._bases[self._of_row[rows]] + ids])

    def _all_ranks(self) -> Numbers:
        if self._ranks is None:
            # VariantEncoding.md: the fields of an object are in the order of the unsigned bytes of their names.
            encoded = pa.concat_arrays([self._strings, self._names]).dictionary_encode()
            from pyarrow import compute

            order = compute.sort_indices(encoded.dictionary).to_numpy()
            ranks = np.empty(len(order), np.int64)
            ranks[order] = np.arange(len(order))
            self._ranks = ranks[encoded.indices.to_numpy()]
        return self._ranks

    def row_of(self, distinct: int, shown: Numbers) -> int:
        """Return the first row that has one of the distinct metadata."""
        return int(shown[self._of_row[shown] == distinct][0])


def _check(sound: npt.NDArray[np.bool_], expected: str, actual: Numbers, keys: Keys, shown: Numbers) -> None:
    if not sound.all():
        wrong = int(np.flatnonzero(~sound)[0])
        actual_text = f"{actual[wrong]} in slot {keys.row_of(wrong, shown)}"
        raise InvalidBodyError(expected=expected, found=actual_text, field_path=keys.path, spec=_SPEC)
