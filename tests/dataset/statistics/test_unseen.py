"""Statistics are those of clean arrays: nulls, NaNs and bounds of what rows see, whatever unseen slots hold."""

import pytest

pytest.importorskip("pyarrow")

from statistics_cases import gathered
from unseen_cases import CASES, build

from spark_arrow_ipc.arrow import Field, RecordBatch, Schema
from spark_arrow_ipc.arrow.validate import arrays as validate
from spark_arrow_ipc.dataset.statistics import Statistics


def statistics(array):
    schema = Schema((Field("c", array.type),))
    return gathered([RecordBatch(schema, (array,), array.length)], Statistics.ALL)


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_statistics_are_those_of_clean_arrays(case):
    clean, _ = build(*case, clean=True)
    array, _ = CASES[case]
    assert statistics(clean) == statistics(validate.with_sound_values(array, "c"))
    # Sound values that nobody sees, as they are.
    if validate.with_sound_values(array, "c") is array:
        assert statistics(clean) == statistics(array)
