"""How the suite runs: in which tier each test is, and in how many processes.

Each test is in one tier, the first of `TIERS` that it is marked as, and `-m` with the tier's name selects it:

- `quick`: without a mark. The codec, plans and commits.
- `smoke`: at most `MOST_SMOKE` tests with Spark, one or more for each promise of the README, which the mark names. All of
  them run in one process, which has the only Spark session of a run.
- `slow`: starts a JVM, or tries many rows. A test that asks for the Spark session is slow without the mark.
- `exhaustive`: starts clusters and environments of its own for a way of running what other tests run in the shared
  session (each way of docs/deploy.md, copies of a task), or tries all that another test samples: all files of the
  corpus, all rows of a long table.
- `nightly`: longer yet, as the loops that kill jobs and the benchmarks.

`pytest` without options runs what is quick and smoke, and fails where that takes more than `MOST_CPU_SECONDS`; with names
of files it runs their slow tests as well. .ci/run then runs what is slow and exhaustive, .ci/nightly what is nightly.

A table that tries every pair of two lists is marked `one_in(n)`: of its rows one in n keeps the tier of the test, drawn
by its name, the others are nightly, but each value of either list is tried by a slow test. A table whose rows are a list
of cases, each unlike the others, is marked `one_in(n, "exhaustive")`: all are tried for each change.
"""

import contextlib
import functools
import gc
import itertools
import os
import sys
import time
from collections import Counter
from pathlib import Path
from zlib import crc32

import cpu_time
import hypothesis
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

# On a busy machine an example may take any time.
hypothesis.settings.register_profile("no deadline", deadline=None)
hypothesis.settings.load_profile("no deadline")

MOST_PROCESSES = 4
"""Each of them starts a Spark session once it comes to a file that asks for it, which takes a GB."""

TIERS = ("nightly", "exhaustive", "smoke", "slow", "quick")
DEFAULT_TIERS = "quick or smoke"

MOST_SMOKE = 50

MOST_CPU_SECONDS = float(os.environ.get("TESTS_CPU_SECONDS", "260"))
"""Of all processes of a run of the default tiers: three minutes on two quiet cores."""

CPU_SECONDS = pytest.StashKey[float]()
"""What a run of the default tiers has taken, in xdist's workers that have ended."""

SLOWNESS = pytest.StashKey[list[float]]()
"""How slow the machine was during the run, as its workers have seen it."""

SLOWNESS_INTERVAL = 1000
"""Tests between two looks at the machine. Other programs on its cores make all CPU time longer, but not after the run."""

CPU_SENTENCE = pytest.StashKey[str]()
"""Says what a run of the default tiers took, and what to do where that is too much."""


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """Run the complete suite in several processes, each file in one of them; a run of named files stays in this one."""
    is_complete = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    # A worker runs this hook with the same arguments, and would start workers of its own without end.
    is_worker = "PYTEST_XDIST_WORKER" in os.environ or hasattr(config, "workerinput")
    if not config.option.markexpr:
        config.option.markexpr = DEFAULT_TIERS if is_complete else f"{DEFAULT_TIERS} or slow"
    if is_complete and not is_worker and config.option.markexpr == DEFAULT_TIERS:
        config.stash[CPU_SECONDS], config.stash[SLOWNESS] = 0.0, []
    elif is_complete and not is_worker:  # one session does not repay it
        quick_spark.make()
    quick_spark.use()
    if is_worker or not config.pluginmanager.hasplugin("xdist"):
        return
    option = config.option
    if is_complete and option.numprocesses is None and option.dist == "no" and not option.usepdb:
        option.numprocesses = min(os.cpu_count() or 1, MOST_PROCESSES)
    if option.numprocesses and option.dist == "no":
        option.dist = "loadfile"
        option.loadscopereorder = False  # pytest_collection_modifyitems has ordered them


@functools.cache
def has_smoke_tests(path):
    return "@pytest.mark.smoke(" in path.read_text()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Deal out files, of which those with smoke tests are one group in a default run: one process has Spark.

    As xdist does, which after each test counts again all that ran before: half a minute of a run. Its own groups need
    marks, which the process that deals out does not see.
    """
    from xdist.scheduler import LoadFileScheduling

    is_default = config.option.markexpr == DEFAULT_TIERS

    class FilesAndSmoke(LoadFileScheduling):
        def _split_scope(self, nodeid):
            path = super()._split_scope(nodeid)
            return "smoke" if is_default and has_smoke_tests(config.rootpath / path) else path

        def _pending_of(self, workload):
            for path in [path for path, tests in workload.items() if all(tests.values())]:
                del workload[path]
            return super()._pending_of(workload)

    return FilesAndSmoke(config, log) if config.option.dist == "loadfile" else None


def pytest_sessionfinish(session):
    """Fail a run of the default tiers that took too much CPU time, with the JVM of its Spark session."""
    config = session.config
    if hasattr(config, "workeroutput"):
        config.workeroutput["cpu_seconds"] = cpu_time.of_processes()
        config.workeroutput["slowness"] = slowness_meanwhile
    elif CPU_SECONDS in config.stash and not config.getoption("cov_source", None):
        took = config.stash[CPU_SECONDS] + (
            time.process_time() if config.option.numprocesses else cpu_time.of_processes()
        )
        slow = [*config.stash[SLOWNESS], *slowness_meanwhile]
        excess = cpu_time.excess_over(MOST_CPU_SECONDS, took, sum(slow) / len(slow) if slow else None)
        config.stash[CPU_SENTENCE] = f"The quick and smoke tests took {excess or f'{took:.0f} s of CPU time'}."
        if excess:
            config.stash[CPU_SENTENCE] += " Mark tests as slow, or make them faster."
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """Add the CPU time of a worker of xdist's."""
    if CPU_SECONDS in node.config.stash:
        node.config.stash[CPU_SECONDS] += getattr(node, "workeroutput", {}).get("cpu_seconds", 0.0)
        node.config.stash[SLOWNESS] += getattr(node, "workeroutput", {}).get("slowness", [])


slowness_meanwhile = []
tests_so_far = itertools.count(1)


def pytest_runtest_logfinish():
    """Look from time to time how slow the machine is."""
    if next(tests_so_far) % SLOWNESS_INTERVAL == 0:
        slowness_meanwhile.append(cpu_time.slowness())


def pytest_terminal_summary(terminalreporter, config):
    """Say what a default run took, which may be why it fails though its tests pass."""
    if CPU_SENTENCE in config.stash:
        terminalreporter.write_line(config.stash[CPU_SENTENCE])


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect no garbage meanwhile, and never look at the tests for some: `gc.collect` takes a second for 20,000 of them."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Give each test its tier, and put smoke tests and files with slow tests first: at the end, all processes are busy.

    Lines are counted, where pytest-cov is asked to, while the tests of what it measures run: counting doubles their time.
    """
    counted = tests_of_measured_packages(config)
    for item, marker in left_out_of_tables(items):
        item.add_marker(marker)
    tiers = {item: set_tier(item) for item in items}
    if Counter(tiers.values())["smoke"] > MOST_SMOKE:
        raise pytest.UsageError(f"More than {MOST_SMOKE} tests are smoke tests: mark some as slow.")
    for item in items:
        if tiers[item] != "quick" or not any(item.path.is_relative_to(folder) for folder in counted):
            item.add_marker("no_cover")
    slow = {item.path for item in items if tiers[item] not in {"quick", "smoke"}}
    # Then those of the whole package, which are long, so that the last files are short ones.
    items.sort(
        key=lambda item: (tiers[item] != "smoke", item.path not in slow, item.path.parent != Path(__file__).parent)
    )


def set_tier(item):
    """Leave an item one marker of `TIERS`, and return its name."""
    marks = {marker.name for marker in item.iter_markers()} & set(TIERS)
    unmarked = "slow" if "spark" in item.fixturenames else "quick"
    tier = next((name for name in TIERS if name in marks), unmarked)
    item.own_markers[:] = [marker for marker in item.own_markers if marker.name not in set(TIERS) - {tier}]
    inherited = {marker.name for marker in item.iter_markers()} & set(TIERS) - {tier}
    if inherited:
        raise pytest.UsageError(
            f"{item.nodeid} is {tier}, and its module is {', '.join(inherited)}: mark its tests instead"
        )
    if tier not in marks:
        item.add_marker(tier)
    return tier


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
