"""The least and the greatest string of an array."""

import random

import pyarrow as pa
import pytest
from arrow_from_pyarrow import batch_from_pyarrow
from statistics_cases import batch_of

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.statistics.min_max import summarise


def found_and_known(values, first=0):
    """Return what is found of texts, as far as it is kept, and what Python finds."""
    found = summarise(batch_of(t.binary, *values).columns[0].slice(first))
    known = [value for value in values[first:] if value is not None]
    return [end[:72] if end is not None else None for end in (found.least, found.greatest)], [
        best(known)[:72] if known else None for best in (min, max)
    ]


def test_texts_are_ordered_as_python_orders_them():
    r = random.Random(3)
    for _ in range(300):
        prefix = bytes(r.choices(b"ab\0\xff", k=r.choice([0, 3, 8, 17, 70])))
        values = [
            prefix + bytes(r.choices(b"\0ab\xff", k=r.choice([0, 1, 7, 8, 20]))) for _ in range(r.choice([1, 3, 40]))
        ]
        values[r.randrange(len(values))] = None if len(values) > 1 else values[0]
        found, known = found_and_known(values, r.randrange(len(values)))
        assert found == known


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("shared", [0, 1, 5, 8, 9, 24, 31, 70, 80])
@pytest.mark.parametrize("width", [0, 1, 6, 20])
def test_many_texts_that_are_alike_for_long(shared, width):
    r = random.Random(shared + width)
    prefix = bytes(r.choices(b"abc", k=shared))
    values = [prefix + bytes(r.choices(b"\0ab\xff", k=r.randint(width // 2, width))) for _ in range(5000)]
    found, known = found_and_known(values)
    assert found == known
    for place, byte in ((0, 0x00), (0, 0xFF), (7, 0x7F), (8, 0x00), (shared - 1, 0xFF)):
        # One among many, which a look at a few of them does not see.
        odd = bytearray(prefix + b"x")
        odd[place % len(odd)] = byte
        found, known = found_and_known([*values[:-3], bytes(odd), *values[-3:]])
        assert found == known
        shorter = [*values[:-3], bytes(odd[: place % len(odd)]), *values[-3:]]
        found, known = found_and_known(shorter)
        assert found == known


SUMMARIES = [
    ("numbers", t.int16, (3, None, -4), 1, None, -4, 3),
    ("floats", t.float64, (1.5, float("nan"), None, -0.0), 1, 1, 0.0, 1.5),
    ("only_nan", t.float32, (float("nan"),), 0, 1, None, None),
    ("strings", t.utf8, ("b", None, "ab"), 1, None, b"ab", b"b"),
    ("dictionary", t.dictionary(t.int8, t.utf8), ("b", None, "a"), 1, None, b"a", b"b"),
    ("nothing", t.int64, (None, None), 2, None, None, None),
]


WORDS = pa.DictionaryArray.from_arrays([0, 1, 2, None, 0], ["b", None, "a"])
FLOATS = pa.DictionaryArray.from_arrays([1, 0, 2], pa.array([float("nan"), 1.5, None]))
ENCODED_TWICE = [
    ("dictionary with a null", WORDS),
    ("runs of a dictionary with a null", pa.RunEndEncodedArray.from_arrays([2, 5, 6, 7, 9], WORDS)),
    ("the middle of such runs", pa.RunEndEncodedArray.from_arrays([2, 5, 6, 7, 9], WORDS).slice(3, 4)),
    ("runs of a dictionary with NaN", pa.RunEndEncodedArray.from_arrays([2, 5, 6], FLOATS)),
    ("runs of nothing", pa.RunEndEncodedArray.from_arrays([2, 4], WORDS.take(pa.array([1, 3])))),
]


@pytest.mark.parametrize("array", [pytest.param(array, id=name) for name, array in ENCODED_TWICE])
def test_a_null_inside_a_dictionary_or_run_counts_for_each_slot(array):
    summary = summarise(batch_from_pyarrow(pa.record_batch({"a": array})).columns[0])
    values = array.to_pylist()
    known = [value for value in values if value is not None and value == value]
    assert values.count(None) == summary.null_count
    found = [end.decode() if isinstance(end, bytes) else end for end in (summary.least, summary.greatest)]
    assert [best(known, default=None) for best in (min, max)] == found


@pytest.mark.parametrize(
    ("type_", "values", "nulls", "nans", "least", "greatest"),
    [pytest.param(*case[1:], id=case[0]) for case in SUMMARIES],
)
def test_an_array_is_summarised(type_, values, nulls, nans, least, greatest):
    summary = summarise(batch_of(type_, *values).columns[0])
    assert (nulls, nans, least, greatest) == (summary.null_count, summary.nan_count, summary.least, summary.greatest)
