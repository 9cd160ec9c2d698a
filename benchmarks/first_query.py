"""The first query of a session, by phase and process, and what of it is Spark's; and the first row of a warm session.

Strategy
--------
Each turn starts a Python process, and with it a JVM and its Python processes, as a user's first query does. It notes when
each phase ended; a thread looks at all processes below the JVM every 10 ms and keeps what CPU each took, by the module that
its daemon runs: one that finds data sources, one that makes a source and asks for the schema, one that plans partitions,
and workers.

Contenders differ in where those processes find `pyspark`. Spark's installation has `python/lib/pyspark.zip`, sources without
bytecode, so that every process compiles what it imports. The others are the same installation by links, with

- `directory`: the zip unpacked into a directory that has its name, compiled once;
- `bytecode`: a zip that holds bytecode that is not checked against sources, too;
- `none`: no zip, so that the installed package is found.

Run it by::

    python benchmarks/first_query.py first --turns 3 --contenders zip directory
    python benchmarks/first_query.py first --master 'local-cluster[1,2,1024]' --contenders zip directory
    python benchmarks/first_query.py warm --turns 20 --contenders zip directory

``warm`` sets a Python source of one row and no options, which does nothing else, beside ours and the JVM's formats: what it
costs no Python source can avoid. Spark ends Python processes that were idle for a minute: ``--pause 65`` waits for that
before each query, as a person in a notebook does.
``--package`` names another checkout of this package, for a comparison with an earlier state, ``--conf NAME=VALUE`` sets
something of Spark's: with ``spark.python.daemon.module=spark_arrow_ipc.spark.daemon`` workers start with their modules.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import py_compile
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
HOMES = ("zip", "directory", "bytecode", "none")
FORMATS = ("arrowipc", "parquet", "csv")
ONE_ROW = "one row"
_TICKS = os.sysconf("SC_CLK_TCK")
_PAUSE_SECONDS = 0.01
_PROC = Path("/proc")


def spark_home(kind: str, into: Path) -> Path:
    """Return a Spark installation whose Python processes find `pyspark` in another way; links all else."""
    import pyspark

    own = Path(pyspark.__file__).parent
    if kind == "zip":
        return own
    made = into / kind
    _link(own, made, but="python")
    _link(own / "python", made / "python", but="lib")
    _link(own / "python" / "lib", made / "python" / "lib", but="pyspark.zip")
    place = made / "python" / "lib" / "pyspark.zip"
    unpacked = place if kind == "directory" else into / "unpacked"
    if kind != "none":
        with zipfile.ZipFile(own / "python" / "lib" / "pyspark.zip") as archive:
            archive.extractall(unpacked)
    if kind == "directory":
        compileall.compile_dir(place, quiet=2, workers=0)
    elif kind == "bytecode":
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        compileall.compile_dir(unpacked, quiet=2, legacy=True, workers=0, invalidation_mode=mode)
        with zipfile.ZipFile(place, "w") as archive:
            for path in sorted(unpacked.rglob("*")):
                archive.write(path, path.relative_to(unpacked))
    return made


def _link(own: Path, made: Path, *, but: str) -> None:
    made.mkdir(parents=True)
    for entry in own.iterdir():
        if entry.name != but:
            (made / entry.name).symlink_to(entry)


def compiled(package: Path, into: Path) -> Path:
    """Return a copy of the package with bytecode, as an installed one has it."""
    made = into / f"package-{package.name}"
    shutil.copytree(package / "spark_arrow_ipc", made / "spark_arrow_ipc", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(package / "pyspark_arrowipc.py", made)
    compileall.compile_dir(made, quiet=2)
    return made


# ---- in a process of its own


class Processes:
    """CPU seconds of the processes below a JVM, by the module that they run."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._seen: dict[int, tuple[str, int]] = {}
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._ends.wait(_PAUSE_SECONDS):
            self.look()

    def look(self) -> None:
        """Look at all processes once."""
        below: defaultdict[int, list[int]] = defaultdict(list)
        stats: dict[int, list[str]] = {}
        for entry in _PROC.iterdir():
            if entry.name.isdigit():
                try:
                    stats[int(entry.name)] = (entry / "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
        for pid, stat in stats.items():
            below[int(stat[1])].append(pid)
        todo = [self._pid]
        while todo:
            pid = todo.pop()
            todo += below[pid]
            if pid in stats:
                name = self._seen[pid][0] if pid in self._seen else self._name(pid)
                self._seen[pid] = (name, int(stats[pid][11]) + int(stats[pid][12]))

    def _name(self, pid: int) -> str:
        try:
            words = (_PROC / str(pid) / "cmdline").read_bytes().decode().split("\0")
        except OSError:
            return "?"
        if "java" in words[0]:
            return "driver's JVM" if pid == self._pid else "executor's JVM"
        return next((word.rpartition(".")[2] for word in reversed(words) if word.startswith("pyspark.")), words[0])

    def seconds(self) -> dict[str, float]:
        """Return the CPU seconds so far."""
        self.look()
        found: defaultdict[str, float] = defaultdict(float)
        for name, ticks in list(self._seen.values()):
            found[name] += ticks / _TICKS
        return dict(found)


def session(master: str, conf: Iterable[str]) -> SparkSession:
    """Return a quiet session with settings written as NAME=VALUE."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    for setting in conf:
        name, _, value = setting.partition("=")
        builder = builder.config(name, value)
    return builder.getOrCreate()


def first(path: str, master: str, conf: Iterable[str]) -> Mapping[str, object]:
    """Run the first query and a second one; return seconds by phase, and CPU seconds by process."""
    marks = [("", time.perf_counter())]

    def mark(name: str) -> None:
        marks.append((name, time.perf_counter()))

    import pyspark.sql  # noqa: F401

    mark("import of pyspark")
    spark = session(master, conf)
    mark("JVM and session")
    spark.range(1).count()
    mark("a query without Python")
    processes = Processes(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())
    before = processes.seconds()
    frame = spark.read.format("arrowipc").load(path)
    mark("first load (schema)")
    loaded = processes.seconds()
    frame.limit(1).collect()
    mark("first row (plan, worker)")
    collected = processes.seconds()
    spark.read.format("arrowipc").load(path).limit(1).collect()
    mark("second query, load and row")
    spark.stop()
    phases = {name: stop - start for (_, start), (name, stop) in pairwise(marks)}
    cpu = {name: round(seconds - before.get(name, 0.0), 2) for name, seconds in collected.items()}
    return {"phases": phases, "cpu": cpu, "cpu of load": {k: round(v - before.get(k, 0), 2) for k, v in loaded.items()}}


def one_row() -> type[DataSource]:
    """Return a data source that does as little as one can: a row, no options, one partition."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    class OneRowReader(DataSourceReader):
        def partitions(self) -> list[InputPartition]:
            return [InputPartition(0)]

        def read(self, partition: InputPartition) -> Iterator[tuple[int, str]]:
            yield 1, "n1"

    class OneRow(DataSource):
        @classmethod
        def name(cls) -> str:
            return ONE_ROW

        def schema(self) -> str:
            return "id bigint, name string"

        def reader(self, schema: object) -> DataSourceReader:
            return OneRowReader()

    return OneRow


def warm(
    paths: Mapping[str, str], turns: int, pause: float, conf: Iterable[str]
) -> Mapping[str, Mapping[str, list[float]]]:
    """Return seconds of load and first row, and CPU seconds by process, in a session that has done it before, in turns."""
    spark = session("local[2]", conf)
    spark.dataSource.register(one_row())
    processes = Processes(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())
    found: dict[str, dict[str, list[float]]] = {name: defaultdict(list) for name in (*paths, ONE_ROW)}
    for turn in range(-5, turns):
        for name, kept in found.items():
            time.sleep(pause if turn >= 0 else 0)
            before, start = processes.seconds(), time.perf_counter()
            reader = spark.read.option("header", "true") if name == "csv" else spark.read
            frame = reader.format(name).load(paths.get(name, ""))
            loaded = time.perf_counter()
            frame.limit(1).collect()
            end = time.perf_counter()
            if turn >= 0:
                kept["all, wall"].append(end - start)
                kept["load, wall"].append(loaded - start)
                kept["first row, wall"].append(end - loaded)
                for process, seconds in processes.seconds().items():
                    kept[f"{process}, CPU"].append(seconds - before.get(process, 0.0))
    spark.stop()
    return found


# ---- the command


def make_files(directory: Path) -> Mapping[str, str]:
    """Write the same small table in each format."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    table = pa.table({"id": list(range(1000)), "name": [f"n{i}" for i in range(1000)]})
    paths = {name: str(directory / f"t.{name}") for name in FORMATS}
    with pa.ipc.new_file(paths["arrowipc"], table.schema) as writer:
        writer.write_table(table)
    pyarrow.parquet.write_table(table, paths["parquet"])
    pyarrow.csv.write_csv(table, paths["csv"])
    return paths


def in_process(arguments: list[str], home: Path, package: Path) -> dict[str, object]:
    """Run this file in a process of its own and return what it printed."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment = inherited | {
        "SPARK_HOME": str(home),
        "PYTHONPATH": str(package),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    done = subprocess.run(
        [sys.executable, __file__, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    made: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return made


def print_warm(found: Mapping[str, Mapping[str, list[float]]]) -> None:
    """Print medians and least values by phase, and of CPU by process."""
    names = list(dict.fromkeys(name for kept in found.values() for name in kept))
    print(f"| seconds: median (least) | {' | '.join(found)} |\n|---|{'---|' * len(found)}")
    for name in names:
        cells = [kept.get(name, [0.0]) for kept in found.values()]
        print(f"| {name} | {' | '.join(f'{median(each):.3f} ({min(each):.3f})' for each in cells)} |")


def print_first(found: Mapping[str, list[dict[str, dict[str, float]]]]) -> None:
    """Print medians and least values by phase, and of CPU by process."""
    turns = len(next(iter(found.values())))
    print(f"\n{turns} turns, load {os.getloadavg()[0]:.1f}; seconds: median (least)")
    for what, title in (("phases", "phase"), ("cpu", "CPU of load and first row, by process")):
        print(f"| {title} | {' | '.join(found)} |\n|---|{'---|' * len(found)}")
        names = list(dict.fromkeys(name for turns in found.values() for turn in turns for name in turn[what]))
        for name in names:
            values = [[turn[what].get(name, 0.0) for turn in turns] for turns in found.values()]
            print(f"| {name} | {' | '.join(f'{median(each):.2f} ({min(each):.2f})' for each in values)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["first", "warm", "_first", "_warm"])
    parser.add_argument("rest", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--contenders", nargs="+", choices=HOMES, default=["zip", "directory"])
    parser.add_argument("--master", default="local[2]")
    parser.add_argument(
        "--formats", nargs="+", choices=FORMATS, default=FORMATS, help="of warm, beside a source of one row"
    )
    parser.add_argument("--pause", type=float, default=0, metavar="SECONDS", help="before each query of a warm session")
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark")
    parser.add_argument("--package", type=Path, nargs="+", default=[ROOT], help="checkouts of this package")
    given = parser.parse_args()
    inner: Mapping[str, Callable[[], object]] = {
        "_first": lambda: first(given.rest[0], given.master, given.conf),
        "_warm": lambda: warm(dict(zip(given.formats, given.rest, strict=True)), given.turns, given.pause, given.conf),
    }
    if given.what in inner:
        print(json.dumps(inner[given.what]()))
        return
    conf = [word for setting in given.conf for word in ("--conf", setting)]
    with tempfile.TemporaryDirectory(prefix="first-query-") as temporary:
        paths = make_files(Path(temporary))
        packages = {package.name: compiled(package, Path(temporary)) for package in given.package}
        homes = {kind: spark_home(kind, Path(temporary)) for kind in given.contenders}
        if given.what == "warm":
            chosen = [paths[name] for name in given.formats]
            arguments = [
                "_warm",
                *chosen,
                "--formats",
                *given.formats,
                "--turns",
                str(given.turns),
                "--pause",
                str(given.pause),
                *conf,
            ]
            for kind, home in homes.items():
                for own, package in packages.items():
                    print(f"\n{kind}, {own}: {given.turns} turns, load {os.getloadavg()[0]:.1f}")
                    print_warm(in_process(arguments, home, package))  # type: ignore[arg-type]
            return
        found: dict[str, list[dict[str, dict[str, float]]]] = defaultdict(list)
        for _ in range(given.turns):
            for kind, home in homes.items():
                for own, package in packages.items():
                    made = in_process(["_first", paths["arrowipc"], "--master", given.master, *conf], home, package)
                    name = kind if len(packages) == 1 else f"{kind}, {own}"
                    found[name].append(made)  # type: ignore[arg-type]
            print_first(found)  # after each turn: a run may be cut short


if __name__ == "__main__":
    main()
