r"""Which files a read names: the truth about a dataset is the listing of its directory.

Strategy
--------
As Spark's file sources do: a path is a file, a directory or a pattern (`patterns`). A directory is looked through to
its last subdirectory, because those named ``key=value`` are partitions (`hive`). Without such, and unless
`recursive`, only the files directly in a directory are read. Names that begin with ``_`` or ``.`` are skipped, and a
pattern matches such only where it begins so itself. Paths keep their order, the files of one path are sorted by name,
and a path given twice is read twice. Files that are named outright are read whatever their name.

A pattern that matches nothing names the file that is called so. What a committed job is still putting in place is
seen as if it were done (`directories`). Links are followed, save those that lead to a directory that they lie in.

Nothing is opened here. Whatever is not read is counted, so that an empty answer can say why it is empty.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from spark_arrow_ipc.dataset.listing.committed_view import CommittedView
from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.listing.directory import (
    Listing,
    counted,
    is_hidden,
    is_loop,
    is_staging,
    list_directory,
)
from spark_arrow_ipc.dataset.listing.file_filter import FileFilter
from spark_arrow_ipc.dataset.listing.globs import ANY_DIRECTORIES, compile_name, expand_braces, is_pattern, literal
from spark_arrow_ipc.errors import ArrowIpcError, ConcurrentWriteError, NoFilesError, OptionError, UnsupportedError
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.open import storage_of
from spark_arrow_ipc.storage.paths import SEPARATOR, join, name_of, parent, relative
from spark_arrow_ipc.storage.storage import Kind, Storage

__all__ = [
    "Tree",
    "list_files",
    "list_tree",
]

_LISTINGS: Final = 5
"""So often a tree is listed that changes under the look."""

_SUGGESTED_DEPTH: Final = 8
"""Levels of directories that are looked through to find the pattern that an error shows."""


@dataclass(frozen=True, slots=True)
class Tree:
    """All that lies under the paths of a read.

    Parameters
    ----------
    roots
        What the paths name, patterns replaced by what they match, in order: files, and directories as text.
    leaves
        The files of each directory that holds any, before any filter, each once.
    recursive
        Whether all files are read, and no directory is a partition.
    filter
        Which files are read.
    dangling
        Directories with a link that leads nowhere, and their listings.
    storage
        What all of it lies in.
    """

    roots: tuple[DataFile | str, ...]
    leaves: dict[str, tuple[DataFile, ...]]
    recursive: bool = False
    filter: FileFilter = field(default_factory=FileFilter)
    dangling: tuple[tuple[str, Listing], ...] = ()
    storage: Storage = LOCAL

    def own_files(self) -> list[DataFile]:
        """Return the files that are named, and those directly in the directories that are."""
        files: list[DataFile] = []
        directories = set()
        for root in self.roots:
            if isinstance(root, DataFile):
                files.append(root)
            else:
                directories.add(root)
                files.extend(self.leaves.get(root, ()))
        for directory, listing in self.dangling:
            if directory in directories:
                listing.check_links(directory)
        return files

    def all_files(self) -> list[DataFile]:
        """Return all files, each once."""
        for directory, listing in self.dangling:
            listing.check_links(directory)
        return [file for files in self.leaves.values() for file in files]

    def accepted(self, files: Sequence[DataFile]) -> tuple[DataFile, ...]:
        """Return those of the files that the filter lets through.

        Raises
        ------
        NoFilesError
            There is none: with what was looked for, what was skipped and why.
        OptionError
            The filter's pattern is none.
        """
        accepts = self.filter.accepts()
        kept = tuple(files if accepts is None else filter(accepts, files))
        if kept:
            return kept
        if files:
            raise NoFilesError(
                f"expected files to read, found none: pathGlobFilter, modifiedBefore or modifiedAfter leave out "
                f"{counted(len(files), 'file')} such as {files[0].path}"
            )
        raise _nothing(self)


def list_files(
    paths: Sequence[str],
    *,
    recursive: bool = False,
    file_filter: FileFilter | None = None,
    storage: Storage | None = None,
) -> tuple[DataFile, ...]:
    """Return the files that paths name, without partition columns; `hive.discover` finds those.

    Parameters
    ----------
    paths, recursive, file_filter, storage
        As for `list_tree`.

    Raises
    ------
    UnsupportedError
        A directory is partitioned (``key=value`` subdirectories), and `recursive` is not set.
    ArrowIpcError, OSError
        As `list_tree` and `Tree.accepted`.
    """
    tree = list_tree(paths, recursive=recursive, file_filter=file_filter, storage=storage)
    if recursive:
        return tree.accepted(tree.all_files())
    for root in tree.roots:
        if isinstance(root, str):
            _refuse_partitions(tree, root)
    return tree.accepted(tree.own_files())


def list_tree(
    paths: Sequence[str],
    *,
    recursive: bool = False,
    file_filter: FileFilter | None = None,
    storage: Storage | None = None,
) -> Tree:
    """Return what lies under paths: files, directories, and patterns of them.

    O(names) and one ``stat`` a file. A file or directory that vanishes while it is listed is left out; a path that does
    not exist is an error also where Spark is told to ignore missing files, as it is in Spark.

    Parameters
    ----------
    paths
        Plain paths or ``file:`` URIs; the order is kept.
    recursive
        Whether all files are read, as with Spark's ``recursiveFileLookup``.
    file_filter
        Which files are read.
    storage
        What the paths lie in; found by the first path if not given.

    Raises
    ------
    NoFilesError
        A path does not exist, or a pattern matches nothing.
    OptionError
        A pattern is none.
    UnsupportedError
        A path has a scheme other than ``file``.
    ConcurrentWriteError
        Jobs were committed during each of several listings.
    CommitError, FileChangedError
        A commit record, or a file that it names, is damaged.
    OSError
        The file system refuses a listing.
    """
    if not paths:
        raise NoFilesError("no path was given; give a file, a directory or a pattern such as /data/*.arrow")
    storage = storage_of(paths[0])[0] if storage is None else storage
    wanted = [storage.resolve(path) for path in paths]
    for _ in range(_LISTINGS):
        view = CommittedView(storage)
        try:
            roots = tuple(root for path in wanted for root in _roots(view, path))
            leaves, dangling = _leaves(view, roots)
        except (ArrowIpcError, FileNotFoundError):
            if view.is_unchanged():
                raise
            continue
        if view.is_unchanged(root for root in roots if isinstance(root, str)):
            return Tree(roots, leaves, recursive, file_filter or FileFilter(), dangling, storage)
    raise ConcurrentWriteError(f"other jobs were committed during each of {_LISTINGS} listings", path=wanted[0])


def _leaves(
    view: CommittedView, roots: Sequence[DataFile | str]
) -> tuple[dict[str, tuple[DataFile, ...]], tuple[tuple[str, Listing], ...]]:
    leaves: dict[str, tuple[DataFile, ...]] = {}
    dangling: list[tuple[str, Listing]] = []
    seen: set[str] = set()
    for root in roots:
        if isinstance(root, str):
            for directory, listing in _walk(view, root, seen):
                if listing.files:
                    leaves[directory] = listing.files
                if listing.dangling:
                    dangling.append((directory, listing))
    named: dict[str, dict[str, DataFile]] = {}
    for root in roots:
        if isinstance(root, DataFile):
            named.setdefault(parent(root.path), {}).setdefault(root.path, root)
    for directory, files in named.items():
        there = {file.path: file for file in leaves.get(directory, ())}
        leaves[directory] = tuple({**there, **files}.values())
    return leaves, tuple(dangling)


def _walk(view: CommittedView, root: str, seen: set[str]) -> Iterator[tuple[str, Listing]]:
    """Yield the directories of a tree that are not in `seen`, each before its subdirectories, sorted."""
    waiting = [root]
    while waiting:
        directory = waiting.pop()
        if directory in seen:
            continue
        seen.add(directory)
        listing = view.list(directory)
        yield directory, listing
        for name in reversed(listing.directories):
            path = join(directory, name)
            if name not in listing.links or not is_loop(view.storage, path):
                waiting.append(path)


def _roots(view: CommittedView, path: str) -> Iterator[DataFile | str]:
    """Yield the files and directories that a path or pattern names."""
    if is_pattern(path):
        yield from _matches(view, path)
    else:
        yield _root(view, path)


def _root(view: CommittedView, path: str) -> DataFile | str:
    if any(map(is_staging, path.split(SEPARATOR))):
        raise NoFilesError("this is a staged file of a write that has not committed; it is never read", path=path)
    status = view.storage.status(path)
    if status is None:
        coming = view.file(path)
        if coming is None and not view.has_directory(path):
            raise _missing(view.storage, path)
        return coming or path
    if status.kind is Kind.DIRECTORY:
        return path
    if status.kind is not Kind.FILE:
        raise NoFilesError("this is a pipe, socket or device; copy its bytes to a regular file first", path=path)
    return DataFile(path, status.nbytes, status.mtime_ns)


def _missing(storage: Storage, path: str) -> NoFilesError:
    nearest = parent(path)
    while (status := storage.status(nearest)) is None or status.kind is not Kind.DIRECTORY:
        nearest = parent(nearest)
        if nearest == parent(nearest):
            break
    return NoFilesError(f"the path does not exist; the nearest directory that does is {nearest}", path=path)


def _matches(view: CommittedView, pattern: str) -> list[DataFile | str]:
    """Return what a pattern matches, each once, sorted by path, the choices of braces with slashes one by one."""
    found: dict[str, DataFile | str] = {}
    try:
        for choice in expand_braces(pattern):
            scheme, *parts = choice.split(SEPARATOR)
            matches = _matches_of_parts(view, scheme + SEPARATOR, parts)
            found.update((_path(match), match) for match in sorted(matches, key=_path))
    except OptionError:
        if not _is_named(view.storage, pattern):
            raise
    if found:
        return [match if isinstance(match, DataFile) else _root(view, match) for match in found.values()]
    if _is_named(view.storage, pattern):
        return [_root(view, pattern)]
    raise NoFilesError("no file or directory matches the pattern", path=pattern)


def _path(match: DataFile | str) -> str:
    return match if isinstance(match, str) else match.path


def _matches_of_parts(view: CommittedView, root: str, parts: Sequence[str]) -> list[DataFile | str]:
    found: list[DataFile | str] = [root]
    for i, part in enumerate(parts):
        directories = [match for match in found if isinstance(match, str)]
        name = literal(part)
        if not part:
            continue
        if name is not None:
            paths = (join(directory, name) for directory in directories)
            found = [path for path in paths if _is_there(view, path)]
        elif part == ANY_DIRECTORIES:
            seen: set[str] = set()
            found = [inner for directory in directories for inner, _ in _walk(view, directory, seen)]
        else:
            is_last = i == len(parts) - 1
            matches = compile_name(part)
            found = [match for directory in directories for match in _names(view, directory, part, matches, is_last)]
    return found


def _is_named(storage: Storage, path: str) -> bool:
    """Return whether a name is there, be it a link that leads nowhere."""
    return storage.status(path, follow_links=False) is not None


def _is_there(view: CommittedView, path: str) -> bool:
    return _is_named(view.storage, path) or view.has_directory(path) or view.file(path) is not None


def _names(
    view: CommittedView, directory: str, part: str, matches: Callable[[str], object], is_last: bool
) -> Iterator[DataFile | str]:
    listing = view.list(directory)
    for name in listing.directories:
        if matches(name):
            yield join(directory, name)
    if is_last:
        yield from (file for file in listing.files if matches(name_of(file.path)))
        for name in listing.dangling:
            if matches(name):
                listing.check_links(directory)
    if part[0] in "_." and listing.hidden:
        for name in (name_of(status.path) for status in view.storage.list(directory)):
            if is_hidden(name) and not is_staging(name) and matches(name):
                yield join(directory, name)


def _refuse_partitions(tree: Tree, root: str) -> None:
    """Refuse a partitioned directory: reading only the files beside the partitions would lose rows in silence."""
    inside = root.rstrip(SEPARATOR) + SEPARATOR
    for leaf in tree.leaves:
        if leaf.startswith(inside) and "=" in leaf[len(inside) :]:
            inner = relative(leaf, root)
            raise UnsupportedError(
                f"the directory is partitioned ({inner}); its partitions are not read as columns here. "
                f"To read the files without those columns give the pattern {_pattern(tree.storage, root)}",
                path=root,
            )


def _nothing(tree: Tree) -> NoFilesError:
    """Return the error that explains the first of the directories in which nothing was found."""
    directories = [root for root in tree.roots if isinstance(root, str)]
    directory = directories[0]
    listing = list_directory(tree.storage, directory)
    skipped = listing.skipped()
    text = f"expected files to read, found none; skipped {skipped}" if skipped else "the directory is empty"
    if listing.directories and not tree.recursive:
        text += (
            f". Nested directories ({_some(listing.directories)}) are not read; "
            f"to read their files set recursiveFileLookup=true or give the pattern {_pattern(tree.storage, directory)}"
        )
    if len(directories) > 1:
        text += f" (and nothing in {counted(len(directories) - 1, 'other directory')})"
    return NoFilesError(text, path=directory)


def _pattern(storage: Storage, directory: str) -> str:
    """Return the pattern that reaches the first level of subdirectories which holds files."""
    pattern, inside = re.sub(r"[*?\[\]{}\\]", r"\\\g<0>", directory), directory
    for _ in range(_SUGGESTED_DEPTH):
        pattern = join(pattern, "*")
        listing = list_directory(storage, inside)
        if not listing.directories:
            break
        inside = join(inside, listing.directories[0])
        if list_directory(storage, inside).files:
            break
    return pattern


def _some(names: Sequence[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")
