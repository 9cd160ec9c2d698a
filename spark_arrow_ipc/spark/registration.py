"""`register` and `push_down`: register the data source with a session, and give the session the jar of its Java.

How it works
------------
Spark plans and commits a Python data source in other processes, which receive the class by name. A package that only this
interpreter can import is registered without an error and fails at the first ``load``, far from the cause. Spark discovers
an installed package by itself, in a process that imports it: that is a proof, if the context has the same interpreter and
sends no files. Otherwise `register` makes Spark create the source once without a path. The error about the missing path
proves that the import works; after a failed import `register` raises an error that lists the remedies.

Spark passes the columns and filters of a query, save modes and tables of its catalog to sources of the JVM and not to
sources in Python. The jar (`spark.jar`) has such a source, which plans and writes by the Python source. A classic
application gets it as by ``spark.jars``: Spark looks for sources in the class loader of the thread that asks, and only
the loader that all threads inherit serves each of them. Under Spark Connect the jar is an artifact of the session: the
server's planner makes it, as the client may have another Spark, or none.
"""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from typing import Final

from pyspark.errors import PySparkException
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import SparkSession

from spark_arrow_ipc.spark import interrupt
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource
from spark_arrow_ipc.spark.jar import JAR_NAME, SOURCE, JarSource, jar_of_session
from spark_arrow_ipc.spark.session_settings import (
    CATALOGS,
    avoid_hang_of_columnar_functions,
    hide_secrets,
    unlimit_batch_bytes,
)

SETTING: Final = "spark.arrowipc.pushDown"
"""The setting of a session, or of its configuration, that turns push-down off by the value ``false``."""

DAEMON: Final = "spark.python.daemon.module"
"""Spark's setting of the module that forks Python workers."""

_LOG: Final = logging.getLogger(__name__)
_CANNOT_IMPORT = ("No module named", "ModuleNotFoundError", "ImportError", "cannot be imported here")
"""Parts of error messages of Spark's planner if a package or dependency is missing."""

_ADVICE = (
    "the data source 'arrowipc' is registered, but the Python process in which Spark plans cannot import it. "
    "A wheel given to --py-files or addPyFile alone is not enough: Spark puts only .zip, .egg and .jar files "
    "on the path of its own Python processes. "
    "Install spark-arrow-ipc in the environment that PYSPARK_PYTHON names, "
    "or give --py-files a copy of the wheel that ends in .zip, and put that on the driver's PYTHONPATH too "
    "or call register(spark) again, "
    'or ship a packed environment with --archives; "Clusters and Spark Connect" in the documentation shows each.'
)


def register(spark: SparkSession, *, push_down: bool = True, stop_on_interrupt: bool = True) -> None:
    """Register ``arrowipc`` with a session; Spark finds an installed package by itself.

    Also sets ``spark.sql.execution.arrow.maxBytesPerBatch`` to its greatest value, 2147483647, unless the session or
    its configuration has a value of its own: at Spark's default a write takes up to 5 times as long. Batches that Spark
    hands to Python are then limited only by ``spark.sql.execution.arrow.maxRecordsPerBatch`` (10,000 rows), in
    ``mapInArrow`` and pandas functions of the session too.

    Adds the options ``storage.*``, which may hold a secret, to ``spark.sql.redaction.options.regex``, by which Spark
    hides their values in plans, its event log and its web pages.

    Makes the session the active one of this thread. After Ctrl-C, and in a thread that is not the first, Spark answers every
    ``save`` with DATA_SOURCE_NOT_FOUND; call this function again in that thread.

    Adds the jar of this package's Java (`spark_arrow_ipc.push_down`), if the release of Spark allows: queries read only the
    columns and rows that they need, and tables, save modes and ``partitionBy`` are those of any source of Spark. A table can
    also be named by its path, ``SELECT * FROM arrowipc.`/path` ``. Sets ``spark.sql.catalog.arrowipc`` and
    ``spark.sql.catalog.spark_catalog`` for that, unless the session has other catalogs by these names.

    Sets ``spark.python.daemon.module`` in a local application that has not set it, if Spark has discovered this package:
    new Python workers are forks of a process that has imported what they need (`spark_arrow_ipc.spark.daemon`). A module
    that it has imported, such as numpy, is not replaced by a file that ``addPyFile`` adds later.

    Ctrl-C (a notebook's stop button) then ends the query that the main thread waits for, and no stream. It replaces PySpark's
    handler, after which a query goes on and commits (`spark_arrow_ipc.spark.interrupt`). Any other handler stays.

    Costs one planner process, about a quarter of a second, and seconds once for a release of this package and of Spark.

    Parameters
    ----------
    spark
        The session, classic or Connect.
    push_down
        False does not add the jar, like the setting ``spark.arrowipc.pushDown=false``.
    stop_on_interrupt
        False leaves PySpark's handler of SIGINT, which also stays under Spark Connect and outside of the main thread.

    Raises
    ------
    ModuleNotFoundError
        Spark's planner cannot import the package; the message lists the remedies.
    """
    if not is_connect(spark):
        _activate(spark)
    unlimit_batch_bytes(spark)
    hide_secrets(spark)
    is_proved = not is_connect(spark) and _is_discovered(spark)
    # Also a class that Spark has discovered: only this one has the interpreter, files and environment of the context.
    spark.dataSource.register(ArrowIpcDataSource)
    if is_proved:
        _preload_workers(spark)
    else:
        _check_import(spark)
    if stop_on_interrupt and not is_connect(spark):
        interrupt.stop_on_interrupt(spark)
    if push_down and str(spark.conf.get(SETTING, "true")).strip().lower() == "true":
        _add_jar_or_warn(spark)


def _is_discovered(spark: SparkSession) -> bool:
    """Return True if Spark has discovered this class by the interpreter, files and environment of its context."""
    name, context = ArrowIpcDataSource.name(), spark.sparkContext
    try:
        manager = spark._jsparkSession.sessionState().dataSourceManager()
        if not manager.dataSourceExists(name):  # the first call discovers sources, in a process that all sessions share
            return False
        companion = getattr(spark._jvm.org.apache.spark.sql.execution.datasources, "DataSourceManager$")
        discovered = getattr(companion, "MODULE$").dataSourceBuilders()
        source = discovered.get().get(name) if discovered.isDefined() else None
        if source is None or not source.isDefined():
            return False  # somebody has registered it, which imports nothing
        function = source.get().dataSourceCls()
        has_files = bool(context._python_includes) or context.environment.keys() - {"PYTHONHASHSEED"}
        if has_files or function.pythonExec() != context.pythonExec:
            return False
        return bool(CloudPickleSerializer().dumps(ArrowIpcDataSource) == function.command().unsafeArray())
    except Exception:  # noqa: BLE001 - an unknown Spark may raise anything
        return False


def _preload_workers(spark: SparkSession) -> None:
    """Let a local application fork its workers from the daemon of this package."""
    application = spark.sparkContext._jsc.sc()
    # Executors have started with their settings; a local application looks up this one whenever it needs a worker.
    if application.isLocal() and not application.conf().contains(DAEMON):
        application.conf().set(DAEMON, "spark_arrow_ipc.spark.daemon")


def _check_import(spark: SparkSession) -> None:
    """Raise if Spark's planner cannot import the class that was registered."""
    try:
        # Without a path the source always raises, so nothing is read.
        spark.read.format(ArrowIpcDataSource.name()).load()
    except PySparkException as error:
        words = str(error)
        if any(word in words for word in _CANNOT_IMPORT):
            lines = [line.strip() for line in words.splitlines() if any(word in line for word in _CANNOT_IMPORT)]
            raise ModuleNotFoundError(f"{_ADVICE}\nSpark's error: {lines[-1] if lines else words}") from error


def _activate(spark: SparkSession) -> None:
    """Make the session the active one of the JVM's thread that answers this thread."""
    # After Ctrl-C, and for another thread of Python, that is a new one, in which Spark finds no Python source to write to.
    # The only public call that does so, `createDataFrame`, also imports pandas, for a second.
    spark._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)


def push_down(spark: SparkSession) -> bool:
    """Give a session the jar by which queries read the columns and rows that they need, as `register` does.

    Applies to DataFrames, SQL, views and joins over ``arrowipc`` that are made after the call, in all sessions of a classic
    application. Reads hand their batches to Spark as columns. ``explain`` shows columns and conditions:
    ``arrowipc [k, x] where k > 5``. For one session ``spark.conf.set("spark.arrowipc.pushDown", "false")`` turns it off.

    Costs seconds of CPU once for a release of this package and of Spark, as the jar is compiled and cached.

    Parameters
    ----------
    spark
        The session, classic or Connect.

    Returns
    -------
    bool
        False, with a warning that has the reason, in a release of Spark whose classes differ from those that the jar uses,
        and where it cannot be compiled. Queries then read as before.
    """
    return _add_jar_or_warn(spark)


def _add_jar_or_warn(spark: SparkSession) -> bool:
    try:
        if is_connect(spark):
            _add_artifact(spark)
        else:
            avoid_hang_of_columnar_functions(spark)
            _add_to_application(spark)
        for setting, catalog in CATALOGS.items():
            if spark.conf.get(setting, "builtin") == "builtin":
                spark.conf.set(setting, catalog)
    except Exception as error:  # noqa: BLE001 - an unknown Spark may raise anything
        line = str(error).splitlines()[0][:300] if str(error) else type(error).__name__
        _LOG.warning("queries read all columns and rows, and there are no tables of SQL: %s", line)
        return False
    return True


def is_connect(spark: SparkSession) -> bool:
    """Return True if the JVM of a session is out of reach."""
    return not hasattr(spark, "_jsparkSession")


def _add_to_application(spark: SparkSession) -> None:
    """Add the jar as ``spark.jars`` does, unless the application has one."""
    context = spark.sparkContext
    jvm = context._jvm
    assert jvm is not None
    loader = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    if loader.getResource(f"{SOURCE.replace('.', '/')}.class") is not None:
        return
    jar = str(jar_of_session(context))
    loaders = []
    while loader is not None:
        loaders.append(loader)
        loader = loader.getParent()
    # Of spark-submit, and made before any thread that answers Python.
    shared = [
        loader for loader in loaders if loader.getClass().getName() == "org.apache.spark.util.MutableURLClassLoader"
    ]
    if not shared:  # a host with class loaders of its own: this thread and those that it starts
        spark._jsparkSession.sessionState().resourceLoader().addJar(jar)
        return
    shared[-1].addURL(jvm.java.io.File(jar).toURI().toURL())
    context._jsc.sc().addJar(jar)


def _add_artifact(spark: SparkSession) -> None:
    """Add the jar that the server's planner makes to a session of Spark Connect, unless the server has one."""
    spark.dataSource.register(JarSource)
    rows = spark.read.format(JarSource.name()).load().collect()
    with tempfile.TemporaryDirectory(prefix="spark-arrow-ipc-") as directory:
        path = Path(directory, JAR_NAME)
        path.write_bytes(rows[0].content)
        spark.addArtifacts(str(path))
