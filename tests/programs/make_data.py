"""Writes tests/data: small files by pyarrow, broken ones, what each holds, and their list (MANIFEST.tsv).

    python tests/programs/make_data.py [directory]

Deterministic: the same pyarrow writes the same bytes. Contents are stored as Arrow's integration JSON made from
pyarrow's values (integration_from_pyarrow), so the tests that read them need no pyarrow.
"""

import datetime as dt
import gzip
import itertools
import json
import math
import struct
import sys
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in ("", "tests", "tests/oracles", "tests/builders", "tests/fakes", "tests/programs")]  # fmt: skip

import integration_from_pyarrow
import pyarrow as pa
from pyarrow import ipc

DATA = Path(__file__).parents[1] / "data"
HEADER = ("path", "format", "expect", "contents", "note")
WRITTEN_BY = "PYARROW_VERSION"
"""Name of the file that says which pyarrow wrote the data."""


@dataclass(frozen=True)
class Contents:
    """A schema and batches; `batch_metadata` and `footer_metadata` go into the messages and the footer."""

    schema: pa.Schema
    batches: tuple
    batch_metadata: tuple = ()
    footer_metadata: dict = field(default_factory=dict)


def contents(columns, *, slices=((0, None),), fields=None, metadata=None):
    """Return contents of named columns, written in slices: pyarrow must cut them."""
    arrays = list(columns.values())
    schema = pa.schema(fields or [pa.field(name, array.type) for name, array in columns.items()], metadata=metadata)
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    return Contents(schema, tuple(batch.slice(*s) for s in slices))


def integers():
    columns = {}
    for bits in (8, 16, 32, 64):
        high = 1 << (bits - 1)
        columns[f"int{bits}"] = pa.array([-high, None, 0, high - 1, 7], f"int{bits}")
        columns[f"uint{bits}"] = pa.array([0, 1, None, 2 * high - 1, 7], f"uint{bits}")
    columns["bool"] = pa.array([True, None, False, True, False])
    columns["no_nulls"] = pa.array(range(5), pa.int32())
    return contents(columns, slices=((0, 2), (2, 3)))


def floats():
    values = [0.0, -0.0, 1.5, None, math.inf, -math.inf, math.nan, 0.1]
    types = {"half": pa.float16(), "single": pa.float32(), "double": pa.float64()}
    return contents({name: pa.array(values, type_) for name, type_ in types.items()})


def decimals():
    small = [Decimal("0.01"), None, Decimal("-12345.67"), Decimal("0.00")]
    columns = {
        "decimal32": pa.array(small, pa.decimal32(9, 2)),
        "decimal64": pa.array(small, pa.decimal64(18, 2)),
        "decimal128": pa.array([*small[:2], Decimal("9" * 36 + ".99"), Decimal("-0.01")], pa.decimal128(38, 2)),
        "decimal256": pa.array([*small[:2], Decimal("-" + "9" * 74 + ".99"), Decimal(1)], pa.decimal256(76, 2)),
        "negative_scale": pa.array([Decimal("1.2E+5"), None, Decimal(0), Decimal("-9E+4")], pa.decimal128(5, -4)),
    }
    return contents(columns)


def temporal():
    units = ("s", "ms", "us", "ns")
    counts = [0, None, -1, 86_399, 1_700_000_000]
    columns = {
        "date32": pa.array([0, None, -1, 19_000, -700_000], pa.int32()).cast(pa.date32()),
        "date64": pa.array([0, None, -86_400_000, 864_000_000, 0], pa.int64()).cast(pa.date64()),
        "time32_s": pa.array([0, None, 1, 86_399, 43_200], pa.time32("s")),
        "time32_ms": pa.array([0, None, 1, 86_399_999, 43_200], pa.time32("ms")),
        "time64_us": pa.array([0, None, 1, 86_399_999_999, 43_200], pa.time64("us")),
        "time64_ns": pa.array([0, None, 1, 86_399_999_999_999, 43_200], pa.time64("ns")),
        "interval": pa.array(
            [(1, -2, 3), None, (0, 0, 0), (-1, 2, -(1 << 62)), (12, 31, 1)], pa.month_day_nano_interval()
        ),
    }
    for unit in units:
        columns[f"timestamp_{unit}"] = pa.array(counts, pa.timestamp(unit))
        columns[f"timestamp_{unit}_utc"] = pa.array(counts, pa.timestamp(unit, "UTC"))
        columns[f"timestamp_{unit}_paris"] = pa.array(counts, pa.timestamp(unit, "Europe/Paris"))
        columns[f"duration_{unit}"] = pa.array(counts, pa.duration(unit))
    columns["timestamp_offset"] = pa.array(counts, pa.timestamp("ms", "+05:30"))
    return contents(columns)


def texts():
    words = ["", None, "a", "twelve bytes", "thirteen byte", "Grüße, 世界 🌍", "the same long text twice, twice"]
    blobs = [None if word is None else word.encode() + b"\x00\xff" for word in words]
    columns = {
        **{str(type_): pa.array(words, type_) for type_ in (pa.utf8(), pa.large_utf8(), pa.string_view())},
        **{str(type_): pa.array(blobs, type_) for type_ in (pa.binary(), pa.large_binary(), pa.binary_view())},
        "fixed3": pa.array([b"abc", None, b"\x00\x00\x00", b"xyz", b"\xff\xff\xff", b"123", b"   "], pa.binary(3)),
        "fixed0": pa.array([b"", None, b"", b"", b"", b"", b""], pa.binary(0)),
        "all_null": pa.array([None] * 7, pa.utf8()),
    }
    return contents(columns, slices=((0, 4), (4, 3)))


def lists():
    values = [[1, 2], None, [], [3, None, 4], [5]]
    nested = [[["a", None], []], None, [], [None, ["b"]], [["c", "d", "e"]]]
    structs = [[{"x": 1, "y": "a"}], None, [], [None, {"x": None, "y": None}], [{"x": 2, "y": "b"}]]
    columns = {
        "list": pa.array(values, pa.list_(pa.int32())),
        "large_list": pa.array(values, pa.large_list(pa.int64())),
        "fixed_size": pa.array([[1, 2], None, [None, 3], [4, 5], [6, 7]], pa.list_(pa.int16(), 2)),
        "fixed_size_0": pa.array([[], None, [], [], []], pa.list_(pa.int16(), 0)),
        "list_view": pa.ListViewArray.from_arrays(
            pa.array([4, 0, 0, 1, 1], pa.int32()),
            pa.array([2, 0, 0, 3, 2], pa.int32()),
            pa.array([9, 8, None, 6, 5, 4]),
        ),
        "large_list_view": pa.array(values, pa.large_list_view(pa.int8())),
        "nested": pa.array(nested, pa.list_(pa.list_(pa.utf8()))),
        "structs": pa.array(structs, pa.list_(pa.struct([("x", pa.int8()), ("y", pa.utf8())]))),
        "bools": pa.array([[True], None, [False, None], [], [True] * 9], pa.list_(pa.field("element", pa.bool_()))),
    }
    return contents(columns, slices=((0, 3), (3, 2)))


def structs():
    type_ = pa.struct(
        [pa.field("a", pa.int32(), nullable=False), ("b", pa.struct([("c", pa.utf8()), ("d", pa.bool_())]))]
    )
    rows = [{"a": 1, "b": {"c": "x", "d": True}}, None, {"a": 2, "b": None}, {"a": 3, "b": {"c": None, "d": None}}]
    masked = pa.StructArray.from_arrays(
        [pa.array([1, 2, 3, 4]), pa.array(["under", "a", "null", None])],
        ["x", "y"],
        mask=pa.array([True, False, True, False]),
    )
    columns = {
        "struct": pa.array(rows, type_),
        "values_below_null": masked,
        "no_children": pa.array([{}, None, {}, {}], pa.struct([])),
        "map": pa.array([[("k", 1), ("l", None)], None, [], [("m", 2)]], pa.map_(pa.utf8(), pa.int32())),
        "sorted_map": pa.array(
            [[(1, [1])], [], None, [(2, None), (3, [])]], pa.map_(pa.int8(), pa.list_(pa.int8()), keys_sorted=True)
        ),
    }
    return contents(columns, slices=((0, 3), (3, 1)))


def unions():
    codes = pa.array([5, 7, 5, 9, 7, 5], pa.int8())
    numbers, words = pa.array([1, None, 3, 4, 5, 6], pa.int32()), pa.array(["a", "b", None, "d", "e", "f"])
    lists_ = pa.array([[1], None, [2, 3], [4], [], None], pa.list_(pa.int8()))
    positions = pa.array([0, 0, 1, 0, 1, 2], pa.int32())
    names, ids = ["number", "word", "list"], [5, 7, 9]
    dense = pa.UnionArray.from_dense(
        codes, positions, [numbers.slice(0, 3), words.slice(0, 2), lists_.slice(3, 1)], names, ids
    )
    columns = {
        "sparse": pa.UnionArray.from_sparse(codes, [numbers, words, lists_], names, ids),
        "dense": dense,
        "in_list": pa.ListArray.from_arrays(pa.array([0, 2, 2, 3, 3, 5, 6], pa.int32()), dense),
    }
    return contents(columns)


def dictionaries():
    words = pa.array(["red", "green", None, "blue"])
    columns = {}
    for bits, sign in itertools.product((8, 16, 32, 64), ("int", "uint")):
        indices = pa.array([0, 1, None, 3, 2, 0], f"{sign}{bits}")
        columns[f"{sign}{bits}"] = pa.DictionaryArray.from_arrays(indices, words)
    index = pa.array([1, 0, None, 1, 1, 0], pa.int8())
    columns["ordered"] = pa.DictionaryArray.from_arrays(index, pa.array(["low", "high"]), ordered=True)
    columns["of_decimals"] = pa.DictionaryArray.from_arrays(index, pa.array([Decimal("1.5"), Decimal("2.5")]))
    columns["of_timestamps"] = pa.DictionaryArray.from_arrays(index, pa.array([1, 2], pa.timestamp("ms", "UTC")))
    columns["of_views"] = pa.DictionaryArray.from_arrays(
        index, pa.array(["short", "a text beyond twelve bytes"], pa.string_view())
    )
    columns["of_lists"] = pa.DictionaryArray.from_arrays(index, pa.array([[1, None], []], pa.list_(pa.int32())))
    encoded = columns["int8"]
    columns["in_list"] = pa.ListArray.from_arrays(pa.array([0, 2, 2, 3, 4, 6, 6], pa.int32()), encoded)
    columns["in_struct"] = pa.StructArray.from_arrays([encoded, pa.array(range(6))], ["word", "number"])
    nested = pa.StructArray.from_arrays([encoded.slice(0, 2)], ["word"])
    columns["in_dictionary"] = pa.DictionaryArray.from_arrays(index, nested)
    return contents(columns)


def run_ends():
    columns = {}
    for bits in (16, 32, 64):
        ends = pa.array([2, 5, 6], f"int{bits}")
        columns[f"ends{bits}"] = pa.RunEndEncodedArray.from_arrays(ends, pa.array(["a", None, "b"]))
    ends = pa.array([1, 6], pa.int32())
    columns["of_lists"] = pa.RunEndEncodedArray.from_arrays(ends, pa.array([[1, 2], None], pa.list_(pa.int32())))
    return contents(columns)


def extensions():
    ids = [uuid.UUID(int=1).bytes, None, uuid.UUID(int=1 << 127).bytes]
    columns = {
        "uuid": pa.ExtensionArray.from_storage(pa.uuid(), pa.array(ids, pa.binary(16))),
        "json": pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a": 1}', None, "[]"])),
        "bool8": pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, None, 0], pa.int8())),
    }
    columns["in_list"] = pa.ListArray.from_arrays(pa.array([0, 1, 3, 3], pa.int32()), columns["uuid"])
    return contents(columns)


def nulls():
    return contents(
        {"null": pa.nulls(3), "list": pa.array([[None], None, []], pa.list_(pa.null())), "int": pa.array([1, 2, 3])}
    )


def metadata():
    fields = [
        pa.field("a", pa.int8(), nullable=False, metadata={"unit": "m", "": "empty key", "ключ": "значение"}),
        pa.field("b", pa.struct([pa.field("c", pa.utf8(), metadata={"nested": "yes"})])),
        pa.field("", pa.int8(), metadata={"ARROW:extension:name": "example.unknown", "ARROW:extension:metadata": "v1"}),
    ]
    columns = {
        "a": pa.array([1, 2], pa.int8()),
        "b": pa.array([{"c": "x"}, None], fields[1].type),
        "": pa.array([3, 4], pa.int8()),
    }
    made = contents(columns, fields=fields, metadata={"origin": "tests", "second": "2"}, slices=((0, 1), (1, 1)))
    return Contents(
        made.schema, made.batches, ({"batch": "first", "x": ""}, {"batch": "second"}), {"footer": "end", "f": "2"}
    )


def duplicate_names():
    schema = pa.schema(
        [("a", pa.int8()), ("a", pa.utf8()), ("A", pa.int8()), ("s", pa.struct([("x", pa.int8()), ("x", pa.int8())]))]
    )
    inner = pa.StructArray.from_arrays(
        [pa.array([1, 2], pa.int8()), pa.array([3, 4], pa.int8())], fields=list(schema.field("s").type)
    )
    arrays = [pa.array([1, 2], pa.int8()), pa.array(["x", "y"]), pa.array([5, 6], pa.int8()), inner]
    return Contents(schema, (pa.RecordBatch.from_arrays(arrays, schema=schema),))


def sliced():
    """Return batches that begin in the middle of a byte, a list, a union and a run."""
    parts = [f().batches for f in (integers, lists, structs)]
    row = [
        column for batches in parts for column in (pa.Table.from_batches(batches).slice(1, 3).combine_chunks().columns)
    ]
    arrays = [column.combine_chunks() for column in row]
    names = [f"c{i}" for i in range(len(arrays))]
    made = contents(dict(zip(names, arrays, strict=True)))
    return Contents(made.schema, (made.batches[0].slice(1, 2),))


def zero_batches():
    return Contents(texts().schema, ())


def zero_rows():
    every = (integers, floats, decimals, temporal, texts, lists, structs, dictionaries, nulls, extensions)
    columns = {
        f"{f.__name__}.{n}": c.slice(0, 0)
        for f in every
        for n, c in zip(f().schema.names, f().batches[0].columns, strict=True)
    }
    return contents(columns)


def zero_columns():
    batch = pa.RecordBatch.from_struct_array(pa.array([{}] * 3, pa.struct([])))
    return Contents(batch.schema, (batch,))


def many_rows():
    """Return columns that compress well, and one that does not (its buffer is stored with length -1)."""
    noise, state = [], 1
    for _ in range(300):
        state = state * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
        noise.append(state - (1 << 63))
    columns = {
        "ramp": pa.array([i // 30 for i in range(300)], pa.int64()),
        "noise": pa.array(noise, pa.int64()),
        "word": pa.array([f"word {i % 7}" if i % 5 else None for i in range(300)]),
        "day": pa.array([dt.date(2020, 1, 1) + dt.timedelta(i // 50) for i in range(300)]),
    }
    return contents(columns, slices=((0, 200), (200, 100)))


PLAIN = ("file", "stream")
PACKED = ("file.lz4", "file.zstd", "stream.lz4", "stream.zstd")
OLD = ("stream.v4", "stream.v4.legacy", "file.legacy")

CASES = (
    (integers, (*PLAIN, *PACKED, *OLD)),
    (floats, PLAIN),
    (decimals, (*PLAIN, "file.lz4")),
    (temporal, PLAIN),
    (texts, (*PLAIN, "file.lz4", "stream.zstd")),
    (lists, PLAIN),
    (structs, PLAIN),
    (unions, (*PLAIN, "file.v4", "stream.v4", "stream.zstd")),
    (dictionaries, (*PLAIN, "file.zstd")),
    (run_ends, (*PLAIN, "file.zstd")),
    (extensions, PLAIN),
    (nulls, PLAIN),
    (metadata, PLAIN),
    (duplicate_names, PLAIN),
    (sliced, ("stream",)),
    (zero_batches, PLAIN),
    (zero_rows, ("stream",)),
    (zero_columns, PLAIN),
    (many_rows, ("file.lz4", "stream.zstd")),
)
"""Contents, and the formats in which they are written: container, compression, metadata version, framing."""


def write(made, variant):
    """Return the bytes of contents as a variant says."""
    kind, *extras = variant.split(".")
    codec = next((e for e in extras if e in ("lz4", "zstd")), None)
    version = ipc.MetadataVersion.V4 if "v4" in extras else ipc.MetadataVersion.V5
    options = ipc.IpcWriteOptions(metadata_version=version, compression=codec, use_legacy_format="legacy" in extras)
    sink = pa.BufferOutputStream()
    if kind == "file":
        writer = ipc.new_file(sink, made.schema, options=options, metadata=made.footer_metadata or None)
    else:
        writer = ipc.new_stream(sink, made.schema, options=options)
    with writer:
        for batch, pairs in itertools.zip_longest(made.batches, made.batch_metadata):
            writer.write_batch(batch, custom_metadata=pairs)
    return sink.getvalue().to_pybytes()


def broken(file, stream):
    """Yield (name, format, bytes, note) of what must be refused."""
    footer = struct.unpack("<i", file[-10:-6])[0]
    yield "empty.arrow", "unknown", b"", "no bytes"
    yield "text.arrow", "unknown", b"id,name\n1,first\n2,second\n", "a text file"
    yield "parquet.arrow", "unknown", b"PAR1" + bytes(64) + struct.pack("<i", 40) + b"PAR1", "looks like Parquet"
    yield "feather_v1.arrow", "feather1", b"FEA1" + bytes(64) + struct.pack("<i", 40) + b"FEA1", "Feather V1"
    yield "magic_only.arrow", "file", b"ARROW1", "the magic and nothing else"
    yield "cut_in_body.arrow", "file", file[: len(file) // 2], "file cut in the middle"
    yield "cut_in_footer.arrow", "file", file[: -10 - footer // 2], "file cut in the footer"
    yield "no_footer.arrow", "file", file[: -10 - footer], "file cut before its footer"
    yield "wrong_trailing_magic.arrow", "file", file[:-6] + b"ARROW2", "last six bytes are not the magic"
    for name, length in (("huge", 0x7FFFFFFF), ("negative", -1), ("zero", 0)):
        yield (
            f"footer_length_{name}.arrow",
            "file",
            file[:-10] + struct.pack("<i", length) + file[-6:],
            f"footer length {length}",
        )
    yield "footer_noise.arrow", "file", file[: -10 - footer] + b"\xa5" * footer + file[-10:], "footer of noise"
    yield "cut_in_schema.arrows", "stream", stream[:100], "stream cut in the schema message"
    yield "cut_in_body.arrows", "stream", stream[:-40], "stream cut in the last body"
    yield "cut_in_length.arrows", "stream", stream[:6], "stream cut in the first length"
    yield (
        "huge_length.arrows",
        "stream",
        stream[:4] + struct.pack("<i", 0x7FFFFFF0) + stream[8:],
        "metadata length beyond the end",
    )
    yield "negative_length.arrows", "stream", stream[:4] + struct.pack("<i", -8) + stream[8:], "metadata length -8"
    yield "metadata_noise.arrows", "stream", stream[:8] + b"\xa5" * 64 + stream[72:], "noise in the schema message"


def build():
    """Return all files by name, as bytes."""
    files, rows = {}, [HEADER]
    for make, variants in CASES:
        made = make()
        document = integration_from_pyarrow.to_json(made.schema, made.batches)
        text = json.dumps(document, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        expected = f"{make.__name__}.json.gz"
        files[expected] = gzip.compress(text.encode(), mtime=0)
        for variant in variants:
            kind = variant.split(".")[0]
            name = f"{make.__name__}{variant.removeprefix(kind)}.{'arrow' if kind == 'file' else 'arrows'}"
            files[name] = write(made, variant)
            rows.append((name, kind, "ok", expected, f"{variant}; {len(made.batches)} batches"))
    file, stream = files["duplicate_names.arrow"], files["duplicate_names.arrows"]
    files["no_end_marker.arrows"] = stream[:-8]
    rows.append(
        ("no_end_marker.arrows", "stream", "ok", "duplicate_names.json.gz", "a stream may end without the marker")
    )
    for name, kind, content, note in broken(file, stream):
        files[name] = content
        rows.append((name, kind, "error", "", note))
    files["MANIFEST.tsv"] = "".join("\t".join(row) + "\n" for row in rows).encode()
    files[WRITTEN_BY] = f"{pa.__version__}\n".encode()
    return files


def main(directory=DATA):
    """Write all files, and remove those that are no longer made."""
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    files = build()
    for path in directory.iterdir():
        if path.name not in files:
            path.unlink()
    for name, content in files.items():
        (directory / name).write_bytes(content)
    print(f"{len(files)} files, {sum(map(len, files.values())):,} bytes in {directory}")


if __name__ == "__main__":
    main(*sys.argv[1:])
