"""The commonest mistakes, and what the screen shows of each: they make the table of docs/mistakes.md.

``python tests/mistakes.py`` makes them in a classic session and writes the table; with ``--connect``, under Spark
Connect, where there is one more. The tests make them in a classic
session (tests/spark/test_mistakes.py) and under Spark Connect (tests/spark/test_connect.py).
"""

import os
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import arrow_files
import pyarrow as pa
import pyarrow.parquet

PAGE = Path(__file__).parents[1] / "docs" / "mistakes.md"
BEGIN, END = "<!-- begin mistakes -->\n", "<!-- end mistakes -->"

MOST_CHARACTERS = 600
"""Up to the end of our sentence, with the name of Spark's exception and all that Spark puts before."""

FLIGHTS = pa.table({"carrier": ["UA", "AA"], "delay": pa.array([1, 2], pa.int64())})


@dataclass(frozen=True)
class Mistake:
    """One row of the table.

    Parameters
    ----------
    code
        What a person writes, for the table.
    act
        Does it, in a session and a folder that `prepare` has filled.
    remedy
        What to do, where the text does not say it.
    connect_only
        Whether it is a mistake under Spark Connect alone.
    """

    code: str
    act: Callable
    remedy: str = ""
    connect_only: bool = False


def prepare(folder):
    """Write the files that the mistakes are made with."""
    arrow_files.write(folder / "flights.arrow", FLIGHTS)
    arrow_files.write(folder / "lake" / "flights.arrow", FLIGHTS)
    arrow_files.write(folder / "years" / "2024" / "flights.arrow", FLIGHTS)
    arrow_files.write(folder / "huggingface" / "data-00000-of-00001.arrow", FLIGHTS, stream=True)
    (folder / "huggingface" / "state.json").write_text('{"_data_files": []}')
    (folder / "empty").mkdir()
    (folder / "flights.csv").write_text("carrier,delay\nUA,1\n")
    pa.parquet.write_table(FLIGHTS, folder / "flights.parquet")
    whole = (folder / "flights.arrow").read_bytes()
    (folder / "torn.arrow").write_bytes(whole[:-20])


def load(path, schema=None, **options):
    def act(spark, folder):
        reader = spark.read.format("arrowipc").options(**options)
        reader = reader if schema is None else reader.schema(schema)
        # Under Connect nothing happens before the first action.
        return (reader.load(f"{folder}/{path}") if path is not None else reader.load()).collect()

    return act


def save(path, mode="append", query="SELECT 'UA' AS carrier, 1L AS delay", **options):
    def act(spark, folder):
        writer = spark.sql(query).write.format("arrowipc").options(**options)
        writer = writer if mode is None else writer.mode(mode)
        writer.save(f"{folder}/{path}")

    return act


def sql(*statements):
    def act(spark, folder):
        for statement in statements:
            spark.sql(statement.format(folder=folder)).collect()

    return act


def stale(spark, folder):
    save("stale")(spark, folder)
    frame = spark.read.format("arrowipc").load(f"{folder}/stale")
    frame.count()
    save("stale", "overwrite")(spark, folder)
    frame.collect()


def without_lz4(spark, folder):
    from pyspark_arrowipc import _stand_in

    # Under a name of its own, so that the session keeps the real one.
    stand_in = _stand_in("ModuleNotFoundError: No module named 'lz4'")
    lacking = type("Lacking", (stand_in,), {"name": classmethod(lambda _: "arrowipc_lacking")})
    spark.dataSource.register(lacking)
    spark.read.format("arrowipc_lacking").load(f"{folder}/lake").collect()


VIEW = "`CREATE TEMPORARY VIEW t USING arrowipc OPTIONS (path '...')`"

MISTAKES = {
    "a path that does not exist": Mistake('load("/data/flight.arrow")', load("flight.arrow")),
    "a pattern that matches nothing": Mistake('load("/data/*.arow")', load("*.arow")),
    "no path": Mistake("load()", load(None)),
    "a relative path under Spark Connect": Mistake(
        'load("flights.arrow")',
        lambda spark, _: spark.read.format("arrowipc").load("flights.arrow").collect(),
        connect_only=True,
    ),
    "an empty directory": Mistake('load("/data/empty")', load("empty")),
    "files one level deeper": Mistake('load("/data/years")', load("years")),
    "a CSV file": Mistake('load("/data/flights.csv")', load("flights.csv")),
    "a Parquet file": Mistake('load("/data/flights.parquet")', load("flights.parquet")),
    "other files beside those of Arrow": Mistake('load("/data/huggingface")', load("huggingface")),
    "a file that was copied in part": Mistake(
        'load("/data/torn.arrow")', load("torn.arrow"), '`.option("recover", "true")` reads what is whole of it'
    ),
    "an option that is misspelt": Mistake('option("colums", "carrier")', load("lake", colums="carrier")),
    "an option of writing": Mistake('option("compression", "zstd").load(...)', load("lake", compression="zstd")),
    "a value that an option does not take": Mistake(
        'option("maxPartitionBytes", "much")', load("lake", maxPartitionBytes="much")
    ),
    "a column that is not there": Mistake('option("columns", "carier")', load("lake", columns="carier")),
    "a schema with another type": Mistake('schema("delay string")', load("lake", schema="delay string")),
    "a predicate on no column": Mistake('option("where", "dely > 1")', load("lake", where="dely > 1")),
    "a predicate that is no SQL": Mistake('option("where", "delay > 1 && carrier = \'UA\'")', load("lake", where="delay > 1 && carrier = 'UA'")),
    "a predicate with a function that where lacks": Mistake(
        'option("where", "length(carrier) = 2")', load("lake", where="length(carrier) = 2")
    ),
    "a predicate that compares a number with text": Mistake(
        'option("where", "delay > \'much\'")', load("lake", where="delay > 'much'")
    ),
    "an option that does not exist": Mistake('option("header", "true")', load("lake", header="true")),
    "a frame that is older than the files": Mistake("an overwrite, then `frame.collect()` again", stale),
    "no mode": Mistake(
        'write.format("arrowipc").save("/data/new")',
        save("new", mode=None),
        'add `.mode("append")` or `.mode("overwrite")`; as an error if data is there, '
        '`.mode("append").option("ifExists", "error")`',
    ),
    "a file as the target": Mistake('mode("append").save("/data/flights.arrow")', save("flights.arrow")),
    "a codec that does not exist": Mistake('option("compression", "snappy")', save("new", compression="snappy")),
    "a partition column that is not there": Mistake('option("partitionBy", "year")', save("new", partitionBy="year")),
    "data where there must be none": Mistake(
        'mode("append").option("ifExists", "error").save("/data/lake")', save("lake", ifExists="error")
    ),
    "a table of the catalog": Mistake('df.write.format("arrowipc").saveAsTable("t")', lambda spark, _: spark.range(1).write.format("arrowipc").saveAsTable("mistaken")),
    "a query on the path": Mistake(
        "``SELECT * FROM arrowipc.`/data/lake` ``", sql("SELECT * FROM arrowipc.`{folder}/lake`"), VIEW
    ),
    "the package is not installed": Mistake(
        'format("arrowipc")',
        lambda spark, folder: spark.read.format("arrowipcc").load(f"{folder}/lake").collect(),
        "`arrowipc doctor`, then [deploy.md](deploy.md)",
    ),
    "a package that it needs is missing": Mistake('format("arrowipc")', without_lz4),
}  # fmt: skip


def make(spark, folder, *, connect=False):
    """Make each mistake, and return the full text that the last line of the screen's traceback begins with."""
    prepare(folder)
    return {name: made(m, spark, folder) for name, m in MISTAKES.items() if connect or not m.connect_only}


def made(mistake, spark, folder):
    try:
        mistake.act(spark, folder)
    except Exception as error:  # noqa: BLE001 - whatever the screen shows
        kind = f"{type(error).__module__}.{type(error).__qualname__}"
        return f"{kind}: {error}"
    return "nothing"


SENTENCE = re.compile(r"(?:spark_arrow_ipc\.errors\.\w+|\bImportError): .*|\[(?!PYTHON_)[A-Z_.]{9,}\] .*")
SPARKS_END = re.compile(r"\s*SQLSTATE: \w+.*|\s*Please make sure.*", re.DOTALL)


def sentence(text):
    """Return what is said of the mistake: our sentence, or Spark's own where it refuses before we are asked."""
    return SPARKS_END.sub("", SENTENCE.search(text)[0])


def characters(text):
    """Return the number of characters up to the end of the sentence."""
    match = SENTENCE.search(text)
    return match.start() + len(sentence(text))


def general(text, folder):
    """Return a text without what differs from run to run: folder, time, names of written files, sizes."""
    text = text.replace(str(folder), "/data").replace(str(folder.parent), "/")
    text = re.sub(r"at \d{4}-\d\d-\d\d [\d:]+ \w+", "at 2026-06-01 13:00:00 UTC", text)
    text = re.sub(r"byte offset [1-9][\d,]*", "byte offset 640", text)
    return re.sub(r"part-(\d+)-[0-9a-f]+", r"part-\1-5f2f61e1", text.replace("arrowipcc", "arrowipc"))


def row(name, text, folder):
    """Return the row of one mistake."""
    mistake = MISTAKES[name]
    code = mistake.code if "`" in mistake.code else f"`{mistake.code}`"
    return f"| {name} | {code} | {cell(general(sentence(text), folder))} | {mistake.remedy} |"


def cell(text):
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")


def refreshed(page, texts, folder):
    """Return the page with rows from these texts; a row that was not made stays."""
    before, old = page.split(BEGIN)
    old, after = old.split(END)
    kept = {line.split(" | ")[0].removeprefix("| "): line for line in old.splitlines()[2:]}
    rows = [row(name, texts[name], folder) if name in texts else kept.get(name, name) for name in MISTAKES]
    head = [
        "| mistake | for example | what the screen shows | the way out, where the text has none |",
        "|---|---|---|---|",
    ]
    return "".join([before, BEGIN, "\n".join([*head, *rows, ""]), END, after])


def main():
    """Make the mistakes, classic or with ``--connect``, and write the table."""
    from pyspark.sql import SparkSession

    # Spark's own choice may be another Python, without the package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    connect = sys.argv[1:] == ["--connect"]
    builder = SparkSession.builder.remote("local[2]") if connect else SparkSession.builder.master("local[2]")
    spark = builder.getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        texts = make(spark, Path(folder), connect=connect)
        for name, text in texts.items():
            print(f"{name}: {characters(text)}")
        page = refreshed(PAGE.read_text(encoding="utf-8"), texts, Path(folder))
    PAGE.write_text(page, encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    main()
