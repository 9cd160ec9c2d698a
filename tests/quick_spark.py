"""Spark as tests start it, with what each of its processes would otherwise make anew.

A session takes some 24 CPU seconds before its first answer. Half of it is Java, which loads and verifies the same 15,000
classes each time, half Python: Spark has its own PySpark as a zip without bytecode, so that each of the five kinds of
processes that a data source needs compiles what it imports. `make` prepares both once, in ``build/``, which takes half a
minute: a Spark home of links to the installed one, with the zip unpacked and compiled, and an archive of classes that a JVM
maps into memory (Java's class data sharing). A session that has them takes half as long. Nothing else is different: the
JVM ignores an archive that was made by another Java or for other jars, and without either of the two tests run as before.
"""

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import quick_jvm

_PROGRAM = Path(__file__).with_name("quick_spark_program.py")


def home():
    """Return the folder of the Spark home for the PySpark that is installed; it may not be made yet."""
    return quick_jvm.BUILD / f"spark-{importlib.metadata.version('pyspark')}-{sys.implementation.cache_tag}"


def use():
    """Let all sessions of this process and its programs start from the home, where `make` has made one.

    Somebody's own ``SPARK_HOME`` is left as it is.
    """
    if "SPARK_HOME" not in os.environ and _installed() is not None and _is_made():
        os.environ["SPARK_HOME"] = str(home())
        os.environ.setdefault("SPARK_SUBMIT_OPTS", quick_jvm.OPTIONS)  # beside those that a program gives its driver


def spark_home():
    """Return the Spark home that sessions start from: that of `make` where it has made one, or that of the package."""
    return Path(os.environ.get("SPARK_HOME") or _installed())


def environment():
    """Return the environment of this process without what Spark has set for it, for a program with a Spark of its own."""
    ours = ("SPARK_", "PYSPARK_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return kept | {"SPARK_HOME": str(spark_home())}


def make():
    """Make the home and the archive of classes, if they are not there yet."""
    if "SPARK_HOME" in os.environ or _installed() is None or _is_made():
        return
    made = home()
    shutil.rmtree(made, ignore_errors=True)
    _link(_installed(), made, but="python")
    _link(_installed() / "python", made / "python", but="lib")
    _link(_installed() / "python" / "lib", made / "python" / "lib", but="pyspark.zip")
    with zipfile.ZipFile(_installed() / "python" / "lib" / "pyspark.zip") as archive:
        archive.extractall(made / "python" / "lib" / "pyspark.zip")
    _archive_classes(made)


def _archive_classes(made):
    """Run a session, which leaves the bytecode of what Spark's Python processes import, and its classes when it ends."""
    new = quick_jvm.CLASSES.with_suffix(".new")
    arguments = (
        f"--driver-java-options '{quick_jvm.PLAIN} -XX:ArchiveClassesAtExit={new} {quick_jvm.SILENT}' pyspark-shell"
    )
    environment = os.environ | {
        "SPARK_HOME": str(made), "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": str(Path(__file__).parents[1]), "PYSPARK_SUBMIT_ARGS": arguments,
    }  # fmt: skip
    with (made / "log").open("wb") as log:
        done = subprocess.run([sys.executable, str(_PROGRAM)], env=environment, stdout=log, stderr=log, cwd=made)
    if done.returncode == 0 and new.exists():
        new.rename(quick_jvm.CLASSES)


def _installed():
    """Return the folder of the installed PySpark, or None."""
    spec = importlib.util.find_spec("pyspark")
    return None if spec is None else Path(spec.origin).parent


def _is_made():
    jars = home() / "jars"
    return (home() / "log").exists() and jars.is_symlink() and jars.readlink() == _installed() / "jars"


def _link(own, made, *, but):
    made.mkdir(parents=True)
    for entry in own.iterdir():
        if entry.name not in (but, "conf", "work", "logs"):
            (made / entry.name).symlink_to(entry)
