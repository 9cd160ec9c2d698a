"""Which column each buffer of a record batch belongs to, by the headers of batches."""

from __future__ import annotations

from typing import Final

import numpy as np

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.layout import Role
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.errors import InvalidMetadataError
from spark_arrow_ipc.ipc.columns.plan import compile_plan
from spark_arrow_ipc.ipc.constants import Int64s
from spark_arrow_ipc.ipc.flatbuf.tables import MetadataVersion
from spark_arrow_ipc.ipc.messages.record_batch import RecordBatchHeader
from spark_arrow_ipc.ipc.messages.schema import number_dictionaries

ROLES: Final = tuple(Role)
"""All roles, in the order of their numbers."""


class ColumnBuffers:
    """The owners of the buffers in the record batches of a schema.

    Parameters
    ----------
    schema
        The schema.
    version
        Of the metadata of the batches: unions of V4 have one buffer more, and run ends may have (`Plan.runs`).
    """

    def __init__(self, schema: Schema, version: MetadataVersion = MetadataVersion.V5) -> None:
        self._plan = compile_plan(schema.fields, number_dictionaries(schema).dictionary_ids, version)
        steps = self._plan.steps
        self._columns = np.cumsum([step.is_top for step in steps], dtype=np.int64) - 1
        self._counts = np.array([len(step.buffers) + step.drops_validity for step in steps], np.int64)
        self._variadic = np.flatnonzero([step.is_variadic for step in steps])
        self._roles = np.array(
            [
                ROLES.index(role)
                for step in steps
                for role in ([Role.VALIDITY] * step.drops_validity + [buffer.role for buffer in step.buffers])
            ],
            np.int64,
        )
        has_runs = version is MetadataVersion.V4
        self._runs = np.flatnonzero([has_runs and isinstance(step.type, t.RunEndEncoded) for step in steps])
        self._nodes = np.array([step.node for step in steps if step.is_top], np.int64)

    def columns(self, header: RecordBatchHeader) -> Int64s:
        """Return the position of the top-level column of each buffer: int64, shape ``(buffers,)``."""
        return np.repeat(self._columns, self._counts_of(header))

    def roles(self, header: RecordBatchHeader) -> Int64s:
        """Return the role of each buffer, as its position in `ROLES`: int64, shape ``(buffers,)``."""
        counts = self._counts_of(header)
        ends = np.cumsum(counts)
        found = np.full(len(header.buffers), ROLES.index(Role.VARIADIC), np.int64)
        # A step's own buffers come first, its variadic ones after them.
        own = np.repeat(ends - counts, self._counts) + (
            np.arange(len(self._roles)) - np.repeat(np.cumsum(self._counts) - self._counts, self._counts)
        )
        found[own] = self._roles
        found[(ends - counts)[self._runs[counts[self._runs] > 0]]] = ROLES.index(Role.VALIDITY)
        return found

    def null_counts(self, header: RecordBatchHeader) -> Int64s:
        """Return the nulls of each top-level column, as the header states them."""
        if len(header.nodes) != self._plan.nodes:
            raise InvalidMetadataError(
                expected=f"{self._plan.nodes} field nodes, as the schema implies", found=str(len(header.nodes))
            )
        counts: Int64s = header.nodes[self._nodes, 1]
        return counts

    def _counts_of(self, header: RecordBatchHeader) -> Int64s:
        variadic, fixed = header.variadic_counts, int(self._counts.sum())
        is_sound = len(variadic) == len(self._variadic) and bool(np.all(variadic >= 0))
        # Each is bounded by itself, so that the sum cannot wrap around.
        is_sound = is_sound and bool(np.all(variadic <= len(header.buffers)))
        more = len(header.buffers) - fixed - int(variadic.sum()) if is_sound else 0
        if not is_sound or more not in (0, len(self._runs)):
            raise InvalidMetadataError(
                expected=f"{fixed} buffers and variadic ones, as the schema implies", found=f"{len(header.buffers)}"
            )
        counts = self._counts.copy()
        counts[self._variadic] += variadic
        counts[self._runs] += more > 0
        return counts
