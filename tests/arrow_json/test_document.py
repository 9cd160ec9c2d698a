"""JSON documents: loaded from any source, and every access to a value that is wrong names its place."""

import gzip
import json

import pytest
from integration_json.reader import load

from spark_arrow_ipc.arrow_json import document
from spark_arrow_ipc.arrow_json.document import Node, integer
from spark_arrow_ipc.errors import InvalidBodyError, InvalidFramingError, InvalidMetadataError, LimitError

DOCUMENT = {"a": [1, {"b": "x"}], "c": None}
CONTENT = json.dumps(DOCUMENT).encode()


def test_source_may_be_a_path_bytes_gzip_or_a_document(tmp_path):
    (tmp_path / "a.json").write_bytes(CONTENT)
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(CONTENT))
    sources = [DOCUMENT, CONTENT, gzip.compress(CONTENT), tmp_path / "a.json", str(tmp_path / "a.json.gz")]
    assert [Node(DOCUMENT, "$")] * len(sources) == [load(source) for source in sources]


BYTES = [
    ("empty", b"", InvalidMetadataError, "a JSON document"),
    ("not JSON", b"{'a': 1}", InvalidMetadataError, "a JSON document"),
    ("not UTF-8", b'{"a": "\xff"}', InvalidMetadataError, "a JSON document"),
    ("cut gzip", gzip.compress(CONTENT)[:-20], InvalidFramingError, "gzip"),
    ("damaged gzip", gzip.compress(bytes(100))[:12] + b"\xff" * 30, InvalidFramingError, "gzip"),
    ("brackets without end", b"[" * 200_000, InvalidMetadataError, "levels"),
    ("a number of 5000 digits", b"[" + b"1" * 5000 + b"]", InvalidMetadataError, "a JSON document"),
]


@pytest.mark.parametrize(("content", "error", "words"), [case[1:] for case in BYTES], ids=[case[0] for case in BYTES])
def test_bytes_that_are_no_document_are_refused(content, error, words):
    with pytest.raises(error, match=words):
        load(content)


@pytest.mark.parametrize("wrap", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_document_above_the_limit_is_refused(monkeypatch, wrap):
    monkeypatch.setattr(document, "MAX_NBYTES", len(CONTENT) - 1)
    with pytest.raises(LimitError, match=f"at most {len(CONTENT) - 1} bytes of JSON"):
        load(wrap(CONTENT))


def test_members_and_elements_know_their_place():
    (_, second) = Node(DOCUMENT, "$").member("a").elements()
    assert Node("x", "$.a[1].b") == second.member("b")
    assert "x" == second.member("b").string()
    assert Node(DOCUMENT, "$").optional("c") is None
    assert Node(DOCUMENT, "$").optional("d") is None


def test_the_error_class_is_inherited_until_it_is_replaced():
    body = Node({"a": {"b": [[]]}}, "$").member("a", InvalidBodyError)
    assert InvalidBodyError is next(body.member("b").elements()).error


WRONG = [
    ("a member of an array", [], lambda node: node.member("a"), "expected an object at $.x, found []"),
    ("a member that is absent", {}, lambda node: node.member("a"), "expected a member 'a' at $.x, found {}"),
    ("elements of an object", {}, lambda node: node.elements(), "expected an array at $.x, found {}"),
    ("too few values", [1], lambda node: node.array_of(2), "expected 2 elements at $.x, found 1"),
    ("an integer with a fraction", 1.5, lambda node: node.integer(), "expected an integer at $.x, found 1.5"),
    ("an integer that is true", True, lambda node: node.integer(), "expected an integer at $.x, found True"),
    ("an int32 of 33 bits", 1 << 31, lambda node: node.int32(), "expected an integer of 32 bits at $.x"),
    ("a negative count", -1, lambda node: node.count(), "expected a count at $.x, found -1"),
    ("a count beyond int64", str(1 << 63), lambda node: node.count(), "expected a count at $.x"),
    ("a string that is a number", 1, lambda node: node.string(), "expected a string at $.x, found 1"),
    ("a flag that is a number", 1, lambda node: node.flag(), "expected true or false at $.x, found 1"),
]


@pytest.mark.parametrize(("value", "access", "words"), [c[1:] for c in WRONG], ids=[c[0] for c in WRONG])
def test_a_wrong_value_is_an_error_with_its_place(value, access, words):
    with pytest.raises(InvalidBodyError) as caught:
        access(Node(value, "$.x", InvalidBodyError))
    assert words in str(caught.value)


INTEGERS = [(5, 5), ("-5", -5), ("18446744073709551615", 2**64 - 1), ("9" * 100, int("9" * 100))]


@pytest.mark.parametrize(("written", "expected"), INTEGERS, ids=[repr(case[0])[:20] for case in INTEGERS])
def test_integers_are_numbers_or_strings(written, expected):
    assert expected == integer(written)


@pytest.mark.parametrize("written", [1.0, True, None, "", "+1", "1_0", " 1", "\u0661", "9" * 101])
def test_what_is_no_integer_is_refused(written):
    with pytest.raises(ValueError, match="expected an integer"):
        integer(written)


def test_a_long_value_is_cut_in_messages():
    with pytest.raises(InvalidMetadataError, match=f"found '{56 * 'x'}[.]{{3}}$"):
        Node(100 * "x", "$").integer()
