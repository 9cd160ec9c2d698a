"""Custom metadata keeps its order and its repeated keys."""

import pytest

from spark_arrow_ipc.ipc.flatbuf import builder, reader, tables
from spark_arrow_ipc.ipc.messages.schema import decode_custom_metadata, encode_custom_metadata

PAIRS = [
    ("none", ()),
    ("in order", (("b", "1"), ("a", "2"))),
    ("a key twice", (("a", "1"), ("a", "2"))),
    ("empty strings", (("", ""),)),
    ("any bytes as a value", (("a", bytes(range(256)).decode(errors="surrogateescape")),)),
    ("any characters", (("ä\0", "\u2028"),)),
]


@pytest.mark.parametrize("pairs", [case[1] for case in PAIRS], ids=[case[0] for case in PAIRS])
def test_pairs_come_back(pairs):
    flatbuffer = memoryview(builder.build(tables.MESSAGE, {"custom_metadata": encode_custom_metadata(pairs)}))
    assert pairs == decode_custom_metadata(reader.root(flatbuffer, tables.MESSAGE))


def test_a_missing_key_or_value_is_an_empty_string():
    flatbuffer = memoryview(builder.build(tables.MESSAGE, {"custom_metadata": [{"key": "k"}, {"value": "v"}]}))
    assert (("k", ""), ("", "v")) == decode_custom_metadata(reader.root(flatbuffer, tables.MESSAGE))
