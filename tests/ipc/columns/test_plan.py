"""A schema flattened: which node, which buffers, which dictionary belong to which column."""

import numpy as np
import pytest

from spark_arrow_ipc.arrow import Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.column_path import project, resolve_exactly
from spark_arrow_ipc.arrow.layout import LAYOUTS
from spark_arrow_ipc.errors import InvalidDictionaryError
from spark_arrow_ipc.ipc.columns.plan import compile_plan
from spark_arrow_ipc.ipc.flatbuf.tables import MetadataVersion

V4, V5 = MetadataVersion.V4, MetadataVersion.V5
INNER = t.struct([("x", t.int32), ("y", t.utf8)])
WORDS = t.dictionary(t.int8, t.utf8)
SCHEMA = Schema.of(
    [
        t.field("a", t.int64),
        t.field("s", t.struct([("p", t.utf8), ("q", INNER), ("r", t.list_(INNER))])),
        t.field("v", t.utf8_view),
        t.field("u", t.DenseUnion((t.field("i", t.int8), t.field("w", t.binary_view)), (0, 1))),
        t.field("n", t.null),
        t.field("d", t.dictionary(t.int16, t.struct([("w", WORDS)]))),
        t.field("e", t.run_end_encoded(t.int32, t.float64)),
    ]
)
IDS = (7, 9)

STEPS = [
    # path, first node, first buffer, first variadic, buffers, children: counted by hand from Columnar.rst
    ("a", 0, 0, 0, 2, 0),
    ("s", 1, 2, 0, 1, 3),
    ("s.p", 2, 3, 0, 3, 0),
    ("s.q", 3, 6, 0, 1, 2),
    ("s.q.x", 4, 7, 0, 2, 0),
    ("s.q.y", 5, 9, 0, 3, 0),
    ("s.r", 6, 12, 0, 2, 1),
    ("s.r[]", 7, 14, 0, 1, 2),
    ("s.r[].x", 8, 15, 0, 2, 0),
    ("s.r[].y", 9, 17, 0, 3, 0),
    ("v", 10, 20, 0, 2, 0),
    ("u", 11, 22, 1, 2, 2),
    ("u.i", 12, 24, 1, 2, 0),
    ("u.w", 13, 26, 1, 2, 0),
    ("n", 14, 28, 2, 0, 0),
    ("d", 15, 28, 2, 2, 0),
    ("e", 16, 30, 2, 0, 2),
    ("e.run_ends", 17, 30, 2, 2, 0),
    ("e.values", 18, 32, 2, 2, 0),
]


def rows(plan):
    return [(s.path, s.node, s.first_buffer, s.first_variadic, len(s.buffers), s.children) for s in plan.steps]


def test_every_field_has_its_numbers():
    plan = compile_plan(SCHEMA.fields, IDS, V5)
    assert STEPS == rows(plan)
    assert (19, 34, 2) == (plan.nodes, plan.buffers, plan.variadics)
    assert plan.is_whole
    assert SCHEMA.fields == plan.fields
    assert [step.path for step in plan.steps if step.is_top] == list(SCHEMA.names)


def test_dictionaries_have_plans_of_their_own():
    plan = compile_plan(SCHEMA.fields, IDS, V5)
    assert [7] == [step.dictionary_id for step in plan.steps if step.dictionary_id is not None]
    outer, inner = plan.dictionaries[7], plan.dictionaries[9]
    assert [("d (dictionary)", 0, 0, 0, 1, 1), ("d (dictionary).w", 1, 1, 0, 2, 0)] == rows(outer)
    assert [9] == [step.dictionary_id for step in outer.steps if step.dictionary_id is not None]
    assert [t.utf8] == [step.type for step in inner.steps]


def test_unions_before_v5_have_a_validity_buffer():
    of_v4 = compile_plan(SCHEMA.fields, IDS, V4)
    assert 35 == of_v4.buffers
    assert ["u"] == [step.path for step in of_v4.steps if step.drops_validity]
    shifted = [row if row[2] <= 22 else (*row[:2], row[2] + 1, *row[3:]) for row in STEPS]
    assert shifted == rows(of_v4)


SELECTIONS = [
    ("nothing", [], [], ()),
    ("one", ["v"], ["v"], (2,)),
    ("a position", [4], ["n"], (4,)),
    ("an order of one's own", ["v", "a"], ["a", "v"], (2, 0)),
    ("twice", ["a", "a", 0], ["a"], (0,)),
    ("a struct whole", ["s"], [row[0] for row in STEPS[1:10]], (1,)),
    ("one of its fields", [("s", "p")], ["s", "s.p"], (1,)),
    ("by position", [("s", 0)], ["s", "s.p"], (1,)),
    ("two levels", [("s", "q", "y")], ["s", "s.q", "s.q.y"], (1,)),
    ("two paths", [("s", "q", "y"), ("s", "p")], ["s", "s.p", "s.q", "s.q.y"], (1,)),
    ("a path and then the whole", [("s", "p"), "s"], [row[0] for row in STEPS[1:10]], (1,)),
    ("the whole and then a path", ["s", ("s", "p")], [row[0] for row in STEPS[1:10]], (1,)),
    ("an inner whole and then a path", [("s", "q"), ("s", "q", "x")], ["s", "s.q", "s.q.x", "s.q.y"], (1,)),
    ("a list below a struct", [("s", "r")], ["s", "s.r", "s.r[]", "s.r[].x", "s.r[].y"], (1,)),
    ("a dictionary", ["d"], ["d"], (5,)),
]


@pytest.mark.parametrize(
    ("columns", "paths", "positions"), [c[1:] for c in SELECTIONS], ids=[c[0] for c in SELECTIONS]
)  # fmt: skip
def test_selection_keeps_the_numbers_of_what_stays(columns, paths, positions):
    selection = project(resolve_exactly(SCHEMA.fields, columns))
    assert positions == tuple(selection)
    plan = compile_plan(SCHEMA.fields, IDS, V5, selection)
    kept = {row[0]: row[:5] for row in STEPS if row[0] in paths}
    assert kept == {row[0]: row[:5] for row in rows(plan)}
    assert (19, 34, 2) == (plan.nodes, plan.buffers, plan.variadics)
    assert not plan.is_whole
    assert ({7, 9} if "d" in paths else set()) == set(plan.dictionaries)
    # Each step's children, with theirs, are the steps after it.
    assert len(plan.steps) == len(plan.fields) + sum(step.children for step in plan.steps)


def test_a_selected_struct_has_only_the_selected_fields():
    selection = project(resolve_exactly(SCHEMA.fields, [("s", "q", "y"), ("s", "p")]))
    (field,) = compile_plan(SCHEMA.fields, IDS, V5, selection).fields
    assert t.struct([("p", t.utf8), ("q", t.struct([("y", t.utf8)]))]) == field.type


def test_one_id_may_serve_two_fields_of_one_type_only():
    same = Schema.of([t.field("a", WORDS), t.field("b", WORDS)])
    assert {3} == set(compile_plan(same.fields, (3, 3), V5).dictionaries)
    other = Schema.of([t.field("a", WORDS), t.field("b", t.dictionary(t.int8, t.binary))])
    with pytest.raises(InvalidDictionaryError, match=r"field b: expected dictionary 3 of type utf8.*found type binary"):
        compile_plan(other.fields, (3, 3), V5)


@pytest.mark.slow
def test_a_plan_is_linear_in_the_fields():
    """A recursion or a copy of the selection a field would show here."""
    fields = tuple(t.field(f"c{i}", t.int64) for i in range(20_000))
    selection = project(resolve_exactly(fields, range(0, 20_000, 2)))
    plan = compile_plan(fields, (), V5, selection)
    assert (10_000, 10_000) == (len(plan.steps), len(selection))
    assert 40_000 == plan.buffers


NBYTES = [
    # type, and for lengths 0, 1, 8 and 9 the bytes of each buffer: Columnar.rst, "Buffer Listing for Each Layout"
    (t.bool_, [(0, 0), (1, 1), (1, 1), (2, 2)]),
    (t.int32, [(0, 0), (1, 4), (1, 32), (2, 36)]),
    (t.utf8, [(0, 0, 0), (1, 8, 0), (1, 36, 0), (2, 40, 0)]),
    (t.LargeList(t.field("item", t.int8)), [(0, 0), (1, 16), (1, 72), (2, 80)]),
    (t.ListView(t.field("item", t.int8)), [(0, 0, 0), (1, 4, 4), (1, 32, 32), (2, 36, 36)]),
    (t.utf8_view, [(0, 0), (1, 16), (1, 128), (2, 144)]),
    (t.FixedSizeBinary(0), [(0, 0), (1, 0), (1, 0), (2, 0)]),
    (t.DenseUnion((t.field("i", t.int8),), (0,)), [(0, 0), (1, 4), (8, 32), (9, 36)]),
]


@pytest.mark.parametrize(("type_", "expected"), NBYTES, ids=[str(case[0]) for case in NBYTES])
def test_a_buffer_says_how_many_bytes_its_slots_need(type_, expected):
    buffers = compile_plan((t.field("a", type_),), (), V5).steps[0].buffers
    lengths = [0, 1, 8, 9]
    assert expected == [tuple(buffer.nbytes(length) for buffer in buffers) for length in lengths]
    at_once = [buffer.nbytes(np.array(lengths)).tolist() for buffer in buffers]
    assert expected == list(zip(*at_once, strict=True))


def test_every_layout_is_planned():
    assert LAYOUTS.keys() >= {type(field.type) for field in SCHEMA.fields}
