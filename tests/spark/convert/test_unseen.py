"""Conversions give Spark what rows see, whatever the slots hold that no row can see."""

from dataclasses import replace

import numpy as np
import pytest
from built_arrays import buffer, views
from convert_batches import DEFAULT, batch_of, converted
from unseen_cases import CASES, build

from spark_arrow_ipc.arrow import Array, Field, array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.arrow.validate import arrays as validate
from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.ipc.constants import Validation
from spark_arrow_ipc.spark.convert import compile_converter, plan
from spark_arrow_ipc.spark.options.values import Nanoseconds, Times
from spark_arrow_ipc.spark.types import arrow_to_spark

OPTIONS = {
    "full": DEFAULT,
    "structural": replace(DEFAULT, validation=Validation.STRUCTURAL),
    "small batches": DEFAULT,
    "other types": replace(DEFAULT, nanoseconds=Nanoseconds.LONG, times=Times.INTERVAL),
}


def rows(array, options):
    batch = batch_of(array)
    promised = arrow_to_spark.spark_schema(batch.schema, options)
    return [
        row for made in compile_converter(batch.schema, promised, options).convert(batch) for row in made.to_pylist()
    ]


def outcome(array, options):
    try:
        return rows(array, options)
    except ArrowIpcError as error:
        return str(error)


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_rows_are_those_of_clean_arrays(case, options, monkeypatch):
    monkeypatch.setattr(plan, "MAX_ROWS", 2 if options == "small batches" else plan.MAX_ROWS)
    clean, _ = build(*case, clean=True)
    array, _ = CASES[case]
    if options != "structural":
        array = validate.with_sound_values(array, "c")
    assert outcome(clean, OPTIONS[options]) == outcome(array, OPTIONS[options])


NULL_VIEWS = {"of a negative size": b"\xff" * 16, "of 2 GB": b"\x7f" * 16}


@pytest.mark.parametrize("view", NULL_VIEWS)
def test_null_views_may_have_any_size(view):
    """pyarrow asks for the memory of their sizes, and crashes where it is below 0."""
    array = views(b"\1\0\0\0a" + bytes(11), NULL_VIEWS[view], b"\1\0\0\0b" + bytes(11))
    array = replace(array, null_count=1, buffers=(array_data.pack_bits([True, False, True]), *array.buffers[1:]))
    validate.check(array, "c")
    assert ["a", None, "b"] == converted(array).to_pylist()
    assert [None, "b"] == converted(array.slice(1)).to_pylist()


MANY = 2**31 - 1


def lists(*sizes):
    buffers = (None, buffer([0] * len(sizes), np.int32), buffer(sizes, np.int32))
    return Array(t.ListView(Field("item", t.int64)), len(sizes), 0, buffers, (from_pylist.array([7], t.int64),))


def struct_of(child, valid):
    type_ = t.Struct((Field("x", child.type),))
    return Array(type_, len(valid), valid.count(False), (array_data.pack_bits(valid),), (child,))


def first_of(dictionary):
    return Array(t.dictionary(t.int8, dictionary.type), 1, 0, (None, buffer([0], np.int8)), dictionary=dictionary)


LATE = {
    "behind rows that Spark has": (struct_of(lists(1, 1, MANY), [True, True, False]), [{"x": [7]}, {"x": [7]}, None]),
    "in a dictionary of dictionaries": (first_of(struct_of(first_of(lists(1, MANY)), [True])), [{"x": [7]}]),
}


@pytest.mark.parametrize("name", LATE)
@pytest.mark.parametrize("rows_of_a_batch", [1, 2, 100])
def test_sizes_that_no_row_sees_are_late_in_a_batch_that_was_not_validated(name, rows_of_a_batch, monkeypatch):
    array, expected = LATE[name]
    options = replace(DEFAULT, validation=Validation.STRUCTURAL)
    monkeypatch.setattr(plan, "MAX_ROWS", rows_of_a_batch)
    assert expected == [row["c"] for row in rows(array, options)]
