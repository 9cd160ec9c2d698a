"""Two random statements at once: the rows are those of running both one after the other, or one of them conflicts.

Rows are pairs of a key and a value. Each statement has two forms: a function of all rows for the oracle, and what it does to a
table in place. `STATEMENTS_AT_ONCE` in the environment runs more pairs.
"""

import os
import random
from collections import Counter

import arrow_files
import pyarrow as pa
import pytest
from rewrite_jobs import Tasks
from statements import Statement

from spark_arrow_ipc import compact, rewrite
from spark_arrow_ipc.errors import ConcurrentWriteError
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource

PAIRS = int(os.environ.get("STATEMENTS_AT_ONCE", "24"))
SCHEMA = pa.schema([("n", pa.int64()), ("v", pa.int64())])


def table(rows):
    return pa.table([list(column) for column in zip(*rows, strict=True)] if rows else [[], []], schema=SCHEMA)


def rows_of(root):
    source = ArrowIpcDataSource({"path": str(root)})
    reader = source.reader(source.schema())
    return pairs(
        pa.Table.from_batches(
            [batch for part in reader.partitions() for batch in reader.read(part)] or [], pa.schema(SCHEMA)
        )
    )


def pairs(rows):
    return [] if rows is None else [(row["n"], row["v"]) for row in rows.to_pylist()]


class Change:
    """A DELETE, UPDATE or MERGE of the rows whose keys are among some."""

    def __init__(self, dice, command):
        self.command = command
        self.keys = {*dice.sample(range(5), dice.randrange(1, 4))}
        self.by = 10 ** dice.randrange(1, 5)

    def __str__(self):
        return f"{self.command} {sorted(self.keys)} {self.by}"

    def matches(self, row):
        # An UPDATE also depends on the values, which others change.
        return row[0] in self.keys and (self.command != "UPDATE" or row[1] % 2 == 0)

    def apply(self, rows):
        """Return all rows after the statement."""
        return [*self.change(rows), *self.inserts(rows)]

    def change(self, rows):
        if self.command == "DELETE":
            return [row for row in rows if not self.matches(row)]
        return [(n, v + self.by + 1) if self.matches((n, v)) else (n, v) for n, v in rows]

    def inserts(self, rows):
        missing = self.keys - {n for n, _ in rows} if self.command == "MERGE" else ()
        return [(n, self.by) for n in sorted(missing)]

    def scan(self, root):
        """Read the table, and return what is left to do."""
        statement = Statement(root, self.command)
        every = pairs(statement.read())
        rows, paths = statement.scan(lambda rows: pa.array([self.matches(row) for row in pairs(rows)]))
        written = table([*self.change(pairs(rows)), *self.inserts(every)])
        return lambda: statement.finish(lambda _: written, rows, paths)


class Append:
    """An append of a row."""

    def __init__(self, dice):
        self.row = dice.randrange(5), 2 * dice.randrange(50)

    def __str__(self):
        return f"append {self.row}"

    def apply(self, rows):
        return [*rows, self.row]

    def scan(self, root):
        return lambda: append(root, [self.row])


class Compaction:
    """A compaction, which changes no row."""

    def __init__(self, _):
        pass

    def __str__(self):
        return "compact"

    def apply(self, rows):
        return rows

    def scan(self, root):
        return lambda: compact(Tasks(), root)


def append(root, rows):
    source = root.parent / f"{root.name} {random.random()}"
    arrow_files.write(source / "rows.arrow", table(rows))
    rewrite(Tasks(), source, root)


KINDS = {
    "DELETE": lambda dice: Change(dice, "DELETE"),
    "UPDATE": lambda dice: Change(dice, "UPDATE"),
    "MERGE": lambda dice: Change(dice, "MERGE"),
    "append": Append,
    "compact": Compaction,
}
WEIGHTS = [3, 3, 6, 1, 1]


@pytest.mark.parametrize("seed", range(PAIRS))
def test_two_at_once_are_one_after_the_other_or_a_conflict(tmp_path, seed):
    dice = random.Random(seed)
    root = tmp_path / "lake"
    before = [(dice.randrange(5), 2 * dice.randrange(5)) for _ in range(dice.randrange(1, 5))]
    for row in before:
        append(root, [row])
    first, second = (KINDS[kind](dice) for kind in dice.choices([*KINDS], WEIGHTS, k=2))
    finishes = [first.scan(root), second.scan(root)]
    done, conflicts = [], 0
    for change, finish in zip((first, second), finishes, strict=True):
        try:
            finish()
            done.append(change)
        except ConcurrentWriteError:
            conflicts += 1
    orders = [[*done], [*reversed(done)]]
    expected = []
    for order in orders:
        rows = before
        for change in order:
            rows = change.apply(rows)
        expected.append(Counter(rows))
    assert conflicts < 2
    assert Counter(rows_of(root)) in expected, f"{first}, {second} of {before}, {len(done)} committed"
