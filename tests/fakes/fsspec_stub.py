"""A file system of fsspec for tests, `SCHEME`: its own memory file system, which opens no file objects."""

from typing import ClassVar

import fsspec
from fsspec.implementations.memory import MemoryFileSystem

from spark_arrow_ipc.storage.fsspec_storage import FsspecStorage

__all__ = ["SCHEME", "FilledStorage", "StubFileSystem"]

SCHEME = "stub"


class StubFileSystem(MemoryFileSystem):
    """Names are those of the memory file system: a slash, the host, the path.

    Parameters
    ----------
    host
        From the URL.
    retries, token
        Options, for tests.
    """

    protocol = SCHEME
    store: ClassVar = {}
    pseudo_dirs: ClassVar = [""]
    made = 0

    def __init__(self, host="", retries=1, token=None, verify=True, **kwargs):
        super().__init__(**kwargs)
        type(self).made += 1
        self.retries, self.token, self.verify = retries, token, verify
        self.fault = None
        self.calls = []

    @classmethod
    def _strip_protocol(cls, path):
        return "/" + path.removeprefix(f"{SCHEME}://").strip("/") if path.strip("/") else ""

    @staticmethod
    def _get_kwargs_from_urls(url):
        return {"host": url.removeprefix(f"{SCHEME}://").partition("/")[0]}

    def _called(self, *call):
        self.calls.append(call)
        if self.fault is not None:
            raise self.fault

    def ls(self, path, detail=True, **kwargs):
        self._called("ls", path)
        return super().ls(path, detail=detail, **kwargs)

    def info(self, path, **kwargs):
        self._called("info", path)
        return super().info(path, **kwargs)

    def cat_file(self, path, start=None, end=None, **kwargs):
        self._called("cat_file", start, end)
        return super().cat_file(path, start, end, **kwargs)

    def open(self, path, mode="rb", **kwargs):
        assert mode != "rb", "fsspec's file objects are not used"
        return super().open(path, mode, **kwargs)


fsspec.register_implementation(SCHEME, StubFileSystem)


class FilledStorage(FsspecStorage):
    """Tests put files there."""

    def put(self, path, data):
        connection, name = self._at(path)
        connection.system.pipe_file(name, data)

    def create(self, path):
        connection, name = self._at(path)
        return connection.system.open(name, "wb")

    def make_directory(self, directory):
        pass
