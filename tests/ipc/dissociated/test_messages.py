"""A table as messages: what pyarrow reads of them."""

import io

import pyarrow as pa
import pytest
from dissociated_peers import messages_of
from small_files import small_files

from spark_arrow_ipc import ipc
from spark_arrow_ipc.ipc.dissociated.messages import MessageCache, SharedTable, StreamedTable, Table
from spark_arrow_ipc.ipc.dissociated.server import _source
from spark_arrow_ipc.ipc.dissociated.shared_memory import RegionWriter, SharedMemory
from spark_arrow_ipc.ipc.options import WriteOptions

FILES = small_files()
OPTIONS = WriteOptions(format="stream")


def streamed(data, options=OPTIONS):
    return StreamedTable(_source(data, ipc.Limits()), options, MessageCache(0))


def as_stream(messages):
    """Put messages together as pyarrow's reader wants them."""
    made = b""
    for message in messages:
        flatbuffer = message.flatbuffer + bytes(-len(message.flatbuffer) % 8)
        made += (
            b"\xff\xff\xff\xff" + len(flatbuffer).to_bytes(4, "little") + flatbuffer + b"".join(message.pieces or ())
        )
    return made


@pytest.mark.parametrize("name", FILES)
def test_pyarrow_reads_what_is_sent(name):
    messages = streamed(FILES[name]).messages()
    expected = pa.ipc.open_file(FILES[name]).read_all()
    assert expected.equals(pa.ipc.open_stream(as_stream(messages)).read_all())


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_compressed_messages_stay_whole_while_others_are_made(compression):
    """Two dictionaries of one batch go through one compressor, whose output is valid until its next use."""
    columns = [pa.array([f"{c}{i % 50}" * 20 for i in range(500)]).dictionary_encode() for c in "ab"]
    batch = pa.record_batch(columns, ["a", "b"])
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    options = WriteOptions(format="stream", compression=compression)
    messages = list(streamed(sink.getvalue(), options).messages())
    assert batch == pa.ipc.open_stream(as_stream(messages)).read_next_batch()
    assert 4 == len(messages)


def test_shared_messages_can_be_sent_again_and_their_pairs_are_their_buffers():
    data = FILES["utf8_binary.arrow"]
    writer = RegionWriter(SharedMemory.MEMFD)
    table = SharedTable(_source(data, ipc.Limits()), OPTIONS, writer)
    region = writer.freeze()
    table.attach(region)
    first, second = list(table.messages()), list(table.messages())
    assert as_stream(first) == as_stream(second)
    assert pa.ipc.open_file(data).read_all().equals(pa.ipc.open_stream(as_stream(first)).read_all())
    (schema, batch) = first
    assert (None, None) == (schema.pieces, schema.pairs)
    ours = [bytes(region.view(*pair)) for pair in batch.pairs.tolist()]
    (_, body) = messages_of(as_stream(first))[1]
    assert [part for part in ours if part] == [part for part in ours if part and part in body]
    assert all(offset > 0 for offset, nbytes in batch.pairs.tolist() if nbytes)
    region.close()


def test_metadata_of_the_schemas_message_goes_along():
    with ipc.open(FILES["int.arrow"]) as reader:
        batches = tuple(reader)
    from contextlib import nullcontext

    table = streamed(lambda: nullcontext(Table(batches[0].schema, batches, (("k", "v"),))))
    with ipc.open(as_stream(table.messages())) as reader:
        assert (("k", "v"),) == reader.custom_metadata
