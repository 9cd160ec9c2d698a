"""Numbers and byte strings of the IPC format, and `Limits`: the budgets of memory and nesting of a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.errors import LimitError
from spark_arrow_ipc.ipc.flatbuf.tables import MetadataVersion

Int64s: TypeAlias = npt.NDArray[np.int64]

MAGIC: Final = b"ARROW1"
"""First and last bytes of the file format."""

FILE_HEADER: Final = MAGIC + b"\0\0"
"""The magic, padded to 8 bytes; with most writers the first message follows."""

CONTINUATION: Final = 0xFFFFFFFF
"""First four bytes of an encapsulated message since 0.15."""

EOS: Final = b"\xff\xff\xff\xff\0\0\0\0"
"""End of stream: a continuation and a metadata length of 0."""

LEGACY_EOS: Final = b"\0\0\0\0"
"""End of stream before 0.15."""

FOOTER_TAIL_NBYTES: Final = 4 + len(MAGIC)
"""The footer's length (int32) and the magic at the end of a file."""

BODY_ALIGNMENT: Final = 8
"""Messages, bodies and buffers begin at multiples of 8 bytes."""

EXPERIMENTAL_COMPRESSION_KEY: Final = "ARROW:experimental_compression"
"""Key of the compression codec of Arrow 0.17 in the custom metadata of a message."""

RAW_BUFFER: Final = -1
"""Length prefix of a buffer that is stored uncompressed inside a compressed body."""

MOST_DIMENSIONS: Final = 64
"""The most dimensions of a tensor: as many as a numpy array can have."""

NO_BYTES: Final = memoryview(b"")
"""A buffer without bytes."""


class Format(StrEnum):
    """The two formats of Arrow IPC."""

    FILE = "file"
    STREAM = "stream"


ENDINGS: Final[Mapping[str, Format]] = {
    "arrow": Format.FILE,
    "feather": Format.FILE,
    "ipc": Format.FILE,
    "arrows": Format.STREAM,
    "stream": Format.STREAM,
}
"""Endings of the names of Arrow files, in lower case. Readers detect the format by the bytes instead."""


class Validation(StrEnum):
    """The checks of a file's values."""

    FULL = "full"
    """Values as well: offsets, UTF-8, indices."""
    STRUCTURAL = "structural"
    """Only sizes and bounds, which could harm memory or lose rows."""


class TensorRows(StrEnum):
    """The meaning of a row of a tensor."""

    CELLS = "cells"
    """A cell: its coordinates and its value; of a sparse tensor the cells that its index names."""
    VALUES = "values"
    """A tensor: its shape, the names of its dimensions, and its values in row-major order."""


READABLE_VERSIONS: Final = (MetadataVersion.V4, MetadataVersion.V5)
"""Versions whose messages this package reads: 0.8 (2017-12) and later."""


_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """The budgets of one file or stream.

    Parameters
    ----------
    max_batch_bytes
        Bytes of one record or dictionary batch: of its body, and of all its buffers, also once decompressed.
    max_dictionary_bytes
        Bytes of all dictionaries of a file or stream in memory: of their bodies, and once decompressed.
    max_slots
        Slots of one array; any number of nulls and runs takes no bytes of the file.
    max_metadata_bytes
        Bytes of one message's metadata, and of a footer.
    max_columns
        Fields of a schema, nested ones counted.
    max_depth
        Levels of nesting of a field.
    max_buffers
        Buffers with the bytes of views in one batch; a view column may have any number.
    max_blocks
        Record and dictionary batches in a footer or in an index of a stream; a stream without an index may have any
        number.
    """

    max_batch_bytes: int = 2048 * _MIB
    max_dictionary_bytes: int = 2048 * _MIB
    max_slots: int = 2**31 - 1
    max_metadata_bytes: int = 256 * _MIB
    max_columns: int = 1_000_000
    max_depth: int = 64
    max_buffers: int = 1_000_000
    max_blocks: int = 1_000_000

    def check(self, name: str, needed: int, what: str) -> None:
        """Raise a `LimitError` if `needed` exceeds the budget `name`.

        Raises
        ------
        LimitError
            The message names the budget and says how to raise it.
        """
        budget = getattr(self, name)
        if needed > budget:
            in_spark = ", in Spark with the option maxBatchBytes," if name in _OF_SPARK else ""
            raise LimitError(
                f"{what} asks for {needed:,}, the budget {name} is {budget:,}; "
                f"raise it with Limits({name}=...){in_spark} where this file is trusted"
            )


_OF_SPARK: Final = frozenset({"max_batch_bytes", "max_dictionary_bytes"})
"""The budgets that the option ``maxBatchBytes`` sets."""

DEFAULT_LIMITS: Final = Limits()
