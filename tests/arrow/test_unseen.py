"""Slots that no row can see hold the worst bytes there are: every path gives the rows, as pyarrow has them."""

import io
import itertools

import numpy as np
import pytest

pytest.importorskip("pyarrow")

import nanoarrow as na
import polars as pl
import pyarrow as pa
from arrow_cases import ARRAYS
from unseen_cases import CASES, IMPOSSIBLE, POISONS, WAYS, build, family, write_raw

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import Field, RecordBatch, Schema, distinct, equality, unseen
from spark_arrow_ipc.arrow.kernels import compact, concat, order, take
from spark_arrow_ipc.arrow.layout import LAYOUTS, Family
from spark_arrow_ipc.arrow.python_values import to_text
from spark_arrow_ipc.arrow.validate import arrays as validate
from spark_arrow_ipc.errors import InvalidBodyError

EVERY_CASE = pytest.mark.parametrize("case", CASES, ids=" ".join)


# The table


def test_the_table_is_total():
    families = {family(name) for name in ARRAYS}
    assert set(Family) == families
    assert set(LAYOUTS) == set(POISONS) == set(unseen._CLEAR)
    present = {(family(name), way) for name, way in CASES}
    assert {(family_, way) for family_ in Family for way in WAYS} == present | set(IMPOSSIBLE)
    assert not present & set(IMPOSSIBLE)


ANY_BYTES = {Family.NULL, Family.BITS, Family.FIXED_WIDTH, Family.FIXED_SIZE_LIST}
"""Families whose values may be any bytes; the fixed-size lists of the table are of numbers."""


def is_refused(array):
    try:
        validate.check_values(array, "f")
    except InvalidBodyError:
        return True
    return False


def test_the_bytes_are_wrong_where_a_row_sees_them():
    """A check that does not ask who sees a slot refuses them, in all other families and in every way."""
    refused = {case for case, (array, _) in CASES.items() if is_refused(array)}
    assert set(Family) - ANY_BYTES == {family(name) for name, way in refused if way != "in a null map"}
    assert set(WAYS) == {way for _, way in refused}


RANGES = {
    "one that is empty at the start": ([(0, 0), (2, 4)], {2, 3}),
    "overlapping, in any order": ([(5, 7), (1, 3), (2, 5)], {1, 2, 3, 4, 5, 6}),
    "apart": ([(1, 2), (3, 4)], {1, 3}),
    "beyond the end, and below the start": ([(-3, 1), (8, 99)], {0, 8}),
    "none": ([(3, 3), (4, 2)], set()),
}


@pytest.mark.parametrize(("ranges", "slots"), RANGES.values(), ids=RANGES)
def test_ranges_are_joined(ranges, slots):
    starts, stops = np.array(ranges).T
    joined = unseen._join_ranges(starts, stops, 9).tolist()
    assert slots == {slot for start, stop in joined for slot in range(start, stop)}


# Paths


def batch_of(array):
    return RecordBatch(Schema((Field("f", array.type),)), (array,), array.length)


def rows(batches_):
    return [row["f"] for batch in batches_ for row in batch.to_pylist()]


def raw(array, **options):
    sink = io.BytesIO()
    write_raw(sink, batch_of(array), **options)
    return sink.getvalue()


@pytest.mark.one_in(4, "exhaustive")
@EVERY_CASE
def test_files_are_read(case):
    array, expected = CASES[case]
    for form, codec in itertools.product(("file", "stream"), (None, "zstd")):
        data = raw(array, format=form, compression=codec)
        for validation in ("full", "structural"):
            assert expected == rows(ipc.open(data, validation=validation)), (form, codec, validation)


KERNELS = {
    "to_pylist": (lambda array: array.to_pylist(), lambda values: values),
    "to_text": (lambda array: len(to_text.to_text(array)), len),
    "validate": (lambda array: validate.check(array, "f"), lambda _: None),
    "take": (lambda array: take.take(array, np.arange(array.length)[::-1]).to_pylist(), lambda values: values[::-1]),
    "with_used_values": (lambda array: take.with_used_values(array).to_pylist(), lambda values: values),
    "compact": (lambda array: compact.compact(array.slice(1)).to_pylist(), lambda values: values[1:]),
    "concat": (lambda array: concat.concat([array, array]).to_pylist(), lambda values: values * 2),
    "difference": (lambda array: equality.difference(array, array), lambda _: None),
    "first_equal": (
        lambda array: [array.to_pylist()[i] for i in distinct.first_equal(array).tolist()],
        lambda values: values,
    ),
}


RUNS_OF_RUNS = {(name, "in a run that no row reaches") for name in ("run_end_int16", "run_end_int64")}
"""pyarrow takes no runs of runs from others."""


def lends(case):
    return case not in RUNS_OF_RUNS


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("case", [*filter(lends, CASES)], ids=" ".join)
def test_other_libraries_take_arrays_that_were_not_validated(case):
    array, values = CASES[case]
    assert values == rows([RecordBatch.from_arrow(batch_of(array), validation="structural")])
    assert values == rows([RecordBatch.from_arrow(batch_of(array))])


@pytest.mark.one_in(4, "exhaustive")
@EVERY_CASE
def test_kernels_take_arrays_that_were_not_validated(case):
    array, values = CASES[case]
    expected = {kernel: of_values(values) for kernel, (_, of_values) in KERNELS.items()}
    assert expected == {kernel: function(array) for kernel, (function, _) in KERNELS.items()}


SORTED = [case for case in CASES if order.has_order(CASES[case][0].type)]


@pytest.mark.parametrize("case", SORTED, ids=" ".join)
def test_rows_are_sorted(case):
    clean, _ = build(*case, clean=True)
    assert order.sort_rows([clean]).tolist() == order.sort_rows([CASES[case][0]]).tolist()


def written_back(array):
    sink = io.BytesIO()
    source = ipc.open(raw(array))
    ipc.write(sink, list(source), source.schema)
    return sink.getvalue()


WRITTEN = {
    "a file": ("file", "unify"),
    "a file with deltas": ("file", "delta"),
    "a stream": ("stream", "unify"),
    "a stream with deltas": ("stream", "delta"),
}


HAS_DICTIONARY = [case for case, (array, _) in CASES.items() if "dictionary<" in str(array.type)]


@pytest.mark.slow
@pytest.mark.parametrize("case", HAS_DICTIONARY, ids=" ".join)
@pytest.mark.parametrize("form", WRITTEN)
def test_batches_that_were_not_validated_are_written(case, form):
    """Dictionaries of several batches are compared and joined in full, also the values that no row uses."""
    format_, dictionaries = WRITTEN[form]
    array, expected = CASES[case]
    clean, _ = build(*case, clean=True)
    for arrays in ((array, clean), (clean, array)):
        sink = io.BytesIO()
        options = ipc.WriteOptions(format=format_, dictionaries=dictionaries)
        ipc.write(sink, map(batch_of, arrays), batch_of(array).schema, options)
        assert expected * 2 == rows(ipc.open(sink.getvalue()))


@pytest.mark.one_in(4, "exhaustive")
@EVERY_CASE
def test_pyarrow_reads_what_is_written_back(case):
    array, expected = CASES[case]
    table = pa.ipc.open_file(written_back(array)).read_all()
    table.validate()
    assert expected == table["f"].to_pylist()


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("case", [*filter(lends, CASES)], ids=" ".join)
def test_what_is_cleared_is_sound_to_pyarrow(case):
    array, expected = CASES[case]
    theirs = pa.array(unseen.clear_unseen(array))
    theirs.validate(full=True)
    assert expected == theirs.to_pylist()


def by_polars(data):
    return pl.read_ipc(io.BytesIO(data))["f"].to_list()


def by_nanoarrow(data):
    return list(na.ArrayStream.from_readable(io.BytesIO(data)).read_all().child(0).iter_py())


def outcome(read, data):
    try:
        return read(data)
    except BaseException as error:  # noqa: BLE001 - polars panics
        return type(error)


ADVANCES = {"dense_union"}
"""nanoarrow takes the next slot of a child for each row, wherever the row points, and finds no more."""


@pytest.mark.slow
@pytest.mark.parametrize(("read", "form", "least"), [(by_polars, "file", 45), (by_nanoarrow, "stream", 45)])
def test_others_read_what_is_written_back(read, form, least):
    """Those of the types that they read right from clean files."""
    right = 0
    for case, (array, expected) in CASES.items():
        clean, _ = build(*case, clean=True)
        # What is not refused stays as it is.
        if is_refused(array) and case[0] not in ADVANCES and expected == outcome(read, raw(clean, format=form)):
            sink = io.BytesIO()
            source = ipc.open(raw(array))
            ipc.write(sink, list(source), source.schema, ipc.WriteOptions(format=form))
            assert expected == outcome(read, sink.getvalue()), case
            right += 1
    assert least <= right
