"""Options that cannot be are refused, and what a metadata version cannot hold, before a byte is written."""

import io

import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import RecordBatch, Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.ipc.flatbuf.tables import MetadataVersion
from spark_arrow_ipc.ipc.options import check_message_metadata, check_version

WRONG_OPTIONS = [
    ({"format": "feather"}, "format: expected one of 'file', 'stream', found 'feather'"),
    ({"compression": "snappy"}, "compression: expected one of 'auto', 'lz4', 'zstd', None, found 'snappy'"),
    ({"alignment": 4}, "alignment: expected one of 8, 16, 32, 64, found 4"),
    ({"metadata_version": "V3"}, "metadata_version: expected one of 'V4', 'V5', found 'V3'"),
    ({"compression": None, "compression_level": 3}, "compression_level needs a compression"),
    ({"format": "stream", "compression_level": 3}, "compression_level needs a compression"),
    ({"compression_level": 23}, "a zstd level of -7 to 22, found 23"),
    ({"compression": "zstd", "compression_level": 23}, "a zstd level of -7 to 22, found 23"),
    ({"compression": "lz4", "compression_level": 13}, "a lz4 level of -9 to 12, found 13"),
    ({"compression": "zstd", "metadata_version": "V4"}, "compression needs metadata V5"),
    ({"checksums": True, "format": "stream"}, "checksums are kept in the footer of the file format"),
]


@pytest.mark.parametrize(("options", "message"), WRONG_OPTIONS, ids=[message for _, message in WRONG_OPTIONS])
def test_options_that_cannot_be_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        ipc.WriteOptions(**options)


# First bytes of a frame (RFC 8878, 3.1.1; LZ4 frame format 1.6)
FRAMES = {"zstd": b"\x28\xb5\x2f\xfd", "lz4": b"\x04\x22\x4d\x18"}

CODECS = {
    "a file": ({}, ["zstd"]),
    "a stream": ({"format": "stream"}, []),
    "a file for old readers": ({"metadata_version": "V4"}, []),
    "a file without": ({"compression": None}, []),
    "a file with another": ({"compression": "lz4"}, ["lz4"]),
    "a stream with one": ({"format": "stream", "compression": "zstd"}, ["zstd"]),
}


@pytest.mark.parametrize("case", CODECS)
def test_the_codec_of_what_is_written(case):
    options, codecs = CODECS[case]
    batch = RecordBatch.from_pydict({"a": range(1000)}, Schema.of([t.field("a", t.int64)]))
    sink = io.BytesIO()
    ipc.write(sink, batch, options=ipc.WriteOptions(**options))
    data = sink.getvalue()[8 * ("format" not in options) :]
    assert codecs == [codec for codec, magic in FRAMES.items() if magic in data]
    assert [*range(1000)] == pytest.importorskip("pyarrow").ipc.open_stream(data).read_all()["a"].to_pylist()


def test_the_level_of_zstd_is_one():
    batch = RecordBatch.from_pydict({"a": [f"text {i * i}" for i in range(5000)]}, Schema.of([t.field("a", t.utf8)]))
    of_level = {level: io.BytesIO() for level in (None, 1, 3)}
    for level, sink in of_level.items():
        ipc.write(sink, batch, options=ipc.WriteOptions(compression_level=level))
    by_default, first, third = (sink.getvalue() for sink in of_level.values())
    assert first == by_default != third


def test_v4_has_no_run_ends(tmp_path):
    """Arrow C++ would look for a buffer that other readers do not expect."""
    schema = Schema.of([t.field("l", t.list_(t.run_end_encoded(t.int32, t.utf8)))])
    with pytest.raises(ValueError, match=r"l\[\]: metadata V4 does not have run-end encoded arrays"):
        ipc.create(tmp_path / "x.arrow", schema, ipc.WriteOptions(metadata_version="V4"))
    assert [] == list(tmp_path.iterdir())


def test_v5_has_all_types():
    schema = Schema.of([t.field("l", t.list_(t.run_end_encoded(t.int32, t.utf8)))])
    check_version(schema, MetadataVersion.V5)


@pytest.mark.parametrize("form", ["file", "stream"])
@pytest.mark.parametrize("on_dictionaries", [False, True])
def test_v4_has_no_metadata_of_batches(form, on_dictionaries):
    """Any pair is the compression of Arrow 0.17 to pyarrow, which refuses the whole file then."""
    schema = Schema.of([t.field("a", t.int8)])
    (batch,) = (RecordBatch.from_pylist([{"a": 1}], schema),)
    sink = io.BytesIO()
    with ipc.create(sink, schema, ipc.WriteOptions(format=form, metadata_version="V4")) as writer:
        before = writer.nbytes
        writer.dictionary_metadata.update({"k": "v"} if on_dictionaries else {})
        pairs = () if on_dictionaries else (("k", "v"),)
        with pytest.raises(ValueError, match="custom metadata of batches needs metadata V5"):
            writer.write(RecordBatch(schema, batch.columns, 1, pairs))
        assert before == writer.nbytes
        writer.dictionary_metadata.clear()
        writer.write(batch)
    assert [1] == pytest.importorskip("pyarrow").ipc.open_stream(sink.getvalue()[8 * (form == "file") :]).read_all()[
        "a"
    ].to_pylist()


def test_v5_has_metadata_of_batches():
    check_message_metadata((("k", "v"),), MetadataVersion.V5)


OF_READS = [
    ("validation", {"validation": "none"}, "expected validation 'full' or 'structural', found 'none'"),
    ("streams", {"concatenated_streams": "all"}, "'all' is not a valid ConcatenatedStreams"),
    ("threads", {"threads": 0}, "expected at least one thread, found 0"),
]


@pytest.mark.parametrize(("options", "says"), [c[1:] for c in OF_READS], ids=[c[0] for c in OF_READS])
def test_a_wrong_option_of_a_read_is_refused(options, says):
    with pytest.raises(ValueError, match=says):
        ipc.ReadOptions(**options)


def test_options_of_a_read_are_the_keywords_of_open():
    sink = io.BytesIO()
    ipc.write(sink, RecordBatch.from_pylist([{"a": 1, "b": 2}], Schema((t.field("a", t.int8), t.field("b", t.int8)))))
    with ipc.open(sink.getvalue(), ipc.ReadOptions(columns=["b"])) as reader:
        assert ["b"] == [field.name for field in reader.schema.fields]
    with pytest.raises(TypeError, match="found both"):
        ipc.open(sink.getvalue(), ipc.ReadOptions(), columns=["b"])
