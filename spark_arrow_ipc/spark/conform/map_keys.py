"""Apply the option `mapKeys` to duplicate keys of maps.

Strategy
--------
Spark does not check the keys of maps that come from Arrow. Here they become numbers, equal for equal keys
(-0.0 equals 0.0, NaN equals NaN, as in Spark): their own bits if they have a fixed width, else by pyarrow's
dictionary encoding. In small maps every entry is compared with those after it,
one numpy comparison for each distance; in larger ones (map, number) pairs are sorted. Only keys of a nested type
become Python values.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_arrow_ipc.arrow.numpy_views import comparable_floats
from spark_arrow_ipc.errors import SchemaMismatchError
from spark_arrow_ipc.spark import pyarrow_values
from spark_arrow_ipc.spark.options.values import MapKeys

Longs: TypeAlias = npt.NDArray[np.int64]
Numbers: TypeAlias = npt.NDArray[Any]

_SMALL_MAP = 16
"""Entries up to which comparing all pairs is cheaper than hashing and sorting (measured: 0.4 ms a million and lag)."""


def distinct_entries(keys: pa.Array, sizes: Longs, rule: MapKeys, path: str) -> tuple[Longs, Longs, Longs] | None:
    """Return the positions of the keys that stay, those of their last values, and the new sizes; None if all stay.

    `keys` are those of all maps, one after the other; `sizes` count the entries of each map.
    """
    if len(keys) == 0 or sizes.max() <= 1:
        return None
    maps = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
    bits = _bits(keys)
    if bits is not None and not _may_repeat(bits, maps, int(sizes.max())):
        return None
    codes, kinds = _codes(keys)
    if kinds == len(keys) or not _may_repeat(codes, maps, int(sizes.max())):
        return None
    # Maps and keys are counted in 32 bits, so that their product stays within 63.
    pairs = maps * kinds + codes
    order = np.argsort(pairs, kind="stable")
    ordered = pairs[order]
    changes = ordered[1:] != ordered[:-1]
    if changes.all():
        return None
    if rule is MapKeys.ERROR:
        entry = int(order[1:][~changes].min())
        raise SchemaMismatchError(
            f"a map holds the key {keys[entry].as_py()!r} twice (slot {maps[entry]}), which Spark's maps do not; "
            "read it with mapKeys=lastWins to keep the last value",
            field_path=path,
        )
    firsts = order[np.concatenate(([True], changes))]
    lasts = order[np.concatenate((changes, [True]))]
    # Spark's own LAST_WIN keeps the place of the first entry and the value of the last one.
    place = np.argsort(firsts)
    firsts, lasts = firsts[place], lasts[place]
    return firsts, lasts, np.bincount(maps[firsts], minlength=len(sizes)).astype(np.int64)


def _may_repeat(numbers: Numbers, maps: Longs, largest: int) -> bool:
    """Return True if a map may have a duplicate number, which large maps always may.

    In small maps every entry is compared with those after it.
    """
    if largest > _SMALL_MAP:
        return True
    return any(
        bool(((numbers[lag:] == numbers[:-lag]) & (maps[lag:] == maps[:-lag])).any()) for lag in range(1, largest)
    )


def _bits(keys: pa.Array) -> Numbers | None:
    """Return keys of a fixed width as integers, equal for equal keys; None for other keys."""
    if pa.types.is_floating(keys.type):
        keys = _normal_floats(keys)
    if not (pa.types.is_integer(keys.type) or pa.types.is_temporal(keys.type)):
        return None
    bits: Numbers = keys.view(f"int{keys.type.bit_width}").to_numpy(zero_copy_only=False)
    return bits


def _codes(keys: pa.Array) -> tuple[Longs, int]:
    """Return one number for each key, equal for equal keys, and the count of numbers."""
    if pa.types.is_nested(keys.type):
        return _nested_codes(keys)
    if pa.types.is_floating(keys.type):
        keys = _normal_floats(keys)
    encoded = keys.dictionary_encode()
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(encoded.dictionary)


def _normal_floats(keys: pa.Array) -> pa.Array:
    """Return floats with one zero and one NaN, as integers of the same bits."""
    values = comparable_floats(keys.to_numpy(zero_copy_only=False))
    return pyarrow_values.numbers(values.view(f"i{values.dtype.itemsize}"))


def _nested_codes(keys: pa.Array) -> tuple[Longs, int]:
    numbers: dict[Any, int] = {}
    codes = [numbers.setdefault(_hashable(key), len(numbers)) for key in keys.to_pylist()]
    return np.array(codes, np.int64), len(numbers)


def _hashable(value: object) -> Any:
    """Return a hashable value that is equal for equal keys, NaN included."""
    if isinstance(value, dict):
        return tuple((name, _hashable(part)) for name, part in value.items())
    if isinstance(value, list):
        return ("list", *map(_hashable, value))
    if isinstance(value, float):
        return ("float", "nan") if value != value else ("float", value)  # noqa: PLR0124 - NaN alone differs from itself
    return value
