"""The schema in a commit record: what a plain read of the data set has from this commit on.

Strategy
--------
The times of files say when they were staged, and by which clock: not in which order jobs were committed. So each record
says which columns a read without ``mergeSchema`` has after it. It is the schema of the files that the job adds, with the
columns and the wider types of the files that stay beside them (`write.beside`).

The text is a stream of the IPC format without record batches, compressed by zlib, in base64: 1,000 columns take 11 KB. It
stands in the first bytes of a record, so that a reader does not read what may be the names of a million files. The
checksum of zlib guards it there, and it is decoded and checked as the schema of any file. Where that fails, the newest file
counts, as in a directory without records.
"""

from __future__ import annotations

import base64
import io
import logging
import zlib
from typing import Final

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.errors import ArrowIpcError, CommitError, InvalidFramingError, printable
from spark_arrow_ipc.ipc.columns.projection import known_columns
from spark_arrow_ipc.ipc.constants import Format

MAX_TEXT_NBYTES: Final = 16 << 20
"""A longer text is neither written nor read; a million columns make one of about 10 MB."""

_MOST_NBYTES: Final = 256 << 20
"""Bytes of a stream that a text may stand for: as much metadata as one message of a file may have."""

_log = logging.getLogger(__name__)


def encode_schema(schema: Schema, path: str) -> str:
    """Return the text of a schema for a record; `path` is for the error.

    Raises
    ------
    CommitError
        It is too large.
    """
    sink = io.BytesIO()
    ipc.create(sink, schema, ipc.WriteOptions(format=Format.STREAM)).close()
    text = base64.b64encode(zlib.compress(sink.getbuffer())).decode()
    if len(text) > MAX_TEXT_NBYTES or sink.tell() > _MOST_NBYTES:
        raise CommitError(
            f"the schema of {len(schema.fields):,} columns takes {len(text):,} bytes in a commit record, and at most "
            f"{MAX_TEXT_NBYTES:,} are read; nothing is published, write fewer columns, or less metadata",
            path=path,
        )
    return text


def decode_schema(text: str, path: str) -> Schema | None:
    """Return the schema of a text; None if the text is empty, or cannot be read: then a warning names `path`."""
    if not text:
        return None
    try:
        inflated = zlib.decompressobj()
        data = inflated.decompress(base64.b64decode(text, validate=True), _MOST_NBYTES)
        if not inflated.eof:
            raise InvalidFramingError(expected="a whole schema", found=f"one that goes on after {len(data):,} bytes")
        with ipc.open_stream(data, columns=known_columns) as reader:
            return reader.file_schema
    except (ValueError, zlib.error, ArrowIpcError) as error:
        _log.warning(
            "%s: the schema in the commit record cannot be read, and that of the newest file counts: %s",
            printable(path),
            printable(str(error)),
        )
        return None
