"""Find the files, their order and their splits in a directory that HuggingFace's `datasets` wrote.

Its JSON files show one of three forms:

- ``save_to_disk`` of a Dataset: ``dataset_info.json`` and ``state.json``, whose ``_data_files`` name the files in order;
- ``save_to_disk`` of a DatasetDict: ``dataset_dict.json`` names the splits, each a directory of the first form;
- the cache of ``load_dataset``: only ``dataset_info.json``, whose ``splits`` determine the names of the files. Other files
  in such a directory (``cache-*.arrow``) are results of ``map``, and not data.

The JSON is not trusted: its size is bounded, and a name in it is an error unless the listing has it. In a table with this
layout the log decides (`files_of_table`), because ``state.json`` is put after the entry.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.errors import ArrowIpcError, NoFilesError, UnsupportedError, cut_repr, error_context
from spark_arrow_ipc.storage.paths import SEPARATOR, join, name_of
from spark_arrow_ipc.table.state import State

LAYOUT: Final = "huggingface"
"""The name of the first form as the layout of a table."""

INFO_FILE: Final = "dataset_info.json"
STATE_FILE: Final = "state.json"
DICT_FILE: Final = "dataset_dict.json"

SPLIT_COLUMN: Final = "split"
"""The column with the name of each row's split, in a dataset of several."""

MAX_JSON_NBYTES: Final = 16 << 20
"""Larger JSON files are not read: one that names 100,000 files has 5 MB."""

METADATA_KEY: Final = "huggingface"
"""Key of the pair of a schema that holds features, as JSON."""

_INDICES: Final = ("_indices_files", "_indices_data_files")
"""Keys under which older releases name files that select and order rows."""

_SPLIT: Final = re.compile(r"\w+(\.\w+)*")
"""Matches the names of splits that `datasets` takes."""

_MOST_NAME: Final = 255
"""Characters of the name of a dataset: no file has a longer one."""


@dataclass(frozen=True, slots=True)
class Split:
    """The files of one split, in their order; the name is empty for a Dataset without splits."""

    name: str
    directory: str
    files: tuple[DataFile, ...]


Read = Callable[[str, int], bytes]
"""Returns the bytes of a file, which has at most so many."""


def splits_in(
    directory: str, files: Sequence[DataFile], leaves: Mapping[str, Sequence[DataFile]], read: Read
) -> tuple[Split, ...] | None:
    """Return the splits of a directory, one for a Dataset; None if HuggingFace's `datasets` did not write it.

    `files` of the directory are sorted by path; `leaves` have the files of all directories; `read` reads a JSON file.
    """

    def has(name: str) -> bool:
        path = join(directory, name)
        position = bisect_left(files, path, key=lambda file: file.path)
        return position < len(files) and files[position].path == path

    if not has(INFO_FILE) and not has(DICT_FILE):
        return None  # nearly all directories end here, in O(log files)
    by_name = {name_of(file.path): file for file in files}
    if INFO_FILE in by_name and STATE_FILE in by_name:
        return (Split("", directory, _files_of_state(directory, by_name, read)),)
    if DICT_FILE in by_name:
        return tuple(_splits_of_dict(directory, leaves, read))
    if INFO_FILE in by_name:
        return _splits_of_cache(directory, by_name, read)
    return None


def files_of_table(directory: str, files: Sequence[DataFile], state: State, read: Read) -> tuple[DataFile, ...] | None:
    """Return the files of a table with this layout, or None if ``state.json`` names a file of another program."""
    by_name = {name_of(file.path): file for file in files}
    counted = set(state.files.paths)
    if STATE_FILE in by_name:
        names = names_in_state(directory, read)
        # `save_to_disk` has written into the directory since.
        if any(name in by_name and name not in counted for name in names or ()):
            return None
    return tuple(file for name, file in by_name.items() if name in counted)


def names_in_state(directory: str, read: Read) -> list[str] | None:
    """Return the names of files in a ``state.json``; None if it is missing or is none."""
    try:
        named = read_object(join(directory, STATE_FILE), read)["_data_files"]
        names = [one["filename"] for one in named]
    except (ArrowIpcError, FileNotFoundError, LookupError, TypeError):
        return None
    return names if all(isinstance(name, str) for name in names) else None


def _files_of_state(directory: str, by_name: Mapping[str, DataFile], read: Read) -> tuple[DataFile, ...]:
    path = join(directory, STATE_FILE)
    state = read_object(path, read)
    for key in _INDICES:
        if state.get(key):
            raise UnsupportedError(
                f"the rows of this dataset are selected by indices ({key}), which are not applied here; write it with "
                "datasets' flatten_indices() and save_to_disk, and read that",
                path=path,
            )
    named = state.get("_data_files")
    if not isinstance(named, list) or not all(isinstance(one, dict) for one in named):
        raise _wrong(path, 'a list "_data_files" of objects with a "filename"', named)
    return tuple(_file(path, one.get("filename"), directory, by_name) for one in named)


def _splits_of_dict(directory: str, leaves: Mapping[str, Sequence[DataFile]], read: Read) -> Iterator[Split]:
    path = join(directory, DICT_FILE)
    names = read_object(path, read).get("splits")
    if not isinstance(names, list) or not all(map(_is_split, names)) or len(set(names)) < len(names) or not names:
        raise _wrong(path, 'a list "splits" of different names of splits', names)
    for name in names:
        inner = join(directory, name)
        by_name = {name_of(file.path): file for file in leaves.get(inner, ())}
        if STATE_FILE not in by_name:
            raise NoFilesError(f"{DICT_FILE} names the split {name}, and its directory has no {STATE_FILE}", path=inner)
        yield Split(name, inner, _files_of_state(inner, by_name, read))


def _splits_of_cache(directory: str, by_name: Mapping[str, DataFile], read: Read) -> tuple[Split, ...] | None:
    path = join(directory, INFO_FILE)
    splits = read_object(path, read).get("splits")
    if not isinstance(splits, dict) or not splits:
        return None  # not a cache: the JSON file itself is refused, as other files that are not Arrow
    result = []
    for name, split in splits.items():
        of = split.get("dataset_name") if isinstance(split, dict) else None
        if not _is_split(name) or not isinstance(of, str) or len(of) > _MOST_NAME:
            raise _wrong(path, 'names of splits, each with a "dataset_name"', {name: split})
        lengths = split.get("shard_lengths") or ()
        count = len(lengths) if isinstance(lengths, list) else 1
        # `datasets.naming.camelcase_to_snakecase`, in two steps.
        words = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", of)
        words = re.sub(r"([a-z\d])([A-Z])", r"\1_\2", words).lower()
        first = f"{words}-{name}"
        # One name at a time, as the first missing file is an error and the list of shards may be long.
        names = (
            f"{first}-{i:05d}-of-{count:05d}.arrow" if count > 1 else f"{first}.arrow" for i in range(max(count, 1))
        )
        result.append(Split(name, directory, tuple(_file(path, one, directory, by_name) for one in names)))
    return tuple(result)


def _is_split(name: object) -> bool:
    return isinstance(name, str) and _SPLIT.fullmatch(name) is not None


def _file(path: str, name: object, directory: str, by_name: Mapping[str, DataFile]) -> DataFile:
    # A name must not lead out of the directory.
    if not isinstance(name, str) or SEPARATOR in name or name in {"", ".", ".."}:
        raise _wrong(path, "names of files in its directory", name)
    if name not in by_name:
        raise NoFilesError(
            f"{name_of(path)} names the file {cut_repr(name)}, which is not there", path=join(directory, name_of(path))
        )
    return by_name[name]


def read_object(path: str, read: Read) -> dict[str, Any]:
    """Return the object in a JSON file; `NoFilesError` if it holds something else."""
    with error_context(path=path):
        data = read(path, MAX_JSON_NBYTES)
    try:
        value = parse_json(data)
    except ValueError as error:
        raise _wrong(path, "JSON", str(error)) from error
    if not isinstance(value, dict):
        raise _wrong(path, "a JSON object", value)
    return value


def _wrong(path: str, expected: str, actual: object) -> NoFilesError:
    return NoFilesError(expected=f"{expected}, which determine the files to read", found=cut_repr(actual), path=path)
