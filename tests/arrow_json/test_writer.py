"""Arrays to Arrow's integration JSON: what the goldens say, written again."""

import copy
import gzip
import json
from pathlib import Path

import corpus
import integration_json
import numpy as np
import pytest

from spark_arrow_ipc.arrow import RecordBatch, Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.errors import UnsupportedError

DATA = Path(__file__).parents[1] / "data"
DOCUMENTS = sorted(DATA.glob("*.json.gz"))
GOLDENS = [] if corpus.root() is None else [e.path for e in corpus.entries(corpus.root()) if e.format == "json"]

PRECISIONS = {"HALF": np.float16, "SINGLE": np.float32, "DOUBLE": np.float64}


def loaded(path):
    return json.loads(gzip.decompress(path.read_bytes()))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_document_of_pyarrow_survives_reading_and_writing(path):
    assert_survives(path)


@pytest.mark.exhaustive
@pytest.mark.skipif(not GOLDENS, reason=f"{corpus.VARIABLE} is not set")
def test_goldens_survive_reading_and_writing():
    for path in GOLDENS:
        assert_survives(path)


def assert_survives(path):
    document = integration_json.read(path)
    again = integration_json.read(json.loads(json.dumps(integration_json.to_json(document.schema, document.batches))))
    assert document.schema == again.schema
    assert corpus.difference(document.schema, document.batches, again.schema, again.batches) is None


@pytest.mark.exhaustive
@pytest.mark.skipif(not GOLDENS, reason=f"{corpus.VARIABLE} is not set")
def test_goldens_are_written_as_they_are():
    """Member by member, but for what the format leaves open: null slots, dictionary ids, absent against empty."""
    for path in GOLDENS:
        document = integration_json.read(path)
        written = json.loads(json.dumps(integration_json.to_json(document.schema, document.batches)))
        assert plain(loaded(path)) == plain(written), path


def plain(document):
    """Return a document with dictionary ids resolved in place, null slots blanked and floats rounded."""
    document = copy.deepcopy(document)
    dictionaries = {d["id"]: d["data"]["columns"][0] for d in document.get("dictionaries", ())}
    for batch in document["batches"]:
        for field, column in zip(document["schema"]["fields"], batch["columns"], strict=True):
            plain_column(field, column, dictionaries)
    for field in document["schema"]["fields"]:
        plain_field(field)
    document["schema"]["metadata"] = document["schema"].get("metadata") or []
    document.pop("dictionaries", None)
    return document


def plain_field(field):
    field["metadata"] = field.get("metadata") or []
    field.get("dictionary", {}).pop("id", None)
    if field["type"]["name"] == "decimal":
        field["type"].setdefault("bitWidth", 128)
    for child in field["children"]:
        plain_field(child)


def plain_column(field, column, dictionaries):
    encoding, name = field.get("dictionary"), field["type"]["name"]
    if name == "union" and not encoding:
        column.pop("VALIDITY", None)
    valid = column.get("VALIDITY")
    for key in ("DATA", "VIEWS") if valid is not None else ():
        if key in column:
            column[key] = [v if ok else None for ok, v in zip(valid, column[key], strict=True)]
    if encoding:
        values = copy.deepcopy(dictionaries[encoding["id"]])
        plain_column({**field, "dictionary": None}, values, dictionaries)
        column["dictionary"] = {**values, "name": "DICT"}
        return
    if name == "floatingpoint":
        as_type = PRECISIONS[field["type"]["precision"]]
        column["DATA"] = [None if v is None else float(as_type(v)) for v in column["DATA"]]
    if "listview" in name:
        plain_list_view(column, valid)
    for child_field, child in zip(field["children"], column.get("children", ()), strict=True):
        plain_column(child_field, child, dictionaries)


def plain_list_view(column, valid):
    """Keep the part of the child (here integers) that valid slots point at; what lies around it is left open."""
    (child,) = column["children"]
    spans = [(int(o), int(n)) for o, n in zip(column.pop("OFFSET"), column.pop("SIZE"), strict=True)]
    used = [(o, n) for (o, n), ok in zip(spans, valid, strict=True) if ok and n]
    first, end = min((o for o, _ in used), default=0), max((o + n for o, n in used), default=0)
    column["spans"] = [(o - first if n else 0, n) for (o, n), ok in zip(spans, valid, strict=True) if ok]
    child |= {key: child[key][first:end] for key in ("VALIDITY", "DATA")} | {"count": end - first}


def indices(values, dictionary):
    type_ = t.dictionary(t.int8, dictionary.type)
    plain_indices = from_pylist.array(values, t.int8)
    return Array(type_, len(values), plain_indices.null_count, plain_indices.buffers, (), dictionary)


def batches_of(*columns):
    schema = Schema.of([t.field("a", columns[0].type)])
    return schema, [RecordBatch(schema, (column,), column.length) for column in columns]


def test_dictionaries_are_numbered_in_the_pre_order_of_fields():
    words = t.dictionary(t.int8, t.utf8)
    nested = t.dictionary(t.int16, t.list_(words))
    schema = Schema.of([t.field("a", nested), t.field("b", t.struct([("c", words)])), t.field("d", words)])
    made = integration_json.to_json(schema, [])
    a, b, d = made["schema"]["fields"]
    found = [encoded["dictionary"]["id"] for encoded in (a, a["children"][0], b["children"][0], d)]
    assert found == [0, 1, 2, 3]
    assert sorted(entry["id"] for entry in made["dictionaries"]) == [0, 1, 2, 3]
    assert schema == integration_json.read(made).schema


def test_grown_dictionary_is_written_once_and_whole():
    short, long_ = from_pylist.array(["a", "b"], t.utf8), from_pylist.array(["a", "b", "c"], t.utf8)
    schema, batches = batches_of(indices([0, 1], short), indices([2, None], long_))
    made = integration_json.to_json(schema, batches)
    assert [entry["data"]["columns"][0]["DATA"] for entry in made["dictionaries"]] == [["a", "b", "c"]]
    assert [[{"a": "a"}, {"a": "b"}], [{"a": "c"}, {"a": None}]] == [
        batch.to_pylist() for batch in integration_json.read(made).batches
    ]


def test_replaced_dictionary_is_refused():
    schema, batches = batches_of(
        indices([0], from_pylist.array(["a"], t.utf8)), indices([0], from_pylist.array(["b", "c"], t.utf8))
    )
    with pytest.raises(UnsupportedError, match="field a: a dictionary that is replaced"):
        integration_json.to_json(schema, batches)


SLICED = [
    ("int", t.int16, [1, None, 3, 4]),
    ("bool", t.bool_, [True, None, False, True]),
    ("utf8", t.utf8, ["a", None, "ccc", "dd"]),
    ("view", t.utf8_view, ["a", None, "longer than twelve bytes", "dd"]),
    ("list", t.list_(t.int8), [[1], None, [2, 3], []]),
    ("fixed size list", t.FixedSizeList(t.field("item", t.int8), 2), [[1, 2], None, [3, None], [4, 5]]),
    ("struct", t.struct([("x", t.int8), ("y", t.utf8)]), [{"x": 1, "y": "a"}, None, {"x": None, "y": "c"}, {"x": 4, "y": "d"}]),
    ("map", t.map_(t.utf8, t.int8), [[("a", 1)], None, [("b", None), ("c", 3)], []]),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "values"), [case[1:] for case in SLICED], ids=[case[0] for case in SLICED])
def test_slice_is_written_as_if_it_stood_alone(type_, values):
    schema, (batch,) = batches_of(from_pylist.array(values, type_))
    made = integration_json.to_json(schema, [batch.slice(1, 2)])
    assert made["batches"][0]["columns"][0]["count"] == 2
    _, (alone,) = batches_of(from_pylist.array(values[1:3], type_))
    assert integration_json.to_json(schema, [alone]) == made
