"""The schema message of a file is found after the magic or after zeros; its metadata is that of the message."""

import io

import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import InvalidArrowError
from spark_arrow_ipc.ipc.first_message import read_first_message
from spark_arrow_ipc.ipc.limits import Limits
from spark_arrow_ipc.ipc.source import open_source

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


def test_there_may_be_none():
    assert read_first_message(open_source(b"ARROW1\0\0" + b"\xff\xff\xff\xff" + bytes(4)), Limits()) is None


def test_a_message_that_is_no_schema_is_refused():
    with pytest.raises(InvalidArrowError):
        read_first_message(open_source(b"ARROW1\0\0" + b"\xff\xff\xff\xff\x10\0\0\0" + bytes(16)), Limits())
