"""The log of a table: what entries add up to, whose entry counts, what a broken log says, and what is pruned."""

import logging
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import log_cases
import maintained_tables
import pytest

from spark_arrow_ipc.errors import CommitError, NoFilesError, UnsupportedError
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.table import log
from spark_arrow_ipc.table.checkpoint import encode_checkpoint
from spark_arrow_ipc.table.entry import Entry, Operation
from spark_arrow_ipc.table.log_listing import list_log
from spark_arrow_ipc.table.names import TableDirectory, new_id
from spark_arrow_ipc.table.state import State

READER = Path(__file__).parents[2] / "examples" / "read_log.py"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_a_state_is_what_the_entries_add_up_to(directory, seed):
    entries, models = log_cases.random_entries(seed, 24)
    log_cases.written(directory, entries, checkpoints=(5, 16))
    for number in range(1, len(entries) + 1):
        after, model = log.read_state(directory, number), models[number - 1]
        assert model.files == log_cases.files_of(after)
        assert model.ended == {job: end.is_committed for job, end in after.ended.items()}
        assert model.tokens == after.tokens
        assert model.tombstones == set(after.tombstones)
        assert number == after.number
    assert log.read_state(directory).number == len(entries)


def test_a_newer_state_is_read_from_an_earlier_one(directory):
    entries, models = log_cases.random_entries(5, 24)
    log_cases.written(directory, entries, checkpoints=(5, 16))
    for number in (1, 4, 15, 16, 23, 24):
        newest = log.read_newer(directory, log.read_state(directory, number))
        assert (24, models[-1].files) == (newest.number, log_cases.files_of(newest))


def test_a_newer_state_of_a_log_that_was_replaced_is_that_of_the_log(directory):
    """The table was made anew, or a backup was put back that had other entries."""
    entries, _ = log_cases.random_entries(5, 9)
    table = log_cases.written(directory, entries)
    before = log.read_state(directory, 6)
    other = replace(before, entry=new_id())
    assert 9 == log.read_newer(directory, other).number, "an entry that does not follow the state"
    directory.storage.delete_all([directory.id_file, *(directory.entry(table, number) for number in range(1, 10))])
    assert log.read_newer(directory, before) is None
    anew, models = log_cases.random_entries(6, 3)
    log_cases.written(directory, anew)
    newest = log.read_newer(directory, before)
    assert (3, models[-1].files) == (newest.number, log_cases.files_of(newest))


def read_by_log(*arguments):
    """Return the lines that examples/read_log.py prints, in a process that finds nothing of this package."""
    program = [sys.executable, "-P", str(READER), *map(str, arguments)]
    return subprocess.run(program, capture_output=True, text=True, check=True, cwd="/").stdout.splitlines()


def test_the_reader_of_the_log_is_short_and_imports_nothing_of_this_package():
    lines = READER.read_text().splitlines()
    assert len(lines) <= 60
    assert {"json", "pyarrow", "sys", "zlib", "pathlib", "typing"} == {
        line.split()[1] for line in lines if line.startswith(("import ", "from "))
    }


def test_a_table_of_transactions_is_read_by_another_program(tmp_path):
    lake = maintained_tables.table(tmp_path)
    for number in range(40):
        maintained_tables.save(lake, (number,), overwrites=number % 7 == 3, retain=True)
    assert list_log(lake, log.read_table_id(lake)).checkpoints
    files = log.read_state(lake).files
    expected = sorted(zip(files.paths, files.nbytes.tolist(), files.rows.tolist(), strict=True))
    assert [" ".join(map(str, row)) for row in expected] == read_by_log(tmp_path)
    assert len(maintained_tables.ids(lake)) == len(expected)


@pytest.mark.slow
def test_a_program_without_this_package_reads_the_same_files(tmp_path):
    directory = TableDirectory(LOCAL, str(tmp_path))
    entries, models = log_cases.random_entries(3, 30)
    log_cases.written(directory, entries, checkpoints=(8, 20))
    for number in (1, 7, 8, 9, 20, 21, 30):
        lines = [f"{path} {nbytes} {rows}" for path, (nbytes, rows) in sorted(models[number - 1].files.items())]
        assert lines == read_by_log(tmp_path, number)


def test_one_of_two_gets_a_number(directory):
    log_cases.written(directory, [])
    before = log.read_state(directory)
    first, second = (Entry(1, "", Operation.APPEND, job=new_id()) for _ in range(2))
    assert log.append(directory, before, first)
    assert not log.append(directory, before, second)
    assert [first.job] == list(log.read_state(directory).ended)


def test_a_table_has_one_id_whoever_makes_it(directory):
    assert log.read_table_id(directory) is None
    assert log.read_state(directory) is None
    assert log.create_table(directory) == log.create_table(directory) == log.read_table_id(directory)


def damage_entry(directory, table):
    path = directory.entry(table, 7)
    directory.storage.put(path, directory.storage.read(path, 1 << 20)[:-9])


def drop_entry(directory, table):
    directory.storage.delete(directory.entry(table, 7))


def hole(directory, table):
    """An entry of a process that paused, at a number that was pruned."""
    stranger = Entry(7, new_id(), Operation.APPEND, job=new_id())
    directory.storage.put(directory.entry(table, 7), stranger.to_bytes())


def newer_entry(directory, table):
    directory.storage.put(directory.entry(table, 7), b'{"format":2,"number":7,"what":1}\n')


def newer_table(directory, _):
    directory.storage.put(directory.id_file, b'{"format":2,"table":"0a1b2c3d"}')


def no_table_id(directory, _):
    directory.storage.put(directory.id_file, b"??")


BROKEN = [
    (damage_entry, CommitError, r"00007\.json.*expected a log entry that ends in its own CRC-32"),
    (drop_entry, CommitError, r"entry 7 is missing.*restore .*/_ipc_log/"),
    (hole, CommitError, "entry 7 does not follow the one before it"),
    (newer_entry, UnsupportedError, "log of version 2, .*reads version 1"),
    (newer_table, UnsupportedError, "table is of version 2"),
    (no_table_id, CommitError, "the id of the table is damaged"),
]


@pytest.mark.parametrize(("harm", "error", "match"), BROKEN, ids=[row[0].__name__ for row in BROKEN])
def test_a_broken_log_is_an_error_and_never_fewer_files(directory, harm, error, match):
    entries, _ = log_cases.random_entries(2, 9)
    table = log_cases.written(directory, entries, checkpoints=(4,))
    harm(directory, table)
    with pytest.raises(error, match=match):
        log.read_state(directory)


HARM_OF_CHECKPOINTS = {
    "cut": lambda data: data[: len(data) // 2],
    "empty": lambda _: b"",
    "of another number": lambda _: encode_checkpoint(State(log_cases.TABLE).after(*log_cases.random_entries(2, 3)[0])),
    "no Arrow file": lambda _: b"hello",
}


@pytest.mark.parametrize("harm", HARM_OF_CHECKPOINTS.values(), ids=HARM_OF_CHECKPOINTS)
def test_a_damaged_checkpoint_is_passed_over_with_one_warning(directory, caplog, harm):
    entries, models = log_cases.random_entries(2, 9)
    table = log_cases.written(directory, entries, checkpoints=(4, 8))
    path = directory.checkpoint(table, 8)
    directory.storage.put(path, harm(directory.storage.read(path, 1 << 20)))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert models[-1].files == log_cases.files_of(log.read_state(directory))
    assert [path in record.getMessage() for record in caplog.records] == [True]


def test_a_checkpoint_that_the_next_entry_does_not_name_is_not_of_this_log(directory):
    """Written late, by a process that read a log that was removed since."""
    entries, _ = log_cases.random_entries(2, 9)
    table = log_cases.written(directory, entries)
    stale = replace(State(table).after(*entries[:8]), entry=new_id())
    log.write_checkpoint(directory, stale)
    with pytest.raises(CommitError, match="entry 9 does not follow"):
        log.read_state(directory)


def test_a_checkpoint_of_a_paused_process_whose_entries_are_pruned_is_no_version(directory):
    """Nothing tells whether it is of this log, so that nothing is read by it, and nobody is sent to it."""
    entries, models = log_cases.random_entries(2, 12)
    table = log_cases.written(directory, entries, checkpoints=(8,))
    directory.storage.delete_all([directory.entry(table, number) for number in range(1, 9)])
    log.write_checkpoint(directory, State(table).after(*entries[:3]))
    for number in (3, 4, 7):
        with pytest.raises(
            NoFilesError, match=rf"entry {number} .*no longer retained.* the oldest that can be read is about 8"
        ):
            log.read_state(directory, number)
    for number in (8, 9, 12):
        assert models[number - 1].files == log_cases.files_of(log.read_state(directory, number))


def test_pruning_keeps_what_the_second_newest_checkpoint_needs(directory, monkeypatch):
    monkeypatch.setattr(log, "LEAST_RETAINED", 2)
    entries, models = log_cases.random_entries(4, 20)
    table = log_cases.written(directory, entries, checkpoints=(5, 10, 15))
    after = replace(log.read_state(directory), retention=0)
    log.prune(directory, after)
    listing = list_log(directory, table)
    assert set(range(11, 21)) == set(listing.entries)
    assert {10, 15} == set(listing.checkpoints)
    assert models[-1].files == log_cases.files_of(log.read_state(directory))
    for number in range(10, 21):
        assert models[number - 1].files == log_cases.files_of(log.read_state(directory, number))
    with pytest.raises(
        NoFilesError, match=r"entry 3 of this table is no longer retained, .*; the oldest that can be read is about 10"
    ):
        log.read_state(directory, 3)
    directory.storage.put(directory.checkpoint(table, 15), b"damaged")
    assert models[-1].files == log_cases.files_of(log.read_state(directory))


def test_the_first_number_again_is_no_state_after_it_was_pruned(directory, monkeypatch):
    """The first entry names none before it, so that only the one after it tells a late one apart."""
    monkeypatch.setattr(log, "LEAST_RETAINED", 2)
    entries, _ = log_cases.random_entries(4, 20)
    table = log_cases.written(directory, entries, checkpoints=(5, 10, 15))
    log.prune(directory, replace(log.read_state(directory), retention=0))
    directory.storage.put(directory.entry(table, 1), Entry(1, "", Operation.APPEND, job=new_id()).to_bytes())
    with pytest.raises(NoFilesError, match="entry 1 of this table is no longer retained"):
        log.read_state(directory, 1)
    assert 20 == log.read_state(directory).number


def test_the_newest_entry_of_an_old_listing_is_not_read_from_a_hole(directory, monkeypatch):
    """A reader pauses after its listing, and a writer before its put, until the number is pruned."""
    monkeypatch.setattr(log, "LEAST_RETAINED", 2)
    entries, models = log_cases.random_entries(4, 20)
    table = log_cases.written(directory, entries[:9], checkpoints=(5,))
    old = list_log(directory, table)
    before = log.read_state(directory)
    for entry in entries[9:]:
        assert log.append(directory, before, entry)
        before = before.after(entry)
        if entry.number in (10, 15):
            log.write_checkpoint(directory, before)
    late = Entry(9, entries[7].id, Operation.APPEND, job=new_id())
    directory.storage.delete(directory.entry(table, 9))
    assert directory.storage.put_if_absent(directory.entry(table, 9), late.to_bytes())
    listings = [old]
    with monkeypatch.context() as patch:
        patch.setattr(log, "list_log", lambda *where, **_: listings.pop() if listings else list_log(*where))
        assert models[-1].files == log_cases.files_of(log.read_state(directory))


REPLACED = {
    "one entry less": (4, ()),
    "another newest entry": (4, (5,)),
    "another entry, and more": (4, (5, 6)),
    "the same log": (5, ()),
}


@pytest.mark.parametrize(("left", "others"), REPLACED.values(), ids=REPLACED)
def test_a_state_is_read_on_from_only_if_the_log_still_has_its_entry(directory, left, others):
    """A backup was put back, and other jobs were committed after it."""
    entries, _ = log_cases.random_entries(4, 5)
    table = log_cases.written(directory, entries)
    before = log.read_state(directory)
    for number in range(left + 1, 6):
        directory.storage.delete(directory.entry(table, number))
    for _ in others:
        state = log.read_state(directory)
        assert log.append(directory, state, log.follow(state, Entry(0, "", Operation.APPEND, job=new_id())))
    expected = log.read_state(directory)
    state = log.read_newer(directory, before, confirm=True)
    assert (expected.number, expected.entry) == (state.number, state.entry)
    assert log_cases.files_of(expected) == log_cases.files_of(state)


def test_nothing_is_pruned_that_is_young(directory, monkeypatch):
    monkeypatch.setattr(log, "LEAST_RETAINED", 2)
    entries, _ = log_cases.random_entries(4, 20)
    log_cases.written(directory, entries, checkpoints=(5, 10, 15))
    assert [] == log.prune(directory, log.read_state(directory))


def test_an_entry_that_is_not_there_yet_is_named(directory):
    log_cases.written(directory, log_cases.random_entries(4, 3)[0])
    with pytest.raises(NoFilesError, match="expected an entry 9 in the log of this table, found entries up to 3"):
        log.read_state(directory, 9)
