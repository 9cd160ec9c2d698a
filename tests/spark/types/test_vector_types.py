"""Lists of numbers are vectors; all else is not."""

import pytest

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.spark.types.field_metadata import vector_element

ITEM = t.field("item", t.float32)
CASES = [
    (t.List(ITEM), t.float32), (t.LargeList(t.field("item", t.uint8)), t.uint8), (t.FixedSizeList(ITEM, 3), t.float32),
    (t.ListView(ITEM), None), (t.List(t.field("item", t.bool_)), None), (t.List(t.field("item", t.List(ITEM))), None),
    (t.List(t.field("item", t.Decimal(5, 2))), None), (t.float32, None), (t.binary, None),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "element"), CASES)
def test_the_numbers_of_a_type(type_, element):
    assert element == vector_element(type_)
