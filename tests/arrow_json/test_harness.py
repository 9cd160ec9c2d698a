"""The program for Arrow's harness does in its three modes what the harness asks, and sees every difference."""

import copy
import gzip
import json
from pathlib import Path

import corpus
import integration_json
import pytest
from integration_json import harness

from spark_arrow_ipc import ipc

DATA = Path(__file__).parents[1] / "data"
JSONS = sorted(DATA.glob("*.json.gz"))


def integration(capsys, mode, json_path, arrow_path, *more):
    status = harness.main(["--mode", mode, "--json", str(json_path), "--arrow", str(arrow_path), *more])
    out, err = capsys.readouterr()
    return status, out, err


SILENT = (0, "", "")


@pytest.mark.parametrize("path", JSONS, ids=lambda path: path.name)
def test_files_of_pyarrow_are_what_their_json_says(capsys, path):
    stem = path.name.removesuffix(".json.gz")
    found = sorted(p for p in DATA.iterdir() if p.name.startswith(f"{stem}.") and p.suffix.startswith(".arrow"))
    assert [] != found
    assert {} == {p.name: answer for p in found if (answer := integration(capsys, "VALIDATE", path, p)) != SILENT}


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("form", ["file", "stream"])
@pytest.mark.parametrize("path", JSONS, ids=lambda path: path.name)
def test_json_to_arrow_and_back(capsys, tmp_path, path, form):
    arrow, back = tmp_path / "contents", tmp_path / "back.json"
    assert SILENT == integration(capsys, "JSON_TO_ARROW", path, arrow, "--format", form)
    assert SILENT == integration(capsys, "VALIDATE", path, arrow)
    assert SILENT == integration(capsys, "ARROW_TO_JSON", back, arrow)
    assert SILENT == integration(capsys, "VALIDATE", back, arrow)


@pytest.mark.parametrize(
    ("name", "form"),
    [("x.arrow_file", "file"), ("x.arrow", "file"), ("x", "file"), ("x.stream", "stream"), ("x.arrows", "stream")],
)
def test_the_name_decides_what_is_written(capsys, tmp_path, name, form):
    integration(capsys, "JSON_TO_ARROW", JSONS[0], tmp_path / name)
    with ipc.open(tmp_path / name) as reader:
        assert form == reader.format


@pytest.mark.parametrize("name", ["plain.json", "compressed.json.gz"])
def test_json_is_gzip_where_its_name_says_so_and_read_by_its_content(capsys, tmp_path, name):
    arrow = DATA / "integers.arrow"
    integration(capsys, "ARROW_TO_JSON", tmp_path / name, arrow)
    content = (tmp_path / name).read_bytes()
    assert name.endswith(".gz") == content.startswith(b"\x1f\x8b")
    (tmp_path / "other").write_bytes(content)
    assert SILENT == integration(capsys, "VALIDATE", tmp_path / "other", arrow)


# ---- differences

DOCUMENT = {
    "schema": {
        "fields": [
            {
                "name": "number",
                "nullable": True,
                "type": {"name": "int", "bitWidth": 32, "isSigned": True},
                "children": [],
                "metadata": [{"key": "a", "value": "1"}, {"key": "b", "value": "2"}],
            },
            {
                "name": "word",
                "nullable": True,
                "type": {"name": "utf8"},
                "children": [],
                "dictionary": {
                    "id": 7,
                    "indexType": {"name": "int", "bitWidth": 8, "isSigned": True},
                    "isOrdered": False,
                },
            },
            {
                "name": "pairs",
                "nullable": True,
                "type": {"name": "map", "keysSorted": False},
                "children": [
                    {
                        "name": "entries",
                        "nullable": False,
                        "type": {"name": "struct"},
                        "children": [
                            {"name": "key", "nullable": False, "type": {"name": "utf8"}, "children": []},
                            {"name": "value", "nullable": True, "type": {"name": "bool"}, "children": []},
                        ],
                    }
                ],
            },
        ],
        "metadata": [{"key": "origin", "value": "a test"}],
    },
    "batches": [
        {
            "count": 2,
            "columns": [
                {"name": "number", "count": 2, "VALIDITY": [1, 0], "DATA": [5, 6]},
                {"name": "word", "count": 2, "VALIDITY": [1, 1], "DATA": [0, 1]},
                {
                    "name": "pairs",
                    "count": 2,
                    "VALIDITY": [1, 1],
                    "OFFSET": [0, 1, 1],
                    "children": [
                        {
                            "name": "entries",
                            "count": 1,
                            "VALIDITY": [1],
                            "children": [
                                {"name": "key", "count": 1, "VALIDITY": [1], "OFFSET": [0, 1], "DATA": ["k"]},
                                {"name": "value", "count": 1, "VALIDITY": [1], "DATA": [True]},
                            ],
                        }
                    ],
                },
            ],
        }
    ],
    "dictionaries": [
        {
            "id": 7,
            "data": {
                "count": 2,
                "columns": [{"name": "D", "count": 2, "VALIDITY": [1, 1], "OFFSET": [0, 1, 2], "DATA": ["x", "y"]}],
            },
        }
    ],
}


def changed(*path, to):
    *path, last = path
    document = copy.deepcopy(DOCUMENT)
    place = document
    for step in path:
        place = place[step]
    place[last] = to
    return document


def reordered_dictionary():
    document = changed("dictionaries", 0, "data", "columns", 0, "DATA", to=["y", "x"])
    document["batches"][0]["columns"][1]["DATA"] = [1, 0]
    return document


def renumbered_dictionary():
    document = changed("dictionaries", 0, "id", to=3)
    document["schema"]["fields"][1]["dictionary"]["id"] = 3
    return document


FIELDS = ("schema", "fields")
ENTRIES = (*FIELDS, 2, "children", 0)
COLUMNS = ("batches", 0, "columns")
AB = [{"key": "a", "value": "1"}, {"key": "b", "value": "2"}]

SAME = [
    ("the document itself", DOCUMENT),
    ("what lies under a null", changed(*COLUMNS, 0, "DATA", to=[5, 999])),
    ("the order of custom metadata", changed(*FIELDS, 0, "metadata", to=AB[::-1])),
    ("a dictionary in another order", reordered_dictionary()),
    ("a dictionary of another id", renumbered_dictionary()),
    ("the names of a map's parts", changed(*ENTRIES, "children", 0, "name", to="some_key")),
]


@pytest.fixture
def arrow(tmp_path):
    document = integration_json.read(DOCUMENT)
    ipc.write(tmp_path / "contents.arrow", document.batches, document.schema)
    return tmp_path / "contents.arrow"


def validated(capsys, tmp_path, arrow, document):
    (tmp_path / "contents.json").write_text(json.dumps(document))
    return integration(capsys, "VALIDATE", tmp_path / "contents.json", arrow)


@pytest.mark.parametrize("document", [c[1] for c in SAME], ids=[c[0] for c in SAME])
def test_what_writers_may_choose_is_no_difference(capsys, tmp_path, arrow, document):
    assert SILENT == validated(capsys, tmp_path, arrow, document)


DIFFERENT = [
    (
        "a field's name",
        changed(*FIELDS, 0, "name", to="n"),
        "field n: name is 'n' in the JSON, 'number' in the Arrow file",
    ),
    ("nullability", changed(*FIELDS, 0, "nullable", to=False), "field number: nullable is False in the JSON, True in"),
    (
        "a type",
        changed(*FIELDS, 0, "type", "isSigned", to=False),
        "field number: type is uint32 in the JSON, int32 in the Arrow file",
    ),
    (
        "an index type",
        changed(*FIELDS, 1, "dictionary", "indexType", "bitWidth", to=16),
        "field word: type is dictionary<int16, utf8> in the JSON, dictionary<int8, utf8> in the Arrow file",
    ),
    ("the order of a dictionary", changed(*FIELDS, 1, "dictionary", "isOrdered", to=True), "field word: type is"),
    ("whether keys are sorted", changed(*FIELDS, 2, "type", "keysSorted", to=True), "field pairs: type is"),
    (
        "a nested field's nullability",
        changed(*ENTRIES, "children", 1, "nullable", to=False),
        "field pairs[].value: nullable is False in the JSON, True in the Arrow file",
    ),
    (
        "a field's metadata",
        changed(*FIELDS, 0, "metadata", to=AB[:1]),
        "field number: custom metadata is [('a', '1')] in the JSON, [('a', '1'), ('b', '2')] in the Arrow file",
    ),
    ("the schema's metadata", changed("schema", "metadata", to=[]), "the schema: custom metadata is [] in the JSON"),
    (
        "a value",
        changed(*COLUMNS, 0, "DATA", to=[4, 6]),
        "record batch 0, first the JSON, then the Arrow file: number: slot 0 is 4 and 5",
    ),
    (
        "a null",
        changed(*COLUMNS, 0, "VALIDITY", to=[1, 1]),
        "record batch 0, first the JSON, then the Arrow file: number: slot 1 is 6 and None",
    ),
    (
        "a dictionary's value",
        changed("dictionaries", 0, "data", "columns", 0, "DATA", to=["x", "z"]),
        "word: slot 1 is 'z' and 'y'",
    ),
    ("a batch less", changed("batches", to=[]), "the JSON has 0 record batches, the Arrow file has more"),
    (
        "a batch more",
        changed("batches", to=DOCUMENT["batches"] * 2),
        "the Arrow file has 1 record batch, the JSON has more",
    ),
]


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize(("document", "words"), [c[1:] for c in DIFFERENT], ids=[c[0] for c in DIFFERENT])
def test_a_difference_is_one_sentence_and_status_1(capsys, tmp_path, arrow, document, words):
    status, out, err = validated(capsys, tmp_path, arrow, document)
    assert (1, "", 1) == (status, out, err.count("\n"))
    assert words in err


def test_a_field_less_is_a_difference(capsys, tmp_path, arrow):
    document = copy.deepcopy(DOCUMENT)
    del document["schema"]["fields"][2], document["batches"][0]["columns"][2]
    status, _, err = validated(capsys, tmp_path, arrow, document)
    assert 1 == status
    assert "the schema: number of fields is 2 in the JSON, 3 in the Arrow file" in err


def test_a_shorter_batch_is_a_difference(capsys, tmp_path, arrow):
    with ipc.open(arrow) as reader:
        (batch,) = reader
    ipc.write(arrow, [batch.slice(0, 1)])
    status, _, err = validated(capsys, tmp_path, arrow, DOCUMENT)
    assert 1 == status
    assert "record batch 0: number of rows is 2 in the JSON, 1 in the Arrow file" in err


# ---- errors

BAD = [
    ("JSON that is none", b"{", None, "expected a JSON document"),
    ("gzip that is cut", gzip.compress(json.dumps(DOCUMENT).encode())[:-9], None, "expected a complete gzip stream"),
    ("Arrow that is none", None, b"a,b\n1,2\n1234567", "what looks like text"),
]


@pytest.mark.parametrize(("document", "content", "words"), [c[1:] for c in BAD], ids=[c[0] for c in BAD])
def test_what_cannot_be_read_is_status_1_and_one_line(capsys, tmp_path, arrow, document, content, words):
    path = tmp_path / "contents.json"
    path.write_bytes(document or json.dumps(DOCUMENT).encode())
    if content:
        arrow.write_bytes(content)
    status, out, err = integration(capsys, "VALIDATE", path, arrow)
    assert (1, "", 1) == (status, out, err.count("\n"))
    assert words in err


def test_nothing_is_written_where_the_input_is_broken(capsys, tmp_path):
    (tmp_path / "broken").write_bytes(b"ARROW1")
    assert 1 == integration(capsys, "ARROW_TO_JSON", tmp_path / "out.json", tmp_path / "broken")[0]
    assert 1 == integration(capsys, "JSON_TO_ARROW", tmp_path / "broken", tmp_path / "out.arrow")[0]
    assert ["broken"] == [path.name for path in tmp_path.iterdir()]


def test_an_unknown_mode_is_a_mistake_of_the_caller(capsys):
    with pytest.raises(SystemExit) as caught:
        integration(capsys, "STREAM_TO_FILE", "x", "y")
    assert 2 == caught.value.code


# ---- the goldens

needs_corpus = pytest.mark.skipif(corpus.root() is None, reason=f"{corpus.VARIABLE} is not set")


@pytest.mark.exhaustive
@needs_corpus
def test_every_golden_is_what_its_json_says(capsys):
    entries = [entry for entry in corpus.entries(corpus.root()) if entry.expect == "ok" and entry.format != "json"]
    goldens = [(corpus.golden_json(entry), entry.path) for entry in entries if corpus.golden_json(entry)]
    assert 275 <= len(goldens)
    answers = {arrow: integration(capsys, "VALIDATE", json_path, arrow) for json_path, arrow in goldens}
    assert {} == {arrow: answer for arrow, answer in answers.items() if answer != SILENT}
