"""Transactions over disks and storages that copy: what each outcome leaves, and what other programs see."""

import pickle

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
import table_machine
from table_jobs import at

from spark_arrow_ipc.errors import CommitError, ConcurrentWriteError, NoFilesError
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.paths import join
from spark_arrow_ipc.table import log
from spark_arrow_ipc.table.collect import fence
from spark_arrow_ipc.table.entry import Entry, Operation, Removed
from spark_arrow_ipc.table.files import NO_FILES, StagedFile
from spark_arrow_ipc.table.log_listing import list_log
from spark_arrow_ipc.table.names import TableDirectory, data_file_name
from spark_arrow_ipc.table.restore import restore
from spark_arrow_ipc.table.snapshot import Snapshot, list_data_files, removal_of
from spark_arrow_ipc.table.transaction import NEXT, Phase, Transaction, UnknownOutcomeError
from spark_arrow_ipc.table.vacuum import vacuum


def staged(transaction, *texts, at="k=1"):
    """Stage a file for each text."""
    files = []
    for number, text in enumerate(texts):
        data = text if isinstance(text, bytes) else text.encode()
        transaction.directory.storage.put(
            join(transaction.directory.staging(transaction.job), f"{number}.staged"), data
        )
        name = data_file_name(number, transaction.table, transaction.job)
        files.append(StagedFile(f"{number}.staged", at, name, len(data), len(data), 0))
    return files


def save(directory, *texts, operation=Operation.APPEND, at="k=1", **fields):
    snapshot = Snapshot.open(directory)
    transaction = Transaction.begin(directory, base=snapshot.state)
    if operation is Operation.OVERWRITE:
        fields["remove"] = removes(snapshot)
    transaction.name_files(staged(transaction, *texts, at=at))
    transaction.commit(lambda _: Entry(0, "", operation, **fields))
    transaction.collect()
    return transaction


def removes(snapshot):
    files = NO_FILES if snapshot.state is None else snapshot.state.files
    managed = zip(files.paths, files.nbytes.tolist(), strict=True)
    unmanaged = (removal_of(snapshot.directory, path, status) for path, status in snapshot.unmanaged.items())
    return (*(Removed(path, nbytes) for path, nbytes in managed), *unmanaged)


def texts(directory):
    """The contents of the files of the newest snapshot."""
    snapshot = Snapshot.open(directory)
    paths = [*snapshot.state.files.paths, *snapshot.unmanaged]
    return sorted(directory.storage.read(directory.path(path), 1 << 20).decode() for path in paths)


def everything(directory):
    """All paths below the table but those of the log."""
    found, level = [], [directory.root]
    while level:
        path = level.pop()
        for status in directory.storage.list(path):
            if status.path == directory.log:
                continue
            (level if status.kind.name == "DIRECTORY" else found).append(status.path)
    return sorted(path.removeprefix(directory.root + "/") for path in found)


def test_jobs_add_and_replace_files_and_leave_nothing_else(directory):
    save(directory, "a", "b")
    save(directory, "c", at="")
    assert ["a", "b", "c"] == texts(directory)
    directory.storage.put(directory.path("k=1/other.arrow"), b"d")
    assert ["a", "b", "c", "d"] == texts(directory)
    save(directory, "e", operation=Operation.OVERWRITE)
    assert ["e"] == texts(directory)
    assert 1 == len(everything(directory))


def test_a_file_that_is_dropped_again_counts(directory):
    directory.storage.put(directory.path("other.arrow"), b"old")
    save(directory, "new", operation=Operation.OVERWRITE)
    directory.storage.put(directory.path("other.arrow"), b"newer")
    assert ["new", "newer"] == texts(directory)
    vacuum(directory, older_than=0)
    assert ["new", "newer"] == texts(directory)


def test_removed_files_are_retained_under_the_number_of_their_entry(directory):
    first = save(directory, "old")
    second = save(directory, "new", operation=Operation.OVERWRITE, retain=True)
    number = log.read_state(directory).number
    (path,) = first._added.paths
    assert b"old" == directory.storage.read(directory.replaced(number, path), 100)
    assert ["new"] == texts(directory)
    assert 2 == number
    assert second.phase is Phase.COLLECTED


def test_of_two_jobs_with_one_token_one_commits(directory):
    first, second = Transaction.begin(directory), Transaction.begin(directory)
    for transaction, text in ((first, "a"), (second, "b")):
        transaction.name_files(staged(transaction, text))
    first.commit(lambda _: Entry(0, "", Operation.APPEND, token="t"))
    after = second.commit(lambda _: Entry(0, "", Operation.APPEND, token="t"))
    assert "t" in after.tokens
    assert second.phase is Phase.NAMED
    assert second.abort()
    assert ["a"] == texts(directory)


def test_a_job_whose_files_others_replaced_is_refused_and_can_be_aborted(directory):
    save(directory, "a")
    job = Transaction.begin(directory)
    gone = removes(Snapshot.open(directory))
    save(directory, "b", operation=Operation.OVERWRITE)
    job.name_files(staged(job, "c"))
    with pytest.raises(
        ConcurrentWriteError, match=r"changed files that this job replaces \(k=1/part-.*; nothing is published"
    ):
        job.commit(lambda _: Entry(0, "", Operation.OVERWRITE, remove=gone))
    assert job.abort()
    assert ["b"] == texts(directory)
    assert 1 == len(everything(directory))


@pytest.mark.parametrize("what", ["replaced", "deleted"])
def test_a_file_of_another_program_is_looked_at_again_before_the_commit(directory, what):
    save(directory, "a")
    path = directory.path("other.arrow")
    directory.storage.put(path, b"old")
    job = Transaction.begin(directory)
    gone = removes(Snapshot.open(directory))
    if what == "deleted":
        directory.storage.delete(path)
    else:
        directory.storage.put(path, b"newer")
    job.name_files(staged(job, "c"))
    with pytest.raises(ConcurrentWriteError, match=r"\(other\.arrow\)"):
        job.commit(lambda _: Entry(0, "", Operation.OVERWRITE, remove=gone))
    assert job.abort()
    assert ["a", *(["newer"] if what == "replaced" else [])] == texts(directory)


def test_what_a_dead_job_left_is_deleted_by_the_next_vacuum(directory):
    save(directory, "a")
    early, late = Transaction.begin(directory), Transaction.begin(directory)
    staged(early, "b")
    late.name_files(staged(late, "c"))
    assert ["a"] == texts(directory), "files of jobs that have not committed count for nobody"
    report = vacuum(directory, older_than=3600)
    assert {early.job, late.job} == set(report.young) or not isinstance(directory.storage, type(LOCAL))
    report = vacuum(directory, older_than=-1e10)
    assert {early.job, late.job} == set(report.swept) or not isinstance(directory.storage, type(LOCAL))
    assert 1 == len(everything(directory))
    with pytest.raises(CommitError, match="the job was expired"):
        late.commit(lambda _: Entry(0, "", Operation.APPEND))


def test_a_job_that_vacuum_expired_is_refused_before_its_files_get_names(directory):
    job = Transaction.begin(directory)
    fence(directory, job.table, [job.job])
    with pytest.raises(CommitError, match=r"the job was expired, .*nothing is published, run it again"):
        job.name_files(staged(job, "a"))
    assert job.abort()
    assert [] == everything(directory)


def test_a_job_that_vacuum_expires_while_its_files_get_names_is_told_so(directory):
    job = Transaction.begin(directory)
    files = staged(job, "a", "b")
    with at("named.file", lambda: vacuum(directory, older_than=-1e10)), pytest.raises(CommitError, match="was expired"):
        job.name_files(files)
    assert job.abort()
    assert [] == everything(directory)


@pytest.mark.parametrize("how", ["committed", "aborted"])
def test_a_copy_that_comes_after_its_job_has_ended_is_deleted(directory, how):
    """The file was removed and its tombstone is closed, or its job is expired: nothing else would ever delete it."""
    job = save(directory, "a") if how == "committed" else Transaction.begin(directory)
    if how == "aborted":
        files = [file.path for file in staged(job, "a")]
        fence(directory, job.table, [job.job])
        job.abort()
    else:
        files = job._added.paths
    save(directory, "b", operation=Operation.OVERWRITE)
    vacuum(directory, older_than=-1e10)
    directory.storage.make_directory(directory.path("k=1"))
    directory.storage.put(directory.path(files[0]), b"a")
    assert ["b"] == texts(directory)
    assert (job.job,) == vacuum(directory, older_than=-1e10).swept
    assert 1 == len(everything(directory))


def test_a_file_of_a_job_that_nobody_knows_is_named_and_stays(directory):
    table = save(directory, "a").table
    name = data_file_name(0, table, "f" * 32)
    directory.storage.put(directory.path(name), b"copied")
    assert (name,) == vacuum(directory, older_than=-1e10).unknown
    assert ["a"] == texts(directory)
    assert directory.storage.status(directory.path(name)) is not None


@pytest.mark.parametrize("what", ["missing", "of another size"])
def test_a_file_that_the_log_counts_and_that_is_not_there_is_an_error(directory, what):
    job = save(directory, "abc")
    (path,) = job._added.paths
    if what == "missing":
        directory.storage.delete(directory.path(path))
    else:
        directory.storage.put(directory.path(path), b"torn")
    with pytest.raises(
        CommitError, match=f"entry 1 of the log added this file of 3 bytes, and it is .*{what[:2]}.*fsck"
    ):
        Snapshot.open(directory)


def test_a_table_that_is_removed_while_a_job_runs_is_no_table_of_its(directory):
    job = Transaction.begin(directory)
    files = staged(job, "a")
    for status in list(directory.storage.list(directory.log)):
        if status.path == directory.id_file:
            directory.storage.delete(status.path)
    with pytest.raises(CommitError, match="the table was removed while this job ran"):
        job.name_files(files)


def test_a_lost_reply_is_answered_by_the_log(directory, monkeypatch):
    job = Transaction.begin(directory)
    job.name_files(staged(job, "a"))
    real = log.append

    def lossy(*arguments):
        real(*arguments)
        raise OSError(5, "no reply")

    monkeypatch.setattr("spark_arrow_ipc.table.transaction.append", lossy)
    job.commit(lambda _: Entry(0, "", Operation.APPEND))
    assert job.phase is Phase.COMMITTED
    assert 1 == log.read_state(directory).number, "it is put once"


@pytest.mark.parametrize(
    "number", [28, 122, 5], ids=["no space left on the device", "no quota left", "an error of the device"]
)
def test_a_storage_that_takes_no_entry_is_asked_three_times(directory, monkeypatch, number):
    """A disk is certain that nothing is published; a request to a store may still be carried out."""
    job = Transaction.begin(directory)
    job.name_files(staged(job, "a"))
    requests = []

    def refuse(where, state, entry):
        requests.append(entry.number)
        raise OSError(number, "refused")

    expected = (CommitError, "cannot be put .*refused.*; nothing is published")
    if directory.storage.traits.may_come_late:
        expected = (UnknownOutcomeError, "does not confirm the log entry .*refused.* may still come")
    with monkeypatch.context() as patch:
        patch.setattr("spark_arrow_ipc.table.transaction.append", refuse)
        with pytest.raises(expected[0], match=expected[1]) as raised:
            job.commit(lambda _: Entry(0, "", Operation.APPEND))
    assert type(raised.value) is expected[0]
    assert [1] * 3 == requests
    assert job.abort()
    assert [] == texts(directory) == everything(directory)


@pytest.mark.parametrize("phase", [Phase.PLANNED, Phase.NAMED, Phase.COMMITTED])
def test_another_process_aborts_a_job_unless_it_is_committed(directory, phase):
    """Spark commits in one process and aborts in another, which knows the table, the base and the job."""
    save(directory, "a")
    job = Transaction.begin(directory)
    files = staged(job, "b")
    if phase is not Phase.PLANNED:
        job.name_files(files)
    if phase is Phase.COMMITTED:
        job.commit(lambda _: Entry(0, "", Operation.APPEND))
    other = pickle.loads(pickle.dumps((job.table, job.base, job.job)))
    assert Transaction(directory, *other).abort(may_be_committed=True) is (phase is not Phase.COMMITTED)
    assert (["a", "b"] if phase is Phase.COMMITTED else ["a"]) == texts(directory)
    if phase is Phase.NAMED:
        with pytest.raises(CommitError, match="the job was expired"):
            job.commit(lambda _: Entry(0, "", Operation.APPEND))


def test_an_entry_in_a_hole_is_left_and_the_job_takes_the_next_number(directory, monkeypatch):
    """The job pauses before its first put, and others pass and prune the number meanwhile."""
    monkeypatch.setattr(log, "LEAST_RETAINED", 0)
    monkeypatch.setattr(log, "DEFAULT_RETENTION", -(10**6))
    save(directory, "a")
    job = Transaction.begin(directory)
    job.name_files(staged(job, "b"))
    numbers = []

    def append(where, state, entry):
        numbers.append(entry.number)
        if len(numbers) == 1:
            for text in "cdef":
                save(directory, text)
                log.write_checkpoint(directory, log.read_state(directory))
            log.prune(directory, log.read_state(directory))
        return log.append(where, state, entry)

    monkeypatch.setattr("spark_arrow_ipc.table.transaction.append", append)
    job.commit(lambda _: Entry(0, "", Operation.APPEND))
    assert [2, 6] == [numbers[0], numbers[-1]]
    assert 2 in list_log(directory, job.table).entries, "it is left"
    assert [*"abcdef"] == texts(directory)


def test_a_job_follows_the_log_of_a_backup_that_was_put_back_while_it_ran(directory):
    save(directory, "a")
    before = log.read_state(directory)
    save(directory, "b")
    job = Transaction.begin(directory)
    job.name_files(staged(job, "c"))
    directory.storage.delete(directory.entry(job.table, 2))
    other = log.follow(before, Entry(0, "", Operation.APPEND, job="0" * 32))
    assert log.append(directory, before, other)
    job.commit(lambda _: Entry(0, "", Operation.APPEND))
    assert other.id == log.read_entry(directory, job.table, 3).previous
    assert ["a", "c"] == texts(directory)


def test_below_the_horizon_the_outcome_is_unknown_and_said_so(directory, monkeypatch):
    job = Transaction.begin(directory)
    job.name_files(staged(job, "b"))
    job._asked = 1
    monkeypatch.setattr("spark_arrow_ipc.table.state.REMEMBERED", 2)
    for text in "cdef":
        save(directory, text)
    with pytest.raises(UnknownOutcomeError, match="no longer tells whether this job is committed; look for its rows"):
        job.commit(lambda _: Entry(0, "", Operation.APPEND))


def test_phases_follow_each_other():
    assert set(Phase) == set(NEXT)
    assert all(Phase.PLANNED not in after for after in NEXT.values())


def test_programs_that_list_see_the_rows_at_rest(tmp_path):
    directory = TableDirectory(LOCAL, str(tmp_path))

    def file(*values):
        sink = pa.BufferOutputStream()
        table = pa.table({"id": list(values)})
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        return sink.getvalue().to_pybytes()

    save(directory, file(1, 2), file(3))
    save(directory, file(4), operation=Operation.OVERWRITE)
    save(directory, file(5))
    rows = ds.dataset(tmp_path, format="ipc", partitioning="hive").to_table()
    assert [4, 5] == sorted(rows["id"].to_pylist())
    assert {"k=1"} == {path.partition("/")[0] for path in list_data_files(directory)}
    assert not (tmp_path / "_ipc_stage").exists()


@pytest.mark.parametrize("kind", ["disk", "store"])
@pytest.mark.parametrize("scene", ["mixed", "hot"])
def test_random_schedules_violate_nothing(kind, scene):
    """Some; `tests/programs/table_machine.py` tries many."""
    for seed in range(4):
        assert table_machine.run(kind, scene, seed)[1] is None


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["disk", "store"])
@pytest.mark.parametrize("scene", table_machine.SCENES)
def test_many_random_schedules_violate_nothing(kind, scene):
    violations = {seed: table_machine.run(kind, scene, seed)[1] for seed in range(100, 200)}
    assert {} == {seed: text for seed, text in violations.items() if text}


BETWEEN = {
    "the log was read before the overwrite": False,
    "the listing is older than the overwrite, and its tombstones are closed": True,
}


@pytest.mark.parametrize("is_listed_before", BETWEEN.values(), ids=BETWEEN)
def test_an_overwrite_while_a_snapshot_is_read_is_seen_completely(directory, monkeypatch, is_listed_before):
    """Log, listing, log: the rows of a file of another program are neither missing nor back."""
    save(directory, "a")
    directory.storage.put(directory.path("other.arrow"), b"old")
    calls = []

    def list_between(where, **_):
        calls.append(None)
        if len(calls) > 1:
            return list_data_files(where)
        listing = list_data_files(where)
        with monkeypatch.context() as patch:
            patch.setattr("spark_arrow_ipc.table.snapshot.list_data_files", list_data_files)
            save(directory, "b", operation=Operation.OVERWRITE)
            vacuum(directory, older_than=-1e10)
        return listing if is_listed_before else list_data_files(where)

    monkeypatch.setattr("spark_arrow_ipc.table.snapshot.list_data_files", list_between)
    snapshot = Snapshot.open(directory)
    assert [] == list(snapshot.unmanaged)
    assert 1 == len(snapshot.state.files)
    assert 1 == len(calls)
    assert b"b" == directory.storage.read(directory.path(snapshot.state.files.paths[0]), 10)


def test_an_abort_expires_a_job_whose_put_may_still_come(directory, monkeypatch):
    """The put has no reply and is carried out after the job met a conflict and was aborted."""
    save(directory, "a")
    path = directory.path("other.arrow")
    directory.storage.put(path, b"old")
    job = Transaction.begin(directory)
    gone = removes(Snapshot.open(directory))
    job.name_files(staged(job, "b"))
    late = []

    def append(where, state, entry):
        late.append((where.entry(state.table, entry.number), entry.to_bytes()))
        directory.storage.put(path, b"newer")
        raise OSError(5, "no reply")

    with monkeypatch.context() as patch:
        patch.setattr("spark_arrow_ipc.table.transaction.append", append)
        with pytest.raises(ConcurrentWriteError, match=r"\(other\.arrow\)"):
            job.commit(lambda _: Entry(0, "", Operation.OVERWRITE, remove=gone))
    if directory.storage.traits.may_come_late:  # before the error says that nothing is published
        assert job.job in log.read_state(directory).ended
    assert job.abort()
    assert [False] == [directory.storage.put_if_absent(*request) for request in late], "its number is taken"
    assert ["a", "newer"] == texts(directory)


@pytest.mark.parametrize("retain", [True, False])
def test_an_older_entry_is_restored_from_what_is_retained(directory, retain):
    save(directory, "a", "b", token="one")
    save(directory, "c", token="two")
    save(directory, "d", operation=Operation.OVERWRITE, retain=retain)
    if not retain:
        with pytest.raises(
            NoFilesError, match=r"this file was removed and is not retained, and without it nothing is restored"
        ):
            restore(directory, 2)
        assert ["d"] == texts(directory)
        assert 1 == len(everything(directory))
        return
    after = restore(directory, 2)
    assert ["a", "b", "c"] == texts(directory)
    assert {"one", "two"} == set(after.tokens)
    assert {"one"} == set(restore(directory, 1).tokens), "the rows of the later job are gone: it may run again"
    assert ["a", "b"] == texts(directory)
    assert {"one", "two"} == set(restore(directory, 2).tokens), "its rows are back, and would be doubled"
    restore(directory, 3)
    assert ["d"] == texts(directory)
    names = [path for path in everything(directory) if not path.startswith("_")]
    assert 1 == len(names)


@pytest.mark.parametrize("answers", [True, False], ids=["the log answers", "the log does not answer"])
def test_a_put_that_is_carried_out_after_a_conflict_is_a_commit_or_unknown(directory, monkeypatch, answers):
    """A disk has carried it out, or has not, when the call returns."""
    save(directory, "a")
    job = Transaction.begin(directory)
    job.name_files(staged(job, "b"))
    late, conflicts = [], []

    def append(where, state, entry):
        late.append((where.entry(state.table, entry.number), entry.to_bytes()))
        raise OSError(5, "no reply")

    def change(_):
        if late:
            conflicts.append(1)
            raise ConcurrentWriteError("another program was faster; nothing is published")
        return Entry(0, "", Operation.APPEND)

    def fence_late(*arguments):
        if not answers:
            raise OSError(5, "no reply")
        assert directory.storage.put_if_absent(*late[0])
        return fence(*arguments)

    monkeypatch.setattr("spark_arrow_ipc.table.transaction.append", append)
    monkeypatch.setattr("spark_arrow_ipc.table.transaction.fence", fence_late)
    if not directory.storage.traits.may_come_late:
        with pytest.raises(ConcurrentWriteError, match="nothing is published"):
            job.commit(change)
    elif answers:
        job.commit(change)
        assert (Phase.COMMITTED, ["a", "b"]) == (job.phase, texts(directory))
    else:
        with pytest.raises(UnknownOutcomeError, match="entry of the job may still come"):
            job.commit(change)
    assert [1] == conflicts
