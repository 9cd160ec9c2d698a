"""The daemon whose workers start with their modules: same answers, no threads at a fork, and Spark's own where there are some."""

import importlib
import json
import os
import pkgutil
import subprocess
import sys
import zipfile
from importlib.machinery import FileFinder

import arrow_files
import pyarrow as pa
import pytest

from spark_arrow_ipc.spark import daemon

JOB = """
import json, sys
from pyspark.sql import SparkSession

path, target, master, module = sys.argv[1:]
builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false").config("spark.python.worker.reuse", "false")
if "." in module:
    builder = builder.config("spark.python.daemon.module", module)
spark = builder.getOrCreate()
if module == "register":
    import spark_arrow_ipc
    spark_arrow_ipc.register(spark)

def seen(batches):
    import os, sys
    known = "spark_arrow_ipc.spark.read.reader" in sys.modules
    threads = len(os.listdir("/proc/self/task"))
    import numpy, numpy.random, pyarrow as pa
    for batch in batches:
        yield pa.record_batch({"known": [known], "threads": [threads], "draw": [numpy.random.random()]})

rows = spark.range(2, numPartitions=2).mapInArrow(seen, "known boolean, threads long, draw double").collect()
frame = spark.read.format("arrowipc").load(path)
firsts = [frame.limit(1).collect()[0].a for _ in range(3)]
frame.where("a > 1").write.format("arrowipc").mode("append").save(target)
try:
    frame.mapInArrow(lambda batches: 1 / 0, "a long").collect()
except Exception as error:
    division = "ZeroDivisionError" in str(error)
written = sorted(row.a for row in spark.read.format("arrowipc").load(target).collect())
print(json.dumps({
    "known": [row.known for row in rows], "threads": [row.threads for row in rows],
    "draws": len({row.draw for row in rows}), "firsts": firsts, "written": written, "division": division,
}))
spark.stop()
"""


def run(tmp_path, master: str, module: str) -> dict[str, object]:
    arrow_files.write(tmp_path / "a.arrow", pa.table({"a": [1, 2, 3]}))
    command = [sys.executable, "-c", JOB, str(tmp_path / "a.arrow"), str(tmp_path / "out"), master, module]
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


IMPORT = """
import json, sys
from spark_arrow_ipc.spark import daemon
before = [name for name in sys.modules if name.partition(".")[0] == "pyspark"]
daemon._pass_over_zip()
import pyspark
print(json.dumps([before, pyspark.__file__]))
"""


@pytest.mark.parametrize("place", ["python/lib", "elsewhere"])
def test_pyspark_is_imported_from_its_installation_only_if_the_zip_lies_there(tmp_path, place):
    package = tmp_path / "site" / "pyspark"
    archive = (package if place == "python/lib" else tmp_path) / place / "pyspark.zip"
    archive.parent.mkdir(parents=True)
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").touch()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("pyspark/__init__.py", "")
    path = [str(archive), str(package.parent), *sys.path[1:]]
    command = [sys.executable, "-c", f"import sys; sys.path[1:1] = {path}\n{IMPORT}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    origin = package if place == "python/lib" else archive / "pyspark"
    assert [[], str(origin / "__init__.py")] == json.loads(done.stdout)


ANSWERS = {"draws": 2, "firsts": [1, 1, 1], "written": [2, 3], "division": True}


@pytest.mark.exhaustive  # the tests' shared session has this daemon
def test_workers_start_with_their_modules_and_give_the_same_answers(tmp_path):
    found = run(tmp_path, "local[2]", daemon.__name__)
    assert found == {"known": [True, True], "threads": [1, 1]} | ANSWERS


@pytest.mark.exhaustive
def test_register_lets_workers_of_a_local_application_do_so(tmp_path):
    found = run(tmp_path, "local[2]", "register")
    assert found == {"known": [True, True], "threads": [1, 1]} | ANSWERS


@pytest.mark.slow
@pytest.mark.parametrize(
    "module", [pytest.param(daemon.__name__, marks=pytest.mark.exhaustive), pytest.param("", marks=pytest.mark.nightly)]
)
def test_workers_of_executors_do_so_and_those_of_sparks_own_daemon_do_not(tmp_path, module):
    found = run(tmp_path, "local-cluster[1,2,1024]", module)
    assert {name: found[name] for name in ("known", *ANSWERS)} == {"known": [bool(module)] * 2} | ANSWERS


def in_process(program: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run a daemon to its end, which is that of its standard input; it prints the number of its port in four bytes."""
    return subprocess.run(
        [sys.executable, "-c", "import spark_arrow_ipc.spark.daemon as daemon\n" + program, "pyspark.worker"],
        input=b"",
        capture_output=True,
        check=False,
        timeout=60,
        env=os.environ | environment,
    )


@pytest.mark.slow
def test_where_a_thread_runs_it_becomes_sparks_own():
    done = in_process(
        "import threading, time\n"
        "daemon._MODULES = ()\n"
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "daemon.main()"
    )
    assert len(done.stdout) == 4
    assert b"started threads" in done.stderr
    assert b"OMP_NUM_THREADS=1" in done.stderr


@pytest.mark.slow
def test_a_module_that_cannot_be_imported_stops_nobody():
    done = in_process("daemon._MODULES = ('no_such_module', 'pyspark.worker')\ndaemon.main()", OMP_NUM_THREADS="1")
    assert (len(done.stdout), done.stderr) == (4, b"")


@pytest.mark.slow
def test_forks_draw_random_numbers_of_their_own():
    program = """
import os, sys
import numpy.random
daemon._seed_forks()
for _ in range(3):
    if os.fork() == 0:
        os.write(1, f"{numpy.random.random()} ".encode())
        os._exit(0)
    os.wait()
"""
    assert len(set(in_process(program).stdout.split())) == 3


def test_importers_of_zips_are_made_again_when_they_are_needed(tmp_path, monkeypatch):
    path = str(tmp_path / "some.zip")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("module_of_a_zip.py", "answer = 7\n")
    monkeypatch.syspath_prepend(path)
    pkgutil.get_importer(path)
    kept = {entry for entry, importer in sys.path_importer_cache.items() if isinstance(importer, FileFinder)}
    assert path in sys.path_importer_cache
    daemon._forget_zips()
    assert path not in sys.path_importer_cache
    assert kept <= set(sys.path_importer_cache)
    assert importlib.import_module("module_of_a_zip").answer == 7
