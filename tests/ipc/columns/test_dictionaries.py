"""Dictionaries of a stream are those in force; those of a file are all of it, and decoded once."""

import io
from itertools import pairwise

import pyarrow as pa
import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.errors import InvalidDictionaryError
from spark_arrow_ipc.ipc.bytes.body import BodyPlace, BufferList
from spark_arrow_ipc.ipc.bytes.source import open_source
from spark_arrow_ipc.ipc.columns import dictionaries
from spark_arrow_ipc.ipc.columns.dictionaries import (
    DictionaryBlock,
    FileDictionaries,
    StreamDecoder,
    StreamDictionaries,
)
from spark_arrow_ipc.ipc.columns.plan import compile_plan
from spark_arrow_ipc.ipc.columns.projection import SelectedColumns
from spark_arrow_ipc.ipc.constants import Validation
from spark_arrow_ipc.ipc.flatbuf.tables import MessageHeader, MetadataVersion
from spark_arrow_ipc.ipc.messages.message import decode_message
from spark_arrow_ipc.ipc.messages.schema import decode_schema

PLAN = compile_plan((t.field("values", t.utf8),), (), MetadataVersion.V5)


def words(*values):
    return from_pylist.array(list(values), t.utf8)


# ---- streams


def test_a_stream_has_the_last_values_and_their_deltas():
    known = StreamDictionaries()
    assert not known.has(3)
    assert known.find(3, PLAN) is None
    steps = [(("a",), False, ["a"]), (("b", "c"), True, ["a", "b", "c"]), (("d",), False, ["d"])]
    for values, is_delta, expected in steps:
        known.bring(3, words(*values), is_delta=is_delta)
        assert expected == known.find(3, PLAN).to_pylist()
    assert known.has(3)


def test_a_delta_needs_what_it_extends():
    with pytest.raises(InvalidDictionaryError, match="dictionary 3 before a delta to it"):
        StreamDictionaries().bring(3, words("a"), is_delta=True)


def test_small_deltas_do_not_copy_the_dictionary(monkeypatch):
    """Each of 10,000 deltas copied all before it: 16 ms a delta on 100 MB."""
    copied = []
    real = dictionaries.concat

    def counting(parts):
        copied.append(sum(part.length for part in parts))
        return real(parts)

    monkeypatch.setattr(dictionaries, "concat", counting)
    known = StreamDictionaries()
    known.bring(3, words(*map(str, range(5000))), is_delta=False)
    for i in range(300):
        known.bring(3, words(str(i)), is_delta=True)
    assert sum(copied) < 300 * 10
    found = known.find(3, PLAN)
    assert [*map(str, range(5000)), *map(str, range(300))] == found.to_pylist()
    assert found is known.find(3, PLAN)


def test_bytes_of_dictionaries_are_those_that_stay_in_force():
    known = StreamDictionaries()
    known.bring(1, words("a"), is_delta=False, nbytes=10)
    known.bring(1, words("b"), is_delta=True, nbytes=5)
    known.bring(2, words("c"), is_delta=False, nbytes=100)
    assert (115, 100, 115) == tuple(
        known.held_nbytes(*case[:1], is_delta=case[1]) for case in [(1, True), (1, False), (3, False)]
    )
    known.bring(1, words("d"), is_delta=False, nbytes=20)
    assert 120 == known.held_nbytes(1, is_delta=True)


# ---- files

BLOCKS = [(1, False, "a"), (2, False, "x"), (1, True, "b"), (1, True, "c")]


def file_of(blocks):
    decoded = []

    def decode(number, _):
        decoded.append(number)
        return words(blocks[number][2])

    headers = tuple(DictionaryBlock(id_, is_delta) for id_, is_delta, _ in blocks)
    return FileDictionaries(lambda: headers, decode), decoded


def test_a_file_joins_deltas_in_the_order_of_the_footer_and_once():
    known, decoded = file_of(BLOCKS)
    assert known.find(9, PLAN) is None
    assert ["a", "b", "c"] == known.find(1, PLAN).to_pylist()
    assert known.find(1, PLAN) is known.find(1, PLAN)
    assert [0, 2, 3] == decoded


BROKEN = [
    ("a delta first", [(1, True, "a")], "dictionary batch 0: .*found a delta first"),
    ("a replacement", [(1, False, "a"), (1, False, "b")], "dictionary batch 1: .*found a second one"),
]


@pytest.mark.parametrize(("blocks", "says"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_a_file_has_one_dictionary_of_an_id(blocks, says):
    known, _ = file_of(blocks)
    with pytest.raises(InvalidDictionaryError, match=says):
        known.find(1, PLAN)


def test_a_dictionary_that_needs_itself_is_refused():
    known = FileDictionaries(lambda: (DictionaryBlock(1, is_delta=False),), lambda _, plan: known.find(1, plan))
    with pytest.raises(InvalidDictionaryError, match="dictionary 1 is encoded by itself"):
        known.find(1, PLAN)


TYPE = pa.dictionary(pa.int8(), pa.string())
ROWS = [["a", None], ["a", "b"], ["c"]]


def messages():
    """Return (metadata, body) of each message of a stream with a delta and a replacement, by pyarrow."""
    sink = io.BytesIO()
    schema = pa.schema([("d", TYPE), ("i", pa.int32())])
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)) as writer:
        for number, rows in enumerate(ROWS):
            columns = [pa.array(rows).dictionary_encode().cast(TYPE), pa.array([number] * len(rows), pa.int32())]
            writer.write_batch(pa.record_batch(columns, schema=schema))
    reader = pa.ipc.MessageReader.open_stream(sink.getvalue())
    return [(bytes(m.metadata), b"" if m.body is None else bytes(m.body)) for m in reader]


def packed(header, body):
    return BodyPlace(open_source(body), 0, len(body))


def listed(header, body):
    """Return the buffers of a body, each on its own."""
    data = memoryview(b"".join(bytes(body[start : start + n]) for start, n in header.buffers.tolist()))
    ends = [0]
    for _, n in header.buffers.tolist():
        ends.append(ends[-1] + n)
    return BufferList(tuple(data[start:stop] for start, stop in pairwise(ends)), len(body))


def decoder(columns=None):
    (metadata, _), *rest = messages()
    limits = ipc.Limits()
    schema = decode_schema(decode_message(memoryview(metadata), limits).header.view, limits)
    return StreamDecoder(SelectedColumns(schema, columns, Validation.FULL, limits), "x"), [
        (decode_message(memoryview(m), limits), body) for m, body in rest
    ]


@pytest.mark.parametrize("place", [packed, listed])
@pytest.mark.parametrize("columns", [None, ["d"], ["i"]])
def test_bodies_of_either_kind_give_the_same_rows(place, columns):
    decoding, rest = decoder(columns)
    kinds = [message.kind for message, _ in rest]
    assert 3 == kinds.count(MessageHeader.DictionaryBatch)
    found = []
    for message, body in rest:
        header = message.header if message.kind is MessageHeader.RecordBatch else message.header.data
        found.append(decoding.decode(message, place(header, body), 0))
    rows = [[row.get("d", row.get("i")) for row in batch.to_pylist()] for batch in found if batch is not None]
    assert rows == ([[0, 0], [1, 1], [2]] if columns == ["i"] else ROWS)


def test_another_stream_has_dictionaries_of_its_own():
    decoding, rest = decoder()
    (first, first_body), (batch, batch_body), *_ = rest
    assert decoding.decode(first, packed(None, first_body), 0) is None
    assert 2 == decoding.decode(batch, packed(None, batch_body), 0).num_rows
    decoding.begin_stream()
    with pytest.raises(InvalidDictionaryError, match="before its first use"):
        decoding.decode(batch, packed(None, batch_body), 0)
