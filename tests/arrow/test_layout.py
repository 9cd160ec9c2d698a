"""The tables of layouts are total, and so is what the kernels make of them."""

import pytest

from spark_arrow_ipc.arrow import array_data, distinct, equality, measure
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.kernels import compact, concat, take
from spark_arrow_ipc.arrow.layout import (
    BIT_WIDTHS,
    LAYOUTS,
    SLOTS,
    Family,
    Role,
    by_type,
    child_slots,
    layout_of,
    least_nbytes,
    physical,
)
from spark_arrow_ipc.arrow.python_values import from_pylist, to_pylist
from spark_arrow_ipc.arrow.validate import arrays as validate


def test_every_type_class_has_a_layout():
    classes = {c for c in vars(t).values() if isinstance(c, type) and issubclass(c, t.DataType) and c is not t.DataType}
    assert {c for c in classes if not c.__name__.startswith("_")} == set(LAYOUTS)


def test_every_family_has_a_type():
    assert set(Family) == {layout.family for layout in LAYOUTS.values()}


def test_every_role_says_how_many_slots_it_needs():
    assert set(Role) == set(SLOTS)


TABLES = {
    "take": take.TAKE,
    "compact": compact.CHILDREN,
    "concat": concat.CHILDREN,
    "measure": measure.BEYOND_SLOTS,
    "equality": equality.VALUES,
    "distinct": distinct.HASHES,
    "validate": validate.VALUE_CHECKS,
    "to_pylist": to_pylist.TO_PYLIST,
    "from_pylist": from_pylist.BUILDERS,
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_type_class_has_a_row(table):
    assert set(LAYOUTS) == set(table)


def test_types_with_a_data_buffer_say_how_wide_and_what_its_slots_are():
    with_data = {cls for cls, layout in LAYOUTS.items() if Role.DATA in {buffer.role for buffer in layout.buffers}}
    assert with_data == set(BIT_WIDTHS)
    assert with_data == set(array_data.DTYPES) | {t.Bool, t.FixedSizeBinary}


def test_a_row_of_a_family_is_that_of_each_of_its_types():
    assert {t.List: "l", t.LargeList: "l", t.Map: "l", t.Null: "n"} == by_type({Family.LIST: "l", Family.NULL: "n"})


NEEDED = [
    ("validity", t.int32, 0, 9, 2),
    ("booleans", t.bool_, 1, 9, 2),
    ("fixed width", t.int32, 1, 9, 36),
    ("fixed size binary", t.FixedSizeBinary(3), 1, 9, 27),
    ("value offsets", t.utf8, 1, 9, 40),
    ("value offsets of no slots", t.utf8, 1, 0, 0),
    ("bytes that value offsets bound", t.utf8, 2, 9, 0),
    ("views", t.utf8_view, 1, 9, 144),
    ("indices", t.dictionary(t.int8, t.utf8), 1, 9, 9),
]


@pytest.mark.parametrize(("type_", "number", "length", "expected"), [c[1:] for c in NEEDED], ids=[c[0] for c in NEEDED])
def test_needed_nbytes(type_, number, length, expected):
    assert expected == least_nbytes(type_, layout_of(type_).buffers[number], length)


CHILDREN = [
    (t.struct([t.field("a", t.int8)]), 1),
    (t.FixedSizeList(t.Field("a", t.int8), 3), 3),
    (t.list_(t.int8), None),
]


@pytest.mark.parametrize(("type_", "expected"), CHILDREN, ids=[str(c[0]) for c in CHILDREN])
def test_child_slots(type_, expected):
    assert expected == child_slots(type_)


def test_a_dictionary_lies_in_a_batch_as_its_indices():
    assert t.int8 == physical(t.dictionary(t.int8, t.utf8))
    assert t.utf8 == physical(t.utf8)
