"""A stream of a table, and writers, over a memory storage; all of them die anywhere. Nothing is lost or read twice.

Writers append, rewrite and overwrite nothing; they abort, and die at any request to the storage. The stream is driven as
Spark drives it: an offset is written down before its batch is run, a batch is written down as done after the sink has
it, and a process that dies at any of these moments is followed by one that knows the offsets only. Each batch that is
run again must have the files that it had.

The oracle is the list of rows of the jobs of which `Transaction` said that they are committed, or whose entries a reader of
the log counts afterwards.
"""

import json
import random
import sys
from contextlib import suppress

from memory_storage import MemoryStorage
from table_commits import APPEND, REWRITE, begin, commit, table

from spark_arrow_ipc.dataset.stream.mode import ALL_AVAILABLE, Limit
from spark_arrow_ipc.dataset.stream.table import TableMode, TableOptions
from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.table.log import create_table, read_entry, read_state
from spark_arrow_ipc.table.log_listing import list_log
from spark_arrow_ipc.table.vacuum import vacuum

ROOT = "memory:/data"
LATEST = TableOptions(from_latest=True)
STEPS = 160
WRITTEN_FOR = 60
"""Steps in which writers write; the stream reads the rest."""


class Died(BaseException):
    """A process is killed here."""


class DyingStorage:
    """A storage in which a process dies before or after one of its next changes."""

    def __init__(self, storage, luck, share):
        self._storage, self._luck, self._share = storage, luck, share

    def __getattr__(self, name):
        call = getattr(self._storage, name)
        if name not in {"put", "put_if_absent", "publish", "delete", "delete_all"}:
            return call

        def changed(*args, **options):
            if self._luck.random() < self._share:
                raise Died
            result = call(*args, **options)
            if self._luck.random() < self._share:
                raise Died
            return result

        return changed

    def inside(self, directory):
        return self


class Trial:
    """One table and one query."""

    def __init__(self, seed, publishing):
        self.luck = random.Random(seed)
        self.storage = MemoryStorage(renames=publishing == "renames")
        self.directory = table(ROOT, self.storage)
        create_table(self.directory)
        self.number = 0
        self.partitions = self.luck.choice([[""], ["k=1:", "k=2:"]])
        self.options = self.luck.choice([TableOptions(), TableOptions(), LATEST, TableOptions(first_entry=1)])
        self.offsets, self.done, self.sink = [], 0, {}
        self.largest = 0

    def chance(self, share):
        return self.luck.random() < share

    # Writers

    def new_text(self):
        self.number += 1
        return f"{self.luck.choice(self.partitions)}{self.number}"

    def dying(self):
        return table(ROOT, DyingStorage(self.storage, self.luck, self.luck.choice([0, 0, 0.05])))

    def write(self):
        with suppress(Died, ArrowIpcError):
            job = begin(self.dying(), *(self.new_text() for _ in range(self.luck.randrange(1, 4))))
            if self.chance(0.15):
                job.abort()
            else:
                commit(job)

    def rewrite(self):
        """Move the rows of some files into another one; a stream sees nothing of it."""
        chosen = {path for path in read_state(self.directory).files.paths if self.chance(0.4)}
        if not chosen:
            return
        with suppress(Died, ArrowIpcError):
            rows = " ".join(self.storage.read(self.directory.path(path), 1 << 20).decode() for path in sorted(chosen))
            job = begin(self.dying(), f"{self.luck.choice(self.partitions)}{rows}")
            commit(job, REWRITE, replaces=chosen.__contains__, retain=True)

    def tidy(self):
        with suppress(Died, ArrowIpcError):
            vacuum(self.dying(), older_than=-1e9)

    # The stream

    def mode(self):
        return TableMode(self.directory, self.options)

    def dies(self):
        if self.chance(0.08):
            raise Died

    def limit(self):
        return ALL_AVAILABLE if self.chance(0.05) else Limit(max_files=self.luck.randrange(1, 6))

    def rows_of(self, file):
        name = file.path.removeprefix(f"{ROOT}/")
        places = [file.path, *(self.directory.replaced(n, name) for n in range(1, self.newest() + 1))]
        place = next(path for path in places if self.storage.status(path) is not None)
        return self.storage.read(place, 1 << 20).decode().split()

    def newest(self):
        return list_log(self.directory, read_state(self.directory).table).newest

    def run_batch(self, mode, writes):
        if self.done == len(self.offsets):
            start = self.offsets[-1] if self.offsets else mode.initial()
            end = mode.latest(start, self.limit())
            if end is start:
                return
            self.dies()
            text = json.dumps(end)
            self.largest = max(self.largest, len(text))
            self.offsets.append(json.loads(text))
        # Spark does not write down where the first batch began.
        start = self.offsets[self.done - 1] if self.done else mode.initial()
        self.dies()
        rows = [self.rows_of(file) for file in mode.batch(start, self.offsets[self.done]).files]
        if writes and self.chance(0.2):
            self.write()
        assert self.sink.setdefault(self.done, rows) == rows, "a batch that is run again has other files"
        self.dies()
        self.done += 1
        if self.done > 1 and self.chance(0.5):
            mode.committed(self.offsets[self.done - 2])

    def run(self):
        for _ in range(self.luck.randrange(0, 6)):
            self.write()
        mode = self.mode()
        for step in range(STEPS):
            if step < WRITTEN_FOR:
                for act, share in ((self.write, 0.35), (self.rewrite, 0.1), (self.tidy, 0.05)):
                    if self.chance(share):
                        act()
            try:
                self.run_batch(mode, step < WRITTEN_FOR)
            except Died:
                mode = self.mode()
        read = [row for files in self.sink.values() for rows in files for row in rows]
        assert len(read) == len(set(read)), "a row is in two batches"
        expected = self.rows_after(self.offsets[0]["entry"] if self.options is LATEST and self.offsets else 0)
        assert expected == set(read), f"{len(expected - set(read))} of {len(expected)} rows are lost"
        return len(read), self.largest

    def rows_after(self, number):
        """Return the rows of the jobs that the log counts, of entries after one: nothing is ever overwritten."""
        state = read_state(self.directory)
        entries = [read_entry(self.directory, state.table, n) for n in range(number + 1, state.number + 1)]
        jobs = {job for job, end in state.ended.items() if end.is_committed}
        appended = [entry for entry in entries if entry.operation is APPEND and entry.job in jobs]
        files = [self.directory.path(path) for entry in appended for path in entry.add.paths]
        return {row for path in files for row in self.rows_of(type("File", (), {"path": path}))}


def run(trials, seed=1, publishing="renames"):
    rows = largest = 0
    for number in range(seed, seed + trials):
        try:
            read, size = Trial(number, publishing).run()
        except BaseException:
            print(f"seed {number}", file=sys.stderr)
            raise
        rows, largest = rows + read, max(largest, size)
    return {"trials": trials, "files": rows, "lost": 0, "doubled": 0, "largest offset": largest}
