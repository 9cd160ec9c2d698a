"""`Place`: a dataset's directory in any storage, with jobs that write a few bytes and readers of both kinds.

`PLACES` has the storages: each entry makes two places that nobody uses, a context manager for those that need a server.
"""

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import pytest
from commit_jobs import foreign, ours, stage
from copying_storage import CopyingStorage
from fault_server import fault_server
from job_plans import plan_job
from memory_storage import MemoryStorage

from spark_arrow_ipc.dataset.write.commit import commit
from spark_arrow_ipc.dataset.write.task import TaskOutput
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.open import storage_of
from spark_arrow_ipc.storage.paths import join, parent, relative
from spark_arrow_ipc.storage.storage import Kind, Storage
from spark_arrow_ipc.table.copy import copy_table
from spark_arrow_ipc.table.log import read_state
from spark_arrow_ipc.table.names import TableDirectory
from spark_arrow_ipc.table.snapshot import list_data_files


@dataclass
class Place:
    """A directory of a storage."""

    storage: Storage
    root: str

    @property
    def table(self):
        return TableDirectory(self.storage, self.root)

    @property
    def state(self):
        """The newest state of the log."""
        return read_state(self.table)

    def planned(self, mode, *texts, **options):
        """Return a job whose tasks are done, and their outputs; ``k=1:text`` goes to the partition ``k=1``."""
        plan = plan_job(self.root, mode, storage=self.storage, **options)
        return plan, [] if plan.skip else [self.staged(plan, number, text) for number, text in enumerate(texts)]

    def staged(self, plan, number, text):
        directory, _, text = text.rpartition(":")
        return TaskOutput(plan.staging.jobid, (stage(plan, text.encode(), directory, number),))

    def save(self, mode, *texts, **options):
        return commit(*self.planned(mode, *texts, **options), write_empty=None)

    def put(self, name, text):
        """Write a file as a program does that knows no log."""
        self.storage.make_directory(parent(join(self.root, name)))
        self.storage.put(join(self.root, name), text.encode())

    def read(self, path):
        return self.storage.read(path, 1 << 20).decode()

    def copied_to(self, target):
        return copy_table(self.table, target.table)

    def names(self, directory=None):
        """The relative paths of all files, hidden or not."""
        found = []
        for status in self.storage.list(self.root if directory is None else directory):
            if status.kind is Kind.DIRECTORY:
                found += self.names(status.path)
            else:
                found.append(relative(status.path, self.root))
        return sorted(found)

    def contents(self):
        """All files, hidden or not, with what is in them."""
        return {name: self.storage.read(join(self.root, name), 1 << 20) for name in self.names()}

    def ours(self):
        """What a reader of this package sees, behind the name of its partition."""
        return ours(self.root, self.storage)

    def plain(self):
        """What a reader sees that only lists."""
        return foreign(self.root, self.storage)

    def leftovers(self):
        """What is there beside data, _SUCCESS and the log."""
        data = list_data_files(self.table)
        return [
            name
            for name in self.names()
            if name not in data and name != "_SUCCESS" and not name.startswith("_ipc_log/")
        ]


@contextmanager
def local(folder):
    yield Place(LOCAL, f"{folder}/source"), Place(LOCAL, f"{folder}/target")


@contextmanager
def copying(folder):
    yield Place(CopyingStorage(), f"{folder}/source"), Place(CopyingStorage(), f"{folder}/target")


@contextmanager
def memory(_):
    storage = MemoryStorage()
    yield Place(storage, "memory:/source"), Place(storage, "memory:/target")


@contextmanager
def copying_memory(_):
    storage = MemoryStorage(renames=False)
    yield Place(storage, "memory:/source"), Place(storage, "memory:/target")


@contextmanager
def s3(_):
    with fault_server() as server:
        storage, _ = storage_of(server.url, tuple(server.options.items()))
        yield Place(storage, f"{server.url}/source"), Place(storage, f"{server.url}/target")


PLACES = {"local": local, "memory": memory, "memory that copies": copying_memory, "copying": copying, "s3": s3}

CORE = [("local", "local"), ("s3", "s3"), ("local", "s3")]
OTHERS = [("memory", "memory"), ("memory that copies", "memory that copies"), ("copying", "copying"), ("s3", "local"),
          ("copying", "local"), ("local", "memory")]  # fmt: skip
WAYS = [*CORE, *(pytest.param(way, marks=pytest.mark.exhaustive) for way in OTHERS)]
"""The storages of a source and a target."""


@contextmanager
def two_places(way, folder):
    """A source and a target, of one storage or of two."""
    with ExitStack() as stack:
        found = {kind: stack.enter_context(PLACES[kind](folder / kind)) for kind in dict.fromkeys(way)}
        yield found[way[0]][0], found[way[1]][1]
