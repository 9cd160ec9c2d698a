"""The entries of a log as a stream reads them: no entry that is not part of the log, and each state once."""

import pytest
from table_commits import APPEND, OVERWRITE, prune, save, table

from spark_arrow_ipc.dataset.stream.table_entries import TableEntries, table_around
from spark_arrow_ipc.errors import StreamOffsetError
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.table.entry import Entry, Operation
from spark_arrow_ipc.table.log import append, follow, read_state, read_table_id


def entries_of(path):
    return TableEntries(table(path), read_table_id(table(path)))


@pytest.mark.parametrize("is_read_before", [True, False])
def test_an_entry_that_a_paused_process_puts_among_pruned_ones_is_not_read(tmp_path, is_read_before):
    save(tmp_path, APPEND, "a")
    paused, entries = read_state(table(tmp_path)), entries_of(tmp_path)
    if is_read_before:
        entries.between(0, 1, 1)
    for text in "bcd":
        save(tmp_path, APPEND, text)
    prune(tmp_path, 2, 3)
    assert append(table(tmp_path), paused, follow(paused, Entry(0, "", Operation.EXPIRE, expire=("0" * 32,))))
    with pytest.raises(StreamOffsetError, match="at log entry 1, and cannot go on from there: entry 3 is missing"):
        entries.between(1, 2, entries.newest(1))


def test_entries_are_the_same_from_wherever_they_are_read(tmp_path):
    for number, text in enumerate("abcdef"):
        save(tmp_path, OVERWRITE if number == 3 else APPEND, text)
    entries, paths = entries_of(tmp_path), {}
    for after, last in [(2, 4), (0, 6), (4, 6), (3, 3), (1, 5)]:
        for changes in entries.between(after, last, 6):
            assert changes == paths.setdefault(changes.number, changes)
        entries.forget(after + 1)
    assert [1, 1, 1, 4, 1, 1] == [len(paths[number].files) for number in range(1, 7)]
    assert [4] == [number for number, changes in sorted(paths.items()) if changes.overwrites]


AROUND = {"the table": "t", "a partition": "t/k=1", "a file": "t/k=1/x", "nothing there": "t/none/none"}


@pytest.mark.parametrize("name", AROUND)
def test_the_table_around_a_path(tmp_path, name):
    (tmp_path / "t" / "k=1").mkdir(parents=True)
    (tmp_path / "t" / "k=1" / "x").touch()
    assert table_around(LOCAL, str(tmp_path / AROUND[name])) is None
    save(tmp_path / "t", APPEND, "a")
    assert str(tmp_path / "t") == table_around(LOCAL, str(tmp_path / AROUND[name]))
    assert table_around(LOCAL, str(tmp_path)) is None
