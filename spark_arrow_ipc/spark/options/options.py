"""The options of one read or write as frozen values, made of what Spark hands over.

Strategy
--------
Spark hands options over as a case-insensitive dict of strings. Each row of `OPTIONS` (``option_rows.py``) is an
attribute of `ReadOptions` or `SparkWriteOptions`; ``parse`` makes them. Nothing is guessed: an unknown option, an
option of the other side and a value of the wrong kind are each an `OptionError` that says what would be right. No
Spark conf is read here, because the planner has no session.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark_arrow_ipc.dataset.scan.error_policy import Faults
from spark_arrow_ipc.dataset.write.modes import IfExists
from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark.options.enums import (
    Compression,
    DictionaryColumns,
    Durability,
    ExtensionTypes,
    IpcFormat,
    MapKeys,
    Nanoseconds,
    PartitionOverwriteMode,
    Statistics,
    Times,
    Validation,
)
from spark_arrow_ipc.spark.options.parsers import ColumnReference
from spark_arrow_ipc.spark.options.table import OPTIONS, Option, Side

__all__ = ["ReadOptions", "SparkWriteOptions", "options_table"]

_BY_KEY: Mapping[str, Option] = {option.name.lower(): option for option in OPTIONS}

_ANY = ".*"
"""End of the name of an option that stands for many, each with a key of its own."""

SPARK_KEYS = frozenset({"checkpointlocation"})
"""What Spark adds on its own and which means nothing to a batch job."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of a read; `parse` makes them from Spark's dict, the defaults are those of `OPTIONS`."""

    paths: tuple[str, ...] = ()
    columns: tuple[ColumnReference, ...] | None = None
    where: str | None = None
    metadata_columns: bool = False
    metadata_only: bool = False
    max_partition_bytes: int = 128 << 20
    open_cost_in_bytes: int = 4 << 20
    output_batch_rows: int = 1_000_000
    max_batch_bytes: int = 2 << 30
    validation: Validation = Validation.FULL
    nanoseconds: Nanoseconds = Nanoseconds.FLOOR
    times: Times = Times.INTERVAL
    map_keys: MapKeys = MapKeys.ERROR
    extension_types: ExtensionTypes = ExtensionTypes.CONVERT
    min_partition_num: int | None = None
    recursive_file_lookup: bool = False
    path_glob_filter: str | None = None
    modified_before: str | None = None
    modified_after: str | None = None
    base_path: str | None = None
    partition_type_inference: bool = True
    time_zone: str | None = None
    merge_schema: bool = False
    ignore_corrupt_files: bool = False
    ignore_missing_files: bool = False
    recover: bool = False
    memory_map: bool = False

    @property
    def faults(self) -> Faults:
        """What a read puts up with."""
        return Faults(self.ignore_corrupt_files, self.ignore_missing_files, self.recover)

    @classmethod
    def parse(cls, mapping: Mapping[str, str]) -> ReadOptions:
        """Return the options of a read.

        Raises
        ------
        OptionError
            An option is unknown, belongs to writing, or its value is not understood.
        """
        parsed = _parse(mapping, Side.READ)
        one = parsed.pop("path")
        several = parsed.pop("paths")
        if one is not None and several is not None:
            raise OptionError("the options path and paths exclude each other: give all paths to load([...])")
        options = cls(paths=one or several or (), **_attributes(parsed))
        _check_metadata_only(options)
        return options


@dataclass(frozen=True, slots=True)
class SparkWriteOptions:
    """Options of a write; `parse` makes them from Spark's dict, the defaults are those of `OPTIONS`."""

    path: str | None = None
    compression: Compression = Compression.LZ4
    compression_level: int | None = None
    record_batch_rows: int = 65_536
    record_batch_bytes: int = 64 << 20
    ipc_format: IpcFormat = IpcFormat.FILE
    partition_by: tuple[ColumnReference, ...] | None = None
    max_records_per_file: int | None = None
    max_file_bytes: int | None = None
    dictionary_columns: DictionaryColumns | tuple[ColumnReference, ...] = DictionaryColumns.NONE
    metadata: tuple[tuple[str, str], ...] = ()
    statistics: Statistics | tuple[ColumnReference, ...] = Statistics.AUTO
    partition_overwrite_mode: PartitionOverwriteMode = PartitionOverwriteMode.STATIC
    if_exists: IfExists = IfExists.APPEND
    durability: Durability = Durability.FSYNC
    commit_token: str | None = None
    restore_types: bool = False

    @classmethod
    def parse(cls, mapping: Mapping[str, str]) -> SparkWriteOptions:
        """Return the options of a write.

        Raises
        ------
        OptionError
            An option is unknown, belongs to reading, or its value is not understood.
        """
        parsed = _parse(mapping, Side.WRITE)
        one = parsed.pop("path")
        options = cls(path=one[0] if one else None, **_attributes(parsed))
        if options.compression is Compression.NONE and options.compression_level is not None:
            raise OptionError("the option compressionLevel has no meaning with compression=none: leave one of them out")
        return options


def _check_metadata_only(options: ReadOptions) -> None:
    """Refuse what asks for rows where only headers are read."""
    given = {"columns": options.columns is not None, "where": options.where is not None}
    given["metadataColumns"] = options.metadata_columns
    for name in filter(given.get, given):
        if options.metadata_only:
            raise OptionError(f"metadataOnly=true reads no rows, so that the option {name} has no meaning; remove one")


def _attributes(parsed: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by the names of attributes: ``maxPartitionBytes`` is ``max_partition_bytes``."""
    return {
        re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", name.removesuffix(_ANY)): value
        for name, value in parsed.items()
    }


def options_table(side: Side) -> str:
    """Return the Markdown table of the options of one side, for ``docs/options.md``."""
    rows = ["| option | default | value | meaning |", "|---|---|---|---|"]
    rows += [
        f"| `{o.name}` | {f'`{o.default}`' if o.default is not None else ''} | {o.expected}; e.g. {_code(o.example)} "
        f"| {o.meaning} |"
        for o in _of_side(side)
    ]
    return "\n".join(rows)


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _of_side(side: Side) -> tuple[Option, ...]:
    return tuple(option for option in OPTIONS if option.side in (side, Side.BOTH))


def _parse(mapping: Mapping[str, str], side: Side) -> dict[str, Any]:
    given = {key.lower(): text for key, text in mapping.items() if key.lower() not in SPARK_KEYS}
    for key, text in mapping.items():
        if key.lower() in given:
            _check_known(key, text, side)
    return {
        option.name: _values(option, mapping)
        if option.name.endswith(_ANY)
        else _value(option, given.get(option.name.lower()))
        for option in _of_side(side)
    }


def _values(option: Option, mapping: Mapping[str, str]) -> tuple[tuple[str, Any], ...]:
    """Return the pairs of an option that has keys of its own, by key."""
    prefix = option.name.removesuffix("*").lower()
    given = {key[len(prefix) :]: text for key, text in mapping.items() if key.lower().startswith(prefix)}
    return tuple((key, _value(option, given[key])) for key in sorted(given))


def _option(key: str) -> Option | None:
    """Return the option that a key belongs to."""
    key = key.lower()
    with_keys = next(
        (
            o
            for o in OPTIONS
            if o.name.endswith(_ANY) and len(key) >= len(o.name) and key.startswith(o.name[:-1].lower())
        ),
        None,
    )
    return with_keys or _BY_KEY.get(key)


def _check_known(key: str, text: str, side: Side) -> None:
    option = _option(key)
    if option is not None and option.side in (side, Side.BOTH):
        return
    names = [o.name for o in _of_side(side)]
    if option is not None:
        verb = "reading" if option.side is Side.READ else "writing"
        here = "written" if side is Side.WRITE else "read"
        raise OptionError(f"the option {option.name} is for {verb}, and here data is {here}; remove it ({key}={text})")
    import difflib  # workers do without

    near = difflib.get_close_matches(key.lower(), [name.lower() for name in names], n=1)
    guess = f"; did you mean {_BY_KEY[near[0]].name}" if near else ""
    verb = "reading" if side is Side.READ else "writing"
    raise OptionError(f"there is no option {key}{guess}. The options for {verb} are {', '.join(names)}")


def _value(option: Option, text: str | None) -> Any:
    if text is None:
        return None if option.default is None else option.parse(option.default)
    try:
        return option.parse(text)
    except ValueError as error:
        raise OptionError(
            f"the option {option.name} must be {option.expected}, and is {text!r}; for example: {option.example}"
        ) from error
