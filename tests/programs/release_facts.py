"""What a release promises to those after it: its public names, and a table that it wrote, in ``tests/releases/``.

``python tests/programs/release_facts.py`` writes both for the version of the checkout, once, before its tag (RELEASING.md);
``tests/test_compatibility.py`` holds each later version to them. The table is written by Spark and has

- more entries than one checkpoint covers, so that it is read from a checkpoint and the entries after it,
- partitions, dictionaries, statistics, nulls, a column that came later, and commit tokens,
- an overwrite of one partition whose removed files are retained, so that the version before it can be read.
"""

import importlib
import json
import os
import sys
import tarfile
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("", "tests", "tests/oracles", "tests/builders", "tests/fakes", "tests/programs")]  # fmt: skip

import spark_arrow_ipc
from spark_arrow_ipc import errors
from spark_arrow_ipc.cli.main import parsers
from spark_arrow_ipc.spark.options.options import OPTIONS

RELEASES = Path(__file__).parents[1] / "releases"
MODULES = ("spark_arrow_ipc", "spark_arrow_ipc.arrow", "spark_arrow_ipc.errors", "spark_arrow_ipc.ipc")
TOKEN = "the-last-job"
ENTRIES_OF_A_CHECKPOINT = 33
BEFORE = [
    {"id": 1, "word": "red", "k": "a"},
    {"id": 2, "word": None, "k": "a"},
    {"id": 3, "word": "red", "k": "b"},
]
AFTER = [
    {"id": 3, "word": "red", "late": None, "k": "b"},
    {"id": 4, "word": "blue", "late": 0.5, "k": "a"},
]
"""The rows before and after the last job."""


def names():
    """Return what users write: names of Python, options, commands with their arguments, and errors with what they are."""
    return {
        "python": {module: sorted(importlib.import_module(module).__all__) for module in MODULES},
        "options": {option.name: option.default for option in sorted(OPTIONS, key=lambda option: option.name)},
        "commands": {
            name: sorted({string for action in parser._actions for string in action.option_strings})
            for name, parser in parsers()[1].items()
        },
        "errors": {name: bases(getattr(errors, name)) for name in sorted(errors.__all__) if name.endswith("Error")},
    }


def bases(error):
    return sorted(base.__name__ for base in error.__mro__ if base not in {error, object, BaseException})


def write_table(spark, path):
    """Write the table; its rows are those of `AFTER`."""
    first = spark.createDataFrame([(1, "red", "a"), (2, None, "a"), (3, "red", "b")], "id long, word string, k string")
    last = spark.createDataFrame([(4, "blue", 0.5, "a")], "id long, word string, late double, k string")
    table = {"partitionBy": "k", "dictionaryColumns": "word", "compression": "zstd", "statistics": "all"}
    for _ in range(ENTRIES_OF_A_CHECKPOINT):
        first.coalesce(1).write.format("arrowipc").mode("overwrite").options(**table).save(path)
    keeping = {"retention": "36500d", "commitToken": TOKEN, "partitionOverwriteMode": "dynamic"}
    last.coalesce(1).write.format("arrowipc").mode("overwrite").options(**table, **keeping).save(path)


def main():
    folder = RELEASES / spark_arrow_ipc.__version__
    folder.mkdir(parents=True)
    (folder / "names.json").write_text(json.dumps(names(), indent=1) + "\n")
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    with tempfile.TemporaryDirectory() as temporary:
        write_table(spark, f"{temporary}/table")
        spark.stop()
        with tarfile.open(folder / "table.tar.gz", "w:gz") as archive:
            archive.add(f"{temporary}/table", "table", filter=without_owner)
    return 0


def without_owner(member):
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    sys.exit(main())
