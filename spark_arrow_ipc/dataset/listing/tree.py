r"""List the files and directories of a read, from its paths and patterns.

How it works: as in Spark's file sources, a path is a file, a directory or a pattern (`globs`); a pattern without matches is
tried as a plain path. A directory is listed with all its subdirectories, because those named ``key=value`` are partitions
(`hive`). Without partitions, and unless `recursive`, only the files directly in a directory are read.

- Names that begin with ``_`` or ``.`` are skipped; a pattern matches them only if it begins with that character. A file whose
  path is named explicitly is read with any name.
- Paths keep their order, the files of one path are sorted by name, and a path that is named twice is read twice.
- In a table, the files are those that count (`table_view`), now or in an older version (`table_version`).
- With `hugging_face`, a directory that HuggingFace's `datasets` wrote has the files that its JSON files name, in their order
  (`hugging_face`), and a DatasetDict stands for its splits.
- Links are followed, except links to a directory that contains them. No file is opened.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from spark_arrow_ipc.dataset.listing import globs, hugging_face
from spark_arrow_ipc.dataset.listing.data_file import DataFile, FileFilter
from spark_arrow_ipc.dataset.listing.directory import Listing, count_noun, is_hidden, is_staging, list_directory
from spark_arrow_ipc.dataset.listing.table_version import Version, list_version
from spark_arrow_ipc.dataset.listing.table_view import Progress, TableView
from spark_arrow_ipc.errors import ArrowIpcError, ConcurrentWriteError, NoFilesError, OptionError
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.open import storage_of
from spark_arrow_ipc.storage.paths import SEPARATOR, join, name_of, parent, root_of
from spark_arrow_ipc.storage.storage import Kind, Storage
from spark_arrow_ipc.table.state import State

_LISTINGS: Final = 5
"""Attempts to list a tree that changes meanwhile."""

_CORRECTIONS: Final = 20
"""Attempts to correct one listing by what was committed meanwhile; the second one succeeds, unless files vanish."""

_SUGGESTED_DEPTH: Final = 8
"""Levels of directories that are listed to suggest a pattern in an error."""

_Listed: TypeAlias = tuple[
    tuple[DataFile | str, ...], dict[str, tuple[DataFile, ...]], tuple[tuple[str, Listing], ...], dict[str, str]
]
"""The roots, leaves, dangling links and splits of a tree."""


@dataclass(frozen=True, slots=True)
class Tree:
    """The files and directories under the paths of a read."""

    # the files, and the paths of the directories, that the paths and patterns name, in order
    roots: tuple[DataFile | str, ...]
    # the files of each directory that contains any, before any filter, each once
    leaves: dict[str, tuple[DataFile, ...]]
    recursive: bool = False  # whether all files are read, and no directory is a partition
    filter: FileFilter = field(default_factory=FileFilter)  # which files are read
    dangling: tuple[tuple[str, Listing], ...] = ()  # directories that contain dangling links, and their listings
    storage: Storage = LOCAL
    # the state that is listed, by the path of each table in or around the trees
    states: Mapping[str, State] = field(default_factory=dict)
    # the split of each file of a DatasetDict, by its path; empty where no root has several splits
    splits: Mapping[str, str] = field(default_factory=dict)

    def all_files(self) -> list[DataFile]:
        """Return all files, before any filter, each once."""
        return [file for _, files in self._directories(nested=True) for file in files]

    def files(self, *, nested: bool) -> tuple[DataFile, ...]:
        """Return the files that the filter accepts; without `nested`, only files directly in a root."""
        return tuple(file for _, files in self.select_files(nested=nested) for file in files)

    def select_files(self, *, nested: bool) -> list[tuple[str, tuple[DataFile, ...]]]:
        """Return the directories with their files that the filter accepts; raise if no file is left."""
        listed = self._directories(nested=nested)
        accepts = self.filter.accepts()
        files_by_directory = (
            listed if accepts is None else [(path, tuple(filter(accepts, files))) for path, files in listed]
        )
        if any(files for _, files in files_by_directory):
            return files_by_directory
        left_out = [file for _, files in listed for file in files]
        if left_out:
            raise NoFilesError(
                f"expected files to read, found none: pathGlobFilter, modifiedBefore or modifiedAfter leave out "
                f"{count_noun(len(left_out), 'file')} such as {left_out[0].path}"
            )
        raise _nothing(self)

    def _directories(self, *, nested: bool) -> list[tuple[str, tuple[DataFile, ...]]]:
        roots = [(parent(r.path), (r,)) if isinstance(r, DataFile) else (r, self.leaves.get(r, ())) for r in self.roots]
        directories = {root for root in self.roots if isinstance(root, str)}
        for directory, listing in self.dangling:
            if nested or directory in directories:
                listing.check_links(directory)
        return list(self.leaves.items()) if nested else roots


def list_tree(
    paths: Sequence[str],
    *,
    recursive: bool = False,
    file_filter: FileFilter | None = None,
    storage: Storage | None = None,
    hugging_face: bool = False,
    version: Version | None = None,
) -> Tree:
    """List the files and directories under paths and patterns, or the files of a version of one table."""
    # A file or directory that vanishes while it is listed is left out. A path that does not exist is an error, as in Spark
    # even with ignoreMissingFiles.
    if not paths:
        raise NoFilesError("no path was given; give a file, a directory or a pattern such as /data/*.arrow")
    storage = storage_of(paths[0])[0] if storage is None else storage
    if version is not None:
        table, state, files = list_version(storage, paths, version)
        accepts = file_filter or FileFilter()
        return Tree((table.root,), files, recursive, accepts, storage=storage, states={table.root: state})
    resolved = [storage.resolve(path) for path in paths]
    for _ in range(_LISTINGS):
        view = TableView(storage)
        listing = _list(view, resolved, hugging_face=hugging_face)
        if listing is not None:
            roots, leaves, dangling, splits = listing
            return Tree(roots, leaves, recursive, file_filter or FileFilter(), dangling, storage, view.states, splits)
    raise ConcurrentWriteError(f"other jobs were committed during each of {_LISTINGS} listings", path=resolved[0])


def _list(view: TableView, paths: Sequence[str], *, hugging_face: bool) -> _Listed | None:
    """Return the files and directories under paths at one moment; None if the listings do not show one moment."""
    progress = Progress.SAME
    for _ in range(_CORRECTIONS):
        listed = view.listed
        try:
            view.read_statuses(path for path in paths if not globs.is_pattern(path))
            roots = tuple(root for path in paths for root in _roots(view, path))
            view.list_ahead(root for root in roots if isinstance(root, str))
            leaves, dangling = view.leaves(roots)
            splits: dict[str, str] = {}
            if hugging_face:
                roots, leaves, splits = _files_of_json(view, roots, leaves)
            listing = roots, leaves, dangling, splits
        except (ArrowIpcError, FileNotFoundError):
            progress = view.catch_up()
            if progress is Progress.SAME:
                raise
        else:
            if progress is Progress.MOVED and view.listed == listed:
                return listing  # corrected by a log entry that is newer than all listings
            progress = view.catch_up(root for root in roots if isinstance(root, str))
            if progress is Progress.SAME:
                return listing
        if progress is Progress.LOST:
            return None
    return None


def _files_of_json(
    view: TableView, roots: Sequence[DataFile | str], leaves: Mapping[str, tuple[DataFile, ...]]
) -> tuple[tuple[DataFile | str, ...], dict[str, tuple[DataFile, ...]], dict[str, str]]:
    """Return roots, leaves and splits; in directories of HuggingFace's datasets, only the files that their JSON files name."""
    # A user who names single files in a directory reads these, whatever its JSON files name.
    named_directories = {parent(root.path) for root in roots if isinstance(root, DataFile)}
    by_directory = {
        directory: splits
        for directory, files in leaves.items()
        if directory not in named_directories and (splits := _splits_in(view, directory, files, leaves)) is not None
    }
    selected, split_names, parts = dict(leaves), dict[str, str](), list[DataFile | str]()
    for directory, splits in by_directory.items():
        # The splits of a DatasetDict are in directories of their own, and its other files are not data.
        selected[directory] = tuple(file for split in splits if split.directory == directory for file in split.files)
    for root in roots:
        splits = by_directory.get(root, ()) if isinstance(root, str) else ()
        if len(splits) > 1:
            split_names.update((file.path, split.name) for split in splits for file in split.files)
        parts += dict.fromkeys(split.directory for split in splits) or [root]
    return tuple(parts), {path: files for path, files in selected.items() if files}, split_names


def _splits_in(
    view: TableView, directory: str, files: tuple[DataFile, ...], leaves: Mapping[str, tuple[DataFile, ...]]
) -> tuple[hugging_face.Split, ...] | None:
    """Return the splits of a directory, by the log of a table with this layout; None without JSON files."""
    state = view.states.get(directory)
    if state is not None and state.layout == hugging_face.LAYOUT:
        counted = hugging_face.files_of_table(directory, files, state, view.storage.read)
        if counted is not None:
            return (hugging_face.Split("", directory, counted),)
    return hugging_face.splits_in(directory, files, leaves, view.storage.read)


def _roots(view: TableView, path: str) -> Iterator[DataFile | str]:
    """Yield the files and directories that a path or pattern names."""
    if globs.is_pattern(path):
        yield from _matches(view, path)
    else:
        yield _root(view, path)


def _root(view: TableView, path: str) -> DataFile | str:
    if any(map(is_staging, path.split(SEPARATOR))):
        raise NoFilesError("this is a staged file of a write that has not committed; it is never read", path=path)
    status = view.status(path)
    if status is None:
        if not view.has_directory(path):
            raise _missing(view.storage, path)
        return path
    if status.kind is Kind.DIRECTORY:
        return path
    if status.kind is not Kind.FILE:
        raise NoFilesError("this is a pipe, socket or device; copy its bytes to a regular file first", path=path)
    return DataFile(path, status.nbytes, status.mtime_ns, version=status.version)


def _missing(storage: Storage, path: str) -> NoFilesError:
    # An existing directory shows the user which part of the path is misspelt.
    nearest = parent(path)
    while (status := storage.status(nearest)) is None or status.kind is not Kind.DIRECTORY:
        nearest = parent(nearest)
        if nearest == parent(nearest):
            break
    return NoFilesError(f"the path does not exist; the nearest directory that does is {nearest}", path=path)


def _matches(view: TableView, pattern: str) -> list[DataFile | str]:
    """Return the matches of a pattern, each once, sorted by path."""

    def path_of(match: DataFile | str) -> str:
        return match if isinstance(match, str) else match.path

    matched: dict[str, DataFile | str] = {}
    try:
        for choice in globs.expand_braces(pattern):
            root = root_of(choice)
            parts = choice[len(root) :].split(SEPARATOR)
            # One ** after another stands for nothing more, and each is a walk through the tree.
            parts = [
                part
                for part, before in zip(parts, ["", *parts], strict=False)
                if part != before or part != globs.ANY_DIRECTORIES
            ]
            matches = _matches_of_parts(view, root, parts)
            # Sorted within a choice of braces; as in Hadoop, the choices stay in the order of the pattern.
            matched.update((path_of(match), match) for match in sorted(matches, key=path_of))
    except OptionError:
        if not _is_name(view, pattern):
            raise
    if matched:
        view.read_statuses(match for match in matched.values() if isinstance(match, str))
        return [match if isinstance(match, DataFile) else _root(view, match) for match in matched.values()]
    if _is_name(view, pattern):
        return [_root(view, pattern)]
    raise NoFilesError("no file or directory matches the pattern", path=pattern)


def _matches_of_parts(view: TableView, root: str, parts: Sequence[str]) -> list[DataFile | str]:
    matched: list[DataFile | str] = [root]
    for i, part in enumerate(parts):
        directories = [match for match in matched if isinstance(match, str)]
        name = globs.literal(part)
        if not part:
            continue
        if name is not None:
            paths = [join(directory, name) for directory in directories]
            if i < len(parts) - 1 or len(paths) > 1:  # the status of a single last one is read once, by `_root`
                view.read_statuses(paths)
            matched = [path for path in paths if _exists(view, path) or view.has_directory(path)]
        elif part == globs.ANY_DIRECTORIES:
            seen: set[str] = set()
            matched = [inner for directory in directories for inner, _ in view.walk(directory, seen)]
        else:
            is_last = i == len(parts) - 1
            matches = globs.compile_name(part)
            view.list_ahead(directories)
            matched = [match for directory in directories for match in _names(view, directory, part, matches, is_last)]
    return matched


def _exists(view: TableView, path: str) -> bool:
    """Return whether a path exists, even as a dangling link, which is an error of its own."""
    return view.status(path, follow_links=False) is not None


def _is_name(view: TableView, pattern: str) -> bool:
    """Return whether a pattern is the path of a file or directory."""
    try:
        return _exists(view, pattern)
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:  # patterns may be longer than names
            raise
        return False


def _names(
    view: TableView, directory: str, part: str, matches: Callable[[str], object], is_last: bool
) -> Iterator[DataFile | str]:
    listing = view.listing(directory)
    for name in listing.directories:
        if matches(name):
            yield join(directory, name)
    if is_last:
        yield from (file for file in listing.files if matches(name_of(file.path)))
        for name in listing.dangling:
            if matches(name):
                listing.check_links(directory)
    # Listings only count hidden names, so they are listed again for the few patterns that ask for them.
    if part[0] in "_." and listing.hidden:
        for name in (name_of(status.path) for status in view.storage.list(directory)):
            if is_hidden(name) and not is_staging(name) and matches(name):
                yield join(directory, name)


def _nothing(tree: Tree) -> NoFilesError:
    """Return the error for a read without files, which explains the first directory."""
    directories = [root for root in tree.roots if isinstance(root, str)]
    directory = directories[0]
    listing = list_directory(tree.storage, directory)
    skipped = listing.describe_skipped()
    message = f"expected files to read, found none; skipped {skipped}" if skipped else "the directory is empty"
    if listing.directories and not tree.recursive:
        names = ", ".join(listing.directories[:3]) + (", ..." if len(listing.directories) > 3 else "")
        message += (
            f". Nested directories ({names}) are not read; "
            f"to read their files set recursiveFileLookup=true or give the pattern {_pattern(tree.storage, directory)}"
        )
    if len(directories) > 1:
        message += f" (and nothing in {count_noun(len(directories) - 1, 'other directory')})"
    return NoFilesError(message, path=directory)


def _pattern(storage: Storage, directory: str) -> str:
    """Return a pattern for the first level of subdirectories that contains files."""
    pattern, inside = globs.escape(directory), directory
    for _ in range(_SUGGESTED_DEPTH):
        pattern = join(pattern, "*")
        listing = list_directory(storage, inside)
        if not listing.directories:
            break
        inside = join(inside, listing.directories[0])
        if list_directory(storage, inside).files:
            break
    return pattern
