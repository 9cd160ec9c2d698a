"""Refuse jobs by which HuggingFace's `datasets` would not open the rows of a table that JSON files describe.

A job that keeps files is refused in such a directory, with the layout or without: its files would have other schemas than the
library takes. Where ``dataset_info.json`` has features, of the library's own ``save_to_disk``, the old files must say the same
of themselves, because it is replaced before ``state.json`` (`table.documents`). Object stores carry out requests late: nothing
is written there in this layout.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing, suppress
from typing import Any

from spark_arrow_ipc import ipc
from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.dataset.listing.directory import read_directory
from spark_arrow_ipc.dataset.listing.hugging_face import (
    DICT_FILE,
    INFO_FILE,
    METADATA_KEY,
    STATE_FILE,
    read_object,
    splits_in,
)
from spark_arrow_ipc.errors import ArrowIpcError, UnsupportedError
from spark_arrow_ipc.ipc.columns.projection import select_known_columns
from spark_arrow_ipc.storage.paths import join, name_of
from spark_arrow_ipc.storage.storage import Kind
from spark_arrow_ipc.table.documents import DOCUMENTS
from spark_arrow_ipc.table.names import TableDirectory
from spark_arrow_ipc.table.state import State


def check_layout(directory: TableDirectory) -> None:
    """Raise an `UnsupportedError` if a job of this layout cannot replace what is in a directory in one step."""
    _check_replaces(directory)
    try:
        info = read_object(join(directory.root, INFO_FILE), directory.storage.read)
        listing = read_directory(directory.storage, directory.root)
        splits = splits_in(directory.root, listing.files, {}, directory.storage.read)
    except (ArrowIpcError, OSError):
        return  # `datasets` opens nothing here
    is_open = any(name_of(file.path) == STATE_FILE for file in listing.files)
    if is_open and splits and info.get("features"):
        _check_features(directory, info["features"], splits[0].files[0] if splits[0].files else None)


def check_none_named(
    directory: TableDirectory, names: Collection[str] | None = None, *, state: State | None = None
) -> None:
    """Raise if JSON files say which files of a directory are data, so that a job which keeps them would not be seen.

    Without the `names` of its files it asks for two of them; not where calls wait, and nobody writes in this layout.
    """
    if names is None:
        storage = directory.storage
        asked = () if storage.traits.may_come_late else (INFO_FILE, DICT_FILE)
        names = [INFO_FILE] if state is not None and state.layout else []  # which may not be there yet
        names += [name for name in asked if storage.status(directory.path(name), follow_links=False) is not None]
    for name in (INFO_FILE, DICT_FILE):
        if name in names:
            raise UnsupportedError(
                f"the directory is a dataset of HuggingFace, whose JSON files ({name}) name the files that are read: others "
                "beside them would not be. Replace it by mode overwrite, with layout=huggingface if it is to stay one, or "
                "write to another directory. Nothing is written",
                path=directory.root,
            )


def _check_replaces(directory: TableDirectory) -> None:
    if directory.storage.traits.may_come_late:
        raise UnsupportedError(
            "layout=huggingface needs a file system that replaces a file by renaming another one, because state.json says "
            "which files are read; write to a local or mounted directory, and copy it when it is whole. Nothing is written",
            path=directory.root,
        )
    for name in DOCUMENTS:
        status = directory.storage.status(directory.path(name), follow_links=False)
        if status is not None and status.kind is Kind.DIRECTORY:
            raise UnsupportedError(
                f"{name} is a directory here, and layout=huggingface writes a file of that name, without which datasets opens "
                "nothing; remove it, or write to another directory. Nothing is written",
                path=directory.root,
            )


def _check_features(directory: TableDirectory, features: object, first: Any) -> None:
    """Raise unless an old file says itself what features it has: ``dataset_info.json`` is replaced first."""
    pair = None
    if first is not None:
        with (
            suppress(ArrowIpcError, OSError, ValueError),
            closing(first.open(directory.storage)) as source,
            ipc.open(source, columns=select_known_columns) as reader,
        ):
            pair = parse_json(dict(reader.file_schema.custom_metadata).get(METADATA_KEY, "null"))
    info = pair.get("info") if isinstance(pair, dict) else None
    if not isinstance(info, dict) or info.get("features") != features:
        raise UnsupportedError(
            f"the features in {INFO_FILE} are not those that its files note of themselves, so that a job which replaces both "
            "could leave old files with new features; remove the directory, or write to another one. Nothing is written",
            path=directory.root,
        )
