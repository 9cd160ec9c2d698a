"""A write says once that it could be faster; `register` makes it so, and leaves alone what a person chose."""

import logging
import pathlib

import pytest

from spark_arrow_ipc import register
from spark_arrow_ipc.spark.arrow_batch_bytes import MAX_BYTES_PER_BATCH, UNLIMITED, warn_if_default
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource
from spark_arrow_ipc.spark.options.options import SparkWriteOptions
from spark_arrow_ipc.spark.write.writer import ArrowIpcBatchWriter


class Context:
    """What a task of Spark's sees of its job."""

    def __init__(self, partition=0, attempt=0, **properties):
        self.partitionId = lambda: partition
        self.attemptNumber = lambda: attempt
        self.getLocalProperty = properties.get


# (The task, lines that it logs.)
TASKS = {
    "the first": (Context(), 1),
    "another": (Context(partition=1), 0),
    "the first, again": (Context(attempt=1), 0),
    "set by the session": (Context(**{MAX_BYTES_PER_BATCH: UNLIMITED}), 0),
    "set to something else": (Context(**{MAX_BYTES_PER_BATCH: "64m"}), 0),
    "no task of Spark's": (None, 0),
}


@pytest.mark.parametrize("name", TASKS)
def test_the_first_task_says_that_the_setting_is_missing(caplog, name):
    context, lines = TASKS[name]
    with caplog.at_level(logging.WARNING):
        warn_if_default(context)
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


# (The setting of the session, lines of a job of four tasks.)
@pytest.mark.parametrize(("value", "lines"), [(None, 1), ("64m", 0), (UNLIMITED, 0)])
def test_a_job_says_so_once(spark, setting, tmp_path, value, lines):
    log = str(tmp_path / "log")

    class Writer(ArrowIpcBatchWriter):  # in here, so that Spark's processes need not import this module
        def write(self, iterator):
            logging.getLogger("spark_arrow_ipc").addHandler(logging.FileHandler(log))
            return super().write(iterator)

    class Logging(ArrowIpcDataSource):
        @classmethod
        def name(cls):
            return "arrowipc_logging"

        def writer(self, schema, overwrite):
            options = SparkWriteOptions.parse(self.options)
            return Writer.plan(schema, options.path, options, overwrite=overwrite)

    spark.dataSource.register(Logging)
    setting(value)
    spark.range(100, numPartitions=4).write.format("arrowipc_logging").mode("append").save(str(tmp_path / "out"))
    assert len(pathlib.Path(log).read_text().splitlines()) == lines


# (The setting before and after.)
@pytest.mark.parametrize(("before", "after"), [(None, UNLIMITED), ("1m", "1m"), ("67108864", "67108864")])
def test_register_sets_what_nobody_chose(spark, setting, before, after):
    setting(before)
    register(spark)
    assert spark.conf.get(MAX_BYTES_PER_BATCH) == after
