"""`Cleaner`: delete or archive the files of a batch that the sink has.

Strategy
--------
Spark says that a batch is committed one batch late, and once more after a restart, so cleaning is idempotent: a file
that is gone was cleaned before. A file that is another one than the batch read, by size, time or version, is left
alone: it was never read. Failures are warnings: the next batches must not wait for an archive.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.stream.mode import StreamBatch
from spark_arrow_ipc.errors import ArrowIpcError, printable
from spark_arrow_ipc.storage.concurrent import each
from spark_arrow_ipc.storage.paths import join, parent, root_of
from spark_arrow_ipc.storage.storage import Kind, Storage

__all__ = ["Cleaner"]

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Cleaner:
    """What is done with files that were read.

    Parameters
    ----------
    storage
        The storage that holds them.
    archive
        The directory that they are moved to, below which they keep their whole path; None to delete them.
    """

    storage: Storage
    archive: str | None

    def clean(self, batch: StreamBatch) -> None:
        """Delete or archive the files of a batch, and warn of those that stay."""
        each(self._clean, batch.files, waits=self.storage.traits.waits)

    def archived(self, path: str) -> str:
        """Return the path of a file in the archive."""
        assert self.archive is not None
        return join(self.archive, path[len(root_of(path)) :].lstrip("/"))

    def _clean(self, file: DataFile) -> None:
        try:
            status = self.storage.status(file.path)
            if status is None:
                return
            same = (status.nbytes, status.mtime_ns) == (file.nbytes, file.mtime_ns) and (
                not file.version or not status.version or status.version == file.version
            )
            if status.kind is not Kind.FILE or not same:
                _LOG.warning("%s: not cleaned, because it has changed since it was read", printable(file.path))
            elif self.archive is None:
                self.storage.delete(file.path)
            else:
                self._move(file.path, self.archived(file.path))
        except (OSError, ArrowIpcError) as error:
            _LOG.warning("%s: not cleaned: %s", printable(file.path), printable(str(error)))

    def _move(self, path: str, archived: str) -> None:
        self.storage.make_directory(parent(archived))
        self.storage.publish(path, archived)
        if not self.storage.traits.renames:
            self.storage.delete(path)
