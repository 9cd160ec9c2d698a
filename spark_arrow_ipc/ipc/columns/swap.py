"""Convert buffers to this machine's byte order and back, with one function for each `Swap`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow.layout import Swap
from spark_arrow_ipc.arrow.schema import Endianness

NATIVE: Final = Endianness.LITTLE if sys.byteorder == "little" else Endianness.BIG
"""This machine's byte order."""

_INLINE_MOST_NBYTES: Final = 12
"""The most bytes inside a view itself (Columnar.rst, "Variable-size Binary View Layout")."""


def _reverse_units(data: memoryview, *widths: int) -> memoryview:
    """Return `data` with every unit reversed; a slot consists of units of `widths` bytes."""
    slot_nbytes = sum(widths)
    whole = len(data) - len(data) % slot_nbytes
    swapped = np.frombuffer(data, np.uint8).copy()
    slots = swapped[:whole].reshape(-1, slot_nbytes)
    start = 0
    for width in widths:
        slots[:, start : start + width] = slots[:, start : start + width][:, ::-1].copy()
        start += width
    return swapped.data


def _swap_views(data: memoryview, _: int, *, from_native: bool = False) -> memoryview:
    swapped = np.frombuffer(data, np.uint8).copy()
    slots: npt.NDArray[Any] = swapped[: len(data) - len(data) % 16].reshape(-1, 16)
    before = slots[:, 0:4].copy()
    slots[:, 0:4] = before[:, ::-1]
    native = before if from_native else slots[:, 0:4].copy()
    long = native.view(np.int32)[:, 0] > _INLINE_MOST_NBYTES
    for start in (8, 12):
        slots[long, start : start + 4] = slots[long, start : start + 4][:, ::-1]
    return swapped.data


SWAPS: Final[Mapping[Swap, Callable[[memoryview, int], memoryview]]] = {
    Swap.NONE: lambda data, _: data,
    Swap.UNIT: lambda data, bit_width: _reverse_units(data, bit_width // 8) if bit_width > 8 else data,
    Swap.DAY_TIME: lambda data, _: _reverse_units(data, 4, 4),
    Swap.MONTH_DAY_NANO: lambda data, _: _reverse_units(data, 4, 4, 8),
    Swap.VIEWS: _swap_views,
}
"""By `Swap`: a function of bytes and the bit width of a slot that gives new bytes."""

SWAPS_FROM_NATIVE: Final[Mapping[Swap, Callable[[memoryview, int], memoryview]]] = {
    **SWAPS,
    Swap.VIEWS: partial(_swap_views, from_native=True),
}
"""The same for bytes in this machine's order: a view is long or not by its size."""
