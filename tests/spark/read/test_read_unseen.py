"""Spark reads, with and without push-down, what rows see of files whose unseen slots are broken, and rewrites them."""

import pytest
from unseen_cases import CASES, batches, write_raw

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


CASES_READ = [case for case in CASES if case[0] != "map"][::4]
"""Of the maps of the table some have a key twice, which Spark's do not; those of the way "in a null map" have not."""


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    made = {}
    for name in ("broken", "clean"):
        made[name] = tmp_path_factory.mktemp(name)
        for number, batch in enumerate(map(readable, batches(clean=name == "clean", cases=CASES_READ))):
            (made[name] / str(number)).mkdir()
            with (made[name] / str(number) / "0.arrow").open("wb") as sink:
                write_raw(sink, batch)
    return made


def rows(frame):
    return [tuple(map(repr, row)) for row in frame.collect()]


def counts(frame):
    return frame.selectExpr(*(f"count(`{column}`)" for column in frame.columns)).collect()


@pytest.mark.parametrize("number", range(4))
def test_rows_are_those_of_clean_files(spark, directories, tmp_path, number):
    def read(path, **options):
        return spark.read.format("arrowipc").options(**options).load(str(path))

    broken, clean = (read(directories[name] / str(number)) for name in ("broken", "clean"))
    expected = rows(clean)
    assert len(clean.columns) > 10
    assert expected == rows(broken)
    assert counts(clean) == counts(broken)
    assert expected == rows(read(directories["broken"] / str(number), validation="structural"))
    rewrite(spark, str(directories["broken"] / str(number)), str(tmp_path / "made"))
    assert expected == rows(read(tmp_path / "made"))
