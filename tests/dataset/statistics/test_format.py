"""The format of statistics in a footer: cut bounds, leaves, values as arrays."""

import pytest
from statistics_cases import batch_of, column_of, gathered

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.statistics.format import array_of, leaves, raws_of
from spark_arrow_ipc.dataset.statistics.read import read_statistics

CUTS = [
    ("short", t.utf8, "a" * 64, b"a" * 64, True, b"a" * 64, True),
    ("long", t.utf8, "a" * 65, b"a" * 64, False, b"a" * 63 + b"b", False),
    ("at_a_code_point", t.utf8, "a" * 63 + "äx", b"a" * 63, False, b"a" * 62 + b"b", False),
    ("before_the_surrogates", t.utf8, "\ud7ff" * 30, ("\ud7ff" * 21).encode(), False, ("\ud7ff" * 20 + "\ue000").encode(), False),
    ("last_code_point", t.utf8, "\U0010ffff" * 20, ("\U0010ffff" * 16).encode(), False, None, False),
    ("last_code_points_after_another", t.utf8, "a" + "\U0010ffff" * 20, ("a" + "\U0010ffff" * 15).encode(), False, b"b", False),
    ("bytes", t.binary, b"\xff" * 63 + b"\x01" * 5, b"\xff" * 63 + b"\x01", False, b"\xff" * 63 + b"\x02", False),
    ("last_bytes", t.binary, b"\xff" * 70, b"\xff" * 64, False, None, False),
    ("wide_fixed_width", t.FixedSizeBinary(70), b"a" * 70, b"a" * 64, False, b"a" * 63 + b"b", False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("type_", "value", "least", "least_exact", "greatest", "greatest_exact"),
    [pytest.param(*case[1:], id=case[0]) for case in CUTS],
)
def test_long_values_are_cut_to_bounds(type_, value, least, least_exact, greatest, greatest_exact):
    found = column_of(type_, (value,))
    assert (least, greatest) == (found.least[0], found.greatest[0])
    assert least_exact is found.least_exact[0]
    assert greatest_exact is (found.greatest_exact[0] if greatest is not None else False)


def test_text_that_is_no_utf8_has_no_bounds():
    sound = batch_of(t.utf8, "ab", "b")
    column = sound.columns[0]
    broken = type(column)(t.utf8, 2, 0, (None, column.buffers[1], memoryview(b"\xff\xfe\xfd")))
    batch = RecordBatch(sound.schema, (broken,), 2)
    statistics = read_statistics((gathered([batch]),), batch.schema, 1)
    assert statistics.columns[("a",)].least == (None,)


def test_leaves_are_scalars_with_a_path_of_their_own():
    schema = Schema.of([
        t.field("a", t.struct([("x", t.int8), ("y", t.utf8)])), t.field("l", t.list_(t.int8)), t.field("b", t.dictionary(t.int8, t.utf8)),
        t.field("twice", t.int8), t.field("twice", t.int8), t.field("wide", t.FixedSizeBinary(65)),
    ])  # fmt: skip
    assert [(leaf.path, leaf.positions, leaf.type) for leaf in leaves(schema)] == [
        (("a", "x"), (0, 0), t.int8), (("a", "y"), (0, 1), t.utf8), (("b",), (2,), t.utf8), (("wide",), (5,), t.binary),
    ]  # fmt: skip


RAWS = [
    ("int", t.int16, [3, None, -4]),
    ("bool", t.bool_, [1, None, 0]),
    ("float", t.float64, [1.5, None]),
    ("decimal", t.Decimal(38, 2), [10**37, -1, None]),
    ("string", t.utf8, [b"a", None, b""]),
    ("binary", t.binary, [b"\xff", None]),
    ("timestamp", t.Timestamp(t.TimeUnit.NANOSECOND), [None, -1]),
]


@pytest.mark.parametrize(("type_", "values"), [pytest.param(*case[1:], id=case[0]) for case in RAWS])
def test_values_become_arrays_and_come_back(type_, values):
    assert values == raws_of(array_of(values, type_))
