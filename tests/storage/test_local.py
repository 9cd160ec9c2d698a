"""What the file system says of paths, and what local storage makes of its faults."""

import os

import pytest

from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.storage import Kind


def test_status_tells_files_directories_and_nothing_apart(tmp_path):
    file = tmp_path / "f"
    file.write_bytes(b"12345")
    status = LOCAL.status(str(file))
    assert (5, file.stat().st_mtime_ns, Kind.FILE) == (status.nbytes, status.mtime_ns, status.kind)
    assert LOCAL.status(str(tmp_path)).kind is Kind.DIRECTORY
    assert LOCAL.status(str(tmp_path / "absent")) is None
    assert LOCAL.status(str(file / "below a file")) is None


def test_directory_without_fsync_is_tolerated_and_an_io_error_is_not(tmp_path, monkeypatch):
    """Some file systems answer EINVAL for a directory; EIO means that names may be lost."""

    def refuse(code):
        def fsync(_):
            raise OSError(code, os.strerror(code))

        return fsync

    monkeypatch.setattr(os, "fsync", refuse(22))
    LOCAL.sync(str(tmp_path))
    monkeypatch.setattr(os, "fsync", refuse(5))
    with pytest.raises(OSError, match="Input/output"):
        LOCAL.sync(str(tmp_path))


def test_a_directory_below_a_dangling_link_is_an_error_and_no_endless_loop(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError):
        LOCAL.make_directory(str(tmp_path / "link" / "x"))


def test_a_directory_whose_parent_disappears_is_made_again(tmp_path, monkeypatch):
    real, calls = os.makedirs, iter([FileNotFoundError(2, "gone"), None])

    def makedirs(path, **options):
        if error := next(calls, None):
            raise error
        real(path, **options)

    monkeypatch.setattr(os, "makedirs", makedirs)
    LOCAL.make_directory(str(tmp_path / "a" / "b"))
    assert (tmp_path / "a" / "b").is_dir()
