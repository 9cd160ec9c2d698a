"""`RewriteResult`: what a rewrite has done, in figures."""

from __future__ import annotations

import html
from dataclasses import asdict, dataclass

from spark_arrow_ipc.dataset.write.roll_forward import CommitSummary


@dataclass(frozen=True, slots=True)
class RewriteResult:
    """The figures of a rewrite. A notebook shows them as a table.

    Parameters
    ----------
    files_read, files_written
        Number of files. A file of the source counts if any of it was planned to be read.
    rows_read, rows_written
        Number of rows: read are those that are left by ``where``, before the function.
    bytes_read, bytes_written
        Sizes of these files, as they lie in the storage.
    files_removed
        Number of files that were replaced.
    published
        False if there was nothing to do: the token was committed before, or ``ifExists=ignore`` found files; or no files
        were worth a compaction.
    jobid
        Id of the job in the commit records; empty if there was none.
    """

    files_read: int = 0
    files_written: int = 0
    rows_read: int = 0
    rows_written: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    files_removed: int = 0
    published: bool = False
    jobid: str = ""

    @classmethod
    def of(cls, summary: CommitSummary, sizes: dict[str, int], rows_read: int) -> RewriteResult:
        """Return the result of a job.

        Parameters
        ----------
        summary
            Of its commit.
        sizes
            Bytes of each file that was read, by path.
        rows_read
            Rows that were read.
        """
        return cls(
            len(sizes), summary.files, rows_read, summary.rows, sum(sizes.values()), summary.nbytes, summary.removed,
            summary.published, summary.jobid,
        )  # fmt: skip

    def __str__(self) -> str:
        """Say it in a line."""
        if not self.published:
            return "nothing to do"
        return (
            f"{self.files_read:,} files ({self.rows_read:,} rows, {self.bytes_read:,} bytes) became "
            f"{self.files_written:,} ({self.rows_written:,} rows, {self.bytes_written:,} bytes)"
        )

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(name.replace('_', ' '))}</td><td style='text-align:right'>{_text(value)}</td></tr>"
            for name, value in asdict(self).items()
        )
        return f"<table>{rows}</table>"


def _text(value: object) -> str:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return f"{value:,}" if is_number else html.escape(str(value))
