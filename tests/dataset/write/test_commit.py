"""Publishing: what a job that goes well leaves, what is refused, and what a failure says."""

import os
from pathlib import Path
from unittest import mock

import pytest
from commit_jobs import (
    APPEND,
    DYNAMIC,
    OVERWRITE,
    failing,
    failing_always,
    finish,
    foreign,
    leftovers,
    ours,
    planned,
    run_tasks,
    save,
)
from job_plans import plan_job

from spark_arrow_ipc.dataset.commit_log.dataset_directory import StagedFile
from spark_arrow_ipc.dataset.write import WriteMode
from spark_arrow_ipc.dataset.write.commit import abort, commit
from spark_arrow_ipc.dataset.write.task import TaskOutput
from spark_arrow_ipc.dataset.write.vacuum import vacuum
from spark_arrow_ipc.errors import CommitError
from spark_arrow_ipc.storage import failpoint
from spark_arrow_ipc.storage.local import LocalStorage

pytestmark = pytest.mark.usefixtures("publishing")

# A rewrite of no chosen files is none: tests of its own.
MODES = pytest.mark.parametrize(
    "mode", [mode for mode in WriteMode if mode is not WriteMode.REWRITE], ids=lambda mode: mode.value
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
def test_after_a_commit_only_data_success_and_the_record_are_there(tmp_path, mode):
    summary = save(tmp_path, mode, "a", "bc")
    assert (2, 3, 3, 0, True) == (summary.files, summary.rows, summary.nbytes, summary.removed, summary.published)
    assert ["_SUCCESS", "_ipc_commits"] == sorted(p.name for p in tmp_path.iterdir() if not p.name.startswith("part-"))
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
    assert ["_notes", "sub/x"] == leftovers(tmp_path)


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


def test_without_durability_nothing_is_synced(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: pytest.fail("fsync was called"))
    save(tmp_path / "x", APPEND, "a", durable=False)
    save(tmp_path / "x", OVERWRITE, "b", durable=False)
    assert ["b"] == foreign(tmp_path / "x")


@pytest.mark.disk
def test_what_a_step_rests_on_is_durable_before_it(tmp_path, monkeypatch):
    """Order of the steps that a power loss could tear apart."""
    save(tmp_path, APPEND, "old")
    plan, outputs = planned(tmp_path, OVERWRITE, "new")
    steps = []
    for name in ("link", "rename", "unlink"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, _n=name, _r=real, **k: (steps.append(_n), _r(*a, **k))[1])
    monkeypatch.setattr(LocalStorage, "sync", lambda _, path: steps.append("sync " + Path(path).name))
    monkeypatch.setattr(LocalStorage, "sync_file", lambda *_: steps.append("sync file"))
    finish(plan, outputs)
    data, commits = f"sync {tmp_path.name}", "sync _ipc_commits"
    staged = [f"sync {plan.staging.jobid}", "sync _ipc_stage", data]
    linked = ["sync file", "link", "unlink", commits]
    success, done = ["sync file", "rename", data], ["rename", commits]
    claimed = ["link", "unlink"]
    assert [*staged, *linked, "rename", data, *claimed, "unlink", data, *success, *done] == steps[:18]


# What is refused before anything happens


def staged(**changes):
    values = {"staged": "s.staged", "final": "part-0.arrow", "nbytes": 1, "rows": 1, "crc32": 0}
    return StagedFile(**{**values, **changes})


def one(**changes):
    return lambda job: [TaskOutput(job, (staged(staged="z.staged", nbytes=3, **changes),))]


NO_PATH = "not a relative path that readers see"
UNSOUND = [
    ("a task that reported nothing", lambda job: [None, TaskOutput(job)], "1 of 2 tasks reported nothing"),
    ("another job's output", lambda _: [TaskOutput("stranger")], "found some of stranger"),
    ("a staged name twice", lambda job: [TaskOutput(job, (staged(), staged(final="p")))], "share one staged name"),
    (
        "a final name twice",
        lambda job: [TaskOutput(job, (staged(), staged(staged="t.staged")))],
        "share one final name",
    ),
    ("staged file missing", lambda job: [TaskOutput(job, (staged(),))], "not shared between driver and executors"),
    ("staged file of another size", lambda job: [TaskOutput(job, (staged(staged="z.staged"),))], "1 bytes.*found 3"),
    ("final name leads out", one(final="../x"), NO_PATH),
    ("final name is absolute", one(final="/x/y"), NO_PATH),
    ("final name climbs in the middle", one(final="a/../../x"), NO_PATH),
    ("final name has an empty part", one(final="a//x"), NO_PATH),
    ("final name holds a NUL", one(final="a\0b"), NO_PATH),
    ("hidden final name", one(final="_SUCCESS"), NO_PATH),
    ("hidden directory", one(final="_ipc_commits/x.json"), NO_PATH),
    (
        "staged name leads out",
        lambda job: [TaskOutput(job, (staged(staged="../../x.staged"),))],
        "not that of a staged",
    ),
    ("staged name without its ending", lambda job: [TaskOutput(job, (staged(staged="x"),))], "not that of a staged"),
    ("directory is a link", one(final="k=link/x"), "must be a directory, and this is a link"),
    ("directory above is a link", one(final="k=link/j=1/x"), "must be a directory, and this is a link"),
    ("directory is a file", one(final="k=file/x"), "must be a directory, and this is a link or a file"),
    ("final name exists", one(final="part-old.arrow"), "exists already and is not replaced"),
]


@pytest.mark.disk
@pytest.mark.parametrize(("outputs", "text"), [case[1:] for case in UNSOUND], ids=[case[0] for case in UNSOUND])
def test_unsound_output_publishes_nothing(tmp_path, outputs, text):
    path = tmp_path / "data"
    save(path, APPEND, "old")
    (path / "part-old.arrow").write_text("precious")
    (path / "k=file").write_text("precious")
    plan = plan_job(str(path), APPEND)
    (tmp_path / "elsewhere").mkdir()
    (path / "k=link").symlink_to(tmp_path / "elsewhere")
    Path(plan.staging.path("z.staged")).write_bytes(b"zzz")
    with pytest.raises(CommitError, match=text) as caught:
        finish(plan, outputs(plan.staging.jobid))
    assert str(path) in str(caught.value)
    (path / "k=link").unlink()
    assert ["old", "precious", "precious"] == foreign(path) == ours(path)
    assert [] == list((tmp_path / "elsewhere").iterdir())
    assert abort(plan.staging)
    assert [] == leftovers(path)[1:]


# Failures


@pytest.mark.slow
@MODES
def test_failed_job_leaves_nothing_but_old_data(tmp_path, mode):
    """Tasks finished, another one failed for good: commit is never called."""
    save(tmp_path, APPEND, "old")
    plan, _ = planned(tmp_path, mode, "new")
    assert ["old"] == foreign(tmp_path)
    assert abort(plan.staging)
    assert abort(plan.staging)
    assert ["old"] == foreign(tmp_path)
    assert [] == leftovers(tmp_path)


def test_a_commit_after_an_abort_publishes_nothing(tmp_path):
    plan, outputs = planned(tmp_path, APPEND, "new")
    abort(plan.staging)
    with pytest.raises(CommitError, match=r"the job was withdrawn, by an abort.*nothing is published"):
        finish(plan, outputs)
    assert [] == foreign(tmp_path)


HALF_WAY = [
    # failpoint that cannot be passed, mode, new files, old files that still have their names
    ("C4.directories", APPEND, 0, 1),
    ("C4.renamed", APPEND, 1, 1),
    ("C4.synced", OVERWRITE, 3, 1),
    ("C5.unlinked", OVERWRITE, 3, 0),
    ("C6.success", DYNAMIC, 3, 0),
]


@pytest.mark.slow
@pytest.mark.disk
@pytest.mark.parametrize(
    ("point", "mode", "new", "old"), HALF_WAY, ids=[f"{case[0]} {case[1].value}" for case in HALF_WAY]
)
def test_a_commit_that_cannot_be_put_in_place_is_a_warning(tmp_path, caplog, point, mode, new, old):
    """A scheduler that ran a job again which is reported as failed would write its rows twice."""
    save(tmp_path, APPEND, "old")
    plan, outputs = planned(tmp_path, mode, *"123")
    with failing_always(point):
        assert finish(plan, outputs).published
    expected = ["1", "2", "3", "old"] if mode is APPEND else ["1", "2", "3"]
    assert expected == ours(tmp_path)
    assert "the job is committed, and putting it in place stopped half-way" in caplog.text
    assert f"{new} of 3 new files have their names" in caplog.text
    assert (f"{old} of 1 old files are still there" in caplog.text) == (mode is not APPEND)
    assert f"arrowipc vacuum {tmp_path}" in caplog.text
    vacuum(tmp_path)
    assert expected == ours(tmp_path) == foreign(tmp_path)
    assert [] == leftovers(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("point", ["C3.synced", "C4.directories", "C4.renamed", "C5.unlinked", "C6.success"])
def test_a_fault_after_the_record_that_passes_changes_nothing(tmp_path, caplog, point):
    save(tmp_path, APPEND, "old")
    with failing(f"{point}:raise"):
        save(tmp_path, OVERWRITE, *"123")
    assert "" == caplog.text
    assert ["1", "2", "3"] == foreign(tmp_path)
    assert [] == leftovers(tmp_path)


@pytest.mark.disk
def test_a_committed_job_whose_rows_may_be_lost_is_an_error(tmp_path, monkeypatch):
    """A record that may not survive a power failure, and a committed file that somebody removed."""
    plan, outputs = planned(tmp_path / "sync", APPEND, *"123")
    real = LocalStorage.sync

    def sync(storage, directory):
        if directory.endswith("_ipc_commits"):
            raise OSError(5, "Input/output error")
        real(storage, directory)

    with monkeypatch.context() as patched:
        patched.setattr(LocalStorage, "sync", sync)
        with pytest.raises(CommitError, match=r"is committed.*Do not run the job again") as caught:
            finish(plan, outputs)
    assert isinstance(caught.value.__cause__, OSError)
    plan, outputs = planned(tmp_path / "gone", APPEND, *"123")

    def hit(name):
        if name == "C3.synced":
            Path(plan.staging.path(outputs[0].files[0].staged)).unlink(missing_ok=True)

    with mock.patch.object(failpoint, "hit", hit), pytest.raises(CommitError, match="neither there nor staged"):
        finish(plan, outputs)


@pytest.mark.disk
@pytest.mark.parametrize(
    "fault", ["C1.checked:raise", "C2.synced:enospc", "C3.checked:raise", "C3.torn:enospc", "C3.written:raise"]
)
@MODES
def test_io_error_before_the_record_says_that_nothing_is_published(tmp_path, fault, mode):
    save(tmp_path, APPEND, "old")
    plan, outputs = planned(tmp_path, mode, "new")
    with failing(fault), pytest.raises(CommitError, match=r"the commit could not begin.*nothing is published"):
        finish(plan, outputs)
    assert ["old"] == ours(tmp_path) == foreign(tmp_path)
    assert abort(plan.staging)
    assert [] == leftovers(tmp_path)
