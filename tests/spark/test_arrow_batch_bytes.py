"""A write says once that it could be faster; `register` makes it so, and leaves alone what a person chose."""

import logging
import pathlib

import pyarrow as pa
import pytest

from spark_arrow_ipc import register
from spark_arrow_ipc.spark import session_settings
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource
from spark_arrow_ipc.spark.options.options import parse_write
from spark_arrow_ipc.spark.session_settings import MAX_BYTES_PER_BATCH, UNLIMITED, with_warning
from spark_arrow_ipc.spark.write.writer import ArrowIpcBatchWriter


class Context:
    """What a task of Spark's sees of its job."""

    def __init__(self, partition=0, attempt=0, **properties):
        self.partitionId = lambda: partition
        self.attemptNumber = lambda: attempt
        self.getLocalProperty = properties.get


MANY = (2, 2_500_000)
"""Columns, and rows: enough that the time is felt."""

# (The task, columns and rows that it writes, lines that it logs.)
TASKS = {
    "the first": (Context(), MANY, 1),
    "few rows": (Context(), (2, 2_499_999), 0),
    "few rows of many columns": (Context(), (500, 10_000), 1),
    "no rows": (Context(), (2, 0), 0),
    "another": (Context(partition=1), MANY, 0),
    "the first, again": (Context(attempt=1), MANY, 0),
    "set by the session": (Context(**{MAX_BYTES_PER_BATCH: UNLIMITED}), MANY, 0),
    "set to something else": (Context(**{MAX_BYTES_PER_BATCH: "64m"}), MANY, 0),
    "no task of Spark's": (None, MANY, 0),
}


@pytest.fixture(autouse=True)
def another_process():
    """It warns once in a process."""
    session_settings._warn.cache_clear()


def batches(columns, rows):
    """Return batches as Spark cuts them, of the same null column."""
    column = pa.nulls(10_000)
    for start in range(0, rows, 10_000):
        own = column[: min(10_000, rows - start)]
        yield pa.record_batch([own] * columns, [str(i) for i in range(columns)])


@pytest.mark.parametrize("name", TASKS)
def test_the_first_task_says_that_the_setting_is_missing(caplog, name):
    context, (columns, rows), lines = TASKS[name]
    with caplog.at_level(logging.WARNING):
        for _ in range(2):  # a second job says nothing new
            assert rows == sum(batch.num_rows for batch in with_warning(batches(columns, rows), context))
    assert len(caplog.messages) == lines
    assert all(f'spark.conf.set("{MAX_BYTES_PER_BATCH}", "{UNLIMITED}")' in message for message in caplog.messages)


@pytest.fixture
def setting(spark):
    """A function that sets the setting, or with None leaves it at its default; the session is as before afterwards."""
    before = spark.conf.get(MAX_BYTES_PER_BATCH, None)

    def choose(value):
        if value is None:
            spark.conf.unset(MAX_BYTES_PER_BATCH)
        else:
            spark.conf.set(MAX_BYTES_PER_BATCH, value)

    yield choose
    choose(before)


# (The setting of the session, rows of each of two tasks, lines of the job.)
@pytest.mark.one_in(2, "exhaustive")
@pytest.mark.parametrize(
    ("value", "rows", "lines"), [(None, 5_000_000, 1), (None, 100, 0), ("64m", 100, 0), (UNLIMITED, 5_000_000, 0)]
)
def test_a_job_says_so_once_and_only_where_it_is_felt(spark, setting, tmp_path, value, rows, lines):
    log = str(tmp_path / "log")

    class Writer(ArrowIpcBatchWriter):  # in here, so that Spark's processes need not import this module
        def write(self, iterator):
            logger = logging.getLogger("spark_arrow_ipc")
            logger.handlers = [logging.FileHandler(log)]  # a process serves several tasks
            return super().write(iterator)

    class Logging(ArrowIpcDataSource):
        @classmethod
        def name(cls):
            return "arrowipc_logging"

        def writer(self, schema, overwrite):
            options = parse_write(self.options)
            return Writer.plan(schema, options.path, options, overwrite=overwrite)

    spark.dataSource.register(Logging)
    setting(value)
    frame = spark.range(0, 2 * rows, 1, 2)
    frame.write.format("arrowipc_logging").mode("append").save(str(tmp_path / "out"))
    assert len(pathlib.Path(log).read_text().splitlines()) == lines


# (The setting before and after.)
@pytest.mark.parametrize(("before", "after"), [(None, UNLIMITED), ("1m", "1m"), ("67108864", "67108864")])
def test_register_sets_what_nobody_chose(spark, setting, before, after):
    setting(before)
    register(spark)
    assert spark.conf.get(MAX_BYTES_PER_BATCH) == after
