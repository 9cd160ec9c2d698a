"""Hadoop's client: a connection to a namenode from its URL and the options ``storage.*``, and the files that it opens.

The client runs in a JVM inside this process, and reads its settings from Hadoop's configuration files. An option with a
dot in its name is such a setting (``storage.dfs.client.use.datanode.hostname``). Errors hold no value of an option.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from spark_arrow_ipc.errors import OptionError, UnsupportedError
from spark_arrow_ipc.storage.base import PREFIX, RemoteSource, StorageOptions, one_line, unknown_option

_ENVIRONMENT: Final = (
    "on every machine Java and Hadoop must be installed, JAVA_HOME and HADOOP_HOME be set (or ARROW_LIBHDFS_DIR to the "
    "directory of libhdfs.so), and CLASSPATH be the output of 'hadoop classpath --glob'"
)

_INSTALL: Final = f"paths of hdfs and viewfs need pyarrow (pip install pyarrow); and {_ENVIRONMENT}"

# Arguments of `pyarrow.fs.HadoopFileSystem`, and functions that convert a string to one.
_OPTIONS: Final[Mapping[str, Callable[[str], Any]]] = {
    "user": str,
    "kerb_ticket": str,
    "buffer_size": int,
}

_PORT: Final = re.compile(r"(.*):([0-9]{1,5})")


def load_fs() -> Any:
    """Import pyarrow's file systems."""
    try:
        import pyarrow.fs
    except ImportError as error:
        raise UnsupportedError(_INSTALL) from error
    return pyarrow.fs


def connect(root: str, options: StorageOptions) -> Any:
    """Return pyarrow's file system of a root, ``hdfs://host:port``."""
    arguments, settings = _arguments(options)
    match = _PORT.fullmatch(root)
    host, port = (match[1], int(match[2])) if match else (root, 0)
    if host.partition("://")[2] == "default":
        host = "default"
    try:
        return load_fs().HadoopFileSystem(host, port, extra_conf=settings or None, **arguments)
    except OSError as error:
        reason = one_line(str(error).partition("\n")[0], options)
        if reason.startswith("Unable to load"):
            raise UnsupportedError(
                f"Hadoop's client could not be loaded ({reason}): {_ENVIRONMENT}", path=root
            ) from None
        raise OSError(
            error.errno,
            f"no connection to Hadoop ({reason}); the reason is on the standard error stream; {_ENVIRONMENT}",
            root,
        ) from None


def _arguments(options: StorageOptions) -> tuple[dict[str, Any], dict[str, str]]:
    arguments: dict[str, Any] = {}
    settings: dict[str, str] = {}
    for name, value in options:
        if "." in name:
            settings[name] = value
        elif name not in _OPTIONS:
            others = f"there are {', '.join(_OPTIONS)}, and Hadoop's own with a dot"
            raise unknown_option(name, _OPTIONS, "Hadoop", others)
        else:
            try:
                arguments[name] = _OPTIONS[name](value)
            except ValueError:
                raise OptionError(f"the option {PREFIX}{name} must be a whole number") from None
    return arguments, settings


class HadoopSource(RemoteSource):
    """A file of HDFS, which is closed when its last read has ended."""

    def close(self) -> None:
        """Drop the file; reads after it fail."""
        super().close()

        # The file itself is closed when no read refers to it: closing it during a read is not safe.
        def fail(_start: int, _into: memoryview) -> None:
            raise ValueError("the file is closed")

        self._fetch = fail
