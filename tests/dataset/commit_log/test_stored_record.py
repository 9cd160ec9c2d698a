"""A record and the copy in its mark."""

from pathlib import Path

import pytest
from commit_jobs import APPEND, dataset, save

from spark_arrow_ipc.dataset.commit_log import stored_record
from spark_arrow_ipc.dataset.commit_log.stored_record import read_record
from spark_arrow_ipc.errors import CommitError


def test_a_record_of_another_number_or_too_large_is_refused(tmp_path, monkeypatch):
    save(tmp_path, APPEND, "old")
    Path(dataset(tmp_path).record(1)).rename(dataset(tmp_path).record(2))
    with pytest.raises(CommitError, match="record number 2, found number 1"):
        read_record(dataset(tmp_path), 2)
    monkeypatch.setattr(stored_record, "MAX_RECORD_NBYTES", 10)
    with pytest.raises(CommitError, match="at most 10 bytes"):
        read_record(dataset(tmp_path), 2)
