"""Rules of the protocol, each by a scene that goes wrong without it; `tests/faults/table_mutations.py` takes out all of them."""

from contextlib import suppress

import pytest
from table_commits import OVERWRITE, begin, commit
from table_jobs import at, left

from spark_arrow_ipc.errors import CommitError, ConcurrentWriteError
from spark_arrow_ipc.storage.paths import join
from spark_arrow_ipc.table import vacuum
from spark_arrow_ipc.table.collect import fence
from spark_arrow_ipc.table.entry import Entry
from spark_arrow_ipc.table.snapshot import Snapshot, list_data_files, removal_of


def texts(directory):
    """The contents of the files of the newest snapshot."""
    snapshot = Snapshot.open(directory)
    paths = [*snapshot.managed, *snapshot.unmanaged]
    return sorted(directory.storage.read(directory.path(path), 100).decode() for path in paths)


def listed(directory):
    """The contents of all files that a program lists."""
    return sorted(directory.storage.read(directory.path(path), 100).decode() for path in list_data_files(directory))


def clear(directory):
    return vacuum.vacuum(directory, older_than=-1e10)


def test_a_job_that_commits_before_it_is_expired_keeps_its_files(directory, monkeypatch):
    job = begin(directory, "a")

    def fence_late(*arguments):
        commit(job, collects=False)
        return fence(*arguments)

    monkeypatch.setattr(vacuum, "fence", fence_late)
    clear(directory)
    assert ["a"] == texts(directory)


def test_a_job_that_was_expired_and_forgotten_is_refused(directory, monkeypatch):
    monkeypatch.setattr("spark_arrow_ipc.table.state.REMEMBERED", 4)
    job = begin(directory, "a")
    fence(directory, job.table, [job.job])
    for text in "bcdef":
        commit(begin(directory, text))
    with pytest.raises(CommitError, match="no longer tells whether it was expired; nothing is published"):
        commit(job)
    assert [*"bcdef"] == texts(directory)


def test_two_jobs_do_not_replace_one_file_of_another_program(directory):
    """The first has removed it by its entry, and the file is there yet."""
    directory.storage.put(directory.path("other.arrow"), b"old")
    removed = removal_of(directory, "other.arrow", Snapshot.open(directory).unmanaged["other.arrow"])
    first, second = begin(directory, "a"), begin(directory, "b")
    first.commit(lambda _: Entry(0, "", OVERWRITE, remove=(removed,)))
    with pytest.raises(ConcurrentWriteError, match=r"\(other\.arrow\)"):
        second.commit(lambda _: Entry(0, "", OVERWRITE, remove=(removed,)))
    assert ["a"] == texts(directory)


def test_a_tombstone_stays_open_while_the_file_is_there(directory, monkeypatch):
    directory.storage.put(directory.path("other.arrow"), b"old")
    commit(begin(directory, "a"), OVERWRITE, collects=False)
    with monkeypatch.context() as patch:
        patch.setattr(vacuum, "collect", lambda *_: None)
        clear(directory)
    assert ["a"] == texts(directory)
    clear(directory)
    assert ["a"] == texts(directory) == listed(directory)


def test_staged_files_go_before_named_ones(directory):
    """A copy whose request comes late, when the first of both are deleted, finds no staged file."""
    job = begin(directory, "a")
    (path,) = job._added.paths
    staged = join(directory.staging(job.job), "0.staged")
    directory.storage.put(staged, b"a")
    directory.storage.delete(directory.path(path))

    def copy():
        with suppress(OSError):
            directory.storage.publish(staged, directory.path(path))

    with at("collected.files", copy) as passed:
        clear(directory)
    assert passed
    assert [] == listed(directory) == left(directory)


def test_a_deletion_that_is_not_carried_out_is_asked_for_again(directory, monkeypatch):
    begin(directory, "a")
    real, errors = type(directory.storage).delete_all, []

    def lose(storage, paths):
        if len(errors) < 2:  # one of staged files, and one of named ones
            errors.append(paths)
            raise OSError(5, "no reply")
        return real(storage, paths)

    monkeypatch.setattr(type(directory.storage), "delete_all", lose)
    clear(directory)
    assert errors
    assert [] == listed(directory) == left(directory)
