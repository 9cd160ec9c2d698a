"""The deployments of examples/clusters: the scripts run as they stand, and the manifest and the image fit the package."""

import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
import quick_spark

import spark_arrow_ipc
from spark_arrow_ipc import examples
from spark_arrow_ipc.cli.main import main

ROOT = Path(__file__).parents[1]
CLUSTERS = ROOT / "examples" / "clusters"
SECONDS = 1800
ROWS = 100_000
"""Of the sample flights."""

DOCKERFILE = (CLUSTERS / "kubernetes" / "Dockerfile").read_text()
MANIFEST = (CLUSTERS / "kubernetes" / "spark-job.yaml").read_text()


def run(folder, *command, python, **variables):
    """Run a script with a Python of its own first on PATH; return what it prints."""
    ours = ("PYTHON", "PYSPARK", "SPARK", "MASTER", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    environment |= {"SPARK_HOME": str(quick_spark.spark_home()), "PATH": f"{python.parent}:{os.environ['PATH']}"}
    answer = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env=environment | variables,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert 0 == answer.returncode, f"{answer.stdout[-3000:]}\n{answer.stderr[-6000:]}"
    return answer.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, ROOT]
    subprocess.run(list(map(str, command)), check=True)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A Python with nothing installed but pip."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=True)
    return folder / "bin" / "python"


@pytest.mark.nightly
def test_a_job_runs_beside_a_cluster_that_is_gone_afterwards(tmp_path):
    examples.main([str(tmp_path)])
    spark_submit = quick_spark.spark_home() / "bin" / "spark-submit"
    printed = run(
        tmp_path,
        *(CLUSTERS / "standalone.sh", spark_submit, "--properties-file", ROOT / "conf" / "standalone.conf"),
        *(ROOT / "examples" / "submit_convert.py", "--from", "arrowipc", "--to", "parquet"),
        *(tmp_path / "flights.arrow", tmp_path / "flights-parquet"),
        python=Path(sys.executable),
        PYSPARK_PYTHON=sys.executable,
        PYTHONPATH=str(ROOT),
    )
    assert f"holds {ROWS:,} rows" in printed
    assert pa.parquet.read_table(tmp_path / "flights-parquet").num_rows == ROWS


@pytest.mark.nightly
def test_a_packed_environment_is_all_that_executors_of_a_cluster_need(tmp_path, wheel, bare):
    printed = run(
        tmp_path, CLUSTERS / "standalone.sh", CLUSTERS / "packed.sh", python=bare, PACKAGE=str(wheel)
    )  # fmt: skip
    assert 2 == printed.count(f"holds {ROWS:,} rows")
    files = (ROOT / "build" / "packed" / "flights-arrow").glob("*.arrow")
    assert ROWS == sum(pa.ipc.open_file(pa.memory_map(str(file))).read_all().num_rows for file in files)


@pytest.mark.nightly
def test_a_connect_client_without_the_package_uses_a_server_that_has_it(tmp_path, wheel, bare):
    printed = run(tmp_path, CLUSTERS / "connect.sh", python=bare, PACKAGE=str(wheel), PORT="0")
    flights = pa.ipc.open_file(str(ROOT / "build" / "connect" / "data" / "flights.arrow")).read_all()
    late = (
        flights.filter(pa.compute.greater(flights["dep_delay"], 200)).group_by("carrier").aggregate([([], "count_all")])
    )
    expected = sorted((row["carrier"], row["count_all"]) for row in late.to_pylist())
    lines = printed.splitlines()
    assert [f"{carrier} {count}" for carrier, count in expected] == lines[-len(expected) - 1 : -1]
    assert "spark_arrow_ipc is not installed here" == lines[-1]


@pytest.mark.nightly
def test_sql_of_programs_that_cannot_call_register_takes_the_jar_from_a_file_of_properties(tmp_path):
    """The block of docs/sql.md, and the Thrift server by the command that its script runs."""
    block = (ROOT / "docs" / "sql.md").read_text().partition("$ arrowipc jar arrowipc.jar\n")[2].partition("```")[0]
    properties, query = re.search(r"\$ cat spark.conf\n(.*?)\$ (spark-sql .*?)\n100000\n", block, re.DOTALL).groups()
    examples.main([str(tmp_path)])
    (tmp_path / "spark.conf").write_text(properties)
    binaries = quick_spark.spark_home() / "bin"
    ours = {"python": Path(sys.executable), "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"}  # fmt: skip
    assert 0 == main(["jar", str(tmp_path / "arrowipc.jar")])
    assert ["100000"] == run(tmp_path, "bash", "-c", f"{binaries}/{query}", **ours).splitlines()
    script = f"""
        {binaries}/spark-submit --class org.apache.spark.sql.hive.thriftserver.HiveThriftServer2 \\
            --properties-file spark.conf --conf spark.ui.enabled=false spark-internal \\
            --hiveconf hive.server2.thrift.port=0 >server.log 2>&1 &
        trap 'kill $!; wait' EXIT
        until port=$(grep -oP 'ThriftBinaryCLIService on port \\K[0-9]+' server.log); do
            kill -0 $! || {{ cat server.log >&2; exit 1; }}
            sleep 0.2
        done
        {binaries}/beeline --silent=true --outputformat=csv2 -u jdbc:hive2://127.0.0.1:$port -e "
            CREATE TABLE t USING arrowipc AS SELECT 1 AS a;
            UPDATE t SET a = 2;
            SELECT a FROM t"
    """
    assert ["a", "2"] == run(tmp_path, "bash", "-c", script, **ours).split()[-2:]


# ---- Kubernetes, of which no cluster was had


def test_the_image_has_this_version_and_what_the_manifest_runs():
    assert f'ARG PACKAGE="spark-arrow-ipc[cloud]=={spark_arrow_ipc.__version__}"' in DOCKERFILE
    images = set(re.findall(r"image[:=] ?(\S+)", MANIFEST)) | set(re.findall(r"docker build -t (\S+)", DOCKERFILE))
    assert {f"registry.example/spark-arrow-ipc:{spark_arrow_ipc.__version__}"} == images
    (name, target) = re.search(r"^COPY (\S+) (\S+)$", DOCKERFILE, re.MULTILINE).groups()
    assert (ROOT / "examples" / name).is_file()
    assert f"- {target}{name}\n" in MANIFEST


def test_kubernetes_knows_every_field_of_the_manifest():
    validate = pytest.importorskip("kubernetes_validate", reason="it is of the extra 'test-release'")
    yaml = pytest.importorskip("yaml")
    kinds = []
    for document in yaml.safe_load_all(MANIFEST):
        validate.validate(document, validate.latest_version(), strict=True)
        kinds.append(document["kind"])
    assert ["ServiceAccount", "Role", "RoleBinding", "PersistentVolumeClaim", "Service", "Job"] == kinds
