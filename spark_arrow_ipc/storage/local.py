"""`LocalStorage`: the file systems of this machine, network mounts included.

Each method makes few system calls, and every visible change is a single one. A storage `inside` a directory reaches
paths below it relative to open descriptors, so that no link is followed, even one that is made between two calls
(`beneath`). Writers work in such a storage; readers, which change nothing, use plain paths.
"""

from __future__ import annotations

import errno
import os
import stat
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import BinaryIO, ClassVar, Final

from spark_arrow_ipc.errors import CommitError, LimitError, UnsupportedError
from spark_arrow_ipc.storage import beneath, failpoint
from spark_arrow_ipc.storage.byte_source import (
    ByteSource,
    FileSource,
    open_mapped,
    open_named,
    scratch_file,
    sync_named,
)
from spark_arrow_ipc.storage.paths import TEMPORARY_SUFFIX, join, local_path
from spark_arrow_ipc.storage.storage import Choose, Kind, Status, Traits

# Errors of file systems without ``fsync`` of directories (some network and user-space ones)
_NOT_SYNCABLE = (errno.EINVAL, errno.ENOTSUP)

# Errors of opening a link without following it, and of opening a socket
_NOT_OPENABLE = (errno.ELOOP, errno.ENXIO)

_NO_FILE: Final = "expected a regular file, found a link, a directory, a pipe, a socket or a device"

_FILE_MODE: Final = stat.S_IRUSR | stat.S_IWUSR | stat.S_IRGRP | stat.S_IWGRP | stat.S_IROTH | stat.S_IWOTH

# Errors of file systems without hard links
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)

# Attempts to make something while another process deletes it; bounded, as below a dangling link none succeeds
_ATTEMPTS: Final = 10

# Does not wait for the other end of a pipe
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_NEW: Final = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class LocalStorage:
    """Local paths; use `LOCAL`."""

    # The directory of all paths, below which no link is followed; None for any path
    root: str | None = None

    traits: ClassVar[Traits] = Traits(directories=True)

    def inside(self, directory: str | None) -> LocalStorage:
        """Return the storage of a directory, in which no link is followed, or of all paths for None."""
        return LocalStorage(directory)

    def resolve(self, path: str | os.PathLike[str]) -> str:
        """Return the absolute path of a plain path or a ``file:`` URI (`local_path`)."""
        return local_path(path)

    def real_path(self, path: str) -> str:
        """Return a path with all links on it followed."""
        return os.path.realpath(path)

    unique_path = real_path

    def status(self, path: str, *, follow_links: bool = True) -> Status | None:
        """Return the state of a path, or None, by one system call, and inside a directory by two more for each level."""
        try:
            if self.root is None:
                state = os.stat(path, follow_symlinks=follow_links)
            else:
                with self._at(path) as (name, directory):
                    state = os.stat(name, dir_fd=directory, follow_symlinks=follow_links)
        except (FileNotFoundError, NotADirectoryError):
            return None
        is_link = stat.S_ISLNK(state.st_mode)
        is_file, is_directory = stat.S_ISREG(state.st_mode), stat.S_ISDIR(state.st_mode)
        kind = Kind.FILE if is_file else Kind.DIRECTORY if is_directory else Kind.LINK if is_link else Kind.SPECIAL
        identity = (state.st_dev, state.st_ino)
        return Status(path, kind, state.st_size, state.st_mtime_ns, is_link, identity, state.st_ctime_ns)

    def list(self, directory: str) -> Iterator[Status]:
        """Yield the state of every name in a directory, in no order, links to files followed, by one ``stat`` a file."""
        return self._list(directory, None)

    def list_chosen(self, directory: str, choose: Choose) -> Iterator[Status]:
        """Yield the states of some names in a directory, by one ``stat`` for each of them."""
        return self._list(directory, choose)

    def _list(self, directory: str, choose: Choose | None) -> Iterator[Status]:
        if self.root is None:
            yield from _statuses(directory, directory, choose)
            return
        descriptor = beneath.open_readable(self.root, directory)
        try:
            yield from _statuses(descriptor, directory, choose)
        finally:
            os.close(descriptor)

    def open(
        self,
        path: str,
        *,
        memory_map: bool = False,
        listed: Status | None = None,  # noqa: ARG002 - a system call is cheap
    ) -> ByteSource:
        """Open a file for reading; `open_mapped` documents the risk of mapping."""
        descriptor = None
        if self.root is not None:
            with self._at(path) as (name, directory):
                descriptor = os.open(name, _READ, dir_fd=directory)
        return open_mapped(path, descriptor) if memory_map else FileSource.open(path, descriptor)

    def read(self, path: str, max_nbytes: int) -> bytes:
        """Return the contents of a small file, but follow no link and wait for no pipe."""
        with self._at(path) as (name, directory):
            try:
                descriptor = os.open(name, _READ, dir_fd=directory)
            except OSError as error:
                if error.errno not in _NOT_OPENABLE:
                    raise
                raise UnsupportedError(_NO_FILE, path=path) from error
        state = os.fstat(descriptor)
        # After it is open: before, another file could take its name.
        if not stat.S_ISREG(state.st_mode):
            os.close(descriptor)
            raise UnsupportedError(_NO_FILE, path=path)
        with open(descriptor, "rb", buffering=0) as file:
            nbytes = state.st_size
            # By the open file, whose name may be another's by now.
            if nbytes > max_nbytes:
                raise LimitError(expected=f"a file of at most {max_nbytes:,} bytes", found=f"{nbytes:,}", path=path)
            return file.read(nbytes)

    def create(self, path: str) -> BinaryIO:
        """Create a file exclusively; its directory must exist."""
        with self._at(path) as (name, directory):
            # The umask decides, as for any program.
            descriptor = os.open(name, os.O_WRONLY | _NEW, 0o666, dir_fd=directory)
        return open_named(descriptor, path)

    def scratch_file(self, directory: str) -> BinaryIO:
        """Return an unnamed file on the file system of a directory, which must exist."""
        with self._at(_temporary(directory)) as (name, descriptor):
            # Not `O_TMPFILE`, which network file systems lack.
            file = os.open(name, os.O_RDWR | _NEW, 0o600, dir_fd=descriptor)
            try:
                os.unlink(name, dir_fd=descriptor)
            except BaseException:
                os.close(file)
                raise
        return scratch_file(file, directory)

    def put(self, path: str, data: bytes, *, durable: bool = False, scratch: str | None = None) -> None:
        """Write a small file under another name and rename it."""
        for attempt in range(_ATTEMPTS):
            temporary = _temporary(scratch or os.path.dirname(path))
            with self._delete_on_error(temporary):
                self._write(temporary, [data], durable=durable)
                try:
                    self.publish(temporary, path)
                except FileNotFoundError:  # a vacuum has deleted the temporary file
                    if attempt == _ATTEMPTS - 1:
                        raise
                else:
                    return

    def put_if_absent(self, path: str, data: bytes, *, durable: bool = False) -> bool:
        """Write a small file under another name and link it to its own."""
        temporary = _temporary(os.path.dirname(path))
        half = len(data) // 2
        with self._delete_on_error(temporary):
            self._write(temporary, [data[:half], data[half:]], durable=durable, is_record=True)
            failpoint.hit("C3.written")
            linked = self._link(temporary, path)  # fails if the name exists, on network storage too
            failpoint.hit("C3.linked")
        with suppress(OSError, CommitError):  # a vacuum removes it otherwise
            self.delete(temporary)
        return linked

    def check_takes_changes(self, path: str) -> None:
        """Do nothing, as the path's permissions decide."""

    def check_put_if_absent(self, directory: str) -> None:
        """Raise if the file system of a directory has no hard links."""
        probe, linked = _temporary(directory), _temporary(directory)
        self.create(probe).close()
        try:
            self._link(probe, linked)
            self.delete(linked)
        finally:
            self.delete(probe)

    def check_writable(self, directory: str) -> None:
        """Raise if this process may not make and delete names in a directory."""
        with self._directory(directory) as descriptor:
            beneath.check_writable(descriptor, directory)

    def check_publish(self, staging: str, finals: Sequence[str]) -> None:
        """Raise if files cannot be renamed from a directory to some paths: device, permission, length of a path."""
        with self._directory(staging) as descriptor:
            device = os.fstat(descriptor).st_dev
        # Before directories of the final paths exist: the staging directory is on the same file system.
        beneath.check_length(finals, staging)
        checked: set[str] = set()
        for directory in sorted({os.path.dirname(final) for final in finals}):
            with self._nearest_directory(directory) as (nearest, descriptor):
                if nearest in checked:
                    continue
                checked.add(nearest)
                beneath.check_writable(descriptor, nearest)
                if os.fstat(descriptor).st_dev != device:
                    raise OSError(
                        errno.EXDEV,
                        "it is on another device than the staged files, which cannot be renamed there",
                        nearest,
                    )

    def check_delete(self, paths: Sequence[str]) -> None:
        """Raise if files cannot be unlinked: permission, a sticky directory, ``chattr``."""
        names: dict[str, list[str]] = {}
        for path in paths:
            names.setdefault(os.path.dirname(path), []).append(os.path.basename(path))
        # In one order, so that two runs report the same error.
        for directory, inside in sorted(names.items()):
            with suppress(FileNotFoundError), self._directory(directory) as descriptor:
                beneath.check_deletable(descriptor, directory, inside)

    def publish(self, staged: str, final: str) -> bool:
        """Rename a file."""
        with self._at(staged) as (old, source), self._at(final) as (new, target):
            os.rename(old, new, src_dir_fd=source, dst_dir_fd=target)
        return False

    def give_back(self, moved: str, path: str) -> bool:
        """Link a file to its earlier path, and unlink the other."""
        # A rename would replace a file of that name.
        linked = self._link(moved, path)
        if linked:
            self.delete(moved)
        return linked

    def delete(self, path: str) -> None:
        """Unlink a file if it exists."""
        with suppress(FileNotFoundError), self._at(path) as (name, directory):
            os.unlink(name, dir_fd=directory)

    def delete_all(self, paths: Sequence[str]) -> None:
        """Unlink files if they exist."""
        for path in paths:
            self.delete(path)

    def delete_tree(self, directory: str) -> None:
        """Delete a directory with its contents if it exists."""
        with suppress(FileNotFoundError), self._at(directory) as (name, descriptor):
            beneath.delete_tree(name, descriptor)

    def make_directory(self, directory: str) -> None:
        """Make a directory and its parents; inside a directory they take its mode."""
        if self.root is not None and directory != self.root:
            beneath.make_directory(self.root, directory)
            return
        for _ in range(_ATTEMPTS):
            # A job that ends may delete an empty parent between two steps of makedirs.
            with suppress(FileNotFoundError):
                os.makedirs(directory, exist_ok=True)
                return
        os.makedirs(directory, exist_ok=True)

    def delete_directory_if_empty(self, directory: str) -> None:
        """Delete a directory if it is empty, and keep it if that fails."""
        with suppress(OSError, CommitError), self._at(directory) as (name, descriptor):
            os.rmdir(name, dir_fd=descriptor)

    def sync_file(self, file: BinaryIO) -> None:
        """Flush a file and make its bytes durable."""
        sync_named(file)

    def sync(self, directory: str) -> None:
        """Make the names in a directory durable, as of renamed files."""
        try:
            descriptor = beneath.open_readable(self.root or directory, directory)
        except FileNotFoundError:
            return
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in _NOT_SYNCABLE:
                raise
        finally:
            os.close(descriptor)

    @contextmanager
    def _directory(self, directory: str) -> Iterator[int]:
        descriptor = beneath.open_directory(self.root or directory, directory)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def _nearest_directory(self, directory: str) -> Iterator[tuple[str, int]]:
        """Yield the nearest directory at or above one that exists, and its descriptor."""
        while True:
            try:
                descriptor = beneath.open_directory(self.root or directory, directory)
                break
            except FileNotFoundError:
                # Not made yet; or another job has just deleted it, after its last file.
                if directory in {self.root, os.path.dirname(directory)}:
                    raise
                directory = os.path.dirname(directory)
        try:
            yield directory, descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def _at(self, path: str) -> Iterator[tuple[str, int | None]]:
        """Yield the name, and the descriptor of its directory, by which a system call reaches a path."""
        if self.root is None or path == self.root:
            yield path, None
            return
        directory, name = os.path.split(path)
        descriptor = beneath.open_directory(self.root, directory)
        try:
            beneath.check_name(name, path)
            yield name, descriptor
        except OSError as error:
            if error.filename == name:
                error.filename = path
            if error.filename2 == name:
                error.filename2 = path
            raise
        finally:
            os.close(descriptor)

    def _write(self, path: str, parts: Iterable[bytes], *, durable: bool, is_record: bool = False) -> None:
        """Write a small new file with the permissions of its directory."""
        with self.create(path) as file:
            if self.root is not None:
                with suppress(OSError), self._at(path) as (_, directory):  # some file systems have no modes
                    assert directory is not None
                    beneath.take_mode(file.fileno(), directory, _FILE_MODE)
            for part in parts:
                file.write(part)
                if is_record:
                    file.flush()
                    failpoint.hit("C3.torn")
            if durable:
                self.sync_file(file)

    @contextmanager
    def _delete_on_error(self, path: str) -> Iterator[None]:
        try:
            yield
        except BaseException:
            with suppress(OSError, CommitError):  # the first error is the one to raise
                self.delete(path)
            raise

    def _link(self, source: str, target: str) -> bool:
        try:
            with self._at(source) as (old, directory), self._at(target) as (new, target_directory):
                os.link(old, new, src_dir_fd=directory, dst_dir_fd=target_directory, follow_symlinks=False)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            raise UnsupportedError(
                f"this file system has no hard links, with which a write is committed ({error}); write to a local "
                "disk, NFS or another file system that has them, and copy the directory from there"
            ) from error
        return True

    def __reduce__(self) -> tuple[type[LocalStorage], tuple[str, ...]]:
        return LocalStorage, () if self.root is None else (self.root,)


LOCAL: Final = LocalStorage()
"""The storage of local paths."""


def _temporary(directory: str) -> str:
    return os.path.join(directory, uuid.uuid4().hex + TEMPORARY_SUFFIX)


def _statuses(opened: str | int, directory: str, choose: Choose | None) -> Iterator[Status]:
    """Yield the states of the chosen names in a directory, by its path or descriptor, or of all names."""
    file_kind, new = Kind.FILE, tuple.__new__
    before = join(directory, "x")[:-1]
    with os.scandir(opened) as scanned:
        entries: Iterable[os.DirEntry[str]] = scanned
        if choose is not None:
            by_name = {entry.name: entry for entry in scanned}
            entries = [by_name[name] for name in choose(tuple(by_name))]
        for entry in entries:  # 100,000 times: half the time of a named tuple is its own __new__
            if entry.is_dir():
                yield Status(before + entry.name, Kind.DIRECTORY, is_link=entry.is_symlink())
                continue
            try:
                state = entry.stat()
            except FileNotFoundError:
                if entry.is_symlink() and _exists(entry):
                    yield Status(before + entry.name, Kind.DANGLING, is_link=True)
                continue  # a file that vanished is in no snapshot any more
            kind = file_kind if entry.is_file() else Kind.SPECIAL
            path = before + entry.name
            yield new(Status, (path, kind, state.st_size, state.st_mtime_ns, entry.is_symlink(), None, 0, ""))


def _exists(entry: os.DirEntry[str]) -> bool:
    try:
        entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
