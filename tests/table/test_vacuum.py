"""Vacuum: what goes, what stays, what a dry run says, and how often the table is listed."""

import pytest
from maintained_tables import content, ids, paths_in, save, stage

from spark_arrow_ipc.table import collect, log, snapshot
from spark_arrow_ipc.table import vacuum as module
from spark_arrow_ipc.table.entry import Removed
from spark_arrow_ipc.table.log import encode_table_id, read_state
from spark_arrow_ipc.table.names import data_file_name, new_table_id
from spark_arrow_ipc.table.transaction import Transaction
from spark_arrow_ipc.table.vacuum import vacuum


def leave_dead_job(directory):
    job = Transaction.begin(directory)
    stage(job, (7,))
    return job.job


def leave_named_files(directory):
    job = Transaction.begin(directory)
    job.name_files(stage(job, (7,), (8,)))
    return job.job


def leave_removed_files(directory):
    save(directory, (2,), overwrites=True, collects=False)


def leave_retained_files(directory):
    save(directory, (2,), overwrites=True, retain=True)
    save(directory, (3,), retention=0)


def leave_temporary_file(directory):
    path = f"{directory.entries(read_state(directory).table)}/{'a' * 32}.staged"
    directory.storage.put(path, b"half an entry")


LEFT = {
    "a job that died while it staged": (leave_dead_job, "files of dead jobs"),
    "a job that died after its files had names": (leave_named_files, "files of dead jobs"),
    "files that an entry removed": (leave_removed_files, "removed files"),
    "files that were retained for as long as the table says": (leave_retained_files, "retained files"),
    "what a killed put of an entry left": (leave_temporary_file, "incomplete files of the log"),
}


@pytest.mark.parametrize(("leave", "kind"), LEFT.values(), ids=LEFT)
def test_what_is_left_is_told_by_a_dry_run_and_deleted(directory, leave, kind):
    save(directory, (1,))
    leave(directory)
    rows, before = ids(directory), paths_in(directory)
    told = vacuum(directory, older_than=0, dry_run=True)
    assert before == paths_in(directory), "a dry run changes nothing"
    report = vacuum(directory, older_than=0)
    assert kind in told.deleted
    assert (told.swept, dict(told.deleted)) == (report.swept, dict(report.deleted))
    assert rows == ids(directory)
    assert {"_ipc_log"} >= {path.partition("/")[0] for path in paths_in(directory) if path.startswith("_")}
    assert {} == dict(vacuum(directory, older_than=0).deleted)


def test_sizes_are_those_of_the_files(directory):
    save(directory, (1,))
    job = leave_named_files(directory)
    report = vacuum(directory, older_than=0)
    assert (job,) == report.swept
    files = 2 if directory.storage.traits.renames else 4  # where a storage copies, the staged ones are there, too
    assert (files + 1, files * len(content(7))) == report.deleted["files of dead jobs"], "with the mark of the job"


def test_a_young_job_and_what_it_stages_stays(directory):
    job = Transaction.begin(directory)
    job.name_files(stage(job, (7,)))
    report = vacuum(directory, older_than=3600)
    assert [job.job] == list(report.young)
    assert report.young[job.job].seconds < 3000
    job.commit(lambda _: collect.Entry(0, "", collect.Operation("append")))
    assert [7] == ids(directory)


def test_ages_are_those_of_the_storage_and_not_of_this_machine(directory, monkeypatch):
    """A machine whose clock is a year ahead takes no running job for dead."""
    job = leave_dead_job(directory)
    real = module.time.time_ns()
    monkeypatch.setattr("time.time_ns", lambda: real + 365 * 24 * 3600 * 10**9)
    assert [job] == list(vacuum(directory, older_than=3600).young)


def test_removed_files_are_retained_for_as_long_as_the_table_says(directory):
    save(directory, (1,), retention=3600)
    save(directory, (2,), overwrites=True, retain=True)
    vacuum(directory, older_than=0)
    assert [f"{2:020d}"] == [path.split("/")[1] for path in paths_in(directory, "_ipc_replaced")]


def test_jobs_delete_retained_files_and_old_entries_now_and_then(directory, monkeypatch):
    monkeypatch.setattr("spark_arrow_ipc.table.transaction._PRUNE_INTERVAL", 4)
    save(directory, (1,))
    save(directory, (2,), overwrites=True, retain=True, retention=0)
    save(directory, (3,))
    assert [] != paths_in(directory, "_ipc_replaced")
    save(directory, (4,))
    assert [] == [path for path in paths_in(directory) if path.startswith("_ipc_replaced")]
    assert [2, 3, 4] == ids(directory)


@pytest.mark.parametrize("seconds", [0, 8 * 24 * 3600], ids=["young", "of eight days"])
def test_entries_of_an_earlier_table_go_when_they_are_old(directory, monkeypatch, seconds):
    save(directory, (1,))
    directory.storage.make_directory(directory.entries("0a1b2c3d"))
    directory.storage.put(directory.entry("0a1b2c3d", 1), b"{}")
    clock = module._read_clock
    monkeypatch.setattr(module, "_read_clock", lambda *table: clock(*table) + seconds * 10**9)
    report = vacuum(directory, older_than=0)
    assert bool(seconds) == ("log entries of an earlier table" in report.deleted)
    assert bool(seconds) != any("0a1b2c3d" in path for path in paths_in(directory, "_ipc_log"))


def test_a_vacuum_that_paused_while_the_table_was_made_anew_deletes_nothing_of_it(directory, monkeypatch):
    save(directory, (1,))
    monkeypatch.setattr(module, "_EARLIER_NS", -(10**15))
    close = module.close_removed

    def make_anew(*arguments):
        close(*arguments)
        directory.storage.delete(directory.id_file)
        directory.storage.put(directory.id_file, encode_table_id(new_table_id()))
        save(directory, (9,))

    monkeypatch.setattr(module, "close_removed", make_anew)
    directory.storage.make_directory(directory.entries("0a1b2c3d"))
    directory.storage.put(directory.entry("0a1b2c3d", 1), b"{}")
    vacuum(directory, older_than=0)
    assert directory.storage.status(directory.entry("0a1b2c3d", 1)) is not None
    assert 9 in ids(directory)


def test_the_table_is_listed_as_often_for_many_dead_jobs_as_for_one(directory, monkeypatch):
    save(directory, (1,))
    counts = []
    for jobs in (1, 9):
        for _ in range(jobs):
            leave_named_files(directory)
        listings = []

        def count(where, listings=listings):
            listings.append(where)
            return snapshot.list_data_files(where)

        with monkeypatch.context() as patch:
            for user in (collect, module):
                patch.setattr(user, "list_data_files", count)
            assert jobs == len(vacuum(directory, older_than=0).swept)
        counts.append(len(listings))
    assert counts[0] == counts[1] <= 5


def test_old_entries_are_pruned_by_a_vacuum(directory, monkeypatch):
    monkeypatch.setattr(log, "LEAST_RETAINED", 1)
    monkeypatch.setattr(log, "DEFAULT_RETENTION", -(10**6))
    for number in range(4):
        save(directory, (number,))
        log.write_checkpoint(directory, read_state(directory))
    assert vacuum(directory, older_than=0).deleted["old log entries"].files > 2
    assert [0, 1, 2, 3] == ids(directory)


def test_a_file_of_a_former_id_counts_by_the_log_alone(directory):
    """As `fsck --new-id` leaves them; and those that it does not count are named and stay."""
    state = save(directory, (1,), former=("0a1b2c3d",))
    stranger = data_file_name(0, "0a1b2c3d", "f" * 32)
    directory.storage.put(directory.path(stranger), content(5))
    assert [1] == ids(directory)
    assert (stranger,) == vacuum(directory, older_than=0).unknown
    log.write_checkpoint(directory, read_state(directory))
    assert state.former == log.read_state(directory).former == ("0a1b2c3d",)


def test_an_empty_directory_of_staged_files_does_not_make_an_unknown_job_known(directory):
    """A copy that is made while a job ends may have its files, and neither its entry nor its mark."""
    state = save(directory, (1,))
    stranger = data_file_name(0, state.table, "f" * 32)
    directory.storage.put(directory.path(stranger), content(5))
    directory.storage.make_directory(directory.staging("f" * 32))
    assert (stranger,) == vacuum(directory, older_than=0, dry_run=True).unknown
    assert (stranger,) == vacuum(directory, older_than=0).unknown


def test_two_removals_of_a_file_whose_time_changed_are_of_one_file():
    first, second = Removed("a.arrow", 5, "17", "digest"), Removed("a.arrow", 5, "18", "digest")
    assert first.identity == second.identity
    assert Removed("a.arrow", 5, "17").identity != Removed("a.arrow", 5, "18").identity
