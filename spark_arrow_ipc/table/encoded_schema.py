"""A schema as text, for a log entry: a stream without record batches, compressed, in base64."""

from __future__ import annotations

import base64
import io
import logging
import zlib
from typing import Final

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.errors import ArrowIpcError, CommitError, InvalidFramingError, printable
from spark_arrow_ipc.ipc.columns.projection import select_known_columns
from spark_arrow_ipc.ipc.constants import Format

MAX_TEXT_NBYTES: Final = 16 << 20
"""A longer text of a log entry is neither written nor read; a million columns make one of about 10 MB."""

_MOST_NBYTES: Final = 256 << 20
"""Bytes of a stream that a text may stand for: as much metadata as one message of a file may have."""

_log = logging.getLogger(__name__)


def encode_schema(schema: Schema, path: str) -> str:
    """Return the text of a schema for a log entry; `CommitError` if it is too large."""
    # 1,000 columns take 11 KB.
    sink = io.BytesIO()
    ipc.create(sink, schema, ipc.WriteOptions(format=Format.STREAM)).close()
    text = base64.b64encode(zlib.compress(sink.getbuffer())).decode()
    if len(text) > MAX_TEXT_NBYTES or sink.tell() > _MOST_NBYTES:
        raise CommitError(
            f"the schema of {len(schema.fields):,} columns takes {len(text):,} bytes in a log entry, and at most "
            f"{MAX_TEXT_NBYTES:,} are read; nothing is published, write fewer columns, or less metadata",
            path=path,
        )
    return text


def decode_schema(text: str, path: str) -> Schema | None:
    """Return the schema of a text; None if the text is empty, or cannot be read: then a warning names `path`."""
    if not text:
        return None
    try:
        # It is checked as the schema of any file.
        inflated = zlib.decompressobj()
        data = inflated.decompress(base64.b64decode(text, validate=True), _MOST_NBYTES)
        if not inflated.eof:
            raise InvalidFramingError(expected="a complete schema", found=f"one that goes on after {len(data):,} bytes")
        with ipc.open_stream(data, columns=select_known_columns) as reader:
            return reader.file_schema
    except (ValueError, zlib.error, ArrowIpcError) as error:
        _log.warning(
            "%s: the schema in the log cannot be read, so the schema of the newest file is used: %s",
            printable(path),
            printable(str(error)),
        )
        return None
