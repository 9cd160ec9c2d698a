"""What a power loss cannot bring back, on a disk where deletions are not durable before their directory is synced."""

import random
from contextlib import suppress

import pytest
from simulated_storage import SimulatedStorage
from table_jobs import Died

from spark_arrow_ipc.storage.paths import join
from spark_arrow_ipc.table import collect
from spark_arrow_ipc.table.entry import Entry, Operation, Removed
from spark_arrow_ipc.table.files import StagedFile
from spark_arrow_ipc.table.names import TableDirectory, data_file_name, managed_name
from spark_arrow_ipc.table.snapshot import Snapshot, removal_of
from spark_arrow_ipc.table.transaction import Transaction
from spark_arrow_ipc.table.vacuum import vacuum


class Disk:
    """A table on a simulated disk; `on_created` and `on_deleted` get each path as it is carried out."""

    def __init__(self):
        self.on_created = self.on_deleted = lambda path: None
        self.storage = SimulatedStorage(random.Random(1), is_store=False, observer=self)
        self.directory = TableDirectory(self.storage, "sim:/t")

    def created(self, _, path, file):
        self.on_created(path)

    def deleted(self, _, path, file, *, moved):
        if moved is None:
            self.on_deleted(path)

    def may_return(self):
        """The names of data files that a power loss may bring back."""
        return {path for path in self.storage.durable.keys() - self.storage.files.keys() if "/_ipc_" not in path}

    def named(self):
        """Return a job whose file has its final name."""
        job = Transaction.begin(self.directory)
        self.storage.put(join(self.directory.staging(job.job), "0.staged"), b"a")
        job.name_files([StagedFile("0.staged", "k=1", data_file_name(0, job.table, job.job), 1, 1, 0)])
        return job

    def overwrite(self, *, collects=True):
        """Replace all files."""
        snapshot, job = Snapshot.open(self.directory), self.named()
        removed = [Removed(path, status.nbytes) for path, status in snapshot.managed.items()]
        removed += [removal_of(self.directory, path, status) for path, status in snapshot.unmanaged.items()]
        job.commit(lambda _: Entry(0, "", Operation.OVERWRITE, remove=tuple(removed)))
        if collects:
            job.collect()

    def die_when_deleted(self, is_last, act):
        """Do something in a process that dies when it has deleted a file, before it makes that durable."""

        def die(path):
            if is_last(path):
                raise Died

        self.on_deleted = die
        with suppress(Died):
            act()
        self.on_deleted = lambda path: None


ENDS = {
    "vacuum": lambda disk, job: vacuum(disk.directory, older_than=-1e10),
    "abort": lambda disk, job: Transaction(disk.directory, job.table, job.base, job.job).abort(may_be_committed=True),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_files_that_another_process_deleted_are_gone_for_good_before_the_mark_goes(end):
    disk = Disk()
    job = disk.named()
    disk.die_when_deleted(lambda path: managed_name(path) is not None, lambda: end(disk, job))
    assert disk.may_return(), "the deletion is not durable yet"
    at_mark = []
    disk.on_deleted = lambda path: at_mark.append(disk.may_return()) if path == disk.directory.mark(job.job) else None
    end(disk, job)
    assert [set()] == at_mark


@pytest.mark.parametrize("name", ["k=1/other.arrow", None], ids=["of another program", "managed"])
def test_files_that_another_process_deleted_are_gone_for_good_before_their_tombstones_close(name):
    """The other process is a collector that dies before it syncs."""
    disk = Disk()
    if name is None:
        disk.overwrite()
    else:
        disk.storage.place(disk.directory.path(name), b"old")
    disk.overwrite(collects=False)
    state = Snapshot.open(disk.directory).state
    (removed,) = state.tombstones
    disk.die_when_deleted(lambda path: path.endswith(removed.path), lambda: collect.collect(disk.directory, state))
    assert disk.may_return()
    assert [removed] == [*collect.collect(disk.directory, state)], "what may be closed"
    assert set() == disk.may_return()


def test_the_id_of_a_table_and_an_entry_are_there_for_good_when_a_step_is_done():
    disk = Disk()
    job = disk.named()
    assert disk.directory.id_file in disk.storage.durable
    job.commit(lambda _: Entry(0, "", Operation.APPEND))
    assert disk.directory.entry(job.table, 1) in disk.storage.durable


def test_an_entry_of_a_process_that_died_is_there_for_good_before_others_rest_on_it():
    """Before the next one is put, and before what it removed is deleted."""
    disk = Disk()
    disk.overwrite()
    state = Snapshot.open(disk.directory).state
    second = disk.directory.entry(state.table, 2)

    def die(path):
        if path == second:
            raise Died

    disk.on_created = die
    with suppress(Died):
        disk.overwrite()
    assert second not in disk.storage.durable
    durable = []
    disk.on_created = lambda path: durable.append(second in disk.storage.durable) if path.endswith(".json") else None
    disk.on_deleted = lambda path: durable.append(second in disk.storage.durable)
    collect.collect(disk.directory, Snapshot.open(disk.directory).state)
    assert [True] == durable
    disk.storage.durable.pop(second)
    disk.named().commit(lambda _: Entry(0, "", Operation.APPEND))
    assert [True, True] == durable
