"""Which of the listed files are read: by their names and by the time of their last modification."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.listing.globs import compile_name
from spark_arrow_ipc.dataset.spark_datetime_text import epoch_ns, parse_timestamp, zone
from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.storage.paths import name_of

__all__ = ["FileFilter", "parse_modified"]


@dataclass(frozen=True, slots=True)
class FileFilter:
    """Which of the files found are read; directories are not asked.

    Parameters
    ----------
    path_glob_filter
        Pattern of the file's name (not of its path), or None.
    modified_before, modified_after
        The file is strictly older or younger than this; nanoseconds since 1970, or None.
    """

    path_glob_filter: str | None = None
    modified_before: int | None = None
    modified_after: int | None = None

    def accepts(self) -> Callable[[DataFile], bool] | None:
        """Return the test whether a file is read, or None where all are.

        Raises
        ------
        OptionError
            The pattern is none.
        """
        if self == FileFilter():
            return None
        matches = compile_name("*" if self.path_glob_filter is None else self.path_glob_filter)
        before = float("inf") if self.modified_before is None else self.modified_before
        after = -float("inf") if self.modified_after is None else self.modified_after
        return lambda file: after < file.mtime_ns < before and bool(matches(name_of(file.path)))


def parse_modified(text: str, time_zone: str | None = None) -> int:
    """Return the value of ``modifiedBefore`` or ``modifiedAfter`` in nanoseconds since 1970.

    Parameters
    ----------
    text
        ``2024-03-09T12:00:00``, or any other text that Spark casts to a timestamp with a date.
    time_zone
        Of a text that names none itself. Without it such a text is UTC, not the session's zone as in Spark, because
        the planner does not know that. The text is the instant that it says; Spark (4.3.0, measured) adds the zone's
        offset to the file's time besides, so that it agrees only in UTC.

    Raises
    ------
    OptionError
        The text is no timestamp, or the zone is unknown.
    """
    moment = parse_timestamp(text)
    if moment is None:
        raise OptionError(expected="a timestamp such as 2024-03-09T12:00:00", found=repr(text))
    return epoch_ns(moment if moment.tzinfo else moment.replace(tzinfo=zone(time_zone or "UTC")))
