"""Notes in a footer about the messages of its file: their checksums, and the rows of record batches as polars notes them.

Strategy
--------
`Writer` notes a checksum (XXH3, 64 bits) of each message's metadata and of each buffer as it is stored, and `FileReader`
verifies those of all that it reads: under a projection, the buffers of the selected columns.

Footer metadata outlives the data that it describes: other writers copy it into files with other values, with batches in
another order, or with more or fewer of them. So checksums first prove which file they belong to. The schema message at
the start of a file with checksums has a random id, in the custom metadata of the message itself: writers copy schemas,
never messages. Only if that message and the list of blocks have the noted checksums, those of the record batches are
used; otherwise they are of another file, and ignored.

polars reads one pair of the footer's custom metadata before `head`, `tail` and `slice`, and relies on it where it names as
many record batches as there are; without it polars reads the whole file, or the header of each record batch. This package
writes the pair and relies on none: wherever it counts, it counts by headers.
"""

from __future__ import annotations

import base64
import binascii
import os
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_64, xxh3_64_digest, xxh3_64_intdigest

from spark_arrow_ipc.arrow.types import CustomMetadata
from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.errors import InvalidBodyError, InvalidMetadataError
from spark_arrow_ipc.ipc.constants import Int64s
from spark_arrow_ipc.ipc.messages.footer import Block

CHECKSUMS_KEY: Final = "spark_arrow_ipc.checksums"
"""Key of the pair in a footer's custom metadata."""

_FILE_ID_KEY: Final = "spark_arrow_ipc.file_id"
"""Key of the pair in the custom metadata of the schema message."""

_HEAD: Final = struct.Struct("<4sQQII")
"""Tag; checksums of the schema message and of the block list; numbers of record batches and dictionary batches."""

_TAG: Final = b"XXH3"

Blocks: TypeAlias = Sequence[Block]

_CHANGED: Final = (
    "the file was changed after it was written; copy or write it again, or read it with verifyChecksums=false "
    "(in Python verify_checksums=False)"
)

_COPIED_NBYTES: Final = 400
"""Bytes of a buffer, on average, that are copied rather than viewed (measured)."""

checksum = xxh3_64_intdigest
"""Checksum of bytes, as an integer of 64 bits."""


@dataclass(frozen=True, slots=True)
class MessageChecksums:
    """The checksums of one message."""

    header: int  # of its metadata: prefix, flatbuffer and padding
    buffers: Sequence[int]  # of each buffer as it is stored, without padding; 0 for an empty one


def checksum_of_pieces(pieces: Sequence[bytes | memoryview]) -> int:
    """Return the checksum of pieces as if they were joined; 0 if they are empty."""
    if len(pieces) == 1:
        return checksum(pieces[0]) if len(pieces[0]) else 0
    state = xxh3_64()
    for piece in pieces:
        state.update(piece)
    return state.intdigest() if pieces else 0


def new_file_id() -> CustomMetadata:
    """Return the custom metadata of the schema message of a new file with checksums."""
    return ((_FILE_ID_KEY, os.urandom(16).hex()),)


def check_count(buffers: int, expected: MessageChecksums | None) -> None:
    """Check that there is a checksum for each buffer of a message, if there are any."""
    if expected is not None and len(expected.buffers) != buffers:
        raise InvalidMetadataError(
            expected=f"checksums of {buffers} buffers in the footer", found=str(len(expected.buffers))
        )


def of_buffers(checksums: MessageChecksums | None) -> Sequence[int] | None:
    """Return the checksums of the buffers of a message, or None without any."""
    return None if checksums is None else checksums.buffers


def check_header(metadata: memoryview, expected: int) -> None:
    """Compare the metadata of a message with its checksum."""
    actual = checksum(metadata)
    if actual != expected:
        raise InvalidMetadataError(
            expected=f"a header with the checksum {expected:016x}", found=f"{actual:016x}: {_CHANGED}"
        )


def check_buffer(data: memoryview, expected: int) -> None:
    """Compare a buffer with its checksum."""
    actual = checksum(data)
    if actual != expected and len(data):
        raise _checksum_error(expected, actual)


def _checksum_error(expected: int, actual: int) -> InvalidBodyError:
    return InvalidBodyError(expected=f"a buffer with the checksum {expected:016x}", found=f"{actual:016x}: {_CHANGED}")


class RunningChecksums:
    """Verifies buffers, by their number, that are read in pieces from their start to their end; pieces may overlap.

    A buffer that is not read from its start, or not without a gap, is not verified.
    """

    def __init__(self, expected: Sequence[int]) -> None:
        self._expected = expected
        self._states: dict[int, xxh3_64] = {}
        self._ends: dict[int, int] = {}

    def add(self, number: int, start: int, data: memoryview) -> None:
        """Add the bytes of a buffer from `start` on."""
        end = self._ends.get(number, 0)
        if start <= end < start + len(data):
            self._states.setdefault(number, xxh3_64()).update(data[end - start :])
            self._ends[number] = start + len(data)

    def check(self, number: int, nbytes: int) -> None:
        """Compare a buffer of `nbytes` with its checksum, if all of it was added."""
        if nbytes and self._ends.get(number) == nbytes:
            actual = self._states[number].intdigest()
            if actual != self._expected[number]:
                raise _checksum_error(self._expected[number], actual)


@dataclass(frozen=True, slots=True, eq=False)
class ManyChecksums:
    """The checksums of neighbouring messages with as many buffers each.

    Each buffer has a checksum of its own, so that one call for many of them is impossible; but they are compared at
    once, and no object is made for a message.
    """

    headers: npt.NDArray[np.uint64]  # those of the metadata: uint64, shape (messages,)
    buffers: npt.NDArray[np.uint64]  # those of the buffers: uint64, shape (messages, buffers)

    def fit(self, data: memoryview, starts: Int64s, metadata_nbytes: int, buffers: Int64s) -> bool:
        """Return whether the first messages have these checksums."""
        count = len(starts)
        bodies = starts + metadata_nbytes
        if self.buffers.shape[1] != buffers.shape[1] or not _fit(data, starts, bodies, self.headers[:count]):
            return False
        filled = buffers[..., 1] > 0
        firsts = (bodies[:, None] + buffers[..., 0])[filled]
        return _fit(data, firsts, firsts + buffers[..., 1][filled], self.buffers[:count][filled])


def _fit(data: memoryview, starts: Int64s, stops: Int64s, expected: npt.NDArray[np.uint64]) -> bool:
    # Slices of bytes are copies, and cheaper than views of little.
    small = len(starts) * _COPIED_NBYTES > int((stops - starts).sum())
    source = bytes(data) if small else data
    pieces = [source[start:stop] for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)]
    return b"".join(map(xxh3_64_digest, pieces)) == expected.astype(">u8").tobytes()


@dataclass(frozen=True, slots=True, eq=False)
class FileChecksums:
    """The checksums in the footer of a file."""

    schema: int  # that of the schema message
    blocks: int  # that of the list of blocks
    headers: npt.NDArray[np.uint64]  # those of the metadata of messages, record batches first: uint64
    buffers: npt.NDArray[np.uint64]  # those of the buffers of all messages: uint64
    # The end of each message's buffers in `buffers`: int64, one longer than `headers`, beginning with 0.
    buffer_ends: npt.NDArray[np.int64]
    num_record_batches: int  # the other messages are dictionary batches

    @property
    def fingerprint(self) -> str:
        """A string that stands for the file, and for no other."""
        return fingerprint(self.schema)

    def record_batch(self, i: int) -> MessageChecksums:
        """Return the checksums of a record batch."""
        return self._message(i)

    def record_batches(self, start: int, stop: int) -> ManyChecksums | None:
        """Return the checksums of neighbouring record batches; None if they have different numbers of buffers."""
        ends = self.buffer_ends[start : stop + 1]
        counts = np.diff(ends)
        if not (counts == counts[0]).all():
            return None
        buffers = self.buffers[ends[0] : ends[-1]].reshape(len(counts), -1)
        return ManyChecksums(self.headers[start:stop], buffers)

    def dictionary(self, i: int) -> MessageChecksums:
        """Return the checksums of a dictionary batch."""
        return self._message(self.num_record_batches + i)

    def _message(self, i: int) -> MessageChecksums:
        start, stop = self.buffer_ends[i : i + 2].tolist()
        return MessageChecksums(int(self.headers[i]), self.buffers[start:stop].tolist())

    def describe(self, schema_message: memoryview, record_batches: Blocks, dictionaries: Blocks) -> bool:
        """Return whether they are of the file that has this schema message and these blocks."""
        return (
            self.num_record_batches == len(record_batches)
            and len(self.headers) == len(record_batches) + len(dictionaries)
            and self.schema == checksum(schema_message)
            and self.blocks == _blocks_checksum(record_batches, dictionaries)
        )


def fingerprint(schema: int) -> str:
    """Return the fingerprint of the file whose schema message has a checksum."""
    return f"{schema:016x}"


def _blocks_checksum(record_batches: Blocks, dictionaries: Blocks) -> int:
    rows = [(b.byte_offset, b.metadata_nbytes, b.body_nbytes) for b in (*record_batches, *dictionaries)]
    return checksum(np.array(rows, "<i8").tobytes())


def encode_checksums(
    schema: int,
    record_batches: Iterable[tuple[Block, MessageChecksums]],
    dictionaries: Iterable[tuple[Block, MessageChecksums]],
) -> tuple[str, str]:
    """Return the pair for a footer: the checksum of the schema message, and block and checksums of each other one."""
    batches, others = list(record_batches), list(dictionaries)
    blocks = _blocks_checksum([block for block, _ in batches], [block for block, _ in others])
    messages = [message for _, message in (*batches, *others)]
    pieces = [
        _HEAD.pack(_TAG, schema, blocks, len(batches), len(others)),
        np.array([message.header for message in messages], "<u8").tobytes(),
        np.array([len(message.buffers) for message in messages], "<u4").tobytes(),
        *(np.array(message.buffers, "<u8").tobytes() for message in messages),
    ]
    return CHECKSUMS_KEY, base64.b64encode(b"".join(pieces)).decode()


def decode_checksums(custom_metadata: CustomMetadata) -> FileChecksums | None:
    """Return the checksums in a footer's custom metadata; None if there are none, or they are malformed."""
    values = [value for key, value in custom_metadata if key == CHECKSUMS_KEY]
    if len(values) != 1:
        return None
    try:
        data = base64.b64decode(values[0], validate=True)
        tag, schema, blocks, batches, dictionaries = _HEAD.unpack_from(data)
        headers = np.frombuffer(data, "<u8", batches + dictionaries, _HEAD.size)
        counts = np.frombuffer(data, "<u4", len(headers), _HEAD.size + headers.nbytes)
        buffers = np.frombuffer(data[_HEAD.size + headers.nbytes + counts.nbytes :], "<u8")
    except (binascii.Error, ValueError, struct.error):
        return None
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
    if tag != _TAG or len(buffers) != ends[-1]:
        return None
    return FileChecksums(schema, blocks, headers, buffers, ends, batches)


ROW_COUNTS_KEY: Final = "__POLARS_IPC_METADATA"
"""Key of the pair in a footer's custom metadata."""

_ROWS_UP_TO: Final = "record_batch_cum_len"
"""Key of the JSON object in it: the rows up to the end of each record batch."""

_MOST_ROWS: Final = 2**32 - 1
"""polars counts rows in 32 bits, and ignores a pair with a larger number, after it has parsed all of it."""

_INT64_MAX: Final = 2**63 - 1
"""The most rows of a record batch."""


def encode_row_counts(rows: Sequence[int]) -> CustomMetadata:
    """Return the pair for record batches of these rows; none for fewer than two, which polars finds as fast without."""
    up_to = list(accumulate(rows))
    if len(up_to) < 2 or up_to[-1] > _MOST_ROWS:
        return ()
    return ((ROW_COUNTS_KEY, f'{{"{_ROWS_UP_TO}":[{",".join(map(str, up_to))}]}}'),)


def decode_row_counts(custom_metadata: CustomMetadata) -> list[int] | None:
    """Return the rows of each record batch that the pair of a footer claims; None without a pair.

    ValueError if the pair is malformed.
    """
    values = [value for key, value in custom_metadata if key == ROW_COUNTS_KEY]
    if not values:
        return None
    row_counts = parse_json(values[-1])
    up_to = row_counts.get(_ROWS_UP_TO) if isinstance(row_counts, dict) else None
    if not isinstance(up_to, list) or not all(type(number) is int and 0 <= number <= _INT64_MAX for number in up_to):
        raise ValueError(f"there is no list of numbers of rows named {_ROWS_UP_TO}")
    return [stop - start for start, stop in pairwise([0, *up_to])]
