"""Messages in any order of arrival, and what no order allows."""

import io
import itertools
import json
import random

import corpus
import pyarrow as pa
import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.errors import ArrowIpcError, InvalidFramingError, InvalidMetadataError, LimitError
from spark_arrow_ipc.ipc.dissociated import protocol
from spark_arrow_ipc.ipc.dissociated.connection import Arrivals
from spark_arrow_ipc.ipc.dissociated.protocol import BodyType
from spark_arrow_ipc.ipc.flatbuf.tables import MessageHeader


def stream():
    """Return (metadata, body) of a schema and three batches, by pyarrow."""
    sink = io.BytesIO()
    batch = pa.record_batch([pa.array([1, 2, 3])], ["a"])
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        for _ in range(3):
            writer.write_batch(batch)
    return [(bytes(m.metadata), bytes(m.body or b"")) for m in pa.ipc.MessageReader.open_stream(sink.getvalue())]


STREAM = stream()
NBYTES = len(STREAM[1][1])


def meta(number, content=None, first=0):
    flatbuffer = STREAM[number][0] if content is None else content
    data = protocol.encode_metadata_prefix(number + first) + flatbuffer
    return lambda arrivals: arrivals.add_untagged(memoryview(data))


def body(number, data=None, body_type=BodyType.PACKED, first=0):
    tag = protocol.encode_body_tag(number + first, body_type)
    content = STREAM[number][1] if data is None else data
    return lambda arrivals: arrivals.add_tagged(tag, memoryview(content))


def end(number, first=0):
    data = protocol.encode_end(number + first)
    return lambda arrivals: arrivals.add_untagged(memoryview(data))


def whole(first=0):
    return [*(meta(i, first=first) for i in range(4)), *(body(i, first=first) for i in range(1, 4)), end(4, first)]


def feed(arrivals, messages):
    taken = []
    for message in messages:
        message(arrivals)
        while (arrived := arrivals.take()) is not None:
            taken.append((arrived.sequence, None if arrived.body is None else bytes(arrived.body.data)))
    return taken


EXPECTED = [(0, None), *((i, STREAM[i][1]) for i in range(1, 4))]


@pytest.mark.parametrize("seed", range(50))
def test_messages_in_any_order_are_taken_in_theirs(seed):
    messages = whole()
    random.Random(seed).shuffle(messages)
    arrivals = Arrivals(ipc.Limits())
    assert EXPECTED == feed(arrivals, messages)
    assert arrivals.is_finished
    assert not arrivals.needs_metadata
    assert 0 == arrivals.bodies_nbytes


@pytest.mark.parametrize("first", range(2**32 - 4, 2**32))
@pytest.mark.parametrize("seed", range(5))
def test_numbers_roll_over(first, seed):
    messages = whole(first)
    random.Random(seed).shuffle(messages)
    arrivals = Arrivals(ipc.Limits(), first=first)
    assert [(first + i) % 2**32 for i in range(4)] == [sequence for sequence, _ in feed(arrivals, messages)]
    assert arrivals.is_finished


def test_nothing_is_whole_before_its_end():
    for length in range(len(whole())):
        arrivals = Arrivals(ipc.Limits())
        feed(arrivals, whole()[:length])
        assert not arrivals.is_finished
        assert "read it again" in str(arrivals.truncation_error())


REFUSED = [
    ("the end first", [end(0)], InvalidFramingError, "expected a schema, found the end"),
    ("the end twice", [*whole(), end(4)], InvalidFramingError, "a second one"),
    ("two ends before all is there", [end(4), end(4)], InvalidFramingError, "a second one"),
    ("an end before what is known", [meta(3), end(2)], InvalidFramingError, "after its last message"),
    ("an end before a body that is known", [body(3), end(3)], InvalidFramingError, "after its last message"),
    ("an end before what was taken", [*whole()[:-1], end(2)], InvalidFramingError, "after its last message"),
    ("an end at what is half there", [meta(0), meta(1), end(1)], InvalidFramingError, "after message 1"),
    ("metadata after the end", [*whole()[:1], end(2), meta(2)], InvalidFramingError, "before 2"),
    ("a body after the end", [*whole()[:1], end(2), body(3)], InvalidFramingError, "before 2"),
    ("metadata twice", [meta(2), meta(2)], InvalidFramingError, "metadata of number 2"),
    ("metadata twice, the first half taken", [meta(0), meta(1), meta(1)], InvalidFramingError, "of number 1"),
    ("metadata again", [*whole()[:1], meta(0)], InvalidFramingError, "numbers from 1 on"),
    ("a body twice", [body(2), body(2)], InvalidFramingError, "body of number 2"),
    ("a body again", [meta(0), meta(1), body(1), body(1)], InvalidFramingError, "numbers from 2 on"),
    ("a body of the schema", [body(0), meta(0)], InvalidFramingError, "no body for the schema"),
    ("no schema first", [meta(0, STREAM[1][0])], InvalidMetadataError, "a schema as the first message"),
    ("a second schema", [meta(0), meta(1, STREAM[0][0])], InvalidMetadataError, "one schema"),
    ("noise", [meta(0, b"\xff" * 40)], InvalidMetadataError, "expected"),
]  # fmt: skip


@pytest.mark.parametrize(("messages", "error", "words"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED])
def test_what_no_order_allows_is_refused(messages, error, words):
    with pytest.raises(error, match=words):
        feed(Arrivals(ipc.Limits()), messages)


BUDGETS = [
    ("metadata", "max_metadata_bytes", 1000, [meta(i % 4, bytes(400)) for i in (1, 2, 3)]),
    ("metadata by number", "max_blocks", 2, [meta(i) for i in (1, 2, 3)]),
    ("bodies", "max_batch_bytes", 2 * NBYTES, [body(i) for i in (1, 2, 3)]),
    ("empty bodies by number", "max_blocks", 2, [body(i, b"") for i in (1, 2, 3)]),
]


@pytest.mark.parametrize(("name", "budget", "messages"), [c[1:] for c in BUDGETS], ids=[c[0] for c in BUDGETS])
def test_what_waits_has_a_budget(name, budget, messages):
    feed(Arrivals(ipc.Limits(**{name: budget})), messages[:-1])
    with pytest.raises(LimitError, match=name):
        feed(Arrivals(ipc.Limits(**{name: budget})), messages)


def test_every_byte_of_metadata_may_be_wrong():
    """A changed byte is a typed error or another message, and never another exception."""
    for number, place in itertools.product((0, 1), range(len(STREAM[0][0]))):
        flatbuffer = bytearray(STREAM[number][0])
        if place >= len(flatbuffer):
            continue
        flatbuffer[place] ^= 0x55
        messages = [meta(0) if number else meta(0, bytes(flatbuffer)), *([meta(1, bytes(flatbuffer))] * number)]
        try:
            feed(Arrivals(ipc.Limits()), messages)
        except ArrowIpcError:
            continue


RECORDED = sorted((corpus.root() / "dissociated").glob("*.json")) if corpus.root() else []


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_the_reference_servers_messages_give_its_file(path):
    """Recorded over UCX in their order of arrival: the bytes are another implementation's."""
    messages = json.loads(path.read_text())["messages"]
    arrivals, taken = Arrivals(ipc.Limits()), []
    for message in messages:
        data = memoryview(bytes.fromhex(message["bytes"]))
        if message["kind"] == "untagged":
            arrivals.add_untagged(data)
        else:
            arrivals.add_tagged(int(message["tag"], 16), data)
        while (arrived := arrivals.take()) is not None:
            taken.append(arrived)
    assert arrivals.is_finished
    with ipc.open(path.with_suffix(".arrow")) as reader:
        rows = [batch.num_rows for batch in reader]
    assert rows == [a.message.header.length for a in taken if a.message.kind is MessageHeader.RecordBatch]
