"""A mapped file gives the same ranges, and notices when it was cut."""

import errno
import os
from pathlib import Path

import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.errors import InvalidFramingError
from spark_arrow_ipc.ipc.bytes.source import open_source
from spark_arrow_ipc.storage import byte_source as module
from spark_arrow_ipc.storage.byte_source import FileSource, MappedSource, open_mapped

DATA = bytes(range(256)) * 4
FILE = Path(__file__).parents[1] / "data" / "integers.arrow"


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "data.bin"
    file.write_bytes(DATA)
    return str(file)


def test_ranges_are_views_of_the_file(path):
    source = open_mapped(path)
    assert (MappedSource, path, 1024) == (type(source), source.path, source.nbytes)
    assert open_source(source) is source
    for start, nbytes in [(0, 0), (0, 8), (8, 100), (200, 300), (1000, 24)]:
        assert DATA[start : start + nbytes] == bytes(source.read_at(start, nbytes))
    view = source.read_at(0, 8)
    assert view.readonly
    source.close()
    source.close()
    assert DATA[:8] == bytes(view)
    with pytest.raises(ValueError, match="closed"):
        source.read_at(0, 1)


@pytest.mark.parametrize(("start", "nbytes"), [(0, 1025), (1000, 25), (1024, 1), (2000, 1)])
def test_bytes_that_are_not_there_are_an_error(path, start, nbytes):
    with pytest.raises(InvalidFramingError, match="the file ends at byte 1,024"):
        open_mapped(path).read_at(start, nbytes)


def test_a_file_that_is_cut_while_it_is_mapped_is_an_error(path):
    source = open_mapped(path)
    os.truncate(path, 100)
    with pytest.raises(InvalidFramingError, match="1,024 bytes, as it was mapped, found one that was cut to 100"):
        source.read_at(0, 8)


def test_an_empty_file_has_no_bytes(tmp_path):
    file = tmp_path / "empty"
    file.touch()
    source = open_mapped(str(file))
    assert (0, b"") == (source.nbytes, bytes(source.read_up_to(0, 10)))
    source.close()


def test_a_file_system_that_cannot_map_is_read(path, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.ENODEV, "No such device")

    monkeypatch.setattr(module.mmap, "mmap", refuse)
    assert isinstance(open_mapped(path), FileSource)


def test_other_failures_leave_no_file_open(path, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(module.mmap, "mmap", refuse)
    before = len([*Path("/proc/self/fd").iterdir()])
    with pytest.raises(OSError, match="allocate"):
        open_mapped(path)
    assert before == len([*Path("/proc/self/fd").iterdir()])


def test_batches_of_a_mapped_file_outlive_its_reader():
    with ipc.open(str(FILE)) as reader:
        expected = [batch.to_pylist() for batch in reader]
    with ipc.open(open_mapped(str(FILE))) as reader:
        batches = list(reader)
    assert expected == [batch.to_pylist() for batch in batches]


@pytest.mark.parametrize("opened", [FileSource.open, open_mapped])
def test_a_file_that_is_still_open_is_closed_when_python_ends(path, monkeypatch, opened):
    source = opened(path)
    descriptor = source._descriptor
    monkeypatch.setattr(module, "os", None)  # as names of modules are set when Python ends
    source.__del__()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
