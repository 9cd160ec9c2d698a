"""What the README shows, runs; what it says that Spark says, Spark says."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import quick_jvm

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()

pa = pytest.importorskip("pyarrow")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def write_flights(folder):
    table = pa.table({"carrier": ["AA", "AA", "UA"], "dep_delay": [61.0, 3.0, None]})
    with pa.ipc.new_file(str(folder / "flights.arrow"), table.schema) as writer:
        writer.write_table(table)


def test_the_codecs_lines_run(monkeypatch, capsys, tmp_path):
    (block,) = (block for block in blocks("python") if "spark" not in block.replace("spark_arrow_ipc", ""))
    write_flights(tmp_path)
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {})
    assert "['AA', 'AA', 'UA']\n" == capsys.readouterr().out


SCRIPT = """
import json
import spark_arrow_ipc
{block}
{lake}
{functions}
lake = [row.asDict() for row in spark.read.format("arrowipc").load("lake").collect()]
words = {{}}
def ask(name, question):
    try:
        question()
    except Exception as error:
        words[name] = str(error)
path = "refused"
ask("default mode", lambda: late.write.format("arrowipc").save(path))
ask("partitionBy", lambda: late.write.format("arrowipc").mode("append").partitionBy("carrier").save(path))
ask("bucketBy", lambda: late.write.format("arrowipc").mode("append").bucketBy(8, "carrier").save(path))
ask("direct query", lambda: spark.sql("SELECT * FROM arrowipc.`flights.arrow`"))
ask("no such source", lambda: spark.read.format("arrowipcc").load(path))
create = "CREATE TABLE t USING arrowipc OPTIONS (path 'flights.arrow')"
ask("table", lambda: spark.sql(create) and spark.sql("SELECT * FROM t").collect())
create = "CREATE TABLE u (carrier STRING) USING arrowipc OPTIONS (path 'flights.arrow')"
ask("table with columns", lambda: spark.sql(create) and spark.sql("SELECT * FROM u").collect())
spark_arrow_ipc.register(spark)
for statement in {sql!r}.split(";"):
    if statement.strip():
        answer = spark.sql(statement)
print(json.dumps({{
    "lake": lake,
    "written": [tuple(row) for row in spark.read.format("arrowipc").load("late").collect()],
    "sql": sorted((tuple(row) for row in answer.collect()), key=str),
    "words": words,
}}))
spark.stop()
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """The README's Spark and SQL lines, and what it says is refused, run as one program in a folder of their own."""
    pytest.importorskip("pyspark")
    folder = tmp_path_factory.mktemp("readme")
    write_flights(folder)
    (block,) = (block for block in blocks("python") if "pyspark" in block)
    (lake,) = (block for block in blocks("python") if "lake" in block)
    (functions,) = (block for block in blocks("python") if "map_in_arrow" in block)
    (sql,) = blocks("sql")
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": f"--master local[2] {quick_jvm.SUBMIT_ARGS}",
    }
    program = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(block=block, lake=lake, functions=functions, sql=sql)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert 0 == program.returncode, program.stderr
    return json.loads(program.stdout.splitlines()[-1])


@pytest.mark.nightly
def test_sparks_lines_run(answers):
    assert [["AA", 61.0]] == answers["written"]
    assert [{"carrier": "AA", "dep_delay": 61.0}] == answers["lake"]
    assert [["AA", 32.0], ["UA", 0.0]] == answers["sql"]


WORDS = [
    ("default mode", "UNSUPPORTED_DATA_SOURCE_SAVE_MODE", 'cannot be written in the "ErrorIfExists" mode'),
    ("partitionBy", "requirement failed", "columns do not match the existing table's."),
    ("bucketBy", "bucketBy", "'save' does not support bucketBy right now."),
    ("direct query", "UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY", "Unsupported data source type for direct query"),
    ("no such source", "DATA_SOURCE_NOT_FOUND", "Failed to find the data source:"),
    ("table", "OptionError", "CREATE TEMPORARY VIEW"),
    ("table with columns", "OptionError", "CREATE TEMPORARY VIEW"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "condition", "words"), WORDS, ids=[c[0] for c in WORDS])
def test_spark_refuses_in_the_words_that_the_readme_quotes(answers, name, condition, words):
    assert condition in answers["words"][name]
    assert words in answers["words"][name]
    assert words in README


def test_the_readme_names_what_a_reader_with_filters_meets():
    """The condition's name, from Spark's own list of them."""
    conditions = pytest.importorskip("pyspark.errors.error_classes").ERROR_CLASSES_MAP
    assert "DATA_SOURCE_PUSHDOWN_DISABLED" in conditions
    assert "DATA_SOURCE_PUSHDOWN_DISABLED" in README
