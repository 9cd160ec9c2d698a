"""`register` and `push_down`: register the data source with a session, and add a rule for push-down to its optimizer.

How it works
------------
Spark plans and commits a Python data source in other processes, which receive the class by name. A package that only this
interpreter can import is registered without an error and fails at the first ``load``, far from the cause. So `register`
makes Spark create the source once without a path. The error about the missing path proves that the import works; after a
failed import `register` raises an error that lists the remedies.

Spark passes the columns and filters of a query to sources of the JVM and not to sources in Python. The rule replaces tables
of this format by tables of the JVM before Spark pushes down (`spark.push_down` describes how, and
docs/adr/0040-push-down-without-a-jar.md why). Its Java sources are in ``push_down/java``. Janino, which Spark ships for its
generated code, compiles them in the driver, and executors get the classes in a jar.
"""

from __future__ import annotations

import hashlib
import logging
import tempfile
import zipfile
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_arrow_ipc.spark import interrupt
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource
from spark_arrow_ipc.spark.session_settings import avoid_hang_of_columnar_functions, hide_secrets, unlimit_batch_bytes

SETTING: Final = "spark.arrowipc.pushDown"
"""The setting of a session, or of its configuration, that turns push-down off by the value ``false``."""

_LOG: Final = logging.getLogger(__name__)
_PACKAGE: Final = "sparkarrowipc"
_CANNOT_IMPORT = ("No module named", "ModuleNotFoundError", "ImportError", "cannot be imported here")
"""Parts of error messages of Spark's planner if a package or dependency is missing."""

_ADVICE = (
    "the data source 'arrowipc' is registered, but the Python process in which Spark plans cannot import it. "
    "A wheel given to --py-files or addPyFile alone is not enough: Spark puts only .zip, .egg and .jar files "
    "on the path of its own Python processes. "
    "Install spark-arrow-ipc in the environment that PYSPARK_PYTHON names, "
    "or give --py-files a copy of the wheel that ends in .zip, and put that on the driver's PYTHONPATH too "
    "or call register(spark) again, "
    'or ship a packed environment with --archives; "Getting it to a cluster" in the documentation shows each.'
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

    Lets queries read only the columns and rows that they need (`spark_arrow_ipc.push_down`), if the release of Spark allows.

    Ctrl-C (a notebook's stop button) then ends the query that the main thread waits for, and no stream. It replaces PySpark's
    handler, after which a query goes on and commits (`spark_arrow_ipc.spark.interrupt`). Any other handler stays.

    Costs one planner process, about a quarter of a second, and for push-down about a second in each application of Spark.

    Parameters
    ----------
    spark
        The session, classic or Connect.
    push_down
        False does not change push-down in the session, like the setting ``spark.arrowipc.pushDown=false``.
    stop_on_interrupt
        False leaves PySpark's handler of SIGINT, which also stays under Spark Connect and outside of the main thread.

    Raises
    ------
    ModuleNotFoundError
        Spark's planner cannot import the package; the message lists the remedies.
    """
    spark.dataSource.register(ArrowIpcDataSource)
    # No other public call makes the session the active one of the JVM's thread that answers this thread. After Ctrl-C, and
    # for another thread of Python, that is a new thread, in which Spark finds no Python source to write to.
    spark.createDataFrame([], "a int")
    unlimit_batch_bytes(spark)
    hide_secrets(spark)
    try:
        # Without a path the source always raises, so nothing is read.
        spark.read.format(ArrowIpcDataSource.name()).load()
    except PySparkException as error:
        words = str(error)
        if any(word in words for word in _CANNOT_IMPORT):
            lines = [line.strip() for line in words.splitlines() if any(word in line for word in _CANNOT_IMPORT)]
            raise ModuleNotFoundError(f"{_ADVICE}\nSpark's error: {lines[-1] if lines else words}") from error
    if is_connect(spark):
        return
    if stop_on_interrupt:
        interrupt.stop_on_interrupt(spark)
    if push_down and spark.conf.get(SETTING, "true").strip().lower() == "true":
        _enable_or_warn(spark)


def push_down(spark: SparkSession) -> bool:
    """Let queries of a session read the columns and rows that they need, without the options `columns` and `where`.

    Applies to DataFrames, SQL, views and joins over ``arrowipc``, also earlier ones, and to sessions from
    ``spark.newSession()``. Reads hand their batches to Spark as columns. ``explain`` shows columns and conditions:
    ``arrowipc [k, x] where k > 5``. For one session ``spark.conf.set("spark.arrowipc.pushDown", "false")`` turns it off.

    Costs about a second for the first session of a Spark application, and nothing when it is called again.

    Parameters
    ----------
    spark
        The session.

    Returns
    -------
    bool
        False, with a warning that has the reason, under Spark Connect and in a release of Spark whose classes differ from
        those that the rule uses. Queries then read as before.
    """
    if is_connect(spark):
        return _warn_that_it_is_off("Spark Connect has no access to the optimizer; give the options columns and where")
    return _enable_or_warn(spark)


def _enable_or_warn(spark: SparkSession) -> bool:
    avoid_hang_of_columnar_functions(spark)
    try:
        return _enable(spark)
    except Exception as error:  # noqa: BLE001 - an unknown Spark may raise anything
        line = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        return _warn_that_it_is_off(f"this Spark ({spark.version}) is not one that it knows: {line}")


def is_connect(spark: SparkSession) -> bool:
    """Return True if the JVM of a session is out of reach."""
    return not hasattr(spark, "_jsparkSession")


def _enable(spark: SparkSession) -> bool:
    context, session = spark.sparkContext, spark._jsparkSession
    rules = session.extensions().buildPreCBORules(session)
    if any(rules.apply(i).getClass().getName() == f"{_PACKAGE}.PushDown" for i in range(rules.length())):
        return True
    jvm = context._jvm
    assert jvm is not None
    codes = _compile_classes(jvm, context._gateway)
    jar = _write_jar(codes)
    for path in (jar.parent, jar):  # the JVM deletes in reverse order, and the directory must be empty
        jvm.java.io.File(str(path)).deleteOnExit()
    context._jsc.sc().addJar(str(jar))
    loader = jvm.org.codehaus.commons.compiler.util.reflect.ByteArrayClassLoader(codes, _spark_classes(jvm))
    rule = loader.loadClass(f"{_PACKAGE}.PushDown")
    # By reflection, as py4j finds classes by name only in its own loader.
    gateway = context._gateway
    types = gateway.new_array(jvm.java.lang.Class, 1)
    types[0] = session.getClass()
    arguments = gateway.new_array(jvm.java.lang.Object, 1)
    arguments[0] = session
    rule.getMethod("enable", types).invoke(None, arguments)
    return True


def _compile_classes(jvm: Any, gateway: Any) -> Any:
    """Return a Java map from paths in a jar to the compiled classes of the folder ``java``."""
    janino, resources = jvm.org.codehaus.janino, jvm.org.codehaus.commons.compiler.util.resource
    texts = java_sources()
    sources = gateway.new_array(resources.Resource, len(texts))
    for i, (name, text) in enumerate(texts.items()):
        sources[i] = resources.StringResource(name, text)
    compiler = janino.CompilerFactory().newCompiler()
    compiler.setIClassLoader(janino.ClassLoaderIClassLoader(_spark_classes(jvm)))
    codes = jvm.java.util.HashMap()
    compiler.setClassFileCreator(resources.MapResourceCreator(codes))
    compiler.setClassFileFinder(resources.MapResourceFinder(codes))
    compiler.compile(sources)
    return codes


def java_sources() -> dict[str, str]:
    """Return the sources of the folder ``java`` by the names of their files."""
    # By importlib, as the package may be in a zip.
    folder = files("spark_arrow_ipc.spark.push_down") / "java"
    return {path.name: path.read_text("utf-8") for path in folder.iterdir() if path.name.endswith(".java")}


def _spark_classes(jvm: Any) -> Any:
    return jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()


def _write_jar(codes: Any) -> Path:
    """Write the compiled classes to a jar and return its path."""
    # Executors cache jars by their names, so the name depends on the content.
    contents = {name: bytes(codes[name]) for name in sorted(codes.keySet())}
    digest = hashlib.sha256(b"".join(name.encode() + code for name, code in contents.items())).hexdigest()[:16]
    path = Path(tempfile.mkdtemp(prefix="spark-arrow-ipc-")) / f"spark-arrow-ipc-{digest}.jar"
    with zipfile.ZipFile(path, "w") as jar:
        for name, code in contents.items():
            jar.writestr(name, code)
    return path


def _warn_that_it_is_off(why: str) -> bool:
    _LOG.warning("push-down is off: %s", why)
    return False
