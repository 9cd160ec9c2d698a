"""Column paths: how they are written, what they stand for, and what is selected by several of them."""

import re

import cpu_time
import pytest

from spark_arrow_ipc.arrow import Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.column_path import (
    child_path,
    fields_along,
    find_columns,
    parse_paths,
    path_string,
    project,
    resolve,
    resolve_all,
    resolve_exactly,
    walk_fields,
)
from spark_arrow_ipc.errors import ColumnNotFoundError

# ---- as strings

LISTS = {
    "a": ("a",),
    " a , b ": ("a", "b"),
    "a.b.c": (("a", "b", "c"),),
    "a . b": (("a", "b"),),
    "`a,b`, `c.d`, `e f`": ("a,b", "c.d", "e f"),
    "`tick``ed`": ("tick`ed",),
    "a.`b.c`": (("a", "b.c"),),
    "#0, #12": (0, 12),
    "`#0`": ("#0",),
    "a.#0": (("a", "#0"),),
    "`all`": ("all",),
    "größe": ("größe",),
    '["a", "b.c", "#1", 2, "`x,y`"]': ("a", ("b", "c"), 1, 2, "x,y"),
}


@pytest.mark.parametrize("string", LISTS)
def test_a_list_of_paths(string):
    assert LISTS[string] == parse_paths(string)


NO_LISTS = ["", ",", "a,", "a b", "a..b", "`a", "#x", "#-1", "``", "[", "[]", "[true]", "[-1]", "[[]]", '["a,b"]', "{}a b"]  # fmt: skip


@pytest.mark.parametrize("string", NO_LISTS)
def test_strings_that_are_no_list_of_paths(string):
    with pytest.raises(ValueError):
        parse_paths(string)


@pytest.mark.parametrize("path", ["a", "a.b", "all", "#1", "x y", "t`t", 3, ("a", "b c"), ("a", "#1")])
def test_a_path_is_read_as_it_is_written(path):
    assert (path,) == parse_paths(path_string(path))


# ---- resolved

POINT = t.struct([("x", t.int32), ("Y", t.utf8), ("y", t.utf8)])
SCHEMA = Schema.of(
    [
        t.field("a", t.int64),
        t.field("B", t.int64),
        t.field("p", t.struct([("q", POINT), ("l", t.list_(POINT))])),
        t.field("c", t.int8),
        t.field("C", t.int8),
    ]
)
TWICE = Schema.of([t.field("a", t.int8), t.field("a", t.int16), t.field("s", t.struct([("x", t.int8), ("x", t.int8)]))])

RESOLVED = [
    ("a name", "a", (0,)),
    ("another case", "b", (1,)),
    ("the exact one of two", "C", (4,)),
    ("a position", 3, (3,)),
    ("a path of one name", ("A",), (0,)),
    ("a field", ("P", "Q"), (2, 0)),
    ("two levels", ("p", "q", "X"), (2, 0, 0)),
    ("the exact one of two fields", ("p", "q", "y"), (2, 0, 2)),
    ("positions below a name", ("p", 0, 1), (2, 0, 1)),
    ("a list as a whole", ("p", "l"), (2, 1)),
]


@pytest.mark.parametrize(("path", "positions"), [c[1:] for c in RESOLVED], ids=[c[0] for c in RESOLVED])
def test_a_path_is_resolved_in_any_case(path, positions):
    assert positions == resolve(SCHEMA.fields, path)
    assert [positions, (0,)] == resolve_all(SCHEMA.fields, [path, "a"])


NOT_RESOLVED = [
    ("no such name", SCHEMA, "z", "there is no column 'z'; the columns are 'a', 'B', 'p', 'c', 'C'"),
    ("no such field", SCHEMA, ("P", "z"), "there is no field 'z' in p; the fields are 'q', 'l'"),
    ("a name of no column", Schema(()), "z", "there is no column 'z'; the columns are none"),
    ("two names but for case", Schema.of([t.field("ab", t.int8), t.field("aB", t.int8)]), "AB",
     "the name 'AB' may stand for #0 'ab', #1 'aB'; choose by position with the option columns"),
    ("a name of two columns", TWICE, "a", "the name 'a' may stand for #0 'a', #1 'a'; choose by position"),
    ("a name of two fields", TWICE, ("s", "x"), "the name 's.x' may stand for #0 'x', #1 'x'; read the struct as a whole"),
    ("no such position", SCHEMA, 5, "expected a column position below 5, found #5"),
    ("a negative position", SCHEMA, -1, "expected a column position below 5, found #-1"),
    ("no struct", SCHEMA, ("A", "x"), "expected a to be a struct, so that 'x' can be one of its fields, found int64"),
    ("through a list", SCHEMA, ("p", "l", "x"), "expected p.l to be a struct, so that 'x' can be one of its fields, found list<"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "path", "words"), [c[1:] for c in NOT_RESOLVED], ids=[c[0] for c in NOT_RESOLVED])
def test_a_path_that_is_not_resolved_says_why(schema, path, words):
    with pytest.raises(ColumnNotFoundError) as caught:
        resolve(schema.fields, path)
    assert str(caught.value).startswith(words)


WIDE = Schema.of(t.field(f"a_rather_long_name_of_a_column_{i:04}", t.int8) for i in range(1000))
HUGE = Schema.of([t.field("x" * 1_000_000, t.int8), *WIDE.fields])
ABSENT = [
    ("one that is like it", SCHEMA, "bb", "did you mean 'B'?"),
    ("a field that is like it", SCHEMA, ("p", "qq"), "did you mean 'q'?"),
    ("several that are like it", WIDE, "a_rather_long_name_of_a_column_12", "did you mean 'a_rather_long_name_of_a_column_"),
    ("none of many", WIDE, "zzz", "the columns are 'a_rather_long_name_of_a_column_0000', 'a_rather_long_name_of_a_column_0001' and 998 more"),
    ("a long one", WIDE, "z" * 1_000_000, "and 998 more"),
    ("a long one of long ones", HUGE, "x" * 999_999, "did you mean 'xxxx"),
    ("many of one name", Schema(tuple(t.field("a", t.int8) for _ in range(10_000))), "a", "may stand for #0 'a', #1 'a'"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "path", "words"), [c[1:] for c in ABSENT], ids=[c[0] for c in ABSENT])
def test_the_error_for_an_absent_name_is_short_and_has_those_that_are_like_it(schema, path, words):
    with pytest.raises(ColumnNotFoundError) as caught:
        resolve(schema.fields, path)
    assert words in str(caught.value)
    assert len(str(caught.value)) < 300


def test_the_type_of_what_is_no_struct_is_named_as_the_caller_does():
    with pytest.raises(ColumnNotFoundError, match="found a number"):
        resolve(SCHEMA.fields, ("a", "x"), lambda _: "a number")


def test_absent_names_are_skipped_where_told_so_and_nothing_else():
    assert [(0,)] == resolve_all(SCHEMA.fields, ["z", "a", ("p", "z"), ("z", "a")], skips_absent=True)
    for wrong in ("A", 3, ("s", "x")):
        with pytest.raises(ColumnNotFoundError):
            resolve_all(TWICE.fields, [wrong], skips_absent=True)


def test_of_what_is_not_a_struct_the_whole_is_resolved():
    assert [(0,), (2, 1)] == resolve_all(SCHEMA.fields, [("a", "x"), ("p", "l", "x", "y")])


def test_fields_along_a_path():
    assert ["p", "q", "Y"] == [field.name for field in fields_along(SCHEMA.fields, (2, 0, 1))]


EXACT = [("a name", "a", (0,)), ("a position", 4, (4,)), ("names", ("p", "q", "Y"), (2, 0, 1)), ("both", ("p", 1), (2, 1))]  # fmt: skip


@pytest.mark.parametrize(("path", "positions"), [c[1:] for c in EXACT], ids=[c[0] for c in EXACT])
def test_a_path_is_resolved_by_exact_names(path, positions):
    assert [positions] == resolve_exactly(SCHEMA.fields, [path])


def test_names_that_occur_twice_are_reached_by_position():
    assert [(1,), (2, 1)] == resolve_exactly(TWICE.fields, [1, ("s", 1)])


NOT_EXACT = [
    ("no such name", SCHEMA, "z", "there is no column 'z'; the columns are 'a', 'B', 'p', 'c', 'C'"),
    ("another case", SCHEMA, "A", "there is no column 'A'"),
    ("no such position", SCHEMA, 7, "a column position below 5, found 7"),
    ("a negative position", SCHEMA, -1, "a column position below 5, found -1"),
    ("no such field of a struct", SCHEMA, ("p", "z"), "there is no column 'z'; the columns are 'q', 'l'"),
    ("a field of no struct", SCHEMA, ("a", "x"), "expected a to be a struct, so that 'x' can be one of its fields, found int64"),
    ("through a list", SCHEMA, ("p", "l", "x"), "expected p.l to be a struct"),
    ("a name of two columns", TWICE, "a", "the name 'a' stands for 2 columns; address one of them by position: #0, #1"),
    ("a name of two fields", TWICE, ("s", "x"), "the name 'x' stands for 2 columns"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "path", "words"), [c[1:] for c in NOT_EXACT], ids=[c[0] for c in NOT_EXACT])
def test_a_path_that_is_not_resolved_exactly_says_why(schema, path, words):
    with pytest.raises(ColumnNotFoundError) as caught:
        resolve_exactly(schema.fields, [path])
    assert words in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("resolving", [resolve_all, resolve_exactly])
def test_resolving_many_paths_is_linear(resolving):
    """A look at all names for each path would take minutes."""
    fields = tuple(t.field(f"c{i}", t.int64) for i in range(50_000))
    paths = [field.name for field in reversed(fields)]
    assert 50_000 == len(cpu_time.at_most(30, resolving, fields, paths))


CASES = Schema.of(
    [
        t.field("a", t.int8),
        t.field("A", t.int8),
        t.field("b", t.int8),
        t.field("s", t.struct([("x", t.int8), ("X", t.int8)])),
    ]
)
ALIKE = [
    # what is asked for, and the fields that it may stand for, None where it is one field or all that are alike
    (["b"], None),
    (["a", "A"], None),
    (["A", "b", "a", "s"], None),
    ([0], None),
    ([1, "b"], None),
    (["a"], "the name 'a' may stand for #0 'a', #1 'A' without spark.sql.caseSensitive=true; choose by position"),
    (["b", "A"], "the name 'A' may stand for #0 'a', #1 'A'"),
    ([1, "a"], "the name 'a' may stand for #0 'a', #1 'A'"),
    ([("s", "x"), ("s", "X")], None),
    ([("s", 1)], None),
    ([("s", "X")], "the name 's.X' may stand for #0 'x', #1 'X' without spark.sql.caseSensitive=true; read the struct"),
]  # fmt: skip


@pytest.mark.parametrize(("paths", "words"), ALIKE)
def test_names_that_differ_in_case_alone_are_two_where_the_session_says_so(paths, words):
    exact = resolve_all(CASES.fields, paths)
    assert exact == resolve_all(CASES.fields, paths, is_case_sensitive=lambda: True)
    if words is None:
        assert exact == resolve_all(CASES.fields, paths, is_case_sensitive=lambda: False)
        return
    with pytest.raises(ColumnNotFoundError, match=re.escape(words)):
        resolve_all(CASES.fields, paths, is_case_sensitive=lambda: False)
    if all(isinstance(path, str) for path in paths):
        assert [i for (i,) in exact] == find_columns(CASES.names, paths, is_case_sensitive=lambda: True)
        with pytest.raises(ColumnNotFoundError, match=re.escape(words)):
            find_columns(CASES.names, paths, is_case_sensitive=lambda: False)


def test_the_setting_is_not_asked_for_without_such_names():
    assert [0, 1] == find_columns(["a", "b"], ["A", "b"], is_case_sensitive=pytest.fail)


def test_find_columns_gives_what_stands_for_absent_names():
    assert [1, 3, 0] == find_columns(["x", "Y", "y"], ["Y", "z", "X"], absent=3)


# ---- projected

PROJECTIONS = [
    ("nothing", [], {}),
    ("in the order of the paths", [(2,), (0,)], {2: None, 0: None}),
    ("a field", [(2, 1)], {2: {1: None}}),
    ("two fields of one column", [(2, 1), (0,), (2, 0, 0)], {2: {1: None, 0: {0: None}}, 0: None}),
    ("a path and then the whole", [(2, 1), (2,)], {2: None}),
    ("the whole and then a path", [(2,), (2, 1)], {2: None}),
    ("an inner whole and then a path", [(2, 0), (2, 0, 1)], {2: {0: None}}),
]


@pytest.mark.parametrize(("paths", "selection"), [c[1:] for c in PROJECTIONS], ids=[c[0] for c in PROJECTIONS])
def test_paths_are_united_to_a_selection(paths, selection):
    projected = project(paths)
    assert selection == projected
    assert list(selection) == list(projected)


# ---- places

PLACES = [
    ("a field of a struct", POINT, "p.x"),
    ("elements", t.list_(t.int8), "p[]"),
    ("entries", t.map_(t.utf8, t.int8), "p[]"),
    ("a child of a union", t.DenseUnion((t.field("x", t.int8),), (0,)), "p.x"),
]


@pytest.mark.parametrize(("parent", "path"), [c[1:] for c in PLACES], ids=[c[0] for c in PLACES])
def test_the_place_of_a_child(parent, path):
    assert path == child_path(parent, "p", parent.children[0])


def test_fields_are_walked_in_the_order_of_the_format():
    fields = (t.field("d", t.dictionary(t.int8, t.struct([("w", t.utf8)]))), t.field("l", t.list_(POINT)))
    assert ["d", "d.w", "l", "l[]", "l[].x", "l[].Y", "l[].y"] == [path for path, _ in walk_fields(fields)]


def test_a_long_path_is_cut_off_at_its_beginning():
    path = child_path(POINT, "p" * 1000, POINT.fields[0])
    assert path.startswith("...p")
    assert path.endswith("p.x")
    assert 503 == len(path)


DOTTED = [
    ("a.b", ("a.b", "c"), "`a.b`"),
    ("a.b.c", ("a.b.c", "a.b"), "`a.b.c`"),
    ("s.x.y", ("a", "s"), "`x.y`"),
    ("A.b", ("a.B", "c"), "`a.B`"),
]


@pytest.mark.parametrize(("asked", "names", "hint"), DOTTED)
def test_a_name_with_a_dot_is_told_from_a_field(asked, names, hint):
    """``columns=a.b`` of a file whose column is called so."""
    inner = t.Struct((t.field("x.y", t.int32),))
    fields = [t.field(name, inner if name == "s" else t.int32) for name in names]
    with pytest.raises(ColumnNotFoundError, match=re.escape(f"a name with a dot stands in backticks: {hint}")):
        resolve(fields, parse_paths(asked)[0])
