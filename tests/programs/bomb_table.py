"""Print what each bomb (`bombs`) costs on each route: CPU time, peak memory, outcome. docs/limits.md sums it up.

Each case runs in a process of its own, forked from this one, with 1.5 GiB of address space: what needs more fails, and
how it fails is the point. The exit status is 1 if anything but rows or one of the package's errors came out, or a case
took more than a minute of CPU.

    python tests/programs/bomb_table.py                           all of it, about ten minutes
    python tests/programs/bomb_table.py --bombs list-run,dicts --routes full,cat
"""

import argparse
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# Threads of numpy's linear algebra reserve address space for nothing.
# So does the allocator that pyarrow prefers: a gigabyte.
os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", ARROW_DEFAULT_MEMORY_POOL="system")
sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("", "tests", "tests/oracles", "tests/builders", "tests/fakes", "tests/programs")]  # fmt: skip

import warnings

from bombs import BOMBS, MIB

from spark_arrow_ipc import ipc
from spark_arrow_ipc.cli import cat, inspect, main, repair, rewrite, validate  # noqa: F401 - before the fork
from spark_arrow_ipc.errors import ArrowIpcError

MOST_MEMORY = 1536 * MIB
MOST_SECONDS = 60
FEW = 3
"""Batches that a route takes: rows without end are no fault, if they come one after the other."""


@dataclass(frozen=True)
class Outcome:
    """What became of one case; `is_fault` if it must not be."""

    words: str
    seconds: float
    peak_mib: int
    is_fault: bool = False


def codec(validation):
    def read(path):
        rows = 0
        with ipc.open(path, validation=validation) as reader:
            for batch, _ in zip(reader, range(FEW)):  # noqa: B905 - the first ones
                rows += batch.num_rows
        return f"{rows:,} rows"

    return read


def values(path):
    with ipc.open(path) as reader:
        return f"{sum(len(batch.slice(0, min(1000, batch.num_rows)).to_pylist()) for batch, _ in zip(reader, range(FEW)))} rows"  # noqa: B905


def command(*arguments):
    """Run a command; a status of 1 is a refusal, which has been printed in a sentence."""

    def run(path):
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123 - this process ends
        own = [argument.format(path=path, target=f"{path}.out.arrow") for argument in arguments]
        return "ok" if main.main(own) == 0 else "refused"

    return run


def task(**options):
    """Plan a read as Spark's driver does, then read each partition as a task does."""

    def run(path):
        from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource

        source = ArrowIpcDataSource({"path": path} | options)
        reader = source.reader(source.schema())
        rows = 0
        for partition in reader.partitions():
            for batch, _ in zip(reader.read(partition), range(FEW)):  # noqa: B905
                rows += batch.num_rows
        return f"{rows:,} rows"

    return run


ROUTES: dict[str, Callable[[str], str]] = {
    "full": codec("full"),
    "structural": codec("structural"),
    "to_pylist": values,
    "inspect": command("inspect", "--json", "{path}"),
    "validate": command("validate", "--values", "{path}"),
    "cat": command("cat", "--limit", "5", "{path}"),
    "cat jsonl": command("cat", "--format", "jsonl", "--limit", "5", "{path}"),
    "count": command("count", "{path}"),
    "concat": command("concat", "--batch-rows", "1000000", "{path}", "{target}"),
    "repair": command("repair", "{path}", "{target}"),
    "Spark task": task(),
    "where": task(where="a IS NULL OR a IS NOT NULL", metadataColumns="true"),
    "metadataOnly": task(metadataOnly="true"),
}
"""By name: from the path of a file to what came of it. Errors leave."""


def run_case(route, path):
    """Run one route on one file in a process of its own."""
    end, start = os.pipe()
    child = os.fork()
    if not child:
        os.close(end)
        words, is_fault = _run(route, str(path))
        os.write(start, f"{int(is_fault)}{words}".encode())
        os._exit(0)
    os.close(start)
    _, status, used = os.wait4(child, 0)
    with os.fdopen(end, "rb") as pipe:
        said = pipe.read().decode()
    seconds = used.ru_utime + used.ru_stime
    for left in path.parent.glob(f"{path.name}.out*"):
        left.unlink()
    peak = used.ru_maxrss >> 10
    if not said:
        words = (
            "more than a minute" if os.WTERMSIG(status) == signal.SIGPROF else f"killed by signal {os.WTERMSIG(status)}"
        )
        return Outcome(words, seconds, peak, is_fault=True)
    return Outcome(said[1:], seconds, peak, said[0] == "1")


def _run(route, path):
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    warnings.simplefilter("ignore")
    try:
        return ROUTES[route](path), False
    except ArrowIpcError as error:
        return type(error).__name__, False
    except BaseException as error:  # noqa: BLE001 - a fault, and a row of the table
        return f"{type(error).__name__}: {error}"[:200], True


def table(bombs, routes, directory):
    """Yield the rows of the table, and the faults."""
    for name in bombs:
        bomb = BOMBS[name]
        path = Path(directory, f"{name}.arrow")
        # Made in a process too, so that nothing of it stays here.
        maker = os.fork()
        if not maker:
            bomb.write(path)
            os._exit(0)
        assert 0 == os.waitpid(maker, 0)[1], name
        yield name, bomb, path.stat().st_size, {route: run_case(route, path) for route in routes}
        path.unlink()


def main_program():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bombs", default=",".join(BOMBS))
    parser.add_argument("--routes", default=",".join(ROUTES))
    arguments = parser.parse_args()
    bombs, routes = arguments.bombs.split(","), arguments.routes.split(",")
    if any(ROUTES[route].__qualname__.startswith("task") for route in routes):
        import spark_arrow_ipc.spark.datasource
        import spark_arrow_ipc.spark.read.row_filter  # noqa: F401 - before the fork, not once a case

    faults = []
    print("| file | bytes | route | outcome | seconds | peak MiB |")
    print("|---|--:|---|---|--:|--:|")
    with tempfile.TemporaryDirectory() as directory:
        for name, bomb, nbytes, outcomes in table(bombs, routes, directory):
            groups: dict[str, list[str]] = {}
            for route, outcome in outcomes.items():
                groups.setdefault(outcome.words, []).append(route)
                if outcome.is_fault:
                    faults.append(f"{name}, {route}: {outcome.words}")
            for words, of_routes in groups.items():
                own = [outcomes[route] for route in of_routes]
                shown = "all" if len(of_routes) == len(routes) else ", ".join(of_routes)
                seconds, peak = max(o.seconds for o in own), max(o.peak_mib for o in own)
                print(f"| {bomb.what} | {nbytes:,} | {shown} | {words} | {seconds:.1f} | {peak:,} |", flush=True)
    print(*faults, sep="\n", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main_program())
