"""`CASES`: what is compared, by whom, and what it must show.

The sizes are those that the bars are for (``--size 1``). Bars are ratios of the medians of one session.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from bars import Bar, balance, net, peak, share_of_bytes, share_of_encoding, slope, times
from jobs import PUBLISHED, Asked, Contender, Written, parquet_of, read, write
from table_kinds import FORTY_COLUMNS
from workloads import Workload

NUMBERS = Workload(10_000_000, 150)
"""Numbers, ASCII text and instants, 400 MB."""

SORTED = Workload(25_000_000, 381)
"""The same, 1 GB, in record batches of 65,536 rows; `id` is sorted, `quantity` is spread evenly over 0 to 999."""

TINY = replace(NUMBERS, batches=10_000)
TINIEST = Workload(1_000_000, 100_000)
HUGE = replace(NUMBERS, batches=1)
NON_ASCII = Workload(8_000_000, 122, kind="non_ascii")
LOW = Workload(30_000_000, 458, kind="low")
HIGH = Workload(30_000_000, 458, kind="high")
NESTED = Workload(4_000_000, 61, kind="nested")
WIDE = Workload(50_000, 25, kind="wide")
FORTY = Workload(3_200_000, 49, kind="forty")
STREAM = replace(SORTED, ipc_format="stream")
MANY = Workload(10_000, 1, files=1_000)
LAKE = Workload(250_000, 4, files=1_000)
RISING = Workload(5_000_000, 75)
SIZES = (1, 2, 4, 8)

SCANNED: Mapping[str, Workload] = {
    "scan": NUMBERS, "lz4": replace(NUMBERS, compression="lz4"), "zstd": replace(NUMBERS, compression="zstd"),
    "non_ascii": NON_ASCII, "dictionary_low": LOW, "dictionary_high": HIGH, "nested": NESTED, "wide": WIDE,
    "tiny": TINY, "huge": HUGE,
}  # fmt: skip
"""Full scans by the name of their case."""

WRITTEN = Written(10_000_000)
FEW_KEYS = Written(10_000_000, keys=20)
MANY_KEYS = Written(1_000_000, keys=10_000)

TWO_OF_FORTY = (f"c{FORTY_COLUMNS // 4}", f"c{FORTY_COLUMNS // 2 + 1}")
"""An integer and a double."""

PYARROW = 1.05
"""CPU of ours to that of the straightforward source, which maps its file and checks nothing."""

PLANNED = 0.80
"""The same where planning can win."""


@dataclass(frozen=True, slots=True)
class Case:
    """One comparison.

    Parameters
    ----------
    what
        In words.
    contenders
        Who takes turns; the first is what the others are set against.
    bars
        What it must show.
    turns
        At least so many, whatever was asked for.
    """

    what: str
    contenders: tuple[Contender, ...]
    bars: tuple[Bar, ...] = ()
    turns: int = 1


def _readers(*names: str, asked: Asked) -> tuple[Contender, ...]:
    """Return contenders that read the same."""
    return tuple(
        Contender(name, read(name, asked), module=PUBLISHED if name == "published" else None) for name in names
    )


def _scan(
    what: str, workload: Workload, *, null: float | None, pyarrow: float = PYARROW, others: tuple[str, ...] = ()
) -> Case:
    """Return a full scan by ours, the null source and the straightforward one."""
    names = ("arrowipc", *(("null",) if null is not None else ()), "pyarrow", *others)
    bars = [times("arrowipc", "null", null)] if null is not None else []
    return Case(
        what,
        _readers(*names, asked=Asked(workload)),
        (*bars, times("arrowipc", "pyarrow", pyarrow)),
    )


def _some_ids(workload: Workload) -> str:
    """Return a condition that a hundredth of the rows meet, which lie side by side."""
    first = workload.rows // 2
    return f"id BETWEEN {first} AND {first + max(1, workload.rows // 100) - 1}"


def _some_quantities(_workload: Workload) -> str:
    """Return a condition that a hundredth of the rows meet, which lie everywhere."""
    return "quantity < 10"


def _empties() -> tuple[Contender, ...]:
    """Return what loading nothing costs: a Python source, ours, and Parquet."""
    nothing = Workload(1, 1)
    return (
        Contender("empty", read("empty", Asked(nothing))),
        Contender("empty parquet", read("parquet", Asked(nothing, condition=lambda _workload: "id < 0"))),
    )


_FIXED = ("empty", "empty parquet")


def _where_sorted() -> Case:
    filtered, whole = Asked(SORTED, condition=_some_ids), Asked(SORTED)
    return Case(
        "1 % of the rows of a sorted table of 1 GB, side by side",
        (
            Contender("arrowipc where", read("own", whole, {"where": _some_ids}), ("where",)),
            Contender("arrowipc", read("own", filtered)),
            Contender("pyarrow", read("pyarrow", filtered)),
            Contender("parquet", read(parquet_of(SORTED.batch_rows), filtered)),
            Contender("parquet 1M", read("parquet", filtered)),
            *_empties(),
        ),
        (
            times("arrowipc where", "arrowipc", 1 / 10, issue=5),
            net("arrowipc where", "parquet", _FIXED, issue=5),
            times("arrowipc where", "pyarrow", PLANNED),
        ),
        turns=7,
    )


def _where_unsorted() -> Case:
    filtered, whole = Asked(SORTED, condition=_some_quantities), Asked(SORTED)
    return Case(
        "1 % of the rows of a table of 1 GB, spread over all of it",
        (
            Contender("arrowipc where", read("own", whole, {"where": _some_quantities}), ("where",)),
            Contender("arrowipc", read("own", filtered)),
            Contender("pyarrow", read("pyarrow", filtered)),
            Contender("parquet", read("parquet", filtered)),
            *_empties(),
        ),
        (
            times("arrowipc where", "arrowipc", 1 / 3, issue=5),
            net("arrowipc where", "parquet", _FIXED, issue=7),
            times("arrowipc where", "pyarrow", PLANNED),
        ),
    )


def _projection() -> Case:
    two, whole = Asked(FORTY, select=TWO_OF_FORTY), Asked(FORTY)
    return Case(
        "2 of 40 columns of 1 GB, uncompressed",
        (
            Contender("arrowipc columns", read("arrowipc", whole, {"columns": ",".join(TWO_OF_FORTY)})),
            Contender("arrowipc", read("arrowipc", whole)),
            Contender("pyarrow", read("pyarrow", two)),
            Contender("parquet", read("parquet", two)),
            Contender("parquet zstd", read("parquet zstd", two)),
            *_empties(),
        ),
        (
            times("arrowipc columns", "arrowipc", 1 / 12, issue=5, of="read_nbytes"),
            times("arrowipc columns", "arrowipc", 1 / 4, issue=5),
            times("arrowipc columns", "pyarrow", PLANNED),
            net("arrowipc columns", "parquet", _FIXED, issue=7),
        ),
    )


def _tiny() -> Case:
    return Case(
        "400 MB in record batches of 1,000 rows, beside the same in 65,536",
        (
            *_readers("arrowipc", "pyarrow", asked=Asked(TINY)),
            Contender("arrowipc 65,536", read("arrowipc", Asked(NUMBERS))),
            Contender("null 65,536", read("null", Asked(NUMBERS))),
        ),
        (times("arrowipc", "arrowipc 65,536", 1.5, issue=4), times("arrowipc", "pyarrow", PLANNED)),
    )


def _stream() -> Case:
    return Case(
        "1 GB in stream format, beside the same as a file",
        (
            *_readers("arrowipc", "pyarrow", asked=Asked(STREAM)),
            Contender("arrowipc file", read("arrowipc", Asked(SORTED))),
        ),
        (
            times("arrowipc", "arrowipc file", 1.15, issue=4),
            balance(STREAM, 0.20, issue=4),
            times("arrowipc", "pyarrow", PYARROW),
        ),
    )


def _metadata_only() -> Case:
    return Case(
        "how many rows 1,000 files of 10 MB have",
        (
            Contender(
                "arrowipc metadataOnly",
                read("arrowipc", Asked(LAKE, "sum of rows"), {"metadataOnly": "true"}),
                ("metadataOnly",),
            ),
            Contender("parquet", read("parquet", Asked(LAKE, "count"))),
        ),
        (share_of_bytes("arrowipc metadataOnly", LAKE, 0.02, issue=5),),
    )


def _rising() -> Case:
    ours, null = ({n: f"{name} {n} x" for n in SIZES} for name in ("arrowipc", "null"))
    return Case(
        "200, 400, 800 and 1,600 MB",
        tuple(
            Contender(names[n], read(name, Asked(RISING.times(n))))
            for n in SIZES
            for name, names in (("arrowipc", ours), ("null", null))
        ),
        (
            slope(ours, issue=7),
            times(ours[SIZES[-1]], ours[SIZES[0]], 1.10, of="peak_nbytes"),
        ),
    )


def _write(compression: str, parquet: str, bars: tuple[Bar, ...] = ()) -> Case:
    """Return a write of each codec, beside the rows alone, a sink that drops them, and pyarrow's writer as a sink."""
    ours = {"compression": compression}
    plain = {} if compression == "none" else ours
    return Case(
        f"10 M rows of 5 columns, {compression}",
        (
            Contender("arrowipc", write("arrowipc", WRITTEN, ours)),
            Contender(
                "arrowipc no statistics", write("arrowipc", WRITTEN, {**ours, "statistics": "none"}), ("statistics",)
            ),
            Contender("pyarrow sink", write("benchmark_pyarrow_sink", WRITTEN, plain)),
            Contender("null sink", write("benchmark_null_sink", WRITTEN)),
            Contender("rows alone", write("noop", WRITTEN)),
            Contender("parquet", write("parquet", WRITTEN, {"compression": parquet})),
        ),
        bars,
    )


def _partitioned(what: str, written: Written, bars: tuple[Bar, ...] = ()) -> Case:
    return Case(
        what,
        (
            Contender("arrowipc", write("arrowipc", written, {"partitionBy": "k"}), ("partitionBy",)),
            Contender("parquet", write("parquet", written, partition_by="k")),
            Contender("rows alone", write("noop", written)),
        ),
        bars,
    )


FIXED = Case(
    "the fixed cost of a load: no rows",
    (*_empties(), Contender("arrowipc", read("arrowipc", Asked(Workload(1, 1))))),
)
"""Measured before all others."""

CASES: Mapping[str, Case] = {
    "scan": Case(
        "full scan of 400 MB, uncompressed: numbers, ASCII text, instants",
        _readers("arrowipc", "null", "pyarrow", "published", "parquet", "parquet zstd", asked=Asked(NUMBERS)),
        (
            times("arrowipc", "null", 1.06),
            times("arrowipc", "pyarrow", PYARROW),
            times("arrowipc", "published", 0.70, of="wall"),
        ),
    ),
    "aggregate": Case(
        "sums and maxima of all columns of 400 MB",
        _readers("arrowipc", "null", "pyarrow", "parquet", "parquet zstd", asked=Asked(NUMBERS, "aggregate")),
        (times("arrowipc", "pyarrow", PYARROW),),
    ),
    "lz4": _scan("full scan, lz4", SCANNED["lz4"], null=1.15, others=("parquet",)),
    "zstd": _scan("full scan, zstd", SCANNED["zstd"], null=1.35, others=("parquet zstd",)),
    "non_ascii": _scan("text of two and three bytes a character", NON_ASCII, null=1.15, others=("parquet",)),
    "dictionary_low": _scan("a dictionary of 100 strings", LOW, null=1.15, others=("parquet",)),
    "dictionary_high": _scan("a dictionary of 100,000 strings", HIGH, null=1.15, others=("parquet",)),
    "nested": _scan("lists, structs, lists of structs", NESTED, null=1.10, others=("parquet",)),
    "wide": _scan("1,000 columns", WIDE, null=None, others=("parquet",)),
    "tiny": _tiny(),
    "tiniest": _scan("1 M rows in record batches of 10", TINIEST, null=None, pyarrow=PLANNED),
    "huge": _scan("400 MB in one record batch", HUGE, null=None, pyarrow=PLANNED),
    "projection": _projection(),
    "where_sorted": _where_sorted(),
    "where_unsorted": _where_unsorted(),
    "many_files": _scan("1,000 files of 400 kB", MANY, null=None, pyarrow=PLANNED, others=("parquet",)),
    "metadata_only": _metadata_only(),
    "stream": _stream(),
    "rising": _rising(),
    "write_none": _write("none", "none"),
    "write_lz4": _write(
        "lz4",
        "snappy",
        (
            times("arrowipc", "pyarrow sink", 1.25, issue=6),
            share_of_encoding("arrowipc", "arrowipc no statistics", "null sink", 0.10, issue=6),
        ),
    ),
    "write_zstd": _write("zstd", "zstd"),
    "write_partitioned": _partitioned("10 M rows into 20 partitions", FEW_KEYS),
    "write_10000_partitions": _partitioned(
        "1 M rows into 10,000 partitions by two tasks", MANY_KEYS, (peak("arrowipc", 1024, issue=6),)
    ),
}
"""By name, in the order in which they run."""
