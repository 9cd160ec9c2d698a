"""What a job makes before its first file: the id of its table, where that was not lost, and the job's mark."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from spark_arrow_ipc.errors import CommitError
from spark_arrow_ipc.storage import failpoint
from spark_arrow_ipc.storage.paths import name_of
from spark_arrow_ipc.table.log import create_table
from spark_arrow_ipc.table.lost import check_entries, check_id, ids_in
from spark_arrow_ipc.table.names import TableDirectory, is_table_id
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
