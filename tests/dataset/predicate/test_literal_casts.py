"""Casts of literals by type; tests/spark/read/test_where.py asks Spark for the same ones."""

import math

import pytest

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.predicate.expressions import Literal
from spark_arrow_ipc.dataset.predicate.literals import cast_to, in_range
from spark_arrow_ipc.errors import OptionError

CASTS = [
    (t.utf8, b"0.1", t.float32, 0.10000000149011612), (t.utf8, b"1e39", t.float32, math.inf), (t.utf8, b" 7 ", t.int16, 7), (t.int64, 16_777_217, t.float32, 16_777_216.0),
    (t.int32, 5, t.Decimal(3, 1), 50), (t.Decimal(3, 1), -25, t.int32, -2), (t.Decimal(3, 1), 25, t.Decimal(3, 0), 3), (t.Decimal(3, 1), 25, t.float64, 2.5),
    (t.float64, -2.9, t.int32, -2), (t.float64, 1e300, t.float32, math.inf), (t.utf8, b"Yes", t.bool_, 1), (t.utf8, b"x", t.binary, b"x"), (t.int32, None, t.date32, None),
]  # fmt: skip


@pytest.mark.parametrize(("from_", "value", "to", "expected"), CASTS)
def test_a_literal_is_cast(from_, value, to, expected):
    found = cast_to(Literal(from_, value, "x"), to, "x")
    assert (to, expected) == (found.type, found.value)


REFUSED = [
    (t.int32, 128, t.int8), (t.float64, math.nan, t.int32), (t.int32, 5, t.Decimal(1, 1)), (t.float64, 1.5, t.Decimal(3, 1)), (t.date32, 0, t.int32), (t.bool_, 1, t.utf8), (t.int32, 1, t.bool_),
]  # fmt: skip


@pytest.mark.parametrize(("from_", "value", "to"), REFUSED)
def test_what_does_not_fit_is_refused(from_, value, to):
    with pytest.raises(OptionError, match=r"^(expected|where does not)"):
        cast_to(Literal(from_, value, "x"), to, "x")


def test_the_range_of_a_type():
    assert [-128, 127, None, None] == [in_range(value, t.int8) for value in (-128, 127, 128, -129)]
