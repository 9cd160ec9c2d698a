"""The begin of a job: the id of its table, where that was not lost, the job's mark, and whether its directories are the table's."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from spark_arrow_ipc.errors import CommitError, UnsupportedError
from spark_arrow_ipc.storage import failpoint
from spark_arrow_ipc.storage.paths import join, name_of
from spark_arrow_ipc.table.log import create_table, read_state
from spark_arrow_ipc.table.lost import check_entries, check_id, ids_in
from spark_arrow_ipc.table.names import LOG_DIRECTORY, TableDirectory, is_table_id
from spark_arrow_ipc.table.snapshot import list_data_files
from spark_arrow_ipc.table.state import State

_ATTEMPTS: Final = 3


def open_table(directory: TableDirectory) -> str:
    """Return the id of a table, which is made if there is none (`create_table`); `CommitError` if it was lost."""

    def check() -> None:
        names = {name_of(status.path) for status in directory.storage.list(directory.log)}
        # Mostly there are none, and the table is not listed.
        if any(is_table_id(name) for name in names):
            check_id(directory, ids_in(list_data_files(directory)))

    return create_table(directory, check=check)


def check_has_log(directory: TableDirectory, state: State) -> None:
    """Raise if the files of a table in which no job was committed show that its entries are lost. A listing of the table."""
    for path in filter(state.is_managed, list_data_files(directory)):
        check_entries(directory, state, path)


def check_no_table(directory: TableDirectory, inner: str) -> None:
    """Raise if a directory of a table with a log is a table itself, in which a job was committed or whose log cannot be read."""
    with suppress(CommitError, UnsupportedError):
        state = read_state(TableDirectory(directory.storage, inner))
        if state is None or not state.has_jobs:
            return
    raise CommitError(
        f"the directory {inner} in it is a table of its own, and jobs of the two would not know of each other: to make "
        f"it a part of this one, run 'arrowipc vacuum {inner}' and remove {join(inner, LOG_DIRECTORY)}; or write to a "
        "directory outside of it. Nothing is written or replaced",
        path=directory.root,
    )


def put_mark(directory: TableDirectory, job: str) -> None:
    """Make the staging directory of a job, and put its mark durably."""
    storage, mark = directory.storage, directory.mark(job)
    for _ in range(_ATTEMPTS):
        # A vacuum may have deleted the empty directory above it in between.
        storage.make_directory(directory.staging(job))
        with suppress(OSError):
            storage.put(mark, b"", durable=True)
        if storage.status(mark) is not None:
            storage.sync(directory.all_staging)
            storage.sync(directory.root)
            failpoint.hit("planned.mark")
            return
    raise CommitError("the mark of the job cannot be put; nothing is written", path=mark)
