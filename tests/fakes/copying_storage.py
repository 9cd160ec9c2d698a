"""`CopyingStorage`: a local directory that behaves as an object store does, for tests of commits by copies.

It cannot rename: `publish` copies, and the staged file stays. Directories are prefixes: they come with the first file
and go with the last one. A copy has a time and a version of its own. `status` gives times in whole seconds, as the
replies of object stores do, and a listing gives finer ones.
"""

import uuid
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest import mock

from spark_arrow_ipc.dataset.listing import tree
from spark_arrow_ipc.dataset.write import job_plan
from spark_arrow_ipc.storage.local import LocalStorage
from spark_arrow_ipc.storage.paths import parent
from spark_arrow_ipc.storage.storage import Kind, Traits

SECOND = 1_000_000_000


def copy(data, final):
    """Write the bytes of a copy in one step, as its readers see it."""
    final = Path(final)
    temporary = final.parent / f".{uuid.uuid4().hex}.staged"
    for _ in range(100):
        with suppress(FileNotFoundError):  # a directory that another process finds empty, and removes
            final.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(data)
            temporary.rename(final)
            return
    raise OSError(5, "the directory does not stay", final)


class CopyingStorage(LocalStorage):
    """See the module; `copier` copies a file to another path."""

    @staticmethod
    def copier(staged, final):
        copy(Path(staged).read_bytes(), final)

    @property
    def traits(self):
        return Traits(directories=False, renames=False)

    def inside(self, directory):
        return type(self)(directory)

    def status(self, path, *, follow_links=True):
        status = super().status(path, follow_links=follow_links)
        if status is None or status.kind is not Kind.FILE:
            return status
        return versioned(status)._replace(mtime_ns=status.mtime_ns // SECOND * SECOND)

    def _list(self, directory, choose):
        with suppress(FileNotFoundError):
            for status in super()._list(directory, choose):
                yield versioned(status) if status.kind is Kind.FILE else status

    def create(self, path):
        return self._retried(path, lambda: super(CopyingStorage, self).create(path))

    def put(self, path, data, *, durable=False, scratch=None):
        # Beside the file, what a killed process leaves would be a file of the dataset, which no put of an object store is.
        self._retried(path, lambda: LocalStorage(self.root).put(path, data, scratch=scratch))

    def put_if_absent(self, path, data, *, durable=False):
        return self._retried(path, lambda: super(CopyingStorage, self).put_if_absent(path, data))

    def publish(self, staged, final):
        self.copier(staged, final)

    def delete(self, path):
        super().delete(path)
        self._delete_empty(parent(path))

    def delete_tree(self, directory):
        super().delete_tree(directory)
        self._delete_empty(parent(directory))

    def _retried(self, path, call):
        for _ in range(100):
            Path(parent(path)).mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):
                return call()
        raise OSError(5, "the directory does not stay", path)

    def _delete_empty(self, directory):
        while self.root is not None and directory.startswith(f"{self.root}/"):
            try:
                Path(directory).rmdir()
            except OSError:
                return
            directory = parent(directory)

    def _nothing(self, *_):
        """Nothing is to be made, made durable or asked."""

    make_directory = delete_directory_if_empty = sync = sync_file = _nothing
    check_put_if_absent = check_writable = check_publish = check_delete = _nothing

    def __reduce__(self):
        return type(self), () if self.root is None else (self.root,)


def versioned(status):
    return status._replace(version=f"{status.mtime_ns:x}")


@contextmanager
def local_paths_are_copied(storage):
    """Let every dataset of this process lie in a storage that copies."""
    with (
        mock.patch.object(job_plan, "storage_of", lambda path: (storage, storage.resolve(path))),
        mock.patch.object(tree, "storage_of", lambda path: (storage, storage.resolve(path))),
        mock.patch("commit_jobs.LOCAL", storage),
    ):
        yield
