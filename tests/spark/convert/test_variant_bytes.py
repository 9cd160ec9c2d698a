"""The bytes of variants: primitives by hand, numbers of any width, and the heads of objects and arrays."""

import mmap

import numpy as np
import pyarrow as pa
import pytest
from variant_values import decoded

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import LimitError
from spark_arrow_ipc.spark.convert import variant_bytes

NO_KEYS = b"\1\0\0"
PRIMITIVES = [
    ("true and false", pa.array([True, None, False]), t.bool_, [b"\4", None, b"\x08"]),
    ("a number", pa.array([-2, None], pa.int16()), t.int16, [b"\x10\xfe\xff", None]),
    ("sliced numbers", pa.array([9, 1, 2], pa.int8()).slice(1), t.int8, [b"\x0c\1", b"\x0c\2"]),
    (
        "a decimal",
        pa.array([-1], pa.decimal128(5, 2)).cast(pa.decimal128(5, 2)),
        t.Decimal(5, 2),
        [b"\x20\2\x9c\xff\xff\xff"],
    ),
    ("an empty string", pa.array(["", None]), t.utf8, [b"\1", None]),
    ("a string of 63 bytes", pa.array(["s" * 63]), t.utf8, [b"\xfd" + b"s" * 63]),
    ("a string of 64 bytes", pa.array(["x", "s" * 64]), t.utf8, [b"\5x", b"\x40\x40\0\0\0" + b"s" * 64]),
    ("bytes", pa.array([b"\0", b"", None]), t.binary, [b"\x3c\1\0\0\0\0", b"\x3c\0\0\0\0", None]),
    ("a UUID", pa.array([bytes(16), None]), t.FixedSizeBinary(16), [b"\x50" + bytes(16), None]),
    ("no rows", pa.array([], pa.int64()), t.int64, []),
]


@pytest.mark.parametrize(("values", "type_", "expected"), [c[1:] for c in PRIMITIVES], ids=[c[0] for c in PRIMITIVES])
def test_primitives(values, type_, expected):
    assert expected == variant_bytes.primitives(values, type_, "c").to_pylist()


def test_numbers_of_any_width():
    octets = np.arange(1, 11, dtype=np.uint8)
    found = variant_bytes.numbers_at(octets, np.array([0, 1, 3, 6]), np.array([1, 2, 3, 4]))
    assert [0x01, 0x0302, 0x060504, 0x0A090807] == found.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("count", [0, 1, 255, 256, 70_000])
def test_the_head_of_an_array(count):
    shown = np.array([True, False, True])
    rows, starts = np.full(count, 2), np.arange(count)
    (empty, none, head) = variant_bytes.heads(shown, rows, starts, np.array([0, 0, count]), "c").to_pylist()
    assert ("array", []) == decoded(NO_KEYS, empty)
    assert b"" == none
    assert ("array", [("null", None)] * count) == decoded(NO_KEYS, head + bytes(count))


def test_more_bytes_than_spark_holds_are_an_error_with_a_way_out():
    octets = np.frombuffer(mmap.mmap(-1, 1 << 31), np.uint8)
    with pytest.raises(LimitError, match=r"field c: .*2,147,483,648 bytes.*extensionTypes=storage"):
        variant_bytes.binary_array(np.array([0, 1 << 31]), octets, None, "c")
