"""The ten questions of the H2O group-by benchmark, and counts over many files, as `sql_turns` measures.

    python benchmarks/groupby.py --folder /data/groupby [--rows 10000000] [--files 8] [--turns 6]
    python benchmarks/groupby.py --folder /data/links --rows 250000 --files 1 --links 1000 --queries count extremes

Data are those of the benchmark (https://h2oai.github.io/db-benchmark): three strings and three integers as keys, with 100
or rows / 100 values, two integers and a float. Sums and averages of floats, medians, deviations, correlations and the
first rows of a group are Spark's in any case; sums, minima and maxima of integers, and counts, are computed in workers.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from sql_turns import FORMATS, parser, run, session, write_copies

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

QUESTIONS = {
    "q1": "SELECT id1, sum(v1) FROM x GROUP BY id1",
    "q2": "SELECT id1, id2, sum(v1) FROM x GROUP BY id1, id2",
    "q3": "SELECT id3, sum(v1), avg(v3) FROM x GROUP BY id3",
    "q4": "SELECT id4, avg(v1), avg(v2), avg(v3) FROM x GROUP BY id4",
    "q5": "SELECT id6, sum(v1), sum(v2), sum(v3) FROM x GROUP BY id6",
    "q6": "SELECT id4, id5, median(v3), stddev(v3) FROM x GROUP BY id4, id5",
    "q7": "SELECT id3, max(v1) - min(v2) FROM x GROUP BY id3",
    "q8": """
        SELECT id6, v3 FROM (SELECT id6, v3, row_number() OVER (PARTITION BY id6 ORDER BY v3 DESC) AS n FROM x)
        WHERE n <= 2""",
    "q9": "SELECT id2, id4, power(corr(v1, v2), 2) FROM x GROUP BY id2, id4",
    "q10": "SELECT id1, id2, id3, id4, id5, id6, sum(v3), count(*) FROM x GROUP BY id1, id2, id3, id4, id5, id6",
    "count": "SELECT count(*) FROM x",
    "extremes": "SELECT min(v1), max(v2), min(id6) FROM x",
}


def make(spark: SparkSession, folder: Path, rows: int, files: int) -> None:
    """Write the table as Parquet; the same for the same arguments."""

    def key(seed: int, values: int) -> str:
        return f"cast(1 + floor(rand({seed}) * {values}) AS int)"

    few, many = 100, max(rows // 100, 1)
    columns = [
        f"format_string('id%03d', {key(1, few)}) AS id1", f"format_string('id%03d', {key(2, few)}) AS id2",
        f"format_string('id%010d', {key(3, many)}) AS id3", f"{key(4, few)} AS id4", f"{key(5, few)} AS id5",
        f"{key(6, many)} AS id6", f"{key(7, 5)} AS v1", f"{key(8, 15)} AS v2", "round(rand(9) * 100, 6) AS v3",
    ]  # fmt: skip
    spark.range(0, rows, 1, files).selectExpr(*columns).write.parquet(str(folder / "parquet" / "x"))


def link(folder: Path, to: Path, number: int) -> None:
    """Make tables of so many links to the first file of each table."""
    for format_ in set(FORMATS.values()):
        first = min(path for path in (folder / format_ / "x").glob("part-*") if path.is_file())
        (to / format_ / "x").mkdir(parents=True)
        for i in range(number):
            (to / format_ / "x" / f"part-{i:05}{first.suffix}").hardlink_to(first)


def main(words: list[str] | None = None) -> int:
    """Make the data if they are not there, and compare."""
    arguments = parser(__doc__.splitlines()[0])
    arguments.add_argument("--rows", type=int, default=10_000_000)
    arguments.add_argument("--files", type=int, default=8)
    arguments.add_argument("--links", type=int, default=0, help="ask tables of so many links to one of the files")
    chosen = arguments.parse_args(words)
    spark = session()
    try:
        if not (chosen.folder / "parquet").exists():
            make(spark, chosen.folder, chosen.rows, chosen.files)
        write_copies(spark, chosen.folder, ["x"])
        asked = chosen.folder
        if chosen.links:
            asked = chosen.folder / f"links_{chosen.links}"
            if not asked.exists():
                link(chosen.folder, asked, chosen.links)
        return run(spark, asked, ["x"], QUESTIONS, chosen)
    finally:
        spark.stop()


if __name__ == "__main__":
    sys.exit(main())
