"""Records are kept for streams where a job asked for it: without gaps, for a time, and at no cost to others."""

import os
from pathlib import Path

import pytest
from commit_jobs import APPEND, OVERWRITE, dataset, dying, finish, interrupted, planned, save

from spark_arrow_ipc.dataset.commit_log import stored_record
from spark_arrow_ipc.dataset.commit_log.log import newest_record, read_head
from spark_arrow_ipc.dataset.commit_log.record import WITHDRAWN
from spark_arrow_ipc.dataset.commit_log.stored_record import log_directory, read_kept, read_retention, record_path
from spark_arrow_ipc.dataset.write.commit import abort
from spark_arrow_ipc.dataset.write.vacuum import vacuum
from spark_arrow_ipc.storage import failpoint

pytestmark = pytest.mark.usefixtures("publishing")

HOUR = 3600


def kept(path):
    """The mode of each kept record by its number."""
    found = dataset(path)
    numbers = sorted(int(name.stem) for name in Path(log_directory(found)).glob("*.json"))
    return {number: read_kept(found, number).mode for number in numbers}


@pytest.mark.slow
def test_nothing_is_kept_unless_a_job_asks_for_it(tmp_path):
    save(tmp_path, APPEND, "a")
    assert not Path(log_directory(dataset(tmp_path))).exists()
    assert (None, False) == (read_kept(dataset(tmp_path), 1), read_head(dataset(tmp_path)).keeps)
    save(tmp_path, APPEND, "b", commit_retention=HOUR)
    save(tmp_path, OVERWRITE, "c")
    abort(planned(tmp_path, APPEND, "d")[0].staging)
    assert {2: "append", 3: "overwrite", 4: WITHDRAWN} == kept(tmp_path)
    assert (HOUR, True) == (read_retention(dataset(tmp_path)), read_head(dataset(tmp_path)).keeps)


def test_of_two_withdrawals_of_a_job_the_one_in_the_chain_is_kept(tmp_path, caplog):
    save(tmp_path, APPEND, "a", commit_retention=HOUR)
    plan, _ = planned(tmp_path, APPEND, "b")
    with interrupted("A.looked", lambda: vacuum(tmp_path, older_than_seconds=0)):
        assert abort(plan.staging)
    assert newest_record(dataset(tmp_path))[1].jobid == read_kept(dataset(tmp_path), 2).jobid
    assert "" == caplog.text


def test_a_kept_record_has_what_it_did_and_not_what_others_did_before(tmp_path):
    for text in "abc":
        save(tmp_path, APPEND, text, commit_retention=HOUR, commit_token=f"token {text}")
    record, chain = read_kept(dataset(tmp_path), 3), newest_record(dataset(tmp_path))[1]
    assert chain.adds == record.adds
    assert ((chain.jobid,), ("token c",)) == (record.jobs, record.tokens)
    assert 3 == len(chain.jobs) == len(chain.tokens)


@pytest.mark.slow
@pytest.mark.parametrize("point", ["C3.linked", "C4.synced", "C6.success", "C6.kept", "C6.done", "C6.pruned"])
def test_a_record_is_kept_before_the_next_one_can_follow(tmp_path, point):
    save(tmp_path, APPEND, "a", commit_retention=HOUR)
    with dying(point):
        save(tmp_path, APPEND, "b")
    is_kept = point in ("C6.kept", "C6.done", "C6.pruned")
    assert ({1: "append", 2: "append"} if is_kept else {1: "append"}) == kept(tmp_path)
    save(tmp_path, APPEND, "c")
    assert dict.fromkeys((1, 2, 3), "append") == kept(tmp_path)


def test_a_record_that_cannot_be_kept_is_not_done(tmp_path, monkeypatch):
    save(tmp_path, APPEND, "a", commit_retention=HOUR)
    plan, outputs = planned(tmp_path, APPEND, "b")
    monkeypatch.setattr(failpoint, "hit", failpoint.Failpoint("C6.success", "raise", 1).hit)
    finish(plan, outputs)  # the second attempt keeps it
    assert {1: "append", 2: "append"} == kept(tmp_path)


def old(path, *numbers):
    for number in numbers:
        os.utime(record_path(dataset(path), number), (1, 1))


RULES = [
    # seconds, records kept for their number, their bytes at most; of six records of which four are old, and then of
    # seven, the first that is left
    ("the time", HOUR, 0, 1 << 20, 5, 5),
    ("the number", HOUR, 3, 1 << 20, 4, 5),
    ("the number, and too large", HOUR, 6, 1, 5, 5),
    ("a longer time", 10**10, 0, 1 << 20, 1, 1),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seconds", "least", "nbytes", "of_six", "of_seven"), [rule[1:] for rule in RULES], ids=[rule[0] for rule in RULES]
)
@pytest.mark.parametrize("by", ["vacuum", "a commit"])
def test_old_records_go(tmp_path, monkeypatch, by, seconds, least, nbytes, of_six, of_seven):
    monkeypatch.setattr(stored_record, "LEAST_KEPT", least)
    monkeypatch.setattr(stored_record, "_LEAST_KEPT_NBYTES", nbytes)
    for number in range(1, 7):
        save(tmp_path, APPEND, f"text {number}", commit_retention=seconds)
    old(tmp_path, 1, 2, 3, 4)
    if by == "vacuum":
        report = vacuum(str(tmp_path))
        assert [*range(1, of_six)] == [int(Path(path).stem) for path in reversed(report.files)]
        assert () == vacuum(str(tmp_path)).files
        assert [*range(of_six, 7)] == list(kept(tmp_path))
    else:
        monkeypatch.setattr(stored_record, "_PRUNED_EVERY", 7)
        save(tmp_path, APPEND, "text 7")
        assert [*range(of_seven, 8)] == list(kept(tmp_path))


def test_what_dies_in_the_directory_of_kept_records_is_cleared(tmp_path):
    save(tmp_path, APPEND, "a", commit_retention=HOUR)
    left = Path(log_directory(dataset(tmp_path))) / "x.staged"
    left.write_text("half")
    assert () == vacuum(str(tmp_path)).files
    assert (str(left),) == vacuum(str(tmp_path), older_than_seconds=0).files
    assert {1: "append"} == kept(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("content", [b"", b"[]", b'{"seconds": -1}', b'{"seconds": "7d"}', b"{" * 900, b"x" * 5000])
def test_a_setting_that_nobody_can_read_counts_as_the_default(tmp_path, content):
    save(tmp_path, APPEND, "a", commit_retention=HOUR)
    (Path(log_directory(dataset(tmp_path))) / "retention").write_bytes(content)
    assert read_retention(dataset(tmp_path)) is None
    assert () == vacuum(str(tmp_path)).files
    save(tmp_path, APPEND, "b")
    assert [1, 2] == list(kept(tmp_path))
    save(tmp_path, APPEND, "c", commit_retention=2 * HOUR)
    assert 2 * HOUR == read_retention(dataset(tmp_path))
