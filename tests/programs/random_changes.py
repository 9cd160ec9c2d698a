"""Compare random DELETE, UPDATE, MERGE and INSERT in place with the same computed over a copy of the rows.

    python tests/programs/random_changes.py --statements 200 [--seed 1] [--seconds 600]

Each table has its own kind: flat or partitioned, of commits with different columns, or of files of another program with
unsigned integers, dictionaries and nanoseconds. The oracle is SQL over a local copy of the rows before each statement, by
joins and CASE instead of the statement. After each statement rows, files and Arrow types are compared. Prints each
difference with its SQL; ends with 1 if there is any, and prints the number of statements.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("", "tests", "tests/oracles", "tests/builders", "tests/fakes", "tests/programs")]  # fmt: skip

import arrow_files
import pyarrow as pa
import quick_jvm
from commit_jobs import newest_entry
from rewrite_jobs import files_of

COLUMNS = {"id": "bigint", "v": "double", "s": "string", "b": "boolean", "n": "int", "t": "timestamp", "c": "decimal(9,2)", "extra": "string", "p": "string", "d": "int"}  # fmt: skip
DDL = ", ".join(f"{name} {type_}" for name, type_ in COLUMNS.items())
KINDS = {
    "flat": {},
    "by a number": {"partitionBy": '["d"]'},
    "by a string and a number": {"partitionBy": '["p", "d"]'},
    "columns that were added": {"late": True},
    "of another program": {"foreign": True},
}
FOREIGN = {"n": pa.uint16(), "s": pa.dictionary(pa.int8(), pa.string()), "t": pa.timestamp("ns", "UTC"), "extra": pa.large_utf8()}  # fmt: skip


class Dice:
    """Random rows, conditions and expressions of one seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.next = 0

    def one(self, *choices):
        return self.random.choice(choices)

    def value(self, name):
        """A literal of SQL for a column; some are null, and some repeat."""
        if self.random.random() < 0.2:
            return f"CAST(null AS {COLUMNS[name]})"
        number = self.random.randrange(8)
        return {
            "id": lambda: f"{self.random.randrange(40)}L",
            "v": lambda: self.one("double('NaN')", "-0.0D", "0.0D", "1.25D", "double('-Infinity')", f"{number}.5D"),
            "s": lambda: self.one("''", "'a'", "'ä%'", "'o\\'n'", "'日'", f"'s{number}'"),
            "b": lambda: self.one("true", "false"),
            "n": lambda: str(number * 13),
            "t": lambda: f"TIMESTAMP '2024-0{number + 1}-03 01:02:03.00000{number}'",
            "c": lambda: f"CAST({number}.25 AS decimal(9,2))",
            "extra": lambda: self.one("'x'", "'y'", f"'e{number}'"),
            "p": lambda: self.one("'a=b'", "'x y'", "'q'"),
            "d": lambda: str(self.random.randrange(3)),
        }[name]()

    def rows(self, count):
        """SQL of a table of random rows."""
        rows = ", ".join(f"({', '.join(self.value(name) for name in COLUMNS)})" for _ in range(count))
        return f"SELECT * FROM VALUES {rows} AS rows({', '.join(COLUMNS)})"

    def condition(self, alias="t", depth=0):
        """A condition over the columns of an alias."""
        if depth < 2 and self.random.random() < 0.35:
            parts = [self.condition(alias, depth + 1) for _ in range(2)]
            return self.one(f"({parts[0]} AND {parts[1]})", f"({parts[0]} OR {parts[1]})", f"NOT ({parts[0]})")
        name = self.one(*COLUMNS)
        column, value = f"{alias}.{name}", self.value(name)
        comparison = self.one("=", "<", ">=", "<>", "<=>") if name != "b" else self.one("=", "<=>")
        return self.one(
            f"{column} {comparison} {value}", f"{column} {comparison} {value}", f"{column} IN ({value}, {self.value(name)})",
            f"{column} IS NULL", f"{alias}.id % 3 = {self.random.randrange(3)}", f"{alias}.id BETWEEN 3 AND {self.random.randrange(30)}",
            f"isnan({alias}.v)", f"{alias}.s LIKE 's%'", f"{alias}.d = {self.random.randrange(3)}",
        )  # fmt: skip

    def expression(self, name, alias="t", source=None):
        """An expression of the type of a column."""
        changed = {
            "id": f"{alias}.id + 1", "v": f"{alias}.v * 2", "s": f"concat({alias}.s, 'u')", "b": f"NOT {alias}.b", "n": f"{alias}.n % 7",
            "t": f"{alias}.t + INTERVAL 1 DAY", "c": f"CAST({alias}.c AS decimal(9,2))", "extra": f"upper({alias}.extra)",
            "p": f"{alias}.p", "d": f"({alias}.d + 1) % 4",
        }[name]  # fmt: skip
        return self.one(self.value(name), changed, *([f"{source}.{name}"] * 2 if source else []))

    def assignments(self, alias="t", source=None):
        names = self.random.sample([*COLUMNS], self.random.randrange(1, 4))
        return {name: self.expression(name, alias, source) for name in names}


def delete(dice, table):
    conditions = [dice.condition() for _ in range(6)]
    condition = dice.one(
        *conditions, "true", "t.id IN (SELECT id FROM others WHERE d = 1)", "t.id = 999", "CAST(null AS boolean)"
    )
    statement = f"DELETE FROM {table}" + ("" if condition == "true" else f" t WHERE {condition}")
    return statement, f"SELECT * FROM before t WHERE NOT coalesce(({condition}), false)"


def update(dice, table):
    changes = dice.assignments()
    condition = dice.one(*[dice.condition() for _ in range(4)], "true", "t.id IN (SELECT id FROM others)", "t.id = 999")
    columns = [
        f"CASE WHEN ({condition}) THEN {changes[name]} ELSE t.{name} END AS {name}" if name in changes else f"t.{name}"
        for name in COLUMNS
    ]
    sets = ", ".join(f"t.{name} = {expression}" for name, expression in changes.items())
    return f"UPDATE {table} t SET {sets} WHERE {condition}", f"SELECT {', '.join(columns)} FROM before t"


def merge(dice, table):
    """A MERGE whose source has each key once, and the same by a join, CASE and a union."""
    on = dice.one("t.id = s.id", "t.id = s.id", "t.id <=> s.id", "t.id = s.id AND t.d = s.d")
    clauses, actions = [], []  # an action: whether matched, condition, and the columns, or None to delete

    def clause(kind, source):
        condition = dice.one(None, dice.condition("t"), dice.condition("t"))
        changes = dice.one(None, dice.assignments("t", source), dice.assignments("t", source))
        then = "DELETE" if changes is None else "UPDATE SET " + ", ".join(f"t.{n} = {e}" for n, e in changes.items())
        clauses.append(f"WHEN {kind}{'' if condition is None else f' AND {condition}'} THEN {then}")
        actions.append((kind == "MATCHED", condition, changes))
        return condition is None

    for kind, source in (("MATCHED", "s"), ("NOT MATCHED BY SOURCE", None)):
        for _ in range(dice.one(0, 1, 1, 2) if source else dice.one(0, 0, 0, 1)):
            if clause(kind, source):
                break
    inserts = dice.one(None, "true", dice.condition("s"))
    if inserts is None and not clauses:
        inserts = "true"
    if inserts is not None:
        position = next((i for i, text in enumerate(clauses) if "BY SOURCE" in text), len(clauses))
        clauses.insert(position, f"WHEN NOT MATCHED{'' if inserts == 'true' else f' AND {inserts}'} THEN INSERT *")
    number = " ".join(
        f"WHEN s.matched IS {'NOT ' if is_matched else ''}NULL AND ({condition or 'true'}) THEN {i}"
        for i, (is_matched, condition, _) in enumerate(actions)
    )
    action = f"CASE {number} ELSE -1 END" if actions else "-1"
    deletes = [str(i) for i, (_, _, changes) in enumerate(actions) if changes is None]
    columns = []
    for name in COLUMNS:
        cases = " ".join(
            f"WHEN {i} THEN {c[name]}" for i, (_, _, c) in enumerate(actions) if c is not None and name in c
        )
        columns.append(f"CASE {action} {cases} ELSE t.{name} END AS {name}" if cases else f"t.{name}")
    oracle = f"SELECT {', '.join(columns)} FROM before t LEFT JOIN (SELECT *, 1 AS matched FROM source) s ON {on}"
    oracle += f" WHERE ({action}) NOT IN ({', '.join(deletes)})" if deletes else ""
    if inserts is not None:
        oracle += f" UNION ALL SELECT {', '.join(f's.{n}' for n in COLUMNS)} FROM source s LEFT ANTI JOIN before t ON {on} WHERE {inserts}"
    return f"MERGE INTO {table} t USING source s ON {on} {' '.join(clauses)}", oracle


def insert(dice, table):
    rows = dice.rows(dice.random.randrange(4, 12))
    return f"INSERT INTO {table} {rows}", f"SELECT * FROM before UNION ALL {rows}"


STATEMENTS = {delete: 3, update: 4, merge: 5, insert: 1}


def canonical(rows):
    """Return rows as a multiset in which NaN is equal to itself, and -0.0 is not 0.0."""
    return Counter(tuple(map(repr, row)) for row in rows)


class Table:
    """A table of one kind, and the types that its files have."""

    def __init__(self, spark, dice, kind, directory, number):
        self.spark, self.dice, self.path = spark, dice, str(directory / f"t{number}")
        self.name = f"arrowipc.`{self.path}`"
        options = dict(KINDS[kind])
        is_late, is_foreign = options.pop("late", False), options.pop("foreign", False)
        for i in range(3):
            frame = spark.sql(dice.rows(15)).selectExpr(*(f"CAST({n} AS {t}) AS {n}" for n, t in COLUMNS.items()))
            if is_late and i == 0:
                frame = frame.drop("extra", "c")
            if is_foreign:
                self._write_foreign(frame, i)
            else:
                frame.coalesce(2).write.format("arrowipc").mode("append").options(**options).save(self.path)
        self.types, self.current = self.read_types(), self.rows()

    def _write_foreign(self, frame, i):
        rows = frame.toArrow()
        for name, type_ in FOREIGN.items():
            at = rows.schema.get_field_index(name)
            rows = rows.set_column(
                at,
                pa.field(name, type_),
                rows[name].cast(type_)
                if not pa.types.is_dictionary(type_)
                else rows[name].dictionary_encode().cast(type_),
            )
        arrow_files.write(Path(self.path) / f"{i}.arrow", rows)

    def rows(self):
        return [tuple(row) for row in self.spark.table(self.name).select(*COLUMNS).collect()]

    def read_types(self):
        """Return the Arrow types of each column in the files that count."""
        types = {}
        for path in files_of(self.path).values():
            with pa.OSFile(path) as source:
                for field in pa.ipc.open_file(source).schema:
                    types.setdefault(field.name, set()).add(str(field.type))
        return types

    def change(self):
        """Run a statement, and return the differences."""
        dice, before, spark = self.dice, self.current, self.spark
        spark.createDataFrame(before, DDL).createOrReplaceTempView("before")
        numbered = f"SELECT *, row_number() OVER (PARTITION BY id ORDER BY s, v, n) AS k FROM ({dice.rows(12)})"
        source = spark.sql(f"SELECT {', '.join(COLUMNS)} FROM ({numbered}) WHERE k = 1").collect()
        spark.createDataFrame([tuple(row) for row in source], DDL).createOrReplaceTempView("source")
        spark.createDataFrame([tuple(row) for row in source[:5]], DDL).createOrReplaceTempView("others")
        make = dice.random.choices([*STATEMENTS], [*STATEMENTS.values()])[0] if len(before) > 6 else insert
        statement, oracle = make(dice, self.name)
        expected = canonical(tuple(row) for row in spark.sql(oracle).collect())
        try:
            spark.sql(statement)
        except Exception as error:  # noqa: BLE001 - of any statement
            return make.__name__, [f"{statement}\n  failed: {str(error)[:1500]}"]
        self.current = self.rows()
        actual = canonical(self.current)
        differences = []
        if actual != expected:
            lost, extra = expected - actual, actual - expected
            differences.append(f"{statement}\n  lost {[*lost.elements()][:3]}\n  extra {[*extra.elements()][:3]}")
        types = self.read_types()
        is_written = (Path(self.path) / "_ipc_log").exists()
        # An INSERT, or a MERGE that only inserts, has Spark's usual types.
        if is_written and newest_entry(self.path).operation == "append":
            self.types = {name: self.types.get(name, each) | each for name, each in types.items()}
        changed = {name: each for name, each in types.items() if not each <= self.types.get(name, each)}
        if changed:
            differences.append(f"{statement}\n  types {changed} instead of {self.types}")
        return make.__name__, differences


def session(directory):
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "tests" / "planners"), str(ROOT)])
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1500m")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.python.daemon.module", "spark_arrow_ipc.spark.daemon")
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .config("spark.driver.extraJavaOptions", quick_jvm.OPTIONS)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    from spark_arrow_ipc import register

    register(spark)
    return spark


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--statements", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--changes", type=int, default=25, help="statements of each table")
    given = parser.parse_args()
    counts, failed, start = Counter(), 0, time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        spark = session(directory)
        number = 0
        while sum(counts.values()) < given.statements and time.monotonic() - start < given.seconds:
            dice = Dice(given.seed * 1000 + number)
            kind = [*KINDS][number % len(KINDS)]
            table = Table(spark, dice, kind, directory, number)
            for _ in range(min(given.changes, given.statements - sum(counts.values()))):
                if time.monotonic() - start > given.seconds:
                    break
                made, differences = table.change()
                counts[made] += 1
                for difference in differences:
                    failed += 1
                    print(
                        f"seed {given.seed}, table {number} ({kind}), statement {sum(counts.values())}: {difference}",
                        flush=True,
                    )
            number += 1
            print(
                f"{sum(counts.values())} statements {dict(counts)}, {failed} differences, {time.monotonic() - start:.0f} s",
                flush=True,
            )
        spark.stop()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
