"""Filter listed files by name and by the time of their last modification."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.listing.globs import compile_name
from spark_arrow_ipc.dataset.spark_datetime_text import epoch_ns, parse_timestamp
from spark_arrow_ipc.dataset.time_zones import zone
from spark_arrow_ipc.errors import OptionError, cut_repr
from spark_arrow_ipc.storage.paths import name_of


@dataclass(frozen=True, slots=True)
class FileFilter:
    """The options pathGlobFilter, modifiedBefore and modifiedAfter.

    Parameters
    ----------
    path_glob_filter
        Pattern of the file's name (not of its path or directories), or None.
    modified_before, modified_after
        The file was modified strictly before or after this; nanoseconds since 1970, or None.
    """

    path_glob_filter: str | None = None
    modified_before: int | None = None
    modified_after: int | None = None

    def accepts(self) -> Callable[[DataFile], bool] | None:
        """Return a predicate for the files to read, or None to read all."""
        if self == FileFilter():
            return None
        matches = compile_name("*" if self.path_glob_filter is None else self.path_glob_filter)
        before = float("inf") if self.modified_before is None else self.modified_before
        after = -float("inf") if self.modified_after is None else self.modified_after
        return lambda file: after < file.mtime_ns < before and bool(matches(name_of(file.path)))


def parse_modified(string: str, time_zone: str | None = None) -> int:
    """Parse ``modifiedBefore`` or ``modifiedAfter`` into nanoseconds since 1970; without a zone the string is in UTC."""
    # Not in the session's time zone: the planner does not know it, and Spark (4.3.0, measured) also adds the zone's offset
    # to the file's time, so that it agrees only in UTC.
    moment = parse_timestamp(string)
    if moment is None:
        raise OptionError(expected="a timestamp such as 2024-03-09T12:00:00", found=cut_repr(string))
    return epoch_ns(moment if moment.tzinfo else moment.replace(tzinfo=zone(time_zone or "UTC")))
