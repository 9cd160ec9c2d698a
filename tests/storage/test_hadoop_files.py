"""Open files of HDFS: errors with the path, and a reader that is closed below its threads."""

from contextlib import contextmanager

import pyarrow as pa
import pytest

from spark_arrow_ipc.storage.hadoop_connect import HadoopSource, NewFile


@contextmanager
def errors(path):
    try:
        yield
    except OSError as error:
        raise OSError(5, f"told: {error}", path) from None


class Failing:
    """A stream that fails where it is told to."""

    def __init__(self, *fails):
        self.fails = fails
        self.called = []

    def __getattr__(self, name):
        def call(*_):
            self.called.append(name)
            if name in self.fails:
                raise OSError("no datanode")
            return 0

        return call


def test_a_new_file_holds_what_was_written():
    sink = pa.BufferOutputStream()
    with NewFile(sink, "hdfs://nn/a", errors) as file:
        assert (3, 2) == (file.write(b"abc"), file.write(memoryview(b"de")))
        file.flush()
        assert (5, True) == (file.tell(), file.writable())
    assert b"abcde" == sink.getvalue().to_pybytes()
    file.close()
    with pytest.raises(ValueError, match="the file is closed"):
        file.write(b"f")


@pytest.mark.parametrize("fails", ["write", "flush", "close"])
def test_errors_have_the_path_and_the_file_is_closed(fails):
    inner = Failing(fails)
    with (
        pytest.raises(OSError, match="told: no datanode: 'hdfs://nn/a'"),
        NewFile(inner, "hdfs://nn/a", errors) as file,
    ):
        file.write(b"1")
    assert "close" in inner.called


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
