"""The layout of HuggingFace's `datasets`: the JSON files by which ``load_from_disk`` opens what a job wrote.

``state.json`` names the files, and it alone decides: it gets its name by one rename, after the files have theirs and before
old ones are removed. So ``load_from_disk`` finds the old rows or the new ones, whenever a job dies. ``dataset_info.json``
says nothing that changes with the rows: it has no features, which `datasets` then takes from the schema of the files, and so
of the files that ``state.json`` names. Where it had some, of the library's own ``save_to_disk``, the old files must say the
same of themselves, because it is replaced before ``state.json``.

A job that keeps files is refused in such a directory, with this layout or without: ``state.json`` would not name its files.
Object stores copy files, and a late copy could bring an old ``state.json`` back: nothing is written there in this layout.
"""

from __future__ import annotations

import json
import uuid
import zlib
from collections.abc import Collection, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, Final

from spark_arrow_ipc import ipc
from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.dataset.commit_log.dataset_directory import STAGED_SUFFIX, DatasetDirectory, StagedFile
from spark_arrow_ipc.dataset.listing.directory import read_directory
from spark_arrow_ipc.dataset.listing.hugging_face import (
    DICT_FILE,
    INFO_FILE,
    MAX_JSON_NBYTES,
    METADATA_KEY,
    STATE_FILE,
    splits_in,
)
from spark_arrow_ipc.dataset.write.staged_file import Staging
from spark_arrow_ipc.errors import ArrowIpcError, UnsupportedError
from spark_arrow_ipc.ipc.columns.projection import select_known_columns
from spark_arrow_ipc.storage.paths import name_of
from spark_arrow_ipc.storage.storage import Kind

DOCUMENTS: Final = (INFO_FILE, STATE_FILE)
"""The names of the JSON files, in the order in which they are replaced."""

_DESCRIBING: Final = ("citation", "description", "homepage", "license")
"""Entries of ``dataset_info.json`` that are about all files; an overwrite keeps them."""

_FINGERPRINT: Final = 16
"""Characters of what `datasets` caches results under; another one for each job."""


@dataclass(frozen=True, slots=True)
class HuggingFaceLayout:
    """The layout as a job's intent has it."""

    described: tuple[tuple[str, str], ...] = ()  # what the dataset says of itself, by `_DESCRIBING`

    @classmethod
    def of(cls, dataset: DatasetDirectory) -> HuggingFaceLayout:
        """Return the layout for a job that replaces what is in a directory; `UnsupportedError` if that cannot be in one step."""
        _check_replaces(dataset)
        try:
            info = _object(dataset, INFO_FILE)
            listing = read_directory(dataset.storage, dataset.root)
            splits = splits_in(dataset.root, listing.files, {}, dataset.storage.read)
        except (ArrowIpcError, OSError, ValueError):
            return cls()  # `datasets` opens nothing here, or what our own chain of commits has
        is_open = any(name_of(file.path) == STATE_FILE for file in listing.files)
        if is_open and splits and info.get("features"):
            _check_features(dataset, info["features"], splits[0].files[0] if splits[0].files else None)
        return cls(tuple((key, info[key]) for key in _DESCRIBING if isinstance(info.get(key), str)))

    def stage(self, staging: Staging, adds: Sequence[StagedFile]) -> tuple[StagedFile, ...]:
        """Stage the JSON files that name the files of a job, in their order."""
        info = {**dict.fromkeys(_DESCRIBING, ""), **dict(self.described)}
        state: dict[str, object] = {
            "_data_files": [{"filename": file.final} for file in adds],
            "_fingerprint": staging.jobid[:_FINGERPRINT],
            "_format_columns": None,
            "_format_kwargs": {},
            "_format_type": None,
            "_output_all_columns": False,
            "_split": None,
        }
        return tuple(_staged(staging, name, value) for name, value in zip(DOCUMENTS, (info, state), strict=True))


def check_none_named(dataset: DatasetDirectory, names: Collection[str] | None = None) -> None:
    """Raise if JSON files say which files of a directory are data, so that a job which keeps them would not be seen.

    Without the `names` of its files it asks for two of them; not where calls wait, and nobody writes in this layout.
    """
    if names is None:
        storage = dataset.storage
        asked = () if storage.traits.may_come_late else (INFO_FILE, DICT_FILE)
        names = [name for name in asked if storage.status(dataset.path(name), follow_links=False) is not None]
    for name in (INFO_FILE, DICT_FILE):
        if name in names:
            raise UnsupportedError(
                f"the directory is a dataset of HuggingFace, whose JSON files ({name}) name the files that are read: others "
                "beside them would not be. Replace it by mode overwrite, with layout=huggingface if it is to stay one, or "
                "write to another directory. Nothing is written",
                path=dataset.root,
            )


def _check_replaces(dataset: DatasetDirectory) -> None:
    if dataset.storage.traits.may_come_late:
        raise UnsupportedError(
            "layout=huggingface needs a file system that replaces a file by renaming another one, because state.json says "
            "which files are read; write to a local or mounted directory, and copy it when it is whole. Nothing is written",
            path=dataset.root,
        )
    for name in DOCUMENTS:
        status = dataset.storage.status(dataset.path(name), follow_links=False)
        if status is not None and status.kind is Kind.DIRECTORY:
            raise UnsupportedError(
                f"{name} is a directory here, and layout=huggingface writes a file of that name, without which datasets opens "
                "nothing; remove it, or write to another directory. Nothing is written",
                path=dataset.root,
            )


def _check_features(dataset: DatasetDirectory, features: object, first: Any) -> None:
    """Raise unless an old file says itself what features it has: ``dataset_info.json`` is replaced first."""
    pair = None
    if first is not None:
        with (
            suppress(ArrowIpcError, OSError, ValueError),
            closing(first.open(dataset.storage)) as source,
            ipc.open(source, columns=select_known_columns) as reader,
        ):
            pair = parse_json(dict(reader.file_schema.custom_metadata).get(METADATA_KEY, "null"))
    info = pair.get("info") if isinstance(pair, dict) else None
    if not isinstance(info, dict) or info.get("features") != features:
        raise UnsupportedError(
            f"the features in {INFO_FILE} are not those that its files note of themselves, so that a job which replaces both "
            "could leave old files with new features; remove the directory, or write to another one. Nothing is written",
            path=dataset.root,
        )


def _object(dataset: DatasetDirectory, name: str) -> dict[str, Any]:
    value = parse_json(dataset.storage.read(dataset.path(name), MAX_JSON_NBYTES))
    if not isinstance(value, dict):
        raise ValueError(name)  # noqa: TRY004 - as other JSON that is none
    return value


def _staged(staging: Staging, name: str, value: object) -> StagedFile:
    data = json.dumps(value, indent=2).encode()
    staged = uuid.uuid4().hex + STAGED_SUFFIX
    staging.storage.put(staging.path(staged), data, durable=staging.durable)
    return StagedFile(staged, name, len(data), 0, zlib.crc32(data))
