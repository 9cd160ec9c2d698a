"""Convert lists of numbers to binary values, for ``vectors=binary``.

Strategy
--------
The numbers of all rows lie in one buffer, and so do the bytes of binary values: the buffer is shared, and the offsets
are those of the list times the bytes of a number. Nothing is copied but offsets.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import numpy_views
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.errors import SchemaMismatchError
from spark_arrow_ipc.spark.conform.conversion import (
    Conversion,
    Mask,
    Numbers,
    Site,
    narrowed,
    offsets,
    seen,
    valid,
    validity,
)
from spark_arrow_ipc.spark.conform.expected import expected_type
from spark_arrow_ipc.spark.types.vector_types import vector_element


def vector(field: t.Field, target: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of a list of numbers to binary; `field` has a `vector_element`."""
    to = expected_type(target, site.path)
    element = vector_element(field.type)
    assert element is not None
    width = numpy_views.dtype_of(element).itemsize
    own_offsets = _offsets_of(field.type)

    def convert(array: Array, live: Mask) -> pa.Array:
        own = own_offsets(array)
        start, stop = int(own[0]), int(own[-1])
        numbers = array.children[0].slice(start, stop - start)
        _check_no_nulls(numbers, array, live, own, site.path)
        data = numpy_views.data_values(numbers).view(np.uint8)
        narrow = narrowed((own.astype(np.int64) - start) * width, site.path)
        made = [validity(array), pa.py_buffer(narrow), pa.py_buffer(data)]
        return pa.Array.from_buffers(to, array.length, made, array.null_count)

    return Conversion(convert, checks=True)


def _offsets_of(type_: t.DataType) -> Callable[[Array], Numbers]:
    """Return a callback that gives the offsets of a list's rows in its child, ``length + 1``."""
    if isinstance(type_, t.FixedSizeList):
        size = type_.list_size
        return lambda array: (np.arange(array.length + 1, dtype=np.int64) + array.offset) * size
    dtype = np.dtype(np.int64 if isinstance(type_, t.LargeList) else np.int32)
    return lambda array: offsets(array, dtype)


def _check_no_nulls(numbers: Array, array: Array, live: Mask, own: Numbers, path: str) -> None:
    """Refuse a null among the numbers of a row that is not null itself."""
    present = valid(numbers)
    if present is None:
        return
    missing = ~present
    shown = seen(array, live)
    if shown is not None:
        missing &= np.repeat(shown, np.diff(own))
    if missing.any():
        row = int(np.searchsorted(own, int(own[0]) + int(missing.argmax()), side="right")) - 1
        raise SchemaMismatchError(
            f"the vector in slot {row:,} has a null among its numbers, which binary values cannot hold; read it without "
            "vectors=binary",
            field_path=path,
        )
