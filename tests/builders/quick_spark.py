"""Spark as tests start it, with what each of its processes would otherwise make anew.

A session takes some 24 CPU seconds before its first answer. Half of it is Java, which loads and verifies the same 15,000
classes each time, half Python: Spark has its own PySpark as a zip without bytecode, so that each of the five kinds of
processes that a data source needs compiles what it imports. `make` prepares both once, in ``build/``, which takes half a
minute: a Spark home of links to the installed one, with the zip unpacked and compiled, and an archive of classes that a JVM
maps into memory (Java's class data sharing). A session that has them takes half as long. Nothing else is different: the
JVM ignores an archive that was made by another Java or for other jars, and without either of the two tests run as before.
"""

import contextlib
import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import quick_jvm

_PROGRAM = Path(__file__).with_name("quick_spark_program.py")


def use():
    """Let all sessions of this process and its programs start from the home, where `make` has made one.

    Somebody's own ``SPARK_HOME`` is left as it is.
    """
    if "SPARK_HOME" not in os.environ and _is_made():
        os.environ["SPARK_HOME"] = str(quick_jvm.HOME)
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
    # A checkout that may not be written to, or a Spark that does not start here: tests go on without it.
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        quick_jvm.HOME.parent.mkdir(exist_ok=True)
        with Path(f"{quick_jvm.HOME}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not _is_made():
                _make(_installed(), quick_jvm.HOME)


def _make(installed, home):
    shutil.rmtree(home, ignore_errors=True)
    _link(installed, home, but="python")
    _link(installed / "python", home / "python", but="lib")
    _link(installed / "python" / "lib", home / "python" / "lib", but="pyspark.zip")
    with zipfile.ZipFile(installed / "python" / "lib" / "pyspark.zip") as archive:
        archive.extractall(home / "python" / "lib" / "pyspark.zip")
    # A session leaves the bytecode of what Spark's Python processes import, and when it ends, its classes.
    new = quick_jvm.CLASSES.with_suffix(".new")
    environment = os.environ | {
        "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": str(Path(__file__).parents[2]), "PYSPARK_SUBMIT_ARGS":
        f"--driver-java-options '{quick_jvm.PLAIN} -XX:ArchiveClassesAtExit={new} {quick_jvm.SILENT}' pyspark-shell",
    }  # fmt: skip
    with (home / "log.new").open("wb") as log:
        done = subprocess.run(
            [sys.executable, str(_PROGRAM)], env=environment, stdout=log, stderr=log, cwd=home, timeout=300
        )
    if done.returncode == 0 and new.exists():
        new.rename(quick_jvm.CLASSES)
    (home / "log.new").rename(home / "log")  # by which the home is made


def _installed():
    """Return the folder of the installed Spark, or None: PySpark is absent, or is a client alone."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None:
        return None
    folder = Path(spec.origin).parent
    return folder if (folder / "python" / "lib" / "pyspark.zip").is_file() else None


def _is_made():
    jars, installed = quick_jvm.HOME / "jars", _installed()
    if installed is None or not (quick_jvm.HOME / "log").exists():
        return False
    return jars.is_symlink() and jars.readlink() == installed / "jars"


def _link(own, made, *, but):
    made.mkdir(parents=True)
    for entry in own.iterdir():
        if entry.name not in (but, "conf", "work", "logs"):
            (made / entry.name).symlink_to(entry)
