"""The tables of the benchmarks by kind: a schema, and the rows of one record batch of it, whichever batch it is.

Strategy
--------
A batch is made of the number of its first row alone, by numpy on whole columns: the same file comes out whatever was
made before, and 400 MB take seconds. Values of a column are spread so that neither codec nor Spark has an easy way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa

_NULL_SHARE = 0.05
_SHORTEST, _LONGEST = 4, 12
"""Characters of a text."""

_FIRST_INSTANT = 1_500_000_000_000_000
"""Microseconds: 14 July 2017."""

_CYRILLIC = 0x430
"""The first of 32 letters that UTF-8 writes in two bytes."""

_HAN = 0x4E00
"""The first of 512 characters used that UTF-8 writes in three bytes, the first of them 0xE4."""

LOW, HIGH = 100, 100_000
"""Values of the dictionaries."""

WIDE_COLUMNS, FORTY_COLUMNS = 1_000, 40


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of table.

    Parameters
    ----------
    schema
        Of its files.
    columns
        From a random generator, the number of the first row and the count of rows to the columns of a record batch.
    """

    schema: pa.Schema
    columns: Callable[[np.random.Generator, int, int], Sequence[pa.Array]]

    def batch(self, first: int, rows: int) -> pa.RecordBatch:
        """Return the rows from `first` on."""
        return pa.RecordBatch.from_arrays(self.columns(np.random.default_rng(first), first, rows), schema=self.schema)


def _texts(value_offsets: np.ndarray, data: np.ndarray) -> pa.Array:
    return pa.StringArray.from_buffers(len(value_offsets) - 1, pa.py_buffer(value_offsets), pa.py_buffer(data))


def _lengths(random: np.random.Generator, rows: int) -> np.ndarray:
    """Return the ends of texts of random lengths, in characters, behind a zero."""
    ends = np.zeros(rows + 1, np.int32)
    random.integers(_SHORTEST, _LONGEST, rows, endpoint=True, dtype=np.int32).cumsum(out=ends[1:])
    return ends


def _ascii(random: np.random.Generator, rows: int) -> pa.Array:
    ends = _lengths(random, rows)
    return _texts(ends, random.integers(ord("a"), ord("z"), ends[-1], endpoint=True, dtype=np.uint8))


def _two_bytes(random: np.random.Generator, rows: int) -> pa.Array:
    ends = _lengths(random, rows)
    points = random.integers(_CYRILLIC, _CYRILLIC + 32, ends[-1], dtype=np.uint16)
    return _texts(ends * 2, np.stack([0xC0 | points >> 6, 0x80 | points & 0x3F], axis=1).astype(np.uint8).reshape(-1))


def _three_bytes(random: np.random.Generator, rows: int) -> pa.Array:
    ends = _lengths(random, rows)
    points = random.integers(_HAN, _HAN + 512, ends[-1], dtype=np.uint16)
    parts = [0xE0 | points >> 12, 0x80 | points >> 6 & 0x3F, 0x80 | points & 0x3F]
    return _texts(ends * 3, np.stack(parts, axis=1).astype(np.uint8).reshape(-1))


def _numbers(random: np.random.Generator, first: int, rows: int) -> list[pa.Array]:
    quantity = pa.array(random.integers(0, 1000, rows, dtype=np.int32))
    amount = pa.array(random.random(rows), mask=random.random(rows) < _NULL_SHARE)
    name = _ascii(random, rows)
    at = pa.array(_FIRST_INSTANT + random.integers(0, 10**15, rows)).view(pa.timestamp("us", "UTC"))
    return [pa.array(np.arange(first, first + rows)), quantity, amount, name, at]


def _non_ascii(random: np.random.Generator, first: int, rows: int) -> list[pa.Array]:
    return [pa.array(np.arange(first, first + rows)), _two_bytes(random, rows), _three_bytes(random, rows)]


@cache
def _dictionary(values: int) -> pa.Array:
    return _ascii(np.random.default_rng(values), values)


def _encoded(values: int) -> Callable[[np.random.Generator, int, int], list[pa.Array]]:
    def columns(random: np.random.Generator, first: int, rows: int) -> list[pa.Array]:
        indices = pa.array(random.integers(0, values, rows, dtype=np.int32), mask=random.random(rows) < _NULL_SHARE)
        return [
            pa.array(np.arange(first, first + rows)),
            pa.DictionaryArray.from_arrays(indices, _dictionary(values)),
        ]

    return columns


def _nested(random: np.random.Generator, first: int, rows: int) -> list[pa.Array]:
    ends = np.zeros(rows + 1, np.int32)
    random.integers(0, 5, rows, dtype=np.int32).cumsum(out=ends[1:])
    items = int(ends[-1])
    place = pa.StructArray.from_arrays([pa.array(random.random(rows)), _ascii(random, rows)], ["x", "name"])
    part = pa.StructArray.from_arrays(
        [pa.array(random.integers(0, 100, items, dtype=np.int32)), pa.array(random.random(items))], ["n", "price"]
    )
    return [
        pa.array(np.arange(first, first + rows)),
        pa.ListArray.from_arrays(ends, pa.array(random.integers(0, 1 << 40, items))),
        place,
        pa.ListArray.from_arrays(ends, part),
    ]


def _columns_of_numbers(count: int) -> Kind:
    """Return a table of integers and doubles in turn; the first column counts the rows."""
    fields = [(f"c{i}", pa.float64() if i % 2 else pa.int64()) for i in range(count)]

    def columns(random: np.random.Generator, first: int, rows: int) -> list[pa.Array]:
        return [
            pa.array(np.arange(first, first + rows)),
            *(
                pa.array(random.random(rows) if i % 2 else random.integers(0, 1 << 40, rows))
                for i in range(1, count)
            ),
        ]  # fmt: skip

    return Kind(pa.schema(fields), columns)


_PART = pa.struct([("n", pa.int32()), ("price", pa.float64())])
_ENCODED = pa.schema([("id", pa.int64()), ("word", pa.dictionary(pa.int32(), pa.string()))])

KINDS: Mapping[str, Kind] = {
    "numbers": Kind(
        pa.schema(
            [
                ("id", pa.int64()),
                ("quantity", pa.int32()),
                ("amount", pa.float64()),
                ("name", pa.string()),
                ("at", pa.timestamp("us", "UTC")),
            ]
        ),
        _numbers,
    ),
    "non_ascii": Kind(pa.schema([("id", pa.int64()), ("name", pa.string()), ("city", pa.string())]), _non_ascii),
    "low": Kind(_ENCODED, _encoded(LOW)),
    "high": Kind(_ENCODED, _encoded(HIGH)),
    "nested": Kind(
        pa.schema(
            [
                ("id", pa.int64()),
                ("numbers", pa.list_(pa.int64())),
                ("place", pa.struct([("x", pa.float64()), ("name", pa.string())])),
                ("parts", pa.list_(_PART)),
            ]
        ),
        _nested,
    ),
    "wide": _columns_of_numbers(WIDE_COLUMNS),
    "forty": _columns_of_numbers(FORTY_COLUMNS),
}
"""By name."""
