"""Run the core of the tests of reads and writes on Sail, an engine that takes Spark's clients; print what works.

`pip install 'pysail==0.7.*' 'pyspark[connect]==4.1.*'` in an environment of its own, then `python tests/programs/sail.py`. It runs the
tests of `MODULES` that ask for a session, and ends with an error where one fails for a reason that is not in `REASONS`, or
more of them for one than it says: Sail answers otherwise than Spark in places, and this package does not promise them there.
"""

import contextlib
import os
import re
import sys
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("", "tests", "tests/oracles", "tests/builders", "tests/fakes", "tests/programs")]  # fmt: skip

import pytest

TESTS = Path(__file__).parents[1]
MODULES = (
    "spark/test_smoke.py",
    "spark/test_sql_commands.py",
    "spark/test_spark_types_come_back.py",
    "spark/read/test_read_types.py",
    "spark/read/test_read_paths.py",
    "spark/read/test_read_lakes.py",
    "spark/read/test_read_errors.py",
    "spark/read/test_dataset_schema.py",
    "spark/read/test_where.py",
    "spark/read/test_read_less.py",
    "spark/write/test_write_content.py",
    "spark/write/test_write_commit.py",
    "spark/write/test_write_layout.py",
    "spark/write/test_write_modes.py",
    "spark/write/test_write_options.py",
    "spark/write/test_write_beside.py",
)
REASONS = (
    (r"the option where, column \d+: the instant", 30, "tasks see no setting: instants in `where` need the option timeZone"),
    (r"NOT_IMPLEMENTED|_jvm|driver's process|schema of a func", 20, "clients of Spark Connect have neither RDDs nor a JVM, and do not commit"),
    (r"DID NOT RAISE|load takes|test_a_view_|plan_knows|changes_after_planning", 75, "a source is asked at the first action, and not by load; some errors of Spark's own are none"),
    (r"Invalid partition id", 25, "a write is refused whose partitions Sail counts otherwise when it plans than when it runs"),
    (r"test_directories_are_named|test_random_|test_real_filters|where_clocks_change|as_parquets_does|twice|that_ours_do|texts_are_cast", 40, "compared with Parquet or filters of the engine, which are not Spark's"),
    (r"Time64|time64|times", 10, "frames have no TIME"),
    (r"there is no path: give one to load", 5, "load takes no list of paths"),
    (r"UDT|pyspark\.sql\.tests", 6, "user-defined types are handed as their storage"),
    (r"test_write_modes.*(OptionError|UnsupportedError|Regex)|interval (month|year)|Regex", 20, "the error of a writer is of another class, or says less of the type"),
    (r"restored_types|metadata|geometry|empty_partition|name_of_an_extension", 15, "frames lose the metadata of columns; geometries are binary; tasks have no numbers"),
    (r"invalid argument|SQL parser|Unsupported|not implemented|Cannot cast|Parser error|No data source|hasher|RefreshTable|unknown table", 75, "SQL that Sail does not know: collations, casts, commands"),
)  # fmt: skip
"""Pattern of the test and its error, the most tests of it, and the reason; the first that fits."""

SECONDS = 60
"""A test that takes longer fails: Sail stands still where threads wait for each other."""


@contextlib.contextmanager
def session():
    """A session on a server in this process, with the time zone of the other tests."""
    from pysail.spark import SparkConnectServer
    from pyspark.sql import SparkSession

    from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource

    server = SparkConnectServer(ip="127.0.0.1", port=0)
    server.start(background=True)
    sail = SparkSession.builder.remote(f"sc://127.0.0.1:{server.listening_address[1]}").getOrCreate()
    sail.conf.set("spark.sql.session.timeZone", "America/New_York")
    sail.dataSource.register(ArrowIpcDataSource)  # Sail looks for no module of the name pyspark_...
    yield sail


class Tally:
    """Counts what passed, and the reasons why others did not."""

    def __init__(self):
        self.outcomes, self.reasons, self.unexplained = Counter(), Counter(), []

    def pytest_collection_modifyitems(self, items):
        items[:] = [item for item in items if "spark" in item.fixturenames]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        if report.when == "call" or report.outcome != "passed":
            if report.when != "teardown":
                self.outcomes[report.outcome] += 1
            if report.failed:
                self.failed(f"{item.nodeid}: {call.excinfo.typename}: {call.excinfo.value}")
        return report

    def failed(self, words):
        for pattern, _, reason in REASONS:
            if re.search(pattern, words, re.DOTALL):
                self.reasons[reason] += 1
                return
        self.unexplained.append(words)


def main():
    os.environ["TESTS_ENGINE"] = "sail"
    os.environ.setdefault("RUST_LOG", "error")
    tally = Tally()
    paths = [str(TESTS / module) for module in MODULES]
    options = [
        "-q",
        "--no-header",
        "--tb=no",
        "-p",
        "no:cacheprovider",
        "-n",
        "0",
        "-m",
        "not exhaustive",
        "-W",
        "ignore",
        "-rN",
    ]
    pytest.main(
        [*options, "-o", f"faulthandler_timeout={SECONDS}", "-o", "faulthandler_exit_on_timeout=true", *paths], [tally]
    )
    print(
        f"{sum(tally.outcomes.values()):,} tests:",
        ", ".join(f"{n:,} {outcome}" for outcome, n in tally.outcomes.items()),
    )
    most = Counter()
    for _, number, reason in REASONS:
        most[reason] += number
    for reason, number in tally.reasons.most_common():
        print(f"{number:4} {reason}" + (f": expected {most[reason]} at most" if number > most[reason] else ""))
    for words in tally.unexplained:
        print("not explained:", words[:400])
    is_fine = tally.outcomes["passed"] and not tally.unexplained and all(tally.reasons[r] <= most[r] for r in most)
    sys.stdout.flush()
    os._exit(not is_fine)  # the server's threads would let Python wait for ever


if __name__ == "__main__":
    main()
