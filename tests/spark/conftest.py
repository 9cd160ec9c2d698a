"""One Spark session for all tests of this directory that ask for it: `local[2]`, quiet."""

import os
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the Spark suite needs the extra 'spark'")

import quick_jvm
import sail
from pushed import SETTING
from pyspark.sql import SparkSession

from spark_arrow_ipc import push_down

ROOT = Path(__file__).parents[2]
PLANNERS = ROOT / "tests" / "planners"

# pyspark.pandas, which assertDataFrameEqual imports before Spark 4.2, warns where this is not set.
os.environ.setdefault("PYARROW_IGNORE_TIMEZONE", "1")

SPARKS_OWN = (
    # py4j and Spark leave sockets to the garbage collector; Python 3.13 says so inside whatever test runs then.
    "ignore:unclosed <socket:ResourceWarning",
    "ignore:.*<socket.socket:pytest.PytestUnraisableExceptionWarning",
)
"""Warnings that tell about Spark's own Python, and nothing about this package."""


def pytest_configure(config):
    for line in SPARKS_OWN:
        config.addinivalue_line("filterwarnings", line)


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """A session whose Python processes are this interpreter; one on Sail where tests/programs/sail.py runs them."""
    if os.environ.get("TESTS_ENGINE") == "sail":
        with sail.session() as session:
            yield session
        return
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # Where the package is not installed, Spark's Python processes find it as this process does.
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    planners = () if "TESTS_DAEMON" in os.environ else (str(PLANNERS),)
    os.environ["PYTHONPATH"] = os.pathsep.join([*planners, path])
    directory = tmp_path_factory.mktemp("spark")
    session = (
        SparkSession.builder.master("local[2]")
        .appName("tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        # Each worker whose rows are not all taken, and each after a failure, is new: half a second with Spark's daemon.
        # Sessions that tests start for themselves have Spark's, for planners as well, and so has a run of .ci/nightly.
        .config("spark.python.daemon.module", os.environ.get("TESTS_DAEMON", "spark_arrow_ipc.spark.daemon"))
        # Programs of pages call `register`. The same answers with and without: .ci/nightly runs the tests of reads with it.
        .config(SETTING, os.environ.get("TESTS_PUSH_DOWN", "false"))
        .config("spark.sql.session.timeZone", "America/New_York")
        # Spark 4.1 computes with geometries only when it is told so; later releases do by default.
        .config("spark.sql.geospatial.enabled", "true")
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .config("spark.driver.extraJavaOptions", f"{quick_jvm.OPTIONS} -Dderby.system.home={directory}")
        .getOrCreate()
    )
    os.environ["PYTHONPATH"] = path  # for the sessions that tests start
    session.sparkContext.setLogLevel("OFF")
    if os.environ.get("TESTS_PUSH_DOWN"):
        assert push_down(session)
    yield session
    session.stop()
