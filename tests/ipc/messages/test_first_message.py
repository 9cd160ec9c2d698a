"""The schema message of a file is found after the magic or after zeros; its metadata is that of the message."""

import io
import struct

import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import InvalidArrowError
from spark_arrow_ipc.ipc.bytes.source import open_source
from spark_arrow_ipc.ipc.constants import Limits
from spark_arrow_ipc.ipc.messages.footer import first_batch, read_first_message
from spark_arrow_ipc.ipc.messages.schema import SchemaHeader
from spark_arrow_ipc.ipc.recovery import open_recovered

SCHEMA = Schema.of([t.field("a", t.int8)])


def stream():
    sink = io.BytesIO()
    ipc.create(sink, SCHEMA, ipc.WriteOptions(format="stream"), schema_metadata={"k": b"\xff"}).close()
    return sink.getvalue()


@pytest.mark.parametrize("zeros", [0, 56])
def test_the_schema_is_found(zeros):
    data = b"ARROW1\0\0" + bytes(zeros) + stream()
    message, stop = read_first_message(open_source(data), Limits())
    assert (("k", "\udcff"),) == message.custom_metadata
    assert len(data) - 8 == stop


def test_the_schema_may_have_no_prefix():
    """As polars writes it: its end is where the first batch begins."""
    pl = pytest.importorskip("polars")
    sink = io.BytesIO()
    pl.DataFrame({"a": [1, 2]}).write_ipc(sink, compat_level=pl.CompatLevel.oldest())
    data = sink.getvalue()
    with ipc.open_file(data) as reader:
        (block,) = reader.blocks
        assert () == reader.read_schema_metadata()
    for whole in (data, data[: block.byte_offset + block.nbytes]):
        message, stop = read_first_message(open_source(whole), Limits())
        assert isinstance(message.header, SchemaHeader)
        assert block.byte_offset == stop


@pytest.mark.parametrize("cut", [0, 5, 60])
def test_what_polars_wrote_is_recovered_without_its_footer(cut):
    pl = pytest.importorskip("polars")
    sink = io.BytesIO()
    pl.DataFrame({"a": [1, 2], "s": ["x", None]}).write_ipc(sink, record_batch_size=1)
    data = sink.getvalue()
    found = open_recovered(lambda: data[: len(data) - cut])
    assert [{"a": 1, "s": "x"}, {"a": 2, "s": None}] == [row for batch in found for row in batch.to_pylist()]
    assert bool(cut) == (found.lost is not None)


def test_many_places_that_look_like_a_batch_are_one():
    data = (b"\xff\xff\xff\xff" + struct.pack("<i", 16)) * 2_000
    assert 8 * 1_000 == first_batch(memoryview(data))
    assert first_batch(memoryview(data[:800])) is None


def test_there_may_be_none():
    assert read_first_message(open_source(b"ARROW1\0\0" + b"\xff\xff\xff\xff" + bytes(4)), Limits()) is None


def test_a_message_that_is_no_schema_is_refused():
    with pytest.raises(InvalidArrowError):
        read_first_message(open_source(b"ARROW1\0\0" + b"\xff\xff\xff\xff\x10\0\0\0" + bytes(16)), Limits())
