"""Publishing: all or nothing, and never at the cost of what was there. The rows of the failure table that exist."""

import json
import os
import pickle
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from spark_arrow_ipc.dataset import commit as commit_module
from spark_arrow_ipc.dataset.commit import abort, commit
from spark_arrow_ipc.dataset.job import WriteMode, plan_job
from spark_arrow_ipc.dataset.listing import list_directory
from spark_arrow_ipc.dataset.sink import StagedFile, Staging, TaskOutput
from spark_arrow_ipc.errors import CommitError, ConcurrentWriteError, OptionError, UnsupportedError

APPEND, OVERWRITE = WriteMode.APPEND, WriteMode.OVERWRITE


def stage(staging, partition_id, content):
    """Stand in for a task: the commit never looks into a file."""
    attempt = uuid.uuid4().hex
    Path(staging.path(f"{attempt}.staged")).write_bytes(content)
    return StagedFile(f"{attempt}.staged", f"part-{partition_id:05d}-{attempt}.arrow", len(content), len(content), 0)


def run_task(plan, partition_id, *contents):
    return TaskOutput(plan.jobid, tuple(stage(plan.staging, partition_id, content) for content in contents))


def finish(plan, outputs):
    return commit(plan, outputs, write_empty=lambda: stage(plan.staging, 0, b"empty"))


def save(path, mode, *contents):
    plan = plan_job(str(path), mode)
    return finish(plan, [run_task(plan, i, content) for i, content in enumerate(contents)])


def rows(path):
    """Return what a reader of the directory sees."""
    return sorted(Path(file.path).read_bytes() for file in list_directory(str(path)).files)


def leftovers(path):
    return sorted(str(found.relative_to(path)) for found in path.rglob("*") if found.is_file())


@pytest.fixture
def fails(monkeypatch):
    """Make a system call fail at its n-th use, for paths that hold a text."""

    def install(name, n, text=""):
        real, count = getattr(os, name), iter(range(10**9))

        def call(path, *rest, **named):
            if text in str(path) and next(count) == n - 1:
                raise OSError(5, "Input/output error", path)
            return real(path, *rest, **named)

        monkeypatch.setattr(os, name, call)

    return install


# What a job that goes well leaves


def test_append_adds_and_overwrite_replaces(tmp_path):
    path = tmp_path / "new" / "data"
    save(path, APPEND, b"a", b"b")
    save(path, APPEND, b"c")
    assert [b"a", b"b", b"c"] == rows(path)
    save(path, OVERWRITE, b"d", b"e")
    assert [b"d", b"e"] == rows(path)
    save(path, OVERWRITE)
    assert [b"empty"] == rows(path)


@pytest.mark.parametrize("mode", WriteMode, ids=lambda mode: mode.value)
def test_after_a_commit_only_data_and_success_are_there(tmp_path, mode):
    summary = save(tmp_path, mode, b"a", b"bc")
    data = [name for name in leftovers(tmp_path) if name != "_SUCCESS"]
    assert 2 == len(data)
    assert all(name.startswith("part-0000") and name.endswith(".arrow") for name in data)
    assert (2, 3, 3, 0) == (summary.files, summary.rows, summary.nbytes, summary.removed)
    assert not (tmp_path / "_ipc_stage").exists()


def test_success_file_is_json_about_the_last_job(tmp_path):
    save(tmp_path, APPEND, b"a")
    summary = save(tmp_path, OVERWRITE, b"bcd")
    told = json.loads((tmp_path / "_SUCCESS").read_text())
    expected = {"jobid": summary.jobid, "mode": "overwrite", "files": 1, "rows": 3, "nbytes": 3, "removed": 1}
    assert {"writer": "spark-arrow-ipc", **expected} == told


def test_task_without_rows_adds_no_file(tmp_path):
    plan = plan_job(str(tmp_path), APPEND)
    finish(plan, [TaskOutput(plan.jobid), run_task(plan, 1, b"a"), TaskOutput(plan.jobid)])
    assert [b"a"] == rows(tmp_path)


def test_many_files_are_published(tmp_path):
    plan = plan_job(str(tmp_path), APPEND)
    finish(plan, [run_task(plan, i, b"%d" % i) for i in range(300)])
    assert sorted(b"%d" % i for i in range(300)) == rows(tmp_path)


def test_overwrite_leaves_what_no_reader_sees(tmp_path):
    (tmp_path / "_notes").write_text("mine")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "x").write_text("mine")
    save(tmp_path, OVERWRITE, b"a")
    assert ["_SUCCESS", "_notes", "sub/x"] == [name for name in leftovers(tmp_path) if not name.startswith("part")]


def test_plan_travels_by_pickle_and_two_jobs_share_no_id(tmp_path):
    save(tmp_path, APPEND, b"a")
    plan, other = plan_job(str(tmp_path), OVERWRITE), plan_job(str(tmp_path), OVERWRITE)
    assert plan == pickle.loads(pickle.dumps(plan))
    assert plan.jobid != other.jobid
    assert 1 == len(plan.snapshot)


def test_path_may_be_a_uri_and_links_stay_links(tmp_path):
    (tmp_path / "real dir").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real dir")
    save(f"file://{tmp_path}/real%20dir", APPEND, b"a")
    save(tmp_path / "link", APPEND, b"b")
    assert [b"a", b"b"] == rows(tmp_path / "real dir")
    assert (tmp_path / "link").is_symlink()


def test_without_durability_nothing_is_synced(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: pytest.fail("fsync was called"))
    plan = plan_job(str(tmp_path / "x"), OVERWRITE, durable=False)
    finish(plan, [run_task(plan, 0, b"a")])
    assert [b"a"] == rows(tmp_path / "x")


def test_names_are_durable_before_old_files_go(tmp_path, monkeypatch):
    """Order of the steps that a power loss could tear apart."""
    save(tmp_path, APPEND, b"old")
    plan = plan_job(str(tmp_path), OVERWRITE)
    output = run_task(plan, 0, b"new")
    steps = []
    for name in ("rename", "unlink", "replace", "rmdir"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, _n=name, _r=real, **k: (steps.append(_n), _r(*a, **k))[1])
    monkeypatch.setattr(commit_module, "sync_directory", lambda path: steps.append("sync " + Path(path).name))
    finish(plan, [output])
    data = f"sync {tmp_path.name}"
    assert [f"sync {plan.jobid}", "rename", data, "unlink", data, "replace", data] == steps[:7]


# What is refused before anything happens


def test_destination_that_is_a_file_is_named(tmp_path):
    (tmp_path / "x.arrow").write_bytes(b"")
    with pytest.raises(OptionError, match=r"x\.arrow.*written into a directory, and this is a file"):
        plan_job(str(tmp_path / "x.arrow"), APPEND)
    assert ["x.arrow"] == leftovers(tmp_path)


def test_overwrite_of_a_partitioned_directory_and_a_remote_one_are_refused(tmp_path):
    (tmp_path / "k=1").mkdir()
    with pytest.raises(UnsupportedError, match="k=1"):
        plan_job(str(tmp_path), OVERWRITE)
    with pytest.raises(UnsupportedError, match="s3"):
        plan_job("s3://bucket/x", APPEND)
    assert ["k=1"] == [found.name for found in tmp_path.iterdir()]


def staged(**changes):
    values = {"staged": "s.staged", "final": "part-0.arrow", "nbytes": 1, "rows": 1, "crc32": 0}
    return StagedFile(**{**values, **changes})


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
    ("final name leads out", lambda job: [TaskOutput(job, (staged(final="../x"),))], "no relative path"),
    ("final name is absolute", lambda job: [TaskOutput(job, (staged(final="/x/y"),))], "no relative path"),
    (
        "final name climbs in the middle",
        lambda job: [TaskOutput(job, (staged(final="a/../../x"),))],
        "no relative path",
    ),
    ("staged name leads out", lambda job: [TaskOutput(job, (staged(staged="../../x.staged"),))], "no relative path"),
    ("hidden final name", lambda job: [TaskOutput(job, (staged(final="_SUCCESS"),))], "not those of a staged"),
    ("staged name without its ending", lambda job: [TaskOutput(job, (staged(staged="x"),))], "not those of a staged"),
]


@pytest.mark.parametrize(("outputs", "text"), [case[1:] for case in UNSOUND], ids=[case[0] for case in UNSOUND])
def test_unsound_output_publishes_nothing(tmp_path, outputs, text):
    save(tmp_path, APPEND, b"old")
    plan = plan_job(str(tmp_path), OVERWRITE)
    Path(plan.staging.path("z.staged")).write_bytes(b"zzz")
    with pytest.raises(CommitError, match=text) as caught:
        finish(plan, outputs(plan.jobid))
    assert str(tmp_path) in str(caught.value)
    assert [b"old"] == rows(tmp_path)


def test_final_name_that_exists_is_never_replaced(tmp_path):
    plan = plan_job(str(tmp_path), APPEND)
    output = run_task(plan, 0, b"new")
    (tmp_path / output.files[0].final).write_bytes(b"precious")
    with pytest.raises(CommitError, match="exists already and is not replaced"):
        finish(plan, [output])
    assert [b"precious"] == rows(tmp_path)


CONFLICTS = [
    ("a file came", lambda path, _: (path / "came.arrow").write_bytes(b"came"), "came.arrow"),
    ("a file went", lambda _, old: old.unlink(), "part-00000"),
    ("a file changed", lambda _, old: old.write_bytes(b"changed"), "part-00000"),
]


@pytest.mark.parametrize(("change", "text"), [case[1:] for case in CONFLICTS], ids=[case[0] for case in CONFLICTS])
def test_overwrite_that_another_writer_overtook_publishes_nothing(tmp_path, change, text):
    save(tmp_path, APPEND, b"old")
    plan = plan_job(str(tmp_path), OVERWRITE)
    output = run_task(plan, 0, b"new")
    change(tmp_path, next(tmp_path.glob("part-*")))
    before = rows(tmp_path)
    with pytest.raises(ConcurrentWriteError, match=f"{text}.*nothing is published"):
        finish(plan, [output])
    assert () == abort(plan, [output])
    assert before == rows(tmp_path)


def test_of_two_overwrites_one_wins(tmp_path):
    save(tmp_path, APPEND, b"old")
    first, second = plan_job(str(tmp_path), OVERWRITE), plan_job(str(tmp_path), OVERWRITE)
    outputs = [run_task(first, 0, b"first")], [run_task(second, 0, b"second")]
    finish(second, outputs[1])
    with pytest.raises(ConcurrentWriteError):
        finish(first, outputs[0])
    abort(first, outputs[0])
    assert [b"second"] == rows(tmp_path)
    assert not (tmp_path / "_ipc_stage").exists()


def test_appends_side_by_side_keep_each_other(tmp_path):
    first, second = plan_job(str(tmp_path), APPEND), plan_job(str(tmp_path), APPEND)
    outputs = [run_task(first, 0, b"first")], [run_task(second, 0, b"second")]
    finish(second, outputs[1])
    finish(first, outputs[0])
    assert [b"first", b"second"] == rows(tmp_path)


# Failures


@pytest.mark.parametrize("mode", WriteMode, ids=lambda mode: mode.value)
def test_failed_job_leaves_nothing_but_old_data(tmp_path, mode):
    """Tasks finished, another one failed for good: commit is never called."""
    save(tmp_path, APPEND, b"old")
    plan = plan_job(str(tmp_path), mode)
    outputs = [run_task(plan, 0, b"new"), None]
    assert [b"old"] == rows(tmp_path)
    assert () == abort(plan, outputs)
    assert () == abort(plan, outputs)
    assert [b"old"] == rows(tmp_path)
    assert not (tmp_path / "_ipc_stage").exists()


def test_second_attempt_that_nobody_reported_dies_with_the_staging(tmp_path):
    plan = plan_job(str(tmp_path), APPEND)
    run_task(plan, 0, b"speculative copy")
    finish(plan, [run_task(plan, 0, b"reported")])
    assert [b"reported"] == rows(tmp_path)
    assert not (tmp_path / "_ipc_stage").exists()


def test_attempt_that_ends_after_the_job_finds_no_directory(tmp_path):
    plan = plan_job(str(tmp_path), APPEND)
    finish(plan, [run_task(plan, 0, b"reported")])
    with pytest.raises(FileNotFoundError):
        run_task(plan, 0, b"late")


@pytest.mark.parametrize("mode", WriteMode, ids=lambda mode: mode.value)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_commit_that_fails_half_way_says_what_is_published_and_loses_nothing(tmp_path, fails, mode, n):
    save(tmp_path, APPEND, b"old")
    plan = plan_job(str(tmp_path), mode)
    outputs = [run_task(plan, i, b"new %d" % i) for i in range(3)]
    fails("rename", n)
    with pytest.raises(CommitError) as caught:
        finish(plan, outputs)
    text = str(caught.value)
    assert f"{n - 1} of 3 new files are published" in text
    assert f"{4 - n} are not and remain staged in {plan.staging.directory}" in text
    assert ("1 of 1 old files are still there" in text) == (mode is OVERWRITE)
    assert isinstance(caught.value.__cause__, OSError)
    seen = sorted([b"old", *(b"new %d" % i for i in range(n - 1))])
    assert seen == rows(tmp_path)
    # Spark calls abort now, in another process.
    published = abort(pickle.loads(pickle.dumps(plan)), outputs)
    assert n - 1 == len(published)
    assert seen == rows(tmp_path)
    assert (4 - n if n > 1 else 0) == len([name for name in leftovers(tmp_path) if name.endswith(".staged")])


def test_old_file_that_cannot_be_removed_is_told(tmp_path, fails):
    save(tmp_path, APPEND, b"old 1", b"old 2")
    plan = plan_job(str(tmp_path), OVERWRITE)
    outputs = [run_task(plan, 0, b"new")]
    fails("unlink", 2, "part-")
    with pytest.raises(CommitError, match=r"remain beside the new ones.*1 of 1 new.*1 of 2 old files are still there"):
        finish(plan, outputs)
    assert 1 == len(abort(plan, outputs))
    assert b"new" in rows(tmp_path)


def test_old_file_that_somebody_removes_meanwhile_is_no_error(tmp_path, monkeypatch):
    save(tmp_path, APPEND, b"old")
    plan = plan_job(str(tmp_path), OVERWRITE)
    outputs = [run_task(plan, 0, b"new")]
    old = Path(plan.snapshot[0].path)
    real = os.rename
    monkeypatch.setattr(os, "rename", lambda *paths: (real(*paths), old.unlink(missing_ok=True)))
    finish(plan, outputs)
    assert [b"new"] == rows(tmp_path)


def test_abort_after_everything_is_published_removes_nothing(tmp_path, fails):
    save(tmp_path, APPEND, b"old")
    plan = plan_job(str(tmp_path), OVERWRITE)
    outputs = [run_task(plan, 0, b"new")]
    fails("replace", 1)
    with pytest.raises(CommitError, match=r"only _SUCCESS could not be written.*1 of 1 new files are published"):
        finish(plan, outputs)
    assert 1 == len(abort(plan, outputs))
    assert [b"new"] == rows(tmp_path)


def test_io_error_before_publishing_says_that_nothing_is_published(tmp_path, monkeypatch):
    plan = plan_job(str(tmp_path), APPEND)
    outputs = [run_task(plan, 0, b"new")]

    def refuse(_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(commit_module, "sync_directory", refuse)
    with pytest.raises(CommitError, match=r"could not begin.*0 of 1 new files are published"):
        finish(plan, outputs)
    assert [] == rows(tmp_path)


def test_staging_that_cannot_be_removed_does_not_fail_the_job(tmp_path, monkeypatch, caplog):
    def refuse(*_):
        raise OSError(39, "Directory not empty")

    plan = plan_job(str(tmp_path), APPEND)
    monkeypatch.setattr(commit_module.shutil, "rmtree", refuse)
    finish(plan, [run_task(plan, 0, b"a")])
    assert [b"a"] == rows(tmp_path)
    assert "could not be removed" in caplog.text


KILLED = """
import os, signal, sys
from spark_arrow_ipc.arrow import RecordBatch, Schema, types
from spark_arrow_ipc.arrow.types import field
from spark_arrow_ipc.dataset import commit as module
from spark_arrow_ipc.dataset.job import WriteMode, plan_job
from spark_arrow_ipc.dataset.sink import write_task
path, where = sys.argv[1:]
die = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
schema = Schema.of([field("a", types.int64)])
batch = RecordBatch.from_pydict({"a": list(range(1000))}, schema)
def batches():
    yield batch
    if where == "task":
        die()
plan = plan_job(path, WriteMode.OVERWRITE)
outputs = [write_task(plan.staging, batches(), schema, partition_id=i) for i in range(3)]
if where == "before commit":
    die()
real, left = os.rename, iter(range(100))
def rename(*paths):
    if next(left) == (0 if where == "first rename" else 2):
        die()
    real(*paths)
os.rename = rename
if where == "before old files go":
    os.rename = real
    module._remove_snapshot = die
module.commit(plan, outputs, write_empty=die)
"""

KILLS = [
    # where, new files that are visible afterwards
    ("task", 0),
    ("before commit", 0),
    ("first rename", 0),
    ("third rename", 2),
    ("before old files go", 3),
]


@pytest.mark.parametrize(("where", "visible"), KILLS, ids=[case[0] for case in KILLS])
def test_kill_never_loses_old_data_and_never_shows_half_a_file(tmp_path, where, visible):
    pa = pytest.importorskip("pyarrow")
    save(tmp_path, APPEND, b"old")
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), where],
        env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert -signal.SIGKILL == done.returncode, done.stderr
    files = [Path(file.path) for file in list_directory(str(tmp_path)).files]
    new = [path for path in files if path.read_bytes() != b"old"]
    assert (1, visible) == (len(files) - len(new), len(new))
    assert all(1000 == pa.ipc.open_file(path).read_all().num_rows for path in map(str, new))
    # The next job is not disturbed by what the killed one left, and does not publish it.
    save(tmp_path, OVERWRITE, b"next")
    assert [b"next"] == rows(tmp_path)


def test_staging_names_its_paths():
    staging = Staging("/data", "j")
    assert ("/data/_ipc_stage/j", "/data/_ipc_stage/j/x") == (staging.directory, staging.path("x"))


def test_failure_among_many_files_is_counted_rightly(tmp_path, fails):
    """Renames run side by side: what the error says is what lies there."""
    plan = plan_job(str(tmp_path), APPEND)
    outputs = [run_task(plan, i, b"%d" % i) for i in range(300)]
    fails("rename", 100)
    with pytest.raises(CommitError) as caught:
        finish(plan, outputs)
    seen = rows(tmp_path)
    assert 99 <= len(seen) < 300
    assert f"{len(seen)} of 300 new files are published" in str(caught.value)
    assert len(seen) == len(abort(plan, outputs))
    assert 300 - len(seen) == len(list(Path(plan.staging.directory).iterdir()))
