"""The header of a dictionary batch is an id, a flag, and the header of a record batch."""

import pytest

from spark_arrow_ipc.errors import InvalidMetadataError
from spark_arrow_ipc.ipc.constants import EXPERIMENTAL_COMPRESSION_KEY
from spark_arrow_ipc.ipc.flatbuf import builder, reader, tables
from spark_arrow_ipc.ipc.flatbuf.tables import CompressionType
from spark_arrow_ipc.ipc.messages.message import decode_dictionary_batch


def decoded(pairs=(), **values):
    flatbuffer = memoryview(builder.build(tables.DICTIONARY_BATCH, values))
    return decode_dictionary_batch(reader.root(flatbuffer, tables.DICTIONARY_BATCH), pairs)


@pytest.mark.parametrize("is_delta", [False, True])
def test_id_flag_and_values_come_as_they_are_written(is_delta):
    header = decoded(id=-7, data={"length": 3}, isDelta=is_delta)
    assert (-7, 3, is_delta) == (header.id, header.data.length, header.is_delta)


def test_the_codec_of_0_17_holds_for_dictionaries_too():
    header = decoded(((EXPERIMENTAL_COMPRESSION_KEY, "lz4"),), data={"length": 3})
    assert CompressionType.LZ4_FRAME is header.data.compression


def test_a_dictionary_batch_has_data():
    with pytest.raises(InvalidMetadataError, match="data in the dictionary batch"):
        decoded(id=1)
