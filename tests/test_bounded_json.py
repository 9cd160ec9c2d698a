"""JSON of unknown origin: few levels, bounded memory, one kind of error, and no second way to read it."""

import ast
import json
import tracemalloc
from pathlib import Path

import pytest
from fuzz import json_mutants

import spark_arrow_ipc
from spark_arrow_ipc.bounded_json import MOST_LEVELS, parse_json

PACKAGE = Path(spark_arrow_ipc.__file__).parent

SOUND = [
    ("a number", "1"),
    ("text beyond ASCII", '"é\\u00e9"'),
    ("as many levels as may be", "[" * MOST_LEVELS + "]" * MOST_LEVELS),
    ("many brackets beside each other", json.dumps([[[1], {"a": []}]] * 1000)),
    ("brackets in a string", json.dumps("[" * 1000)),
]


@pytest.mark.parametrize("text", [case[1] for case in SOUND], ids=[case[0] for case in SOUND])
def test_sound_documents_are_what_the_standard_library_makes_of_them(text):
    assert json.loads(text) == parse_json(text) == parse_json(text.encode())


BROKEN = [
    ("nothing", b"", "Expecting value"),
    ("bytes that are not UTF-8", b'"\xff"', "can't decode"),
    ("one level too many of lists", b"[" * (MOST_LEVELS + 1) + b"]" * (MOST_LEVELS + 1), "levels"),
    ("one level too many of objects", b'{"a":' * (MOST_LEVELS + 1) + b"1" + b"}" * (MOST_LEVELS + 1), "levels"),
    ("one level too many beside others", b"[[],{}," + b"[" * MOST_LEVELS + b"]" * MOST_LEVELS + b"]", "levels"),
    ("a hundred thousand levels", b"[" * 100_000 + b"]" * 100_000, "levels"),
    ("levels that never end", b"[" * 100_000, "levels"),
    ("a number of 5,000 digits", b"1" * 5000, "digits"),
    ("lists that would fill the memory", b"[" + b"[]," * 3_000_000 + b"1]", "memory"),
    ("objects that would fill the memory", b"[" + b'{"a":1},' * 2_000_000 + b"1]", "memory"),
]


@pytest.mark.parametrize(("data", "words"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_anything_wrong_is_a_value_error(data, words):
    with pytest.raises(ValueError, match=words):
        parse_json(data)


GROWING = [
    ("empty lists", "[" + "[]," * 50_000 + "1]"),
    ("lists of one", "[" + "[1]," * 50_000 + "1]"),
    ("objects", "[" + '{"a":1},' * 50_000 + "1]"),
    ("keys", json.dumps({f"key{i}": i for i in range(50_000)})),
    ("short strings", "[" + '"ab",' * 50_000 + "1]"),
    ("doubles", "[" + "1.5," * 50_000 + "1]"),
]


@pytest.mark.slow
@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("text", [case[1] for case in GROWING], ids=[case[0] for case in GROWING])
def test_values_take_at_most_the_memory_that_is_counted(text):
    tracemalloc.start()
    try:
        parse_json(text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    with pytest.raises(ValueError, match="memory"):
        parse_json(text, most_memory=int(peak / 1.35))


@pytest.mark.slow
def test_no_other_module_parses_json():
    elsewhere = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in PACKAGE.rglob("*.py")
        if path.name != "bounded_json.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and (node.value.id, node.attr) in {("json", "loads"), ("json", "load"), ("json", "JSONDecoder")}
    ]
    assert [] == elsewhere


@pytest.mark.slow
def test_json_of_another_structure_is_a_typed_error_or_a_warning():
    """A sample; `python tests/fuzz/json_mutants.py --count 100000` runs more."""
    said, leaks = json_mutants.run(0, 1600)
    assert {} == leaks
    assert set(json_mutants.TARGETS) == {name for name, _ in said}
