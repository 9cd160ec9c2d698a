"""Conversions give Spark what rows see, whatever the slots hold that no row can see."""

from dataclasses import replace

import pytest
from built_arrays import views
from conform_batches import DEFAULT, batch_of, conformed
from unseen_cases import CASES, build

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow.validate import arrays as validate
from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.ipc.constants import Validation
from spark_arrow_ipc.spark.conform import compile_conform
from spark_arrow_ipc.spark.options.values import MapKeys, Nanoseconds, Times
from spark_arrow_ipc.spark.types import arrow_to_spark

OPTIONS = {
    "full": DEFAULT,
    "structural": replace(DEFAULT, map_keys=MapKeys.LAST_WINS, validation=Validation.STRUCTURAL),
    "small batches": replace(DEFAULT, output_batch_rows=2),
    "other types": replace(DEFAULT, nanoseconds=Nanoseconds.LONG, times=Times.INTERVAL, map_keys=MapKeys.LAST_WINS),
}


def rows(array, options):
    batch = batch_of(array)
    promised = arrow_to_spark.spark_schema(batch.schema, options)
    return [row for made in compile_conform(batch.schema, promised, options).conform(batch) for row in made.to_pylist()]


def outcome(array, options):
    try:
        return rows(array, options)
    except ArrowIpcError as error:
        return str(error)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_rows_are_those_of_clean_arrays(case, options):
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
    assert ["a", None, "b"] == conformed(array).to_pylist()
    assert [None, "b"] == conformed(array.slice(1)).to_pylist()
