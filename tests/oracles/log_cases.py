"""Random logs, and what they add up to by a second implementation that keeps everything in dicts."""

import random
from dataclasses import dataclass, field, replace

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.statistics.format import Leaf
from spark_arrow_ipc.table import log
from spark_arrow_ipc.table.entry import Batch, Entry, Operation, Removed
from spark_arrow_ipc.table.files import Files
from spark_arrow_ipc.table.names import data_file_name, new_id
from spark_arrow_ipc.table.state import State

TABLE = "0a1b2c3d"
JOBS = (Operation.APPEND, Operation.OVERWRITE, Operation.OVERWRITE_PARTITIONS, Operation.REWRITE)


def statistics(values):
    """Statistics of one column of 64-bit integers, by the least and greatest value of each file."""
    leaf = Leaf(("id",), (0,), t.int64)
    struct = leaf.field()
    least, greatest = zip(*values, strict=True)
    columns = {"ARROW:null_count:exact": [0] * len(values), "ARROW:min_value:exact": least}
    columns["ARROW:max_value:exact"] = greatest
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return RecordBatch.from_pylist([{struct.name: row} for row in rows], Schema.of([struct]))


def added(rng, job, count, number=0):
    rows = [
        (f"k={rng.randrange(3)}/{data_file_name(i, TABLE, job)}", rng.randrange(9**9), rng.randrange(99), 7)
        for i in range(count)
    ]
    bounds = [(rng.randrange(100), 100 + rng.randrange(100)) for _ in rows]
    return Files.of(rows, number, statistics(bounds) if rows and rng.random() < 0.7 else None)


@dataclass
class Model:
    """The table after an entry, as dicts."""

    files: dict = field(default_factory=dict)
    ended: dict = field(default_factory=dict)
    tokens: dict = field(default_factory=dict)
    tombstones: set = field(default_factory=set)

    def apply(self, entry):
        for job in entry.expire:
            self.ended.setdefault(job, False)
        self.tombstones -= set(entry.close)
        if not entry.operation.is_of_job or entry.job in self.ended:
            return
        self.ended[entry.job] = True
        self.tombstones |= set(entry.remove)
        for removed in entry.remove:
            self.files.pop(removed.path, None)
        rows = zip(entry.add.nbytes.tolist(), entry.add.rows.tolist(), strict=True)
        self.files |= dict(zip(entry.add.paths, rows, strict=True))
        if entry.token:
            self.tokens[entry.token] = entry.number


def random_entries(seed, count):
    """Return entries 1 to `count`, and the model after each."""
    rng = random.Random(seed)
    entries, models, model, previous = [], [], Model(), ""
    for number in range(1, count + 1):
        kind = rng.choice((*JOBS, Operation.APPEND, Operation.EXPIRE, Operation.CLOSE))
        entry = Entry(number, previous, kind, time=number, application="tests")
        if kind is Operation.EXPIRE:
            entry = replace(entry, expire=tuple(new_id() for _ in range(rng.randrange(1, 4))))
        elif kind is Operation.CLOSE:
            entry = replace(entry, close=tuple(sorted(model.tombstones)[: rng.randrange(4)]))
        else:
            expired = [job for job, is_committed in model.ended.items() if not is_committed]
            job = rng.choice(expired) if expired and rng.random() < 0.1 else new_id()
            gone = rng.sample(sorted(model.files), min(len(model.files), rng.randrange(4)))
            remove = [] if kind is Operation.APPEND else [Removed(path, model.files[path][0]) for path in gone]
            if rng.random() < 0.2:
                remove.append(Removed(f"other-{number}.arrow", 5, rng.choice(("", "v1")), "d"))
            entry = replace(
                entry,
                job=job,
                base=number - 1,
                add=added(rng, job, rng.randrange(4), number),
                remove=tuple(remove),
                retain=rng.random() < 0.5,
                token=f"token {number}" if rng.random() < 0.3 else None,
                batch=Batch("query", number) if rng.random() < 0.2 else None,
                schema="c2NoZW1h" if rng.random() < 0.2 else "",
            )
        model.apply(entry)
        entries.append(entry)
        models.append(Model(dict(model.files), dict(model.ended), dict(model.tokens), set(model.tombstones)))
        previous = entry.id
    return entries, models


def files_of(after):
    return dict(
        zip(after.files.paths, zip(after.files.nbytes.tolist(), after.files.rows.tolist(), strict=True), strict=True)
    )


def written(directory, entries, checkpoints=()):
    """Put entries one after another, and return the state after each, as the log reads it."""
    table = log.create_table(directory)
    before = State(table)
    for entry in entries:
        assert log.append(directory, before, entry)
        before = before.after(entry)
        if entry.number in checkpoints:
            log.write_checkpoint(directory, before)
    return table
