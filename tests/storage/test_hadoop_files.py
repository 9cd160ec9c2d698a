"""A reader of a file of HDFS that is closed below its threads."""

import pytest

from spark_arrow_ipc.storage.hadoop import HadoopSource


def test_a_closed_source_reads_nothing_and_lets_go_of_the_file():
    calls = []

    def fetch(start, into):
        calls.append((start, len(into)))
        into[:] = bytes(range(start, start + len(into)))

    source = HadoopSource(fetch, "hdfs://nn/a", 100)
    assert bytes([3, 4]) == bytes(source.read_at(3, 2))
    source.close()
    with pytest.raises(ValueError, match="the file is closed"):
        source.read_at(3, 2)
    assert [(0, 100)] == calls
