"""Jobs for tests of the commit: tasks that write a few bytes, readers of both kinds, and processes that die."""

import itertools
import uuid
import zlib
from contextlib import contextmanager
from unittest import mock

from job_plans import plan_job

from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.dataset.write import WriteMode
from spark_arrow_ipc.dataset.write.commit import commit
from spark_arrow_ipc.dataset.write.staged_file import WrittenFile
from spark_arrow_ipc.dataset.write.task import TaskOutput
from spark_arrow_ipc.storage import failpoint
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.paths import parent, relative
from spark_arrow_ipc.table.log import read_entry, read_state
from spark_arrow_ipc.table.names import TableDirectory
from spark_arrow_ipc.table.snapshot import list_data_files

APPEND, OVERWRITE, DYNAMIC, REWRITE = list(WriteMode)[:4]


def table(path):
    return TableDirectory(LOCAL, str(path))


def stage(plan, content, directory="", task=0, suffix=".arrow"):
    """Stand in for a task: the commit never looks into a file."""
    name = f"{uuid.uuid4().hex}.staged"
    with plan.staging.storage.create(plan.staging.file(name)) as file:
        file.write(content)
    crc32 = zlib.crc32(content[-(64 << 10) :])
    return WrittenFile(name, directory, task, suffix, len(content), len(content), crc32, {})


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
    return plan, [] if plan.skip else run_tasks(plan, *contents)


def save(path, mode, *contents, **options):
    return finish(*planned(path, mode, *contents, **options))


def save_files(path, files):
    """Publish files as one job: pairs of a partition's directory (or nothing) and the bytes of a file."""
    plan = plan_job(str(path), APPEND)
    written = (stage(plan, content, directory, i) for i, (directory, content) in enumerate(files))
    finish(plan, [TaskOutput(plan.staging.jobid, (file,)) for file in written])


def newest_entry(path):
    """Return the newest entry of a table's log."""
    directory = table(path)
    state = read_state(directory)
    return read_entry(directory, state.table, state.number)


def ours(root, storage=LOCAL):
    """Return the texts that a reader of this package sees, each behind its partition."""
    texts = []
    for file in list_tree([str(root)], storage=storage).all_files():
        source = file.open(storage)
        texts.append((relative(file.path, str(root)), bytes(source.read_at(0, source.nbytes)).decode()))
    return sorted(f"{parent(path)}:{text}".lstrip(":") for path, text in texts)


def foreign(root, storage=LOCAL):
    """Return the texts in all files that a program lists which knows no log, each behind its partition."""
    directory = TableDirectory(storage, str(root))
    paths = list_data_files(directory)
    return sorted(
        f"{parent(path)}:{storage.read(directory.path(path), 1 << 20).decode()}".lstrip(":") for path in paths
    )


def leftovers(path):
    """Return the files beside data, _SUCCESS, the log and what it retains."""
    names = [str(name.relative_to(path)) for name in path.rglob("*") if name.is_file()]
    data = list_data_files(table(path))
    others = [
        name
        for name in names
        if name not in data and name != "_SUCCESS" and not name.startswith(("_ipc_log/", "_ipc_replaced/"))
    ]
    return sorted(others + ["_ipc_stage"] * (path / "_ipc_stage").exists())


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
