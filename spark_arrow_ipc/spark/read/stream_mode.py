"""Choose the mode of a stream by its options, and set it up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_arrow_ipc.dataset.commit_log.dataset_directory import COMMITS_DIRECTORY
from spark_arrow_ipc.dataset.listing.directory import is_hidden
from spark_arrow_ipc.dataset.listing.globs import is_pattern
from spark_arrow_ipc.dataset.stream.admission import Admission
from spark_arrow_ipc.dataset.stream.clean import Cleaner
from spark_arrow_ipc.dataset.stream.log import LogMode, LogOptions
from spark_arrow_ipc.dataset.stream.source_files import SourceFiles
from spark_arrow_ipc.dataset.stream.source_log import SourceLog
from spark_arrow_ipc.dataset.stream.waiting_files import WaitingFiles
from spark_arrow_ipc.dataset.stream.window import WindowMode, WindowOptions
from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark.options.enums import CleanSource, StartingFrom
from spark_arrow_ipc.spark.read.dataset_schema import file_filter
from spark_arrow_ipc.storage.open import storage_of
from spark_arrow_ipc.storage.paths import SEPARATOR, join, parent
from spark_arrow_ipc.storage.schemes import is_remote

if TYPE_CHECKING:
    from spark_arrow_ipc.dataset.stream.mode import StreamMode
    from spark_arrow_ipc.spark.options.options import ReadOptions, StreamOptions
    from spark_arrow_ipc.storage.storage import Storage

__all__ = ["poll_seconds", "stream_mode"]

_POLL_SECONDS = 1.0
_POLL_SECONDS_THAT_WAIT = 10.0


def stream_mode(options: ReadOptions, stream: StreamOptions) -> StreamMode:
    """Return the mode that follows the source.

    Raises
    ------
    OptionError
        Options do not fit the source or the mode.
    """
    storage = options.opened_storage
    if isinstance(stream.starting_from, int):
        raise OptionError(
            f"startingFrom={stream.starting_from} is the number of a commit record, and this source is read as a directory "
            "of files; give earliest or latest"
        )
    source = SourceFiles(
        storage, options.paths, options.recursive_file_lookup, file_filter(options), base_path=options.base_path
    )
    waiting = WaitingFiles(source, Admission(storage, options.error_policy.skips_corrupt), stream.latest_first)
    cleaner = _cleaner(storage, options, stream)
    from_latest = stream.starting_from is StartingFrom.LATEST
    if stream.source_log is not None:
        log_storage, directory = storage_of(stream.source_log, _log_options(options, stream.source_log))
        if type(log_storage) is type(storage):
            check_beside(storage, options, directory, "sourceLog")
        resolved = tuple(map(storage.resolve, options.paths))
        log = SourceLog(log_storage, directory, resolved, name_only=stream.file_name_only)
        return LogMode(waiting, log, LogOptions(stream.max_file_age, from_latest, stream.file_name_only), cleaner)
    window = WindowOptions(stream.late_seconds, stream.max_file_age, from_latest, stream.file_name_only)
    return WindowMode(waiting, window, cleaner)


def poll_seconds(options: ReadOptions, stream: StreamOptions) -> float:
    """Return how many seconds lie between two looks of a query that waits, at least."""
    if stream.poll_interval is not None:
        return stream.poll_interval
    return _POLL_SECONDS_THAT_WAIT if options.opened_storage.traits.waits else _POLL_SECONDS


def _log_options(options: ReadOptions, path: str) -> tuple[tuple[str, str], ...]:
    """Return the options of the log's storage: those of the source's, unless the log is local."""
    return options.storage if is_remote(path) else ()


def _cleaner(storage: Storage, options: ReadOptions, stream: StreamOptions) -> Cleaner | None:
    if stream.clean_source is CleanSource.OFF:
        return None
    for path in options.paths:
        directory = storage.resolve(_plain_part(path))
        while directory:
            if storage.status(join(directory, COMMITS_DIRECTORY)) is not None:
                raise OptionError(
                    "cleanSource would take files out of a dataset that this package commits, and its records name them; "
                    "remove it",
                    path=directory,
                )
            directory = "" if directory == parent(directory) else parent(directory)
    archive = None
    if stream.source_archive_dir is not None:
        archive = storage.resolve(stream.source_archive_dir)
        check_beside(storage, options, archive, "sourceArchiveDir")
    return Cleaner(storage, archive)


def check_beside(storage: Storage, options: ReadOptions, directory: str, option: str) -> None:
    """Refuse a directory of the stream's own in which the stream would look for files.

    Raises
    ------
    OptionError
        It is one of the paths or below one, and no name on the way is hidden.
    """
    for path in options.paths:
        root = storage.resolve(_plain_part(path))
        inside = root.rstrip(SEPARATOR) + SEPARATOR
        if directory == root or (
            directory.startswith(inside) and not any(map(is_hidden, directory[len(inside) :].split(SEPARATOR)))
        ):
            raise OptionError(
                f"{option} lies in {root}, where the stream looks for files; give a directory beside it, or one whose name "
                "begins with _",
                path=directory,
            )


def _plain_part(path: str) -> str:
    """Return a path, and of a pattern the directory above its first special character."""
    while is_pattern(path):
        path = parent(path)
    return path
