"""Numbers and byte strings of the IPC format."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

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
"""Endings of the names that writers of Arrow give, in lower case; of a file that is read they prove nothing."""


class Validation(StrEnum):
    """The checks of a file's values."""

    FULL = "full"
    """The values too: offsets, UTF-8, indices."""
    STRUCTURAL = "structural"
    """Only sizes and bounds, which could harm memory or lose rows."""


class TensorRows(StrEnum):
    """The meaning of a row, where tensors are read as rows."""

    CELLS = "cells"
    """A cell: its coordinates and its value; of a sparse tensor the cells that its index names."""
    VALUES = "values"
    """A whole tensor: its shape, the names of its dimensions, and its values by rows."""


READABLE_VERSIONS: Final = (MetadataVersion.V4, MetadataVersion.V5)
"""Versions whose messages this package reads: 0.8 (2017-12) and later."""
