"""Checkpoints: a `State` as an Arrow IPC file that any tool reads, with one row for each file that counts.

What is no file (the schema, ended jobs, tokens, tombstones) is JSON in the footer's metadata, under `KEY`. A checkpoint
is read by the codec that checks every file; what it says is checked again here, as an entry's content is.
"""

from __future__ import annotations

import io
import json
import logging
import zlib
from functools import lru_cache
from typing import Any, Final

from spark_arrow_ipc import ipc
from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.errors import ArrowIpcError, CommitError, UnsupportedError, cut_repr
from spark_arrow_ipc.table.entry import FORMAT, Removed, removed_from_json, removed_to_json
from spark_arrow_ipc.table.files import LIMITS, Files
from spark_arrow_ipc.table.names import is_job_id, is_table_id
from spark_arrow_ipc.table.state import Ended, QueryBatch, State, Tombstone

KEY: Final = "spark_arrow_ipc.checkpoint"

MAX_CHECKPOINT_NBYTES: Final = 1 << 30
"""A million files with the statistics of 64 columns take less."""

_CHECKSUM_KEY: Final = f"{KEY}.crc32"
"""The checksum of the bytes before the footer and of that text, and how many bytes these are."""

_MAGIC_NBYTES: Final = 8
"""The bytes of a file before those of a stream."""

_log: Final = logging.getLogger(__name__)

_OPTIONS: Final = ipc.WriteOptions(alignment=8, compression="zstd")


def encode_checkpoint(state: State) -> bytes:
    """Return the file of a checkpoint; equal states give equal bytes."""
    values: dict[str, Any] = {
        "format": FORMAT,
        "table": state.table,
        "number": state.number,
        "entry": state.entry,
        "time": state.time,
        "schema": state.schema,
        "partition_columns": state.partition_columns,
        "retention": state.retention,
        "horizon": state.horizon,
        "last_removal": state.last_removal,
        # Lists keep the order of entries, by which the oldest is forgotten first.
        "ended": [[job, *ended] for job, ended in state.ended.items()],
        "tokens": list(state.tokens.items()),
        "queries": [[query, *row] for query, row in state.queries.items()],
        "tombstones": [
            removed_to_json(tuple(state.tombstones)),
            *map(list, zip(*state.tombstones.values(), strict=True)),
        ]
        if state.tombstones
        else [],
        "closed": [removed_to_json(tuple(state.closed)), list(state.closed.values())] if state.closed else [],
        "former": state.former,
        "layout": state.layout,
    }
    batch = state.files.to_batch()
    sink = io.BytesIO()
    with ipc.create(sink, batch.schema, _OPTIONS) as writer:
        writer.write(batch)
        text, nbytes = json.dumps(values, separators=(",", ":")), writer.nbytes
        checksum = _checksum(sink.getbuffer()[:nbytes], text)
        writer.custom_metadata.update({KEY: text, _CHECKSUM_KEY: f"{checksum} {nbytes}"})
    return sink.getvalue()


def _checksum(columns: memoryview, text: str) -> int:
    return zlib.crc32(text.encode(), zlib.crc32(columns))


def decode_checkpoint(data: bytes, table: str, number: int) -> State:
    """Decode and check a checkpoint.

    Raises
    ------
    UnsupportedError
        It is of a newer version of the protocol.
    CommitError
        It is damaged, or of another table or number.
    """
    try:
        with ipc.open_file(data, limits=LIMITS) as reader:
            pairs = dict(reader.custom_metadata)
            text = pairs[KEY]
            checksum, nbytes = map(int, pairs[_CHECKSUM_KEY].split())
            if checksum != _checksum(memoryview(data)[:nbytes], text):
                raise CommitError(expected="a checkpoint with its own CRC-32", found=f"{len(data):,} bytes without")
            # The columns are read by the footer's schema, which no checksum covers; that before them is the same.
            with ipc.open_stream(memoryview(data)[_MAGIC_NBYTES:], limits=LIMITS) as stream:
                if stream.schema != reader.schema:
                    raise CommitError("the schema in the footer is not that of the columns")
            batches = list(reader)
        values = parse_json(text, most_memory=MAX_CHECKPOINT_NBYTES)
        # Before the columns are looked at: a newer version may have others.
        if type(values["format"]) is int and values["format"] > FORMAT:
            raise UnsupportedError(
                f"this table has a checkpoint of version {values['format']}, and this build of spark-arrow-ipc reads "
                f"version {FORMAT}; read it with a newer one"
            )
        if len(batches) != 1:
            raise CommitError(expected="one record batch", found=f"{len(batches)}")
        state = _state(values, Files.from_batch(batches[0]))
    except UnsupportedError:
        raise
    except (ArrowIpcError, ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
        raise CommitError(f"this checkpoint is damaged: {cut_repr(str(error), 300)}") from error
    # A file of another table that was copied here, or to another name.
    if (state.table, state.number) != (table, number):
        raise CommitError(
            expected=f"the checkpoint of entry {number} of the table {table}",
            found=f"that of entry {state.number} of {state.table}",
        )
    return state


def _state(values: dict[str, Any], files: Files) -> State:
    ended = {job: Ended(number, committed) for job, number, committed in values["ended"]}
    tokens: dict[str, int] = dict(values["tokens"])
    queries = {query: QueryBatch(batch, number) for query, batch, number in values["queries"]}
    tombstones: dict[Removed, Tombstone] = {}
    closed: dict[Removed, int] = {}
    if values["tombstones"]:
        columns, numbers, retains = values["tombstones"]
        rows = map(Tombstone, numbers, retains)
        tombstones = dict(zip(removed_from_json(columns), rows, strict=True))
    if values["closed"]:
        columns, numbers = values["closed"]
        closed = dict(zip(removed_from_json(columns), numbers, strict=True))
    # A checkpoint is a file like any other: each value is checked as one of an entry is.
    numbers = [values[name] for name in ("number", "time", "horizon", "last_removal")]
    numbers += [row.number for row in ended.values()]
    numbers += [row.number for row in tombstones.values()]
    numbers += [number for row in queries.values() for number in row]
    numbers += [*tokens.values(), *closed.values()]
    numbers += [] if values["retention"] is None else [values["retention"]]
    texts = [values["schema"], values["layout"], *values["partition_columns"], *tokens, *queries]
    flags = [*(row.is_committed for row in ended.values()), *(row.retain for row in tombstones.values())]
    former = values["former"]
    if (
        any(type(number) is not int or number < 0 for number in numbers)
        or any(type(text) is not str for text in texts)
        or any(type(flag) is not bool for flag in flags)
        or not all(map(is_job_id, [values["entry"], *ended]))
        or not all(map(is_table_id, former))
    ):
        raise CommitError("a value is of a wrong kind")
    return State(
        values["table"],
        values["number"],
        values["entry"],
        values["time"],
        files,
        values["schema"],
        tuple(values["partition_columns"]),
        values["retention"],
        ended,
        values["horizon"],
        values["last_removal"],
        tokens,
        queries,
        tombstones,
        closed,
        tuple(former),
        values["layout"],
    )


@lru_cache(maxsize=256)
def warn_of_damage(error: str) -> None:
    """Warn of a damaged checkpoint, once in a process: each reading of the log meets it, and the text has its path."""
    _log.warning("%s; the checkpoint before it and the entries since then are read instead", error)
