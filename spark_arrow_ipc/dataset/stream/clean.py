"""`Cleaner`: delete the files of a batch that the sink has.

Spark says that a batch is committed one batch late, and once more after a restart, so cleaning is idempotent: a file
that is gone was cleaned before. A file that is another one than the batch read, by size, time or version, is left
alone: it was never read. Failures are warnings: the next batches must not wait for them.

A listing follows links, and what it finds may lie anywhere. So files are only taken out of the directories that the
user named, in storages `inside` them: a file that is a link, or is reached through one, stays where it is, and so does
a file of a table, whose log or whose readers count it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from spark_arrow_ipc.dataset.listing.data_file import DataFile, has_sample
from spark_arrow_ipc.dataset.stream.mode import StreamBatch
from spark_arrow_ipc.dataset.stream.table_entries import table_around
from spark_arrow_ipc.errors import ArrowIpcError, printable
from spark_arrow_ipc.storage.paths import parent, relative
from spark_arrow_ipc.storage.storage import Kind, Status, Storage, each

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Cleaner:
    """The treatment of files that were read."""

    storage: Storage
    # the directories that files are taken out of; links on the way to them are followed, and none below
    roots: tuple[str, ...]

    def clean(self, batch: StreamBatch) -> None:
        """Delete the files of a batch, and warn of those that stay."""
        tables: dict[str, str | None] = {}
        each(lambda file: self._clean(file, tables), batch.files, waits=self.storage.traits.waits)

    def _clean(self, file: DataFile, tables: dict[str, str | None]) -> None:
        try:
            why = self._take_out(file, tables)
        except (OSError, ArrowIpcError) as error:
            why = str(error)
        if why is not None:
            _LOG.warning("%s: not cleaned: %s", printable(file.path), printable(why))

    def _take_out(self, file: DataFile, tables: dict[str, str | None]) -> str | None:
        """Delete a file; return the reason if it stays though it is there."""
        root = max((root for root in self.roots if relative(file.path, root) != file.path), key=len, default=None)
        if root is None:
            return "it is not below a path of this stream any more"
        root = parent(root) if root == file.path else root
        storage = self.storage.inside(root)
        status = storage.status(file.path, follow_links=False)
        if status is None:
            return None
        if status.kind is Kind.LINK:
            return "it is a link, and what it leads to is not of this directory"
        if status.kind is not Kind.FILE or not _is_same(status, file, storage):
            return "it has changed since it was read"
        directory = parent(file.path)
        if directory not in tables:
            tables[directory] = table_around(self.storage, directory)
        if tables[directory] is not None:
            return f"it is in the table {tables[directory]}"
        storage.delete(file.path)
        return None


def _is_same(status: Status, file: DataFile, storage: Storage) -> bool:
    """Return whether a file is the one that the batch read, also if its time was set anew."""
    if status.nbytes != file.nbytes:
        return False
    if status.mtime_ns != file.mtime_ns:
        return has_sample(file, file.path, storage)
    return not file.version or not status.version or status.version == file.version
