"""Spark reads, with and without push-down, what rows see of files whose unseen slots are broken, and rewrites them."""

import pytest
from unseen_cases import batches, write_raw

from spark_arrow_ipc import rewrite
from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.types import arrow_to_spark

pytestmark = pytest.mark.slow


def readable(batch):
    """Return the columns of types that Spark has, and that a schema can name."""
    positions = []
    for i, field in enumerate(batch.schema.fields):
        try:
            arrow_to_spark.spark_type(field, ReadOptions(), field.name)
        except ArrowIpcError:
            continue
        positions.append(i)
    return batch.select(positions)


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    made = {}
    for name in ("broken", "clean"):
        made[name] = tmp_path_factory.mktemp(name)
        for number, batch in enumerate(map(readable, batches(clean=name == "clean"))):
            (made[name] / str(number)).mkdir()
            with (made[name] / str(number) / "0.arrow").open("wb") as sink:
                write_raw(sink, batch)
    return made


READS = {
    "full": {"mapKeys": "lastWins"},
    "structural": {"mapKeys": "lastWins", "validation": "structural"},
}


def rows(frame):
    return [tuple(map(repr, row)) for row in frame.collect()]


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("options", READS)
def test_rows_and_columns_are_those_of_clean_files(spark, directories, number, options):
    frames = {
        name: spark.read.format("arrowipc").options(**READS[options]).load(str(directory / str(number)))
        for name, directory in directories.items()
    }
    assert len(frames["clean"].columns) > 30
    assert rows(frames["clean"]) == rows(frames["broken"])
    counts = [[f"count(`{column}`)" for column in frame.columns] for frame in frames.values()]
    answers = [frame.selectExpr(*count).collect() for frame, count in zip(frames.values(), counts, strict=True)]
    assert answers[0] == answers[1]


@pytest.mark.parametrize("number", range(4))
def test_rewritten_files_are_those_of_clean_ones(spark, directories, tmp_path, number):
    read = {}
    for name, directory in directories.items():
        rewrite(spark, str(directory / str(number)), str(tmp_path / name), mapKeys="lastWins")
        read[name] = rows(spark.read.format("arrowipc").load(str(tmp_path / name)))
    assert read["clean"] == read["broken"]
