"""A budget refuses what is above it, and says how to raise it."""

import dataclasses

import pytest

from spark_arrow_ipc.errors import LimitError
from spark_arrow_ipc.ipc import Limits

NAMES = [field.name for field in dataclasses.fields(Limits)]


@pytest.mark.parametrize("name", NAMES)
def test_a_budget_is_kept_to_the_last_unit(name):
    limits = Limits(**{name: 1000})
    limits.check(name, 1000, "a file")
    with pytest.raises(
        LimitError, match=rf"a file asks for 1,001, the budget {name} is 1,000; .*Limits\({name}="
    ) as raised:
        limits.check(name, 1001, "a file")
    assert ("maxBatchBytes" in str(raised.value)) == (name in {"max_batch_bytes", "max_dictionary_bytes"})
