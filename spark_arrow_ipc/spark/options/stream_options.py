"""`StreamOptions`: the options of reading a stream, beside those of a read.

Spark's names where Spark's own file source has the option. A batch read refuses them, `parse_stream` of ``options.py``
takes both d.
"""

from __future__ import annotations

from dataclasses import dataclass

from spark_arrow_ipc.dataset.stream.mode import OnOverwrite
from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark.options import declare as d
from spark_arrow_ipc.spark.options import values
from spark_arrow_ipc.spark.options.given import Side
from spark_arrow_ipc.spark.options.values import CleanSource, StartingFrom


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Options of reading a stream; `parse_stream` makes them from Spark's dict."""

    max_files_per_trigger: int = d.count("1000", "How many files a batch has at most. `Trigger.Once` takes all.")
    max_bytes_per_trigger: int | None = d.optional_byte_size(
        "1g", "How many bytes the files of a batch have at most; it has at least one file. Both limits may be given."
    )
    starting_from: StartingFrom | int = d.option(
        values.starting_point,
        "earliest",
        "earliest, latest, or the number of a commit record",
        "latest",
        "What a new query reads first: all that is there (`earliest`), only what comes after its start (`latest`), or the "
        "commits of a data set from the record of this number on. After a restart a query goes on where it was.",
        kind=d.integer_or(StartingFrom),
    )
    source_log: str | None = d.path(
        "/checkpoints/events-source",
        "A directory of this query alone, in which it notes the files of each batch: files may come in any order and at any "
        "time then. It belongs to the checkpoint.",
    )
    on_overwrite: OnOverwrite | None = d.optional_word(
        OnOverwrite.SKIP,
        "What a stream of a data set's commits does where one removed rows of earlier ones: `fail`, as without the option, "
        "`skip` it, or `append`: read the rows that it wrote as new ones.",
    )
    fail_on_data_loss: bool = d.flag(
        "true",
        "Whether a stream of a data set's commits ends with an error where records or files are gone before it has read "
        "them. With `false` it leaves out such files, and begins anew with all that is there if records are gone, each with "
        "a warning.",
    )
    tail: bool = d.flag(
        "false",
        "Whether the path is one stream (`.arrows`) of a local or mounted file system that another process appends to, which "
        "is read record batch by record batch.",
    )
    late_window: int | None = d.optional_duration(
        "6h",
        "How much older than the newest file that was read a file may be when it appears in a directory; without it, 1h. "
        "A file that is older is not read, and a warning names it. Offsets grow with the number of files in this time.",
    )
    max_file_age: int | None = d.optional_duration(
        "7d",
        "How much older than the newest file that was read a file may be; without it, files of any age are read.",
    )
    unfinished_after: int | None = d.optional_duration(
        "5m",
        "How long a stream (`.arrows`) without its end marker must not have changed to be read as it is, with a warning; "
        "without it, a stream of a directory waits for the marker. Files of `tensors`, which have no marker, wait for this "
        "time, or for a minute. What is written later is not read, and a warning names the file.",
    )
    latest_first: bool = d.flag("false", "Whether the newest files are read first, instead of the oldest.")
    file_name_only: bool = d.flag(
        "false", "Whether files of one name are one file, in whatever directory: only the first is read."
    )
    clean_source: CleanSource = d.word(
        CleanSource.OFF,
        "What is done with the files of a batch when the sink has it: `off` leaves them, `archive` moves them to "
        "`sourceArchiveDir`, `delete` deletes them. A file that has changed since is left, with a warning.",
    )
    source_archive_dir: str | None = d.path(
        "/data/old",
        "Where `cleanSource=archive` moves files to, in the same storage; they keep their whole path below it.",
    )
    poll_interval: float | None = d.optional(
        values.pause,
        "a number of seconds, or one with a unit of ms, s, m, h or d",
        "200ms",
        "The pause of a query that waits between two looks for something new: without it 1s, and 10s where storage is "
        "remote. It is longer where a look takes long, so that a query looks for at most a fifth of the time.",
        kind=d.PAUSE,
    )

    @property
    def late_seconds(self) -> int:
        """The option `late_window`, or its default."""
        return 3600 if self.late_window is None else self.late_window

    def check(self) -> None:
        """Refuse options that contradict each other.

        Raises
        ------
        OptionError
            Two of them do.
        """
        if (self.clean_source is CleanSource.ARCHIVE) != (self.source_archive_dir is not None):
            raise OptionError("cleanSource=archive and sourceArchiveDir belong together: give both, or neither")
        if self.source_log is not None and self.late_window is not None:
            raise OptionError("with sourceLog no file is late, so that lateWindow has no meaning; remove one of them")
        if self.latest_first and self.max_file_age is not None:
            raise OptionError(
                "latestFirst=true reads old files last, and maxFileAge would leave them out then; remove one of them"
            )


STREAMING = Side("reading streams", "read as a stream", d.declared(StreamOptions))
