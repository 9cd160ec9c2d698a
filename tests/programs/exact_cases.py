"""Random nested tables that are rewritten, compacted, or read and written with ``restoreTypes``: the same, or refused.

Each case writes files with pyarrow, has one of three ways write them anew under random options of the read, and lets
pyarrow compare: every value and every type is what it was, or the way raised an error and changed no file. A way that
refuses too much would pass; so the outcomes are counted, and `LEAST_KEPT` is the least share that must be kept.

    python tests/programs/exact_cases.py --cases 3000 --seed 1
"""

import argparse
import json
import random
import struct
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from decimal import Decimal
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("", "tests", "tests/oracles", "tests/builders", "tests/fakes", "tests/programs")]  # fmt: skip

import arrow_files
import pyarrow as pa
from pyspark.sql import types as s
from rewrite_jobs import Tasks

from spark_arrow_ipc import compact, rewrite
from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.spark.options.options import parse_read, parse_write
from spark_arrow_ipc.spark.read.dataset_schema import read_spark_schema
from spark_arrow_ipc.spark.read.reader import ArrowIpcBatchReader
from spark_arrow_ipc.spark.write.writer import ArrowIpcBatchWriter

LEAST_KEPT = 0.25

# ---- types and values; a value is None, or odd now and then: what no type of Spark's holds


def integer(low, high):
    return lambda r: r.choice([low, high, 0, 1, r.randint(low, high)])


def odd(r):
    return r.random() < 0.05


def count(unit, most=2**43):
    """Counts that are whole microseconds (`ns`) or whole days (`day`), but for odd ones."""
    return lambda r: r.randint(-most, most) * unit + (r.randrange(unit) if odd(r) else 0)


def time_of_day(most, unit=1):
    return lambda r: r.randrange(most // unit) * unit + (r.randrange(unit) if odd(r) else 0)


def text(r):
    return r.choice(["", "a", "grün", "twelve bytes", "thirteen byte", "日本語のテキストです", "x" * 40, "\x00"])


def number(r):
    return r.choice([0.0, -0.0, 1.5, -2.25, 65504.0, float("inf"), float("nan")])


def decimal(precision, scale):
    return lambda r: Decimal(r.randint(-(10**precision) + 1, 10**precision - 1)).scaleb(-scale)


ZONES = (None, "UTC", "Europe/Berlin", "+05:30")
DAY_MS = 86_400_000

LEAVES = [
    (pa.null(), lambda _: None),
    (pa.bool_(), lambda r: r.random() < 0.5),
    *((getattr(pa, f"int{b}")(), integer(-(2 ** (b - 1)), 2 ** (b - 1) - 1)) for b in (8, 16, 32, 64)),
    *((getattr(pa, f"uint{b}")(), integer(0, 2**b - 1)) for b in (8, 16, 32, 64)),
    (pa.float16(), number),
    (pa.float32(), number),
    (pa.float64(), number),
    (pa.decimal32(7, 3), decimal(7, 3)),
    (pa.decimal64(18, 0), decimal(18, 0)),
    (pa.decimal128(38, 9), decimal(38, 9)),
    (pa.decimal128(5, -2), decimal(5, -2)),
    (pa.decimal256(30, 4), decimal(30, 4)),
    (pa.decimal256(60, 4), decimal(60, 4)),
    (pa.date32(), integer(-700_000, 2_900_000)),
    (pa.date64(), count(DAY_MS, 2_000_000)),
    (pa.time32("s"), time_of_day(86_400)),
    (pa.time32("ms"), time_of_day(DAY_MS)),
    (pa.time64("us"), time_of_day(DAY_MS * 1000)),
    (pa.time64("ns"), time_of_day(DAY_MS * 10**6, 1000)),
    *((pa.timestamp(u, z), count(n, m)) for u, n, m in (("s", 1, 2**33), ("ms", 1, 2**43), ("us", 1, 2**52), ("ns", 1000, 2**52)) for z in ZONES),
    *((pa.duration(u), count(n, m)) for u, n, m in (("s", 1, 2**33), ("ms", 1, 2**43), ("us", 1, 2**52), ("ns", 1000, 2**52))),
    (pa.month_day_nano_interval(), lambda r: pa.MonthDayNano([r.randint(-99, 99), r.randint(-99, 99), r.randint(-(2**60), 2**60)])),
    *((t, text) for t in (pa.string(), pa.large_string(), pa.string_view())),
    *((t, lambda r: text(r).encode() + b"\xff") for t in (pa.binary(), pa.large_binary(), pa.binary_view())),
    (pa.binary(0), lambda _: b""),
    (pa.binary(3), lambda r: r.randbytes(3)),
]  # fmt: skip
"""Each type with what makes a value of it, as its storage's number where it has one."""

TENSORS = [{}, {"dim_names": ["a", "b"]}, {"permutation": [1, 0]}, {"permutation": [1, 0], "dim_names": ["a", "b"]}]
EXTENSIONS = [
    (pa.uuid(), lambda r: r.randbytes(16)),
    (pa.bool8(), lambda r: r.choice([5, -1, -128]) if odd(r) else r.randrange(2)),
    (pa.json_(), lambda r: r.choice(["{}", "[1, 2]", '{"a": null}'])),
    *(
        (pa.fixed_shape_tensor(pa.int16(), [2, 3], **how), lambda r: [r.randrange(9) for _ in range(6)])
        for how in TENSORS
    ),
]
"""Of columns and of fields of structs, whose fields keep their metadata."""

INDICES = [getattr(pa, f"{sign}int{b}")() for b in (8, 16, 32, 64) for sign in ("", "u")]


def leaf(r, *, is_field):
    return r.choice(EXTENSIONS if is_field and r.random() < 0.1 else LEAVES)[0]


def random_type(r, depth, *, is_field=True):
    """Return a type up to some levels deep; ordered dictionaries, sorted maps and unions are rare, as they are refused."""
    if depth == 0 or r.random() < 0.45:
        return leaf(r, is_field=is_field)
    inner = random_type(r, depth - 1, is_field=False)
    plain = r.choice([type_ for type_, _ in LEAVES if type_ not in (pa.null(), pa.binary(0))])
    kinds = [
        lambda: pa.list_(inner),
        lambda: pa.large_list(inner),
        lambda: pa.list_view(inner),
        lambda: pa.large_list_view(inner),
        lambda: pa.list_(inner, r.randrange(3)),
        lambda: pa.struct([random_field(r, f"f{i}", depth - 1) for i in range(r.randrange(1, 4))]),
        lambda: pa.map_(r.choice([pa.string(), pa.int32(), pa.uint64(), pa.timestamp("ms")]), inner, keys_sorted=r.random() < 0.05),
        lambda: pa.dictionary(r.choice(INDICES), plain, ordered=r.random() < 0.05),
        lambda: pa.run_end_encoded(r.choice([pa.int16(), pa.int32(), pa.int64()]), plain),
    ]  # fmt: skip
    if r.random() < 0.02:
        members = [pa.field(f"u{i}", leaf(r, is_field=True)) for i in range(2)]
        return pa.union(members, r.choice(["sparse", "dense"]), [5, 7])
    return r.choice(kinds)()


def random_field(r, name, depth):
    type_ = random_type(r, depth)
    return pa.field(name, type_, pa.types.is_null(type_) or r.random() < 0.8, r.choice([None, {"k": "v"}]))


def random_array(r, type_, length, *, nulls=0.15):
    """Return an array of random values, by way of the storage of types."""
    if isinstance(type_, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(type_, leaves(r, type_, type_.storage_type, length, nulls))
    if pa.types.is_dictionary(type_):
        values = random_array(r, type_.value_type, 3, nulls=0)
        indices = pa.array([None if r.random() < nulls else r.randrange(3) for _ in range(length)], type_.index_type)
        return pa.DictionaryArray.from_arrays(indices, values, ordered=type_.ordered)
    if pa.types.is_run_end_encoded(type_):
        ends = sorted({length, *(r.randint(1, length) for _ in range(2))}) if length else []
        values = random_array(r, type_.value_type, len(ends), nulls=nulls)
        return pa.RunEndEncodedArray.from_arrays(pa.array(ends, type_.run_end_type), values)
    if pa.types.is_union(type_):
        ids = pa.array([r.choice(type_.type_codes) for _ in range(length)], pa.int8())
        children = [random_array(r, field.type, length) for field in type_]
        names = [field.name for field in type_]
        if type_.mode == "sparse":
            return pa.UnionArray.from_sparse(ids, children, names, type_.type_codes)
        return pa.UnionArray.from_dense(ids, pa.array(range(length), pa.int32()), children, names, type_.type_codes)
    if pa.types.is_struct(type_):
        mask = pa.array([r.random() < nulls for _ in range(length)], pa.bool_())
        children = [random_array(r, field.type, length, nulls=nulls if field.nullable else 0) for field in type_]
        return pa.StructArray.from_arrays(children, fields=list(type_), mask=mask)
    if pa.types.is_map(type_):
        sizes = [None if r.random() < nulls else r.randrange(3) for _ in range(length)]
        total = sum(size or 0 for size in sizes)
        keys = pa.array([f"{i:03}" if type_.key_type == pa.string() else i for i in range(total)], pa.string() if type_.key_type == pa.string() else pa.int64())  # fmt: skip
        made = pa.MapArray.from_arrays(offsets_of(sizes, pa.int32()), keys.cast(type_.key_type), random_array(r, type_.item_type, total))  # fmt: skip
        return made if made.type == type_ else made.cast(type_)
    if pa.types.is_fixed_size_list(type_):
        valid = pa.array([r.random() >= nulls for _ in range(length)], pa.bool_())
        child = random_array(r, type_.value_type, length * type_.list_size)
        return pa.Array.from_buffers(type_, length, [valid.buffers()[1]], children=[child])
    kind = {pa.ListType: pa.ListArray, pa.LargeListType: pa.LargeListArray, pa.ListViewType: pa.ListViewArray, pa.LargeListViewType: pa.LargeListViewArray}.get(type(type_))  # fmt: skip
    if kind is None:
        return leaves(r, type_, type_, length, nulls)
    sizes = [None if r.random() < nulls else r.randrange(4) for _ in range(length)]
    child = random_array(r, type_.value_type, sum(size or 0 for size in sizes))
    width = pa.int64() if "Large" in kind.__name__ else pa.int32()
    offsets = offsets_of(sizes, width)
    if "View" in kind.__name__:
        mask = pa.array([size is None for size in sizes], pa.bool_())
        begins = [offset.as_py() or 0 for offset in offsets][:length]
        return kind.from_arrays(pa.array(begins, width), pa.array([size or 0 for size in sizes], width), child, type=type_, mask=mask)  # fmt: skip
    return kind.from_arrays(offsets, child, type=type_)


def offsets_of(sizes, width):
    """Return value offsets, null where the list is."""
    offsets, at = [], 0
    for size in sizes:
        offsets.append(None if size is None else at)
        at += size or 0
    return pa.array([*offsets, at], width)


def leaves(r, type_, storage, length, nulls):
    make = next(make for each, make in (*LEAVES, *EXTENSIONS) if each == type_)
    values = [None if r.random() < nulls else make(r) for _ in range(length)]
    if pa.types.is_float16(storage):
        return pa.array(values, pa.float32()).cast(storage)
    if pa.types.is_temporal(storage) and not pa.types.is_interval(storage):
        wide = pa.int64() if storage.bit_width == 64 else pa.int32()
        return pa.array(values, wide).view(storage)
    return pa.array(values, storage)


def random_table(r, rows, fields):
    """Return a table; arrays that pyarrow makes of random parts and then calls invalid itself are made again."""
    while True:
        with suppress(pa.ArrowInvalid):
            return made_table(r, rows, fields)


def made_table(r, rows, fields):
    columns = [random_array(r, field.type, rows, nulls=0.15 if field.nullable else 0) for field in fields]
    return pa.Table.from_arrays([pa.array(range(rows), pa.int64()), *columns], schema=pa.schema([pa.field("id", pa.int64()), *fields], {"owner": "me"}))  # fmt: skip


# ---- what is compared, by pyarrow


def plain(scalar):
    """Return a value with all that tells it from others: bits of floats, counts of instants, codes of unions."""
    if scalar is None:  # that of a dictionary, runs or union may be
        return None
    type_ = scalar.type
    if isinstance(type_, pa.BaseExtensionType) or pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_):
        return plain(scalar.value)
    if pa.types.is_union(type_):
        return scalar.type_code, plain(scalar.value)
    if not scalar.is_valid:
        return None
    if pa.types.is_nested(type_) and not pa.types.is_struct(type_):
        return [plain(value) for value in scalar.values]
    if pa.types.is_struct(type_):
        return [plain(scalar[i]) for i in range(type_.num_fields)]
    if pa.types.is_floating(type_):
        value = scalar.cast(pa.float64()).as_py()
        return "nan" if value != value else struct.pack("<d", value)
    if pa.types.is_temporal(type_):
        return scalar.as_py() if pa.types.is_interval(type_) else scalar.value
    return scalar.as_py()


def described(field):
    """Return a field as what must stay: all but whether it may be null."""
    type_ = field.type
    below = [described(type_.field(i)) for i in range(type_.num_fields)] if not isinstance(type_, pa.BaseExtensionType) else []  # fmt: skip
    if pa.types.is_dictionary(type_):
        below = [str(type_.index_type), described(pa.field("", type_.value_type)), type_.ordered]
    if pa.types.is_run_end_encoded(type_):
        below = [str(type_.run_end_type), described(pa.field("", type_.value_type))]
    own = str(type_) if not below else type(type_).__name__
    extra = [getattr(type_, name, None) for name in ("list_size", "keys_sorted", "type_codes", "mode")]
    return field.name, own, extra, below, sorted((field.metadata or {}).items())


def pairs_of(schema):
    """Return the metadata of a schema but for the note of Spark's types, which a TIME of Spark's adds."""
    return str({key: value for key, value in (schema.metadata or {}).items() if key != b"spark_arrow_ipc.spark_schema"})


def contents(tables):
    """Return the schemas and the rows of tables, in the order of their ids."""
    rows = [tuple(map(plain, row)) for table in tables for batch in table.to_batches() for row in zip(*batch.columns, strict=True)]  # fmt: skip
    schemas = {(str([described(field) for field in table.schema]), pairs_of(table.schema)) for table in tables}
    return schemas, sorted(map(repr, rows))


def files_below(root):
    """Return the bytes of all files that a reader sees."""
    paths = (path for path in Path(root).rglob("*.arrow") if not any(p.startswith(("_", ".")) for p in path.relative_to(root).parts))  # fmt: skip
    return {path: path.read_bytes() for path in sorted(paths)}


def tables_below(root):
    return [pa.ipc.open_file(data).read_all() for data in files_below(root).values()]


# ---- the ways


def unchanged(batches):
    yield from batches


OPTIONS = {
    "nanoseconds": ("floor", "error", "long"),
    "times": ("interval", "time", "long"),
    "extensionTypes": ("convert", "storage", "tensor", "all"),
    "vectors": ("array", "binary"),
    "mergeSchema": ("true",),
    "validation": ("structural",),
}


EVERY = [{}, *({name: value} for name, values in OPTIONS.items() for value in values)]


def random_options(r):
    return {name: r.choice(values) for name, values in OPTIONS.items() if r.random() < 0.25}


def by_rewrite(r, root, options):
    function = r.choice([None, None, unchanged])
    where = {"where": "id >= 0"} if r.random() < 0.2 else {}
    rewrite(Tasks(), root, root, function, mode="overwrite", restoreTypes=True, sort_by=r.choice([(), "id"]), **where, **options)  # fmt: skip


def by_compact(_r, root, _options):
    compact(Tasks(), root, retention=0)


def by_frames(_r, root, options):
    """Do what Spark calls for a read and an overwrite, with the schema as it comes back from the JVM."""
    reading = parse_read({"path": str(root), **options})
    schema = read_spark_schema(reading)
    reader = ArrowIpcBatchReader(schema, reading)
    given = parse_write({"path": str(root), "restoreTypes": "true"})
    writer = ArrowIpcBatchWriter.plan(
        s.StructType.fromJson(json.loads(schema.json())), str(root), given, overwrite=True
    )
    try:
        writer.commit([writer.write(reader.read(partition)) for partition in reader.partitions()])
    except BaseException:
        writer.abort([])
        raise


WAYS = {"rewrite": by_rewrite, "compact": by_compact, "read and write": by_frames}


def check(r, root, way, *, fields=None, options=None):
    """Run one case; return ``kept``, or the error that refused it."""
    fields = [random_field(r, f"c{i}", 3) for i in range(r.randrange(1, 4))] if fields is None else fields
    for name in "ab":
        arrow_files.write(root / f"{name}.arrow", random_table(r, r.randrange(1, 9), fields))
    before, files = contents(tables_below(root)), files_below(root)
    options = random_options(r) if options is None else options
    try:
        WAYS[way](r, root, options)
    except ArrowIpcError as error:
        assert files == files_below(root), "refused, and yet changed"
        return type(error).__name__, str(error)
    after = contents(tables_below(root))
    if way == "read and write":  # the metadata of the schema is no part of a DataFrame
        before, after = (({s for s, _ in schemas}, rows) for schemas, rows in (before, after))
    assert before == after, (way, options, [str(field) for field in fields], before, after)
    return "kept", ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--reasons", action="store_true")
    arguments = parser.parse_args()
    outcomes, reasons, wrong = Counter(), Counter(), []
    with tempfile.TemporaryDirectory() as directory:
        for i in range(arguments.first, arguments.cases):
            for way in WAYS:
                try:
                    outcome, reason = check(random.Random(f"{arguments.seed} {i}"), Path(directory) / f"{i} {way}", way)
                except AssertionError as error:
                    wrong.append((i, way, error))
                    outcome, reason = "WRONG", ""
                outcomes[way, outcome] += 1
                reasons[way, " ".join(w for w in reason.split() if w.isalpha())[:150]] += 1
    for (way, outcome), number in sorted(outcomes.items()):
        print(f"{number:5} {way}: {outcome}")
    for (way, reason), number in sorted(reasons.items() if arguments.reasons else ()):
        print(f"{number:5} {way}: {reason}")
    for i, way, error in wrong[:10]:
        print(f"case {i} {way}: {str(error)[:1500]}", file=sys.stderr)
    print(f"{sum(outcomes.values())} tables, {len(wrong)} wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
