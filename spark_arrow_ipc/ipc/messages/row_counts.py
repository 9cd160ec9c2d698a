"""The rows of a file's record batches as polars notes them in the footer, by which it reads the end of a file at once.

polars reads one pair of the footer's custom metadata before `head`, `tail` and `slice`, and believes it where it names as
many record batches as there are; without it polars reads the whole file, or the header of each record batch. This package
writes the pair and does not believe one: wherever it counts, it counts by headers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final

from spark_arrow_ipc.arrow.types import CustomMetadata
from spark_arrow_ipc.bounded_json import parse_json

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

    Raises
    ------
    ValueError
        The pair is malformed.
    """
    values = [value for key, value in custom_metadata if key == ROW_COUNTS_KEY]
    if not values:
        return None
    noted = parse_json(values[-1])
    up_to = noted.get(_ROWS_UP_TO) if isinstance(noted, dict) else None
    if not isinstance(up_to, list) or not all(type(number) is int and 0 <= number <= _INT64_MAX for number in up_to):
        raise ValueError(f"there is no list of numbers of rows named {_ROWS_UP_TO}")
    return [stop - start for start, stop in pairwise([0, *up_to])]
