"""Portions of batches keep to their budgets of rows and bytes."""

import weakref

import numpy as np
import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
from arrow_cases import ARRAYS
from arrow_from_pyarrow import batch_from_pyarrow

from spark_arrow_ipc.arrow import Array, RecordBatch, Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.kernels import slice as slicing
from spark_arrow_ipc.errors import LimitError


def _decoded_nbytes(batch):
    """Bytes of a batch's text and numbers, by pyarrow's own count."""
    return sum(len(v or "") for c in batch.columns for v in c.to_pylist() if isinstance(v, str | None))


TEXT = [("x" * (i % 97)) if i % 11 else None for i in range(5000)]
TEXTS = {
    "utf8": pa.array(TEXT),
    "large_utf8": pa.array(TEXT, pa.large_string()),
    "utf8_view": pa.array(TEXT, pa.string_view()),
    "dictionary": pa.array(TEXT).dictionary_encode(),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array(range(1, 5001), pa.int32()), pa.array(TEXT)),
}


@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.no_cover
@pytest.mark.parametrize("max_nbytes", [1, 50, 1000, 10_000, 100_000, 10**9])
@pytest.mark.parametrize("name", TEXTS)
def test_portions_keep_to_their_bytes(name, max_nbytes):
    batch = batch_from_pyarrow(pa.record_batch([TEXTS[name], pa.array(range(5000))], ["s", "n"]))
    portions = list(slicing.split_rows(batch, max_rows=10**6, max_nbytes=max_nbytes))
    assert batch.num_rows == sum(portion.num_rows for portion in portions)
    assert TEXT == [v for portion in portions for v in portion.columns[0].to_pylist()]
    for portion in portions:
        assert portion.num_rows == 1 or _decoded_nbytes(portion) <= max_nbytes
    if max_nbytes == 10_000:
        # Numbers, offsets or views and text of a row take about 70 bytes.
        assert len(portions) < 5000 * 70 / max_nbytes * 1.5


def test_a_row_has_a_budget_and_the_rows_before_it_come_first():
    lists = pa.array([[1], [2], list(range(1000)), [3]], pa.list_(pa.int64()))
    batch = batch_from_pyarrow(pa.record_batch([pa.array(range(4)), lists], ["n", "l"]))
    budgets = {"max_rows": 10, "max_nbytes": 100}
    assert 4 == sum(part.num_rows for part in slicing.split_rows(batch, **budgets, most=slicing.MostNbytes(9000)))
    portions = slicing.split_rows(batch, **budgets, most=slicing.MostNbytes(7000))
    assert [[1], [2]] == [value for part in [next(portions)] for value in part.columns[1].to_pylist()]
    with pytest.raises(LimitError, match=r"field l: row 2 takes 8,0\d\d bytes .* budget of a row is 7,000"):
        next(portions)


def test_all_rows_have_a_budget_whatever_their_number():
    values = batch_from_pyarrow(
        pa.record_batch([pa.nulls(1000), pa.array(["x" * 1000] * 1000).dictionary_encode()], ["n", "d"])
    )
    budgets = {"max_rows": 10**6, "max_nbytes": 10**5, "slot_nbytes": [16, 0]}
    assert 1000 == sum(
        part.num_rows for part in slicing.split_rows(values, **budgets, most=slicing.MostNbytes(all=1_010_000))
    )
    with pytest.raises(
        LimitError, match=r"field d: the 1,000 rows take 1,0\d\d,\d{3} bytes .* all rows of a batch is 999,000"
    ):
        next(slicing.split_rows(values, **budgets, most=slicing.MostNbytes(all=999_000)))
    # The budget of a single row says more of one than that of all.
    with pytest.raises(LimitError, match="row 0 takes"):
        next(slicing.split_rows(values.slice(0, 1), **budgets, most=slicing.MostNbytes(100, 100)))


def test_slots_have_a_price_beside_their_bytes():
    batch = batch_from_pyarrow(pa.record_batch([pa.array(range(100)), pa.nulls(100)], ["n", "z"]))
    free, priced = (
        [part.num_rows for part in slicing.split_rows(batch, max_rows=1000, max_nbytes=1000, slot_nbytes=prices)]
        for prices in ([0, 0], [0, 12])
    )
    assert ([100], [50, 50]) == (free, priced)


def test_large_batches_are_not_joined_to_reach_a_number_of_rows():
    def batch(length):
        return batch_from_pyarrow(pa.record_batch([pa.array(range(length))], ["n"]))

    parts = [batch(10), batch(10), batch(1000), batch(10), batch(10)]
    joined = slicing.rechunk(parts, rows=10_000, nbytes=None, joined_nbytes=1000)
    assert [20, 1000, 20] == [part.num_rows for part in joined]


def test_portions_keep_to_their_rows():
    batch = batch_from_pyarrow(pa.record_batch([pa.array(range(10))], ["n"]))
    portions = slicing.split_rows(batch, max_rows=4, max_nbytes=10**9)
    assert [4, 4, 2] == [portion.num_rows for portion in portions]


def test_a_batch_within_the_budgets_is_itself():
    batch = batch_from_pyarrow(pa.record_batch([pa.array(range(10))], ["n"]))
    (portion,) = slicing.split_rows(batch, max_rows=10, max_nbytes=10**9)
    assert portion.columns[0] is batch.columns[0]


@pytest.mark.parametrize("name", ARRAYS)
def test_every_type_can_be_cut(name):
    batch = batch_from_pyarrow(pa.record_batch([ARRAYS[name]], ["f"]))
    portions = list(slicing.split_rows(batch, max_rows=4, max_nbytes=30))
    assert ARRAYS[name].to_pylist() == [v for portion in portions for v in portion.columns[0].to_pylist()]


def _batches(*lengths):
    start = 0
    for length in lengths:
        numbers = pa.array(range(start, start + length), pa.int64())
        yield batch_from_pyarrow(pa.record_batch([numbers], ["n"]))
        start += length


RECHUNKS = [
    # name, lengths, rows, nbytes, lengths of the result
    ("exact", [4, 4], 4, None, [4, 4]),
    ("joined", [1, 1, 1, 1, 1], 2, None, [2, 2, 1]),
    ("cut", [7], 3, None, [3, 3, 1]),
    ("cut and joined", [5, 1, 9], 4, None, [4, 4, 4, 3]),
    ("empty ones are dropped", [0, 2, 0, 2, 0], 4, None, [4]),
    ("only empty ones", [0, 0], 4, None, [0]),
    ("none", [], 4, None, []),
    ("as they are", [3, 0, 2], None, None, [3, 2]),
    ("bytes cut", [10], None, 32, [4, 4, 2]),
    ("bytes joined", [2, 2, 2, 2], None, 32, [4, 4]),
    ("bytes and rows", [10, 1, 1], 3, 32, [3, 3, 3, 3]),
    ("rows are filled where bytes allow", [10, 10, 10], 8, 1000, [8, 8, 8, 6]),
    ("bytes are not cut to fill", [3, 3, 3], 8, 32, [3, 3, 3]),
    ("a row larger than the bytes", [2, 1], 8, 4, [1, 1, 1]),
]


@pytest.mark.parametrize(
    ("lengths", "rows", "nbytes", "expected"), [r[1:] for r in RECHUNKS], ids=[r[0] for r in RECHUNKS]
)
def test_rechunk(lengths, rows, nbytes, expected):
    batches = list(slicing.rechunk(_batches(*lengths), rows=rows, nbytes=nbytes))
    assert expected == [batch.num_rows for batch in batches]
    assert list(range(sum(lengths))) == [v for batch in batches for v in batch.columns[0].to_pylist()]


def test_rechunk_does_not_copy_what_fits():
    batch = next(_batches(4))
    assert next(slicing.rechunk([batch], rows=4, nbytes=None)) is batch


@pytest.mark.parametrize(("rows", "nbytes"), [(0, None), (-1, None), (None, 0)])
def test_sizes_must_be_positive(rows, nbytes):
    with pytest.raises(ValueError, match="expected positive sizes"):
        next(slicing.rechunk([], rows=rows, nbytes=nbytes))


def test_a_batch_without_columns_keeps_its_rows():
    batch = RecordBatch(Schema(()), (), 10)
    assert [4, 4, 2] == [b.num_rows for b in slicing.rechunk([batch], rows=4, nbytes=None)]
    assert [10] == [b.num_rows for b in slicing.rechunk([batch], rows=None, nbytes=100)]


@pytest.mark.parametrize(
    "sizes", [{"rows": 2, "nbytes": None}, {"rows": 2, "nbytes": 100}, {"rows": None, "nbytes": None}]
)
def test_no_batch_stays_in_memory_until_the_last_one(sizes):
    """Before, the first one did."""
    owners = []

    def batches():
        for _ in range(4):
            numbers = np.zeros(2, np.int64)
            owners.append(weakref.ref(numbers))
            column = Array(t.int64, 2, 0, (None, memoryview(numbers).cast("B")))
            yield RecordBatch(Schema.of([t.field("a", t.int64)]), (column,), 2)
            del numbers, column

    alive = [sum(owner() is not None for owner in owners) for _ in slicing.rechunk(batches(), **sizes)]
    assert [1, 1, 1, 1] == alive
    assert 4 == len(owners)
