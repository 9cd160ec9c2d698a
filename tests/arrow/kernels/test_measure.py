"""Bytes that ranges of slots take, told without a copy."""

import pytest

pytest.importorskip("pyarrow")

from arrow_cases import ARRAYS, SLICES
from arrow_from_pyarrow import from_pyarrow

from spark_arrow_ipc.arrow.kernels import slice as slicing


def _bytes_held(array):
    own = sum(b.nbytes for b in array.buffers if b is not None)
    return own + sum(map(_bytes_held, array.children))


@pytest.mark.parametrize(("offset", "length"), SLICES)
@pytest.mark.parametrize("name", [n for n in ARRAYS if n not in ("list_view", "large_list_view")])
def test_nbytes_is_what_a_compact_copy_holds(name, offset, length):
    """Bitmaps are rounded up, value offsets are one more than slots, and a bitmap without nulls is left out."""
    array = from_pyarrow(ARRAYS[name]).slice(offset, length)
    assert abs(slicing.nbytes(array) - _bytes_held(slicing.compact(array))) <= 40
