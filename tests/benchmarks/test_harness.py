"""The benchmarks run: a file of 4 MB, one turn each; and small cases of `compare`. No figure is judged here."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the benchmarks need the extra 'spark'")
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import cases
import profile_worker
import settings
from cases import CASES, FIXED
from workloads import arrow_file

RUN = Path(__file__).parents[2] / "benchmarks" / "run.py"
TINY = ["--rows", "100000", "--batches", "8", "--max-partition-bytes", "1m"]
COMPARED = ["projection", "write_lz4"]

pytestmark = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the benchmarks read Linux' /proc")


# Two commands in one session, since most of the time goes into starting Spark's processes.
BOTH = """
import contextlib, json, sys
import run
with run.session(reuses_workers=True, java="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC") as spark:
    run.session = lambda **_: contextlib.nullcontext(spark)
    for words in json.loads(sys.argv[1]):
        run.main(words)
"""


def finished(*words):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(RUN.parent), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, env=env)
    assert 0 == done.returncode, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """What a tiny scan and some cases print, and their values."""
    directory = tmp_path_factory.mktemp("benchmarks")
    scanned, compared = directory / "scanned.json", directory / "compared.json"
    contenders = ["--contenders", "null", "arrowipc", "pyarrow", "parquet"]
    scan = ["scan", *TINY, "--pairs", "1", "--warm-up", "0", *contenders, "--json", str(scanned)]
    compare = ["compare", *COMPARED, "--size", "0.001", "--turns", "1", "--warm-up", "0", "--json", str(compared)]
    setting = ["settings", "--session", "arrow.maxRecordsPerBatch=65536", "--size", "0.001", "--turns", "1"]
    printed = finished("-c", BOTH, json.dumps([scan, compare, setting]))
    return printed, json.loads(scanned.read_text()), json.loads(compared.read_text())


@pytest.fixture(scope="module")
def scan(both):
    """What is printed, and the values of the scan."""
    return both[0], both[1]


@pytest.fixture(scope="module")
def compared(both):
    """What is printed, and the values of the cases."""
    return both[0], both[2]


@pytest.mark.nightly
def test_every_contender_is_measured(scan):
    """Python sources have workers; Parquet has none, and nobody else's are counted as its."""
    _, values = scan
    assert ["null", "arrowipc", "pyarrow", "parquet"] == list(values)
    for name, [cost] in values.items():
        assert cost["wall"] > 0
        assert cost["jvm"] > 0
        assert (name != "parquet") == (cost["peak_nbytes"] > 0)


@pytest.mark.nightly
def test_the_bars_are_printed(scan):
    printed, _ = scan
    assert "worker CPU s a GB above null: " in printed
    assert "CPU of JVM and workers, times null: " in printed
    assert "8 record batches, 8 tasks" in printed


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["fixed", *COMPARED])
def test_each_contender_of_a_case_is_measured_or_says_why_not(compared, name):
    """An option that is not there yet is a reason; an error is none."""
    _, values = compared
    case = FIXED if name == "fixed" else CASES[name]
    measured, unable = values[name]["costs"], values[name]["unable"]
    assert {contender.name for contender in case.contenders} == set(measured) | set(unable)
    assert all(why.startswith("absent: ") for why in unable.values()), unable
    assert all(cost["wall"] > 0 for costs in measured.values() for cost in costs)


@pytest.mark.nightly
@pytest.mark.parametrize("name", COMPARED)
def test_each_bar_of_a_case_is_judged_or_lacks_a_contender(compared, name):
    printed, values = compared
    for bar in values[name]["bars"]:
        assert f"issue {bar['issue']}: {bar['what']}" in printed
        assert bar["found"] is not None or values[name]["unable"]


@pytest.mark.nightly
def test_a_projection_reads_less(compared):
    """The bytes that workers read are counted."""
    _, values = compared
    [two], [all_] = (values["projection"]["costs"][name] for name in ("arrowipc columns", "arrowipc"))
    assert 0 < two["read_nbytes"] < all_["read_nbytes"]


@pytest.mark.parametrize("name", CASES)
def test_bars_name_contenders_of_their_case(name):
    names = [contender.name for contender in CASES[name].contenders]
    assert len(names) == len(set(names))
    assert {needed for bar in CASES[name].bars for needed in bar.contenders} <= set(names)


@pytest.mark.slow
def test_an_unknown_case_is_named():
    done = subprocess.run([sys.executable, RUN, "compare", "scna"], capture_output=True, text=True)
    assert 2 == done.returncode
    assert "there is no case scna" in done.stderr


@pytest.mark.nightly
def test_imports_are_ours_alone():
    """A worker's first task imports this package, and what others import is not counted."""
    printed = finished(str(RUN), "imports", "--processes", "1")
    assert "spark_arrow_ipc" in printed
    assert "issue 7: imports of a worker's first task, ms: " in printed
    assert not any(line.startswith(("pyspark", "pyarrow", "numpy", "pandas")) for line in printed.splitlines())


@pytest.mark.nightly
def test_a_setting_runs_both_jobs(both):
    costs = json.loads(both[0].splitlines()[-1])
    assert list(costs) == ["scan", "write"]
    assert [len(values) for values in costs.values()] == [1, 1]
    assert all(value["cpu"] > 0 for values in costs.values() for value in values)


def test_settings_are_set_against_none(monkeypatch, capsys, tmp_path):
    def run(words, **_):
        seconds = 2.0 if words[words.index("--session") + 1] == settings.PLAIN else 3.0
        values = [{"wall": seconds, "cpu": 2 * seconds}]
        return subprocess.CompletedProcess(words, 0, "warnings\n" + json.dumps({"scan": values, "write": values}))

    monkeypatch.setattr(subprocess, "run", run)
    names = [settings.PLAIN, "ParallelGC"]
    found = settings.study(RUN, tmp_path, names, size=1, turns=1, rounds=2)
    assert [len(found[name]["write"]) for name in names] == [2, 2]
    assert capsys.readouterr().out.splitlines()[-1].split() == ["ParallelGC", *["3.00", "(1.50)", "6.00", "(1.50)"] * 2]


def test_shares_of_stages_are_the_whole(tmp_path, capsys):
    path = str(arrow_file(cases.SCANNED["lz4"].times(0.002), tmp_path))
    found = profile_worker.profile_worker(path)
    assert {"read", "decompress", "decode", "validate", "convert"} < set(found)
    printed = dict(line.split() for line in capsys.readouterr().out.splitlines()[1:])
    assert 90 <= sum(int(share.rstrip("%")) for share in printed.values()) <= 110
    assert all(seconds >= 0 for seconds in found.values())


@pytest.mark.nightly
def test_servers_of_tables_are_measured():
    pytest.importorskip("pyarrow.flight", reason="the benchmark compares with Arrow Flight")
    printed = finished(RUN.parent / "dissociated.py", "--mib", "4", "--turns", "1")
    assert 7 == len(printed.splitlines())
    assert "shared memory (memfd)" in printed


@pytest.mark.nightly
def test_spark_on_a_server_is_measured():
    printed = finished(RUN.parent / "served.py", "--rows", "300000", "--turns", "1")
    for name in ("the file", "shared memory", "shared memory, structural", "TCP, kept"):
        assert any(line.startswith(name) for line in printed.splitlines()), name
