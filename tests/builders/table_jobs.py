"""Jobs of a table in every mode, as a writer runs them, and what both kinds of readers see of their rows.

A job is planned, its tasks write files of one column, and it is committed, by the functions that Spark's writer calls. Rows are
read with pyarrow: by the snapshot (`see`), and from all files that a program finds which lists the directory (`foreign`).
"""

import json
import os
import re
import signal
import traceback
from contextlib import contextmanager
from unittest import mock

import pyarrow as pa
import pyarrow.dataset as ds

from spark_arrow_ipc.arrow import RecordBatch, Schema, types
from spark_arrow_ipc.arrow.types import field
from spark_arrow_ipc.dataset.listing.globs import escape
from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.dataset.write import WriteMode
from spark_arrow_ipc.dataset.write.commit import abort, commit
from spark_arrow_ipc.dataset.write.job_plan import CommitIntent, plan_job
from spark_arrow_ipc.dataset.write.staged_file import SinkOptions
from spark_arrow_ipc.dataset.write.task import write_task
from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.storage import failpoint
from spark_arrow_ipc.storage.paths import name_of, parent, relative
from spark_arrow_ipc.table.entry import Operation
from spark_arrow_ipc.table.log import read_state
from spark_arrow_ipc.table.restore import restore
from spark_arrow_ipc.table.snapshot import list_data_files

APPEND, OVERWRITE, DYNAMIC, REWRITE = list(WriteMode)[:4]
RESTORE = Operation.RESTORE
MODES = (*WriteMode, RESTORE)
SCHEMA = Schema.of([field("id", types.int64)])
PARTITION_BY = (field("k", types.utf8),)
OPTIONS = SinkOptions(record_batch_rows=10)


# ---- a job


class Job:
    """A job whose tasks have run."""

    def __init__(self, directory, mode, files, *, restored=1, choose=None, **intent):
        """Plan it and run a task for each of `files`: pairs of a partition and ids; a rewrite writes what it reads."""
        self.directory, self.mode, self.restored = directory, mode, restored
        self.plan = None
        if mode is RESTORE:
            return
        storage, root = directory.storage.inside(None), directory.root
        intent = CommitIntent(mode, partition_by=PARTITION_BY, **intent)
        self.plan = plan_job(root, intent, storage=storage, choose=choose)
        try:
            files = self._read() if mode is REWRITE else files
            self.outputs = [] if self.plan.skip else [self._stage(task, *file) for task, file in enumerate(files)]
        except Exception:
            self.abort()
            raise

    def _read(self):
        ids = {}
        for file in self.plan.intent.snapshot:
            ids.setdefault(parent(file.path), []).extend(ids_of(self.directory, self.directory.path(file.path)))
        return sorted(ids.items())

    def _stage(self, task, partition, ids):
        batch = RecordBatch.from_pydict({"id": ids}, SCHEMA)
        return write_task(self.plan.staging, [batch], SCHEMA, partition_id=task, options=OPTIONS, directory=partition)

    def commit(self):
        """Commit it and clean up; return whether it is this call that committed the rows."""
        if self.mode is RESTORE:
            restore(self.directory, self.restored)
            return True
        return commit(self.plan, self.outputs, write_empty=None, fits=lambda _: True).published

    def abort(self):
        return abort(self.plan)


def write(directory, mode, files=(), *, on_staged=lambda: None, **options):
    """Run a job as Spark does, with an abort after an error; return its outcome and the error, or None."""
    job = None
    try:
        job = Job(directory, mode, files, **options)
        on_staged()
        return "committed" if job.commit() else "nothing", None
    except (ArrowIpcError, OSError) as error:
        if job is None or job.plan is None or job.abort():
            return "nothing", error
        state = read_state(directory)
        ended = None if state is None else state.ended.get(job.plan.staging.jobid)
        return "committed" if ended is not None and ended.is_committed else "unknown", error


# ---- what readers see


def ids_of(directory, path):
    """Return the ids in a file, as pyarrow reads them."""
    data = directory.storage.read(path, 1 << 24)
    with pa.ipc.open_file(data) as reader:
        return reader.read_all()["id"].to_pylist()


def see(directory):
    """Return the ids of each partition that a reader of this package sees, sorted."""
    tree = list_tree([escape(directory.root)], storage=directory.storage.inside(None))
    return _by_partition(directory, [file.path for file in tree.all_files()])


def foreign(directory, filesystem=None):
    """Return the ids of each partition in all files that a program lists which knows no log: pyarrow, but in memory."""
    root = directory.root
    if directory.root.startswith("memory:"):
        return _by_partition(directory, map(directory.path, list_data_files(directory)))
    rows, root = {}, root if filesystem is None else root.partition("://")[2]
    for fragment in ds.dataset(root, format="ipc", filesystem=filesystem).get_fragments():
        partition = parent(fragment.path.removeprefix(root + "/"))
        rows.setdefault(partition, []).extend(fragment.to_table()["id"].to_pylist())
    return {partition: sorted(ids) for partition, ids in rows.items()}


def _by_partition(directory, paths):
    rows = {}
    for path in paths:
        rows.setdefault(parent(relative(path, directory.root)), []).extend(ids_of(directory, path))
    return {partition: sorted(ids) for partition, ids in rows.items()}


def after(view, mode, files, *, restored=None):
    """Return what readers see after a job, by what they saw before it; `restored` is what a restore brings back."""
    if mode is REWRITE:
        return view
    new = {}
    for partition, ids in restored.items() if mode is RESTORE else files:
        new.setdefault(partition, []).extend(ids)
    stays = {
        APPEND: lambda _: True,
        DYNAMIC: lambda partition: partition not in new,
    }.get(mode, lambda _: False)
    rows = {partition: list(ids) for partition, ids in view.items() if stays(partition)}
    for partition, ids in new.items():
        rows.setdefault(partition, []).extend(ids)
    return {partition: sorted(ids) for partition, ids in rows.items()}


def drop(directory, path, ids):
    """Write a file as another program does, and return its ids."""
    sink = pa.BufferOutputStream()
    table = pa.table({"id": pa.array(ids, pa.int64())})
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    directory.storage.make_directory(parent(directory.path(path)))
    directory.storage.put(directory.path(path), sink.getvalue().to_pybytes())
    return ids


def left(directory):
    """Return what is there beside data files, the log, _SUCCESS and what is retained."""
    paths, level = [], [directory.root]
    while level:
        for status in directory.storage.list(level.pop()):
            if status.path in map(directory.path, ("_ipc_log", "_ipc_replaced", "_SUCCESS", "_ipc_stage/probe")):
                continue
            (level if status.kind.name == "DIRECTORY" else paths).append(status.path)
    # What a process leaves that dies while it puts an entry.
    for status in directory.storage.list(directory.log):
        if status.kind.name == "DIRECTORY":
            names = [entry.path for entry in directory.storage.list(status.path)]
            paths += [path for path in names if not re.fullmatch(r"\d{20}\.(json|checkpoint)", name_of(path))]
    data = {directory.path(path) for path in list_data_files(directory)}
    return sorted(path.removeprefix(directory.root + "/") for path in paths if path not in data)


def number_of(directory):
    """Return the number of the newest entry."""
    state = read_state(directory)
    return 0 if state is None else state.number


# ---- accidents


class Died(BaseException):
    """Stands for the end of a process: nothing catches it to clean up."""


@contextmanager
def at(point, act, nth=1):
    """Do something when a failpoint is passed for the n-th time, once; yields a list that is not empty after that."""
    passed = []

    def hit(name):
        passed.extend([name] * (name == point))
        if name == point and len(passed) == nth:
            done.append(name)
            act()

    done = []
    with mock.patch.object(failpoint, "hit", hit):
        yield done


def die():
    raise Died


# ---- processes


def forked(function, spec=None):
    """Run a function in a child with a failpoint armed, and return its process id."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        if spec is not None:
            failpoint.hit = failpoint.Failpoint.parse(spec).hit
        function()
        status = 0
    except BaseException:  # noqa: BLE001  # the child must end here, whatever it is
        traceback.print_exc()
    finally:
        os._exit(status)


def is_killed(pid):
    """Wait for a child, and return whether it was killed; anything but that and success is a failure of the test."""
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, -signal.SIGKILL), f"a child ended with the status {code}"
    return code != 0


# ---- what the log says, by the JSON of its entries


class History:
    """The managed files after each entry, the committed jobs, and the versions of other programs' files that they removed.

    Raises where an entry does not fit those before it.
    """

    def __init__(self, directory):
        log = json.loads(directory.storage.read(directory.id_file, 1 << 10))
        paths = [status.path for status in directory.storage.list(directory.entries(log["table"]))]
        paths = sorted(path for path in paths if re.fullmatch(r"\d{20}\.json", name_of(path)))
        self.entries = [json.loads(directory.storage.read(path, 1 << 26)) for path in paths]
        assert [*range(1, len(paths) + 1)] == [entry["number"] for entry in self.entries], "entries are missing"
        self.states, self.jobs, self.removed = [{}], {}, {}
        previous, expired = "", set()
        for entry in self.entries:
            assert previous == entry["previous"], "an entry does not name the one before it"
            previous, live = entry["id"], dict(self.states[-1])
            expired |= {*entry.get("expire", ())} - self.jobs.keys()
            if "job" in entry and entry["job"] not in expired:
                assert entry["job"] not in self.jobs, "a job counts twice"
                self.jobs[entry["job"]] = entry
                removed = entry.get("remove", {"path": []})
                versions = removed.get("version", [""] * len(removed["path"]))
                for path, version in zip(removed["path"], versions, strict=True):
                    if version:
                        self.removed.setdefault(path, []).append(version)
                    else:
                        assert live.pop(path, None) is not None, f"{path} is removed twice: its rows come twice"
                added = entry.get("add", {"path": [], "rows": []})
                live |= dict(zip(added["path"], added["rows"], strict=True))
            self.states.append(live)
