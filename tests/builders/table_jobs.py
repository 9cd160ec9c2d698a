"""Jobs of a table in every mode, as a writer runs them, and what both kinds of readers see of their rows.

Tasks write files of one column with the writer of this package (`write_task`); the rest is a `Transaction`. Rows are read
with pyarrow: by the snapshot (`see`), and from all files that a program finds which lists the directory (`foreign`).
"""

from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.dataset as ds

from spark_arrow_ipc.arrow import RecordBatch, Schema, types
from spark_arrow_ipc.arrow.types import field
from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory
from spark_arrow_ipc.dataset.write.staged_file import SinkOptions, Staging
from spark_arrow_ipc.dataset.write.task import write_task
from spark_arrow_ipc.errors import ArrowIpcError, ConcurrentWriteError
from spark_arrow_ipc.storage import failpoint
from spark_arrow_ipc.storage.paths import parent
from spark_arrow_ipc.table.entry import Entry, Operation, Removed
from spark_arrow_ipc.table.log import create_table, read_state
from spark_arrow_ipc.table.names import data_file_name
from spark_arrow_ipc.table.restore import restore
from spark_arrow_ipc.table.snapshot import Snapshot, list_data_files, removal_of
from spark_arrow_ipc.table.state import State
from spark_arrow_ipc.table.transaction import Phase, StagedFile, Transaction, UnknownOutcomeError

APPEND, OVERWRITE, DYNAMIC, REWRITE = (
    Operation.APPEND,
    Operation.OVERWRITE,
    Operation.OVERWRITE_PARTITIONS,
    Operation.REWRITE,
)
RESTORE = Operation.RESTORE
MODES = (APPEND, OVERWRITE, DYNAMIC, REWRITE, RESTORE)
SCHEMA = Schema.of([field("id", types.int64)])
OPTIONS = SinkOptions(record_batch_rows=10)


# ---- a job


class Job:
    """A job whose tasks have run."""

    def __init__(self, directory, mode, files, *, retain=False, restored=1):
        """Begin it and run a task for each of `files`: pairs of a partition and ids; a rewrite writes what it reads."""
        self.directory, self.mode, self.retain, self.restored = directory, mode, retain, restored
        self.transaction = self.staged = self.removes = None
        self.files = files
        if mode is RESTORE:
            return
        self.snapshot = Snapshot.open(directory)
        self.base = self.snapshot.state or State(create_table(directory))
        self.transaction = Transaction.begin(directory, base=self.base)
        self.removes = self._chosen({partition for partition, _ in files})
        if mode is REWRITE:
            ids = {}
            for removed in self.removes:
                ids.setdefault(parent(removed.path), []).extend(ids_of(directory, removed.path))
            self.files = sorted(ids.items())
        self.staged = [self._stage(number, *file) for number, file in enumerate(self.files)]

    def _chosen(self, partitions):
        snapshot = self.snapshot
        is_replaced = {APPEND: lambda _: False, DYNAMIC: lambda path: parent(path) in partitions}
        replaced = is_replaced.get(self.mode, lambda _: True)
        managed = dict(zip(self.base.files.paths, self.base.files.nbytes.tolist(), strict=True))
        chosen = {path for path in (*managed, *snapshot.unmanaged) if replaced(path)}
        removes = [Removed(path, nbytes) for path, nbytes in managed.items() if path in chosen]
        unmanaged = ((path, status) for path, status in snapshot.unmanaged.items() if path in chosen)
        return [*removes, *(removal_of(self.directory, path, status) for path, status in unmanaged)]

    def _stage(self, task, partition, ids):
        job = self.transaction
        batch = RecordBatch.from_pydict({"id": ids}, SCHEMA)
        output = write_task(
            Staging(DatasetDirectory(self.directory.storage, self.directory.root), job.job),
            [batch],
            SCHEMA,
            partition_id=task,
            options=OPTIONS,
        )
        (file,) = output.files
        name = data_file_name(task, job.table, job.job)
        return StagedFile(file.staged, partition, name, file.nbytes, file.rows, file.crc32)

    def commit(self):
        """Commit it and clean up; return whether it is this call that committed the rows."""
        if self.mode is RESTORE:
            restore(self.directory, self.restored)
            return True
        self.transaction.name_files(self.staged)
        change = Entry(
            0,
            "",
            self.mode,
            remove=tuple(self.removes),
            retain=self.retain and bool(self.removes),
        )
        self.transaction.commit(partial(self._follow, change))
        if self.transaction.phase is not Phase.COMMITTED:
            self.transaction.abort()
            return False
        with suppress(OSError, ArrowIpcError):  # vacuum does what is left
            self.transaction.collect()
        return True

    def abort(self):
        return self.transaction.abort()

    def _follow(self, change, now):
        """Return the entry; raise if a job that replaces others' files has not seen all of them."""
        base = self.base
        if self.mode in (OVERWRITE, DYNAMIC) and now.last_removal > base.number:
            raise ConcurrentWriteError("others removed files meanwhile; nothing is published", path=self.directory.root)
        partitions = {file.directory for file in self.staged}
        before, after = ({p for p in state.files.paths if parent(p) in partitions} for state in (base, now))
        if self.mode is DYNAMIC and before != after:
            raise ConcurrentWriteError(
                "others changed these partitions meanwhile; nothing is published", path=self.directory.root
            )
        return change


def write(directory, mode, files=(), **options):
    """Run a job as Spark does, with an abort after an error, and return its outcome."""
    job = None
    try:
        job = Job(directory, mode, files, **options)
        return "committed" if job.commit() else "token"
    except UnknownOutcomeError:
        return "unknown"
    except (ArrowIpcError, OSError):
        try:
            if job is None or job.transaction is None or job.abort():
                return "nothing"
        except (ArrowIpcError, OSError):
            return "unknown"
        return "committed"


# ---- what readers see


def ids_of(directory, path):
    """Return the ids in a file, as pyarrow reads them."""
    data = directory.storage.read(directory.path(path), 1 << 24)
    with pa.ipc.open_file(data) as reader:
        return reader.read_all()["id"].to_pylist()


def see(directory):
    """Return the ids of each partition in the newest snapshot, sorted."""
    snapshot = Snapshot.open(directory)
    return _by_partition(
        directory, [*(() if snapshot.state is None else snapshot.state.files.paths), *snapshot.unmanaged]
    )


def foreign(directory):
    """Return the ids of each partition in all files that a program lists which knows no log: pyarrow, on a disk."""
    if not Path(directory.root).is_dir():
        return _by_partition(directory, list_data_files(directory))
    rows = {}
    for fragment in ds.dataset(directory.root, format="ipc").get_fragments():
        partition = parent(str(Path(fragment.path).relative_to(directory.root)))
        rows.setdefault(partition, []).extend(fragment.to_table()["id"].to_pylist())
    return {partition: sorted(ids) for partition, ids in rows.items()}


def _by_partition(directory, paths):
    rows = {}
    for path in paths:
        rows.setdefault(parent(path), []).extend(ids_of(directory, path))
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
    """Return what is there beside data files, the log and what is retained."""
    paths, level = [], [directory.root]
    while level:
        for status in directory.storage.list(level.pop()):
            if status.path in (directory.log, directory.path("_ipc_replaced")):
                continue
            (level if status.kind.name == "DIRECTORY" else paths).append(status.path)
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
