"""TPC-H and TPC-DS: bytes and writes, then queries, over this format and over Parquet, as `sql_turns` measures.

    python3 -m venv tools && tools/bin/pip install tpcgen-cli duckdb-extension-tpcds
    python benchmarks/tpc.py h ds --folder /data/tpc --tools tools/bin [--scale 1] [--turns 6] [--dictionaries all]

tpcgen-cli makes the data as Parquet, from which Spark writes each table in this format, and as Parquet with snappy and with
zstd. The queries of TPC-H are here, those of TPC-DS are asked of DuckDB's extension: both with the parameters of the
standard's validation. The tools have an environment of their own, as the extension needs a DuckDB of its release.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sql_turns import made_by, parser, run, session
from tpch_queries import QUERIES, TABLES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

_INSTALL = "pip install tpcgen-cli duckdb-extension-tpcds into an environment, and name its bin directory by --tools"

_ASK_DUCKDB = """
import json, pathlib, sys
import duckdb, duckdb_extension_tpcds
extension = next(pathlib.Path(duckdb_extension_tpcds.__file__).parent.rglob("*.duckdb_extension"))
connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
connection.execute(f"LOAD '{extension}'")
queries = connection.execute("SELECT query_nr, query FROM tpcds_queries() ORDER BY query_nr").fetchall()
pathlib.Path(sys.argv[1]).write_text(json.dumps(dict(queries)))
"""

_WRITES = {
    # the directory: the format, and the options of the write
    "arrowipc": ("arrowipc", {"statistics": "all"}),
    "parquet": ("parquet", {"compression": "snappy"}),
    "parquet_zstd": ("parquet", {"compression": "zstd"}),
}


def main(words: list[str] | None = None) -> int:
    """Make the data if they are not there, write the copies, and compare."""
    arguments = parser(__doc__.splitlines()[0])
    arguments.add_argument("kinds", nargs="+", choices=["h", "ds"])
    arguments.add_argument("--scale", type=float, default=1.0)
    arguments.add_argument("--tools", type=Path, default=Path(), help="the bin directory that has the tools")
    arguments.add_argument("--dictionaries", default="none", help="the option dictionaryColumns of the tables")
    chosen = arguments.parse_args(words)
    spark = session()
    status = 0
    try:
        for kind in chosen.kinds:
            folder = chosen.folder / f"tpc{kind}-{chosen.scale:g}"
            tables = make_tables(folder, kind, chosen)
            write_copies(spark, folder, tables, chosen.dictionaries)
            queries = QUERIES if kind == "h" else read_queries(folder, chosen.tools)
            status |= run(spark, folder, tables, queries, chosen)
    finally:
        spark.stop()
    return status


def make_tables(folder: Path, kind: str, chosen: Any) -> Sequence[str]:
    """Return the names of the tables, which the generator makes if they are not there."""
    made = folder / "made"
    if not made.exists():
        program = str(chosen.tools / "tpcgen-cli")
        made_by([program, f"tpc{kind}", "parquet", "-s", f"{chosen.scale:g}", f"--output-dir={made}"], _INSTALL)
    return TABLES if kind == "h" else sorted(path.stem for path in made.glob("*.parquet"))


def read_queries(folder: Path, tools: Path) -> dict[int, str]:
    """Return the queries of TPC-DS by number, in Spark's SQL."""
    file = folder / "queries.json"
    if not file.exists():
        made_by([str(tools / "python"), "-c", _ASK_DUCKDB, str(file)], _INSTALL)
    return {int(number): in_spark(sql) for number, sql in json.loads(file.read_text()).items()}


def in_spark(sql: str) -> str:
    """Return a query of DuckDB in Spark's SQL: names in double quotes have backticks there."""
    return re.sub(r'"([^"]*)"', r"`\1`", sql).strip().rstrip(";")


def write_copies(spark: SparkSession, folder: Path, tables: Sequence[str], dictionaries: str) -> None:
    """Write the tables in each format, unless all are there, and print bytes and the least CPU seconds of two turns."""
    from measure import SparkProcesses

    directories = list(_WRITES)
    cpu: dict[str, dict[str, float]] = {directory: {} for directory in directories}
    if not all((folder / directory / table / "_SUCCESS").exists() for directory in directories for table in tables):
        with SparkProcesses(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()) as processes:
            for order in (directories, directories[::-1]):
                for table in tables:
                    frame = spark.read.parquet(str(folder / "made" / f"{table}.parquet"))
                    for directory in order:
                        format_, options = _WRITES[directory]
                        extra = {"dictionaryColumns": dictionaries} if format_ == "arrowipc" else {}
                        path = folder / directory / table
                        shutil.rmtree(path, ignore_errors=True)  # also files that a table retains
                        with processes.cost() as cost:
                            frame.write.format(format_).options(**options, **extra).save(str(path))
                        cpu[directory][table] = min(cost[0].cpu, cpu[directory].get(table, math.inf))
    for directory, of in cpu.items():
        nbytes = sum(path.stat().st_size for path in (folder / directory).rglob("part-*") if path.is_file())
        written = f", {sum(of.values()):.1f} CPU s to write" if of else ""
        print(f"{directory:13} {nbytes / 1e6:8.1f} MB{written}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
