"""The failure table: a crash at each step, and what readers and the next job then find. Rows 14 and 15: test_commit_modes."""

import errno
import os
import pickle
from pathlib import Path
from unittest import mock

import pytest
from commit_jobs import (
    APPEND,
    DYNAMIC,
    OVERWRITE,
    REWRITE,
    Died,
    dataset,
    dying,
    failing,
    failing_always,
    finish,
    foreign,
    interrupted,
    leftovers,
    ours,
    planned,
    save,
    stage,
)
from copying_storage import CopyingStorage, local_paths_are_copied
from job_plans import plan_job

from spark_arrow_ipc.arrow import RecordBatch, Schema, types
from spark_arrow_ipc.arrow.types import field
from spark_arrow_ipc.dataset.commit_log import log
from spark_arrow_ipc.dataset.commit_log.log import read_head, read_state
from spark_arrow_ipc.dataset.write import WriteMode
from spark_arrow_ipc.dataset.write.commit import abort
from spark_arrow_ipc.dataset.write.task import write_task
from spark_arrow_ipc.dataset.write.vacuum import vacuum
from spark_arrow_ipc.errors import CommitError, ConcurrentWriteError

pytestmark = pytest.mark.usefixtures("publishing")

OLD = ["k=1:a", "k=2:b"]
JOB = ["k=2:x", "k=3:y"]
NEW = {
    APPEND: ["k=1:a", "k=2:b", "k=2:x", "k=3:y"],
    OVERWRITE: ["k=2:x", "k=3:y"],
    REWRITE: ["k=2:x", "k=3:y"],  # of all files
    DYNAMIC: ["k=1:a", "k=2:x", "k=3:y"],
}
MODES = pytest.mark.parametrize("mode", WriteMode, ids=lambda mode: mode.value)


def recoveries():
    """The next writer or a vacuum finishes a committed job, and ignores one that is not."""
    return {
        "vacuum": lambda path: vacuum(path, older_than_seconds=0),
        "the next writer": lambda path: save(path, APPEND, "next"),
    }


# *1, *3, *4, *6 to *9: the process dies at a step

CRASHES = [
    # row, step, what our reader sees, what a reader that only lists sees
    ("row 3 before anything", "P0.begin", "old", "old"),
    ("row 3 files noted", "P0.snapshot", "old", "old"),
    ("row 3 staging made", "P0.staging", "old", "old"),
    ("row 3 in C1", "C1.checked", "old", "old"),
    ("row 3 in C2", "C2.synced", "old", "old"),
    ("row 3 in C3", "C3.checked", "old", "old"),
    ("row 4 torn record", "C3.torn", "old", "old"),
    ("row 4 whole record, not linked", "C3.written", "old", "old"),
    ("row 6 linked", "C3.linked", "new", "old"),
    ("row 6 linked and durable", "C3.synced", "new", "old"),
    ("row 6 directories made", "C4.directories", "new", "old"),
    ("row 7 one file renamed", "C4.renamed", "new", "partial"),
    ("row 8 all files renamed", "C4.synced", "new", "new and old"),
    ("row 8 one old file removed", "C5.unlinked", "new", "new and some old"),
    ("row 9 old files removed", "C5.synced", "new", "new"),
    ("row 9 _SUCCESS written", "C6.success", "new", "new"),
    ("row 9 done", "C6.done", "new", "new"),
    ("row 9 older records removed", "C6.pruned", "new", "new"),
    ("row 9 staging removed", "C6.cleaned", "new", "new"),
]


EVERY_CRASH = [
    pytest.param(mode, *case[1:], id=f"{mode.value}, {case[0]}")
    for case in CRASHES
    for mode in WriteMode
    if not (mode is APPEND and case[1].startswith("C5"))  # an append removes nothing
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("recovery", ["vacuum", "the next writer"])
@pytest.mark.parametrize(("mode", "point", "own", "others"), EVERY_CRASH)
def test_crash_at_a_step(tmp_path, mode, point, own, others, recovery):
    save(tmp_path, APPEND, *OLD)
    with dying(point):
        save(tmp_path, mode, *JOB)
    check_crash(tmp_path, mode, own, others, recovery)


def check_crash(tmp_path, mode, own, others, recovery):
    new, expected = NEW[mode], {"old": OLD, "new": NEW[mode]}[own]
    removed = set(OLD) - set(new)
    assert expected == ours(tmp_path)
    listed = foreign(tmp_path)
    if others in ("old", "new"):
        assert {"old": OLD, "new": new}[others] == listed
    elif others == "partial":
        assert set(OLD) < set(listed) < set(OLD) | set(new)
    else:
        assert set(new) <= set(listed) <= set(new) | set(OLD)
        assert (set(listed) - set(new) == removed) == (others == "new and old" or not removed)
    recoveries()[recovery](tmp_path)
    after = [*expected, "next"] if recovery == "the next writer" else expected
    assert sorted(after) == sorted(ours(tmp_path)) == sorted(foreign(tmp_path))
    vacuum(tmp_path, older_than_seconds=0)
    assert [] == leftovers(tmp_path)
    assert sorted(after) == foreign(tmp_path)


CRASHES_OF_COPIES = [
    *(crash for crash in CRASHES if crash[1].startswith(("C4.renamed", "C5", "C6.done"))),
    ("row 8 all copies proven", "C4.proven", "new", "new and old"),
    ("row 8 staged files deleted", "C4.sources", "new", "new and old"),
    ("row 7 a helper left its mark", "H.announced", "new", "partial"),
    ("row 8 a helper has waited", "C4.waited", "new", "new and old"),
]
OF_HELPERS = ("H.announced", "C4.waited")


@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.disk
@pytest.mark.parametrize("mode", WriteMode, ids=lambda mode: mode.value)
@pytest.mark.parametrize(
    ("point", "own", "others"), [case[1:] for case in CRASHES_OF_COPIES], ids=[case[0] for case in CRASHES_OF_COPIES]
)
def test_crash_at_a_step_where_a_storage_copies(tmp_path, mode, point, own, others):
    if mode is APPEND and point.startswith("C5"):
        return
    with local_paths_are_copied(CopyingStorage()):
        if point in OF_HELPERS:
            save(tmp_path, APPEND, *OLD)
            with dying("C4.renamed"):
                save(tmp_path, mode, *JOB)
            with dying(point):
                vacuum(tmp_path)
            check_crash(tmp_path, mode, own, others, "the next writer")
        else:
            test_crash_at_a_step(tmp_path, mode, point, own, others, "the next writer")


# With the real sink

SCHEMA = Schema.of([field("a", types.int64)])
BATCH = RecordBatch.from_pydict({"a": list(range(100))}, SCHEMA)


@pytest.mark.parametrize("point", ["T1.created", "T2.batch", "T2.finished", "T2.proven"])
def test_row_1_crash_in_a_task(tmp_path, point):
    """Spark runs the task again; the file of the first attempt goes with the staging."""
    save(tmp_path, APPEND, "old")
    plan = plan_job(str(tmp_path), APPEND)
    with mock.patch.object(os, "unlink"), dying(point):  # a process that is killed removes nothing
        write_task(plan.staging, [BATCH], SCHEMA, partition_id=0)
    assert 1 == len(list(Path(plan.staging.directory).iterdir()))
    assert ["old"] == ours(tmp_path) == foreign(tmp_path)
    output = write_task(plan.staging, [BATCH], SCHEMA, partition_id=0)
    assert (1, 100) == ((summary := finish(plan, [output])).files, summary.rows)
    assert [] == leftovers(tmp_path)


def test_row_2_executor_lost_after_its_file_was_finished(tmp_path):
    """The second attempt's file is the one that is reported; the first is whole, and never seen."""
    plan = plan_job(str(tmp_path), APPEND)
    with dying("T2.proven"):
        write_task(plan.staging, [BATCH], SCHEMA, partition_id=0)
    output = write_task(plan.staging, [BATCH], SCHEMA, partition_id=0)
    finish(plan, [output])
    assert [output.files[0].final] == [path.name for path in tmp_path.glob("part-*")]
    assert [] == leftovers(tmp_path)


@pytest.mark.parametrize("survives", [True, False], ids=["the link is durable", "the link is lost"])
@MODES
def test_row_5_power_loss_before_the_link_is_durable(tmp_path, mode, survives):
    """Either answer is right, a mix is not."""
    save(tmp_path, APPEND, *OLD)
    with dying("C3.linked"):
        save(tmp_path, mode, *JOB)
    if not survives:
        Path(dataset(tmp_path).record(2)).unlink()
    expected = NEW[mode] if survives else OLD
    assert expected == ours(tmp_path)
    vacuum(tmp_path, older_than_seconds=0)
    assert expected == ours(tmp_path) == foreign(tmp_path)
    assert [] == leftovers(tmp_path)


@pytest.mark.slow
@MODES
def test_row_10_c4_fails_and_spark_calls_abort(tmp_path, mode, caplog):
    save(tmp_path, APPEND, *OLD)
    plan, outputs = planned(tmp_path, mode, *JOB)
    with failing_always("C4.renamed"):
        finish(plan, outputs)
    assert "the job is committed, and putting it in place stopped half-way" in caplog.text
    assert NEW[mode] == ours(tmp_path)
    assert not abort(pickle.loads(pickle.dumps(plan)).staging)
    assert NEW[mode] == ours(tmp_path) == foreign(tmp_path)
    assert [] == leftovers(tmp_path)


@pytest.mark.slow
@MODES
def test_row_10_abort_fails_as_well_and_the_next_writer_finishes(tmp_path, mode, caplog):
    save(tmp_path, APPEND, *OLD)
    plan, outputs = planned(tmp_path, mode, *JOB)
    for call in (lambda: finish(plan, outputs), lambda: abort(plan.staging)):
        with failing_always("C4.synced"):
            call()
    assert "nothing of it is removed" in caplog.text
    assert NEW[mode] == ours(tmp_path)
    save(tmp_path, APPEND, "next")
    assert sorted([*NEW[mode], "next"]) == foreign(tmp_path)


@pytest.mark.disk
@pytest.mark.parametrize("point", ["C1.checked", "C2.synced", "C3.checked", "C3.written"])
@MODES
def test_row_11_the_commit_raises_before_c3(tmp_path, mode, point):
    save(tmp_path, APPEND, *OLD)
    plan, outputs = planned(tmp_path, mode, *JOB)
    with failing(f"{point}:raise"), pytest.raises(CommitError, match="nothing is published"):
        finish(plan, outputs)
    assert abort(plan.staging)
    assert OLD == ours(tmp_path) == foreign(tmp_path)
    assert [] == leftovers(tmp_path)


@MODES
def test_row_12_the_reply_to_the_link_is_lost(tmp_path, mode):
    """The error comes after the link was made: the record is read again and is ours."""
    save(tmp_path, APPEND, *OLD)
    with failing("C3.linked:raise"):
        assert save(tmp_path, mode, *JOB).published
    assert NEW[mode] == ours(tmp_path) == foreign(tmp_path)
    assert [] == leftovers(tmp_path)


@MODES
def test_row_12_the_request_was_sent_twice(tmp_path, mode):
    """NFS: the link was made, its reply lost, and the second request says that the name exists."""
    save(tmp_path, APPEND, *OLD)
    plan, outputs = planned(tmp_path, mode, *JOB)
    real = os.link

    def twice(source, target, **options):
        real(source, target, **options)
        real(source, target, **options)

    with mock.patch.object(os, "link", twice):
        assert finish(plan, outputs).published
    assert NEW[mode] == foreign(tmp_path)
    assert 2 == read_head(dataset(tmp_path)).seq


@pytest.mark.slow
def test_row_12_nothing_answers_and_everything_is_kept(tmp_path):
    save(tmp_path, APPEND, *OLD)
    plan, outputs = planned(tmp_path, OVERWRITE, *JOB)
    unanswered = mock.patch(
        "spark_arrow_ipc.dataset.write.record_chain.newest_record", side_effect=OSError(errno.ETIMEDOUT, "timed out")
    )
    with (
        failing("C3.linked:raise"),
        unanswered,
        pytest.raises(CommitError, match=r"is committed is unknown.*arrowipc vacuum --give-up [0-9a-f]{32} /"),
    ):
        finish(plan, outputs)
    assert NEW[OVERWRITE] == ours(tmp_path)
    assert not abort(plan.staging)
    assert NEW[OVERWRITE] == foreign(tmp_path)


@pytest.mark.slow
def test_row_12_a_link_that_comes_after_the_abort_finds_nothing(tmp_path):
    save(tmp_path, APPEND, *OLD)
    plan, outputs = planned(tmp_path, OVERWRITE, *JOB)
    real = os.link

    def late(source, target, **options):
        with mock.patch.object(os, "link", real):
            assert abort(plan.staging)
        real(source, target, **options)

    with mock.patch.object(os, "link", late), pytest.raises(CommitError, match="withdrawn while it committed"):
        finish(plan, outputs)
    assert OLD == ours(tmp_path) == foreign(tmp_path)
    assert [] == leftovers(tmp_path)


@pytest.mark.parametrize("point", ["C3.linked", "C4.renamed", "C6.done"])
def test_row_12_a_commit_between_the_looks_of_an_abort_stands(tmp_path, point):
    """The abort has seen no record of the job; its own record finds the number taken, and it looks again."""
    save(tmp_path, APPEND, *OLD)
    plan, outputs = planned(tmp_path, OVERWRITE, *JOB)

    def commits():
        with dying(point):
            finish(plan, outputs)

    with interrupted("A.looked", commits):
        assert not abort(plan.staging)
    assert NEW[OVERWRITE] == foreign(tmp_path) == ours(tmp_path)
    assert [] == leftovers(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("point", ["A.looked", "C3.torn", "C3.written", "C3.linked", "A.withdrawn", "C6.done"])
def test_an_abort_that_dies_is_finished_by_the_next_writer(tmp_path, point):
    save(tmp_path, APPEND, *OLD)
    plan, _ = planned(tmp_path, OVERWRITE, *JOB)
    with dying(point):
        abort(plan.staging)
    assert OLD == ours(tmp_path) == foreign(tmp_path)
    save(tmp_path, APPEND, "next")
    assert sorted([*OLD, "next"]) == ours(tmp_path) == foreign(tmp_path)
    vacuum(tmp_path, older_than_seconds=0)
    assert [] == leftovers(tmp_path)


@pytest.mark.disk
@pytest.mark.parametrize("when", ["before the commit", "after the commit"])
def test_row_13_a_speculative_copy_that_finishes_late(tmp_path, when):
    plan, outputs = planned(tmp_path, APPEND, "reported")
    if when == "before the commit":
        stage(plan, b"speculative copy")
    finish(plan, outputs)
    if when == "after the commit":
        with pytest.raises(CommitError, match="the job ended before this attempt"):
            write_task(plan.staging, [BATCH], SCHEMA, partition_id=0)
    assert ["reported"] == foreign(tmp_path) == ours(tmp_path)
    assert [] == leftovers(tmp_path)


def test_row_16_of_two_overwrites_one_wins(tmp_path):
    save(tmp_path, APPEND, "old")
    first, second = planned(tmp_path, OVERWRITE, "first"), planned(tmp_path, OVERWRITE, "second")
    finish(*second)
    with pytest.raises(ConcurrentWriteError):
        finish(*first)
    assert abort(first[0].staging)
    assert ["second"] == foreign(tmp_path) == ours(tmp_path)
    assert [] == leftovers(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("step", ["C3.checked", "C3.torn", "C3.written"])
def test_row_16_the_other_wins_between_check_and_link(tmp_path, step):
    """Both have checked against the same head; the loser's link fails, and its second check finds the winner."""
    save(tmp_path, APPEND, "old")
    first, second = planned(tmp_path, OVERWRITE, "first"), planned(tmp_path, OVERWRITE, "second")
    with interrupted(step, lambda: finish(*second)), pytest.raises(ConcurrentWriteError):
        finish(*first)
    assert abort(first[0].staging)
    assert ["second"] == foreign(tmp_path) == ours(tmp_path)


def test_row_17_somebody_removes_an_old_file_meanwhile(tmp_path):
    save(tmp_path, APPEND, "old 1", "old 2")
    old = sorted(tmp_path.glob("part-*"))
    with interrupted("C4.synced", old[0].unlink):
        save(tmp_path, OVERWRITE, "new")
    assert ["new"] == foreign(tmp_path)


@pytest.mark.disk
@pytest.mark.parametrize("point", ["T1.created", "T2.batch", "T2.finished"])
def test_row_18_the_disk_is_full_while_a_task_writes(tmp_path, point):
    save(tmp_path, APPEND, "old")
    plan = plan_job(str(tmp_path), OVERWRITE)
    with failing(f"{point}:enospc"), pytest.raises(OSError, match="No space left") as caught:
        write_task(plan.staging, [BATCH], SCHEMA, partition_id=0)
    assert errno.ENOSPC == caught.value.errno
    assert [] == list(Path(plan.staging.directory).iterdir())
    assert abort(plan.staging)
    assert ["old"] == foreign(tmp_path) == ours(tmp_path)
    assert [] == leftovers(tmp_path)


@pytest.mark.disk
def test_row_18_the_disk_is_full_when_the_record_is_written(tmp_path):
    save(tmp_path, APPEND, "old")
    plan, outputs = planned(tmp_path, OVERWRITE, "new")
    with failing("C3.torn:enospc"), pytest.raises(CommitError, match=r"No space left.*nothing is published"):
        finish(plan, outputs)
    assert abort(plan.staging)
    assert ["old"] == foreign(tmp_path)


# The amendments


@pytest.mark.slow
@pytest.mark.parametrize("point", ["C3.linked", "C4.renamed", "C4.synced", "C6.success"])
def test_a_pending_append_followed_by_an_overwrite_never_brings_rows_back(tmp_path, point):
    save(tmp_path, APPEND, "old")
    with dying(point):
        save(tmp_path, APPEND, "pending 1", "pending 2")
    save(tmp_path, OVERWRITE, "new")
    assert ["new"] == ours(tmp_path) == foreign(tmp_path)
    vacuum(tmp_path, older_than_seconds=0)
    assert ["new"] == ours(tmp_path) == foreign(tmp_path)


def test_an_overwrite_that_was_planned_before_an_append_that_is_pending_is_refused(tmp_path):
    save(tmp_path, APPEND, "old")
    overwrite = planned(tmp_path, OVERWRITE, "new")
    with dying("C3.linked"):
        save(tmp_path, APPEND, "pending")
    with pytest.raises(ConcurrentWriteError):
        finish(*overwrite)
    assert ["old", "pending"] == foreign(tmp_path)


@MODES
def test_a_second_recovery_does_nothing(tmp_path, mode):
    save(tmp_path, APPEND, *OLD)
    with dying("C4.renamed"):
        save(tmp_path, mode, *JOB)
    vacuum(tmp_path, older_than_seconds=0)
    state = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    report = vacuum(tmp_path, older_than_seconds=0)
    assert (None, (), ()) == (report.finished, report.withdrawn, report.files)
    assert state == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}


def test_a_reader_never_changes_anything(tmp_path):
    save(tmp_path, APPEND, *OLD)
    with dying("C4.renamed"):
        save(tmp_path, OVERWRITE, *JOB)
    state = sorted(tmp_path.rglob("*"))
    assert NEW[OVERWRITE] == ours(tmp_path)
    assert state == sorted(tmp_path.rglob("*"))
    assert read_state(dataset(tmp_path)).pending is not None


@pytest.mark.slow
def test_a_late_process_of_a_job_that_others_finished_changes_nothing(tmp_path):
    """It stops before its renames; others finish, overwrite and go on; then it continues."""
    save(tmp_path, APPEND, "k=1:old")

    def others():
        vacuum(tmp_path)
        save(tmp_path, OVERWRITE, "k=9:newer")

    for point in ("C3.synced", "C4.directories", "C4.renamed", "C4.synced"):
        plan, outputs = planned(tmp_path, APPEND, "k=1:a", "k=2:b")
        with interrupted(point, others):
            finish(plan, outputs)
        assert ["k=9:newer"] == foreign(tmp_path) == ours(tmp_path), point
        save(tmp_path, APPEND, "k=1:old")


def test_a_partition_directory_that_a_late_process_removes_is_made_again(tmp_path):
    with interrupted("C4.directories", (tmp_path / "k=1").rmdir):
        save(tmp_path, APPEND, "k=1:a", "k=1:b")
    assert ["k=1:a", "k=1:b"] == foreign(tmp_path)


@pytest.fixture
def prunes_at_once(monkeypatch):
    """Keep two records, so that the numbers of all others are free again."""
    monkeypatch.setattr(log, "_KEPT_NBYTES", 0)


@pytest.mark.slow
@pytest.mark.usefixtures("prunes_at_once")
def test_a_link_into_the_past_is_no_commit(tmp_path):
    """A job stops before its link to number 2; others commit 2 to 5 and prune; its link to 2 then finds a hole."""
    save(tmp_path, APPEND, "1")
    slow = planned(tmp_path, APPEND, "slow")

    def others():
        for number in "2345":
            save(tmp_path, APPEND, number)

    with interrupted("C3.written", others):
        assert finish(*slow).published
    assert ["1", "2", "3", "4", "5", "slow"] == foreign(tmp_path) == ours(tmp_path)
    assert (6, True) == ((head := read_head(dataset(tmp_path))).seq, head.done)
    assert [] == leftovers(tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("prunes_at_once")
def test_a_link_into_the_past_by_a_process_that_dies_is_nothing(tmp_path):
    save(tmp_path, APPEND, "1")
    slow = planned(tmp_path, OVERWRITE, "slow")

    def others():
        for number in "2345":
            save(tmp_path, APPEND, number)

    real = os.link

    def link(*paths, **options):
        with mock.patch.object(os, "link", real):
            others()
        real(*paths, **options)
        raise Died

    with mock.patch.object(os, "link", link), pytest.raises(Died):
        finish(*slow)
    assert Path(dataset(tmp_path).record(2)).exists()
    assert ["1", "2", "3", "4", "5"] == foreign(tmp_path) == ours(tmp_path)
    assert abort(slow[0].staging)
    save(tmp_path, APPEND, "6")
    assert ["1", "2", "3", "4", "5", "6"] == foreign(tmp_path)
    assert not Path(dataset(tmp_path).record(2)).exists()
