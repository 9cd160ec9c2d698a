"""Random tables and random predicates for the option `where`, and what Spark says to them.

A table has a column of every scalar type, some of them as Spark never has them in a file (uint64, nanoseconds,
dictionaries, UUIDs), and is brought to Spark's types by `convert`, as a read does. It is sorted by one of its columns
and cut into blocks with statistics; some of its rows stand for hive partitions of their values. Spark evaluates all
predicates of a table in one job. With ``--settings`` each table has a session of its own: each setting that `where` knows
at another value than its default, ANSI mode on and off, and six time zones; a predicate is answered as Spark answers it under
these, or refused by a sentence that names the setting.

The long run, two minutes: ``python tests/programs/where_cases.py --count 10000`` (needs a JVM; ``--seed`` for other ones). It
prints what was covered and fails where an answer differs or too little was covered.
"""

import argparse
import os
import random
import sys
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Context, Decimal
from itertools import count as count_from
from itertools import repeat
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("", "tests", "tests/oracles", "tests/builders", "tests/fakes", "tests/programs")]  # fmt: skip

import numpy as np
import pyarrow as pa

from spark_arrow_ipc.dataset import time_zones
from spark_arrow_ipc.dataset.predicate import ANSI, SETTINGS, TIMESTAMP_TYPE, check_settings, prune
from spark_arrow_ipc.dataset.predicate.bind import bind
from spark_arrow_ipc.dataset.predicate.parser import parse
from spark_arrow_ipc.dataset.statistics import Statistics
from spark_arrow_ipc.dataset.statistics.collect import StatisticsCollector
from spark_arrow_ipc.dataset.statistics.prune_blocks import block_filter, block_truths
from spark_arrow_ipc.dataset.statistics.read import read_statistics
from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.convert import compile_converter
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.read.row_filter import compile_filter
from spark_arrow_ipc.spark.types.arrow_to_spark import spark_schema

ROWS = 1000
BLOCK_ROWS = 50
ZONE = "America/New_York"
PREDICATES_A_TABLE = 500

EPOCH = datetime(1970, 1, 1)
DAY = 86_400
EXACT = Context(prec=60)


def whole(low, high, *extremes):
    """Values of a narrow range, so that predicates meet them, and the ends of the type."""
    near = max(low, -20), min(high, 40)
    return lambda r: r.choice([low, high, *extremes, 0]) if r.random() < 0.1 else r.randint(*near)


def floats(most):
    special = [float("nan"), float("inf"), float("-inf"), 0.0, -0.0, most, -most, 5e-324, 0.1, 1e-30]
    return lambda r: r.choice(special) if r.random() < 0.3 else round(r.uniform(-10, 10), 1)


def scaled(precision, scale):
    def value(r):
        unscaled = r.randint(-2000, 2000) * 10 ** max(0, scale - 2)
        if r.random() < 0.15:
            unscaled = r.choice([1, -1]) * (10**precision - r.choice([1, 1, 5 * 10 ** (precision - 1)]))
        elif scale == precision:
            unscaled = r.randint(-9, 9) * 10 ** r.choice([0, precision - 2, precision - 1])
        return Decimal(unscaled).scaleb(-scale, EXACT)

    return value


def texts(r):
    length = r.choice([0, 1, 1, 2, 3, 9, 20, 70] if r.random() < 0.3 else [1, 2])
    return "".join(
        r.choice("abcAé\u00ff\uffff\U0001f600%_'\"\\ \n`" if r.random() < 0.2 else "abc") for _ in range(length)
    )


def octets(r, most=6):
    return bytes(r.choice([0, 1, 65, 97, 128, 255]) for _ in range(r.randint(0, most)))


def moments(r):
    """Microseconds since 1970, around changes of the clock in New York and elsewhere."""
    if r.random() < 0.1:
        return r.choice([0, -1, -62_135_510_400_000_000 + 10**9, 253_402_200_000_000_000, 1_699_163_999_999_999])
    base = r.choice([datetime(2023, 11, 5), datetime(2023, 3, 12), datetime(2020, 1, 1), datetime(1969, 12, 31)])
    seconds = (base - EPOCH).total_seconds() + r.randint(0, 24 * 12) * 300
    return int(seconds) * 10**6 + r.choice([0, 0, 0, 1, 999_999])


def days(r):
    return r.choice([0, -719_000, 2_932_000, -1]) if r.random() < 0.1 else 19_600 + r.randint(0, 60)


def spans(r):
    return (
        r.choice([0, -1, 10**15, -(10**15)])
        if r.random() < 0.1
        else r.randint(-50, 50) * r.choice([1, 10**6, 3600 * 10**6])
    )


def in_units(make, unit):
    """Values in microseconds as counts of a unit."""
    factor = {"s": 10**-6, "ms": 10**-3, "us": 1, "ns": 1000}[unit]
    if unit == "ns":
        return lambda r: max(-(2**63) + 1, min(2**63 - 1, make(r) * 1000 + r.choice([0, 0, 1, 999])))
    return lambda r: int(make(r) * factor) if unit != "us" else make(r)


def temporal(type_, make):
    return lambda r, n: pa.array(
        [maybe(r, make) for _ in range(n)], pa.int32() if type_.bit_width == 32 else pa.int64()
    ).view(type_)


def maybe(r, make):
    return None if r.random() < 0.12 else make(r)


def plain(type_, make):
    return lambda r, n: pa.array([maybe(r, make) for _ in range(n)], type_)


def encoded(type_, make):
    return lambda r, n: pa.array([maybe(r, make) for _ in range(n)], type_).dictionary_encode()


def uuids(r, n):
    return pa.array(
        [maybe(r, lambda r: bytes([r.choice([0, 17, 160, 255])] * 2 + [0] * 13 + [r.randint(0, 3)])) for _ in range(n)],
        pa.binary(16),
    )


def instant(unit):
    return temporal(pa.timestamp(unit, "Asia/Tokyo"), in_units(moments, unit))


def clock(unit):
    return temporal(pa.timestamp(unit), in_units(moments, unit))


def stretch(unit):
    return temporal(pa.duration(unit), in_units(spans, unit))


def small_float(r):
    return np.float16(r.choice([0.5, -0.0, 2.0, float("nan"), float("inf"), 0.1, r.randint(-5, 5)]))


COLUMNS = {
    "boolean": [plain(pa.bool_(), lambda r: r.random() < 0.5)],
    "tinyint": [plain(pa.int8(), whole(-128, 127))],
    "smallint": [plain(pa.int16(), whole(-(2**15), 2**15 - 1)), plain(pa.uint8(), whole(0, 255))],
    "int": [
        plain(pa.int32(), whole(-(2**31), 2**31 - 1)),
        plain(pa.uint16(), whole(0, 65535)),
        encoded(pa.int32(), whole(-(2**31), 2**31 - 1)),
    ],
    "bigint": [
        plain(pa.int64(), whole(-(2**63), 2**63 - 1, 2**53 + 1, 2**63 - 500)),
        plain(pa.uint32(), whole(0, 2**32 - 1)),
    ],
    "float": [
        plain(pa.float32(), floats(3.4028234663852886e38)),
        lambda r, n: pa.array([maybe(r, small_float) for _ in range(n)], pa.float16()),
    ],
    "double": [plain(pa.float64(), floats(1.7976931348623157e308)), encoded(pa.float64(), floats(1e308))],
    "decimal(20,0)": [plain(pa.uint64(), whole(0, 2**64 - 1)), plain(pa.decimal128(20, 0), scaled(20, 0))],
    "decimal(7,2)": [plain(pa.decimal128(7, 2), scaled(7, 2)), plain(pa.decimal32(7, 2), scaled(7, 2))],
    "decimal(38,18)": [plain(pa.decimal128(38, 18), scaled(38, 18))],
    "decimal(38,38)": [plain(pa.decimal128(38, 38), scaled(38, 38))],
    "decimal(38,0)": [plain(pa.decimal128(38, 0), scaled(38, 0)), plain(pa.decimal256(38, 0), scaled(38, 0))],
    "string": [
        plain(pa.string(), texts),
        plain(pa.large_string(), texts),
        plain(pa.string_view(), texts),
        encoded(pa.string(), texts),
        uuids,
    ],
    "binary": [
        plain(pa.binary(), octets),
        plain(pa.binary_view(), octets),
        plain(pa.binary(3), lambda r: bytes(r.choices([0, 97, 255], k=3))),
    ],
    "date": [temporal(pa.date32(), days), temporal(pa.date64(), lambda r: days(r) * DAY * 1000 + r.choice([0, 5]))],
    "timestamp": [instant(unit) for unit in ("s", "ms", "us", "us", "ns")],
    "timestamp_ntz": [clock(unit) for unit in ("s", "ms", "us", "us", "ns")],
    "interval": [
        *(stretch(unit) for unit in ("s", "ms", "us", "ns")),
        temporal(pa.time32("ms"), lambda r: r.randint(0, 50) * 3_600_00),
    ],
}
"""By Spark type: generators of (random, slots) -> array, as files may hold it."""

NAMES = {kind: f"c{i}" for i, kind in enumerate(COLUMNS)} | {"decimal(7,2)": "a b", "string": "St", "date": "date"}
NESTED = {"int": ("n", "x"), "string": ("n", "m", "s"), "double": ("n", "m", "D")}


@dataclass(frozen=True)
class Table:
    """One random table, its blocks, and the sorted column."""

    file: pa.RecordBatch
    converted: pa.RecordBatch
    kinds: dict
    sorted_by: str
    statistics: object
    partitions: dict


@dataclass
class Coverage:
    """What a run has met."""

    predicates: int = 0
    refused: int = 0
    selective: int = 0
    skipping: int = 0
    skipping_partitions: int = 0
    certain: int = 0
    pairs: Counter = field(default_factory=Counter)
    answered: Counter = field(default_factory=Counter)
    by_setting: Counter = field(default_factory=Counter)


def quoted(path):
    return ".".join(part if part.isalnum() else "`" + part.replace("`", "``") + "`" for part in path)


def make_table(r):
    """Return a table: column `row` numbers the rows."""
    kinds = {(NAMES[kind],): kind for kind in COLUMNS} | {path: kind for kind, path in NESTED.items()}
    arrays, fields = [], []
    for kind, makers in COLUMNS.items():
        make = r.choice(makers)
        array = make(r, ROWS)
        metadata = {"ARROW:extension:name": "arrow.uuid"} if make is uuids else None
        arrays.append(array)
        fields.append(pa.field(NAMES[kind], array.type, metadata=metadata))
    inner = pa.StructArray.from_arrays(
        [plain(pa.string(), texts)(r, ROWS), plain(pa.float64(), floats(1e300))(r, ROWS)], ["s", "D"], mask=nulls(r)
    )
    outer = pa.StructArray.from_arrays(
        [plain(pa.int32(), whole(-(2**31), 2**31 - 1))(r, ROWS), inner], ["x", "m"], mask=nulls(r)
    )
    arrays.append(outer)
    fields.append(pa.field("n", outer.type))
    batch = converted(pa.record_batch(arrays, schema=pa.schema(fields)))
    sorted_by = r.choice(list(kinds))
    flat = batch.column(sorted_by[0])
    for name in sorted_by[1:]:
        flat = pa.compute.struct_field(flat, name)
    order = (
        np.argsort(np.array([sort_key(value) for value in flat.to_pylist()]), kind="stable")
        if kinds[sorted_by] != "x"
        else None
    )
    positions = pa.array(order)
    fields.append(pa.field("row", pa.int32()))
    arrays = [
        pa.array(array.to_pylist(), array.type)
        if pa.types.is_binary_view(array.type) or pa.types.is_string_view(array.type)
        else array
        for array in arrays
    ]
    taken = [taken_slots(array, positions) for array in arrays]
    file = pa.record_batch([*taken, pa.array(range(ROWS), pa.int32())], schema=pa.schema(fields))
    made = converted(file)
    partitions = {row: partition_of(made, row) for row in range(0, ROWS, 37)}
    return Table(file, made, kinds, quoted(sorted_by), statistics_of(file), partitions)


def taken_slots(array, positions):
    if isinstance(array.type, pa.DictionaryType):
        return pa.DictionaryArray.from_arrays(array.indices.take(positions), array.dictionary)
    return (
        pa.array([array[i].as_py() for i in positions.to_pylist()], array.type)
        if needs_python(array.type)
        else array.take(positions)
    )


def needs_python(type_):
    return pa.types.is_binary_view(type_) or pa.types.is_string_view(type_)


def sort_key(value):
    text = "" if value is None else repr(value)
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        number = float(value)
        return (1, 1e309 if number != number else number)[1]
    if isinstance(value, datetime):
        return (value.replace(tzinfo=None) - EPOCH).total_seconds()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if hasattr(value, "toordinal"):
        return value.toordinal()
    data = (value if isinstance(value, bytes) else text.encode())[:6] if not isinstance(value, bool) else bytes([value])
    return float(int.from_bytes(data.ljust(6, b"\0"), "big")) if value is not None else -1e309


def nulls(r):
    return pa.array([r.random() < 0.15 for _ in range(ROWS)])


def converted(batch):
    ours = bridge.batch_from_pyarrow(batch)
    options = ReadOptions()
    (made,) = compile_converter(ours.schema, spark_schema(ours.schema, options), options).convert(ours)
    return made


def text_literal(value, r):
    quote = r.choice("'\"'")
    escaped = value.replace("\\", "\\\\").replace(quote, "\\" + quote)
    return quote + escaped.replace("\n", r.choice(["\n", "\\n"])) + quote


def number_literals(value, r):
    """Return SQL texts of a number and of numbers beside it."""
    if isinstance(value, float):
        if value != value or abs(value) == float("inf"):
            name = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
            return f"'{name}'"
        text = repr(value)
        forms = [f"{text}D", f"'{text}'", f"'  {text} '"]
        if abs(value) < 1e10 and "e" not in text:
            forms += [text, f"{text}BD", f"{text}F", str(int(value)), f"{int(value)}L"]
        return r.choice(forms)
    if isinstance(value, Decimal) and value == value.to_integral() and r.random() < 0.5:
        value = int(value)
    if isinstance(value, Decimal):
        text = f"{value:f}"
        return r.choice(
            [text, f"{text}BD", f"'{text}'", f"{float(value)!r}D", text.rstrip("0") + "0" if "." in text else text]
        )
    value += r.choice([0, 0, 0, 0, 1, -1])
    forms = [
        str(value),
        str(value),
        f"'{value}'",
        f"{value}.5",
        f"{value}.0",
        f"{value}BD",
        f"{value}D",
        f"{value}e0",
        f"' {value}'",
    ]
    if -(2**63) <= value < 2**63:
        forms += [f"{value}L"]
    if -(2**15) <= value < 2**15:
        forms += [f"{value}S", f"{value}F"]
    if -(2**7) <= value < 2**7:
        forms += [f"{value}Y"]
    return r.choice(forms)


def date_text(value):
    return f"{value.year:04}-{value.month:02}-{value.day:02}"


def instant_text(value, r):
    fraction = r.choice(["", f".{value.microsecond:06}"]) if not value.microsecond else f".{value.microsecond:06}"
    return f"{date_text(value)}{r.choice(' T')}{value.hour}:{value.minute:02}:{value.second:02}{fraction}"


WIDTHS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


def cast_literal(value, kind, r):
    """Return a cast of a literal that can be compared with a value of a column, or None."""
    if kind in WIDTHS:
        bound = 1 << (WIDTHS[kind] - 1)
        forms = [f"CAST('{value}' AS {kind})", f"CAST({value}BD AS {kind})"]
        if -bound < value < bound:
            forms += [f"CAST({value} AS {kind})"]
        return r.choice(forms)
    if kind in ("float", "double"):
        text = repr(value).replace("inf", "Infinity").replace("nan", "NaN")
        return r.choice([f"CAST('{text}' AS {kind})", f"CAST('{text}' AS DOUBLE)", f"CAST('{text}' AS FLOAT)"])
    if kind.startswith("decimal"):
        return r.choice(
            [f"CAST('{value:f}' AS {kind})", f"CAST({value:f}BD AS {kind})", f"CAST({value:f}BD AS DOUBLE)"]
        )
    if kind == "boolean":
        return f"CAST('{value}' AS BOOLEAN)"
    if kind in ("string", "binary") and isinstance(value, str) and "'" not in value and "\\" not in value:
        return f"CAST('{value}' AS {kind})"
    if kind == "date":
        return f"CAST('{date_text(value)}' AS DATE)"
    if kind in ("timestamp", "timestamp_ntz") and 1971 < value.year < 2100:
        return f"CAST('{instant_text(value.replace(tzinfo=None), r)}' AS {kind})"
    return None


def literal(value, kind, r):
    """Return an SQL text that stands for a value of a column, or for one that can be compared with it."""
    if value is None or r.random() < 0.02:
        return "NULL"
    if r.random() < 0.15 and (made := cast_literal(value, kind, r)) is not None:
        return made
    if kind == "boolean":
        return r.choice([str(value).upper(), str(value).lower(), f"'{value}'", "'t'", "'0'", "' no '"])
    if kind == "string":
        octets_beside = value.encode()[: r.randint(0, 3)] + r.choice([b"", b"\xff", b"\xc3", b"\xed\xa0\x80"])
        return text_literal(value, r) if r.random() < 0.85 else f"X'{octets_beside.hex()}'"
    if kind == "binary":
        return r.choice(
            [f"X'{value.hex()}'", f"x'{value.hex().upper()}'", f"'{value.decode()}'"]
            if value.isascii() and 0 not in value
            else [f"X'{value.hex()}'"]
        )
    if kind == "date":
        forms = [
            f"DATE '{date_text(value)}'",
            f"'{date_text(value)}'",
            f"DATE'{date_text(value)}'",
            f"'{date_text(value)} 12:00:00'",
        ]
        forms += [f"TIMESTAMP_NTZ '{date_text(value)} {r.choice(['00:00:00', '06:00'])}'"]
        if 1970 <= value.year < 2100:
            forms += [f"TIMESTAMP '{date_text(value)} {r.choice(['00:00:00', '04:30', '00:00:00Z'])}'"]
        return r.choice(forms)
    if kind in ("timestamp", "timestamp_ntz"):
        naive = value.replace(tzinfo=None)
        text = instant_text(naive, r)
        if kind == "timestamp_ntz":
            return r.choice([f"TIMESTAMP_NTZ '{text}'", f"'{text}'", f"DATE '{date_text(naive)}'"])
        if naive.year < 1971:  # one without an offset is refused
            return f"TIMESTAMP '{text}{r.choice(['Z', '+02:00', ' UTC'])}'"
        zones = ["Z", " UTC", "+00:00", "+02:00", " Europe/Berlin", "", "", ""]
        return r.choice(
            [
                f"TIMESTAMP '{text}{r.choice(zones)}'",
                f"'{text}{r.choice(zones)}'",
                f"DATE '{date_text(naive)}'",
                f"TIMESTAMP_NTZ '{text}'",
                f"TIMESTAMP_LTZ '{text}'",
            ]
        )
    if kind == "interval":
        return "NULL"  # the only literal beside intervals
    return number_literals(value, r)


COMPARISONS = ("=", "<=>", "<>", "<", "<=", ">", ">=")
NUMBERS = (
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "decimal(20,0)",
    "decimal(7,2)",
    "decimal(38,18)",
    "decimal(38,38)",
    "decimal(38,0)",
)
OPERATORS = (
    *COMPARISONS,
    "IS DISTINCT FROM",
    "IS NOT DISTINCT FROM",
    "equalities",
    "IN",
    "NOT IN",
    "BETWEEN",
    "IS NULL",
    "IS NOT NULL",
    "column",
)


def like_pattern(value, r):
    def escape(part):
        return (
            "".join("\\\\" + c if c in "%_" else "\\\\\\\\" if c == "\\" else c for c in part)
            .replace("'", "\\'")
            .replace("\n", "\\n")
        )

    cut = r.randint(0, len(value))
    middle = value[cut : cut + 2]
    return (
        "'"
        + r.choice(
            [
                escape(value),
                escape(value[:cut]) + "%",
                "%" + escape(value[cut:]),
                escape(value[:1]) + "%" + escape(value[-1:]),
                "%" + escape(middle) + "%",
                escape(value[:cut]) + "%%",
                "%",
            ]
        )
        + "'"
    )


def operators_of(kind):
    more = {"string": ("LIKE", "NOT LIKE", "test", "case"), "boolean": ("bare",), "date": ("part",)}.get(kind, ())
    return (*OPERATORS, *more)


def chosen(r, table, columns, pairs):
    """Return a column and an operator, of several the pair that was met least."""
    by_sorted = next(path for path in columns if quoted(path) == table.sorted_by)
    tries = []
    for _ in range(4):
        path = by_sorted if r.random() < 0.3 else r.choice(list(columns))
        tries.append((path, r.choice(operators_of(table.kinds[path]))))
    return min(tries, key=lambda one: pairs[one[1], table.kinds[one[0]]])


def narrow(r, table, columns, tally):
    """Return a condition that leaves out a part of the blocks."""
    path = next(path for path in columns if quoted(path) == table.sorted_by)
    return condition(r, table, columns, path, r.choice(["<", "<=", ">", ">=", "=", "BETWEEN"]), tally)


def condition(r, table, columns, path, operator, tally):
    """Return one condition over one column."""
    kind, values = table.kinds[path], columns[path]
    name = quoted(path) if r.random() < 0.7 or path[0] == "date" else quoted(path).upper()

    def one():
        return literal(r.choice(values), kind, r)

    tally[operator, kind] += 1
    if operator == "equalities":
        several = [f"{name} = {one()}" for _ in range(r.randint(2, 6))]
        return f"({' OR '.join(several)})" if r.random() < 0.5 else f"({' AND '.join(several).replace(' = ', ' <> ')})"
    if operator in COMPARISONS or "DISTINCT" in operator:
        sides = (name, one())
        spelled = {"=": r.choice(["=", "=="]), "<>": r.choice(["<>", "!="])}.get(operator, operator)
        return f" {spelled} ".join(sides if r.random() < 0.85 else sides[::-1])
    if operator in ("IN", "NOT IN"):
        options = [one() for _ in range(r.choice([1, 2, 3, 5, 14]))]
        return f"{name} {operator} ({', '.join(options)})"
    if operator == "BETWEEN":
        return f"{name} {r.choice(['', '', 'NOT '])}BETWEEN {one()} AND {one()}"
    if operator in ("IS NULL", "IS NOT NULL"):
        return f"{name} {operator}"
    if operator in ("LIKE", "NOT LIKE"):
        return f"{name} {operator} {like_pattern(r.choice(values) or '', r)}"
    if operator == "bare":
        return name
    if operator == "test":
        value = r.choice(values) or ""
        first = r.randint(0, len(value))
        part = text_literal(value[first : first + r.randint(0, 3)], r)
        return f"{r.choice(['', 'NOT '])}{r.choice(['startswith', 'endswith', 'Contains'])}({name}, {part})"
    if operator == "case":
        function = r.choice(["upper", "lower"])
        options = [text_literal(getattr(r.choice(values) or "", function)(), r) for _ in range(3)]
        return r.choice(
            [
                f"{function}({name}) {r.choice(COMPARISONS)} {options[0]}",
                f"{function}({name}) IN ({', '.join(options)})",
            ]
        )
    if operator == "part":
        part, value = r.choice(["year", "month", "day"]), r.choice(values)
        number = getattr(value, part) + r.choice([0, 0, 1, -1]) if value is not None else 1
        return r.choice(
            [f"{part}({name}) {r.choice(COMPARISONS)} {number}", f"{part}({name}) IN ({number}, 1, {number + 2})"]
        )
    is_own = r.random() < 0.6
    others = [other for other, its in table.kinds.items() if its == kind or (not is_own and are_compared(its, kind))]
    return f"{name} {r.choice(COMPARISONS)} {quoted(r.choice(others))}"


def are_compared(one, other):
    return (one in NUMBERS and other in NUMBERS) or {one, other} in ({"string", "binary"}, {"date", "timestamp_ntz"})


def make_predicate(r, table, columns, pairs, tally):
    """Return a predicate of up to four conditions."""
    parts = [
        condition(r, table, columns, *chosen(r, table, columns, pairs), tally)
        for _ in range(r.choice([1, 1, 1, 1, 2, 2, 3, 4]))
    ]
    parts = [f"NOT {part}" if r.random() < 0.08 else f"NOT ({part})" if r.random() < 0.05 else part for part in parts]
    text = parts[0]
    for part in parts[1:]:
        text = f"{text} {r.choice(['AND', 'AND', 'OR', 'and'])} {part}"
        if r.random() < 0.3:
            text = f"({text})"
    return f"({text}) AND {narrow(r, table, columns, tally)}" if r.random() < 0.5 else text


def column_values(table):
    found = {}
    for path in table.kinds:
        array = table.converted.column(path[0])
        if len(path) > 1:
            array = pa.compute.struct_field(array, list(path[1:]))
        found[path] = readable(array)
    return found


def readable(array):
    """Return the values that are not null, and that Python's dates can hold."""
    values = []
    for slot in array.drop_null():
        try:
            values.append(slot.as_py())
        except (OverflowError, ValueError):
            continue
    return values or [None]


def our_rows(table, text, zone, coverage, settings=()):
    """Return the rows that match by our filter, after blocks and partitions were skipped."""
    ours = bridge.batch_from_pyarrow(table.file)
    noted = {}
    fields = bridge.schema_from_pyarrow(table.converted.schema).fields
    bound = bind(parse(text, noted), fields, zone, dependencies=noted)
    check_settings(noted, lambda name: dict(settings).get(name, SETTINGS[name].default))
    matching = rows_of(compile_filter(bound, table.converted.schema).filter(table.converted))
    keep = block_filter(bound, ours.schema, table.statistics)
    truths = block_truths(bound, ours.schema, table.statistics)
    for i in range(ROWS // BLOCK_ROWS):
        rows = range(i * BLOCK_ROWS, (i + 1) * BLOCK_ROWS)
        assert truths(i) != prune.TRUE or set(rows) <= set(matching), f"not all rows of block {i} match: {text}"
        coverage.certain += truths(i) == prune.TRUE
    kept_blocks = [i for i in range(ROWS // BLOCK_ROWS) if keep(i)]
    left = [
        row
        for i in kept_blocks
        for row in rows_of(
            compile_filter(bound, table.converted.schema).filter(table.converted.slice(i * BLOCK_ROWS, BLOCK_ROWS))
        )
    ]
    assert left == matching, f"blocks were skipped that hold rows: {text}"
    kept_rows = [row for row, values in table.partitions.items() if prune.keeps_partition(bound, values)]
    assert {row for row in matching if row in table.partitions} <= set(kept_rows), (
        f"a partition was skipped that holds rows: {text}"
    )
    coverage.skipping += bool(matching) and len(kept_blocks) < ROWS // BLOCK_ROWS
    coverage.skipping_partitions += bool(matching) and len(kept_rows) < len(table.partitions)
    return matching


def partition_of(batch, row):
    """Return the top-level values of one row, as those of a hive partition."""
    values = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name == "n":
            continue
        with suppress(OverflowError, ValueError):
            values[name] = column[row].as_py()
    return values


def statistics_of(file):
    ours = bridge.batch_from_pyarrow(file)
    collector = StatisticsCollector(ours.schema, Statistics.ALL)
    for i in range(ROWS // BLOCK_ROWS):
        collector.add(ours.slice(i * BLOCK_ROWS, BLOCK_ROWS))
    statistics = read_statistics((collector.pair(),), ours.schema, ROWS // BLOCK_ROWS)
    assert statistics is not None
    return statistics


def rows_of(batch):
    return [] if batch is None else batch.column("row").to_pylist()


ZONES = (ZONE, "UTC", "Europe/Berlin", "Pacific/Apia", "Asia/Kolkata", "+05:30")


def other_value(name):
    """Return a value of a setting that is not its default."""
    if name == TIMESTAMP_TYPE:
        return "TIMESTAMP_NTZ"
    return {"true": "false", "false": "true"}[SETTINGS[name].default]


def worlds():
    """Yield the settings of a session, without end: pairs of a time zone, and settings that have not their defaults."""
    others = ({}, *({name: other_value(name)} for name in SETTINGS), *(
        {ANSI: "false", name: other_value(name)} for name in SETTINGS if name != ANSI
    ))  # fmt: skip
    # 24 settings and 6 zones: the zone moves on by one each round, so that all pairs are met.
    for turn in count_from(0):
        for i, settings in enumerate(others):
            yield ZONES[(i + turn) % len(ZONES)], settings


@contextmanager
def set_in(spark, zone, settings):
    for name, value in settings.items():
        spark.conf.set(name, value)
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        yield
    finally:
        for name in settings:
            spark.conf.unset(name)
        spark.conf.set("spark.sql.session.timeZone", ZONE)


def run(spark, count, seed, coverage, *, a_table=PREDICATES_A_TABLE, worlds=lambda: repeat((ZONE, {}))):
    """Compare `count` predicates with Spark's answers; returns the differences in words."""
    r = random.Random(seed)
    differences = []
    for zone_name, settings in worlds():
        if coverage.predicates >= count:
            return differences
        zone = time_zones.zone(zone_name)
        table = make_table(r)
        columns = column_values(table)
        asked, answers = [], []
        tried = 0
        while len(asked) < min(a_table, count - coverage.predicates) and tried < 4 * a_table:
            tried += 1
            tally = Counter()
            text = make_predicate(r, table, columns, coverage.pairs, tally)
            try:
                answer = our_rows(table, text, zone, coverage, settings)
            except OptionError as error:
                coverage.refused += 1
                named = next((name for name in settings if f"the session's setting {name}=" in str(error)), None)
                if named is not None:
                    coverage.by_setting[named] += 1
                elif not is_expected_refusal(error):
                    differences.append(f"{text}: refused: {error}")
                continue
            asked.append(text)
            answers.append(answer)
            coverage.pairs += tally
            coverage.selective += ROWS // 100 <= len(answer) <= ROWS - ROWS // 100
        coverage.predicates += len(asked)
        with set_in(spark, zone_name, settings):
            found = compare(spark_rows(spark, table, asked), asked, answers)
        differences += [f"{zone_name} {settings}: {words}" for words in found]
        coverage.answered.update([*settings.items()] * len(asked))
    raise AssertionError("worlds have an end")


EXPECTED_REFUSALS = (
    "does not cast the string column",
    "does not compare the columns",
    "a string that Spark casts to",
    "cannot compare",
    "a value that fits decimal",
    "does not cast the timestamp_ntz column",
    "expected an instant of the years",
    "is not certain",
    "were changed near",
    "skipped the days before",
    "() of ASCII strings alone",
    "a result within the range",
    "a result of at most 38 digits",
    "a value within the range",
    "a decimal of at most 38 digits",
    "a number within its type's range",
)


def is_expected_refusal(error):
    return any(words in str(error) for words in EXPECTED_REFUSALS)


def spark_rows(spark, table, predicates):
    """Return the rows of each predicate by Spark, all in one job; an error in words where it refuses one."""
    frame = frame_of(spark, table)
    try:
        return evaluated(frame, predicates)
    except Exception as error:  # noqa: BLE001 - of the JVM, of many kinds
        if len(predicates) == 1:
            return [str(error).splitlines()[0]]
        half = len(predicates) // 2
        return spark_rows(spark, table, predicates[:half]) + spark_rows(spark, table, predicates[half:])


def frame_of(spark, table):
    """Return the converted rows as a DataFrame. `createDataFrame` would take clock times for New York's."""
    ours = bridge.batch_from_pyarrow(table.file)
    batch = table.converted

    def rows(batches):
        for _ in batches:
            pass
        yield batch

    return spark.range(1).repartition(1).mapInArrow(rows, spark_schema(ours.schema, ReadOptions()))


def evaluated(frame, predicates):
    selected = frame.selectExpr("`row`", *(f"({text}) AS p{i}" for i, text in enumerate(predicates)))
    found = selected.toArrow().sort_by("row")
    rows = found.column("row").to_numpy()
    return [
        rows[found.column(i + 1).fill_null(fill_value=False).to_numpy().astype(bool)].tolist()
        for i in range(len(predicates))
    ]


def compare(expected, predicates, found):
    return [
        f"{text}: Spark {shown(theirs, ours)}, we {shown(ours, theirs)}"
        for text, theirs, ours in zip(predicates, expected, found, strict=True)
        if theirs != ours
    ]


def shown(rows, others):
    if isinstance(rows, str):
        return rows
    return f"{len(rows)} rows, alone with {sorted(set(rows) - set(others))[:5] if not isinstance(others, str) else ''}"


def session():
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.session.timeZone", ZONE).config("spark.driver.memory", "2g").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--settings", action="store_true")
    arguments = parser.parse_args()
    coverage = Coverage()
    more = {"a_table": 100, "worlds": worlds} if arguments.settings else {}
    differences = run(session(), arguments.count, arguments.seed, coverage, **more)
    print(
        f"{coverage.predicates:,} predicates, {coverage.refused:,} refused beside them, {len(differences):,} differences"
    )
    print(f"{coverage.selective / coverage.predicates:.1%} keep 1 % to 99 % of the rows")
    print(
        f"{coverage.skipping:,} skip a block and keep a row, {coverage.skipping_partitions:,} a partition; {coverage.certain:,} blocks match as a whole"
    )
    least = coverage.pairs.most_common()[-5:]
    print(f"{len(coverage.pairs)} pairs of operator and type, the rarest: {least}")
    print(*differences[:50], sep="\n")
    for (name, value), answered in sorted(coverage.answered.items()):
        print(f"{name}={value}: {answered:,} answered")
    for name, refused in sorted(coverage.by_setting.items()):
        print(f"{name}: {refused:,} refused by its name")
    # Upper and lower case are refused for every table whose strings are not ASCII, which most are.
    usual = [count for (operator, _), count in coverage.pairs.items() if operator != "case"]
    rare = min(usual) < 50 * coverage.predicates / 10_000
    enough = (
        not rare and coverage.selective >= 0.3 * coverage.predicates and coverage.skipping >= 0.2 * coverage.predicates
    )
    return 0 if enough and not differences else 1


if __name__ == "__main__":
    sys.exit(main())
