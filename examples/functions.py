"""Three functions that run where the data are decoded: nearest embeddings, cleaned texts, and a polars query.

It makes its own small files in ``build/functions`` and prints what each function gives::

    python examples/functions.py

polars is not needed by the package: a function may use whatever is installed where the workers run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that every PySpark user knows

from spark_arrow_ipc import ipc, map_in_arrow, vectors

pc: Any = pyarrow.compute
"""As ``import pyarrow.compute as pc``; its functions are made at run time, where no type checker sees them."""

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "functions"
SIZE = 64
"""Numbers of an embedding."""


def nearest(spark: SparkSession, path: str, query: np.ndarray, count: int = 5) -> DataFrame:
    """Return the `count` rows whose embeddings have the largest dot product with a query.

    Each batch yields its own best rows, so that no embedding crosses to Spark, which chooses among the best of all batches.
    """

    def best(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            scores = vectors.matrix(batch, "embedding") @ query
            chosen = np.argsort(scores)[-count:]
            yield pa.record_batch(
                {"id": batch["id"].take(pa.array(chosen)), "score": scores[chosen].astype(np.float64)}
            )

    found = map_in_arrow(spark, path, best, "id bigint, score double", columns=["id", "embedding"], vectors="binary")
    return found.orderBy(F.desc("score")).limit(count)


def cleaned(spark: SparkSession, path: str) -> DataFrame:
    """Return texts without marks and double blanks, in lower case; short ones are dropped, and never reach Spark."""

    def clean(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            text = pc.replace_substring_regex(batch["text"], "<[^>]*>", "")
            text = pc.utf8_lower(pc.utf8_trim_whitespace(pc.replace_substring_regex(text, r"\s+", " ")))
            kept = pc.greater(pc.utf8_length(text), 3)
            yield pa.record_batch({"id": batch["id"], "text": text}).filter(kept)

    return map_in_arrow(spark, path, clean, "id bigint, text string", columns=["id", "text"])


def lengths(spark: SparkSession, path: str) -> DataFrame:
    """Return the number of texts of each length, counted by polars batch for batch and summed by Spark."""

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import polars as pl  # on the worker

        for batch in batches:
            frame = pl.DataFrame(pa.Table.from_batches([batch]))
            grouped = frame.group_by(pl.col("text").str.len_chars().alias("length")).agg(pl.len().alias("texts"))
            yield from grouped.to_arrow().to_batches()

    # polars counts in uint32, which widen to bigint.
    found = map_in_arrow(spark, path, count, "length bigint, texts bigint", columns=["text"])
    return found.groupBy("length").agg(F.sum("texts").alias("texts")).orderBy("length")


TEXTS = ["  Spark <b>reads</b> Arrow ", "ok", "<i></i>", "No  double   blanks"]


def make_file(path: Path, rows: int = 10_000) -> str:
    """Write texts and unit vectors; return the path."""
    made = np.random.default_rng(0).standard_normal((rows, SIZE)).astype(np.float32)
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    table = pa.table({
        "id": np.arange(rows),
        "text": [TEXTS[i % len(TEXTS)] for i in range(rows)],
        "embedding": pa.FixedSizeListArray.from_arrays(pa.array(made.reshape(-1)), SIZE),
    })  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=1 << 12)
    return str(path)


def query_of(path: str, row: int) -> np.ndarray:
    """Return the embedding of a row of the first record batch, read without Spark."""
    with ipc.open_file(path, columns=["embedding"]) as reader:
        return np.array(reader.read_batch(0).column("embedding").to_pylist()[row], np.float32)


def main() -> int:
    """Run all three and print what they give."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    path = make_file(BUILD / "texts.arrow")
    spark = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    nearest(spark, path, query_of(path, 7)).show()
    cleaned(spark, path).limit(5).show(truncate=False)
    lengths(spark, path).show()
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
