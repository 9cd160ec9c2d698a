"""A stand-in for `pyarrow.fs.HadoopFileSystem` over a local directory, with the rules of HDFS and of pyarrow's client.

The rules, from Hadoop's FileSystem specification and the sources of Arrow C++ (filesystem/hdfs.cc):

- What cannot be asked about is "not found", whatever the reason.
- Times are whole seconds, and listings have names with all their directories.
"""

import errno
from pathlib import Path
from types import SimpleNamespace

from pyarrow import fs

from spark_arrow_ipc.storage.hadoop import HadoopStorage
from spark_arrow_ipc.storage.paths import split_url


class HadoopStub:
    """HDFS in a directory.

    Parameters
    ----------
    root
        The directory.
    """

    def __init__(self, root):
        self.root = Path(root)
        self.local = fs.LocalFileSystem()
        self.calls = []
        self.down = None

    def _path(self, path, call):
        assert path.startswith("/"), "HDFS misreads URLs and relative paths"
        self.calls.append(call)
        if any(":" in part for part in path.split("/")):
            raise OSError(errno.EINVAL, f"{path} is not a valid DFS filename")
        return self.root / path.lstrip("/")

    def _check_up(self):
        if self.down is not None:
            raise self.down

    def get_file_info(self, asked):
        if isinstance(asked, fs.FileSelector):
            directory = self._path(asked.base_dir, "list")
            self._check_up()
            infos = self.local.get_file_info(fs.FileSelector(str(directory)))
            return [self._info(info, f"{asked.base_dir.rstrip('/')}/{info.base_name}") for info in infos]
        info = self.local.get_file_info(str(self._path(asked, "status")))
        return self._info(info, asked, missing=self.down is not None)

    def _info(self, info, path, missing=False):
        kind = fs.FileType.NotFound if missing else info.type
        seconds = None if info.mtime_ns is None else info.mtime_ns // 10**9 * 10**9
        return SimpleNamespace(path=path, type=kind, size=info.size, mtime_ns=seconds)

    def open_input_file(self, path):
        return self.local.open_input_file(str(self._path(path, "open")))


class FilledHadoop(HadoopStorage):
    """Tests put files there."""

    def _local(self, path):
        return self.connection("", ()).root / split_url(path)[1]

    def put(self, path, data):
        self._local(path).write_bytes(data)

    def create(self, path):
        return self._local(path).open("wb")

    def delete(self, path):
        self._local(path).unlink()

    def make_directory(self, directory):
        self._local(directory).mkdir(parents=True, exist_ok=True)


def filled(directory):
    """Return a storage whose files are those of a stub over a directory, and the stub."""
    stub = HadoopStub(directory)
    return FilledHadoop((("user", "me"),), connection=lambda root, options: stub), stub
