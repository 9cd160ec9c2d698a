"""Budgets of memory and nesting; a file that exceeds one is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spark_arrow_ipc.errors import LimitError

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """The budgets of one file or stream.

    Parameters
    ----------
    max_batch_bytes
        Bytes of one record or dictionary batch: of its body, and of all its buffers, also once decompressed.
    max_dictionary_bytes
        Bytes of all dictionaries of a file or stream that are held at once: of their bodies, and once decompressed.
    max_slots
        Slots of one array. Nulls and runs take no bytes of the file, however many there are.
    max_metadata_bytes
        Bytes of one message's metadata, and of a footer.
    max_columns
        Fields of a schema, nested ones counted.
    max_depth
        Levels of nesting of a field.
    max_buffers
        Buffers of one batch that hold the bytes of views, of which a view column may have any number.
    max_blocks
        Record and dictionary batches that a footer lists, or that an index of a stream does. A stream that is only
        read has no index, and may have any number of them.
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
            raise LimitError(
                f"{what} asks for {needed:,}, the budget {name} is {budget:,}; "
                f"raise it with Limits({name}=...) where this file is trusted"
            )


DEFAULT_LIMITS: Final = Limits()
