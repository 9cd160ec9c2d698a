"""Laws of arrays of every type, whatever their layout: cutting, joining, converting and back lose nothing."""

from itertools import pairwise

import numpy as np
import pytest
import strategies
from batch_difference import batch_difference
from hypothesis import given
from hypothesis import strategies as st

from spark_arrow_ipc.arrow import Array, RecordBatch, Schema, equality
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.kernels import concat
from spark_arrow_ipc.arrow.kernels import slice as slicing
from spark_arrow_ipc.arrow.kernels.compact import compact
from spark_arrow_ipc.arrow.layout import LAYOUTS, least_nbytes
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.arrow.validate import arrays as validate

UNIONS = (t.SparseUnion, t.DenseUnion)
CLASSES = [pytest.param(cls, id=cls.__name__) for cls in strategies.EVERY_CLASS]


def assert_same(expected, found):
    validate.check(found, "found")
    assert equality.difference(expected, found) is None


def test_strategies_are_total():
    assert set(LAYOUTS) == set(strategies.EVERY_CLASS) == set(strategies.ARRAYS)


@pytest.mark.slow
@pytest.mark.one_in(8)
@pytest.mark.parametrize("cls", CLASSES)
@given(st.data())
def test_drawn_array_is_sound_and_equal_to_itself(cls, data):
    """What the strategies make is the premise of everything below."""
    array = data.draw(strategies.arrays(strategies.types_of(cls)))
    assert_same(array, array)
    assert len(array.to_pylist()) == array.length


@pytest.mark.slow
@given(strategies.arrays())
def test_build_is_the_inverse_of_to_pylist(array):
    """Save for unions: a value does not tell which child it came from."""
    if strategies.holds(array.type, *UNIONS):
        return
    values = array.to_pylist()
    rebuilt = from_pylist.array(values, array.type)
    assert_same(array, rebuilt)
    assert repr(values) == repr(rebuilt.to_pylist())


@pytest.mark.slow
@given(strategies.arrays(), st.integers(0, 40), st.integers(0, 40))
def test_slice_holds_the_values_between(array, start, stop):
    start, stop = sorted(min(n, array.length) for n in (start, stop))
    part = array.slice(start, stop - start)
    validate.check(part, "part")
    assert repr(array.to_pylist()[start:stop]) == repr(part.to_pylist())


@pytest.mark.slow
@given(strategies.arrays())
def test_compact_keeps_the_values_and_no_more_bytes_than_they_need(array):
    compacted = compact(array)
    assert_same(array, compacted)
    assert 0 == compacted.offset
    for buffer, layout in zip(compacted.buffers, LAYOUTS[type(array.type)].buffers, strict=False):
        if buffer is not None and layout.role.name not in {"BYTES", "VARIADIC"}:
            assert buffer.nbytes <= max(least_nbytes(array.type, layout, array.length), layout.bit_width // 8)


@pytest.mark.slow
@given(strategies.arrays(), st.lists(st.integers(0, 40), max_size=4))
def test_parts_joined_are_the_whole(array, cuts):
    ends = [0, *sorted(min(cut, array.length) for cut in cuts), array.length]
    parts = [array.slice(i, j - i) for i, j in pairwise(ends)]
    assert_same(array, concat.concat(parts))


@pytest.mark.slow
@given(strategies.types(), strategies.generators, st.tuples(strategies.lengths, strategies.lengths))
def test_joined_arrays_are_found_in_the_whole(type_, rng, lengths):
    a, b = (strategies.random_array(rng, type_, length) for length in lengths)
    try:
        whole = concat.concat([a, b])
    except ValueError as error:
        if "ordered dictionary" not in str(error):
            raise
        return
    assert_same(a, whole.slice(0, a.length))
    assert_same(b, whole.slice(a.length))


@pytest.mark.slow
@given(strategies.batches(), st.lists(st.integers(0, 40), max_size=4), st.integers(1, 50))
def test_rechunked_batches_have_the_rows_of_the_whole(made, cuts, rows):
    (batch,) = made
    found = list(slicing.rechunk(strategies.portions(batch, cuts), rows=rows, nbytes=None))
    assert all(part.num_rows == rows for part in found[:-1])
    assert sum(part.num_rows for part in found) == batch.num_rows
    assert batch_difference(batch, concat.concat_batches(found)) is None


@pytest.mark.slow
@given(strategies.batches(), st.integers(1, 50), st.integers(1, 2000))
def test_split_batches_keep_to_their_budgets(made, rows, nbytes):
    (batch,) = made
    found = list(slicing.split_rows(batch, max_rows=rows, max_nbytes=nbytes))
    assert all(part.num_rows <= rows for part in found)
    assert batch_difference(batch, concat.concat_batches(found)) is None


@given(strategies.arrays())
def test_to_numpy_holds_as_many_values_as_slots(array):
    found = array.to_numpy()
    assert (array.length,) == found.shape
    if found.dtype == np.dtype(object):
        assert repr(array.to_pylist()) == repr(found.tolist())


@given(strategies.arrays(), strategies.arrays())
def test_arrays_differ_exactly_where_their_values_do(a, b):
    """`difference` is the oracle of other tests; its own is what Python says of the values."""
    if a.type != b.type:
        assert equality.difference(a, b) is not None
    elif not strategies.holds(a.type, *UNIONS):
        assert (repr(a.to_pylist()) == repr(b.to_pylist())) == (equality.difference(a, b) is None)


@pytest.mark.slow
@given(st.data(), strategies.generators)
def test_difference_agrees_with_python_on_arrays_of_one_type(data, rng):
    type_ = data.draw(strategies.types(2).filter(lambda type_: not strategies.holds(type_, *UNIONS)))
    length = data.draw(st.integers(0, 3))
    a, b = (strategies.random_array(rng, type_, length) for _ in range(2))
    assert (repr(a.to_pylist()) == repr(b.to_pylist())) == (equality.difference(a, b) is None)


def test_array_without_slots_ignores_what_its_value_offsets_say():
    """A file may hold one offset for no slots, and it need not be 0."""
    offsets = memoryview(np.array([5], np.int32).tobytes())
    array = Array(t.utf8, 0, 0, (None, offsets, memoryview(b"")))
    assert_same(array, compact(array))
    assert [] == array.to_pylist()


def test_bytes_of_runs_are_told_without_a_look_at_each_slot():
    most = 2**31 - 1
    ends = memoryview(np.array([3, most], np.int64).tobytes())
    run_ends = Array(t.int64, 2, 0, (None, ends))
    runs = Array(t.run_end_encoded(t.int64, t.utf8), most, 0, (), (run_ends, from_pylist.array(["abc", "z"], t.utf8)))
    batch = RecordBatch(Schema((t.Field("runs", runs.type),)), (runs,), most)
    first = next(slicing.split_rows(batch, max_rows=most, max_nbytes=64))
    # 7 or 5 bytes a slot: a value offset of 4, and the text.
    assert 3 * 7 + (first.num_rows - 3) * 5 <= 64 < 3 * 7 + (first.num_rows - 2) * 5 + 5
