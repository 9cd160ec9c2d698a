"""TPC-H: the 22 queries over this format and over Parquet, as `sql_turns` measures.

    python benchmarks/tpch.py --folder /data/tpch1 [--scale 1] [--turns 6] [--contenders pushed plain parquet]

Data are made by tpchgen-cli (``pip install tpchgen-cli``) as Parquet, and written in this format by Spark.
"""

from __future__ import annotations

import sys

from sql_turns import made_by, parser, run, session, write_copies
from tpch_queries import QUERIES, TABLES


def main(words: list[str] | None = None) -> int:
    """Make the data if they are not there, and compare."""
    arguments = parser(__doc__.splitlines()[0])
    arguments.add_argument("--scale", type=float, default=1.0)
    chosen = arguments.parse_args(words)
    folder = chosen.folder
    if not (folder / "parquet").exists():
        raw = folder / "made"
        words = ["tpchgen-cli", "parquet", "-s", f"{chosen.scale:g}", f"--output-dir={raw}"]
        made_by(words, "pip install tpchgen-cli")
        for table in TABLES:
            (folder / "parquet" / table).mkdir(parents=True)
            (raw / f"{table}.parquet").rename(folder / "parquet" / table / f"{table}.parquet")
    spark = session()
    write_copies(spark, folder, TABLES)
    try:
        return run(spark, folder, TABLES, QUERIES, chosen)
    finally:
        spark.stop()


if __name__ == "__main__":
    sys.exit(main())
