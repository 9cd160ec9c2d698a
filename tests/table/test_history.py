"""The history of a table: what each entry did, and how far back it goes."""

import pytest
from maintained_tables import ids, save, table

from spark_arrow_ipc.errors import NoFilesError
from spark_arrow_ipc.table import log
from spark_arrow_ipc.table.collect import fence
from spark_arrow_ipc.table.history import read_history
from spark_arrow_ipc.table.log import read_state
from spark_arrow_ipc.table.restore import restore


def told(history):
    return [(c.number, str(c.operation), c.files_added, c.rows_added, c.files_removed, c.rows_removed) for c in history.changes]  # fmt: skip


def test_each_entry_is_told_the_newest_first(directory):
    save(directory, (1, 2), (3,), application="app", user="somebody", token="t")
    save(directory, (4,), overwrites=True, retain=True)
    restore(directory, 1)
    history = read_history(directory)
    assert [(3, "restore", 2, 3, 1, 1), (2, "overwrite", 1, 1, 2, 3), (1, "append", 2, 3, 0, 0)] == told(history)
    first = history.changes[-1]
    assert ("app", "somebody", "t", None) == (first.application, first.user, first.token, first.restores)
    assert (0, 1) == (history.before, history.changes[0].restores)
    sizes = read_state(directory, 1).files.nbytes
    assert sizes.sum() == first.nbytes_added == history.changes[1].nbytes_removed


def test_rows_of_removed_files_are_known_from_the_checkpoint_before_the_first_entry(directory):
    for number in range(5):
        save(directory, (number, number), overwrites=True)
        if number == 2:
            log.write_checkpoint(directory, read_state(directory))
    table_id = read_state(directory).table
    directory.storage.delete_all([directory.entry(table_id, number) for number in (1, 2, 3)])
    history = read_history(directory)
    assert 3 == history.before
    assert [(5, "overwrite", 1, 2, 1, 2), (4, "overwrite", 1, 2, 1, 2)] == told(history)


@pytest.mark.parametrize("limit", [1, 2, 3, 9])
def test_only_the_newest_entries_are_told_if_asked(directory, limit):
    for number in range(3):
        save(directory, (number,))
    history = read_history(directory, limit)
    assert list(range(3, max(0, 3 - limit), -1)) == [change.number for change in history.changes]
    assert max(0, 3 - limit) == history.before


def test_files_of_other_programs_have_no_rows_in_the_log(directory):
    save(directory, (1,))
    directory.storage.put(
        directory.path("other.arrow"),
        directory.storage.read(directory.path(read_state(directory).files.paths[0]), 9999),
    )
    save(directory, (2,), overwrites=True)
    closed, overwritten, _ = read_history(directory).changes
    assert (2, None) == (overwritten.files_removed, overwritten.rows_removed)
    assert ("close", 0) == (closed.operation, closed.files_removed)


def test_an_entry_of_maintenance_has_no_files(directory):
    save(directory, (1,))
    fence(directory, read_state(directory).table, ["a" * 32])
    assert (2, "expire", 0, 0, 0, 0) == told(read_history(directory))[0]
    assert [1] == ids(directory)


def test_a_directory_without_a_log_is_said_so(tmp_path):
    with pytest.raises(NoFilesError, match="no log"):
        read_history(table(tmp_path))
