"""Copy a snapshot of a table to another place, while jobs run.

The copy is a table of its own: it has another id, its files have other names, and one entry adds them all. Readers of the
target see nothing before it, and everything after it. The entry also has the schema, the retention, the commit tokens and the
batches of streaming sinks of the source: jobs that are in the copied files are known there. Streams that read the source do
not go on in the copy, as the numbers of its entries are others.

Files of other programs are copied if readers read them. Each file is read once and written into the staging of one job; then
it is read back, and the checksums of all bytes are compared. If a file of the source was removed before it was copied, and is not retained, the copy goes on with a newer
snapshot and keeps the files that it has. After a kill a second run deletes what the first one left, and begins again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.listing.data_file import DataFile, open_at_current_path
from spark_arrow_ipc.dataset.listing.globs import escape
from spark_arrow_ipc.dataset.listing.hive import discover
from spark_arrow_ipc.dataset.listing.hugging_face import STATE_FILE
from spark_arrow_ipc.dataset.listing.tree import Tree, list_tree
from spark_arrow_ipc.dataset.scan.file_metadata import MetadataCache, MetadataOptions
from spark_arrow_ipc.dataset.scan.schemas import read_schemas
from spark_arrow_ipc.dataset.statistics.read import file_statistics
from spark_arrow_ipc.dataset.write.commit import check_names
from spark_arrow_ipc.dataset.write.job_plan import check_is_no_file
from spark_arrow_ipc.dataset.write.nested import check_alone, check_none_above
from spark_arrow_ipc.dataset.write.staged_file import Staging, tail_crc32
from spark_arrow_ipc.errors import (
    CommitError,
    ConcurrentWriteError,
    FileChangedError,
    NoFilesError,
    OptionError,
    TruncatedError,
    UnsupportedError,
    join_texts,
    printable,
)
from spark_arrow_ipc.storage.byte_source import ByteSource, read_pieces
from spark_arrow_ipc.storage.paths import join, name_of, parent, relative
from spark_arrow_ipc.storage.storage import Kind, Status, discard, each
from spark_arrow_ipc.table.bounds import FileBounds, bounds_batch, bounds_of_file
from spark_arrow_ipc.table.encoded_schema import encode_schema
from spark_arrow_ipc.table.entry import Entry, Operation
from spark_arrow_ipc.table.files import NO_FILES, Files, StagedFile, concat_files
from spark_arrow_ipc.table.log import read_state
from spark_arrow_ipc.table.names import STAGED_SUFFIX, TableDirectory, data_file_name, suffix_like
from spark_arrow_ipc.table.state import State
from spark_arrow_ipc.table.transaction import Transaction
from spark_arrow_ipc.table.vacuum import vacuum

_ATTEMPTS: Final = 50
"""The number of times that a copy goes on with a newer snapshot."""

_log: Final = logging.getLogger(__name__)

_AT_ONCE: Final = 8
"""Files that are copied at once: each may take 50 MB of memory on its way to an object store."""

_CHANGES: Final = (FileNotFoundError, FileChangedError, TruncatedError)
"""Errors of a read from a file that was removed, replaced, or cut off."""


@dataclass(frozen=True, slots=True)
class CopyReport:
    """A copy that is committed: its source and the entry that was copied, 0 without a log; its files, rows and bytes."""

    source: str
    target: str
    number: int
    files: int
    rows: int
    nbytes: int


class _Copied(NamedTuple):
    """A file that is staged in the target; rows and bounds of one that the log of the source does not count."""

    staged: str
    crc32: int
    rows: int
    bounds: FileBounds


def copy_table(
    source: TableDirectory, target: TableDirectory, *, copied: Callable[[], None] = lambda: None
) -> CopyReport:
    """Copy the newest snapshot of a table into a directory without files; `copied` is called for each file.

    Raises
    ------
    OptionError
        One of the two directories is in the other.
    NoFilesError
        There is nothing to copy.
    ConcurrentWriteError
        Jobs replaced files of the source all the time, or one was committed in the target.
    CommitError
        The target has files, or the log of one of the two is broken.
    """
    _check_apart(source, target)
    check_is_no_file(target.storage, target.root)
    check_none_above(target)
    tree = _list(source)  # before anything is made
    _clear(target)
    target.storage.make_directory(target.root)
    target.storage.make_directory(target.log)
    target.storage.check_put_if_absent(target.log)  # which may leave a file there
    transaction = Transaction.begin(target)
    try:
        stage = _Stage(source, transaction, copied)
        for _ in range(_ATTEMPTS):
            files = _files_to_copy(source, tree)
            state = tree.states.get(source.root)
            stage.check_names(files)
            if stage.copy(files, state):
                break
            tree = _list(source)
        else:
            raise ConcurrentWriteError(
                f"jobs replaced files before they were copied, in each of {_ATTEMPTS} attempts, the last time {stage.changed}; "
                "nothing is copied. Give the table a retention (the option retention=1h of a write), or copy when none runs",
                path=source.root,
            )
        added = stage.name(files, state)
        schema = _schema(source, tree, files)
        transaction.commit(lambda at: _change(target, at, state, schema))
    except BaseException as error:
        with suppress(OSError, CommitError):
            transaction.abort()
        if isinstance(error, FileNotFoundError):
            raise CommitError(
                "what this copy had staged was deleted, by a vacuum or by another copy into this directory; nothing is copied",
                path=target.root,
            ) from error
        raise
    with suppress(OSError):  # vacuum does what is left
        transaction.collect()
    number = 0 if state is None else state.number
    return CopyReport(source.root, target.root, number, len(added), int(added.rows.sum()), int(added.nbytes.sum()))


def _change(target: TableDirectory, at: State, source: State | None, schema: str) -> Entry:
    """Return the entry that adds the copied files to the state of a table that has none."""
    if at.has_jobs:
        raise ConcurrentWriteError("a job was committed in the target; nothing is copied", path=target.root)
    check_alone(target, at)
    before = source or State("")
    return Entry(
        0,
        "",
        Operation.APPEND,
        application="arrowipc copy",
        schema=schema,
        partition_columns=before.partition_columns or None,
        retention=before.retention,
        queries=tuple((query, row.batch, at.number + 1) for query, row in before.queries.items()),
        tokens=tuple(before.tokens),
    )


# ---- the target


def _check_apart(source: TableDirectory, target: TableDirectory) -> None:
    """Raise if a copy would be in what it is of, or the other way round."""
    one, other = source.storage.inside(None), target.storage.inside(None)
    if type(one) is not type(other) or one != other:
        return
    first, second = (f"{one.unique_path(path)}/" for path in (source.root, target.root))
    if first.startswith(second) or second.startswith(first):
        raise OptionError(
            "the source and the target are one directory, or one is inside of the other", path=target.root
        )


def _clear(target: TableDirectory) -> None:
    """Raise a `CommitError` if the target is in use; delete what an earlier copy has left there."""
    storage = target.storage.inside(None)
    if storage.status(target.root) is None:
        return
    target.check()
    files = list_tree([escape(target.root)], storage=storage).all_files()
    if files:
        raise CommitError(
            f"the target holds files ({len(files):,}, such as {files[0].path}), and a copy replaces nothing; give a directory "
            "that is not there yet",
            path=target.root,
        )
    state = read_state(target)
    if state is not None and state.has_jobs:
        raise CommitError(
            "the target is a table in which jobs were committed; give a directory that is not there yet",
            path=target.root,
        )
    vacuum(target, older_than=0)


# ---- the source


def _list(source: TableDirectory) -> Tree:
    """Return the files of the newest snapshot."""
    tree = list_tree([escape(source.root)], storage=source.storage.inside(None))
    files = tree.all_files()
    if not files and source.root not in tree.states:
        raise NoFilesError("there is nothing to copy: neither files nor a log", path=source.root)
    for file in files:
        if name_of(file.path) == STATE_FILE:
            raise UnsupportedError(
                f"{STATE_FILE} names the files of a dataset of HuggingFace, and a copy gives files other names: copy the "
                "directory with 'cp -r' while no job runs, or write it anew with hfLayout=true",
                path=file.path,
            )
    return tree


def _files_to_copy(source: TableDirectory, tree: Tree) -> list[DataFile]:
    """Return the files that the log counts, and those of other programs that a read has."""
    state, files = tree.states.get(source.root), tree.all_files()
    copied = {file.path for file in discover(tree, infer=False).files} if files else set()
    if state is not None:
        copied |= set(map(source.path, state.files.paths))
    left = [file.path for file in files if file.path not in copied]
    if left:  # in the copy its log would count them, and no job could add to its partitions
        _log.warning(
            "%s: files that no partition has, and that no reader reads, are not copied: %s",
            printable(source.root),
            join_texts(left),
        )
    return [file for file in files if file.path in copied]


def _schema(source: TableDirectory, tree: Tree, files: Sequence[DataFile]) -> str:
    """Return the schema of a plain read, encoded; empty without files. Reads the newest file of other programs."""
    if not files:
        state = tree.states.get(source.root)
        return "" if state is None else state.schema
    cache = MetadataCache(MetadataOptions(storage=source.storage.inside(None)))
    (_, first), *others = read_schemas(files, tree.states, cache)
    fields = {field.name: field for field in first.fields}
    for path, schema in others:
        for field in schema.fields:
            if fields.setdefault(field.name, field).type != field.type:
                raise UnsupportedError(
                    f"the column {field.name!r:.100} has another type in this file of another program than in the table: take it "
                    "into the table with rewrite(...), and copy again",
                    path=path,
                )
    return encode_schema(Schema(tuple(fields.values()), first.custom_metadata), source.root)


class _Stage:
    """The files that are staged in the target, by path, size and version in the source."""

    def __init__(self, source: TableDirectory, transaction: Transaction, copied: Callable[[], None]) -> None:
        self._storage, self._root = source.storage.inside(None), source.root
        self._transaction, self._copied = transaction, copied
        self._done: dict[DataFile, _Copied] = {}
        self.changed = ""
        """The file that was gone, or another one, the last time."""

    def check_names(self, files: Sequence[DataFile]) -> None:
        """Raise if a file could not get its name in the target."""
        transaction = self._transaction
        named = [
            self._named(i, relative(file.path, self._root), file.nbytes, _Copied("", 0, 0, {}))
            for i, file in enumerate(files)
        ]
        check_names(Staging(transaction.directory, transaction.job), named)

    def _named(self, i: int, path: str, nbytes: int, copied: _Copied, rows: int = 0) -> StagedFile:
        transaction = self._transaction
        name = data_file_name(i, transaction.table, transaction.job, suffix=suffix_like(path))
        return StagedFile(copied.staged, parent(path), name, nbytes, rows, copied.crc32)

    def copy(self, files: Sequence[DataFile], state: State | None) -> bool:
        """Copy the files that are not copied yet; return False if one is gone, or another one."""
        self.changed = ""
        waits = self._storage.traits.waits or self._transaction.directory.storage.traits.waits
        due = [file for file in files if file not in self._done]
        each(lambda file: self._copy(file, state), due, waits=waits, most=_AT_ONCE)
        return not self.changed

    def name(self, files: Sequence[DataFile], state: State | None) -> Files:
        """Give the staged files their final names."""
        transaction = self._transaction
        counted = NO_FILES if state is None else state.files
        slots = {path: i for i, path in enumerate(counted.paths)}
        paths = {relative(file.path, self._root): file for file in files}
        # As in the log, then those of other programs, the oldest first: a reader takes rows in this order.
        others = sorted((path for path in paths if path not in slots), key=lambda path: (paths[path].mtime_ns, path))
        copies = {path: self._done[file] for path, file in paths.items()}
        bounds = bounds_batch([copies[path].bounds for path in others])
        rows = [(path, paths[path].nbytes, copies[path].rows, copies[path].crc32) for path in others]
        joined = concat_files([counted, Files.of(rows, statistics=bounds)])
        staged = [
            self._named(i, path, int(joined.nbytes[i]), copies[path], int(joined.rows[i]))
            for i, path in enumerate(joined.paths)
        ]
        self._check_tails(counted, copies)
        return transaction.name_files(staged, statistics=_none_if_empty(joined.statistics))

    def _check_tails(self, counted: Files, copies: dict[str, _Copied]) -> None:
        for path, crc32 in zip(counted.paths, counted.crc32.tolist(), strict=True):
            if copies[path].crc32 != crc32:
                raise CommitError(
                    f"the last bytes of this file are not those that the log has; nothing is copied, see 'arrowipc fsck {self._root}'",
                    path=join(self._root, path),
                )

    def _copy(self, file: DataFile, state: State | None) -> None:
        if self.changed:
            return
        is_managed = state is not None and state.is_managed(relative(file.path, self._root))
        target = self._transaction.directory
        name = f"{len(self._done)}-{blake2b(file.path.encode(), digest_size=8).hexdigest()}{STAGED_SUFFIX}"
        path = join(target.staging(self._transaction.job), name)
        try:
            # Not as listed, which in an object store asks for nothing before the first read.
            with closing(open_at_current_path(file, self._storage.open, self._storage)) as opened:
                if opened.nbytes != file.nbytes:
                    raise FileNotFoundError(file.path)
                digest = self._write(path, opened, file.nbytes)
                crc32 = tail_crc32(opened)
                # The log has rows and bounds of a managed file.
                rows, bounds = (0, {}) if is_managed else _describe(opened)
            if not is_managed and not self._is_as_listed(file):
                raise FileChangedError("another program wrote to it meanwhile", path=file.path)
        except _CHANGES:
            self.changed = relative(file.path, self._root)
            with suppress(OSError):
                target.storage.delete(path)
            return
        with closing(target.storage.open(path, listed=Status(path, Kind.FILE, file.nbytes))) as written:
            if written.nbytes != file.nbytes or _digest(read_pieces(written, file.nbytes)) != digest:
                raise CommitError(
                    "a copied file was read back, and is not what was written; nothing is copied", path=path
                )
        self._done[file] = _Copied(name, crc32, rows, bounds)
        self._copied()

    def _is_as_listed(self, file: DataFile) -> bool:
        status = self._storage.status(file.path)
        if status is None or status.nbytes != file.nbytes:
            return False
        # An object store tells times finer in a listing than in the state of one object.
        return status.version == file.version if file.version else status.mtime_ns == file.mtime_ns

    def _write(self, path: str, opened: ByteSource, nbytes: int) -> str:
        storage, digest = self._transaction.directory.storage, blake2b(digest_size=16)
        out = storage.create(path)
        try:
            with out:
                for piece in read_pieces(opened, nbytes):
                    digest.update(piece)
                    out.write(piece)
                out.flush()
                storage.sync_file(out)
        except BaseException:
            discard(out)
            raise
        return digest.hexdigest()


def _describe(opened: ByteSource) -> tuple[int, FileBounds]:
    """Return the rows of a file and the bounds of its columns, by its headers and footer."""
    with ipc.open(opened) as reader:
        rows = sum(header.rows for header in reader.read_headers())
        statistics = file_statistics(reader) if isinstance(reader, ipc.FileReader) else None
    return rows, {} if statistics is None else bounds_of_file(statistics)


def _digest(pieces: Iterator[memoryview]) -> str:
    digest = blake2b(digest_size=16)
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def _none_if_empty(statistics: RecordBatch | None) -> RecordBatch | None:
    return statistics if statistics is not None and statistics.schema.fields else None
