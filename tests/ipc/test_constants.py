"""The fixed numbers and bytes are those that pyarrow writes."""

import io

import pytest

from spark_arrow_ipc.ipc import constants

pa = pytest.importorskip("pyarrow")

SCHEMA = pa.schema([("a", pa.int32())])


def written(create, **options):
    sink = io.BytesIO()
    with create(sink, SCHEMA, options=pa.ipc.IpcWriteOptions(**options)):
        pass
    return sink.getvalue()


def test_a_file_begins_and_ends_with_its_magic():
    data = written(pa.ipc.new_file)
    assert data.startswith(constants.FILE_HEADER)
    assert data.endswith(constants.MAGIC)
    footer_nbytes = int.from_bytes(data[-constants.FOOTER_TAIL_NBYTES :][:4], "little")
    assert data[: -constants.FOOTER_TAIL_NBYTES - footer_nbytes].endswith(constants.EOS)
    assert 0 == len(constants.FILE_HEADER) % constants.BODY_ALIGNMENT


def test_a_stream_begins_with_a_continuation_and_ends_with_its_marker():
    data = written(pa.ipc.new_stream)
    assert data.startswith(constants.CONTINUATION.to_bytes(4, "little"))
    assert data.endswith(constants.EOS)


def test_a_legacy_stream_ends_with_a_length_of_zero():
    data = written(pa.ipc.new_stream, use_legacy_format=True)
    assert data.endswith(constants.LEGACY_EOS)
    assert not data.endswith(constants.EOS)


def test_versions_are_those_of_pyarrow():
    assert {version.name for version in constants.READABLE_VERSIONS} == {"V4", "V5"}
    for version in constants.READABLE_VERSIONS:
        assert pa.ipc.MetadataVersion[version.name].value == version.value
