"""The files that the documentation's pages read: ``python -m spark_arrow_ipc.examples [FOLDER]``.

The rows are the same on every machine: numbers come from `pseudo_random`, not from a generator or a clock. Only the codec
writes them. Existing files are never replaced.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import RecordBatch, Schema
from spark_arrow_ipc.arrow import types as t

Columns: TypeAlias = Mapping[str, tuple[t.DataType, Sequence[Any]]]

NAMES: Final = {
    "flights.arrow": "the flights of a year, 100,000 rows",
    "torn.arrow": "the same file without its last third",
    "items": "what a shop sold, with decimals",
    "texts": "sentences, each with a vector of 64 numbers",
    "events": "24 small files of three days, with timestamps",
}
"""The files, each with its description."""
FLIGHTS, ITEMS, TEXTS, EVENTS = 100_000, 1_000, 1_000, 500
"""Rows of a file."""
EVENT_FILES, EVENT_HOURS = 24, 3
"""Files of events, and the hours that one is of: three days together."""
BATCH_ROWS: Final = 16_384
VECTOR: Final = 64
CARRIERS, ORIGINS, COUNTRIES = ("AA", "B6", "DL", "UA"), ("EWR", "JFK", "LGA"), ("BR", "IN", "KE", "NO")
NOUNS: Final = ("bag", "clock", "lamp", "map", "radio", "rope", "tent", "whistle")


def main(arguments: Sequence[str]) -> int:
    """Write the examples into a folder, by default the current one, print their names, and return the exit status."""
    if len(arguments) > 1 or any(word.startswith("-") for word in arguments):
        print("usage: python -m spark_arrow_ipc.examples [FOLDER]", file=sys.stderr)
        return 2
    folder = Path(*arguments)
    existing = [str(folder / name) for name in NAMES if (folder / name).exists()]
    if existing:
        print(
            f"nothing was written, because {', '.join(existing)} would be replaced; name another folder",
            file=sys.stderr,
        )
        return 1
    make(folder)
    for name, meaning in NAMES.items():
        print(f"{folder / name}: {meaning}")
    return 0


def make(folder: Path) -> None:
    """Write the examples into a folder."""
    write(folder / "flights.arrow", flights())
    content = (folder / "flights.arrow").read_bytes()
    (folder / "torn.arrow").write_bytes(content[: len(content) * 2 // 3])
    write(folder / "items" / "items.arrow", items())
    write(folder / "texts" / "texts.arrow", texts())
    for number in range(EVENT_FILES):
        write(folder / "events" / f"{number:02}.arrow", events(number))


def write(path: Path, columns: Columns) -> None:
    """Write columns as record batches of `BATCH_ROWS` rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    schema = Schema.of([t.field(name, type_) for name, (type_, _) in columns.items()])
    batch = RecordBatch.from_pydict({name: values for name, (_, values) in columns.items()}, schema)
    parts = [batch.slice(i, min(BATCH_ROWS, len(batch) - i)) for i in range(0, len(batch), BATCH_ROWS)]
    ipc.write(str(path), parts, schema, ipc.WriteOptions(compression="zstd"))


def pseudo_random(rows: int, seed: int) -> NDArray[np.float64]:
    """Return numbers from 0 to below 1, by row, that look random."""
    # SplitMix64, in which the index is the state: each row has its number whatever the order.
    x = np.arange(1, rows + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed << 32)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((x ^ (x >> np.uint64(31))) >> np.uint64(11)) / 2.0**53  # 53 bits: all that a double holds


def pick(words: Sequence[str], rows: int, seed: int) -> list[str]:
    """Return one of some words for each row."""
    return [words[i] for i in (pseudo_random(rows, seed) * len(words)).astype(int)]


def flights() -> Columns:
    """Return the flights of a year, in the order of their days."""
    days = [date(2025, 1, 1) + timedelta(days=i) for i in range(365)]
    return {
        "day": (t.Date(t.DateUnit.DAY), [days[i * 365 // FLIGHTS] for i in range(FLIGHTS)]),
        "carrier": (t.utf8, pick(CARRIERS, FLIGHTS, 1)),
        "origin": (t.utf8, pick(ORIGINS, FLIGHTS, 2)),
        "flight": (t.int64, (1 + pseudo_random(FLIGHTS, 3) * 6000).astype(int).tolist()),
        "dep_delay": (t.float64, np.round(-30.0 * np.log1p(-pseudo_random(FLIGHTS, 4)) - 20.0).tolist()),
        "distance": (t.float64, np.round(100.0 + pseudo_random(FLIGHTS, 5) * 2500.0).tolist()),
    }


def items() -> Columns:
    """Return the sales of a shop."""
    prices = (100 + pseudo_random(ITEMS, 6) * 9900).astype(int)
    return {
        "id": (t.int64, list(range(1, ITEMS + 1))),
        "name": (t.utf8, [noun.capitalize() for noun in pick(NOUNS, ITEMS, 7)]),
        "price": (t.Decimal(9, 2), [Decimal(int(cents)).scaleb(-2) for cents in prices]),
        "amount": (t.int64, (1 + pseudo_random(ITEMS, 8) * 9).astype(int).tolist()),
        "country": (t.utf8, pick(COUNTRIES, ITEMS, 9)),
        "year": (t.int64, (2020 + pseudo_random(ITEMS, 10) * 6).astype(int).tolist()),
    }


def texts() -> Columns:
    """Return sentences with HTML tags, each with a vector."""
    nouns = zip(pick(NOUNS, TEXTS, 11), pick(NOUNS, TEXTS, 12), strict=True)
    # Multiples of 1/1024 up to 1, which float16 holds exactly.
    vectors = (np.round(pseudo_random(TEXTS * VECTOR, 13) * 2048.0 - 1024.0) / 1024.0).reshape(TEXTS, VECTOR)
    return {
        "id": (t.int64, list(range(1, TEXTS + 1))),
        "text": (t.utf8, [f"A <b>{one}</b> for a {other}." for one, other in nouns]),
        "embedding": (t.FixedSizeList(t.field("item", t.float32), VECTOR), vectors.tolist()),
    }


def events(number: int) -> Columns:
    """Return the events of some hours."""
    begin = datetime(2026, 6, 1, tzinfo=UTC) + number * timedelta(hours=EVENT_HOURS)
    times = [begin + i * timedelta(hours=EVENT_HOURS) / EVENTS for i in range(EVENTS)]
    return {
        "at": (t.Timestamp(t.TimeUnit.MICROSECOND, "UTC"), times),
        "carrier": (t.utf8, pick(CARRIERS, EVENTS, 14 + number)),
        "day": (t.Date(t.DateUnit.DAY), [begin.date()] * EVENTS),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
