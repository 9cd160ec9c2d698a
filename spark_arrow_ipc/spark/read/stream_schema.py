"""`StreamSchema`: store the columns of a stream in its log, and warn of new columns in its files.

Spark asks for the columns at each start and does not store them. From the newest file at a restart the columns of a query
and its sink would depend on the last file that arrived. ``schema.json`` has the columns with which the query started
last, and the options on which they depend; with other options columns are inferred again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import types as s

from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.scan.file_metadata import MetadataOptions, read_metadata
from spark_arrow_ipc.errors import StreamOffsetError, cut_repr, join_texts, printable
from spark_arrow_ipc.spark.options.read_options import ReadOptions, StreamOptions
from spark_arrow_ipc.storage.open import storage_of
from spark_arrow_ipc.storage.paths import is_remote, join
from spark_arrow_ipc.storage.storage import Storage

_LOG: Final = logging.getLogger(__name__)

NAME: Final = "schema.json"

_VERSION: Final = 1
_MOST_NBYTES: Final = 16 << 20  # bounds the memory for a damaged file

_SHAPING: Final = (
    "columns", "metadata_columns", "merge_schema", "nanoseconds", "times", "extension_types", "timestamps_with_offset", "vectors",
    "tensors", "recursive_file_lookup", "partition_type_inference", "base_path", "time_zone",
)  # fmt: skip
"""Attributes of `ReadOptions` on which inferred columns depend."""


def log_of(options: ReadOptions, stream: StreamOptions) -> tuple[Storage, str] | None:
    """Return the storage and the directory of a stream's log; None if the stream has no log."""
    path = stream.source_log or (stream.ingest.log if stream.late_window is None else None)
    of_log = options.storage or stream.ingest.log_storage
    return None if path is None else storage_of(path, of_log if is_remote(path) else ())


@dataclass(frozen=True, slots=True)
class _StoredSchema:
    schema: s.StructType
    options: str
    names: frozenset[str]  # lower-case columns of the files at the first start


@dataclass(slots=True)
class StreamSchema:
    """The columns of one stream; `read` is for the planner, all else for the process of the source."""

    options: ReadOptions
    stream: StreamOptions
    _names: frozenset[str] | None = None
    _reported: set[str] = field(default_factory=set)

    def read(self) -> s.StructType | None:
        """Return the stored columns; None without them or with other options."""
        stored = self._read()
        return None if stored is None or stored.options != self._shaping else stored.schema

    def store(self, schema: s.StructType, files: Sequence[DataFile]) -> None:
        """Store the columns of a query before its first batch in this process, if they changed."""
        log, stored = log_of(self.options, self.stream), self._read()
        self._names = self._names_in(files) if stored is None else stored.names
        is_current = stored is not None and (stored.schema, stored.options) == (schema, self._shaping)
        # A user-defined type could not be read again: `_parse` refuses it.
        if log is None or is_current or _has_user_type(schema.jsonValue()):
            return
        storage, directory = log
        value = {"v": _VERSION, "options": self._shaping, "schema": schema.jsonValue(), "names": sorted(self._names)}
        storage.inside(directory).put(join(directory, NAME), json.dumps(value).encode(), durable=True)
        if stored is not None:
            _LOG.warning("%s: the stream goes on with other columns than before", printable(directory))

    def warn_of_new(self, schema: s.StructType, files: Sequence[DataFile]) -> None:
        """Warn once of each column of the newest file that neither the query nor its earlier files have."""
        if self._names is None or self.options.columns is not None:
            return
        new = self._names_in(files) - self._names - {name.lower() for name in schema.names} - self._reported
        if new:
            self._reported |= new
            _LOG.warning(
                "%s: files have columns now that this stream does not have, and goes on without: %s; to read them start it "
                "with .schema(...) that has them",
                printable(_newest(files).path), printable(join_texts(sorted(new))),
            )  # fmt: skip

    def _names_in(self, files: Sequence[DataFile]) -> frozenset[str]:
        if not files or self.options.tensors is not None:
            return frozenset()
        # One file is enough for a warning, and each costs an open.
        schema = read_metadata(_newest(files), MetadataOptions(storage=self.options.path_storage)).schema
        return frozenset() if schema is None else frozenset(field.name.lower() for field in schema.fields)

    @property
    def _shaping(self) -> str:
        return repr([str(getattr(self.options, name)) for name in _SHAPING])

    def _read(self) -> _StoredSchema | None:
        log = log_of(self.options, self.stream)
        if log is None:
            return None
        storage, directory = log
        path = join(directory, NAME)
        try:
            value = parse_json(storage.inside(directory).read(path, _MOST_NBYTES))
            return _parse(value)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError, AttributeError, PySparkException) as error:
            raise StreamOffsetError(
                f"this note of a stream's columns is damaged ({cut_repr(str(error))}); remove it, and start the query with "
                ".schema(...)",
                path=path,
            ) from error


def _newest(files: Sequence[DataFile]) -> DataFile:
    return max(files, key=lambda file: (file.mtime_ns, file.path))


def _parse(value: Any) -> _StoredSchema:
    if value["v"] != _VERSION or not isinstance(value["options"], str):
        raise ValueError(f"version {value['v']!r}")
    if _has_user_type(value["schema"]):
        raise ValueError("a user-defined type")  # Spark would import the class that it names
    return _StoredSchema(s.StructType.fromJson(value["schema"]), value["options"], frozenset(map(str, value["names"])))


def _has_user_type(json_type: object) -> bool:
    """Return True if a type in Spark's JSON is or contains a user-defined type."""
    # Without recursion: the JSON of a damaged file may be deep.
    waiting = [json_type]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if part.get("type") == "udt":
                return True
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return False
