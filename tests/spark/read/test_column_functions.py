"""Functions of columns against Python's dates and strings."""

import datetime as dt

import pyarrow as pa
import pytest

from spark_arrow_ipc.dataset.predicate.bound import ARGUMENTS
from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark.read.column_functions import COLUMN_FUNCTIONS

DATES = [
    dt.date(1, 1, 1),
    dt.date(1969, 12, 31),
    None,
    dt.date(1970, 1, 1),
    dt.date(2024, 2, 29),
    dt.date(9999, 12, 31),
]


def test_each_function_has_an_argument():
    assert set(COLUMN_FUNCTIONS) == set(ARGUMENTS)


@pytest.mark.parametrize("part", ["year", "month", "day"])
def test_parts_of_dates(part):
    expected = [date and getattr(date, part) for date in DATES]
    assert pa.array(expected, pa.int32()) == COLUMN_FUNCTIONS[part.upper()](pa.array(DATES, pa.date32()))
    assert expected[1:4] == COLUMN_FUNCTIONS[part.upper()](pa.array(DATES, pa.date32()).slice(1, 3)).to_pylist()


def test_years_beyond_those_of_python():
    far = pa.array([2**31 - 1, -(2**31)], pa.int32()).view(pa.date32())
    assert [5_881_580, -5_877_641] == COLUMN_FUNCTIONS["YEAR"](far).to_pylist()


@pytest.mark.parametrize("name", ["UPPER", "LOWER"])
def test_case_is_changed_in_ascii_alone(name):
    strings = ["aB1", None, ""]
    assert [s and getattr(s, name.lower())() for s in strings] == COLUMN_FUNCTIONS[name](pa.array(strings)).to_pylist()
    with pytest.raises(OptionError, match="ASCII"):
        COLUMN_FUNCTIONS[name](pa.array(["a", "\u0131"]))
