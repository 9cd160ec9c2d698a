"""A stand-in for `pyarrow.fs.HadoopFileSystem` over a local directory, with the rules of HDFS and of pyarrow's client.

The rules, from Hadoop's FileSystem specification and the sources of Arrow C++ (filesystem/hdfs.cc):

- A rename moves a file into a directory that is there, and fails where the name is taken; the namenode does it in one
  step. pyarrow's `move` then deletes a *file* of the new name and renames again, in two steps.
- What cannot be asked about is "not found", whatever the reason.
- A file that is opened for writing replaces one of its name, and the directories above it are made.
- Times are whole seconds, and listings have names with all their directories.
"""

import errno
import threading
from pathlib import Path
from types import SimpleNamespace

from pyarrow import fs

FAILED = OSError(255, "HDFS rename failed. Detail: [errno 255]\n  Unknown error 255")


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
        self.namenode = threading.Lock()
        self.calls = []
        self.down = None
        self.before_move = self.after_move = lambda source, target: None

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

    def open_output_stream(self, path):
        target = self._path(path, "create")
        self._check_up()
        target.parent.mkdir(parents=True, exist_ok=True)
        return self.local.open_output_stream(str(target))

    def create_dir(self, path, *, recursive=True):
        self._path(path, "mkdirs").mkdir(parents=recursive, exist_ok=True)

    def delete_file(self, path):
        target = self._path(path, "delete")
        if target.is_dir():
            raise OSError("path is a directory")
        target.unlink()

    def delete_dir(self, path):
        self.local.delete_dir(str(self._path(path, "delete tree")))

    def move(self, source, target):
        old, new = self._path(source, "move"), self._path(target, "move")
        self._check_up()
        self.before_move(source, target)
        try:
            self._rename(old, new)
        except OSError:
            if not (old.is_file() and new.is_file()):
                raise
            new.unlink()  # "Allow file -> file clobber"
            self._rename(old, new)
        self.after_move(source, target)

    def _rename(self, old, new):
        with self.namenode:
            new = new / old.name if new.is_dir() else new
            if new.exists() or not old.exists() or not new.parent.is_dir():
                raise FAILED
            old.rename(new)
