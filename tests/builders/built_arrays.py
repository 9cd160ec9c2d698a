"""Arrays of strings and views made of their buffers, which may hold anything: for tests of `arrow.validate`."""

import numpy as np

from spark_arrow_ipc.arrow import Array, array_data
from spark_arrow_ipc.arrow import types as t

BIG = 70_000
"""More slots than are checked at once."""


def buffer(values, dtype=np.uint8):
    return memoryview(np.array(values, dtype)).cast("B")


def text(offsets, data, type_=t.utf8, valid=None):
    width = np.int64 if type_ in (t.large_utf8, t.large_binary) else np.int32
    bits = None if valid is None else array_data.pack_bits(valid)
    nulls = 0 if valid is None else valid.count(False)
    return Array(type_, len(offsets) - 1, nulls, (bits, buffer(offsets, width), memoryview(data)))


def view(size, rest):
    return int(size).to_bytes(4, "little", signed=True) + rest.ljust(12, b"\0")


def long_view(size, prefix, index, offset):
    return view(size, prefix + index.to_bytes(4, "little", signed=True) + offset.to_bytes(4, "little", signed=True))


LONG = b"0123456789abcdefghij"
GREEN = ("grün" * 10).encode()


def views(*views, buffers=(LONG,), type_=t.utf8_view, valid=None):
    bits = None if valid is None else array_data.pack_bits(valid)
    nulls = 0 if valid is None else valid.count(False)
    return Array(type_, len(views), nulls, (bits, memoryview(b"".join(views)), *map(memoryview, buffers)))


GOOD = view(2, b"ok")
