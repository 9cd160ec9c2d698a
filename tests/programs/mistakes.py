"""The commonest mistakes, and what the screen shows of each: the tables of ``mistakes.md`` and of docs/runbook.md.

Each is made in a batch and, where streams have it too, in a stream, without ``.schema(...)`` and with it.
``python tests/programs/mistakes.py`` makes them in a classic session and writes the tables; with ``--connect``, under Spark
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

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("", "tests", "tests/oracles", "tests/builders", "tests/fakes", "tests/programs")]  # fmt: skip

import arrow_files
import pyarrow as pa
import pyarrow.parquet
import pyspark

RECORD = Path(__file__).with_suffix(".md")
PAGE = Path(__file__).parents[2] / "docs" / "runbook.md"
BEGIN, END = "<!-- begin mistakes -->\n", "<!-- end mistakes -->"

MOST_CHARACTERS = 600
"""Up to the end of our sentence, with the name of Spark's exception and all that Spark puts before."""

READS_STREAMS = pyspark.__version__ >= "4.2"
"""Spark 4.1 tells a source neither where a query goes on nor how much to read."""

BATCH, STREAM, STREAM_WITH_SCHEMA = "batch", "stream", "stream with a schema"

FLIGHTS = pa.table({"carrier": ["UA", "AA"], "delay": pa.array([1, 2], pa.int64())})


@dataclass(frozen=True)
class Mistake:
    """One row of the table.

    Parameters
    ----------
    code
        What a person writes, for the table.
    act
        Does it, in a session and a folder that `prepare` has filled, and in one of its ways; returns a started query, if any.
    remedy
        What to do, where the text does not say it.
    connect_only
        Whether it is a mistake under Spark Connect alone.
    """

    code: str
    act: Callable
    remedy: str = ""
    connect_only: bool = False

    @property
    def ways(self):
        """The ways in which it is made here: `act` names them where they are more than a batch."""
        return getattr(self.act, "ways", (BATCH,))


def prepare(folder):
    """Write the files that the mistakes are made with."""
    arrow_files.write(folder / "flights.arrow", FLIGHTS)
    arrow_files.write(folder / "lake" / "flights.arrow", FLIGHTS)
    arrow_files.write(folder / "years" / "2024" / "flights.arrow", FLIGHTS)
    arrow_files.write(folder / "huggingface" / "data-00000-of-00001.arrow", FLIGHTS, stream=True)
    (folder / "huggingface" / "state.json").write_text('{"_data_files": []}')
    (folder / "empty").mkdir()
    (folder / "parquet").mkdir()
    pa.parquet.write_table(FLIGHTS, folder / "parquet" / "flights.parquet")
    (folder / "flights.csv").write_text("carrier,delay\nUA,1\n")
    pa.parquet.write_table(FLIGHTS, folder / "flights.parquet")
    whole = (folder / "flights.arrow").read_bytes()
    (folder / "torn.arrow").write_bytes(whole[:-20])


def load(path, schema=None, source="arrowipc", *, relative=False, **options):
    def act(spark, folder, way):
        reader = (spark.read if way == BATCH else spark.readStream).format(source).options(**options)
        given = schema or ("carrier string, delay bigint" if way == STREAM_WITH_SCHEMA else None)
        reader = reader if given is None else reader.schema(given)
        frame = reader.load() if path is None else reader.load(path if relative else f"{folder}/{path}")
        # Under Connect nothing happens before the first action.
        return frame.collect() and None if way == BATCH else started(frame.writeStream.format("noop"))

    # Under Connect, a relative path of a stream with a schema is one of the server's directory, where it may be.
    streamed = (STREAM,) * (schema is None) + (STREAM_WITH_SCHEMA,) * (not relative)
    act.ways = (BATCH, *streamed) if READS_STREAMS else (BATCH,)
    return act


def save(path, mode="append", query="SELECT 'UA' AS carrier, 1L AS delay", **options):
    def act(spark, folder, way):
        if way == STREAM:
            return started(streamed(spark, folder).options(**options).option("path", f"{folder}/{path}"))
        writer = spark.sql(query).write.format("arrowipc").options(**options)
        writer = writer if mode is None else writer.mode(mode)
        return writer.save(f"{folder}/{path}")

    act.ways = (BATCH,) if mode is None else (BATCH, STREAM)
    return act


def streamed(spark, folder):
    """Return the writer of a stream of rows that come another way than through us."""
    rows = spark.readStream.schema("carrier string, delay bigint").parquet(f"{folder}/parquet")
    checkpoint = tempfile.mkdtemp(dir=folder.parent)
    return rows.writeStream.format("arrowipc").option("checkpointLocation", checkpoint)


def started(writer):
    return writer.trigger(availableNow=True).start()


def sql(*statements):
    def act(spark, folder, _):
        for statement in statements:
            spark.sql(statement.format(folder=folder)).collect()

    return act


def stale(spark, folder, way):
    save("stale")(spark, folder, way)
    frame = spark.read.format("arrowipc").load(f"{folder}/stale")
    frame.count()
    save("stale", "overwrite")(spark, folder, way)
    frame.collect()


def without_lz4(spark, folder, way):
    from pyspark_arrowipc import _stand_in

    # Under a name of its own, so that the session keeps the real one.
    stand_in = _stand_in("ModuleNotFoundError: No module named 'lz4'")
    lacking = type("Lacking", (stand_in,), {"name": classmethod(lambda _: "arrowipc_lacking")})
    spark.dataSource.register(lacking)
    return load("lake", source="arrowipc_lacking")(spark, folder, way)


def table(spark, folder, way):
    if way == STREAM:
        return streamed(spark, folder).trigger(availableNow=True).toTable("mistaken_stream")
    return spark.range(1).write.format("arrowipc").saveAsTable("mistaken")


without_lz4.ways = load("lake").ways
table.ways = (BATCH, STREAM)

VIEW = "`CREATE TEMPORARY VIEW t USING arrowipc OPTIONS (path '...')`"

MISTAKES = {
    "a path that does not exist": Mistake('load("/data/flight.arrow")', load("flight.arrow")),
    "a pattern that matches nothing": Mistake('load("/data/*.arow")', load("*.arow")),
    "no path": Mistake("load()", load(None)),
    "a relative path under Spark Connect": Mistake(
        'load("flights.arrow")',
        load("flights.arrow", relative=True),
        connect_only=True,
    ),
    "an empty directory": Mistake('load("/data/empty")', load("empty")),
    "files one level deeper": Mistake('load("/data/years")', load("years")),
    "a CSV file": Mistake('load("/data/flights.csv")', load("flights.csv")),
    "a Parquet file": Mistake('load("/data/flights.parquet")', load("flights.parquet")),
    "other files beside those of Arrow": Mistake('load("/data/huggingface")', load("huggingface")),
    "a file that was copied in part": Mistake(
        'load("/data/torn.arrow")', load("torn.arrow"), '`.option("recover", "true")` reads its complete record batches'
    ),
    "an option that is misspelt": Mistake('option("colums", "carrier")', load("lake", colums="carrier")),
    "an option of writing": Mistake('option("compression", "zstd").load(...)', load("lake", compression="zstd")),
    "a value that an option does not take": Mistake(
        'option("maxPartitionBytes", "much")', load("lake", maxPartitionBytes="much")
    ),
    "a column that is not there": Mistake('option("columns", "carier")', load("lake", columns="carier")),
    "a schema with another type": Mistake('schema("delay string")', load("lake", schema="delay string")),
    "a predicate on no column": Mistake('option("where", "dely > 1")', load("lake", where="dely > 1")),
    "a predicate that is not SQL": Mistake('option("where", "delay > 1 && carrier = \'UA\'")', load("lake", where="delay > 1 && carrier = 'UA'")),
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
    "a table of the catalog": Mistake('df.write.format("arrowipc").saveAsTable("t")', table),
    "a query on the path": Mistake(
        "``SELECT * FROM arrowipc.`/data/lake` ``", sql("SELECT * FROM arrowipc.`{folder}/lake`"), VIEW
    ),
    "the package is not installed": Mistake(
        'format("arrowipc")',
        load("lake", source="arrowipcc"),
        "`arrowipc doctor`, then [deploy.md](../../docs/deploy.md); where `load` works and `save` does not (after Ctrl-C, or in a second "
        "thread): `spark_arrow_ipc.register(spark)`",
    ),
    "a package that it needs is missing": Mistake('format("arrowipc")', without_lz4),
}  # fmt: skip


def make(spark, folder, *, connect=False, streams=True):
    """Make each mistake in each of its ways, and return the full texts that the last lines of the screen begin with."""
    prepare(folder)
    made = {name: mistake for name, mistake in MISTAKES.items() if connect or not mistake.connect_only}
    ways = {name: mistake.ways if streams else (BATCH,) for name, mistake in made.items()}
    return {name: {way: shown(m, spark, folder, way) for way in ways[name]} for name, m in made.items()}


def shown(mistake, spark, folder, way):
    if way == STREAM_WITH_SCHEMA:  # for a minute a stream takes what it cannot read for a file that is being written
        for path in folder.rglob("*.*"):
            path.touch()
    try:
        query = mistake.act(spark, folder, way)
        if query is not None and not query.awaitTermination(180):
            query.stop()
            return "the query did not end"
    except Exception as error:  # noqa: BLE001 - whatever the screen shows
        kind = f"{type(error).__module__}.{type(error).__qualname__}"
        return f"{kind}: {error}"
    return NO_ERROR


NO_ERROR = "no error"
SENTENCE = re.compile(r"(?:spark_arrow_ipc\.errors\.\w+|\bImportError): .*|\[(?!PYTHON_|STREAM_)[A-Z_.]{9,}\] .*")
SPARKS_END = re.compile(r"\s*SQLSTATE: \w+.*|\s*Please make sure.*", re.DOTALL)


def sentence(text):
    """Return what is said of the mistake: our sentence, or Spark's own where it refuses before we are asked."""
    return text if text == NO_ERROR else SPARKS_END.sub("", SENTENCE.search(text)[0])


def characters(text):
    """Return the number of characters up to the end of the sentence."""
    return text.index(sentence(text)) + len(sentence(text))


def general(text, folder):
    """Return a text without what differs from run to run: folder, time, names of written files, sizes."""
    text = text.replace(str(folder), "/data").replace(str(folder.parent), "/")
    text = re.sub(r"at \d{4}-\d\d-\d\d [\d:]+ \w+", "at 2026-06-01 13:00:00 UTC", text)
    text = re.sub(r"byte offset [1-9][\d,]*", "byte offset 640", text)
    return re.sub(r"part-(\d+)-[0-9a-f-]+", r"part-\1-5f2f61e1", text.replace("arrowipcc", "arrowipc"))


def row(name, ways, folder):
    """Return the row of one mistake, from what is shown of it in each of its ways."""
    mistake = MISTAKES[name]
    code = mistake.code if "`" in mistake.code else f"`{mistake.code}`"
    cells = [cell(general(sentence(ways[BATCH]), folder)), as_stream(ways, folder), mistake.remedy]
    return f"| {name} | {code} | {' | '.join(cells)} |"


def as_stream(ways, folder):
    """Return what a stream shows: of each way its own sentence, where that is not the one of a batch."""
    said = {way: general(sentence(ways[way]), folder) for way in (STREAM, STREAM_WITH_SCHEMA) if way in ways}
    told = {way: "the same" if said[way] == general(sentence(ways[BATCH]), folder) else cell(said[way]) for way in said}
    alike = told.get(STREAM, told.get(STREAM_WITH_SCHEMA, ""))
    other = told.get(STREAM_WITH_SCHEMA, alike)
    return alike if other == alike else f"{alike}; with `.schema(...)` {other}"


def cell(text):
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")


def check(name, ways, folder):
    """Check that each way of a mistake is told in one short sentence of ours or Spark's, which is recorded."""
    for way, text in ways.items():
        assert SENTENCE.search(text) or (text == NO_ERROR and way == STREAM_WITH_SCHEMA), (way, text)
        assert "Traceback" not in text, way
        assert characters(text) <= MOST_CHARACTERS, (way, text)
    made = row(name, ways, folder)
    if not READS_STREAMS or len(ways) < len(MISTAKES[name].ways):
        made = made.rsplit(" | ", 2)[0]  # the record has what streams show beside it
    assert made in RECORD.read_text(encoding="utf-8"), "python tests/programs/mistakes.py writes the tables"


def table_of(text):
    """Return the rows of the table in a text."""
    return text.split(BEGIN)[1].split(END)[0].splitlines()[2:]


def with_table(text, head, rows):
    """Return a text with another table."""
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    line = "|---" * head.count(" | ") + "|---|"
    return "".join([before, BEGIN, "\n".join([head, line, *rows, ""]), END, after])


def refreshed(record, texts, folder):
    """Return the record with rows from these texts; a row that was not made stays."""
    kept = {line.split(" | ")[0].removeprefix("| "): line for line in table_of(record)}
    rows = [row(name, texts[name], folder) if name in texts else kept.get(name, name) for name in MISTAKES]
    return with_table(
        record,
        "| mistake | for example | what the screen shows | as a stream | the way out, where the text has none |",
        rows,
    )


def page_of(page, record):
    """Return the page with the mistakes of the record whose text has no way out, by the error that the screen shows."""
    by_error = {}
    for line in table_of(record.replace("](../../docs/", "](")):
        name, _, text, _, remedy = line.removeprefix("| ").removesuffix(" |").split(" | ")
        error = re.match(r"\[[^]]+\]|\w+", text.removeprefix("spark\\_arrow\\_ipc.errors."))[0]
        if remedy.strip():
            by_error.setdefault(error, []).append(f"{name}: {remedy}")
    lines = [f"- **{error}**, {'; '.join(names)}" for error, names in by_error.items()]
    return "".join([page.split(BEGIN)[0], BEGIN, "\n".join([*lines, ""]), END, page.split(END)[1]])


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
        for name, ways in texts.items():
            print(f"{name}: {', '.join(f'{way} {characters(text)}' for way, text in ways.items())}")
        record = refreshed(RECORD.read_text(encoding="utf-8"), texts, Path(folder))
    RECORD.write_text(record, encoding="utf-8")
    PAGE.write_text(page_of(PAGE.read_text(encoding="utf-8"), record), encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    main()
