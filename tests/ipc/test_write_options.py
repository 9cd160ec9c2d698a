"""Options of writing: what cannot be is refused at once."""

import pytest

from spark_arrow_ipc import ipc

WRONG_OPTIONS = [
    ({"format": "feather"}, "format: expected one of 'file', 'stream', found 'feather'"),
    ({"compression": "snappy"}, "compression: expected one of 'lz4', 'zstd', None, found 'snappy'"),
    ({"alignment": 4}, "alignment: expected one of 8, 16, 32, 64, found 4"),
    ({"metadata_version": "V3"}, "metadata_version: expected one of 'V4', 'V5', found 'V3'"),
    ({"compression_level": 3}, "compression_level needs a compression"),
    ({"compression": "zstd", "compression_level": 23}, "a zstd level of -7 to 22, found 23"),
    ({"compression": "lz4", "compression_level": 13}, "a lz4 level of -9 to 12, found 13"),
    ({"compression": "zstd", "metadata_version": "V4"}, "compression needs metadata V5"),
    ({"checksums": True, "format": "stream"}, "checksums are kept in the footer of the file format"),
]


@pytest.mark.parametrize(("options", "message"), WRONG_OPTIONS, ids=[message for _, message in WRONG_OPTIONS])
def test_options_that_cannot_be_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        ipc.WriteOptions(**options)
