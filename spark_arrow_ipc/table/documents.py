"""The JSON files by which HuggingFace's `datasets` opens a table of its layout: `publish_documents`.

``load_from_disk`` opens the files that ``state.json`` names. It is put after the log entry that makes new files count, and
before removed ones are deleted (`collect`): the library finds the old rows or the new ones, and the new ones once the job, a
later one or vacuum has got so far. The log says that the table has this layout, so that each of them can do it. Readers of
this package follow the log meanwhile (`files_of_table`).

``dataset_info.json`` says nothing that changes with the rows: it has no features, which `datasets` then takes from the schema
of the files, and so of the files that ``state.json`` names.

A process that pauses may put an old ``state.json`` over a newer one; it reads the log after that, and puts the newest. If it
dies in between, the file names removed files, which the library does not find, until the next job or vacuum.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, Final

from spark_arrow_ipc.dataset.listing.hugging_face import INFO_FILE, LAYOUT, STATE_FILE, names_in_state, read_object
from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.storage.paths import join
from spark_arrow_ipc.table.log import read_newer
from spark_arrow_ipc.table.names import TableDirectory, is_visible
from spark_arrow_ipc.table.snapshot import Listed, Snapshot, is_removed
from spark_arrow_ipc.table.state import State

DOCUMENTS: Final = (INFO_FILE, STATE_FILE)
"""The names of the JSON files, in the order in which they are replaced."""

_DESCRIBING: Final = ("citation", "description", "homepage", "license")
"""Entries of ``dataset_info.json`` that are about all files; an overwrite keeps them."""

_ATTEMPTS: Final = 8

_FINGERPRINT: Final = 16
"""Characters of what `datasets` caches results under; another one for each job."""


def of_other_programs(snapshot: Snapshot) -> Listed:
    """Return the unmanaged files of a snapshot without the JSON files of the table's layout."""
    documents = DOCUMENTS if snapshot.state is not None and snapshot.state.layout else ()
    return {path: status for path, status in snapshot.unmanaged.items() if path not in documents}


def publish_documents(directory: TableDirectory, state: State) -> None:
    """Let the JSON files of a table with this layout name the files of its state, unless they are of another program.

    Anybody may do it, late and twice: who finds afterwards that a newer entry was put does the same for that.
    """
    for _ in range(_ATTEMPTS):
        if state.layout != LAYOUT or not _is_due(directory, state):
            return
        for name, value in zip(DOCUMENTS, (_info(directory), _named(state)), strict=True):
            data = json.dumps(value, indent=2).encode()
            directory.storage.put(directory.path(name), data, durable=True, scratch=directory.entries(state.table))
            directory.storage.sync(directory.root)
        newest = read_newer(directory, state)
        if newest is None or newest.table != state.table:
            return
        if newest.layout != LAYOUT:
            # An overwrite without the layout has deleted them, and now they are there again.
            directory.storage.delete_all([directory.path(name) for name in DOCUMENTS])
            return
        state = newest


def _is_due(directory: TableDirectory, state: State) -> bool:
    storage, counted = directory.storage, set(state.files.paths)
    names = names_in_state(directory.root, storage.read)
    if names is None or storage.status(directory.path(INFO_FILE), follow_links=False) is None:
        return True
    removed = {removed.path: removed for removed in state.tombstones}
    for name in set(names) - counted:
        if state.is_managed(name) or not is_visible(name):
            continue
        status = storage.status(directory.path(name), follow_links=False)
        if status is not None and not (name in removed and is_removed(directory, removed[name], status)):
            return False  # `save_to_disk` has written into the directory since
    return set(names) != counted


def _info(directory: TableDirectory) -> dict[str, str]:
    """Return ``dataset_info.json``: an overwrite keeps what the old one says about all files."""
    info: dict[str, Any] = {}
    with suppress(ArrowIpcError, OSError):
        info = read_object(join(directory.root, INFO_FILE), directory.storage.read)
    return {key: info[key] if isinstance(info.get(key), str) else "" for key in _DESCRIBING}


def _named(state: State) -> dict[str, object]:
    return {
        "_data_files": [{"filename": path} for path in state.files.paths],
        "_fingerprint": state.entry[:_FINGERPRINT],
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": None,
    }
