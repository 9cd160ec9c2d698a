"""`Cleaner`: delete or archive the files of a batch that the sink has.

Spark says that a batch is committed one batch late, and once more after a restart, so cleaning is idempotent: a file
that is gone was cleaned before. A file that is another one than the batch read, by size, time or version, is left
alone: it was never read. Failures are warnings: the next batches must not wait for an archive.

A listing follows links, and what it finds may lie anywhere. So files are only taken out of the directories that the
user named, in storages `inside` them: a file that is a link, or is reached through one, stays where it is, and so does
a file of a dataset that this package commits, whose records name it.

An archive in which the stream looks would be read again and archived in itself. Links may lead there at any time, so
real places are compared (`names_below`): when the query begins, before files are read, and before they are moved. So it
is with the target of a query whose tasks read and write (`check_outside`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from spark_arrow_ipc.dataset.commit_log.dataset_directory import COMMITS_DIRECTORY
from spark_arrow_ipc.dataset.listing.data_file import DataFile, has_sample
from spark_arrow_ipc.dataset.listing.directory import is_hidden
from spark_arrow_ipc.dataset.listing.globs import ANY_DIRECTORIES, compile_name, expand_braces, literal
from spark_arrow_ipc.dataset.stream.mode import StreamBatch
from spark_arrow_ipc.errors import ArrowIpcError, OptionError, printable
from spark_arrow_ipc.storage.paths import SEPARATOR, join, name_of, parent, relative, root_of
from spark_arrow_ipc.storage.storage import Kind, Status, Storage, each

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Cleaner:
    """The treatment of files that were read."""

    storage: Storage
    # the directory that they are moved to, below which they keep their whole path; None to delete them
    archive: str | None
    # the directories that files are taken out of; links on the way to them are followed, and none below
    roots: tuple[str, ...]

    def check(self, files: Sequence[DataFile]) -> None:
        """Raise if a file lies in the archive, which the stream would then read again."""
        if self.archive is None:
            return
        for directory in {parent(file.path) for file in files}:
            if names_below(self.storage, directory, self.archive) is not None:
                raise OptionError(
                    "this directory of the source is the sourceArchiveDir or lies in it, so that each file would be read "
                    "again when it has been archived; give another sourceArchiveDir, or remove the link that leads there",
                    path=directory,
                )

    def clean(self, batch: StreamBatch) -> None:
        """Delete or archive the files of a batch, and warn of those that stay."""
        if (
            self.archive is not None
            and batch.files
            and (root := root_that_sees(self.storage, self.roots, self.archive))
        ):
            _LOG.warning(
                "%s: not archived: the sourceArchiveDir %s lies in %s by now, where the stream looks for files; remove the link "
                "that leads there, or give another one at the next start",
                printable(batch.files[0].path), printable(self.archive), printable(root),
            )  # fmt: skip
            return
        committed: dict[str, bool] = {}
        each(lambda file: self._clean(file, committed), batch.files, waits=self.storage.traits.waits)

    def archived(self, path: str) -> str:
        """Return the path of a file in the archive."""
        assert self.archive is not None
        return join(self.archive, path[len(root_of(path)) :].lstrip("/"))

    def _clean(self, file: DataFile, committed: dict[str, bool]) -> None:
        try:
            why = self._take_out(file, committed)
        except (OSError, ArrowIpcError) as error:
            why = str(error)
        if why is not None:
            _LOG.warning("%s: not cleaned: %s", printable(file.path), printable(why))

    def _take_out(self, file: DataFile, committed: dict[str, bool]) -> str | None:
        """Delete or move a file; return the reason if it stays though it is there."""
        root = max((root for root in self.roots if relative(file.path, root) != file.path), key=len, default=None)
        if root is None:
            return "it is not below a path of this stream any more"
        root = parent(root) if root == file.path else root
        storage = self.storage.inside(root)
        status = storage.status(file.path, follow_links=False)
        if status is None:
            return None
        if status.kind is Kind.LINK:
            return "it is a link, and what it leads to is not of this directory"
        if status.kind is not Kind.FILE or not _is_same(status, file, storage):
            return "it has changed since it was read"
        if self._is_committed(storage, parent(file.path), root, committed):
            return "it is in a dataset that this package commits, whose records name it"
        if self.archive is None:
            storage.delete(file.path)
            return None
        return self._move(storage, file, self.archive)

    def _is_committed(self, storage: Storage, directory: str, root: str, committed: dict[str, bool]) -> bool:
        """Return whether a directory, or one above it up to the root, has commit records."""
        if directory not in committed:
            has_records = storage.status(join(directory, COMMITS_DIRECTORY), follow_links=False) is not None
            above = len(directory) > len(root) and self._is_committed(storage, parent(directory), root, committed)
            committed[directory] = has_records or above
        return committed[directory]

    def _move(self, storage: Storage, file: DataFile, archive: str) -> str | None:
        archived = self.archived(file.path)
        self.storage.make_directory(archive)
        there = self.storage.inside(archive)
        found = there.status(archived, follow_links=False)
        # Where a move is a copy, a process may have died between the copy and the deletion.
        is_copied = found is not None and not storage.traits.renames and found.nbytes == file.nbytes
        if found is not None and not is_copied:
            return "the archive has a file of its name already"
        there.make_directory(parent(archived))
        storage.publish(file.path, archived, into=archive)
        if not storage.traits.renames:
            storage.delete(file.path)
        return None


def _is_same(status: Status, file: DataFile, storage: Storage) -> bool:
    """Return whether a file is the one that the batch read, also if its time was set anew."""
    if status.nbytes != file.nbytes:
        return False
    if status.mtime_ns != file.mtime_ns:
        return has_sample(file, file.path, storage)
    return not file.version or not status.version or status.version == file.version


def root_that_sees(storage: Storage, roots: Iterable[str], directory: str) -> str | None:
    """Return the first of some directories below which a stream would find another one, by whatever links; None if none."""
    for root in roots:
        if any(not any(map(is_hidden, names)) for names in _ways_down(storage, root, directory)):
            return root
    return None


def check_outside(storage: Storage, directories: Iterable[str], target: str) -> None:
    """Refuse directories of a source that readers of the target see as its own, where a link may lead at any time."""
    for directory in directories:
        if root_that_sees(storage, [target], directory) is not None:
            raise OptionError(
                "this directory of the source is the target or lies in it, so that the query would read the rows that it has "
                "written; remove the link that leads there, or give another target",
                path=directory,
            )


def pattern_sees(storage: Storage, pattern: str, root: str, directory: str) -> bool:
    """Return whether what a pattern matches, below a root that is its plain part, may hold a directory or lie in it.

    A link that leads there from what matches is not seen.
    """
    try:
        choices = [choice[len(root) :] for choice in expand_braces(pattern)]
    except OptionError:  # it is tried as a plain path
        choices = [pattern[len(root) :]]
    ways = _ways_down(storage, root, directory)
    return any(_leads(_names(choice), names) for choice in choices for names in ways)


def _leads(parts: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether a pattern's parts may match on the way down some names, or below them."""
    for i, (part, name) in enumerate(zip(parts, names, strict=False)):
        if part == ANY_DIRECTORIES:
            goes_hidden = any((literal(each) or each)[0] in "_." for each in parts[i:])
            return goes_hidden or not any(map(is_hidden, names[i:]))
        if not _may_name(part, name):
            return False
    return not any(map(is_hidden, names[len(parts) :]))


def _may_name(part: str, name: str) -> bool:
    """Return whether a part of a pattern may match a name, as a listing sees it, or is the name as it stands."""
    if name in (part, literal(part)):
        return True
    try:
        return bool(compile_name(part)(name)) and (part[0] in "_." or not is_hidden(name))
    except OptionError:
        return False


def _ways_down(storage: Storage, root: str, directory: str) -> list[tuple[str, ...]]:
    """Return the names from a root down to a directory: as they are written, and by whatever links; none if it is not there."""
    by_name = _names(relative(directory, root)) if _is_below(directory, root) else None
    return [names for names in (by_name, names_below(storage, directory, root)) if names is not None]


def check_unseen(storage: Storage, roots: Sequence[str], directory: str, option: str, because: str) -> None:
    """Refuse a directory in which files would be seen that are not meant to be."""
    root = root_that_sees(storage, roots, directory)
    if root is not None:
        raise seen(root, directory, option, because)


def seen(where: str, directory: str, option: str, because: str) -> OptionError:
    """Return the error for a directory in which files would be seen that are not meant to be."""
    return OptionError(
        f"{option} lies in {where}, where {because}; give a directory beside it, or one whose name begins with _",
        path=directory,
    )


def names_below(storage: Storage, directory: str, root: str) -> tuple[str, ...] | None:
    """Return the names on the way from a root down to a directory, whatever links lead to either; None if it is not there.

    The root itself gives no names. The directory need not exist.
    """
    real, real_root = storage.unique_path(directory), storage.unique_path(root)
    if _is_below(real, real_root):
        return _names(relative(real, real_root))
    wanted = storage.status(root)
    if wanted is None or wanted.identity is None:
        return None
    # Equal identities of other paths: a mount of the same directory, or names in another case.
    names: tuple[str, ...] = ()
    while True:
        found = storage.status(real)
        if found is not None and found.identity == wanted.identity:
            return names
        if parent(real) == real:
            return None
        names = (name_of(real), *names)
        real = parent(real)


def _is_below(directory: str, root: str) -> bool:
    return directory == root or relative(directory, root) != directory


def _names(path: str) -> tuple[str, ...]:
    return tuple(filter(None, path.split(SEPARATOR)))
