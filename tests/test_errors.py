"""Errors say where and what, learn their place once, and arrive whole from another process."""

import copy
import pickle

import pytest

from spark_arrow_ipc import errors
from spark_arrow_ipc.errors import ArrowIpcError, InvalidBodyError, LimitError, error_context

CLASSES = [getattr(errors, name) for name in errors.__all__ if name != "error_context"]

PLACE = {
    "path": "s3a://b/x.arrow",
    "block_kind": "dictionary batch",
    "block_number": 3,
    "field_path": "a.b[]",
    "byte_offset": 8192,
}

TEXTS = [
    ("a sentence", {"message": "there is nothing"}, "there is nothing"),
    ("expected and found", {"expected": "4", "found": "5"}, "expected 4, found 5"),
    (
        "a sentence and both",
        {"message": "the footer is odd", "expected": "4", "found": "5"},
        "the footer is odd: expected 4, found 5",
    ),
    (
        "everything",
        {
            "expected": "value_offsets of 44 bytes", "found": "40", "spec": 'Columnar.rst "Variable-size List Layout"',
            **PLACE, "block_kind": None,
        },
        ("s3a://b/x.arrow: record batch 3, field a.b[]: expected value_offsets of 44 bytes, found 40 "
        '(byte offset 8,192; Columnar.rst "Variable-size List Layout")'),
    ),
    (
        "a dictionary batch",
        {"message": "broken", **PLACE},
        "s3a://b/x.arrow: dictionary batch 3, field a.b[]: broken (byte offset 8,192)",
    ),
    ("the first block, the first byte", {"message": "x", "block_number": 0, "byte_offset": 0}, "record batch 0: x (byte offset 0)"),
    ("a field alone", {"message": "x", "field_path": "c"}, "field c: x"),
    ("what was given", {"message": "x", "path": "p", "asked_by": "the option where"}, "p: the option where: x"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "text"), [case[1:] for case in TEXTS], ids=[case[0] for case in TEXTS])
def test_text_says_where_then_what_then_by_which_rule(arguments, text):
    assert text == str(ArrowIpcError(**arguments))


@pytest.mark.parametrize("error_class", CLASSES, ids=lambda c: c.__name__)
def test_a_list_of_errors_says_what_each_is(error_class):
    """A notebook, a logger and an exception group show the repr."""
    error = error_class(expected="4", found="5", path="a.arrow")
    assert repr([error]) == f"[{error_class.__name__}('a.arrow: expected 4, found 5')]"


PARENTS = [
    ("InvalidFramingError", (errors.InvalidArrowError, ValueError)),
    ("InvalidMetadataError", (errors.InvalidArrowError, ValueError)),
    ("InvalidBodyError", (errors.InvalidArrowError, ValueError)),
    ("InvalidDictionaryError", (errors.InvalidArrowError, ValueError)),
    ("OptionError", (ArrowIpcError, ValueError)),
    ("ColumnNotFoundError", (errors.SchemaMismatchError,)),
    ("ConcurrentWriteError", (errors.CommitError,)),
]


@pytest.mark.parametrize(("name", "parents"), PARENTS, ids=[case[0] for case in PARENTS])
def test_errors_are_also_what_python_calls_them(name, parents):
    assert all(issubclass(getattr(errors, name), parent) for parent in parents)


def test_no_error_is_one_that_spark_takes_for_a_method_that_a_source_lacks():
    assert [] == [error_class for error_class in CLASSES if issubclass(error_class, NotImplementedError)]


@pytest.mark.parametrize("error_class", CLASSES, ids=lambda c: c.__name__)
@pytest.mark.parametrize("move", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy], ids=["pickle", "copy"])
def test_an_error_survives_its_way_through_spark(error_class, move):
    error = error_class(expected="a", found="b", spec="c", **PLACE)
    error.add_note("a note")
    moved = move(error)
    assert (error_class, str(error), vars(error)) == (type(moved), str(moved), vars(moved))


HOSTILE = "\x00\x1b[31m\x7f\x9b31m\u202e\u2066\n\ud800"


@pytest.mark.parametrize("error_class", CLASSES, ids=lambda c: c.__name__)
def test_the_text_of_an_error_has_only_characters_that_print(error_class):
    """Names, values and paths of files: a terminal obeys them, and a log splits at a line end."""
    with pytest.raises(error_class) as caught, error_context(path=HOSTILE, block_kind=HOSTILE, block_number=0):
        raise error_class(HOSTILE, expected=HOSTILE, found=HOSTILE, field_path=f"ünï.{HOSTILE}", spec=HOSTILE)
    text = str(caught.value)
    assert text.isprintable()
    assert "ünï.\\x00\\x1b[31m\\x7f\\x9b31m\\u202e\\u2066\\n\\ud800" in text
    assert HOSTILE == caught.value.path


def test_the_innermost_place_wins_and_the_outer_ones_fill_the_rest():
    with (
        pytest.raises(InvalidBodyError) as caught,
        error_context(path="outer", block_number=9, byte_offset=1),
        error_context(path="inner", block_kind="dictionary batch", block_number=0),
    ):
        raise InvalidBodyError(expected="a", found="b", field_path="f")
    assert {**PLACE, "path": "inner", "block_number": 0, "field_path": "f", "byte_offset": 1} == {
        name: getattr(caught.value, name) for name in PLACE
    }


def test_zero_is_a_place():
    """Block 0 and byte 0 are known, not missing."""
    with pytest.raises(LimitError) as caught, error_context(block_number=5, byte_offset=5):
        raise LimitError("x", block_number=0, byte_offset=0)
    assert (0, 0) == (caught.value.block_number, caught.value.byte_offset)


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), KeyboardInterrupt(), TypeError("x")], ids=repr)
def test_errors_of_others_pass_untouched(error):
    with pytest.raises(type(error)) as caught, error_context(path="p"):
        raise error
    assert error is caught.value
    assert not hasattr(caught.value, "path")


def test_all_errors_are_listed():
    defined = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert defined == set(errors.__all__) - {"error_context"}


def test_what_there_is_no_memory_for_is_a_limit_with_its_place():
    words = r"a\.arrow: record batch 3: there is not enough memory"
    with (
        pytest.raises(LimitError, match=words) as caught,
        error_context(path="a.arrow"),
        error_context(block_number=3),
    ):
        raise MemoryError
    assert isinstance(caught.value.__cause__, MemoryError)
