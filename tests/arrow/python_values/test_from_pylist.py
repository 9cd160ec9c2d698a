"""`from_pylist.array` builds the arrays that pyarrow builds, inverts `to_pylist`, and refuses what does not fit."""

import datetime as dt

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")

from arrow_from_pyarrow import to_pyarrow, type_from_pyarrow  # noqa: E402
from pylist_cases import CASES, case_id  # noqa: E402

from spark_arrow_ipc.arrow import Array  # noqa: E402
from spark_arrow_ipc.arrow import types as t  # noqa: E402
from spark_arrow_ipc.arrow.python_values import from_pylist  # noqa: E402

S, MS, US, NS = t.TimeUnit


def assert_equal(expected, actual):
    actual.validate(full=True)
    assert expected.type == actual.type
    assert expected.null_count == actual.null_count
    # repr, because NaN is not equal to itself.
    assert expected.equals(actual) or repr(expected.to_pylist()) == repr(actual.to_pylist())


@pytest.mark.parametrize(("type_", "values"), CASES, ids=case_id)
def test_arrays_are_those_of_pyarrow(type_, values):
    ours = type_from_pyarrow(type_)
    for some in (values, values * 3, [v for v in values if v is not None], [None] * 9, []):
        assert_equal(pa.array(some, type_), to_pyarrow(from_pylist.array(some, ours)))


@pytest.mark.parametrize(("type_", "values"), CASES, ids=case_id)
def test_slices_are_those_of_pyarrow(type_, values):
    expected = pa.array(values * 3, type_)[2:-1]
    assert_equal(expected, to_pyarrow(from_pylist.array(values * 3, type_from_pyarrow(type_)).slice(2, len(expected))))


@pytest.mark.parametrize(("type_", "values"), CASES, ids=case_id)
def test_what_pylist_gives_is_taken_back(type_, values):
    array = from_pylist.array(values, type_from_pyarrow(type_))
    again = from_pylist.array(array.to_pylist(), array.type)
    assert repr(array.to_pylist()) == repr(again.to_pylist())
    assert flat(array) == flat(again)


def flat(array: Array):
    own = [None if buffer is None else bytes(buffer) for buffer in array.buffers]
    return own + [flat(child) for child in (*array.children, *([array.dictionary] if array.dictionary else []))]


ROUND_TRIPS = [
    (t.list_(t.IntervalDayTime()), [[(1, 2)], None]),
    (t.dictionary(t.int8, t.list_(t.utf8)), [["a"], ["a"], None, []]),
    (t.dictionary(t.int8, t.struct([("a", t.int8)])), [{"a": 1}, {"a": 1}, None]),
    (t.run_end_encoded(t.int32, t.list_(t.int8)), [[1], [1], None, []]),
]


@pytest.mark.parametrize(("type_", "values"), ROUND_TRIPS, ids=[str(case[0]) for case in ROUND_TRIPS])
def test_what_pyarrow_cannot_build_comes_back(type_, values):
    array = from_pylist.array(values, type_)
    assert values == array.to_pylist()
    assert sum(value is None for value in values) == array.null_count or isinstance(type_, t.RunEndEncoded)


ACCEPTED = [
    ("tuple list", t.list_(t.int8), [(1, 2), range(2), np.arange(2)], [[1, 2], [0, 1], [0, 1]]),
    ("struct tuple", t.struct([("a", t.int8), ("b", t.utf8)]), [(1, "x"), [("a", 2), ("b", "y")], {"b": "z", "c": 1}],
     [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}, {"a": None, "b": "z"}]),
    ("map of mapping", t.map_(t.utf8, t.int8), [{"a": 1}], [[("a", 1)]]),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "values", "expected"), [c[1:] for c in ACCEPTED], ids=[c[0] for c in ACCEPTED])
def test_other_python_types_are_taken(type_, values, expected):
    assert repr(expected) == repr(from_pylist.array(values, type_).to_pylist())


REFUSED = [
    (t.list_(t.int8), ["ab"], TypeError, "a list"),
    (t.list_(t.int8), [1], TypeError, "a list"),
    (t.list_(t.int8), [[300]], ValueError, "-128 to 127"),
    (t.FixedSizeList(t.Field("x", t.int8), 2), [[1]], ValueError, "2 elements"),
    (t.struct([("a", t.int8)]), [[1]], TypeError, "a dict"),
    (t.map_(t.utf8, t.int8), [[(None, 1)]], ValueError, "not None"),
    (t.map_(t.utf8, t.int8), [["ab"]], TypeError, "pairs"),
    (t.dictionary(t.int8, t.int64), list(range(129)), ValueError, "at most 128 different values"),
    (t.run_end_encoded(t.int16, t.int8), [1] * 2**15, ValueError, "32,767"),
    (t.DenseUnion((t.Field("a", t.int8),), (0,)), ["x"], ValueError, "a child accepts"),
    (t.SparseUnion((), ()), [None], ValueError, "no values"),
]


@pytest.mark.parametrize(
    ("type_", "values", "error", "words"), REFUSED, ids=[f"{case[0]} {case[3]}" for case in REFUSED]
)
def test_what_does_not_fit_is_refused_in_words(type_, values, error, words):
    with pytest.raises(error) as caught:
        from_pylist.array(values, type_)
    assert words in str(caught.value)


_FIELDS = (
    t.Field("f", t.float64),
    t.Field("i", t.int8),
    t.Field("d", t.date32),
    t.Field("s", t.utf8),
    t.Field("b", t.binary),
    t.Field("t", t.IntervalDayTime()),
    t.Field("l", t.list_(t.int8)),
)
_IDS = (9, 5, 7, 3, 2, 1, 0)


@pytest.mark.parametrize("union", [t.SparseUnion(_FIELDS, _IDS), t.DenseUnion(_FIELDS, _IDS)], ids=["sparse", "dense"])
@pytest.mark.parametrize(
    ("value", "type_id", "expected"),
    [
        (1.5, 9, 1.5),
        (1, 5, 1),
        (1000, 9, 1000.0),
        ((9, 2), 9, 2.0),
        ((7, 1), 7, dt.date(1970, 1, 2)),
        ("a", 3, "a"),
        (b"a", 2, b"a"),
        ((2, "a"), 2, b"a"),
        ((4, 4), 1, (4, 4)),
        ((1, (5, 5)), 1, (5, 5)),
        ([1], 0, [1]),
        (None, 9, None),
        ((3, None), 3, None),
    ],
)
def test_a_union_value_goes_to_the_child_it_looks_like(union, value, type_id, expected):
    array = from_pylist.array([value], union)
    assert [type_id] == list(array.buffers[0])
    assert [repr(expected)] == [repr(slot) for slot in array.to_pylist()]


@pytest.mark.parametrize("class_", [t.SparseUnion, t.DenseUnion])
def test_unions_are_sound_for_pyarrow(class_):
    union = class_((t.Field("i", t.int8), t.Field("s", t.utf8)), (5, 1))
    values = [1, "a", None, 2, "b", "c"]
    for array in (from_pylist.array(values, union), from_pylist.array(values, union).slice(1, 4)):
        theirs = to_pyarrow(array)
        theirs.validate(full=True)
        assert array.to_pylist() == theirs.to_pylist()
    nested = to_pyarrow(from_pylist.array([values, None, []], t.list_(union)))
    nested.validate(full=True)
    assert nested.to_pylist() == [values, None, []]


def test_dictionary_values_come_in_the_order_of_first_sight():
    array = from_pylist.array(["b", None, "a", "b"], t.dictionary(t.int8, t.utf8))
    assert ["b", "a"] == array.dictionary.to_pylist()
    zeros = from_pylist.array([0.0, -0.0, float("nan"), float("nan")], t.dictionary(t.int8, t.float64))
    assert ["0.0", "-0.0", "nan"] == [str(value) for value in zeros.dictionary.to_pylist()]


def test_runs_are_as_long_as_they_can_be():
    ends, values = from_pylist.array(["a", "a", None, None, "a"], t.run_end_encoded(t.int16, t.utf8)).children
    assert [[2, 4, 5], ["a", None, "a"]] == [ends.to_pylist(), values.to_pylist()]
