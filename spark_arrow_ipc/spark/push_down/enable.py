"""`push_down`: give Spark's SQL the columns, predicates and sizes of this format.

Spark tells a Python source neither the columns nor the filters of a query. A source of the JVM is told both, so a rule
of the optimizer puts a table of the JVM in the place of ours before Spark pushes down, and that table hands what it is
told to our Python code (docs/adr/0040-push-down-without-a-jar.md). The rule is Java, in the folder ``java`` beside this
module, and is compiled in the driver by Janino, the compiler that Spark ships for its own generated code. Executors get
the compiled classes in a jar.
"""

from __future__ import annotations

import hashlib
import logging
import tempfile
import zipfile
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

_LOG: Final = logging.getLogger(__name__)

_PACKAGE: Final = "sparkarrowipc"
SETTING: Final = "spark.arrowipc.pushDown"
"""The setting of a session, or of its configuration, that turns push-down off by the value ``false``."""


def push_down(spark: SparkSession) -> bool:
    """Let queries of a session read the columns and rows that they need, without the options `columns` and `where`.

    For DataFrames, SQL, views and joins over ``arrowipc``, also those made before; for sessions that
    ``spark.newSession()`` makes, too. Reads hand their batches to Spark as columns. What is read is seen in
    ``explain``: ``arrowipc [k, x] where k > 5``. For one session ``spark.conf.set("spark.arrowipc.pushDown", "false")``
    turns it off.

    Costs about a second for the first session of a Spark application, and nothing when it is called again.

    Parameters
    ----------
    spark
        The session.

    Returns
    -------
    bool
        False, with a warning that says why, where it cannot be: under Spark Connect, and in a release of Spark whose
        classes are not those that the rule was written for. Queries then read as they do without it.
    """
    if is_connect(spark):
        return _refused("Spark Connect has no access to the optimizer; give the options columns and where")
    try:
        return _enable(spark)
    except Exception as error:  # noqa: BLE001 - whatever an unknown Spark answers
        return _refused(f"this Spark ({spark.version}) is not one that it knows: {_first_line(error)}")


def is_connect(spark: SparkSession) -> bool:
    """Return True if the JVM of a session is out of reach."""
    return not hasattr(spark, "_jsparkSession")


def is_wanted(spark: SparkSession) -> bool:
    """Return False if a session or its configuration turns push-down off."""
    value: str = spark.conf.get(SETTING, "true")
    return value.strip().lower() == "true"


def _enable(spark: SparkSession) -> bool:
    context, session = spark.sparkContext, spark._jsparkSession
    if any(rule.getClass().getName() == f"{_PACKAGE}.PushDown" for rule in _rules(session)):
        return True
    jvm = context._jvm
    assert jvm is not None
    codes = _compiled(jvm, context._gateway)
    jar = _jar(codes)
    for path in (jar.parent, jar):  # the JVM deletes the last one first
        jvm.java.io.File(str(path)).deleteOnExit()
    context._jsc.sc().addJar(str(jar))
    loader = jvm.org.codehaus.commons.compiler.util.reflect.ByteArrayClassLoader(codes, _spark_classes(jvm))
    rule = loader.loadClass(f"{_PACKAGE}.PushDown")
    # py4j finds classes by their names in its own loader, and this one is in another.
    gateway = context._gateway
    types = gateway.new_array(jvm.java.lang.Class, 1)
    types[0] = session.getClass()
    arguments = gateway.new_array(jvm.java.lang.Object, 1)
    arguments[0] = session
    rule.getMethod("enable", types).invoke(None, arguments)
    return True


def _rules(session: Any) -> list[Any]:
    rules = session.extensions().buildPreCBORules(session)
    return [rules.apply(i) for i in range(rules.length())]


def _compiled(jvm: Any, gateway: Any) -> Any:
    """Return a Java map of the compiled classes of the folder ``java``, by the paths of their files in a jar."""
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
    """Return the classes of the folder ``java`` by the names of their files; the package may lie in a zip."""
    folder = files(__package__) / "java"
    return {path.name: path.read_text("utf-8") for path in folder.iterdir() if path.name.endswith(".java")}


def _spark_classes(jvm: Any) -> Any:
    return jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()


def _jar(codes: Any) -> Path:
    """Write the compiled classes to a jar and return its path; its name changes with its content."""
    contents = {name: bytes(codes[name]) for name in sorted(codes.keySet())}
    digest = hashlib.sha256(b"".join(name.encode() + code for name, code in contents.items())).hexdigest()[:16]
    path = Path(tempfile.mkdtemp(prefix="spark-arrow-ipc-")) / f"spark-arrow-ipc-{digest}.jar"
    with zipfile.ZipFile(path, "w") as jar:
        for name, code in contents.items():
            jar.writestr(name, code)
    return path


def _refused(why: str) -> bool:
    _LOG.warning("push-down is off: %s", why)
    return False


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
