"""Dictionaries by file: when the next file begins, and for which columns they pay. No session needed."""

from itertools import chain

import numpy as np
import pyarrow as pa
import pytest

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import SchemaMismatchError
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.write.batches import first_rows
from spark_arrow_ipc.spark.write.column_dictionary import ColumnDictionary
from spark_arrow_ipc.spark.write.file_dictionaries import FileDictionaries, choose_index


def texts(values):
    return pa.record_batch([pa.array(values, pa.string())], ["c"])


def encoded(index, *batches):
    """Return the numbers of the record batches of each file."""
    encoder = FileDictionaries({"c": t.Dictionary(index, t.int64)})(1 << 20)
    made = []
    for numbers in batches:
        batch = bridge.batch_from_pyarrow(pa.record_batch([pa.array(numbers)], ["c"]))
        while batch.num_rows:
            part = encoder.encode(batch) if made else None
            if part is None:
                encoder.begin()
                made.append([])
                part = encoder.encode(batch)
            part.validate()
            made[-1].append(part.columns[0].to_pylist())
            batch = batch.slice(part.num_rows)
    return made


MOST = 1 << 15
FULL = {
    "as many as 16 bits count": ([range(MOST)], [[range(MOST)]]),
    "one more begins a file": ([range(MOST), [5, MOST]], [[range(MOST)], [[5, MOST]]]),
    "known values do not": ([range(MOST), [5, 6]], [[range(MOST), [5, 6]]]),
    "a first batch is cut": (
        [range(MOST + 2)],
        [[range(MOST // 2 + 1)], [range(MOST // 2 + 1, MOST + 2)]],
    ),
}


@pytest.mark.parametrize("name", FULL)
def test_the_next_rows_begin_a_file_where_indices_count_no_more(name):
    batches, expected = FULL[name]
    assert [[[*each] for each in file] for file in expected] == encoded(t.int16, *map(list, batches))
    assert list(chain(*batches)) == [n for file in encoded(t.int16, *map(list, batches)) for each in file for n in each]


@pytest.mark.slow
def test_rows_of_a_large_batch_are_encoded_a_few_times(monkeypatch):
    """Before, all rows that were left were encoded again for each file: 800,000 took 15 times as long as 200,000."""
    seen = []
    encode = ColumnDictionary.encode
    monkeypatch.setattr(
        ColumnDictionary, "encode", lambda self, array: seen.append(array.length) or encode(self, array)
    )
    rows = 40 * MOST
    files = encoded(t.int16, range(rows))
    assert [*range(rows)] == [n for file in files for each in file for n in each]
    assert sum(seen) < 6 * rows


def test_narrow_indices_of_other_programs_are_an_error_instead():
    assert [[[*range(128)], [1]]] == encoded(t.int8, range(128), [1])
    with pytest.raises(SchemaMismatchError, match=r"field c: .*at most 128 different values.*found 129"):
        encoded(t.int8, range(128), [128])


def test_a_file_ends_before_its_dictionaries_are_too_large():
    encoder = FileDictionaries({"c": t.Dictionary(t.int32, t.utf8)})(1000)
    encoder.begin()
    batch = bridge.batch_from_pyarrow(texts(["x" * 500]))
    other = bridge.batch_from_pyarrow(texts(["y" * 600]))
    large = bridge.batch_from_pyarrow(texts(["z" * 9000]))
    assert encoder.encode(batch) is not None
    assert encoder.encode(batch) is not None
    assert encoder.encode(other) is None
    for first in (other, large):  # a first record batch has room, whatever its size
        encoder.begin()
        assert 1 == encoder.encode(first).columns[0].dictionary.length


@pytest.mark.parametrize(("nbytes", "batches"), [(1 << 30, 3), (2000, 2), (500, 1)])
def test_a_sample_ends_by_rows_or_bytes(nbytes, batches):
    source = (bridge.batch_from_pyarrow(texts(["x" * 100] * 10)) for _ in range(9))
    assert batches == len(list(first_rows(source, 30, nbytes)))


def pays_for(array):
    array = bridge.from_pyarrow(array)
    return choose_index([array.slice(i, min(1500, array.length - i)) for i in range(0, array.length, 1500)])


def words(numbers):
    return pa.array(np.char.add("value ", np.asarray(numbers).astype(str)))


RNG = np.random.default_rng(11)
PAYS = {
    "few values": (words(np.arange(10_000) % 100), t.int16),
    "eight of each": (words(np.arange(4_000) % 500), t.int16),
    "seven of each": (words(np.arange(3_500) % 500), t.int16),
    "four of each, one after another": (words(np.arange(40_000) // 4), None),
    "most values come in the first half": (words(RNG.integers(0, 8_000, 40_000)), t.int16),
    "few rows": (pa.array(["a"] * 999), None),
    "enough rows": (pa.array(["a"] * 1000), t.int16),
    "only nulls": (pa.nulls(10_000, pa.string()), None),
    "all different": (words(np.arange(10_000)), None),
    "numbers": (pa.array(RNG.integers(0, 2**40, 50)).take(pa.array(RNG.integers(0, 50, 9000))), t.int16),
    "numbers that all differ": (pa.array(RNG.random(60_000)), None),
    "16 bits": (pa.array(np.arange(9000) % 60, pa.int16()), None),
    "many values": (words(RNG.integers(0, 17_000, 40_000 * 8)), t.int32),
    "many of 32 bits": (pa.array(RNG.integers(0, 17_000, 40_000 * 8), pa.int32()), None),
    "few and large": (pa.array([f"{i}" * (1 << 18) for i in range(17)] * 64), None),
}


@pytest.mark.parametrize("name", PAYS)
def test_a_dictionary_pays_for_values_that_repeat(name):
    array, expected = PAYS[name]
    assert expected == pays_for(array)
