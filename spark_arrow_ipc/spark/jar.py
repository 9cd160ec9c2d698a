"""The jar of this package's Java: compiled by Spark's Janino, and cached for a release of this package and of Spark.

How it works
------------
The Java sources are in ``push_down/java``. Janino, which Spark ships for its generated code, compiles them in a JVM that
is started for it: in that of a session it takes as long, as its classes are not loaded there either. The same sources give
the same bytes: names are sorted and times are fixed. The jar's service file names the source, so that Spark finds it by
``format("arrowipc")``.

A jar in the cache has in its name the versions of this package and of Spark, a digest of the sources, and a digest of its
own bytes. Its directory must belong to the user, with no permission for others to write, as others could replace the jar
and its name. Where there is no such directory, the jar is in a temporary one that this process deletes.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import io
import os
import re
import shutil
import stat
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from pyspark import __version__ as spark_version
from pyspark.sql.datasource import DataSource, DataSourceReader

from spark_arrow_ipc.errors import UnsupportedError, cut_repr
from spark_arrow_ipc.spark.datasource import VERSION, release_of
from spark_arrow_ipc.spark.options.options import OPTIONS
from spark_arrow_ipc.spark.process import short_errors

_SERVICE: Final = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"
SOURCE: Final = "sparkarrowipc.Source"
_SOURCES: Final = (SOURCE, "sparkarrowipc.FunctionSource")
"""The classes that Spark finds by the service file."""

JAR_NAME: Final = "spark-arrow-ipc.jar"
"""The name of the jar where nothing needs to be in it."""

_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The first time that a zip can have."""

_COMPILER: Final = "org.codehaus.commons.compiler.samples.CompilerDemo"
"""Janino's command line, in a jar that Spark ships."""

_QUICK_START: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Options of a JVM that lives for seconds."""

_SECONDS: Final = 120

_RELEASE: Final = """package sparkarrowipc;

/** What this jar was made for, which the Python source compares with itself, and the names of its options in lower case. */
class Release {{
  static final String NAME = "{}";
  static final java.util.List OPTIONS = java.util.Arrays.asList(new Object[] {{{}}});
}}
"""


@dataclass(frozen=True, slots=True)
class Jar:
    """A jar, and its path if it is in the cache."""

    name: str
    content: bytes
    path: Path | None = None


class JarSource(DataSource):  # type: ignore[misc]  # PySpark is not typed for mypy's strict mode here
    """The jar as one row: a client of Spark Connect reads it from the server, whose planner makes it."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format(...)``."""
        return "arrowipc.jar"

    def schema(self) -> str:
        """Return the only column."""
        return "content binary"

    @short_errors
    def reader(self, schema: object) -> JarReader:  # noqa: ARG002 - Spark's signature
        """Return a reader that has the bytes of the jar."""
        return JarReader(jar_of_installation())


class JarReader(DataSourceReader):  # type: ignore[misc]  # as above
    """Hands over bytes that the planner has read."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def read(self, partition: object) -> Iterator[tuple[bytes]]:  # noqa: ARG002 - Spark's signature
        """Yield the row."""
        yield (self._content,)


def java_sources() -> dict[str, str]:
    """Return the sources of the folder ``java`` by the names of their files."""
    # By importlib, as the package may be in a zip.
    folder = files("spark_arrow_ipc.spark.push_down") / "java"
    return {path.name: path.read_text("utf-8") for path in folder.iterdir() if path.name.endswith(".java")}


def jar_of_session(context: Any) -> Path:
    """Return the path of the jar for the Spark and the Java of a classic session's context."""
    system = context._jvm.java.lang.System
    java = Path(system.getProperty("java.home"), "bin", "java")
    jar = _find_or_make(context.version, lambda: (str(java), system.getProperty("java.class.path")))
    return jar.path or _write_temporary(jar)


def jar_of_installation() -> bytes:
    """Return the jar for the Spark that PySpark would start.

    Raises
    ------
    UnsupportedError
        Neither Java nor Spark's jars are here, or the sources do not compile.
    """
    return _find_or_make(spark_version, _installed_java_and_jars).content


def installed_release() -> str:
    """Return the versions of this package and of the Spark that `jar_of_installation` compiles with."""
    return release_of(spark_version)


def _installed_java_and_jars() -> tuple[str, str]:
    from pyspark.find_spark_home import _find_spark_home

    jars = sorted(map(str, Path(_find_spark_home(), "jars").glob("*.jar")))
    if not jars:
        raise UnsupportedError(
            "this PySpark has no jars (a client of Spark Connect), which the Java of this package is compiled with; run "
            "'arrowipc jar' where Spark is installed, and name the jar in spark.jars of the server"
        )
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    if java is None:
        raise UnsupportedError("there is no Java here, which 'arrowipc doctor' tells how to install")
    return java, os.pathsep.join(jars)


def _compile_classes(sources: Mapping[str, str], java: str, class_path: str) -> dict[str, bytes]:
    """Return the class files of sources by their paths in a jar."""
    with tempfile.TemporaryDirectory(prefix="spark-arrow-ipc-") as name:
        folder, classes = Path(name), Path(name, "classes")
        classes.mkdir()
        for source, text in sources.items():
            (folder / source).write_text(text, "utf-8")
        command = [java, *_QUICK_START, "-cp", class_path, _COMPILER, "-d", str(classes), "-classpath", class_path]
        try:
            compiled = subprocess.run(  # noqa: S603 - the Java of Spark
                [*command, "-encoding", "UTF-8", *(str(folder / source) for source in sources)],
                capture_output=True, text=True, timeout=_SECONDS, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UnsupportedError(f"the Java of this package is not compiled: {error}") from error
        contents = {path.relative_to(classes).as_posix(): path.read_bytes() for path in classes.rglob("*.class")}
        if compiled.returncode or not contents:
            lines = [line.strip() for line in f"{compiled.stdout}\n{compiled.stderr}".splitlines() if line.strip()]
            lines = [
                line for line in lines if not line.startswith("Picked up ")
            ]  # JAVA_TOOL_OPTIONS, perhaps with a secret
            reason = cut_repr(lines[0] if lines else f"exit status {compiled.returncode}", 300)
            raise UnsupportedError(f"the Java of this package does not compile with this Spark: {reason}")
        return contents


def pack(classes: Mapping[str, bytes], spark_version: str) -> bytes:
    """Return the bytes of a jar: the same for the same classes and versions."""
    manifest = (
        "Manifest-Version: 1.0\r\n"
        "Implementation-Title: spark-arrow-ipc\r\n"
        f"Implementation-Version: {VERSION}\r\n"
        f"Spark-Version: {spark_version}\r\n\r\n"
    )
    entries: dict[str, bytes] = {"META-INF/MANIFEST.MF": manifest.encode()}
    if f"{SOURCE.replace('.', '/')}.class" in classes:
        entries[_SERVICE] = "".join(f"{name}\n" for name in _SOURCES).encode()
    entries |= {name: classes[name] for name in sorted(classes)}
    jar = io.BytesIO()
    with zipfile.ZipFile(jar, "w") as archive:
        for name, content in entries.items():
            # Not compressed, as releases of zlib differ.
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), content)
    return jar.getvalue()


def _release_source(version: str) -> str:
    options = ", ".join(f'"{option.name.lower()}"' for option in OPTIONS)
    return _RELEASE.format(release_of(version), options)


def _find_or_make(version: str, java_and_jars: Callable[[], tuple[str, str]]) -> Jar:
    """Return the jar for a version of Spark from the cache, or made and put there."""
    sources = {**java_sources(), "Release.java": _release_source(version)}
    start = _start_of_name(sources, version)
    directory = _cache_directory()
    jar = None if directory is None else _find_in(directory, start)
    if jar is None:
        content = pack(_compile_classes(sources, *java_and_jars()), version)
        jar = Jar(f"{start}{_digest(content)}.jar", content)
        if directory is not None:
            with contextlib.suppress(OSError):  # a file system without space, or that is read only
                jar = replace(jar, path=_publish(directory / jar.name, content))
    return jar


def _start_of_name(sources: Mapping[str, str], spark_version: str) -> str:
    digest = _digest("".join(f"{name}\0{text}\0" for name, text in sorted(sources.items())).encode())
    versions = re.sub(r"[^\w.+-]", "_", f"{VERSION}-spark-{spark_version}")
    return f"spark-arrow-ipc-{versions}-{digest[:16]}-"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _find_in(directory: Path, start: str) -> Jar | None:
    """Return the jar of the cache whose bytes have the digest in its name."""
    for path in sorted(directory.glob(f"{start}*.jar")):
        with contextlib.suppress(OSError):
            content = path.read_bytes()
            if path.name == f"{start}{_digest(content)}.jar":
                return Jar(path.name, content, path)
    return None


def _write_temporary(jar: Jar) -> Path:
    """Write a jar to a directory that this process deletes when it ends."""
    directory = Path(tempfile.mkdtemp(prefix="spark-arrow-ipc-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return _publish(directory / jar.name, jar.content)


def _publish(path: Path, content: bytes) -> Path:
    """Give a file its name when it is complete."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".new")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
    return path


def _cache_directory() -> Path | None:
    """Return the user's directory for jars, created if need be; None if others could write to it."""
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        directory = cache / "spark-arrow-ipc"
        if not directory.is_absolute():
            return None
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.lstat()
    except (OSError, RuntimeError):  # no home, or none that can be written to
        return None
    if not stat.S_ISDIR(status.st_mode):
        return None
    if hasattr(os, "geteuid") and (status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)):
        return None
    return directory
