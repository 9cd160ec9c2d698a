"""Every way of docs/deploy.md to get the package to a cluster, each by spark-submit on one without the checkout.

The executors of a local cluster are children of the driver and inherit its environment, which those of a real one do
not: so PYTHONPATH is replaced for them, and they import what `spark-submit` brought, or nothing.
"""

import base64
import csv
import hashlib
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pyspark
import pytest
import quick_jvm
import quick_spark
from archives import unpack

import spark_arrow_ipc

ROOT = Path(__file__).parents[2]
DEPLOY = (ROOT / "docs" / "deploy.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SITE = Path("lib", f"python{sys.version_info.major}.{sys.version_info.minor}", "site-packages")
SECONDS = 300
TABLE = pa.table(
    {"a": pa.array(range(1000), pa.int64()), "s": [None if i % 7 == 0 else f"row {i}" for i in range(1000)]}
)

JOB = """
import json, re, sys
from pathlib import Path
from pyspark.sql import SparkSession

source, target, report = sys.argv[1:]

def here(_):
    import spark_arrow_ipc
    return [list(spark_arrow_ipc.__path__), sys.executable]

def load(path):
    return spark.read.format("arrowipc").load(path)

spark = SparkSession.builder.getOrCreate()
answer = {}
frame = None
try:
    frame = load(source)
except Exception as error:
    answer["refused"] = re.search(r"\\[(\\w+)\\]", str(error))[1]
    import spark_arrow_ipc
    try:
        spark_arrow_ipc.register(spark)
    except ModuleNotFoundError as cannot:
        answer["cannot"] = str(cannot)
if "cannot" not in answer:
    (frame or load(source)).write.format("arrowipc").mode("append").save(target)
    answer["path"], answer["python"] = spark.sparkContext.parallelize([0], 1).map(here).first()
Path(report).write_text(json.dumps(answer))
spark.stop()
"""


@dataclass(frozen=True)
class Way:
    """How the package travels; ``{wheel}``, ``{zip}``, ``{name}`` and ``{packed}`` stand for what was made of it.

    Parameters
    ----------
    says
        A line of docs/deploy.md that gives this way.
    python
        What PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON name: an environment of `environments`.
    arguments
        Those of spark-submit.
    pythonpath
        PYTHONPATH of spark-submit.
    executor_pythonpath
        PYTHONPATH of the executors.
    path
        How the place ends from which the executors imported the package.
    answer
        What else the job found.
    master
        A cluster of one executor, unless all that is new of a way is on the driver.
    """

    says: str
    python: str = "{bare}"
    arguments: tuple[str, ...] = ()
    pythonpath: str = ""
    executor_pythonpath: str = "nothing-here"
    path: str = ""
    answer: dict = field(default_factory=dict)
    master: str = "local-cluster[1,1,1024]"


NOT_FOUND = {"refused": "DATA_SOURCE_NOT_FOUND"}

WAYS = {
    "installed by pip": Way(
        says="$ pip install dist/spark_arrow_ipc-*.whl",
        python="{installed}",
        path=f"installed/{SITE}/spark_arrow_ipc",
    ),
    "a zip on three paths": Way(
        says="$ export PYTHONPATH=dist/spark_arrow_ipc.zip\n$ spark-submit --py-files $PYTHONPATH \\\n"
        "    --conf spark.executorEnv.PYTHONPATH=$(basename $PYTHONPATH) job.py",
        arguments=("--py-files", "{zip}"),
        pythonpath="{zip}",
        executor_pythonpath="spark_arrow_ipc.zip",
        path="spark_arrow_ipc.zip/spark_arrow_ipc",
    ),
    "the wheel on three paths": Way(
        says="A wheel under its own name works, too.",
        arguments=("--py-files", "{wheel}"),
        pythonpath="{wheel}",
        executor_pythonpath="{name}",
        path="{name}/spark_arrow_ipc",
    ),
    "a zip that is registered": Way(
        says="the `.zip` in `--py-files` and one call are enough: `spark_arrow_ipc.register(spark)`",
        arguments=("--py-files", "{zip}"),
        path="spark_arrow_ipc.zip/spark_arrow_ipc",
        answer=NOT_FOUND,
        master="local[1]",
    ),
    "a packed environment": Way(
        says="$ spark-submit --archives packed.tar.gz#env job.py",
        python="./env/bin/python",
        arguments=("--archives", "{packed}#env"),
        path=f"env/{SITE}/spark_arrow_ipc",
    ),
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel: by pip where the build backend is installed, else what it would hold."""
    directory = tmp_path_factory.mktemp("dist")
    if importlib.util.find_spec("hatchling") is not None:
        pip("wheel", "--no-deps", "--no-build-isolation", "-w", directory, ROOT)
        (made,) = directory.glob("*.whl")
        return made
    return zip_wheel(directory)


def pip(*arguments):
    subprocess.run([sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", *map(str, arguments)], check=True)


def zip_wheel(directory):
    name, version = PROJECT["project"]["name"].replace("-", "_"), spark_arrow_ipc.__version__
    info = f"{name}-{version}.dist-info"
    included = [ROOT / entry for entry in PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]]
    files = [path for entry in included for path in (entry.rglob("*.py") if entry.is_dir() else [entry])]
    contents = {path.relative_to(ROOT).as_posix(): path.read_bytes() for path in files} | {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    for path, content in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        rows.writerow([path, f"sha256={digest}", len(content)])
    rows.writerow([f"{info}/RECORD", "", ""])
    made = directory / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in [*contents.items(), (f"{info}/RECORD", record.getvalue().encode())]:
            archive.writestr(path, content)
    return made


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    """All that is installed here but for this package, as links."""
    directory = tmp_path_factory.mktemp("libraries")
    for path in Path(pyspark.__file__).parents[1].iterdir():
        if path.suffix != ".pth" and not re.match(
            r"spark_arrow_ipc|_?pyspark_arrowipc|pyspark$|__pycache__", path.name
        ):
            (directory / path.name).symlink_to(path)
    (directory / "pyspark").symlink_to(quick_spark.spark_home())
    return directory


@pytest.fixture(scope="module")
def environments(tmp_path_factory, libraries, wheel):
    """What a `Way` is filled in with: environments that do not know the checkout, and the package's forms."""
    directory = tmp_path_factory.mktemp("environments")
    bare, installed, packed = (
        make_environment(directory / name, libraries) for name in ("bare", "installed", "packed")
    )
    for environment in (installed, packed):
        pip("--python", environment / "bin" / "python", "install", "--no-deps", "--no-index", wheel)
    with tarfile.open(directory / "packed.tar.gz", "w:gz", compresslevel=1) as archive:
        archive.add(packed, ".")
    copy = directory / "spark_arrow_ipc.zip"
    copy.write_bytes(wheel.read_bytes())
    return {
        "bare": bare / "bin" / "python",
        "installed": installed / "bin" / "python",
        "packed": directory / "packed.tar.gz",
        "wheel": wheel,
        "name": wheel.name,
        "zip": copy,
        "spark_home": quick_spark.spark_home(),
    }


def make_environment(directory, libraries):
    """An environment that sees `libraries`, and may be moved: its dependencies are not copied, to be quick."""
    venv.create(directory, with_pip=False, symlinks=False)
    (directory / SITE / "libraries.pth").write_text(f"{libraries}\n")
    return directory


FORKS = "ignore:This process:DeprecationWarning"
"""Silences what Python 3.12 and later say of the processes of Spark 4.1."""


def submit(directory, environments, *arguments, python, pythonpath="", pythonwarnings=""):
    """Run spark-submit in `directory`, which is all that it and its job know of this machine."""
    ours = ("PYTHON", "PYSPARK", "SPARK", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)} | {
        "SPARK_HOME": str(environments["spark_home"]),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": str(python),
    }
    environment |= {"PYTHONPATH": pythonpath} if pythonpath else {}
    environment |= {"PYTHONWARNINGS": pythonwarnings} if pythonwarnings else {}
    return subprocess.run(
        [str(environments["spark_home"] / "bin" / "spark-submit"), *map(str, arguments)],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


def submit_job(directory, environments, way):
    """Run `JOB` as one of `WAYS` says and return what it found."""
    (directory / "job.py").write_text(JOB)
    with pa.ipc.new_file(str(directory / "in.arrow"), TABLE.schema) as writer:
        writer.write_table(TABLE)
    filled = {name: str(value) for name, value in environments.items()}
    answer = submit(
        directory,
        environments,
        *("--master", way.master, "--conf", "spark.ui.enabled=false"),
        *(
            "--conf",
            f"spark.driver.extraJavaOptions={quick_jvm.OPTIONS} -Dlog4j2.configurationFile={ROOT}/conf/log4j2.properties",
        ),
        *("--conf", f"spark.executor.extraJavaOptions={quick_jvm.OPTIONS}"),
        *("--conf", f"spark.executorEnv.PYTHONPATH={way.executor_pythonpath.format_map(filled)}"),
        *(argument.format_map(filled) for argument in way.arguments),
        *("job.py", directory / "in.arrow", directory / "out", directory / "report.json"),
        python=way.python.format_map(filled),
        pythonpath=way.pythonpath.format_map(filled),
    )
    # spark-submit sends both streams of the driver's Python to its standard output.
    assert 0 == answer.returncode, f"{answer.stdout}\n{answer.stderr}"
    return json.loads((directory / "report.json").read_text())


def read_back(directory):
    files = sorted(directory.glob("*.arrow"))
    return pa.concat_tables([pa.ipc.open_file(str(path)).read_all() for path in files])


# One way in which Spark finds the package by itself and one in which it must be registered are tried with each change.
EACH_TIME = {"a packed environment", "a zip that is registered"}
TRIED = [
    pytest.param(way, marks=pytest.mark.exhaustive if name in EACH_TIME else pytest.mark.nightly, id=name)
    for name, way in WAYS.items()
]


@pytest.mark.parametrize("way", TRIED)
def test_a_way_that_the_document_gives_works(way, environments, tmp_path):
    """Reading and writing; found by Spark itself, unless the document says that it must be registered."""
    if "{packed}" in "".join(way.arguments):
        # Client mode: the driver's Python lies where spark-submit was called.
        unpack(environments["packed"], tmp_path / "env", "fully_trusted")
    found = submit_job(tmp_path, environments, way)
    (path,) = found.pop("path")
    python = found.pop("python")
    assert way.answer == found
    assert path.endswith(way.path.format(name=environments["name"]))
    assert not path.startswith(str(ROOT / "spark_arrow_ipc"))
    assert python.endswith("/bin/python")
    assert TABLE == read_back(tmp_path / "out").replace_schema_metadata(None).sort_by("a")


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_the_document_gives_the_way(way):
    assert way.says in DEPLOY


def test_the_document_silences_spark_4_1():
    assert f"$ export PYTHONWARNINGS='{FORKS}'" in DEPLOY


@pytest.mark.exhaustive
def test_a_wheel_in_py_files_alone_is_not_enough_and_register_says_so(environments, tmp_path):
    """Planning needs no executor, and neither does this test."""
    alone = Way(
        says="**A wheel in `--py-files` alone is not enough**", arguments=("--py-files", "{wheel}"), master="local[1]"
    )
    found = submit_job(tmp_path, environments, alone)
    words = found.pop("cannot")
    assert NOT_FOUND == found
    assert "A wheel given to --py-files or addPyFile alone is not enough" in words
    assert "a copy of the wheel that ends in .zip" in words
    assert "in the documentation shows each" in words
    assert "No module named 'spark_arrow_ipc'" in words


INPUTS = {
    "csv": lambda path: pa.csv.write_csv(TABLE, path),
    "parquet": lambda path: pa.parquet.write_table(TABLE, path),
}


@pytest.mark.nightly
@pytest.mark.parametrize("form", INPUTS)
def test_the_example_job_converts(form, environments, tmp_path):
    """With the settings of conf/, as the document runs it; nothing to read on the console but what the JVM says."""
    (tmp_path / "conf").symlink_to(ROOT / "conf")
    INPUTS[form](tmp_path / f"in.{form}")
    answer = submit(
        tmp_path,
        environments,
        *("--master", "local[2]", "--properties-file", "conf/spark-defaults.conf"),
        *(ROOT / "examples" / "submit_convert.py", "--from", form, "--compression", "zstd", f"in.{form}", "out"),
        python=environments["installed"],
        pythonwarnings=FORKS if pyspark.__version__.startswith("4.1.") else "",
    )
    assert "WARNING: Using incubator modules: jdk.incubator.vector" == answer.stderr.strip()
    assert (0, "out holds 1,000 rows\n") == (answer.returncode, answer.stdout)
    values = {"a": pa.int32(), "s": pa.string()} if form == "csv" else {"a": pa.int64(), "s": pa.string()}
    assert TABLE.cast(pa.schema(values)) == read_back(tmp_path / "out").replace_schema_metadata(None).sort_by("a")
