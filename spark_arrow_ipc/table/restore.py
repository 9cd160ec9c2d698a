"""Restore: bring the files of an older entry back, as a new entry.

A name is used once, so files that were removed since come back under new names. The job stages copies of them, as any job
stages its files: a copy straight to a final name could be carried out late, after the next vacuum, and would stay. A listing
proves that all of them are there before the entry is put. Files that still count keep their names.

A removed file stays in its place until it is collected, and then in `_ipc_replaced` for as long as the table retains it. If
any file is gone, nothing is restored.

A restore neither adds nor removes unmanaged files: the log does not know when they came.
"""

from __future__ import annotations

from contextlib import closing, suppress

import numpy as np

from spark_arrow_ipc.errors import CommitError, ConcurrentWriteError, NoFilesError
from spark_arrow_ipc.storage.byte_source import read_pieces
from spark_arrow_ipc.storage.paths import join, parent
from spark_arrow_ipc.table.entry import Entry, Operation, Removed
from spark_arrow_ipc.table.files import Files, StagedFile
from spark_arrow_ipc.table.log import read_state
from spark_arrow_ipc.table.names import STAGED_SUFFIX, TableDirectory, data_file_name, suffix_like
from spark_arrow_ipc.table.snapshot import list_missing
from spark_arrow_ipc.table.state import State
from spark_arrow_ipc.table.transaction import Transaction


def restore(directory: TableDirectory, number: int, *, retain: bool = True) -> State:
    """Make the files of an entry count again, and no others; return the state after the new entry.

    Reads and writes the bytes of each file that comes back. Removed files are retained unless `retain` is False.

    Raises
    ------
    NoFilesError
        There is no such entry, or it is no longer retained, or a file of it is gone or of another size.
    ConcurrentWriteError
        Another job committed meanwhile; nothing is changed.
    CommitError
        As `Transaction` raises it.
    """
    base = read_state(directory)
    if base is None:
        raise NoFilesError("this directory has no log, and so no entry to restore", path=directory.root)
    transaction = Transaction.begin(directory, base=base)
    try:
        then = read_state(directory, number)
        if then is None or then.table != base.table:
            raise ConcurrentWriteError("the table was removed meanwhile; nothing is restored", path=directory.root)
        live = dict(zip(base.files.paths, base.files.nbytes.tolist(), strict=True))
        _check_there(directory, base, then)
        gone = then.files.select(np.array([path not in live for path in then.files.paths], np.bool_))
        numbers = directory.list_replaced()
        staged = [_stage(transaction, gone, i, numbers) for i in range(len(gone))]
        transaction.name_files(staged, statistics=gone.statistics)

        counted = set(then.files.paths)
        removes = tuple(Removed(path, nbytes) for path, nbytes in live.items() if path not in counted)
        change = Entry(
            0,
            "",
            Operation.RESTORE,
            schema=then.schema,
            partition_columns=then.partition_columns,
            remove=removes,
            retain=retain and bool(removes),
            restores=number,
            # A later restore made the state forget tokens whose rows come back now.
            tokens=tuple(then.tokens),
            layout=None if then.layout == base.layout else then.layout,
            queries=tuple((query, *row) for query, row in then.queries.items()),
        )

        def follow(state: State) -> Entry:
            if state.number != base.number and state.files.paths != base.files.paths:
                raise ConcurrentWriteError("another job committed meanwhile; nothing is restored", path=directory.root)
            return change

        state = transaction.commit(follow)
    except BaseException:
        with suppress(OSError, CommitError):
            transaction.abort()
        raise
    with suppress(OSError):  # vacuum does what is left
        transaction.collect()
    return state


def _check_there(directory: TableDirectory, base: State, then: State) -> None:
    """Raise if a file that both states have is missing, or of another size: the fault would stay."""
    paths, missing = {*then.files.paths}, list_missing(directory, base)
    lost = sorted(base.files.paths[i] for i in missing if base.files.paths[i] in paths)
    if lost:
        newest = read_state(directory)
        if newest is None or newest.entry != base.entry:
            raise ConcurrentWriteError("another job committed meanwhile; nothing is restored", path=directory.root)
        raise NoFilesError(
            f"the log counts this file in entry {then.number:,} as well, and it is missing or of another size, so that going back "
            "cures nothing; nothing is restored",
            path=directory.path(lost[0]),
        )


def _stage(transaction: Transaction, files: Files, i: int, numbers: list[int]) -> StagedFile:
    """Copy a file of an older entry to the staging of a job; the entries `numbers` have retained files."""
    directory, job, path, nbytes = transaction.directory, transaction.job, files.paths[i], int(files.nbytes[i])
    name = f"{i}{STAGED_SUFFIX}"
    for source in (directory.path(path), *(directory.replaced(number, path) for number in numbers)):
        with suppress(FileNotFoundError):
            _copy(directory, source, join(directory.staging(job), name), nbytes)
            final = data_file_name(i, transaction.table, job, suffix=suffix_like(path))
            return StagedFile(name, parent(path), final, nbytes, int(files.rows[i]), int(files.crc32[i]))
    raise NoFilesError(
        "this file was removed and is not retained, and without it nothing is restored; the table's retention says for how "
        "long removed files are there",
        path=directory.path(path),
    )  # fmt: skip


def _copy(directory: TableDirectory, source: str, target: str, nbytes: int) -> None:
    """Copy a file of a known size; FileNotFoundError if the source is gone or has another size."""
    storage = directory.storage
    with closing(storage.open(source)) as opened:
        if opened.nbytes != nbytes:
            raise FileNotFoundError(source)
        with storage.create(target) as sink:
            for piece in read_pieces(opened, nbytes):
                sink.write(piece)
            storage.sync_file(sink)
