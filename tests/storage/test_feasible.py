"""What can be known to fail is known before it is done: devices, permissions, flags, lengths of paths."""

import errno
import fcntl
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest

from spark_arrow_ipc.storage import beneath
from spark_arrow_ipc.storage.local import LOCAL


def refused(call, *arguments):
    """Return the error number and the path of a refusal, or None."""
    try:
        call(*arguments)
    except OSError as error:
        return error.errno, error.filename
    return None


@pytest.fixture
def place(tmp_path):
    for name in ("stage", "k=1"):
        (tmp_path / name).mkdir()
    (tmp_path / "k=1" / "old.arrow").write_text("old")
    return LOCAL.inside(str(tmp_path)), str(tmp_path)


def test_what_works_is_not_refused(place):
    storage, root = place
    assert refused(storage.check_writable, root) is None
    finals = [f"{root}/part-0.arrow", f"{root}/k=1/part-0.arrow", f"{root}/k=2/j=1/part-0.arrow"]
    assert refused(storage.check_publish, f"{root}/stage", finals) is None
    paths = [f"{root}/k=1/old.arrow", f"{root}/k=1/gone.arrow", f"{root}/k=3/gone.arrow"]
    assert refused(storage.check_delete, paths) is None


def test_a_directory_that_this_user_may_not_write_to(place, monkeypatch):
    """Root may write everywhere, so the answer is ours."""
    storage, root = place
    real = os.access
    inode = Path(root, "k=1").stat().st_ino

    def access(name, mode, *, dir_fd):
        return os.fstat(dir_fd).st_ino != inode and real(name, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "access", access)
    expected = (errno.EACCES, f"{root}/k=1")
    assert expected == refused(storage.check_writable, f"{root}/k=1")
    for final in (f"{root}/k=1/part-0.arrow", f"{root}/k=1/j=1/i=1/part-0.arrow"):
        assert expected == refused(storage.check_publish, f"{root}/stage", [final])
    assert expected == refused(storage.check_delete, [f"{root}/k=1/old.arrow"])


REASONS = [
    # flags of the file system or the error of asking for them, what is refused
    ("a read-only mount", os.ST_RDONLY, errno.EROFS, "Read-only file system"),
    ("a read-only mount with other flags", os.ST_RDONLY | os.ST_NOSUID, errno.EROFS, "Read-only file system"),
    ("no permission", 0, errno.EACCES, "this user may not make and remove files there"),
    ("a handle of NFS that the server forgot", errno.ESTALE, errno.ESTALE, "Stale file handle"),
    ("a broken disk", errno.EIO, errno.EIO, "Input/output error"),
]


@pytest.mark.parametrize(("flags", "number", "text"), [case[1:] for case in REASONS], ids=[case[0] for case in REASONS])
def test_why_a_directory_cannot_be_written_to(place, monkeypatch, flags, number, text):
    storage, root = place

    def fstatvfs(_):
        if number in {errno.ESTALE, errno.EIO}:
            raise OSError(number, os.strerror(number))
        return SimpleNamespace(f_flag=flags)

    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    monkeypatch.setattr(os, "fstatvfs", fstatvfs)
    for call, arguments, path in (
        (storage.check_writable, (f"{root}/k=1",), f"{root}/k=1"),
        (storage.check_publish, (f"{root}/stage", [f"{root}/a.arrow"]), root),
        (storage.check_delete, ([f"{root}/k=1/old.arrow"],), f"{root}/k=1"),
    ):
        with pytest.raises(OSError, match=text) as caught:
            call(*arguments)
        assert (number, path) == (caught.value.errno, caught.value.filename)


NUMBERS = (
    "ENOSPC",
    "EDQUOT",
    "EROFS",
    "ENAMETOOLONG",
    "ELOOP",
    "ENOTDIR",
    "ESTALE",
    "EIO",
    "EMFILE",
    "EACCES",
    "EPERM",
)
"""Errors of a file system that are passed on, as what they are, with the path that a user knows."""

CHANGES = {
    "create": ("open", lambda storage, root: storage.create(f"{root}/k=1/new.arrow")),
    "put": ("open", lambda storage, root: storage.put(f"{root}/k=1/new", b"1")),
    "put_if_absent": ("open", lambda storage, root: storage.put_if_absent(f"{root}/k=1/new", b"1")),
    "scratch_file": ("open", lambda storage, root: storage.scratch_file(f"{root}/k=1")),
    "make_directory": ("mkdir", lambda storage, root: storage.make_directory(f"{root}/k=1/j=1")),
    "publish": ("rename", lambda storage, root: storage.publish(f"{root}/k=1/old.arrow", f"{root}/k=1/new.arrow")),
    "delete": ("unlink", lambda storage, root: storage.delete(f"{root}/k=1/old.arrow")),
    "delete_all": ("unlink", lambda storage, root: storage.delete_all([f"{root}/k=1/old.arrow"])),
}


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("inside", [True, False], ids=["inside a directory", "anywhere"])
def test_an_error_of_the_file_system_is_said_as_what_it_is(place, monkeypatch, name, number, inside):
    storage, root = place
    storage = storage if inside else LOCAL
    called, call = CHANGES[name]
    real, code = getattr(os, called), getattr(errno, number)

    def refuses(path, *arguments, **descriptors):
        flags = arguments[0] if called == "open" else os.O_CREAT
        if flags & os.O_CREAT and (inside or str(path).startswith(root)):
            other = (arguments[0],) if called == "rename" else ()
            raise OSError(code, os.strerror(code), path, None, *other)
        return real(path, *arguments, **descriptors)

    monkeypatch.setattr(os, called, refuses)
    with pytest.raises(OSError, match=os.strerror(code)) as caught:
        call(storage, root)
    assert code == caught.value.errno
    assert str(caught.value.filename).startswith(f"{root}/k=1")


def test_a_partition_on_another_device(place, monkeypatch):
    storage, root = place
    real, inode = os.fstat, Path(root, "k=1").stat().st_ino

    def fstat(descriptor):
        state = real(descriptor)
        return os.stat_result([*state[:2], state.st_dev + (state.st_ino == inode), *state[3:]])

    monkeypatch.setattr(os, "fstat", fstat)
    assert refused(storage.check_publish, f"{root}/stage", [f"{root}/part-0.arrow"]) is None
    found = refused(storage.check_publish, f"{root}/stage", [f"{root}/k=1/part-0.arrow"])
    assert (errno.EXDEV, f"{root}/k=1") == found


def test_a_partition_that_another_job_deletes_meanwhile(place, monkeypatch):
    storage, root = place
    gone, real = f"{root}/k=1", beneath.open_directory

    def open_directory(above, directory):
        if directory == gone:
            shutil.rmtree(gone, ignore_errors=True)
        return real(above, directory)

    monkeypatch.setattr(beneath, "open_directory", open_directory)
    assert Path(gone).exists()
    assert refused(storage.check_publish, f"{root}/stage", [f"{gone}/part-0.arrow"]) is None
    assert not Path(gone).exists()


def test_a_file_of_another_user_in_a_sticky_directory(place, monkeypatch):
    storage, root = place
    Path(root, "k=1").chmod(0o1777)
    assert refused(storage.check_delete, [f"{root}/k=1/old.arrow"]) is None
    monkeypatch.setattr(os, "geteuid", lambda: 12_345)
    assert (errno.EPERM, f"{root}/k=1/old.arrow") == refused(storage.check_delete, [f"{root}/k=1/old.arrow"])
    assert refused(storage.check_delete, [f"{root}/k=1/gone.arrow"]) is None


FLAGS = [
    # what has the flag, the flag, whether the system refuses to write to it, what is refused
    ("an immutable file", "old.arrow", 0x10, True, "/old.arrow"),
    ("a file that only grows", "old.arrow", 0x20, True, "/old.arrow"),
    ("a file that may not be written to, and may be deleted", "old.arrow", 0, True, None),
    ("another flag", "old.arrow", 0x80000, True, None),
    ("a directory that only grows", ".", 0x20, False, ""),
]


@pytest.mark.parametrize(
    ("flagged", "flags", "guarded", "expected"), [case[1:] for case in FLAGS], ids=[case[0] for case in FLAGS]
)
def test_files_with_flags(place, monkeypatch, flagged, flags, guarded, expected):
    """Only root may set them, and not on every file system."""
    storage, root = place
    inode = Path(root, "k=1", flagged).stat().st_ino
    monkeypatch.setattr(os, "access", lambda name, _, **__: name == "." or not guarded)
    monkeypatch.setattr(
        fcntl, "ioctl", lambda file, *_: (flags if os.fstat(file).st_ino == inode else 0).to_bytes(8, "little")
    )
    found = refused(storage.check_delete, [f"{root}/k=1/old.arrow"])
    assert found == (None if expected is None else (errno.EPERM, f"{root}/k=1{expected}"))


def test_a_file_system_without_flags(place, monkeypatch):
    storage, root = place
    monkeypatch.setattr(fcntl, "ioctl", mock.Mock(side_effect=OSError(errno.ENOTTY, "no such call")))
    monkeypatch.setattr(os, "access", lambda name, _, **__: name == ".")
    assert refused(storage.check_delete, [f"{root}/k=1/old.arrow"]) is None


def test_a_path_that_is_too_long(place):
    storage, root = place
    long = f"{root}/" + "/".join(["k=" + "v" * 200] * 20)
    for final in (f"{root}/{'n' * 256}", f"{long}/part-0.arrow"):
        assert (errno.ENAMETOOLONG, final) == refused(storage.check_publish, f"{root}/stage", [final])
    assert refused(storage.check_publish, f"{root}/stage", [f"{root}/{'n' * 255}"]) is None
