"""Jobs for tests of the commit: tasks that write a few bytes, readers of both kinds, and processes that die."""

import itertools
import uuid
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from job_plans import plan_job

from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory, StagedFile
from spark_arrow_ipc.dataset.commit_log.log import newest_record
from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.dataset.write import WriteMode
from spark_arrow_ipc.dataset.write.commit import commit
from spark_arrow_ipc.dataset.write.existing_files import live_files
from spark_arrow_ipc.dataset.write.roll_forward import CommitSummary
from spark_arrow_ipc.dataset.write.task import TaskOutput
from spark_arrow_ipc.storage import failpoint
from spark_arrow_ipc.storage.local import LOCAL

APPEND, OVERWRITE, DYNAMIC, REWRITE = WriteMode


def dataset(path):
    return DatasetDirectory(LOCAL, str(path))


def stage(plan, content, directory="", partition_id=0):
    """Stand in for a task: the commit never looks into a file."""
    attempt = uuid.uuid4().hex
    with plan.staging.storage.create(plan.staging.path(f"{attempt}.staged")) as file:
        file.write(content)
    final = f"{directory}/part-{partition_id:05d}-{attempt}.arrow".lstrip("/")
    return StagedFile(f"{attempt}.staged", final, len(content), len(content), 0)


def run_tasks(plan, *contents):
    """Return the output of one task for each content; ``k=1:text`` goes to the partition ``k=1``."""
    outputs = []
    for i, content in enumerate(contents):
        directory, _, text = content.rpartition(":")
        outputs.append(TaskOutput(plan.staging.jobid, (stage(plan, text.encode(), directory, i),)))
    return outputs


def finish(plan, outputs):
    return commit(plan, outputs, write_empty=lambda: stage(plan, b"empty"))


def planned(path, mode, *contents, **options):
    """Return a job whose tasks are done, and their outputs."""
    plan = plan_job(str(path), mode, **options)
    return plan, run_tasks(plan, *contents)


def save(path, mode, *contents, **options):
    plan = plan_job(str(path), mode, **options)
    return finish(plan, run_tasks(plan, *(() if plan.skip else contents)))


def save_files(path, files):
    """Publish whole files as one job: pairs of a partition's directory (or nothing) and the bytes of a file."""
    plan = plan_job(str(path), APPEND)
    staged = (stage(plan, content, directory, i) for i, (directory, content) in enumerate(files))
    finish(plan, [TaskOutput(plan.staging.jobid, (file,)) for file in staged])


def last_summary(path):
    """Return what the newest record says of its job."""
    return CommitSummary.of(newest_record(dataset(path))[1])


def texts(root, files):
    """Return what lies in files, behind the name of its partition."""
    found = []
    for path, opened in files:
        directory = str(Path(path).relative_to(root).parent)
        found.append(Path(opened).read_text() if directory == "." else f"{directory}:{Path(opened).read_text()}")
    return sorted(found)


def ours(root):
    """Return what a reader of this package sees, which looks into a pending record."""
    files = list_tree([str(root)]).all_files()
    there = [(file.path, file.path if Path(file.path).exists() else file.staged) for file in files]
    return texts(root, there)


def foreign(root):
    """Return what another reader sees, which lists the directory."""
    return texts(root, [(f"{root}/{file.path}",) * 2 for file in live_files(dataset(root))])


def leftovers(path):
    """Return what is there besides data, _SUCCESS and records."""
    files = [found.relative_to(path) for found in path.rglob("*") if found.is_file()]
    others = [str(name) for name in files if not name.name.startswith("part-") and str(name) != "_SUCCESS"]
    staging = ["_ipc_stage"] if (path / "_ipc_stage").exists() else []
    return sorted([name for name in others if not name.startswith("_ipc_commits/0")] + staging)


class Died(BaseException):
    """Stands for the end of a process: nothing catches it to clean up."""


@contextmanager
def dying(point, nth=1):
    """Let what runs inside die at a failpoint; fail where it does not get there."""
    passages = iter(range(1, 1_000_000))

    def hit(name):
        if name == point and next(passages) == nth:
            raise Died

    try:
        with mock.patch.object(failpoint, "hit", hit):
            yield
    except Died:
        return
    raise AssertionError(f"{point} was not passed {nth} times")


@contextmanager
def failing(text):
    """Let what runs inside meet the fault of a failpoint."""
    with mock.patch.object(failpoint, "hit", failpoint.Failpoint.parse(text).hit):
        yield


def interrupted(point, action):
    """Do something once, when a failpoint is passed."""
    passages = itertools.count()

    def hit(name):
        if name == point and not next(passages):
            action()

    return mock.patch("spark_arrow_ipc.storage.failpoint.hit", hit)


@contextmanager
def failing_always(point):
    """Let what runs inside meet an error each time that it passes a failpoint."""

    def hit(name):
        if name == point:
            raise OSError(5, "Input/output error")

    with mock.patch.object(failpoint, "hit", hit):
        yield
