"""How the suite runs: which tests are slow or exhaustive, and in how many processes.

`slow` is said of a test that starts a JVM, or of rows that are many; tests that ask for the Spark session are slow by
themselves. `-m "not slow"` leaves what a change of the codec, of plans or of commits is tried with every few minutes.

`exhaustive` is said of slow tests that start clusters and environments of their own for a way of running what other
tests run in the shared session: each way of docs/deploy.md, copies of a task; and of the whole of what another test
samples: all files of the corpus, all rows of a long table. They are left out unless `-m exhaustive` asks for them, as
.ci/run does for each change. `nightly` is said of those that are longer yet, as the loops that kill jobs and the
benchmarks; `-m nightly` asks for them, as .ci/nightly does. .ci/run leaves out a test that has both marks.

A table that tries every pair of two lists is marked `one_in(n)`: of its rows one in n is quick, drawn by its name, the
others are nightly, but each value of either list is tried in every run with Spark. A table whose rows are a list of
cases, each unlike the others, is marked `one_in(n, "exhaustive")`: all are tried for each change, one in n in every run.
"""

import contextlib
import gc
import os
import sys
from collections import Counter
from pathlib import Path
from zlib import crc32

import pytest
import quick_spark
from object_stores import SERVERS

# No test asks the address where a machine of a cloud finds the credentials of its role, in any process.
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"

# Spark starts a Python process for each plan, and tests start programs: each would compile the package again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# No test cuts the power, so none can tell whether bytes went through to the disk; waiting for that took most of the
# time of the commits' tests. A wrong descriptor is still an error. Programs that tests start, and Spark's, sync in full.
os.fsync = lambda descriptor: os.fstat(descriptor) and None

MOST_PROCESSES = 4
"""Each of them starts a Spark session once it comes to a file that asks for it, which takes a GB."""


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """Run the whole suite in several processes, each file in one of them; a run of named files stays in this one."""
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    # A worker runs this hook with the same arguments, and would start workers of its own without end.
    is_worker = "PYTEST_XDIST_WORKER" in os.environ or hasattr(config, "workerinput")
    if whole and not is_worker and "not slow" not in config.option.markexpr:
        quick_spark.make()
    quick_spark.use()
    if is_worker or not config.pluginmanager.hasplugin("xdist"):
        return
    option = config.option
    if whole and option.numprocesses is None and option.dist == "no" and not option.usepdb:
        option.numprocesses = min(os.cpu_count() or 1, MOST_PROCESSES)
    if option.numprocesses and option.dist == "no":
        option.dist = "loadfile"
        option.loadscopereorder = False  # pytest_collection_modifyitems has ordered them


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Deal out files as xdist does, which after each test counts again all that ran before: half a minute of a run."""
    from xdist.scheduler import LoadFileScheduling

    class WholeFiles(LoadFileScheduling):
        def _pending_of(self, workload):
            for path in [path for path, tests in workload.items() if all(tests.values())]:
                del workload[path]
            return super()._pending_of(workload)

    return WholeFiles(config, log) if config.option.dist == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect no garbage meanwhile, and never look at the tests for some: `gc.collect` takes a second for 20,000 of them."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark the tests that ask for Spark, and put files with slow tests first: at the end, all processes are busy.

    Lines are counted, where pytest-cov is asked to, while the tests of what it measures run: counting doubles their time.
    """
    counted = tests_of_measured_packages(config)
    for item, marker in left_out_of_tables(items):
        item.add_marker(marker)
    for item in items:
        if "spark" in item.fixturenames or item.get_closest_marker("exhaustive") or item.get_closest_marker("nightly"):
            item.add_marker("slow")
        if item.get_closest_marker("slow") or not any(item.path.is_relative_to(folder) for folder in counted):
            item.add_marker("no_cover")
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    # Then those of the whole package, which are long, so that the last files are short ones.
    items.sort(key=lambda item: (item.path not in slow, item.path.parent != Path(__file__).parent))


def left_out_of_tables(items):
    """Yield the rows of tables with the marker `one_in` that are not drawn by their names, and the marker that they get.

    Of the rows that are nightly, the first few are slow that lists need: each value of a list that is paired with another
    one is tried with each change.
    """
    tables = {}
    for item in items:
        if item.get_closest_marker("one_in"):
            tables.setdefault((item.path, item.originalname), []).append(item)
    for rows in tables.values():
        rows.sort(key=lambda row: crc32(row.name.encode()))
        n, rest = (*rows[0].get_closest_marker("one_in").args, "nightly")[:2]
        drawn = {row for row in rows if crc32(row.name.encode()) % n == 0} or {rows[0]}
        values = {row: {(name, id(value)) for name, value in row.callspec.params.items()} for row in rows}
        tried = {value for row in drawn for value in values[row]}
        # In a single list each row has a value of its own.
        uses = Counter(value for each in values.values() for value in each)
        is_paired = not any(all(uses[value] == 1 for value in uses if value[0] == name) for name, _ in uses)
        for row in rows:
            if row not in drawn:
                yield row, "slow" if is_paired and not values[row] <= tried else rest
                tried |= values[row]


def tests_of_measured_packages(config):
    """The folders of tests that mirror the packages named by --cov; all tests where it names none of them."""
    tests = Path(__file__).parent
    sources = [Path(source) for source in config.getoption("cov_source", None) or () if isinstance(source, str)]
    return [tests.joinpath(*source.parts[1:]) for source in sources if source.parts[0] == "spark_arrow_ipc"] or [tests]


@pytest.fixture(scope="session")
def servers():
    """A callable that gives the object store of a name in `SERVERS`, and starts its server when it is first asked."""
    with contextlib.ExitStack() as stack:
        stores, failures = {}, {}

        def started(name):
            if name in failures:
                raise failures[name]
            if name not in stores:
                try:
                    stores[name] = stack.enter_context(SERVERS[name]())
                except pytest.fail.Exception as failure:  # a minute, and no other test needs to wait for it
                    failures[name] = failure
                    raise
            return stores[name]

        yield started
