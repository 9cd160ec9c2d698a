"""Spark's methods of reading and writing, and what each does here: the record spark_methods.md, and docs/methods.md from it.

``python tests/programs/spark_methods.py`` calls them in two classic sessions, without the jar and after `register`, and writes
both. ``--connect`` calls them under Spark Connect, and ``--jar`` in a session with the jar; both only print. The tests call them
in a classic session (tests/spark/test_spark_methods.py) and under Spark Connect, where they do the same.
"""

import os
import re
import sys
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("", "tests", "tests/oracles", "tests/builders", "tests/fakes", "tests/programs")]  # fmt: skip

import arrow_files
import mistakes
import pyarrow as pa
import pyarrow.parquet
import pyspark
from pyspark.sql import functions as f

RECORD = Path(__file__).with_suffix(".md")
PAGE = Path(__file__).parents[2] / "docs" / "methods.md"
BEGIN, END = "<!-- begin methods -->\n", "<!-- end methods -->"

TABLE = pa.table({"carrier": ["UA", "AA"], "delay": pa.array([1, 2], pa.int64())})
SCHEMA = "carrier string, delay bigint"
WORKS, IGNORED, REFUSED = "works", "ignored", "refused"


@dataclass
class Case:
    """One call: a session, a folder of files, and a place of its own to write to."""

    spark: object
    folder: Path

    def __post_init__(self):
        self.out = self.folder / uuid.uuid4().hex

    def frame(self):
        return self.spark.createDataFrame([("UA", 1), ("AA", 2)], SCHEMA)

    def read(self):
        return self.spark.read.format("arrowipc")

    def write(self):
        return self.frame().write.format("arrowipc").mode("append")

    def read_stream(self):
        return self.spark.readStream.format("arrowipc").schema(SCHEMA)

    def stream(self, rows=None):
        rows = rows or self.spark.readStream.schema(SCHEMA).parquet(f"{self.folder}/parquet")
        checkpoint = f"{self.folder}/checkpoint-{uuid.uuid4().hex}"
        return rows.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)

    def sink(self):
        return self.stream().format("arrowipc")

    def run(self, query):
        assert query.awaitTermination(180), "the query did not end"

    def run_into_arrow(self, rows):
        self.run(self.stream(rows).format("arrowipc").start(str(self.out)))

    def view(self):
        """Make a view ``v`` of the place to write to, with rows in it, and return its name."""
        self.write().save(str(self.out))
        self.spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING arrowipc OPTIONS (path '{self.out}')")
        return "v"

    def table(self, location=None):
        """Make a table of the catalog, of some files if there is a location, and return its name."""
        name = self.new()
        self.spark.sql(f"CREATE TABLE {name} ({SCHEMA}) USING arrowipc{f' LOCATION {location!r}' if location else ''}")
        return name

    def filled(self, fill, name=None):
        """Return the rows of a table, a new one by default, after a call with its name."""
        name = name or self.new()
        fill(name)
        return self.spark.table(name).collect()

    def new(self):
        return f"t{uuid.uuid4().hex}"

    def rows(self):
        files = [path for path in self.out.rglob("*.arrow") if "_ipc" not in str(path.relative_to(self.out))]
        return sum(pa.ipc.open_file(path).read_all().num_rows for path in files)

    def directories(self):
        return [path.name for path in self.out.glob("*=*")]


@dataclass(frozen=True)
class Method:
    """One row of the table: what is called, a test of its effect, and what to write instead of it."""

    act: Callable
    effect: Callable = lambda c, made: c.rows() == 2
    instead: str = ""
    since: str = "4.1"


def two(c, made):
    """Return whether both rows were read."""
    return len(made) == 2


def one(c, made):
    return len(made) == 1


def rows(count):
    return lambda c, made: c.rows() == count


PARTITION = "the option `partitionBy`"
SAVE = "`save(path)`, and a temporary view"
MODES = '`.mode("append")` with the option `ifExists`'
STREAM_PATH = "`readStream...load(path)`"

METHODS = {
    # Reading
    "spark.read.load(path)": Method(lambda c: c.read().load(f"{c.folder}/lake").collect(), two),
    "spark.read.load([path, path])": Method(lambda c: c.read().load([f"{c.folder}/lake", f"{c.folder}/more"]).collect(), lambda c, made: len(made) == 4),
    "spark.read.schema(...).load(path)": Method(lambda c: c.read().schema("delay bigint").load(f"{c.folder}/lake").collect(), two),
    "spark.read.option(...).table(view)": Method(
        lambda c: c.spark.read.option("where", "delay = 1").table(c.view()).collect(), one, "the view's own `OPTIONS`"
    ),
    "SELECT ... FROM view": Method(lambda c: c.spark.sql(f"SELECT * FROM {c.view()}").collect(), two),
    "SELECT ... FROM view WITH (option)": Method(
        lambda c: c.spark.sql(f"SELECT * FROM {c.view()} WITH (`where` = 'delay = 1')").collect(), one, "the view's own `OPTIONS`"
    ),
    "SELECT ... FROM arrowipc.`path`": Method(
        lambda c: c.spark.sql(f"SELECT * FROM arrowipc.`{c.folder}/lake`").collect(), two, "a temporary view"
    ),
    "SELECT ... FROM table, CREATE TABLE ... USING arrowipc": Method(
        lambda c: c.spark.sql(f"SELECT * FROM {c.table(f'{c.folder}/lake')}").collect(), two, "a temporary view"
    ),
    "SELECT ... FROM table WITH (path = ...)": Method(
        lambda c: c.spark.sql(f"SELECT * FROM {c.table()} WITH (path = '{c.folder}/lake')").collect(), two
    ),
    "spark.read.option('path', ...).table(table)": Method(
        lambda c: c.spark.read.option("path", f"{c.folder}/lake").table(c.table()).collect(), two
    ),
    "spark.catalog.createTable(name, path, 'arrowipc')": Method(
        lambda c: c.spark.catalog.createTable(c.new(), f"{c.folder}/lake", "arrowipc").collect(), two, "a temporary view"
    ),
    # Writing
    "write.mode('append').save(path)": Method(lambda c: c.write().save(str(c.out))),
    "write.mode('overwrite').save(path)": Method(lambda c: (c.write().save(str(c.out)), c.write().mode("overwrite").save(str(c.out)))),
    "write.mode('error').save(path)": Method(lambda c: c.write().mode("error").save(str(c.out)), instead=MODES),
    "write.mode('ignore').save(path)": Method(lambda c: c.write().mode("ignore").save(str(c.out)), instead=MODES),
    "write.partitionBy(...).save(path)": Method(lambda c: c.write().partitionBy("carrier").save(str(c.out)), instead=PARTITION),
    "write.clusterBy(...).save(path)": Method(lambda c: c.write().clusterBy("carrier").save(str(c.out)), instead=PARTITION),
    "write.bucketBy(...).save(path)": Method(lambda c: c.write().bucketBy(2, "carrier").save(str(c.out)), instead="`repartition` before it"),
    "write.bucketBy(...).sortBy(...).save(path)": Method(
        lambda c: c.write().bucketBy(2, "carrier").sortBy("delay").save(str(c.out)), instead="`sortWithinPartitions` before it"
    ),
    "write.insertInto(view)": Method(lambda c: c.frame().write.insertInto(c.view()), rows(4)),
    "write.insertInto(view, overwrite=True)": Method(lambda c: c.frame().write.insertInto(c.view(), overwrite=True)),
    "write.option(...).insertInto(view)": Method(
        lambda c: c.frame().write.option("partitionBy", "carrier").insertInto(c.view()), lambda c, _: c.directories() != [],
        "the view's own `OPTIONS`",
    ),
    "INSERT INTO view": Method(lambda c: c.spark.sql(f"INSERT INTO {c.view()} VALUES ('UA', 3L)"), rows(3)),
    "INSERT INTO view BY NAME": Method(lambda c: c.spark.sql(f"INSERT INTO {c.view()} BY NAME SELECT 3L AS delay, 'UA' AS carrier"), rows(3)),
    "INSERT OVERWRITE view": Method(lambda c: c.spark.sql(f"INSERT OVERWRITE {c.view()} VALUES ('UA', 3L)"), rows(1)),
    "INSERT INTO view PARTITION (...)": Method(
        lambda c: c.spark.sql(f"INSERT INTO {c.view()} PARTITION (carrier = 'UA') VALUES (3L)"), rows(3), "all columns as values"
    ),
    "INSERT INTO view REPLACE WHERE ...": Method(
        lambda c: c.spark.sql(f"INSERT INTO {c.view()} REPLACE WHERE delay = 1 VALUES ('UA', 3L)"), rows(2),
        "`partitionOverwriteMode=dynamic`, or `rewrite`",
    ),
    "INSERT OVERWRITE DIRECTORY path USING arrowipc": Method(
        lambda c: c.spark.sql(f"INSERT OVERWRITE DIRECTORY '{c.out}' USING arrowipc SELECT 'UA' AS carrier"), rows(1), "`save(path)`"
    ),
    "write.saveAsTable(name)": Method(lambda c: c.filled(c.write().saveAsTable), two, SAVE),
    "write.option('path', ...).saveAsTable(name)": Method(lambda c: c.write().option("path", str(c.out)).saveAsTable(c.new())),
    "write.option('path', ...).partitionBy(...).saveAsTable(name)": Method(
        lambda c: c.write().option("path", str(c.out)).partitionBy("carrier").saveAsTable(c.new()), lambda c, _: c.directories() != [],
        PARTITION,
    ),
    "writeTo(name).using('arrowipc').create()": Method(
        lambda c: c.filled(lambda name: c.frame().writeTo(name).using("arrowipc").create()), two, SAVE
    ),
    "writeTo(name).using('arrowipc').option('path', ...).create()": Method(
        lambda c: c.frame().writeTo(c.new()).using("arrowipc").option("path", str(c.out)).create()
    ),
    "writeTo(name)....partitionedBy(...).create()": Method(
        lambda c: c.frame().writeTo(c.new()).using("arrowipc").option("path", str(c.out)).partitionedBy(f.col("carrier")).create(),
        lambda c, _: c.directories() != [], PARTITION,
    ),
    "writeTo(table).option('path', ...).append()": Method(lambda c: c.frame().writeTo(c.table()).option("path", str(c.out)).append()),
    "writeTo(table).option('path', ...).overwrite(expr('true'))": Method(
        lambda c: c.frame().writeTo(c.table()).option("path", str(c.out)).overwrite(f.expr("true"))
    ),
    "writeTo(table).overwritePartitions()": Method(
        lambda c: c.frame().writeTo(c.table()).option("path", str(c.out)).overwritePartitions(), instead="`partitionOverwriteMode=dynamic`"
    ),
    "INSERT INTO table": Method(
        lambda c: c.filled(lambda name: c.spark.sql(f"INSERT INTO {name} VALUES ('UA', 3L)"), c.table()), one, "`INSERT INTO view`"
    ),
    "INSERT INTO table WITH (path = ...)": Method(
        lambda c: c.spark.sql(f"INSERT INTO {c.table()} WITH (path = '{c.out}') VALUES ('UA', 3L)"), rows(1)
    ),
    # Streams
    "readStream.load(path)": Method(lambda c: c.run_into_arrow(c.read_stream().load(f"{c.folder}/lake")), since="4.2"),
    "readStream.name(name).load(path)": Method(
        lambda c: c.run_into_arrow(c.read_stream().name("flights").load(f"{c.folder}/lake")), instead="no name", since="4.3"
    ),
    "readStream.table(view)": Method(lambda c: c.run_into_arrow(c.spark.readStream.table(c.view())), instead=STREAM_PATH),
    "readStream.table(table)": Method(lambda c: c.run_into_arrow(c.spark.readStream.table(c.table(f"{c.folder}/lake"))), instead=STREAM_PATH, since="4.2"),
    "SELECT ... FROM STREAM view": Method(lambda c: c.run_into_arrow(c.spark.sql(f"SELECT * FROM STREAM {c.view()}")), instead=STREAM_PATH),
    "writeStream.start(path)": Method(lambda c: c.run(c.sink().start(str(c.out)))),
    "writeStream.queryName(name)": Method(lambda c: c.run(c.sink().queryName(c.new()).start(str(c.out)))),
    "writeStream.partitionBy(...)": Method(
        lambda c: c.run(c.sink().partitionBy("carrier").start(str(c.out))), lambda c, _: c.directories() != [], PARTITION
    ),
    "writeStream.clusterBy(...)": Method(
        lambda c: c.run(c.sink().clusterBy("carrier").start(str(c.out))), lambda c, _: c.directories() != [], PARTITION
    ),
    "writeStream.outputMode('complete')": Method(
        lambda c: c.run(
            c.stream(c.spark.readStream.schema(SCHEMA).parquet(f"{c.folder}/parquet").groupBy("carrier").count())
            .format("arrowipc").outputMode("complete").start(str(c.out))
        )
    ),
    "writeStream.outputMode('update')": Method(
        lambda c: c.run(c.sink().outputMode("update").start(str(c.out))), instead="`complete`, or `foreachBatch`"
    ),
    "writeStream.trigger(processingTime=...)": Method(lambda c: ended_by_us(c, processingTime="100 milliseconds")),
    "writeStream.trigger(once=True)": Method(lambda c: c.run(c.sink().trigger(once=True).start(str(c.out)))),
    "writeStream.trigger(continuous=...)": Method(
        lambda c: c.run(c.sink().trigger(continuous="1 second").start(str(c.out))), instead="another trigger"
    ),
    "writeStream.foreachBatch(...)": Method(lambda c: c.run(c.stream().foreachBatch(into(c)).start())),
    "writeStream.toTable(name)": Method(lambda c: c.filled(lambda name: c.run(c.sink().toTable(name))), two, "`start(path)`"),
    "writeStream.option('path', ...).toTable(name)": Method(lambda c: c.run(c.sink().option("path", str(c.out)).toTable(c.new()))),
    "writeStream.toTable(view)": Method(lambda c: c.run(c.sink().toTable(c.view())), instead="`start(path)`"),
}  # fmt: skip


def into(c):
    path = str(c.out)

    def write(batch, number):
        batch.write.format("arrowipc").mode("append").option("commitToken", f"b{number}").save(path)

    return write


def ended_by_us(c, **trigger):
    query = c.sink().trigger(**trigger).start(str(c.out))
    query.processAllAvailable()
    query.stop()


def prepare(folder):
    """Write the files that the methods read."""
    arrow_files.write(folder / "lake" / "a.arrow", TABLE)
    arrow_files.write(folder / "more" / "b.arrow", TABLE)
    (folder / "parquet").mkdir()
    pa.parquet.write_table(TABLE, folder / "parquet" / "a.parquet")


def here():
    """Return the methods that this release of Spark has."""
    return {name: method for name, method in METHODS.items() if pyspark.__version__ >= method.since}


def outcome(method, spark, folder):
    """Return one of the three words, and the sentence of an error."""
    case = Case(spark, folder)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    try:
        made = method.act(case)
    except Exception as error:  # noqa: BLE001 - whatever the screen shows
        return REFUSED, mistakes.general(said(str(error)), folder)
    return WORKS if method.effect(case, made) else IGNORED, ""


OWN = re.compile(r"spark_arrow_ipc\.errors\.(.*)")
LAST = re.compile(r".*(?:terminated with exception|Exception|Error): ", re.DOTALL)


def said(text):
    """Return the sentence of an error, without what Spark has around it."""
    text = text.partition("JVM stacktrace")[0].partition("=== Streaming Query")[0]
    match = OWN.search(text) or re.search(r"\[(?!PYTHON_|STREAM_)[A-Z_.]{9,}\] .*", text)
    if match is None:
        line = text.partition("\n\tat")[0]
        match = re.search(r".*", LAST.sub("", line) or line)
    sentence = mistakes.SPARKS_END.sub("", match[match.lastindex or 0]).partition("; line ")[0]
    return re.sub(r"\bt[0-9a-f]{32}", "t", sentence)


def cells_of(outcome):
    """Return the cells of an outcome."""
    verdict, sentence = outcome
    return f"{verdict} | {mistakes.cell(beginning(sentence))}"


def row(name, without, with_jar):
    """Return the row of one method, of its outcomes without the jar and with it."""
    instead = "" if without[0] == with_jar[0] == WORKS else METHODS[name].instead
    return f"| {code(name)} | {cells_of(without)} | {cells_of(with_jar)} | {instead} |"


def beginning(sentence, words=12):
    """Return what tells an error from others: its condition, or its beginning."""
    condition = re.match(r"\[[A-Z_.]+\]", sentence)
    if condition:
        return condition[0]
    return sentence if len(sentence.split()) <= words else " ".join([*sentence.split()[:words], "..."])


def code(name):
    return f"`` {name} ``" if "`" in name else f"`{name}`"


def check(name, verdict, sentence, *, has_jar=False):
    """Check that the record says this of a method; sentences of an older Spark are its own."""
    (recorded,) = [cells for cells in rows_of(RECORD.read_text(encoding="utf-8")) if cells[0] == code(name)]
    expected = recorded[3:5] if has_jar else recorded[1:3]
    actual = cells_of((verdict, sentence)).split(" | ")
    if not pyspark.__version__.startswith("4.3."):
        expected, actual = expected[:1], actual[:1]
    assert [cell.strip() for cell in actual] == [cell.strip() for cell in expected], (name, verdict, sentence)


def record_of(without, with_jar):
    head = [
        "# Spark's methods, in full",
        "",
        "`python tests/programs/spark_methods.py` writes this table, and `docs/methods.md` from it.",
        "",
    ]
    rows = [
        "| method | without the jar | what is said | with the jar | what is said | instead |",
        "|---|---|---|---|---|---|",
        *(row(name, without[name], with_jar[name]) for name in METHODS),
    ]
    return "\n".join([*head, *rows, ""])


def rows_of(record):
    """Return the cells of each row of the record."""
    return [line[2:-2].split(" | ") for line in record.splitlines() if line.startswith("| `")]


def page_of(page, record):
    """Return the page with the methods of the record by what becomes of them, and by what to write instead."""
    works, only_with, left = [], {}, {}
    for name, without, _, with_jar, _, instead in rows_of(record):
        if with_jar != WORKS:
            left.setdefault((with_jar, instead.strip()), []).append(name)
        elif without != WORKS:
            only_with.setdefault((without, instead.strip()), []).append(name)
        else:
            works.append(name)
    lines = []
    for title, groups in [
        ("Without `register(spark)`, or the jar in `spark.jars`, these do not work; write instead:", only_with),
        ("These never work:", left),
    ]:
        rows = [f"- {', '.join(names)} ({verdict}): {instead}" for (verdict, instead), names in groups.items()]
        lines += [title, "", *rows, ""]
    lines += [
        f"The other {len(works)} methods work: reads, writes and streams by a path, of tables with the option `path`, and of views.",
        "",
    ]
    return "".join([page.split(BEGIN)[0], BEGIN, "\n".join(lines), END, page.split(END)[1]])


def outcomes_in(folder, *, connect=False, has_jar=False):
    """Call the methods in a session of their own, and return their outcomes by name."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote("local[2]") if connect else SparkSession.builder.master("local[2]")
    spark = builder.config("spark.sql.warehouse.dir", f"{folder}/warehouse").getOrCreate()
    if has_jar:
        from spark_arrow_ipc import register

        register(spark)
    (folder / "files").mkdir(parents=True)
    prepare(folder / "files")
    outcomes = {}
    for name, method in here().items():
        outcomes[name] = outcome(method, spark, folder / "files")
        print(name, *outcomes[name], sep=" | ", flush=True)
    spark.stop()
    return outcomes


def main():
    """Call the methods in classic sessions and write the table; with ``--connect`` or ``--jar`` only print one side."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    flags = set(sys.argv[1:])
    with tempfile.TemporaryDirectory() as name:
        if flags:
            outcomes_in(Path(name) / "one", connect="--connect" in flags, has_jar="--jar" in flags)
            return
        # The JVM of the first session has no jar, and that of the second keeps it until it ends.
        without, with_jar = outcomes_in(Path(name) / "without"), outcomes_in(Path(name) / "with", has_jar=True)
    record = record_of(without, with_jar)
    RECORD.write_text(record, encoding="utf-8")
    PAGE.write_text(page_of(PAGE.read_text(encoding="utf-8"), record), encoding="utf-8")


if __name__ == "__main__":
    main()
