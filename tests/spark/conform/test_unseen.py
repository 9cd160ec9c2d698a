"""Conversions give Spark what rows see, whatever the slots hold that no row can see."""

from dataclasses import replace

import pytest
from conform_batches import DEFAULT, batch_of
from unseen_cases import CASES, build

from spark_arrow_ipc.arrow.validate import arrays as validate
from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.ipc.constants import Validation
from spark_arrow_ipc.spark.conform import compile_conform
from spark_arrow_ipc.spark.options.values import Nanoseconds, Times
from spark_arrow_ipc.spark.types import arrow_to_spark

OPTIONS = {
    "full": DEFAULT,
    "structural": replace(DEFAULT, validation=Validation.STRUCTURAL),
    "small batches": replace(DEFAULT, output_batch_rows=2),
    "other types": replace(DEFAULT, nanoseconds=Nanoseconds.LONG, times=Times.INTERVAL),
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


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_rows_are_those_of_clean_arrays(case, options):
    clean, _ = build(*case, clean=True)
    array, _ = CASES[case]
    if options != "structural":
        array = validate.with_sound_values(array, "c")
    assert outcome(clean, OPTIONS[options]) == outcome(array, OPTIONS[options])
