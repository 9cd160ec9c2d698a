"""Where the compared jobs run: a session, a directory of files, and how large they are."""

from __future__ import annotations

import shutil
import uuid
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path

from pyspark.sql import SparkSession
from scans import file_splits
from workloads import ROW_GROUP_ROWS, Workload, arrow_file, lake, parquet_file

from spark_arrow_ipc.dataset.scan.splits import SplitOptions


@dataclass(frozen=True, slots=True)
class Bench:
    """The place of the jobs. Files are made when they are asked for first.

    Parameters
    ----------
    spark
        The one session of all.
    directory
        Of the files.
    size
        How many times the size that the bars are for.
    """

    spark: SparkSession
    directory: Path
    size: float

    def scaled(self, workload: Workload) -> Workload:
        """Return a workload at the size of this run: of many files each is smaller."""
        return workload.times(self.size)

    def arrow(self, workload: Workload) -> str:
        """Return the Arrow file or directory of a workload."""
        return str(lake(arrow_file(self.scaled(workload), self.directory), workload.files))

    def parquet(self, workload: Workload, codec: str, row_group_rows: int = ROW_GROUP_ROWS) -> str:
        """Return the same rows as Parquet."""
        return str(lake(parquet_file(self.scaled(workload), self.directory, codec, row_group_rows), workload.files))

    def own(self, workload: Workload) -> str:
        """Return a directory of the same rows in the same order, as `arrowipc` writes them, statistics and all."""
        path = self.directory / f"{self.scaled(workload).name}_own"
        if not path.exists():
            unfinished = path.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            rows = self.spark.read.format("arrowipc").load(self.arrow(workload))
            rows.write.format("arrowipc").mode("append").save(str(unfinished))
            unfinished.rename(path)
        return str(path)

    def first_file(self, workload: Workload) -> str:
        """Return the first file of a workload, alone."""
        return str(arrow_file(self.scaled(workload), self.directory))

    def blocks(self, workload: Workload) -> str:
        """Return where `arrowipc` cuts it: the first record batch of each task, and the end of the last."""
        return _blocks(self.arrow(workload), self.scaled(workload).batches)

    def nbytes(self, workload: Workload) -> int:
        """Return the bytes of all Arrow files of a workload."""
        return Path(self.first_file(workload)).stat().st_size * workload.files

    def output(self) -> str:
        """Return a path where nothing is, below what `clear` removes."""
        return str(self.directory / _OUTPUTS / uuid.uuid4().hex)

    def clear(self) -> None:
        """Remove what was written."""
        shutil.rmtree(self.directory / _OUTPUTS, ignore_errors=True)


_OUTPUTS = "outputs"


@cache
def _blocks(path: str, batches: int) -> str:
    counts = [
        sum(batches if part.stop is None else part.stop - (part.start or 0) for part in ranges)
        for ranges in file_splits(path, SplitOptions())
    ]
    return ",".join(map(str, accumulate(counts, initial=0)))
