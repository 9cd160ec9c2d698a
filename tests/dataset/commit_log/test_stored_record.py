"""A record and the copy in its mark."""

from pathlib import Path

import pytest
from commit_jobs import APPEND, dataset, save

from spark_arrow_ipc.dataset.commit_log import stored_record
from spark_arrow_ipc.dataset.commit_log.stored_record import read_kept, read_record, record_path
from spark_arrow_ipc.errors import CommitError


def test_a_record_of_another_number_or_too_large_is_refused(tmp_path, monkeypatch):
    save(tmp_path, APPEND, "old")
    Path(dataset(tmp_path).record(1)).rename(dataset(tmp_path).record(2))
    with pytest.raises(CommitError, match="record number 2, found number 1"):
        read_record(dataset(tmp_path), 2)
    monkeypatch.setattr(stored_record, "MAX_RECORD_NBYTES", 10)
    with pytest.raises(CommitError, match="at most 10 bytes"):
        read_record(dataset(tmp_path), 2)


@pytest.fixture
def lake(tmp_path):
    save(tmp_path, APPEND, "a", commit_retention=60)
    save(tmp_path, APPEND, "b")
    return dataset(tmp_path)


def test_records_are_read_by_number(lake):
    assert [None, 1, 2, None] == [record and record.seq for record in (read_kept(lake, seq) for seq in range(4))]


DAMAGE = {
    "another number": (lambda path, other: path.write_bytes(other.read_bytes()), "kept record number 2"),
    "cut": (lambda path, other: path.write_bytes(path.read_bytes()[:-3]), "CRC-32"),
    "empty": (lambda path, other: path.write_bytes(b""), "CRC-32"),
    "a link": (lambda path, other: (path.unlink(), path.symlink_to(other)), "not a kept record"),
    "a directory": (lambda path, other: (path.unlink(), path.mkdir()), "not a kept record"),
}


@pytest.mark.parametrize(("damage", "words"), DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_record_is_an_error_with_its_path(lake, damage, words):
    path = Path(record_path(lake, 2))
    damage(path, Path(record_path(lake, 1)))
    with pytest.raises(CommitError, match=words) as caught:
        read_kept(lake, 2)
    assert str(path) == caught.value.path
