"""``arrowipc doctor``: check the environment, and name the fixes.

Every check returns one `Finding` and raises nothing. Only the standard library is imported at the top, as this command
runs in environments where other imports fail. A package is found if it can be imported; files that cannot be are not
enough.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import metadata, util
from pathlib import Path

from spark_arrow_ipc import __version__
from spark_arrow_ipc.cli.shared import terminal
from spark_arrow_ipc.errors import printable

JAVA_MINIMUM = 17
"""Spark 4 starts on Java 17 and later."""

# The same symptom as of a missing package, which this process cannot see
_LOST_SESSION = (
    "If a save says DATA_SOURCE_NOT_FOUND all the same, and a load works (after Ctrl-C in a notebook, or in a second thread): "
    "call spark_arrow_ipc.register(spark) there, once more."
)

# The lines, and the command that writes the file that the first one names
_CONFIGURATION = """
For SQL, spark-sql, the Thrift server and Scala, which cannot call register(spark): 'arrowipc jar /path/to/arrowipc.jar', and in spark-defaults.conf
spark.jars /path/to/arrowipc.jar
spark.sql.catalog.arrowipc sparkarrowipc.Catalog
spark.sql.catalog.spark_catalog sparkarrowipc.SessionCatalog"""

# Timeout of a program that prints its version
_ANSWER_SECONDS = 30

# Package manager and the command that installs Java, in order of preference
_JAVA_INSTALLERS: Mapping[str, str] = {
    "apt-get": "sudo apt-get install openjdk-17-jre-headless",
    "dnf": "sudo dnf install java-17-openjdk-headless",
    "apk": "sudo apk add openjdk17-jre-headless",
    "brew": "brew install openjdk@17",
    "winget": "winget install Microsoft.OpenJDK.17",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    name: str
    # The version and place that was found; empty if nothing was
    found: str
    # False if `arrowipc` does not work in Spark without it
    ok: bool
    # The command or sentence that fixes or improves it; empty if nothing is to be done
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Package:
    """A required Python package: its distribution, module and valid versions."""

    distribution: str
    module: str
    minimum: tuple[int, ...]
    below: tuple[int, ...] | None = None
    install: str | None = None
    advised_below: tuple[int, ...] | None = None
    advice: str = ""

    @property
    def requirement(self) -> str:
        """The versions that work, as pip writes them."""
        below = "" if self.below is None else f",<{_format_version(self.below)}"
        return f"{self.distribution}>={_format_version(self.minimum)}{below}"


PACKAGES = (
    Package("numpy", "numpy", (2, 0)),
    Package("flatbuffers", "flatbuffers", (24, 3, 25)),
    Package("lz4", "lz4.frame", (4, 3)),
    Package("zstandard", "zstandard", (0, 22)),
    Package("xxhash", "xxhash", (3, 2)),
    Package("pyspark", "pyspark.sql.datasource", (4, 1), (5,), "pyspark[sql]>=4.1,<5"),
    Package("pyarrow", "pyarrow", (15,)),
    Package(
        "pandas",
        "pandas",
        (2, 2),
        install="pandas>=2.2,<3",
        advised_below=(3,),
        advice="PySpark prints a warning about pandas 3 at every start; to avoid it:",
    ),
)


def doctor_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc doctor``."""
    parser.add_argument("--json", action="store_true", help="one JSON array instead of a table")


def run_doctor(arguments: argparse.Namespace) -> int:
    """Print the findings; return 1 if one is not ok."""
    # Checks never raise, so that one fault does not hide another.
    findings = examine()
    sound = all(finding.ok for finding in findings)
    if arguments.json:
        # DEL is ASCII, so that `json.dumps` leaves it.
        print(json.dumps([asdict(finding) for finding in findings], indent=2).replace("\x7f", "\\u007f"))
        return 0 if sound else 1
    rows = [
        ("ok" if finding.ok else "MISSING" if not finding.found else "WRONG", finding.name, finding.found or "-")
        for finding in findings
    ]
    print(f"arrowipc {__version__} at {Path(__file__).parents[1]}")
    for line in terminal.table(("", "what", "found"), rows):
        print(printable(line))
    for finding in findings:
        if finding.remedy:
            print(f"\n{printable(f'{finding.name}: {finding.remedy}')}")
    print(
        f"\nEverything that Spark needs is here. {_LOST_SESSION}" if sound else "\nSome of what Spark needs is missing."
    )
    if sound:
        print(_CONFIGURATION)
    return 0 if sound else 1


def examine() -> tuple[Finding, ...]:
    """Run all checks, the most basic ones first."""
    return (_python(), java(), *map(_package, PACKAGES), _discovery(), *_pythons(), *_bytecode())


def java() -> Finding:
    """Check the version of the Java that Spark would start, by ``java -version``."""
    name = f"Java {JAVA_MINIMUM} or later"
    if _is_client():
        return Finding(name, "not needed: pyspark-client starts no Java", ok=True)
    # In Spark's order: JAVA_HOME if it is set, and otherwise PATH.
    home = os.environ.get("JAVA_HOME")
    # `which` finds the suffix of executables on Windows too.
    program = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    if program is None and home:
        return Finding(name, "", ok=False, remedy=f"JAVA_HOME is {home}, where there is no bin/java: {_java_install()}")
    if program is None:
        return Finding(name, "", ok=False, remedy=_java_install())
    try:
        answer = subprocess.run(  # noqa: S603 - the program that Spark itself would start
            [program, "-version"], capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(name, f"{program}: {error}", ok=False, remedy=_java_install())
    # Java 8 names itself 1.8.
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    if match is None:
        return Finding(name, f"{program}, which names no version", ok=False, remedy=_java_install())
    version = int(match[1])
    if version < JAVA_MINIMUM:
        return Finding(name, f"Java {version} at {program}", ok=False, remedy=_java_install())
    return Finding(name, f"Java {version} at {program}", ok=True)


def _is_client() -> bool:
    """Return True if pyspark-client is installed, and pyspark is not."""
    names = {distribution.name.replace("_", "-") for distribution in metadata.distributions()}
    return "pyspark-client" in names and "pyspark" not in names


def _java_install() -> str:
    for program, command in _JAVA_INSTALLERS.items():
        if shutil.which(program):
            return command
    return f"install Java {JAVA_MINIMUM} or later, from https://adoptium.net for example"


def _python() -> Finding:
    sound = (3, 11) <= sys.version_info[:2] < (3, 15)
    version = f"{platform.python_version()} at {sys.executable}"
    return Finding(
        "Python 3.11 to 3.14", version, ok=sound, remedy="" if sound else "use Python 3.11, 3.12, 3.13 or 3.14"
    )


def _package(package: Package) -> Finding:
    install = f"{sys.executable} -m pip install '{package.install or package.requirement}'"
    name = package.requirement
    try:
        module = importlib.import_module(package.module)
    except Exception as error:  # noqa: BLE001 - a broken build may raise anything at import, and is the finding
        missing = isinstance(error, ModuleNotFoundError)
        installed = "" if missing else terminal.cut(f"{type(error).__name__}: {error}")
        return Finding(name, installed, ok=False, remedy=install)
    installed = _version_of(package, module)
    # Three numbers: pre-releases and builds append others.
    version = tuple(map(int, re.findall(r"\d+", installed)[:3]))
    if version < package.minimum or (package.below is not None and version >= package.below):
        return Finding(name, installed, ok=False, remedy=install)
    # Newer versions work, with a drawback.
    if package.advised_below is not None and version >= package.advised_below:
        return Finding(name, installed, ok=True, remedy=f"{package.advice} {install}")
    return Finding(name, installed, ok=True)


def _version_of(package: Package, module: object) -> str:
    try:
        return metadata.version(package.distribution)
    except metadata.PackageNotFoundError:  # unpacked by hand or run from a zip
        root = sys.modules[package.module.partition(".")[0]]
        return str(getattr(module, "__version__", getattr(root, "__version__", "0")))


def _discovery() -> Finding:
    name = "discovery by Spark (module pyspark_arrowipc)"
    # The install command names the checkout if this runs from one.
    checkout = Path(__file__).parents[2]
    what = str(checkout) if (checkout / "pyproject.toml").is_file() else "<the wheel of spark-arrow-ipc>"
    remedy = f"{sys.executable} -m pip install {what}"
    spec = util.find_spec("pyspark_arrowipc")
    if spec is None:
        return Finding(name, "", ok=False, remedy=remedy)
    source = getattr(importlib.import_module("pyspark_arrowipc"), "DefaultSource", None)
    if source is None:
        return Finding(name, f"{spec.origin}, without pyspark", ok=False, remedy="install pyspark as said above")
    why = getattr(source, "why", None)
    if why is not None:
        return Finding(name, f"{spec.origin}: {terminal.cut(why)}", ok=False, remedy=f"fix the error, or {remedy}")
    return Finding(name, str(spec.origin), ok=True)


def _pythons() -> tuple[Finding, ...]:
    """Check the Pythons that Spark would start: one for tasks, and one that plans, where a variable names another."""
    of_tasks = _spark_python("Python of Spark's own processes", "PYSPARK_PYTHON", "python3")
    if "PYSPARK_DRIVER_PYTHON" not in os.environ:
        return (of_tasks,)
    return of_tasks, _spark_python("Python that plans for Spark", "PYSPARK_DRIVER_PYTHON")


def _spark_python(name: str, variable: str, default: str = "") -> Finding:
    """Check that the program that a variable names is this Python."""
    remedy = f"export {variable}={sys.executable}"
    python = os.environ.get(variable, default)
    program = shutil.which(python)
    if program is None:
        return Finding(name, "", ok=False, remedy=f"there is no {python} on PATH: {remedy}")
    try:
        answer = subprocess.run(  # noqa: S603 - the program that Spark itself would start
            [program, "-c", "import sys; print(sys.prefix)"],
            capture_output=True,
            text=True,
            timeout=_ANSWER_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(name, f"{program}: {error}", ok=False, remedy=remedy)
    # Prefixes and not executables: links to one Python have several names.
    same = answer.stdout.strip() == sys.prefix
    environment = program if same else f"{program}, which is another environment than this one"
    return Finding(name, environment, ok=same, remedy="" if same else remedy)


def _bytecode() -> tuple[Finding, ...]:
    """Check that Spark's Python processes find bytecode of PySpark; return nothing without Spark."""
    spec = util.find_spec("pyspark")
    home = os.environ.get("SPARK_HOME") or (spec and spec.origin and str(Path(spec.origin).parent))
    if not home:
        return ()
    archive = Path(home) / "python" / "lib" / "pyspark.zip"
    name = "bytecode of PySpark for Spark's own processes"
    try:
        compiled = not archive.is_file() or "pyspark/__init__.pyc" in zipfile.ZipFile(archive).namelist()
    except (OSError, zipfile.BadZipFile) as error:
        return (Finding(name, f"{archive}: {error}", ok=False, remedy="install Spark again"),)
    # Without a zip PySpark is a directory, where Python writes bytecode itself.
    if compiled:
        return (Finding(name, str(archive if archive.exists() else home), ok=True),)
    remedy = (
        "each of them imports PySpark from this zip and compiles it, which takes about half a second of CPU, and the first "
        "query of a session starts four or more. Workers do without that by a setting of Spark, "
        "spark.python.daemon.module=spark_arrow_ipc.spark.daemon. For all, a directory of that name has bytecode (not for "
        f"YARN, which sends the zip): cd {archive.parent} && mv pyspark.zip pyspark-sources.zip && {sys.executable} -m zipfile -e "
        f"pyspark-sources.zip pyspark.zip && {sys.executable} -m compileall -q pyspark.zip"
    )
    return (Finding(name, f"none in {archive}", ok=True, remedy=remedy),)


def _format_version(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
