"""Parts of storages: bases for those that learn by doing, and the connections of a process."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Generic, Self, TypeVar, cast

from spark_arrow_ipc.errors import UnsupportedError

if TYPE_CHECKING:
    from spark_arrow_ipc.storage.object_options import StorageOptions

_T = TypeVar("_T")


class LearnsByDoing:
    """A storage that cannot be asked beforehand: its answer to a change says whether it worked, and is safe when it comes.

    There are no links. Directories need not be made, and are never empty, unless a storage says otherwise.
    """

    __slots__ = ()

    def inside(self, directory: str | None) -> Self:  # noqa: ARG002 - there are no links
        """Return this storage: there are no links."""
        return self

    def real_path(self, path: str) -> str:
        """Return the path: there are no links."""
        return path

    def unique_path(self, path: str) -> str:
        """Return the path, which has one spelling."""
        return path

    def scratch_file(self, directory: str) -> BinaryIO:  # noqa: ARG002 - of this machine
        """Return an unnamed file in the temporary directory of this machine."""
        return cast("BinaryIO", tempfile.TemporaryFile())

    def check_put_if_absent(self, directory: str) -> None:
        """Do nothing."""

    def check_writable(self, directory: str) -> None:
        """Do nothing."""

    def check_publish(self, staging: str, finals: Sequence[str]) -> None:
        """Do nothing."""

    def check_delete(self, paths: Sequence[str]) -> None:
        """Do nothing."""

    def delete(self, path: str) -> None:
        """Delete a file; nothing happens if it is not there."""
        raise NotImplementedError

    def delete_all(self, paths: Sequence[str]) -> None:
        """Delete files, one by one; missing ones do not matter."""
        for path in paths:
            self.delete(path)

    def make_directory(self, directory: str) -> None:
        """Do nothing."""

    def delete_directory_if_empty(self, directory: str) -> None:
        """Do nothing."""

    def sync_file(self, file: BinaryIO) -> None:
        """Do nothing."""

    def sync(self, directory: str) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class RemoteStorage(LearnsByDoing):
    """A storage behind a network, reached by options, without their prefix, that may be secrets."""

    options: StorageOptions = ()

    def __repr__(self) -> str:
        """Show the names of the options, and no value."""
        return f"{type(self).__name__}({', '.join(name for name, _ in self.options)})"


class Connections(Generic[_T]):
    """The connections of this process, by what they are made of.

    `not_forked` says what a forked process cannot use: its parent's threads are gone in it, and calls would wait for
    ever. If it is empty, a forked process makes connections of its own.
    """

    def __init__(self, not_forked: str = "") -> None:
        self._not_forked = not_forked
        # A child inherits those of its parent, and must neither use nor close them.
        self._by_process: dict[int, dict[Hashable, _T]] = {}

    def get(self, key: Hashable, make: Callable[[], _T], path: str) -> _T:
        """Return the connection of a key, made if there is none yet. Threads may make one twice, which harms nothing."""
        of_process = self._by_process.get(os.getpid())
        if of_process is None:
            if self._by_process and self._not_forked:
                raise UnsupportedError(
                    f"this process was forked from one that had used {self._not_forked} cannot be used here; start "
                    "processes with multiprocessing's method spawn or forkserver",
                    path=path,
                )
            of_process = {}
        connection = of_process.get(key)
        if connection is None:
            connection = of_process.setdefault(key, make())
            self._by_process.setdefault(os.getpid(), of_process)
        return connection


def missing(path: str) -> FileNotFoundError:
    """Return the error of a file that is not there."""
    return FileNotFoundError(errno.ENOENT, "No such file", path)
