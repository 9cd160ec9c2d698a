"""What a file is, by its first bytes."""

import io
import struct

import pytest

from spark_arrow_ipc.errors import InvalidFramingError
from spark_arrow_ipc.ipc import Format
from spark_arrow_ipc.ipc.bytes.source import open_source
from spark_arrow_ipc.ipc.messages.message import HEAD_NBYTES, SNIFF_NBYTES, read_head, sniff

FILE_HEAD = b"ARROW1\0\0\xff\xff\xff\xff\x78\0\0\0"
STREAM_HEAD = b"\xff\xff\xff\xff\x78\0\0\0\x10\0\0\0\0\0\x0a\0"
LEGACY_HEAD = STREAM_HEAD[4:] + b"\0\0\0\0"

KNOWN = [
    ("file", FILE_HEAD, 1000, Format.FILE),
    ("file without padding", b"ARROW1", 6, Format.FILE),
    ("file before its first message", b"ARROW1\0\0", 8, Format.FILE),
    ("stream", STREAM_HEAD, 1000, Format.STREAM),
    ("stream that ends in its marker", STREAM_HEAD[:4], 4, Format.STREAM),
    ("stream without a schema", STREAM_HEAD[:4] + bytes(4), 8, Format.STREAM),
    ("stream before 0.15", LEGACY_HEAD, 1000, Format.STREAM),
    ("stream before 0.15 of unknown length", LEGACY_HEAD, None, Format.STREAM),
    ("stream before 0.15 that is all metadata", LEGACY_HEAD, 0x78 + 4, Format.STREAM),
]


@pytest.mark.parametrize(("head", "nbytes", "format_"), [case[1:] for case in KNOWN], ids=[case[0] for case in KNOWN])
def test_arrow_is_known(head, nbytes, format_):
    assert format_ is sniff(head, nbytes)


GUESSES = [
    ("nothing", b"", "an empty file"),
    ("Parquet", b"PAR1\x15\x04\x15\x10\x15\x14\x4c\x15", "Parquet; use spark.read.parquet"),
    ("encrypted Parquet", b"PARE\x15\x04\x15\x10\x15\x14\x4c\x15", "the bytes 50 41 52 45"),
    ("Feather V1", b"FEA1\0\0\0\0", "Feather version 1"),
    ("ORC", b"ORC\x08\x03\x10\x02\x1a", "ORC; use spark.read.orc"),
    ("Avro", b"Obj\x01\x04\x14avro.code", "Avro; use spark.read.format('avro')"),
    ("gzip", b"\x1f\x8b\x08\0\0\0\0\0\0\x03", "gzip; decompress it first"),
    ("zstd", b"\x28\xb5\x2f\xfd\x04\x58\0\0", "zstd-compressed file; decompress it first"),
    ("lz4", b"\x04\x22\x4d\x18\x64\x40\xa7\0", "lz4-compressed file; decompress it first"),
    ("bzip2", b"BZh91AY&SY\0\0\0\0\0\0", "bzip2"),
    ("zip", b"PK\x03\x04\x14\0\0\0", "a zip archive"),
    ("HDF5", b"\x89HDF\r\n\x1a\n", "HDF5"),
    ("SQLite", b"SQLite format 3\0", "SQLite"),
    ("CSV", b"a,b,c\n1,2,3\n4,5,6\n", "text: b'a,b,c\\n1,2,3\\n4,5,'; for CSV use spark.read.csv"),
    ("CSV with a byte order mark", b"\xef\xbb\xbfa,b\n1,2\n3,4\n5,6\n", "text"),
    ("short text", b"no", "text: b'no'"),
    ("a cut magic", b"ARRO", "only 4 bytes: the file is truncated"),
    ("end marker before 0.15", bytes(16), "an end-of-stream marker without a schema"),
    ("a negative length", struct.pack("<i", -7) + bytes(12), "the bytes f9 ff ff ff"),
    ("noise", bytes(range(128, 144)), "the bytes 80 81 82 83"),
    ("a length that is too small", struct.pack("<i", 8) + bytes(12), "the bytes 08 00 00 00"),
    ("a length beyond the end", LEGACY_HEAD, "the bytes 78 00 00 00"),
]


@pytest.mark.parametrize(("head", "guess"), [case[1:] for case in GUESSES], ids=[case[0] for case in GUESSES])
def test_what_is_not_arrow_is_called_by_its_name(head, guess):
    with pytest.raises(InvalidFramingError) as caught:
        sniff(head[:SNIFF_NBYTES], 100)
    assert guess in str(caught.value)
    assert "expected an Arrow IPC file (ARROW1) or stream" in str(caught.value)
    assert 0 == caught.value.byte_offset


def test_text_is_not_taken_for_a_stream_of_old():
    """Read as a length, four letters are a number that a file of gigabytes would hold."""
    with pytest.raises(InvalidFramingError, match="text"):
        sniff(b"some words, some more", 1 << 40)


class Pipe(io.RawIOBase):
    """A file object that cannot seek and gives a byte at a time."""

    def __init__(self, data):
        self.data = data

    def readable(self):
        return True

    def read(self, nbytes=-1):
        first, self.data = self.data[:1], self.data[1:]
        return first


def test_the_bytes_that_were_looked_at_stay_in_a_pipe():
    source = open_source(Pipe(STREAM_HEAD))
    assert Format.STREAM is sniff(read_head(source))
    assert STREAM_HEAD == bytes(source.read_at(0, len(STREAM_HEAD)))


def test_the_head_of_a_file_reaches_to_its_first_message():
    data = FILE_HEAD + bytes(200)
    assert data[:HEAD_NBYTES] == bytes(read_head(open_source(data)))
    assert FILE_HEAD == bytes(read_head(open_source(FILE_HEAD)))
