"""fsck: each damage has one fault with its path, and a sound table none."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from maintained_tables import content, save, stage, table

from spark_arrow_ipc.table import log, vacuum
from spark_arrow_ipc.table.checkpoint import decode_checkpoint, encode_checkpoint
from spark_arrow_ipc.table.entry import Entry, Operation
from spark_arrow_ipc.table.fsck import FsckReport, check_table
from spark_arrow_ipc.table.log import read_state
from spark_arrow_ipc.table.names import data_file_name
from spark_arrow_ipc.table.snapshot import Snapshot
from spark_arrow_ipc.table.transaction import Transaction


@pytest.fixture
def lake(directory):
    """A table of four entries, with checkpoints after the second and the third."""
    for number in range(4):
        save(directory, (number, number), at=f"k={number % 2}")
        if number in (1, 2):
            log.write_checkpoint(directory, read_state(directory))
    return directory


def faults(directory, **options):
    report = check_table(directory, **options)
    return [(finding.path.removeprefix(f"{directory.root}/"), finding.what, finding.fix) for finding in report.findings if not finding.is_note]  # fmt: skip


def test_a_sound_table_has_no_finding(lake):
    report = check_table(lake, deep=True)
    assert ((), True, 4, 4, 8) == (report.findings, report.is_sound, report.number, report.files, report.rows)


def data_path(directory, slot=0):
    return read_state(directory).files.paths[slot]


def log_path(directory, number, suffix="json"):
    return f"_ipc_log/{read_state(directory).table}/{number:020d}.{suffix}"


def damage(data):
    """Another byte in the middle."""
    return data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :]


DAMAGES = {
    "a file is missing": (data_path, None, "entry 1 added this file of 2 rows .* is missing", "fsck --forget-missing"),
    "a file is cut": (data_path, lambda data: data[:-5], "has .* bytes", "before you go on; or if its rows are lost"),
    "the end of a file is another": (data_path, damage, "its last bytes are not those", "arrowipc repair"),
    "an entry is missing": (lambda d: log_path(d, 2), None, "the entry is missing", "time travel"),
    "an entry before a checkpoint is damaged": (
        lambda d: log_path(d, 2),
        damage,
        "the entry is damaged",
        "time travel",
    ),
    "the newest entry is damaged": (
        lambda d: log_path(d, 4),
        damage,
        "the entry is damaged",
        "delete the entries 4 to 4",
    ),
    "a checkpoint is damaged": (
        lambda d: log_path(d, 3, "checkpoint"),
        lambda data: data.replace(b'"horizon":1', b'"horizon":2'),
        "cannot be read",
        "rm ",
    ),
    "the newest checkpoint is empty": (lambda d: log_path(d, 3, "checkpoint"), lambda _: b"", "cannot be read", "rm "),
    "the id is lost": (lambda d: "_ipc_log/table", None, "the id of the table is lost", '"table": "'),
    "the id is damaged": (lambda d: "_ipc_log/table", lambda data: data[:9], "the id of the table is damaged", ""),
}


@pytest.mark.parametrize(("path_of", "change", "what", "fix"), DAMAGES.values(), ids=DAMAGES)
def test_each_damage_is_one_fault(lake, path_of, change, what, fix):
    path = path_of(lake)
    data = lake.storage.read(lake.path(path), 1 << 20)
    lake.storage.delete(lake.path(path))
    if change is not None:
        lake.storage.put(lake.path(path), change(data))
    (where, told, remedy), *others = faults(lake)
    assert path == where
    assert re.search(what, told)
    assert fix in remedy
    # A log that cannot be read is told once more, for the table.
    assert {lake.root} >= {place for place, _, _ in others}


def test_a_first_entry_that_is_gone_is_taken_for_a_pruned_one(lake):
    lake.storage.delete(lake.path(log_path(lake, 1)))
    assert [] == faults(lake)


def test_a_checkpoint_of_another_state_is_found(lake):
    second, third = (lake.path(log_path(lake, number, "checkpoint")) for number in (2, 3))
    state = decode_checkpoint(lake.storage.read(third, 1 << 20), read_state(lake).table, 3)
    lake.storage.put(third, encode_checkpoint(replace(state, last_removal=1)))
    assert [third.removeprefix(f"{lake.root}/")] == [path for path, _, _ in faults(lake)]
    assert lake.storage.status(second) is not None


def test_rows_are_compared_if_asked(directory):
    job = Transaction.begin(directory)
    job.name_files([file._replace(rows=3) for file in stage(job, (1, 2))])
    job.commit(lambda _: Entry(0, "", Operation.APPEND))
    job.collect()
    assert [] == faults(directory)
    ((_, what, _),) = faults(directory, deep=True)
    assert "it has 2 rows, and the log counts 3" == what


def test_a_file_that_this_user_may_not_read_is_not_called_damaged(lake, monkeypatch):
    readable = type(lake.storage).open

    def refuse(storage, path, **options):
        if path.endswith(".arrow"):
            raise PermissionError(13, "Permission denied", path)
        return readable(storage, path, **options)

    monkeypatch.setattr(type(lake.storage), "open", refuse)
    found = check_table(lake).findings
    assert 4 == len(found)
    assert {"let this user read it, and run fsck again"} == {finding.fix for finding in found}
    assert all("Permission denied" in finding.what for finding in found)


def test_what_is_good_to_know_is_a_note(tmp_path):
    lake = table(tmp_path)
    save(lake, (1,))
    lake.storage.put(lake.path("other.arrow"), content(9))
    Transaction.begin(lake)
    report = check_table(lake)
    assert report.is_sound
    words = " ".join(finding.what for finding in report.findings)
    for part in ("a file of another program", "the job has 0 bytes in staged files"):
        assert part in words


def test_a_newest_entry_that_is_lost_is_a_fault(lake):
    """Readers cannot know that there was one; its files are what is left of it."""
    state = read_state(lake)
    path, newest = lake.entry(state.table, state.number), data_path(lake, -1)
    entry = lake.storage.read(path, 1 << 20)
    lake.storage.delete(path)
    ((where, what, fix),) = faults(lake)
    assert (newest, True) == (where, "the newest entries of the log are lost" in what)
    assert "restore the entries" in fix
    lake.storage.put(path, entry)
    assert [] == faults(lake)


def test_a_job_that_begins_while_files_are_listed_is_no_fault(lake, monkeypatch):
    """The log is read before the listing, and so again after it."""
    list_files = vacuum.list_data_files

    def list_later(directory):
        monkeypatch.setattr(vacuum, "list_data_files", list_files)
        save(lake, (9, 9))
        running = Transaction.begin(lake)
        lake.storage.put(lake.path(data_file_name(0, running.table, running.job)), content(9))
        return list_files(directory)

    monkeypatch.setattr(vacuum, "list_data_files", list_later)
    assert [] == faults(lake)
    assert vacuum.list_data_files is list_files


def test_a_copy_of_our_own_file_by_a_file_manager_is_a_fault(lake):
    path = data_path(lake)
    name = path.replace(".arrow", " (copy).arrow")
    lake.storage.put(lake.path(name), lake.storage.read(lake.path(path), 1 << 20))
    ((where, what, _),) = faults(lake)
    assert (name, True) == (where, "readers see its rows twice" in what)


def test_a_copy_under_any_name_is_a_fault(lake):
    path = data_path(lake)
    lake.storage.put(lake.path("copy.arrow"), lake.storage.read(lake.path(path), 1 << 20))
    lake.storage.put(lake.path("other.arrow"), content(7, 7))  # of the same size
    ((where, what, fix),) = faults(lake)
    assert ("copy.arrow", f"this is a copy of {path}: readers see its rows twice", "compare, and delete it") == (
        where,
        what,
        fix,
    )


def test_other_bytes_in_the_middle_of_a_file_are_a_deep_fault(directory):
    save(directory, range(20_000))
    path = directory.path(data_path(directory))
    data = directory.storage.read(path, 1 << 20)
    message = data.index(b"\xff" * 4, 16) + 16  # of the record batch
    directory.storage.put(path, data[:message] + bytes(64) + data[message + 64 :])
    assert [] == faults(directory)
    ((where, _, fix),) = faults(directory, deep=True)
    assert (data_path(directory), True) == (where, "restore it from a copy" in fix)


def test_what_is_said_of_a_first_entry_that_is_damaged_leads_to_a_table(directory):
    save(directory, (1, 2))
    data_file, path = data_path(directory), directory.path(log_path(directory, 1))
    directory.storage.put(path, damage(directory.storage.read(path, 1 << 20)))
    ((_, _, fix),) = faults(directory)
    assert f"without one, delete {directory.log}, and then all files count" in fix
    assert "" != check_table(directory).table
    directory.storage.delete(path)
    directory.storage.delete(directory.id_file)
    shutil.rmtree(directory.log, ignore_errors=True)  # directories, where the storage has some
    assert [] == faults(directory)
    assert [data_file] == list(Snapshot.open(directory).unmanaged)


def test_a_directory_without_a_log_is_no_fault(directory):
    report = check_table(directory)
    assert (True, FsckReport(directory.root, "", 0, 0, 0, 0, report.findings)) == (report.is_sound, report)


LINKS = {
    "a file that counts": (data_path, "it is a link, and nothing is read through it", "put the file in the place"),
    "staging": (lambda _: "_ipc_stage", "expected a directory, found a link", ""),
    "the log": (lambda _: "_ipc_log", "expected a directory, found a link", ""),
}


@pytest.mark.parametrize(("path_of", "what", "fix"), LINKS.values(), ids=LINKS)
def test_a_link_is_a_fault_that_says_so(tmp_path, path_of, what, fix):
    (tmp_path / "lake").mkdir()
    lake = table(tmp_path / "lake")
    save(lake, (1,))
    name = path_of(lake)
    path, target = Path(lake.path(name)), tmp_path / "elsewhere"
    path.rename(target) if path.exists() else target.mkdir()
    path.symlink_to(target)
    ((where, told, remedy),) = faults(lake)
    assert name == where
    assert what in told
    assert fix in remedy
