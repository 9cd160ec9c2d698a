"""Walks over a plan: each step beside its array, and slots from parents to children."""

import pytest

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.errors import InvalidBodyError
from spark_arrow_ipc.ipc.columns.plan import SlotWalk, can_walk_slots, compile_plan, walk_arrays
from spark_arrow_ipc.ipc.flatbuf.tables import MetadataVersion

V4, V5 = MetadataVersion.V4, MetadataVersion.V5


def plan_of(*fields, version=V5):
    return compile_plan(fields, range(10), version)


# ---- walk_arrays

FIELDS = (
    t.field("a", t.int8),
    t.field("s", t.struct([("x", t.list_(t.int32)), ("y", t.utf8)])),
    t.field("b", t.bool_),
)
COLUMNS = [
    from_pylist.array([1, 2], t.int8),
    from_pylist.array([{"x": [1, 2, 3], "y": "v"}, None], FIELDS[1].type),
    from_pylist.array([True, None], t.bool_),
]


def test_each_step_comes_with_its_array():
    walked = [(step.path, array.type, array.length) for step, array in walk_arrays(plan_of(*FIELDS), COLUMNS)]
    assert [
        ("a", t.int8, 2), ("s", FIELDS[1].type, 2), ("s.x", t.list_(t.int32), 2), ("s.x[]", t.int32, 3),
        ("s.y", t.utf8, 2), ("b", t.bool_, 2),
    ] == walked  # fmt: skip


# ---- slots

WALKABLE = [
    ("no columns", (), False),
    ("fixed width", (t.int64, t.bool_, t.null), True),
    ("value offsets", (t.utf8, t.large_binary, t.list_(t.int8)), True),
    ("fixed size lists of structs", (t.FixedSizeList(t.field("item", t.struct([("x", t.utf8)])), 3),), True),
    ("indices of a dictionary", (t.dictionary(t.int8, t.utf8_view),), True),
    ("views", (t.int64, t.utf8_view), False),
    ("list-views", (t.ListView(t.field("item", t.int8)),), False),
    ("runs", (t.run_end_encoded(t.int32, t.int8),), False),
    ("a view below a list", (t.list_(t.binary_view),), False),
    ("a sparse union", (t.SparseUnion((t.field("i", t.int8),), (0,)),), False),
]


@pytest.mark.parametrize(("types", "expected"), [case[1:] for case in WALKABLE], ids=[case[0] for case in WALKABLE])
def test_slots_are_walked_where_neighbours_stay_neighbours(types, expected):
    plan = plan_of(*(t.field(f"c{i}", type_) for i, type_ in enumerate(types)))
    assert expected == can_walk_slots(plan)


class Recording(SlotWalk[int]):
    """Notes what it is asked for; each list has 10 elements a slot, each string 100 bytes."""

    def __init__(self, plan):
        super().__init__(plan)
        self.asked = []

    def enter(self, step, slots):
        if step.path == "broken":
            raise InvalidBodyError("no slots")
        return slots * (step.child_slots or 0)

    def _note(self, kind, number, slots):
        self.asked.append((kind, number, slots))
        return memoryview(bytes([number]))

    def validity(self, step, number, slots):
        return self._note("validity", number, slots)

    def value_offsets(self, step, number, buffer, slots):
        return self._note("offsets", number, slots), slots * (10 if step.children else 100)

    def bytes_of(self, number, below):
        return self._note("bytes", number, below)

    def values(self, number, buffer, slots):
        return self._note("values", number, slots)


def test_slots_go_down_and_every_buffer_is_asked_for_once():
    walk = Recording(plan_of(*FIELDS, t.field("f", t.FixedSizeList(t.field("item", t.int8), 3))))
    walk.walk(2)
    assert [
        ("validity", 0, 2), ("values", 1, 2),
        ("validity", 2, 2), ("validity", 3, 2), ("offsets", 4, 2), ("validity", 5, 20), ("values", 6, 20),
        ("validity", 7, 2), ("offsets", 8, 2), ("bytes", 9, 200),
        ("validity", 10, 2), ("values", 11, 2),
        ("validity", 12, 2), ("validity", 13, 6), ("values", 14, 6),
    ] == walk.asked  # fmt: skip
    assert [bytes([number]) for number in range(15)] == list(map(bytes, walk.buffers))


def test_buffers_outside_a_selection_stay_empty():
    plan = compile_plan(FIELDS, (), V5, {1: {1: None}})
    walk = Recording(plan)
    walk.walk(4)
    assert [("validity", 2, 4), ("validity", 7, 4), ("offsets", 8, 4), ("bytes", 9, 400)] == walk.asked
    assert 12 == len(walk.buffers)
    assert not walk.buffers[4]


def test_an_error_names_the_field():
    with pytest.raises(InvalidBodyError, match="field broken"):
        Recording(plan_of(t.field("a", t.int8), t.field("broken", t.int8))).walk(1)
