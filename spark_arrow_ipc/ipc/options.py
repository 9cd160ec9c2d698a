"""The options of reading and writing a file or stream, and the limits of each metadata version."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass
from typing import Final, Literal

from spark_arrow_ipc.arrow.column_path import walk_fields
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.arrow.types import RunEndEncoded
from spark_arrow_ipc.ipc.columns.compression import check_level
from spark_arrow_ipc.ipc.columns.projection import Columns, SelectedColumns
from spark_arrow_ipc.ipc.concatenated_streams import ConcatenatedStreams
from spark_arrow_ipc.ipc.constants import DEFAULT_LIMITS, Format, Limits, Validation
from spark_arrow_ipc.ipc.flatbuf.tables import CompressionType, MetadataVersion
from spark_arrow_ipc.ipc.messages.schema import SchemaMessage

_CODECS: Final = {compression.word: compression for compression in CompressionType}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of reading a file or stream, which `ipc.open` has as keywords.

    Parameters
    ----------
    columns
        Names, positions, or tuples of names into structs; None for all. Buffers of other columns are not read.
        A function gets the file's schema and returns them.
    validation
        ``full`` checks the values that a row can see too (offsets, UTF-8, indices ...), ``structural`` only sizes and
        bounds. Neither checks the digits of decimals and the ranges of dates and times, which Arrow's own golden files
        exceed.
    limits
        Budgets of memory and nesting.
    verify_checksums
        True to compare all bytes that are read with the checksums in the file's footer, if it has any.
    concatenated_streams
        The treatment of another stream after the end of a stream: ``warn`` and read the first one, ``read`` all if
        their schemas agree, or raise an ``error``. From a pipe, ``warn`` reads nothing after the end.
    threads
        The most threads that decompress and check record batches, which iteration yields in order, an error in its
        batch's turn. They need memory for as many batches, read bodies of a stream completely despite `columns`, and
        call a `ByteSource` of your own at once.
    """

    columns: Columns | None = None
    validation: Validation | Literal["full", "structural"] = Validation.FULL
    limits: Limits = DEFAULT_LIMITS
    verify_checksums: bool = True
    concatenated_streams: ConcatenatedStreams | Literal["warn", "read", "error"] = ConcatenatedStreams.WARN
    threads: int = 1

    def __post_init__(self) -> None:
        if self.validation not in _VALIDATIONS:
            words = " or ".join(repr(validation.value) for validation in Validation)
            raise ValueError(f"expected validation {words}, found {self.validation!r}")
        ConcatenatedStreams(self.concatenated_streams)  # a ValueError of any other word
        if self.threads < 1:
            raise ValueError(f"expected at least one thread, found {self.threads}")

    def select(self, message: SchemaMessage) -> SelectedColumns:
        """Return the selected columns of a file or stream of this schema."""
        return SelectedColumns(message, self.columns, Validation(self.validation), self.limits)


_VALIDATIONS: Final = tuple(Validation)

DEFAULT_READ: Final = ReadOptions()


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of writing a file or stream.

    Parameters
    ----------
    format
        ``file`` (footer, random access) or ``stream``.
    compression
        ``lz4``, ``zstd`` or None; a buffer that would not shrink is stored raw. ``auto`` is ``zstd`` for a file of V5, and
        None for a stream, whose bytes usually are not kept, and for V4, which has no compression.
    compression_level
        None for the codec's default: 1 for ``zstd``.
    dictionaries
        The form of different dictionaries of a field. ``unify``: a file gets one dictionary a field, before its
        record batches, which wait for all values until the writer closes: in memory up to 4 MiB of all files of the
        process, more in temporary files; a stream gets each dictionary before its first batch. ``delta``: nothing
        waits, the first dictionary precedes its first use, and later values are deltas, which some readers lack
        (polars). A file with dictionaries inside of dictionaries, for which pyarrow refuses deltas, is written as by
        ``unify``. Ordered dictionaries that do not continue each other are an error, except in a stream by ``unify``.
    alignment
        Buffers begin at multiples of this number of bytes, a multiple of 8 and at most 64.
    metadata_version
        ``V5``, or ``V4`` for readers before Arrow 1.0; without compression, run ends and metadata of batches.
    legacy_framing
        Prefixes without the continuation marker, for readers before 0.15.
    checksums
        True for checksums of all messages in the footer of a file, which this package's reader verifies.
    """

    format: Format | Literal["file", "stream"] = Format.FILE
    compression: Literal["auto", "lz4", "zstd"] | None = "auto"
    compression_level: int | None = None
    dictionaries: Literal["unify", "delta"] = "unify"
    alignment: int = 64
    metadata_version: Literal["V4", "V5"] = "V5"
    legacy_framing: bool = False
    checksums: bool = False

    @property
    def codec(self) -> CompressionType | None:
        """The codec of `compression`, or None."""
        if self.compression == "auto":
            is_kept = self.format == Format.FILE and self.metadata_version != "V4"
            return CompressionType.ZSTD if is_kept else None
        return None if self.compression is None else _CODECS[self.compression]

    def __post_init__(self) -> None:
        _one_of("format", self.format, tuple(form.value for form in Format))
        _one_of("compression", self.compression, ("auto", *_CODECS, None))
        _one_of("dictionaries", self.dictionaries, ("unify", "delta"))
        # Readers rely on 8; more than a cache line has no use.
        _one_of("alignment", self.alignment, (8, 16, 32, 64))
        _one_of("metadata_version", self.metadata_version, ("V4", "V5"))
        codec = self.codec
        if codec is not None:
            check_level(codec, self.compression_level)
        elif self.compression_level is not None:
            raise ValueError("compression_level needs a compression")
        if self.checksums and self.format != Format.FILE:
            raise ValueError("checksums are kept in the footer of the file format; the stream format has none")
        if codec is not None and self.metadata_version == "V4":
            raise ValueError("compression needs metadata V5: pyarrow misreads compressed bodies of V4")


def _one_of(name: str, value: object, allowed: tuple[object, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name}: expected one of {', '.join(map(repr, allowed))}, found {value!r}")


def check_version(schema: Schema, version: MetadataVersion) -> None:
    """Raise ValueError, with the path, if a field has a type that the metadata version lacks."""
    # V4 is older than run-end encoding: Arrow C++ expects a validity buffer for it in V4, other readers do not.
    walk = walk_fields(schema.fields) if version is MetadataVersion.V4 else ()
    paths = [path for path, field in walk if isinstance(field.type, RunEndEncoded)]
    if paths:
        raise ValueError(f"{paths[0]}: metadata V4 does not have run-end encoded arrays; write V5")


def check_message_metadata(pairs: Sized, version: MetadataVersion) -> None:
    """Raise ValueError if the version is V4 and a batch's message has pairs of custom metadata."""
    # pyarrow reads any pair in V4 as the name of a codec, which Arrow 0.17 stored there.
    if pairs and version is MetadataVersion.V4:
        raise ValueError("custom metadata of batches needs metadata V5: pyarrow refuses to read it in V4")
