"""How the suite runs: what its smoke tests try, and what its default run may take."""

import contextlib
import re
import subprocess
import sys
from pathlib import Path

import cpu_time
import pytest

TESTS = Path(__file__).parent

PROMISES = {
    *("read", "where", "push-down", "aggregate", "map_in_arrow", "count", "SQL view", "append", "overwrite"),
    *("overwrite that is killed", "partitioned write", "stream in", "stream out", "ingest"),
}
"""What the README says that one can do, and what a write promises."""


def test_smoke_tests_try_each_promise_of_the_readme():
    texts = [path.read_text() for path in TESTS.rglob("test_*.py") if path != Path(__file__)]
    assert PROMISES == {
        name for text in texts for name in re.findall(r"^@pytest\.mark\.smoke\(\"(.*)\"\)$", text, re.MULTILINE)
    }


def test_cpu_time_of_ended_processes_is_counted():
    """As Spark's JVM is, which the worker that started it still has, and the Python processes that ended before it."""
    before = cpu_time.of_processes()
    program = "import subprocess, sys, time\nwhile time.process_time() < 0.3: pass\n"
    nested = f"{program}subprocess.run([sys.executable, '-c', {program!r}])"
    subprocess.run([sys.executable, "-c", nested], check=True)
    assert cpu_time.of_processes() - before > 0.5


@pytest.mark.parametrize(("slow_calls", "is_excess"), [(0, False), (2, False), (3, True)])
def test_a_call_is_too_slow_where_each_of_three_is(monkeypatch, slow_calls, is_excess):
    answers = iter(["9.0 s"] * slow_calls + [None])
    monkeypatch.setattr(cpu_time, "excess_over", lambda *_: next(answers))
    with pytest.raises(AssertionError, match=r"9\.0 s") if is_excess else contextlib.nullcontext():
        assert cpu_time.at_most(1, int, "3") == 3


def test_a_call_that_is_fast_enough_raises_its_error():
    with pytest.raises(ValueError, match="invalid literal"):
        cpu_time.at_most(1, int, "x")


@pytest.mark.parametrize(("seconds", "took", "is_excess"), [(1, 0.9, False), (1, 100, True), (0, 0.1, True)])
def test_more_than_a_bound_on_any_machine_is_excess(seconds, took, is_excess):
    assert is_excess == (cpu_time.excess_over(seconds, took) is not None)


RUNS = [
    ("within the budget", [], "1000", 0),
    ("over it", [], "0.01", 1),
    ("over it in one process", ["-n", "0"], "0.01", 1),
    ("tests of other tiers have no budget", ["-m", "quick"], "0.01", 0),
]


@pytest.mark.one_in(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "most", "status"),
    [pytest.param(*run, id=name, marks=[pytest.mark.nightly] * (name == "over it")) for name, *run in RUNS],
)
def test_a_default_run_fails_where_it_takes_more_than_its_budget(options, most, status, monkeypatch):
    monkeypatch.setenv("TESTS_CPU_SECONDS", most)
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "testpaths=tests/test_errors.py"]
    done = subprocess.run([*command, *options], cwd=TESTS.parent, capture_output=True, text=True, timeout=300)
    assert (status, bool(status)) == (done.returncode, "s of CPU time, of at most" in done.stdout), done.stdout
