"""Annotations in a footer about the messages of its file: their checksums, and the row counts that polars reads.

How it works
------------
`Writer` adds a checksum (XXH3, 64 bits) of each message's metadata and of each stored buffer, and `FileReader` verifies all
that it reads: under a projection, the buffers of the selected columns.

Footer metadata outlives its data: other writers copy it into files with other values, with batches in another order, or
with more or fewer batches. So checksums first prove which file they belong to. The schema message at the start of a file
with checksums has a random id, in the custom metadata of the message itself: writers copy schemas, never messages. The
checksums of the record batches are used only if the checksums of this message and of the list of blocks match; otherwise
all of them belong to another file, and are ignored.

polars reads one pair of the footer's custom metadata before `head`, `tail` and `slice`, and uses it if it has a number for
each record batch; otherwise polars reads the complete file, or the header of each record batch. This package writes the
pair, but takes its own counts from headers.
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

_FILE_ID_KEY: Final = "spark_arrow_ipc.file_id"  # key of the pair in the custom metadata of the schema message

# Tag; checksums of the schema message and of the block list; numbers of record batches and dictionary batches
_HEAD: Final = struct.Struct("<4sQQII")

_TAG: Final = b"XXH3"

Blocks: TypeAlias = Sequence[Block]

_CHANGED: Final = (
    "the file was changed after it was written; copy or write it again, or read it with verifyChecksums=false "
    "(in Python verify_checksums=False)"
)

_COPIED_NBYTES: Final = 400  # up to this average size, buffers are copied rather than viewed (measured)

checksum = xxh3_64_intdigest
"""Checksum of bytes, as an integer of 64 bits."""


@dataclass(frozen=True, slots=True)
class MessageChecksums:
    """The checksums of one message."""

    header: int  # of its metadata: prefix, flatbuffer and padding
    buffers: Sequence[int]  # of each stored buffer, without padding; 0 for an empty one


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
    return ((_FILE_ID_KEY, os.urandom(16).hex()),)  # so that files of equal schemas differ


def check_count(buffers: int, expected: MessageChecksums | None) -> None:
    """Check that a message with checksums has one for each buffer."""
    if expected is not None and len(expected.buffers) != buffers:
        raise InvalidMetadataError(
            expected=f"checksums of {buffers} buffers in the footer", found=str(len(expected.buffers))
        )


def buffer_checksums(checksums: MessageChecksums | None) -> Sequence[int] | None:
    """Return the checksums of the buffers of a message, or None."""
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
    """Verifies numbered buffers that are read in pieces; the pieces may overlap, but must leave no gap."""

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
        """Compare a buffer of `nbytes` with its checksum, if all of its bytes were added."""
        if nbytes and self._ends.get(number) == nbytes:
            actual = self._states[number].intdigest()
            if actual != self._expected[number]:
                raise _checksum_error(self._expected[number], actual)


@dataclass(frozen=True, slots=True, eq=False)
class ManyChecksums:
    """The checksums of neighbouring messages with equal numbers of buffers."""

    # Each buffer needs a call of its own, but all are compared at once, and no object is made for a message.

    headers: npt.NDArray[np.uint64]  # of the metadata: uint64, shape (messages,)
    buffers: npt.NDArray[np.uint64]  # uint64, shape (messages, buffers)

    def fit(self, data: memoryview, starts: Int64s, metadata_nbytes: int, buffers: Int64s) -> bool:
        """Return True if the messages at `starts` have the first of these checksums."""
        count = len(starts)
        bodies = starts + metadata_nbytes
        if self.buffers.shape[1] != buffers.shape[1] or not _fit(data, starts, bodies, self.headers[:count]):
            return False
        filled = buffers[..., 1] > 0
        firsts = (bodies[:, None] + buffers[..., 0])[filled]
        return _fit(data, firsts, firsts + buffers[..., 1][filled], self.buffers[:count][filled])


def _fit(data: memoryview, starts: Int64s, stops: Int64s, expected: npt.NDArray[np.uint64]) -> bool:
    # Slices of bytes are copies, which are cheaper than views for few bytes.
    small = len(starts) * _COPIED_NBYTES > int((stops - starts).sum())
    source = bytes(data) if small else data
    pieces = [source[start:stop] for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)]
    return b"".join(map(xxh3_64_digest, pieces)) == expected.astype(">u8").tobytes()


@dataclass(frozen=True, slots=True, eq=False)
class FileChecksums:
    """The checksums in the footer of a file."""

    schema: int  # of the schema message
    blocks: int  # of the list of blocks
    headers: npt.NDArray[np.uint64]  # of the metadata of messages, record batches first
    buffers: npt.NDArray[np.uint64]  # of the buffers of all messages
    # The end of each message's buffers in `buffers`: int64, one longer than `headers`, beginning with 0.
    buffer_ends: npt.NDArray[np.int64]
    num_record_batches: int  # the other messages are dictionary batches

    @property
    def fingerprint(self) -> str:
        """A string that identifies the file."""
        return fingerprint(self.schema)

    def record_batch(self, i: int) -> MessageChecksums:
        """Return the checksums of a record batch."""
        return self._message(i)

    def record_batches(self, start: int, stop: int) -> ManyChecksums | None:
        """Return the checksums of neighbouring record batches; None for different numbers of buffers."""
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
        """Return True if the checksums belong to the file with this schema message and these blocks."""
        return (
            self.num_record_batches == len(record_batches)
            and len(self.headers) == len(record_batches) + len(dictionaries)
            and self.schema == checksum(schema_message)
            and self.blocks == _blocks_checksum(record_batches, dictionaries)
        )


def fingerprint(schema: int) -> str:
    """Return the fingerprint of a file from the checksum of its schema message."""
    return f"{schema:016x}"


def _blocks_checksum(record_batches: Blocks, dictionaries: Blocks) -> int:
    rows = [(b.byte_offset, b.metadata_nbytes, b.body_nbytes) for b in (*record_batches, *dictionaries)]
    return checksum(np.array(rows, "<i8").tobytes())


def encode_checksums(
    schema: int,
    record_batches: Iterable[tuple[Block, MessageChecksums]],
    dictionaries: Iterable[tuple[Block, MessageChecksums]],
) -> tuple[str, str]:
    """Return the pair for a footer, from the schema message's checksum and the block and checksums of each other message."""
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
    """Return the checksums in a footer's custom metadata; None without a pair or for a malformed one."""
    values = [value for key, value in custom_metadata if key == CHECKSUMS_KEY]
    if len(values) != 1:  # of two pairs one belongs to another file
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

_ROWS_UP_TO: Final = (
    "record_batch_cum_len"  # key in the pair's JSON object: the rows up to the end of each record batch
)

# As polars counts rows in 32 bits, it ignores a pair with a larger number, but only after parsing it
_MOST_ROWS: Final = 2**32 - 1

_INT64_MAX: Final = 2**63 - 1  # the most rows of a record batch


def encode_row_counts(rows: Sequence[int]) -> CustomMetadata:
    """Return the pair for record batches of so many rows each, or nothing if polars would not use it."""
    # polars is as fast without the pair for a single batch.
    up_to = list(accumulate(rows))
    if len(up_to) < 2 or up_to[-1] > _MOST_ROWS:
        return ()
    return ((ROW_COUNTS_KEY, f'{{"{_ROWS_UP_TO}":[{",".join(map(str, up_to))}]}}'),)


def decode_row_counts(custom_metadata: CustomMetadata) -> list[int] | None:
    """Return the row count of each record batch, as the pair of a footer claims it; None without a pair.

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
