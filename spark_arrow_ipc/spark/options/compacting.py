"""Which options a compaction takes: those that change neither rows nor types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark.options.declare import Option
from spark_arrow_ipc.spark.options.options import READING, WRITING

_TAKEN: Final = frozenset({
    "path_glob_filter", "modified_before", "modified_after", "time_zone", "validation", "verify_checksums", "memory_map",
    "max_batch_bytes", "output_batch_rows", "concatenated_streams", "storage",
    "compression", "compression_level", "record_batch_rows", "record_batch_bytes", "max_records_per_file", "max_file_bytes",
    "statistics", "metadata", "ipc_format", "durability", "commit_token", "commit_retention", "keep_replaced", "case_sensitive",
})  # fmt: skip
"""Attributes: which files are joined, how bytes are read, and how files are written."""


def of_compactions() -> list[Option]:
    """Return the options that a compaction takes, of its read and of its write; one of both sides once."""
    taken = {
        option.name: option
        for side in (READING, WRITING)
        for attribute, options in side.attributes.items()
        if attribute in _TAKEN
        for option in options
    }
    return list(taken.values())


def check_compacted(given: Iterable[str]) -> None:
    """Refuse options that could change what rows there are.

    Raises
    ------
    OptionError
        There is one.
    """
    taken = {option.name for option in of_compactions()}
    for key in given:
        options = [side.option(key) for side in (READING, WRITING)]
        if not any(option is not None and option.name in taken for option in options):
            raise OptionError(
                f"the option {key} could change rows, types or partitions, and a compaction keeps them; remove it, or use "
                "rewrite"
            )
