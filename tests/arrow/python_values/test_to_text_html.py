"""What notebooks show of schemas, record batches and readers: small, escaped, and what one looks for."""

from html.parser import HTMLParser

import cpu_time
import numpy as np
import pyarrow as pa
import pytest
from arrow_cases import ARRAYS
from arrow_from_pyarrow import from_pyarrow
from reader_cases import FILE, STREAM

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import Array, RecordBatch, RecordBatchStream, Schema
from spark_arrow_ipc.arrow import types as t

MOST_CHARACTERS = 60_000
VOID = {"br"}


class Reader(HTMLParser):
    """Reads HTML as a browser does, and notes the tags that are not closed in order, and the cells' text."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.cells, self.wrong = [], set(), [], []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag in ("td", "th", "p"):
            self.cells.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data):
        if self.cells:
            self.cells[-1] += data


def shown(value):
    """Return the cells of what a notebook shows of a value; the HTML is sound and small."""
    text = value._repr_html_()
    assert len(text) < MOST_CHARACTERS
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert ([], []) == (reader.open, reader.wrong)
    assert reader.tags <= {"table", "tr", "th", "td", "p", "br", "small", "i"}
    return reader.cells


def of(type_, values, name="x"):
    return RecordBatch.from_pydict({name: values}, Schema.of([t.field(name, type_)]))


NASTY = "<script>alert(1)</script>&\"'</td></table>"


def test_a_batch():
    batch = of(t.utf8, [f"v{i}" for i in range(9)] + [None, "hidden", "hidden"])
    assert ["12 rows of 1 column", "xutf8", *[f"v{i}" for i in range(9)], "null", "and 2 more rows"] == shown(batch)


def test_a_schema():
    schema = Schema.of(
        [
            t.field("id", t.int64, nullable=False),
            t.field("place", t.struct([("at", t.list_(t.float32)), ("name", t.dictionary(t.int8, t.utf8))])),
            t.field("u", t.FixedSizeBinary(16), custom_metadata={"ARROW:extension:name": "arrow.uuid"}),
        ],
        {"k": "v"},
    )
    assert [
        "#", "name", "type", "nullable",
        "0", "id", "int64", "no",
        "1", "place", "struct", "yes", "", "at", "list", "yes", "", "item", "float32", "yes", "", "name", "dictionary<int8, utf8>", "yes",
        "2", "u", "fixed_size_binary[16] (arrow.uuid)", "yes",
        "metadata", "value", "k", "v",
    ] == shown(schema)  # fmt: skip


@pytest.mark.parametrize("text", [NASTY, "a\0b\nc", "\u202eright to left", "\x1b[31m"])
def test_names_types_and_values_are_escaped(text):
    field = t.field(text, t.Timestamp(t.TimeUnit.SECOND, text), custom_metadata={"ARROW:extension:name": text})
    assert all("\u202e" not in cell and "\x1b" not in cell for cell in shown(Schema.of([field], {text: text})))
    cells = shown(of(t.utf8, [text], text))
    assert all("\u202e" not in cell and "\x1b" not in cell for cell in cells)
    if text is NASTY:
        assert NASTY in cells


@pytest.mark.parametrize("name", ARRAYS)
def test_every_type_is_shown(name):
    array = from_pyarrow(ARRAYS[name])
    batch = RecordBatch(Schema.of([t.field("x", array.type)]), (array,), array.length)
    assert 1 + 1 + 10 + 1 == len(shown(batch))


LONG = "x" * 100_000
WIDE = t.struct([(f"field {i}" * 50, t.int8) for i in range(10_000)])


def deep(levels):
    type_ = t.int8
    for _ in range(levels):
        type_ = t.list_(type_)
    return type_


HUGE = [
    ("long text", of(t.utf8, [LONG, "a" * 61, "b" * 60]), ["about 100,", "a" * 59 + "…", "b" * 60]),
    ("a long list", of(t.list_(t.int64), [list(range(100_000))]), ["about 1,6"]),
    ("long names", of(t.int8, [1], LONG), ["x" * 59 + "…int8"]),
    ("structs of 10,000 fields", of(WIDE, [{}]), ["about "]),
    ("many levels", of(deep(60), [None]), ["xlist", "null"]),
    ("ten thousand columns", RecordBatch.from_pydict({f"c{i}": [i % 100] for i in range(10_000)}, Schema.of([t.field(f"c{i}", t.int8) for i in range(10_000)])), ["and 9,980 more", "c19int8"]),
    ("runs of billions", RecordBatch(Schema.of([t.field("x", t.null)]), (Array(t.null, 2**31, 2**31, ()),), 2**31), ["and 2,147,483,638 more rows"]),
    ("ten thousand columns, their schema", Schema.of([t.field(f"c{i}", t.int8) for i in range(10_000)]), ["and 9,900 more columns", "c99"]),
    ("a struct of 10,000 fields, its schema", Schema.of([t.field("s", WIDE), t.field("after", t.int8)]), ["and 9,901 more fields", "and 1 more column"]),
    ("many levels, their schema", Schema.of([t.field("x", deep(60))]), ["and 1 more field"]),
    ("many pairs", Schema.of([], [(LONG, LONG)] * 1000), ["and 990 more pairs"]),
]  # fmt: skip


@pytest.mark.parametrize(("value", "parts"), [c[1:] for c in HUGE], ids=[c[0] for c in HUGE])
def test_what_is_large_is_cut(value, parts):
    cells = cpu_time.at_most(1, shown, value)
    for part in parts:
        assert any(part in cell for cell in cells), cells


def ints(*values):
    return np.array(values, np.int32).data.cast("B")


BROKEN = [
    ("no UTF-8", Array(t.utf8, 1, 0, (None, ints(0, 1), memoryview(b"\xff"))), "utf"),
    ("offsets that fall", Array(t.utf8, 2, 0, (None, ints(5, 1, 3), memoryview(b"abc"))), ""),
    ("no offsets", Array(t.utf8, 2, 0, (None, ints(0), memoryview(b"abc"))), "expected a buffer of at least 12 bytes"),
    ("a list beyond its child", Array(t.list_(t.int8), 1, 0, (None, ints(0, 9)), (Array(t.int8, 1, 0, (None, memoryview(b"a"))),)), ""),
    ("an index too many", Array(t.dictionary(t.int32, t.null), 1, 0, (None, ints(7)), (), Array(t.null, 1, 1, ())), ""),
    ("a view of a buffer that is not there", Array(t.utf8_view, 1, 0, (None, ints(99, 0, 5, 7))), ""),
]  # fmt: skip


@pytest.mark.parametrize(("array", "part"), [c[1:] for c in BROKEN], ids=[c[0] for c in BROKEN])
def test_values_that_cannot_be_shown_are_said_in_words(array, part):
    cells = shown(RecordBatch(Schema.of([t.field("x", array.type)]), (array,), array.length))
    assert 2 + array.length == len(cells)
    assert part in cells[2].lower()


def test_no_rows_and_no_columns():
    assert ["0 rows of 1 column", "xint8"] == shown(of(t.int8, []))
    assert ["5 rows of 0 columns"] == shown(RecordBatch(Schema(()), (), 5))[:1]


READERS = [
    ("a file", lambda: ipc.open(FILE), "<Arrow IPC file in memory: "),
    ("a stream", lambda: ipc.open(STREAM), "<Arrow IPC stream in memory>"),
    ("another library's", lambda: RecordBatchStream.from_arrow(pa.table({"a": [1]})), "<RecordBatchStream>"),
]


@pytest.mark.parametrize(("make", "title"), [c[1:] for c in READERS], ids=[c[0] for c in READERS])
def test_readers(make, title):
    cells = shown(make())
    assert cells[0].startswith(title)
    assert ["#", "name", "type", "nullable"] == cells[1:5]
