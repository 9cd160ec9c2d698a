"""Publishing: what a job that goes well leaves, what is refused, and what a failure says."""

import errno
import os
import shutil
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import pytest
from commit_jobs import (
    APPEND,
    DYNAMIC,
    OVERWRITE,
    dying,
    failing,
    finish,
    foreign,
    interrupted,
    leftovers,
    newest_entry,
    ours,
    planned,
    run_tasks,
    save,
    stage,
    table,
)
from job_plans import plan_job

from spark_arrow_ipc.arrow import RecordBatch, Schema, types
from spark_arrow_ipc.arrow.types import field
from spark_arrow_ipc.dataset.write import WriteMode
from spark_arrow_ipc.dataset.write.commit import abort, commit
from spark_arrow_ipc.dataset.write.staged_file import WrittenFile
from spark_arrow_ipc.dataset.write.task import TaskOutput, write_task
from spark_arrow_ipc.errors import CommitError, ConcurrentWriteError
from spark_arrow_ipc.storage.local import LocalStorage
from spark_arrow_ipc.table.transaction import UnknownOutcomeError
from spark_arrow_ipc.table.vacuum import vacuum

pytestmark = pytest.mark.usefixtures("publishing")

# A rewrite of no chosen files is none: tests of its own.
MODES = pytest.mark.parametrize(
    "mode", [mode for mode in WriteMode if not mode.replaces_chosen], ids=lambda mode: mode.value
)

# What a job that goes well leaves


@pytest.mark.slow
def test_append_adds_and_overwrite_replaces(tmp_path):
    path = tmp_path / "new" / "data"
    save(path, APPEND, "a", "b")
    save(path, APPEND, "c")
    assert ["a", "b", "c"] == foreign(path)
    save(path, OVERWRITE, "d", "e")
    assert ["d", "e"] == foreign(path)
    save(path, OVERWRITE)
    assert ["empty"] == foreign(path)


@MODES
def test_after_a_commit_only_data_success_and_the_log_are_there(tmp_path, mode):
    summary = save(tmp_path, mode, "a", "bc")
    assert (2, 3, 3, 0, True) == (summary.files, summary.rows, summary.nbytes, summary.removed, summary.published)
    assert ["_SUCCESS", "_ipc_log"] == sorted(p.name for p in tmp_path.iterdir() if not p.name.startswith("part-"))
    assert ["a", "bc"] == foreign(tmp_path)


def test_task_without_rows_adds_no_file(tmp_path):
    plan, outputs = planned(tmp_path, APPEND, "a")
    finish(plan, [TaskOutput(plan.staging.jobid), *outputs, TaskOutput(plan.staging.jobid)])
    assert ["a"] == foreign(tmp_path)


@pytest.mark.slow
def test_partitioned_job_without_rows_stages_no_empty_file(tmp_path):
    save(tmp_path, APPEND, "k=1:a")
    for mode, expected in ((APPEND, ["k=1:a"]), (DYNAMIC, ["k=1:a"]), (OVERWRITE, [])):
        plan = plan_job(str(tmp_path), mode)
        assert 0 == commit(plan, [TaskOutput(plan.staging.jobid)], write_empty=None).files
        assert expected == foreign(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("slow", [False, True], ids=["local disk", "network storage"])
def test_many_files_are_published(tmp_path, monkeypatch, slow):
    monkeypatch.setattr("spark_arrow_ipc.storage.storage._SLOW_SECONDS", 0 if slow else 1)
    save(tmp_path, APPEND, *(f"k={i % 7}:{i}" for i in range(300)))
    assert sorted(f"k={i % 7}:{i}" for i in range(300)) == foreign(tmp_path)
    save(tmp_path, OVERWRITE, "a")
    assert ["a"] == foreign(tmp_path)


def test_overwrite_leaves_what_no_reader_sees(tmp_path):
    (tmp_path / "_notes").write_text("mine")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "x").write_text("mine")
    save(tmp_path, OVERWRITE, "a")
    assert ["_notes"] == leftovers(tmp_path)
    assert ["a", "sub:mine"] == foreign(tmp_path)


@pytest.mark.slow
def test_overwrite_replaces_partitions_and_removes_their_empty_directories(tmp_path):
    save(tmp_path, APPEND, "a=1/b=x:1", "a=1/b=y:2", "_a=3:3", "4")
    (tmp_path / "a=1" / "b=y" / "_mine").write_text("kept")
    save(tmp_path, OVERWRITE, "a=1/b=z:5", "a=2/b=x:6")
    assert ["a=1/b=z:5", "a=2/b=x:6"] == foreign(tmp_path)
    directories = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*=*"))
    assert ["a=1", "a=1/b=y", "a=1/b=z", "a=2", "a=2/b=x"] == directories


def test_overwriting_what_is_being_read_is_safe(tmp_path):
    """Tasks read old files until the last of them is done; the commit comes later."""
    save(tmp_path, APPEND, "old")
    plan = plan_job(str(tmp_path), OVERWRITE)
    finish(plan, run_tasks(plan, *(f"{text} and new" for text in foreign(tmp_path))))
    assert ["old and new"] == foreign(tmp_path)


def test_path_may_be_a_uri_and_links_stay_links(tmp_path):
    (tmp_path / "real dir").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real dir")
    save(f"file://{tmp_path}/real%20dir", APPEND, "a")
    save(tmp_path / "link", APPEND, "b")
    assert ["a", "b"] == foreign(tmp_path / "real dir")
    assert (tmp_path / "link").is_symlink()


def test_names_that_are_no_text_are_overwritten(tmp_path):
    for name in (b"\xff.arrow", b"new\nline.arrow"):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_text("old")
    save(tmp_path, OVERWRITE, "a")
    assert ["a"] == foreign(tmp_path)


@pytest.mark.disk
def test_what_a_step_rests_on_is_durable_before_it(tmp_path, monkeypatch):
    """Order of the steps that a power loss could tear apart."""
    save(tmp_path, APPEND, "k=1:old")
    plan, outputs = planned(tmp_path, OVERWRITE, "k=1:new")
    steps = []
    for name in ("link", "rename", "unlink"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, _n=name, _r=real, **k: (steps.append(_n), _r(*a, **k))[1])
    monkeypatch.setattr(LocalStorage, "sync", lambda _, path: steps.append("sync " + Path(path).name))
    monkeypatch.setattr(LocalStorage, "sync_file", lambda *_: steps.append("sync file"))
    finish(plan, outputs)
    root, log = f"sync {tmp_path.name}", f"sync {plan.table}"
    named = [f"sync {plan.staging.jobid}", "rename", root, "sync k=1"]
    entry = [log, "sync file", "link", "unlink", log]
    success = ["sync file", "rename", root]
    collected = [log, "unlink", "sync k=1"]
    mark = [f"sync {plan.staging.jobid}", "unlink"]
    assert [*named, *entry, *success, *collected, *mark] == steps, steps


# What is refused before anything happens


def staged(**changes):
    values = {"staged": "s.staged", "directory": "", "task": 0, "suffix": ".arrow", "nbytes": 1, "rows": 1, "crc32": 0}
    return WrittenFile(**{**values, "bounds": {}, **changes})


def one(**changes):
    return lambda job: [TaskOutput(job, (staged(staged="z.staged", nbytes=3, **changes),))]


def one_named(name):
    return lambda job: [TaskOutput(job, (staged(staged=name),))]


NO_PATH = "not a relative path that readers see"
UNSOUND = [
    ("a task that reported nothing", lambda job: [None, TaskOutput(job)], "1 of 2 tasks reported nothing"),
    ("another job's output", lambda _: [TaskOutput("stranger")], "found some of stranger"),
    ("a staged name twice", lambda job: [TaskOutput(job, (staged(), staged(task=1)))], "share one staged name"),
    ("staged file missing", lambda job: [TaskOutput(job, (staged(),))], "not shared between driver and executors"),
    ("staged file of another size", lambda job: [TaskOutput(job, (staged(staged="z.staged"),))], "1 bytes.*found 3"),
    ("directory leads out", one(directory=".."), NO_PATH),
    ("directory is absolute", one(directory="/x"), NO_PATH),
    ("directory climbs in the middle", one(directory="a/../.."), NO_PATH),
    ("directory has an empty part", one(directory="a//x"), NO_PATH),
    ("directory holds a NUL", one(directory="a\0b"), NO_PATH),
    ("directory is not UTF-8", one(directory="k=\udcff"), "is not UTF-8, which the log cannot hold.*rename"),
    ("suffix leads out", one(suffix="/../../x"), NO_PATH),
    ("hidden directory", one(directory="_ipc_log"), NO_PATH),
    ("staged name leads out", one_named("../../x.staged"), "not shared between driver and executors"),
    ("directory is a link", one(directory="k=link"), "must be a directory, and this is a link"),
    ("directory above is a link", one(directory="k=link/j=1"), "must be a directory, and this is a link"),
    ("directory is a file", one(directory="k=file"), "must be a directory, and this is a link or a file"),
]


@pytest.mark.disk
@pytest.mark.parametrize(("outputs", "text"), [case[1:] for case in UNSOUND], ids=[case[0] for case in UNSOUND])
def test_unsound_output_publishes_nothing(tmp_path, outputs, text):
    path = tmp_path / "data"
    save(path, APPEND, "old")
    (path / "k=file").write_text("precious")
    (tmp_path / "x.staged").write_text("p")
    plan = plan_job(str(path), APPEND)
    (tmp_path / "elsewhere").mkdir()
    (path / "k=link").symlink_to(tmp_path / "elsewhere")
    Path(plan.staging.file("z.staged")).write_bytes(b"zzz")
    with pytest.raises(CommitError, match=text) as caught:
        finish(plan, outputs(plan.staging.jobid))
    assert str(path) in str(caught.value)
    (path / "k=link").unlink()
    assert ["old", "precious"] == foreign(path) == ours(path)
    assert "p" == (tmp_path / "x.staged").read_text()
    assert [] == list((tmp_path / "elsewhere").iterdir())
    assert abort(plan)
    assert [] == leftovers(path)


# Failures


@pytest.mark.slow
@MODES
def test_failed_job_leaves_nothing_but_old_data(tmp_path, mode):
    """Tasks finished, another one failed for good: commit is never called."""
    save(tmp_path, APPEND, "old")
    plan, _ = planned(tmp_path, mode, "new")
    assert ["old"] == foreign(tmp_path)
    assert abort(plan)
    assert abort(plan)
    assert ["old"] == foreign(tmp_path)
    assert [] == leftovers(tmp_path)


def test_a_commit_after_an_abort_publishes_nothing(tmp_path):
    plan, outputs = planned(tmp_path, APPEND, "new")
    abort(plan)
    with pytest.raises(CommitError, match=r"the job was expired, by an abort.*nothing is published"):
        finish(plan, outputs)
    assert [] == foreign(tmp_path)


@pytest.mark.parametrize("point", ["committed.put", "collected.removed", "collected.files", "collected.mark"])
def test_a_fault_after_the_entry_is_a_warning_at_most(tmp_path, caplog, point):
    """A scheduler that ran a job again which is reported as failed would write its rows twice."""
    save(tmp_path, APPEND, "old")
    with failing(f"{point}:raise"):
        assert save(tmp_path, OVERWRITE, *"123").published
    is_tried_again = point in ("committed.put", "collected.removed")
    assert ("is committed, and what it replaced is not deleted yet" in caplog.text) is not is_tried_again
    assert ["1", "2", "3"] == ours(tmp_path)
    vacuum(table(tmp_path), older_than=0)
    assert ["1", "2", "3"] == foreign(tmp_path) == ours(tmp_path)
    assert [] == leftovers(tmp_path)


@pytest.mark.parametrize(
    "error", [OSError(110, "timed out"), CommitError("damaged")], ids=["no answer", "a broken log"]
)
def test_a_log_that_cannot_be_read_after_the_entry_leaves_the_outcome_unknown(tmp_path, error):
    save(tmp_path, APPEND, "old")
    plan, outputs = planned(tmp_path, OVERWRITE, "new")
    with ExitStack() as stack:
        fail = mock.patch("spark_arrow_ipc.table.transaction.read_newer", side_effect=error)
        stack.enter_context(interrupted("committed.put", lambda: stack.enter_context(fail)))
        with pytest.raises(UnknownOutcomeError, match=rf"unknown.*arrowipc history.*{plan.staging.jobid}"):
            finish(plan, outputs)
    assert ["new"] == ours(tmp_path)
    assert not abort(plan)
    assert ["new"] == ours(tmp_path)


@pytest.mark.disk
@pytest.mark.parametrize("fault", ["named.file:raise", "named.all:enospc", "committed.asked:raise"])
@MODES
def test_io_error_before_the_entry_says_that_nothing_is_published(tmp_path, fault, mode):
    save(tmp_path, APPEND, "old")
    plan, outputs = planned(tmp_path, mode, "new")
    with failing(fault), pytest.raises(CommitError, match=r"the commit failed.*nothing is published"):
        finish(plan, outputs)
    assert ["old"] == ours(tmp_path)
    assert abort(plan)
    assert ["old"] == foreign(tmp_path)
    assert [] == leftovers(tmp_path)


def test_a_success_file_is_empty_and_the_newest_entry_tells_the_last_job(tmp_path):
    """Other programs write a summary into `_SUCCESS`: the next job replaces it."""
    save(tmp_path, APPEND, "a")
    (tmp_path / "_SUCCESS").write_text('{"writer": "another"}')
    summary = save(tmp_path, OVERWRITE, "bcd")
    assert b"" == (tmp_path / "_SUCCESS").read_bytes()
    entry = newest_entry(tmp_path)
    assert ("overwrite", summary.jobid, 3, 3) == (
        entry.operation,
        entry.job,
        entry.add.rows.tolist()[0],
        entry.add.nbytes.tolist()[0],
    )
    assert summary.removed == len(entry.remove) == 1


@pytest.mark.disk
def test_staging_that_cannot_be_removed_does_not_fail_the_job(tmp_path, monkeypatch, caplog):
    plan, outputs = planned(tmp_path, APPEND, "a")
    Path(plan.staging.file("late.staged")).write_text("late")
    monkeypatch.setattr(LocalStorage, "delete_all", mock.Mock(side_effect=OSError(5, "Input/output error")))
    assert finish(plan, outputs).published
    monkeypatch.undo()
    assert ["a"] == foreign(tmp_path)
    vacuum(table(tmp_path), older_than=0)
    assert [] == leftovers(tmp_path)


# Tasks, of which Spark may run one twice

SCHEMA = Schema.of([field("a", types.int64)])
BATCH = RecordBatch.from_pydict({"a": list(range(100))}, SCHEMA)


@pytest.mark.parametrize("point", ["T1.created", "T2.batch", "T2.finished", "T2.proven"])
def test_a_task_that_dies_is_run_again(tmp_path, point):
    """The file of the first attempt is never seen, finished or not, and goes with the staging."""
    save(tmp_path, APPEND, "old")
    plan = plan_job(str(tmp_path), APPEND)
    with mock.patch.object(os, "unlink"), dying(point):  # a process that is killed removes nothing
        write_task(plan.staging, [BATCH], SCHEMA, partition_id=0)
    assert 1 == len(list(Path(plan.staging.path).glob("*.staged")))
    assert ["old"] == ours(tmp_path) == foreign(tmp_path)
    output = write_task(plan.staging, [BATCH], SCHEMA, partition_id=0)
    assert (1, 100) == ((summary := finish(plan, [output])).files, summary.rows)
    assert [output.files[0].nbytes] == [found.stat().st_size for found in tmp_path.glob(f"part-*{summary.jobid}*")]
    assert [] == leftovers(tmp_path)


@pytest.mark.disk
@pytest.mark.parametrize("when", ["before the commit", "after the commit"])
def test_a_speculative_copy_that_finishes_late(tmp_path, when):
    plan, outputs = planned(tmp_path, APPEND, "reported")
    if when == "before the commit":
        stage(plan, b"speculative copy")
    finish(plan, outputs)
    if when == "after the commit":
        with pytest.raises(CommitError, match="the job ended before this attempt"):
            write_task(plan.staging, [BATCH], SCHEMA, partition_id=0)
    assert ["reported"] == foreign(tmp_path) == ours(tmp_path)
    assert [] == leftovers(tmp_path)


# Others


def test_of_two_overwrites_one_wins(tmp_path):
    save(tmp_path, APPEND, "old")
    first, second = planned(tmp_path, OVERWRITE, "first"), planned(tmp_path, OVERWRITE, "second")
    finish(*second)
    with pytest.raises(ConcurrentWriteError):
        finish(*first)
    assert abort(first[0])
    assert ["second"] == foreign(tmp_path) == ours(tmp_path)
    assert [] == leftovers(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("step", ["named.file", "named.all", "committed.asked"])
def test_another_overwrite_wins_while_one_commits(tmp_path, step):
    """Both have checked against the same state; the loser's entry has a taken number, and its second check finds the winner."""
    save(tmp_path, APPEND, "old")
    first, second = planned(tmp_path, OVERWRITE, "first"), planned(tmp_path, OVERWRITE, "second")
    with interrupted(step, lambda: finish(*second)), pytest.raises(ConcurrentWriteError):
        finish(*first)
    assert ["second"] == ours(tmp_path)
    assert abort(first[0])
    assert ["second"] == foreign(tmp_path) == ours(tmp_path)


@pytest.mark.parametrize("step", ["named.all", "committed.put"])
def test_somebody_removes_an_old_file_meanwhile(tmp_path, step):
    save(tmp_path, APPEND, "old 1", "old 2")
    old = sorted(tmp_path.glob("part-*"))
    with interrupted(step, old[0].unlink):
        save(tmp_path, OVERWRITE, "new")
    assert ["new"] == foreign(tmp_path) == ours(tmp_path)


@pytest.mark.parametrize("point", ["named.file", "committed.put", "collected.removed"])
def test_a_reader_never_changes_anything(tmp_path, point):
    save(tmp_path, APPEND, "k=1:a", "k=2:b")
    with dying(point):
        save(tmp_path, OVERWRITE, "k=2:x", "k=3:y")
    before = sorted(tmp_path.rglob("*"))
    assert (["k=1:a", "k=2:b"] if point == "named.file" else ["k=2:x", "k=3:y"]) == ours(tmp_path)
    assert before == sorted(tmp_path.rglob("*"))


# A full disk


@pytest.mark.disk
@pytest.mark.parametrize("point", ["T1.created", "T2.batch", "T2.finished"])
def test_the_disk_is_full_while_a_task_writes(tmp_path, point):
    save(tmp_path, APPEND, "old")
    plan = plan_job(str(tmp_path), OVERWRITE)
    with failing(f"{point}:enospc"), pytest.raises(OSError, match="No space left") as caught:
        write_task(plan.staging, [BATCH], SCHEMA, partition_id=0)
    assert errno.ENOSPC == caught.value.errno
    assert [] == list(Path(plan.staging.path).glob("*.staged"))
    assert abort(plan)
    assert ["old"] == foreign(tmp_path) == ours(tmp_path)
    assert [] == leftovers(tmp_path)


@pytest.mark.disk
@pytest.mark.parametrize("is_written_anew", [False, True])
def test_a_table_that_is_removed_while_a_job_runs_is_said_so(tmp_path, is_written_anew):
    save(tmp_path, APPEND, "a")
    job = planned(tmp_path, APPEND, "b")
    shutil.rmtree(tmp_path)
    if is_written_anew:
        save(tmp_path, APPEND, "c")
    with pytest.raises(CommitError, match="the table was removed while this job ran; nothing is published"):
        finish(*job)
