"""The records of a dataset are read once, from where they are."""

from pathlib import Path

import pytest
from commit_jobs import APPEND, DYNAMIC, OVERWRITE, dataset, dying, finish, planned, save

from spark_arrow_ipc.dataset.commit_log.stored_record import record_path
from spark_arrow_ipc.dataset.stream import table_records
from spark_arrow_ipc.dataset.stream.table_records import TableRecords, keeps_records
from spark_arrow_ipc.dataset.write.vacuum import give_up
from spark_arrow_ipc.errors import CommitError


def commit(path, *texts, mode=APPEND):
    save(path, mode, *texts, commit_retention=3600, durable=False)


def seen(path, after=0):
    """The number of files, of removed ones, and whether it takes back another, of each record; or the missing one."""
    records = TableRecords(dataset(path))
    head = records.head().seq
    found = records.between(after, head, head)
    if isinstance(found, int):
        return found
    return [(record.seq, len(record.adds), len(record.removes), record.takes_back) for record in found]


def test_what_a_record_did(tmp_path):
    commit(tmp_path)  # an empty file
    commit(tmp_path, "k=1:a", "k=2:b")
    commit(tmp_path, "k=2:c", mode=DYNAMIC)
    commit(tmp_path, "k=2:d", "k=2:e", mode=OVERWRITE)
    assert [(2, 2, 0, False), (3, 1, 1, False), (4, 2, 3, False)] == seen(tmp_path, 1)
    assert keeps_records(dataset(tmp_path))


def test_a_pending_record_is_there_and_one_that_is_taken_back_has_no_files(tmp_path):
    commit(tmp_path, "a")
    plan, outputs = planned(tmp_path, APPEND, "b", commit_retention=3600)
    with dying("C4.renamed"):
        finish(plan, outputs)
    assert [(2, 1, 0, False)] == seen(tmp_path, 1)
    give_up(str(tmp_path), plan.staging.jobid)
    assert [(2, 0, 0, False), (3, 0, 0, True)] == seen(tmp_path, 1)


def test_a_record_that_is_gone_is_named(tmp_path):
    for text in "abcd":
        commit(tmp_path, text)
    assert 1 == TableRecords(dataset(tmp_path)).oldest()
    for number in (1, 2):
        Path(record_path(dataset(tmp_path), number)).unlink()
        Path(dataset(tmp_path).record(number)).unlink()
    assert 1 == seen(tmp_path)
    assert 2 == seen(tmp_path, 1)
    assert [3, 4] == [record[0] for record in seen(tmp_path, 2)]
    assert 3 == TableRecords(dataset(tmp_path)).oldest()


def test_a_record_in_a_hole_of_the_chain_is_none(tmp_path):
    """A writer that stood still puts its record where the true one was pruned; no job remembers it."""
    path, other = tmp_path / "path", tmp_path / "other"
    for text in "abc":
        commit(path, text)
    commit(other, "x")
    Path(record_path(dataset(path), 1)).unlink()
    Path(dataset(path).record(1)).write_bytes(Path(dataset(other).record(1)).read_bytes())
    assert 1 == seen(path)


@pytest.mark.parametrize(
    ("number", "is_told"), [(5, False), (3, False), (2, True)], ids=["head", "in the chain", "pruned from the chain"]
)
def test_a_kept_record_of_another_chain_is_known(tmp_path, number, is_told):
    """A process kept it late: it had stood still while the directory was removed and made anew."""
    path, other = tmp_path / "path", tmp_path / "other"
    for text in "abcde":
        commit(path, text)
        commit(other, text, "x")
    Path(record_path(dataset(path), number)).write_bytes(Path(record_path(dataset(other), number)).read_bytes())
    if is_told:
        Path(dataset(path).record(number)).unlink()
        with pytest.raises(CommitError, match=r"record \d does not follow record \d: .*new checkpoint"):
            seen(path)
    else:
        assert [(seq, 1, 0, False) for seq in range(1, 6)] == seen(path)


def test_each_record_is_read_once_until_it_is_forgotten(tmp_path, monkeypatch):
    for text in "abc":
        commit(tmp_path, text)
    read = []
    for name in ("read_kept", "settled"):
        monkeypatch.setattr(table_records, name, counted(getattr(table_records, name), read))
    records = TableRecords(dataset(tmp_path))
    for _ in range(2):
        records.between(0, 3, 3)
        assert records.jobid(2) is not None
    assert [1, 2, 3] == sorted(read)
    read.clear()
    records.forget(3)
    records.between(1, 2, 3)
    assert [2] == read


def counted(call, read):
    def wrapper(found, seq, **options):
        read.append(seq)
        return call(found, seq, **options)

    return wrapper


@pytest.mark.parametrize("asks", [False, True])
def test_a_dataset_keeps_records_if_a_job_asked_for_it(tmp_path, asks):
    save(tmp_path, APPEND, "a", commit_retention=60 if asks else None)
    assert asks == keeps_records(dataset(tmp_path))
    assert not keeps_records(dataset(tmp_path / "nothing"))
