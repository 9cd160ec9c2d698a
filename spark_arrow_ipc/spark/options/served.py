"""Which options a read of a server's table has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.ipc.dissociated.schemes import is_served
from spark_arrow_ipc.spark.options.given import Side

FOR_SERVERS: Final = frozenset({
    "path", "paths", "columns", "where", "metadataColumns", "outputBatchRows", "maxBatchBytes", "minPartitionNum", "validation",
    "nanoseconds", "times", "mapKeys", "extensionTypes", "timeZone", "missingColumns", "token",
})  # fmt: skip
"""The others are about files: listing, opening, cutting and mending them."""


def check_served(paths: Sequence[str], given: Mapping[str, str], reading: Side) -> None:
    """Refuse options that have no meaning for the paths of a read: tables of servers, or files; none where there are no paths.

    Raises
    ------
    OptionError
        An option is only for the other kind, or there are paths of both.
    """
    served = sum(map(is_served, paths))
    if not served:
        if paths and any(key.lower() == "token" for key in given):
            raise OptionError("the option token is for tables of servers, and the path is none; remove it")
        return
    if served < len(paths):
        raise OptionError("some paths are tables of servers and some are files; read them apart and unite them")
    for key in given:
        option = reading.option(key)
        if option is not None and option.name not in FOR_SERVERS:
            raise OptionError(f"the option {option.name} is for files, and the path is a server's table; remove it")
