"""`register`: register the data source, and check that Spark can import it.

Spark creates, plans and commits a Python data source in processes of its own, and they receive the class by
name, not by value. A package that only this interpreter can import (a wheel given to ``--py-files`` alone, or a
``sys.path`` of one's own) is therefore registered without an error and fails at the first ``load``, far from the
cause. So `register` asks Spark once to make the source without a path. Our own error about the missing path proves
that the import works; after a failed import `register` raises an error that lists the remedies.
"""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource
from spark_arrow_ipc.spark.push_down.enable import is_connect, is_wanted
from spark_arrow_ipc.spark.push_down.enable import push_down as enable
from spark_arrow_ipc.spark.session_settings import set_unless_chosen

_CANNOT_IMPORT = ("No module named", "ModuleNotFoundError", "ImportError", "cannot be imported here")
"""Parts of error messages of Spark's planner that mean a missing package or dependency."""

_ADVICE = (
    "the data source 'arrowipc' is registered, but the Python process in which Spark plans cannot import it. "
    "A wheel given to --py-files or addPyFile alone is not enough: Spark puts only .zip, .egg and .jar files "
    "on the path of its own Python processes. "
    "Install spark-arrow-ipc in the environment that PYSPARK_PYTHON names, "
    "or give --py-files a copy of the wheel that ends in .zip, and put that on the driver's PYTHONPATH too "
    "or call register(spark) again, "
    "or ship a packed environment with --archives; docs/deploy.md shows each."
)


def register(spark: SparkSession, *, push_down: bool = True) -> None:
    """Register ``arrowipc`` with a session; Spark finds an installed package by itself.

    Also sets ``spark.sql.execution.arrow.maxBytesPerBatch`` to its greatest value, 2147483647, unless the session or
    its configuration has a value of its own: at Spark's default a write takes up to 5 times as long. Batches that Spark
    hands to Python are then limited by ``spark.sql.execution.arrow.maxRecordsPerBatch`` alone (10,000 rows), in
    ``mapInArrow`` and pandas functions of the session too.

    Makes the session the active one of this thread. After Ctrl-C, and in a thread that is not the first, Spark answers every
    ``save`` with DATA_SOURCE_NOT_FOUND; calling this once more, in that thread, mends it.

    Lets queries read the columns and rows alone that they need (`spark_arrow_ipc.push_down`), where that can be.

    Costs one planner process, about a quarter of a second, and for push-down about a second in each application of Spark.

    Parameters
    ----------
    spark
        The session, classic or Connect.
    push_down
        False leaves push-down as it is in the session, as the setting ``spark.arrowipc.pushDown=false`` does.

    Raises
    ------
    ModuleNotFoundError
        Spark's planner cannot import the package; the message lists the remedies.
    """
    spark.dataSource.register(ArrowIpcDataSource)
    # It makes the session the active one of the thread in which the JVM answers this one, as nothing else that is public does.
    # After Ctrl-C, and in another thread of Python's, that is a new thread, in which Spark finds no Python source to write to.
    spark.createDataFrame([], "a int")
    set_unless_chosen(spark)
    try:
        # Without a path the source always raises, so nothing is read.
        spark.read.format(ArrowIpcDataSource.name()).load()
    except PySparkException as error:
        words = str(error)
        if any(word in words for word in _CANNOT_IMPORT):
            raise ModuleNotFoundError(f"{_ADVICE}\nSpark's error: {_last_line(words)}") from error
    if push_down and not is_connect(spark) and is_wanted(spark):
        enable(spark)


def _last_line(words: str) -> str:
    named = [line.strip() for line in words.splitlines() if any(word in line for word in _CANNOT_IMPORT)]
    return named[-1] if named else words
