"""Decimals with more digits than their type allows."""

import pytest
from convert_batches import DEFAULT, converted, wide

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import InvalidBodyError

VALUE_ERRORS = {
    "digits of decimal32": (wide(t.Decimal(2, 0, 32), 99, 100), DEFAULT, InvalidBodyError, "field c: expected decimals of at most 2 digits (decimal32(2, 0)), found the unscaled value 100 in slot 1"),
    "digits of decimal64": (wide(t.Decimal(2, 0, 64), -100), DEFAULT, InvalidBodyError, "value -100 in slot 0"),
    "digits of decimal128": (wide(t.Decimal(20, 0), 10**20 - 1, -(10**20)), DEFAULT, InvalidBodyError, f"value {-(10**20)} in slot 1"),
    "digits of decimal128 of 38": (wide(t.Decimal(38, 0), 10**38), DEFAULT, InvalidBodyError, f"value {10**38} in slot 0"),
    "digits of decimal256": (wide(t.Decimal(5, 0, 256), 2**128), DEFAULT, InvalidBodyError, f"value {2**128} in slot 0"),
    "digits of decimal256, negative": (wide(t.Decimal(5, 0, 256), -(2**130) + 1), DEFAULT, InvalidBodyError, f"value {-(2**130) + 1} in slot 0"),
}  # fmt: skip


@pytest.mark.parametrize("case", VALUE_ERRORS)
def test_a_value_that_spark_cannot_hold_is_a_named_error(case):
    array, options, error, expected = VALUE_ERRORS[case]
    with pytest.raises(error) as caught:
        converted(array, options)
    assert expected in str(caught.value)


@pytest.mark.parametrize("precision", range(1, 39))
def test_digits_are_counted_at_the_ends_of_each_precision_and_of_the_words(precision):
    bounds = [10**precision - 1, 10**precision, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**64 + 1, 5 << 64, 2**127 - 1]
    type_ = t.Decimal(precision, 0)
    for value in [0, *bounds, *(-bound for bound in bounds), -(2**127)]:
        for beside in ((), (0,), (-1,), (1, -1)):
            array = wide(type_, *beside, value)
            if abs(value) < 10**precision:
                assert converted(array, DEFAULT)[-1].as_py() == value
            else:
                with pytest.raises(InvalidBodyError, match=rf"value {value} in slot {len(beside)}\b"):
                    converted(array, DEFAULT)
