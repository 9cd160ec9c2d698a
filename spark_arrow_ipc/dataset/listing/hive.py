"""Hive partitions: the columns and values that the names of directories tell, as Spark discovers them.

Strategy
--------
``PartitioningUtils.parsePartitions``: every directory that holds files is read upwards until a base path, or until a
name without an equals sign above one with it. What is met first is the table's root, which must be the same for all;
the names of the columns must be the same for all, letters' case aside. A column's type is the widest of the types of
its texts (`partition_values`), and its texts are then cast to that. Filters do not count: a file that is not read
still has a say in its partition's type.

Files directly in the table's root belong to no partition. Spark drops them without a word; here they are counted.

Directories are many and values few: each directory's name is read once for all that lie in it, each text is inferred
and cast once, and the files of a directory share one tuple of values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.listing.partition_values import (
    DEFAULT_PARTITION,
    PartitionValue,
    cast,
    infer_type,
    unescape_path_name,
    widest,
)
from spark_arrow_ipc.dataset.listing.tree import Tree
from spark_arrow_ipc.dataset.spark_datetime_text import zone
from spark_arrow_ipc.errors import ArrowIpcError, OptionError, SchemaMismatchError
from spark_arrow_ipc.storage.paths import SEPARATOR, parent
from spark_arrow_ipc.storage.storage import Kind

__all__ = ["Partitioning", "discover", "merged_fields", "retype"]

_SHOWN: Final = 5
"""Directories that an error names."""

Texts: TypeAlias = tuple[str, ...]
"""What stands behind the equals signs of a directory's path, escaped."""


@dataclass(frozen=True, slots=True)
class Partitioning:
    """The files of a read with their partitions.

    Parameters
    ----------
    fields
        Of the partition columns, outermost directory first, nullable; none where nothing is partitioned.
    files
        To be read, with their values in `DataFile.partition`.
    texts
        The raw text of each value of each file; one tuple for all files of a directory.
    unread
        Files in the root of a partitioned table, which Spark does not read either.
    time_zone
        In which timestamps without a zone are meant, or None.
    """

    fields: tuple[t.Field, ...]
    files: tuple[DataFile, ...]
    texts: tuple[Texts, ...] = ()
    unread: tuple[DataFile, ...] = ()
    time_zone: str | None = None

    def warning(self) -> str | None:
        """Return in words which files belong to no partition and are not read, or None."""
        if not self.unread:
            return None
        count = len(self.unread)
        return (
            f"{count:,} file{'s' if count > 1 else ''} such as {self.unread[0].path} "
            f"{'are' if count > 1 else 'is'} not read: a file beside the directories of partitions belongs to none "
            "(Spark's own sources skip it too)"
        )


def discover(
    tree: Tree, *, base_path: str | None = None, infer: bool = True, time_zone: str | None = None
) -> Partitioning:
    """Return the files of a read and the partition columns that their directories tell.

    O(directories + files). A tree that is read recursively has no partitions.

    Parameters
    ----------
    tree
        As `listing.list_tree` gives it.
    base_path
        Directory in which the partitions begin: by default the directories that the paths name, or hold the files
        that they name; so that ``/data/year=2024`` alone has no column ``year``.
    infer
        Whether types are inferred; else all columns are text.
    time_zone
        In which timestamps are meant: they are instants then, else local times.

    Raises
    ------
    NoFilesError
        There is nothing to read.
    SchemaMismatchError
        The directories do not agree on one root or on the columns, a name or value is empty, a name comes twice, or
        a value cannot be cast to its column's type.
    OptionError
        The base path is no directory or not above all paths, or the zone is unknown.
    """
    if time_zone is not None:
        zone(time_zone)
    bases = _base_paths(tree, base_path)
    if tree.recursive:
        return Partitioning((), tree.accepted(tree.all_files()))
    names, texts = _parse(tree.leaves, bases)
    if not texts:
        return Partitioning((), tree.accepted(tree.own_files()))
    tree.all_files()  # the links of all directories are checked
    kinds = [_column_type({row[i] for row in texts.values()}, time_zone, infer=infer) for i in range(len(names))]
    fields = tuple(map(t.Field, names, kinds))
    values = _cast(fields, {row: directory for directory, row in texts.items()}, time_zone)
    accepts = tree.filter.accepts() or (lambda _: True)
    files: list[DataFile] = []
    rows: list[Texts] = []
    unread: list[DataFile] = []
    for directory, found in tree.leaves.items():
        kept = list(filter(accepts, found))
        row = texts.get(directory)
        if row is None:
            unread.extend(kept)
        else:
            files.extend(map(_with_values, kept, repeat(values[row])))
            rows.extend(repeat(row, len(kept)))
    if not files:
        tree.accepted(tree.all_files())
    return Partitioning(fields, tuple(files), tuple(rows), tuple(unread), time_zone)


def retype(partitioning: Partitioning, types: Mapping[str, t.DataType]) -> Partitioning:
    """Return the partitions with the types that a user asks for, cast from the texts of the directories.

    Parameters
    ----------
    partitioning
        As discovered, so that texts which do not even fit the inferred type of their column are none here.
    types
        By column; a name that differs in case alone counts where none is equal, and the column takes it over.
        Names that are no partition columns are passed over.

    Raises
    ------
    SchemaMismatchError
        A value cannot be cast to its type.
    OptionError
        A timestamp without a zone is to be an instant, and no time zone is known.
    UnsupportedError
        No partition column can have the type.
    """
    by_lower = {name.lower(): name for name in types}
    names = [field.name if field.name in types else by_lower.get(field.name.lower()) for field in partitioning.fields]
    fields = tuple(
        field if name is None else t.Field(name, types[name])
        for name, field in zip(names, partitioning.fields, strict=True)
    )
    if fields == partitioning.fields:
        return partitioning
    directories = {row: parent(file.path) for file, row in zip(partitioning.files, partitioning.texts, strict=True)}
    values = _cast(fields, directories, partitioning.time_zone)
    files = tuple(map(_with_values, partitioning.files, map(values.__getitem__, partitioning.texts)))
    return Partitioning(fields, files, partitioning.texts, partitioning.unread, partitioning.time_zone)


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_N = TypeVar("_N", bound=_Named)


def merged_fields(data: Sequence[_N], partition: Sequence[_N]) -> tuple[_N, ...]:
    """Return the columns of files and paths together, as Spark orders them; fields of any kind that have a name.

    A partition column that the files have too, letters' case aside, stands where they have it, with the name and type
    of the path; the others stand at the end.
    """
    waiting = {field.name.lower(): field for field in partition}
    own = [waiting.pop(field.name.lower(), field) for field in data]
    return (*own, *waiting.values())


def _with_values(file: DataFile, values: tuple[PartitionValue, ...]) -> DataFile:
    return DataFile(file.path, file.nbytes, file.mtime_ns, values, file.staged)


def _base_paths(tree: Tree, base_path: str | None) -> set[str]:
    roots = [root if isinstance(root, str) else parent(root.path) for root in tree.roots]
    if base_path is None:
        return set(roots)
    base = tree.storage.resolve(base_path)
    status = tree.storage.status(base)
    if status is None or status.kind is not Kind.DIRECTORY:
        state = "nothing there" if status is None else "no directory"
        raise OptionError(expected="a directory for the option basePath", found=f"{state}: {base_path}")
    inside = base.rstrip(SEPARATOR) + SEPARATOR
    for root in roots:
        if root != base and not root.startswith(inside):
            raise OptionError(expected=f"paths in the basePath {base_path}", found=root)
    return {base}


def _parse(leaves: Iterable[str], bases: set[str]) -> tuple[Texts, dict[str, Texts]]:
    """Return the names of the columns, and the texts of each directory that has any."""
    reader = _PathReader(bases)
    texts: dict[str, Texts] = {}
    tables: dict[str, str] = {}
    spellings: dict[Texts, str] = {}
    for leaf in leaves:
        path = reader.partition(leaf)
        if path is None:
            tables.setdefault(leaf, leaf)
        else:
            texts[leaf] = path.texts
            tables.setdefault(path.table, leaf)
            spellings.setdefault(path.names, leaf)
    if not texts:
        return (), {}
    if len({table.lower() for table in tables}) > 1:
        raise SchemaMismatchError(
            "conflicting directory structures: partitions must begin in one directory, and here they begin in "
            f"{_listed(tables)}. If these are partitions of one table, give its directory as the option basePath; "
            "if they are several tables, load them one by one and unite them",
            path=min(tables),
        )
    if len({tuple(map(str.lower, names)) for names in spellings}) > 1:
        raise SchemaMismatchError(
            "conflicting names of partition columns: "
            + "; ".join(f"{', '.join(names)} in {leaf}" for names, leaf in sorted(spellings.items())[:_SHOWN])
            + ". All directories of a level must have one name, and files lie only in the innermost ones",
            path=next(iter(tables)),
        )
    names, leaf = next(iter(spellings.items()))
    twice = [name for i, name in enumerate(names) if name.lower() in map(str.lower, names[:i])]
    if twice:
        raise SchemaMismatchError(
            expected="each partition column once in a path", found=f"{twice[0]!r} twice", path=leaf
        )
    return names, texts


class _Path(NamedTuple):
    """Columns that a directory's path names, their texts, and the directory in which they begin."""

    table: str
    names: tuple[str, ...] = ()
    texts: Texts = ()


class _PathReader:
    """Reads what directories are called; each directory once."""

    def __init__(self, bases: set[str]) -> None:
        self._bases = bases
        self._paths: dict[str, _Path] = {}
        self._names: dict[tuple[tuple[str, ...], str], tuple[str, ...]] = {}

    def partition(self, directory: str) -> _Path | None:
        """Return the columns of a directory, None where it has none."""
        while directory not in self._bases:
            path = self._path(directory)
            if path.names:
                return path
            if directory == parent(directory):
                break
            directory = parent(directory)
        return None

    def _path(self, directory: str) -> _Path:
        """Return the columns of the last directories of a path, those up to one without an equals sign."""
        found = self._paths.get(directory)
        if found is None:
            above, _, name = directory.rpartition(SEPARATOR)
            if directory in self._bases or "=" not in name:
                found = _Path(directory)
            else:
                outer = self._path(above or SEPARATOR)
                escaped, _, text = name.partition("=")
                names = self._names.get((outer.names, escaped))
                if names is None:
                    names = self._names[outer.names, escaped] = (*outer.names, unescape_path_name(escaped))
                if not names[-1] or not text:
                    raise SchemaMismatchError(
                        expected="a name before and a value after the equals sign of a partition's directory",
                        found=repr(name),
                        path=directory,
                    )
                found = _Path(outer.table, names, (*outer.texts, text))
            self._paths[directory] = found
        return found


def _column_type(texts: set[str], time_zone: str | None, *, infer: bool) -> t.DataType:
    if infer:
        return widest({infer_type(text, time_zone) for text in texts})
    return t.null if texts == {DEFAULT_PARTITION} else t.utf8


def _cast(
    fields: Sequence[t.Field], rows: Mapping[Texts, str], time_zone: str | None
) -> dict[Texts, tuple[PartitionValue, ...]]:
    """Return the values of each row of texts; each text is cast once. `rows` has a directory of each, for errors."""
    memos: list[dict[str, PartitionValue]] = [{} for _ in fields]
    for texts, directory in rows.items():
        for field, memo, text in zip(fields, memos, texts, strict=True):
            if text not in memo:
                memo[text] = _value(field, text, time_zone, directory)
    return {texts: tuple(memo[text] for memo, text in zip(memos, texts, strict=True)) for texts in rows}


def _value(field: t.Field, text: str, time_zone: str | None, directory: str) -> PartitionValue:
    try:
        return cast(text, field.type, time_zone)
    except ArrowIpcError as error:
        error.field_path = error.field_path or field.name
        error.path = error.path or directory
        raise
    except ValueError as error:
        raise SchemaMismatchError(
            expected=f"a partition value of the type {field.type}",
            found=repr(text),
            path=directory,
            field_path=field.name,
        ) from error


def _listed(paths: Iterable[str]) -> str:
    ordered = sorted(paths)
    return ", ".join(ordered[:_SHOWN]) + (f" and {len(ordered) - _SHOWN} more" if len(ordered) > _SHOWN else "")
