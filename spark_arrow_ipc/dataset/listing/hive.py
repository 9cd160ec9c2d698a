"""Discover Hive partitions from the names of directories, as Spark does.

How it works, as in ``PartitioningUtils.parsePartitions``: the path of every directory with files is parsed upwards to a base
path, or to the first name without an equals sign above a name with one. That directory is the table's root. All directories
must have one root, and the same names of columns, ignoring case. A column's type is the widest of the types of its strings
(`partition_values`), and its strings are cast to it. This type also depends on directories whose files a filter leaves out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.listing.hugging_face import SPLIT_COLUMN
from spark_arrow_ipc.dataset.listing.partition_values import (
    DEFAULT_PARTITION,
    PartitionValue,
    cast,
    infer_type,
    unescape_path_name,
    widest,
)
from spark_arrow_ipc.dataset.listing.tree import Tree
from spark_arrow_ipc.dataset.time_zones import zone
from spark_arrow_ipc.errors import ArrowIpcError, OptionError, SchemaMismatchError, UnsupportedError, join_texts
from spark_arrow_ipc.ipc.columns.projection import select_known_columns
from spark_arrow_ipc.storage.paths import SEPARATOR, parent
from spark_arrow_ipc.storage.storage import Kind
from spark_arrow_ipc.table.state import State

_SHOWN: Final = 5
"""Maximum number of directories in an error message."""

Strings: TypeAlias = tuple[str, ...]
"""The strings after the equals signs of a directory's path, escaped."""


@dataclass(frozen=True, slots=True)
class Partitioning:
    """The files of a read with their partitions."""

    # the partition columns, outermost directory first, nullable; empty for a table without partitions
    fields: tuple[t.Field, ...]
    files: tuple[DataFile, ...]  # the files to read, with their values in `DataFile.partition`
    # the escaped string of each value of each file; one tuple for all files of a directory
    strings: tuple[Strings, ...] = ()
    unread: tuple[DataFile, ...] = ()  # files in the root of a partitioned table, which Spark does not read, either
    time_zone: str | None = None
    # the state of each table whose directories are read (`Tree.states`); empty where files are named one by one
    states: Mapping[str, State] = dataclasses.field(default_factory=dict)

    def warning(self) -> str | None:
        """Return a warning about the files in the root of a partitioned table, or None."""
        if not self.unread:
            return None
        count = len(self.unread)
        return (
            f"{count:,} file{'s' if count > 1 else ''} such as {self.unread[0].path} "
            f"{'are' if count > 1 else 'is'} not read: a file next to partition directories belongs to no partition "
            "(Spark's own sources skip it too)"
        )


def discover(
    tree: Tree, *, base_path: str | None = None, infer: bool = True, time_zone: str | None = None
) -> Partitioning:
    """Return the files of a read, with the partition values of their directories; a recursive read has no partitions."""
    if time_zone is not None:
        zone(time_zone)
    bases = _base_paths(tree, base_path)
    if tree.splits:
        return _by_split(tree, bases, time_zone)
    names, strings = ((), {}) if tree.recursive else _parse(tree.leaves, bases)
    if not strings:
        return Partitioning((), tree.files(nested=tree.recursive))
    fields, values = _with_types(names, {row: path for path, row in strings.items()}, time_zone, infer=infer)
    files: list[DataFile] = []
    rows: list[Strings] = []
    unread: list[DataFile] = []
    for directory, selected in tree.select_files(nested=True):
        row = strings.get(directory)
        if row is None:  # next to the directories of partitions: Spark drops such files in silence
            unread.extend(selected)
        else:
            files.extend(map(_with_values, selected, repeat(values[row])))
            rows.extend(repeat(row, len(selected)))
    return Partitioning(fields, tuple(files), tuple(rows), tuple(unread), time_zone)


def _by_split(tree: Tree, bases: set[str], time_zone: str | None) -> Partitioning:
    """Return files with the splits of HuggingFace's DatasetDicts as a partition column; null for other files."""
    if not tree.recursive and _parse(tree.leaves, bases)[1]:
        raise UnsupportedError(
            "one read cannot have both a DatasetDict with several splits and key=value directories; load them separately, "
            "and unite the DataFrames",
            path=min(bases),
        )
    files = tree.files(nested=tree.recursive)
    _check_no_own_split(tree, files)
    rows = tuple((tree.splits.get(file.path, DEFAULT_PARTITION),) for file in files)
    values = {row: (None if row[0] == DEFAULT_PARTITION else row[0],) for row in rows}
    with_values = tuple(map(_with_values, files, map(values.__getitem__, rows)))
    return Partitioning((t.Field(SPLIT_COLUMN, t.utf8),), with_values, rows, (), time_zone)


def _check_no_own_split(tree: Tree, files: Sequence[DataFile]) -> None:
    """Raise if the files have a column with the name of the split column, which would replace it."""
    first = next(file for file in files if file.path in tree.splits)
    try:
        with ipc.open(first.open(tree.storage), columns=select_known_columns) as reader:
            names = reader.file_schema.names
    except (ArrowIpcError, OSError):
        return  # the task that reads the file raises its error
    if SPLIT_COLUMN in map(str.lower, names):
        raise UnsupportedError(
            f"this dataset has a column {SPLIT_COLUMN}, and a read of several splits adds one of that name; load the "
            "directory or the files of one split",
            path=first.path,
        )


def partition_by_directory(
    files: Sequence[DataFile], roots: Sequence[str], *, infer: bool = True, time_zone: str | None = None
) -> Partitioning:
    """Return files that the caller has listed, with the partition values of their directories; all are read."""
    if time_zone is not None:
        zone(time_zone)
    directories = [parent(file.path) for file in files]
    names, strings = _parse(dict.fromkeys(directories), set(roots))
    if not strings:
        return Partitioning((), tuple(files))
    nulls = (DEFAULT_PARTITION,) * len(names)  # the file is not in a partition directory
    rows = tuple(strings.get(directory, nulls) for directory in directories)
    fields, values = _with_types(names, dict(zip(rows, directories, strict=True)), time_zone, infer=infer)
    return Partitioning(fields, tuple(map(_with_values, files, map(values.__getitem__, rows))), rows, (), time_zone)


def with_constants(
    partitioning: Partitioning, fields: Sequence[t.Field], values: Sequence[tuple[object, ...]]
) -> Partitioning:
    """Return files with further columns of one value in each file, after the partition columns."""
    strings = partitioning.strings or ((),) * len(partitioning.files)
    files = tuple(
        file._replace(partition=(*file.partition, *row)) for file, row in zip(partitioning.files, values, strict=True)
    )
    rows = tuple((*row, *map(str, more)) for row, more in zip(strings, values, strict=True))
    return dataclasses.replace(partitioning, fields=(*partitioning.fields, *fields), files=files, strings=rows)


def retype(partitioning: Partitioning, types: Mapping[str, t.DataType]) -> Partitioning:
    """Cast the partition columns to the types that a user asks for."""
    by_lower = {name.lower(): name for name in types}
    names = [field.name if field.name in types else by_lower.get(field.name.lower()) for field in partitioning.fields]
    fields = tuple(
        field if name is None else t.Field(name, types[name])
        for name, field in zip(names, partitioning.fields, strict=True)
    )
    if fields == partitioning.fields:
        return partitioning
    directories = {row: parent(file.path) for file, row in zip(partitioning.files, partitioning.strings, strict=True)}
    values = _cast(fields, directories, partitioning.time_zone)
    files = tuple(map(_with_values, partitioning.files, map(values.__getitem__, partitioning.strings)))
    return dataclasses.replace(partitioning, fields=fields, files=files)


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_N = TypeVar("_N", bound=_Named)


def merge_fields(data: Sequence[_N], partition: Sequence[_N]) -> tuple[_N, ...]:
    """Return the fields of files and partitions in Spark's order."""
    # A partition column that the files have too, ignoring case, keeps the position in the files, with the name and type of
    # the partition; the others follow at the end.
    waiting = {field.name.lower(): field for field in partition}
    merged = [waiting.pop(field.name.lower(), field) for field in data]
    return (*merged, *waiting.values())


def _with_values(file: DataFile, values: tuple[PartitionValue, ...]) -> DataFile:
    return file._replace(partition=values)


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


def _parse(leaves: Iterable[str], bases: set[str]) -> tuple[Strings, dict[str, Strings]]:
    """Return the names of the columns, and the strings of each partition's directory."""
    reader = _PathReader(bases)
    strings: dict[str, Strings] = {}
    tables: dict[str, str] = {}
    spellings: dict[Strings, str] = {}
    for leaf in leaves:
        path = reader.partition(leaf)
        if path is None:
            tables.setdefault(leaf, leaf)
        else:
            strings[leaf] = path.strings
            tables.setdefault(path.table, leaf)
            spellings.setdefault(path.names, leaf)
    if not strings:
        return (), {}
    if len({table.lower() for table in tables}) > 1:
        raise SchemaMismatchError(
            "conflicting directory structures: partitions must begin in one directory, and here they begin in "
            f"{join_texts(sorted(tables))}. If these are partitions of one table, give its directory as the option basePath; "
            "if they are several tables, load them one by one and unite them",
            path=min(tables),
        )
    if len({tuple(map(str.lower, names)) for names in spellings}) > 1:
        raise SchemaMismatchError(
            "conflicting names of partition columns: "
            + "; ".join(f"{', '.join(names)} in {leaf}" for names, leaf in sorted(spellings.items())[:_SHOWN])
            + ". All directories of a level must have one name, and files are only in the innermost ones",
            path=next(iter(tables)),
        )
    names, leaf = next(iter(spellings.items()))
    twice = [name for i, name in enumerate(names) if name.lower() in map(str.lower, names[:i])]
    if twice:
        raise SchemaMismatchError(
            expected="each partition column once in a path", found=f"{twice[0]!r} twice", path=leaf
        )
    return names, strings


class _Path(NamedTuple):
    """The columns in a directory's path, and the table directory above them."""

    table: str
    names: tuple[str, ...] = ()
    strings: Strings = ()


class _PathReader:
    """Parses the names of directories, each once."""

    # There are many directories and few values. So each name is parsed once for all directories below it, each string is
    # inferred and cast once, and the files of a directory share one tuple of values.

    def __init__(self, bases: set[str]) -> None:
        self._bases = bases
        self._paths: dict[str, _Path] = {}
        self._names: dict[tuple[tuple[str, ...], str], tuple[str, ...]] = {}

    def partition(self, directory: str) -> _Path | None:
        """Return the columns of a directory, or None if it has none."""
        while directory not in self._bases:
            path = self._path(directory)
            if path.names:
                return path
            if directory == parent(directory):
                break
            directory = parent(directory)
        return None

    def _path(self, directory: str) -> _Path:
        """Parse the last directories of a path, up to one without an equals sign."""
        path = self._paths.get(directory)
        if path is None:
            above, _, name = directory.rpartition(SEPARATOR)
            if directory in self._bases or "=" not in name:
                path = _Path(directory)
            else:
                outer = self._path(above or SEPARATOR)
                escaped, _, string = name.partition("=")
                names = self._names.get((outer.names, escaped))
                if names is None:
                    names = self._names[outer.names, escaped] = (*outer.names, unescape_path_name(escaped))
                if not names[-1] or not string:
                    raise SchemaMismatchError(
                        expected="a name before and a value after the equals sign of a partition's directory",
                        found=repr(name),
                        path=directory,
                    )
                path = _Path(outer.table, names, (*outer.strings, string))
            self._paths[directory] = path
        return path


def _with_types(
    names: Sequence[str], rows: Mapping[Strings, str], time_zone: str | None, *, infer: bool
) -> tuple[tuple[t.Field, ...], dict[Strings, tuple[PartitionValue, ...]]]:
    """Return the columns, and the values of each row of strings."""
    fields: list[t.Field] = []
    for i, name in enumerate(names):
        strings = {row[i] for row in rows}  # each once, as many directories have few values
        if infer:
            type_ = widest({infer_type(string, time_zone) for string in strings})
        else:
            type_ = t.null if strings == {DEFAULT_PARTITION} else t.utf8
        fields.append(t.Field(name, type_))
    return tuple(fields), _cast(fields, rows, time_zone)


def _cast(
    fields: Sequence[t.Field], rows: Mapping[Strings, str], time_zone: str | None
) -> dict[Strings, tuple[PartitionValue, ...]]:
    """Cast rows of strings, each string once; `rows` maps each row to one of its directories, for error messages."""
    memos: list[dict[str, PartitionValue]] = [{} for _ in fields]
    for strings, directory in rows.items():
        for field, memo, string in zip(fields, memos, strings, strict=True):
            if string not in memo:
                memo[string] = _value(field, string, time_zone, directory)
    return {strings: tuple(memo[string] for memo, string in zip(memos, strings, strict=True)) for strings in rows}


def _value(field: t.Field, string: str, time_zone: str | None, directory: str) -> PartitionValue:
    try:
        return cast(string, field.type, time_zone)
    except ArrowIpcError as error:
        error.field_path = error.field_path or field.name
        error.path = error.path or directory
        raise
    except ValueError as error:
        raise SchemaMismatchError(
            expected=f"a partition value of the type {field.type}",
            found=repr(string),
            path=directory,
            field_path=field.name,
        ) from error
