"""Repairs that a person asks for: leave out files that are lost, and give a table another id.

**Files that are lost.** A file that the log counts and that is missing, or of another size, stops each read. If it cannot be
restored, an entry removes it, and the rows are lost; a file of another size is retained as removed files are.

**Another id.** A table that was copied with its log, or a backup that was put back, has the id of another table: processes
that know that table's log would take this one for it. So it gets an id of its own, and with that another directory of
entries, of which the first adds all files that count. The files keep their names: the entry says which ids the table had
before, and a file with one of them counts only if the log says so.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Final

import numpy as np

from spark_arrow_ipc.errors import CommitError, ConcurrentWriteError, NoFilesError
from spark_arrow_ipc.table.collect import finish, sweep
from spark_arrow_ipc.table.entry import Entry, Operation, Removed
from spark_arrow_ipc.table.files import NO_FILES, Files
from spark_arrow_ipc.table.log import append, encode_table_id, follow, read_state
from spark_arrow_ipc.table.names import TableDirectory, new_id, new_table_id
from spark_arrow_ipc.table.snapshot import list_missing
from spark_arrow_ipc.table.state import State
from spark_arrow_ipc.table.vacuum import vacuum

_ATTEMPTS: Final = 20


def forget_missing(directory: TableDirectory) -> Files:
    """Remove the files that are missing, or of another size, from the log, and return them: their rows are lost.

    Raises
    ------
    NoFilesError
        The directory has no log.
    CommitError
        The log is broken, or other jobs append entries all the time.
    """
    job = new_id()
    lost = NO_FILES
    for _ in range(_ATTEMPTS):
        state = _read(directory)
        ended = state.ended.get(job)
        if ended is not None:
            with suppress(OSError):  # vacuum does what is left
                finish(directory, state, [job])
            return lost
        missing = list_missing(directory, state)
        if not missing:
            sweep(directory, [job], None)
            return NO_FILES
        # Without a mark, the next job would take it for one that has collected what it removed.
        directory.put_mark(job)
        mask = np.zeros(len(state.files), np.bool_)
        mask[list(missing)] = True
        lost = state.files.select(mask)
        removes = tuple(
            Removed(state.files.paths[i], int(state.files.nbytes[i]) if status is None else status.nbytes)
            for i, status in missing.items()
        )
        change = Entry(
            0,
            "",
            Operation.OVERWRITE,
            job=job,
            base=state.number,
            application="arrowipc fsck --forget-missing",
            remove=removes,
            retain=True,
        )
        with suppress(OSError):  # the next reading of the log tells
            append(directory, state, follow(state, change))
    raise CommitError("other jobs append entries all the time; run it again", path=directory.root)


def renew_id(directory: TableDirectory) -> State:
    """Give a table another id while no job runs, and return the state of its new log. Jobs that run fail.

    Raises
    ------
    NoFilesError
        The directory has no log.
    ConcurrentWriteError
        A job was committed meanwhile; nothing is changed.
    CommitError
        The log is broken, or removed files cannot be deleted.
    """
    storage = directory.storage
    # Removed files must be gone, as the new log knows nothing of them.
    vacuum(directory, older_than=0)
    state = _read(directory)
    if state.tombstones:
        raise CommitError(
            "removed files are still there, and would count; delete them, and run it again",
            path=directory.path(min(removed.path for removed in state.tombstones)),
        )
    table = new_table_id()
    first = State(table, time=state.time)
    change = Entry(
        0,
        "",
        Operation.APPEND,
        job=new_id(),
        application="arrowipc fsck --new-id",
        schema=state.schema,
        partition_columns=state.partition_columns,
        add=state.files,
        retention=state.retention,
        queries=tuple((query, row.batch, 1) for query, row in state.queries.items()),
        tokens=tuple(state.tokens),
        former=(*state.former, state.table),
        layout=state.layout or None,
    )
    entry = follow(first, change)
    storage.make_directory(directory.entries(table))
    storage.sync(directory.log)
    append(directory, first, entry)
    # From here on the table has the new log: one file is replaced in one step.
    storage.put(directory.id_file, encode_table_id(table), durable=True)
    storage.sync(directory.log)
    # A last entry of the earlier log: a job that is about to put this number cannot, and streams look for the id again.
    if not append(directory, state, follow(state, Entry(0, "", Operation.EXPIRE))):
        storage.put(directory.id_file, encode_table_id(state.table), durable=True)
        storage.sync(directory.log)
        raise ConcurrentWriteError(
            "a job was committed meanwhile; the table has the id that it had. Run it again when no job runs",
            path=directory.root,
        )
    # Their numbers are of entries of the earlier log.
    for number in directory.list_replaced():
        storage.delete_tree(directory.all_replaced(number))
    return first.after(replace(entry, add=replace(state.files, numbers=np.ones(len(state.files), np.int64))))


def _read(directory: TableDirectory) -> State:
    state = read_state(directory)
    if state is None:
        raise NoFilesError("this directory has no log: no job of this package has written to it", path=directory.root)
    return state
