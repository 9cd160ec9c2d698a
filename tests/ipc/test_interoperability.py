"""What we write is read equal by pyarrow, polars and nanoarrow, and what they write is read equal by us.

What another library cannot read stands in a table with the reason, as its release of the test environment gives it.
"""

import datetime as dt
import io

import pytest
from batch_difference import batch_difference

pa = pytest.importorskip("pyarrow")
na = pytest.importorskip("nanoarrow")
pl = pytest.importorskip("polars")

import numpy as np  # noqa: E402
import strategies  # noqa: E402
from arrow_cases import ARRAYS  # noqa: E402
from arrow_from_pyarrow import batch_from_pyarrow, from_pyarrow, schema_from_pyarrow  # noqa: E402
from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from pylist_cases import CASES, case_id  # noqa: E402

from spark_arrow_ipc import ipc  # noqa: E402
from spark_arrow_ipc.arrow import (  # noqa: E402
    Field,
    RecordBatch,
    Schema,
    equality,
)
from spark_arrow_ipc.arrow import types as t  # noqa: E402
from spark_arrow_ipc.arrow.python_values import from_pylist  # noqa: E402
from spark_arrow_ipc.errors import InvalidMetadataError  # noqa: E402
from spark_arrow_ipc.ipc.columns.batch_layout import check_header  # noqa: E402
from spark_arrow_ipc.ipc.columns.plan import compile_plan  # noqa: E402
from spark_arrow_ipc.ipc.constants import Limits  # noqa: E402
from spark_arrow_ipc.ipc.flatbuf.tables import MetadataVersion  # noqa: E402

WAYS = [
    pytest.param(ipc.WriteOptions(format=form, compression=codec), id=f"{form}-{codec}")
    for form in ("file", "stream")
    for codec in (None, "lz4", "zstd")
]
V4 = pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V4)
EVERY_CLASS = set(strategies.EVERY_CLASS)


def written(batches, options, schema=None):
    sink = io.BytesIO()
    ipc.write(sink, batches, schema, options)
    return sink.getvalue()


def assert_alike(expected, found):
    """The values are the same; names of a map's entries and the like are not pyarrow's strength."""
    found = [batch for batch in found if batch.num_rows]
    expected = [batch for batch in expected if batch.num_rows]
    assert len(expected) == len(found)
    for ours, theirs in zip(expected, found, strict=True):
        theirs.validate()
        assert batch_difference(ours, theirs, types=False) is None


# ---- pyarrow


BYTES = {b"digest": bytes(range(256)), b"word": "é".encode()}
"""Custom metadata as pickled extension types and digests have it: values that are not UTF-8."""
BYTES_OF_OURS = {key.decode(): value for key, value in BYTES.items()}


@pytest.mark.parametrize("form", ["file", "stream"])
def test_metadata_of_any_bytes_comes_back_from_us(form):
    """One such value on another column used to make the file unreadable."""
    nested = pa.field("b", pa.list_(pa.field("item", pa.int8(), metadata=BYTES)))
    schema = pa.schema([pa.field("a", pa.int64(), metadata=BYTES), nested], metadata=BYTES)
    theirs, ours = io.BytesIO(), io.BytesIO()
    with (pa.ipc.new_file if form == "file" else pa.ipc.new_stream)(theirs, schema) as writer:
        writer.write_batch(pa.record_batch([[1], [[2]]], schema=schema), custom_metadata=BYTES)
    with ipc.open(theirs.getvalue()) as reader:
        batches = list(reader)
    assert t.pairs(BYTES_OF_OURS) == batches[0].schema.fields[0].custom_metadata
    ipc.write(ours, batches, options=ipc.WriteOptions(format=form))
    with pyarrow_opens(ours.getvalue(), ipc.WriteOptions(format=form)) as again:
        assert again.schema.equals(schema, check_metadata=True)
        batch, metadata = (
            again.get_batch_with_custom_metadata(0) if form == "file" else again.read_next_batch_with_custom_metadata()
        )
        assert (metadata.to_dict() if hasattr(metadata, "to_dict") else dict(metadata)) == BYTES
        assert batch.to_pylist() == [{"a": 1, "b": [2]}]


def test_a_footer_keeps_metadata_of_any_bytes():
    sink = io.BytesIO()
    with ipc.create(sink, Schema.of([t.field("a", t.int8)])) as writer:
        writer.custom_metadata.update(BYTES_OF_OURS)
    assert dict(pa.ipc.open_file(sink.getvalue()).metadata) == BYTES
    with ipc.open(sink.getvalue()) as reader:
        assert [t.value_bytes(value) for _, value in reader.custom_metadata] == list(BYTES.values())


UNBOXED = {
    t.IntervalYearMonth: "pyarrow has no Python class for its arrays; `test_pyarrow_passes_on_what_we_write` has them",
    t.IntervalDayTime: "as above",
}


def pyarrow_opens(content, options):
    return (pa.ipc.open_file if options.format == "file" else pa.ipc.open_stream)(io.BytesIO(content))


def pyarrow_batches(reader):
    count = getattr(reader, "num_record_batches", None)
    batches = list(reader) if count is None else [reader.get_batch(i) for i in range(count)]
    for batch in batches:
        batch.validate(full=True)
    return batches


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("options", WAYS)
@given(strategies.batches(strategies.types(only=EVERY_CLASS - set(UNBOXED))), st.lists(strategies.lengths, max_size=3))
def test_pyarrow_reads_what_we_write(options, made, cuts):
    (batch,) = made
    portions = strategies.portions(batch, cuts)
    reader = pyarrow_opens(written(portions, options), options)
    assert_alike(portions, [batch_from_pyarrow(found) for found in pyarrow_batches(reader)])
    if not any(strategies.holds(field.type, t.Map, t.RunEndEncoded) for field in batch.schema.fields):
        # Of maps and runs pyarrow forgets the names of fields; of pairs with one key it keeps the last.
        found = schema_from_pyarrow(reader.schema)
        assert list(map(str, batch.schema.fields)) == list(map(str, found.fields))


@given(strategies.batches(strategies.types(only=EVERY_CLASS - set(UNBOXED)), count=3))
def test_pyarrow_follows_our_deltas_and_replacements(made):
    options = ipc.WriteOptions(format="stream")
    reader = pyarrow_opens(written(made, options), options)
    assert_alike(made, [batch_from_pyarrow(found) for found in pyarrow_batches(reader)])


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("options", WAYS)
@given(strategies.batches(), st.sampled_from((None, "lz4", "zstd")), st.booleans())
def test_pyarrow_passes_on_what_we_write(options, made, codec, to_file):
    """We write, pyarrow reads and writes, we read: every type, those too that pyarrow cannot show in Python."""
    if any(strategies.holds(field.type, t.SparseUnion, t.DenseUnion) for field in made[0].schema.fields):
        codec = None  # pyarrow 26 dies of a union without slots that it read and has to compress
    reader = pyarrow_opens(written(made, options), options)
    sink = io.BytesIO()
    create = pa.ipc.new_file if to_file else pa.ipc.new_stream
    with create(sink, reader.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        for batch in pyarrow_batches(reader):
            writer.write_batch(batch)
    with ipc.open(sink.getvalue()) as found:
        assert_alike(made, list(found))


OWN_ARRAYS = [
    *(pytest.param(array, id=name) for name, array in ARRAYS.items()),
    *(pytest.param(pa.array(values, type_), id=case_id(type_)) for type_, values in CASES),
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("form", ["file", "stream"])
@pytest.mark.parametrize("array", OWN_ARRAYS)
def test_we_read_what_pyarrow_writes(array, form):
    batch = pa.record_batch([array], ["column"])
    portions = [(0, len(array)), (1, len(array) - 1), (2, 1), (0, 0)]
    for codec in (None, "lz4", "zstd"):
        sink = io.BytesIO()
        create = pa.ipc.new_file if form == "file" else pa.ipc.new_stream
        with create(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
            for portion in portions:
                writer.write_batch(batch.slice(*portion))
        with ipc.open(sink.getvalue()) as reader:
            found = list(reader)
        expected = from_pyarrow(array)
        assert schema_from_pyarrow(batch.schema) == reader.schema
        for portion, theirs in zip(portions, found, strict=True):
            assert equality.difference(expected.slice(*portion), theirs.columns[0]) is None


def runs(values, ends):
    return pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int32()), values)


RUNS = {
    "text": runs(pa.array(["a", "b"]), [2, 4]),
    "nulls": runs(pa.array([None, 5]), [2, 4]),
    "views": runs(pa.array(["a" * 20, "b" * 30], pa.string_view()), [2, 4]),
    "a slice": runs(pa.array(["a", "b", "c"]), [2, 4, 7]).slice(3, 4),
    "in lists": pa.ListArray.from_arrays([0, 1, 2, 3, 4], runs(pa.array([1, 2]), [2, 4])),
    "in runs of structs": runs(
        pa.StructArray.from_arrays([runs(pa.array([1, None]), [1, 2]), pa.array(["x", "y"])], names=["r", "s"]), [1, 4]
    ),
    "of dictionaries": runs(pa.array(["q", "w"]).dictionary_encode(), [3, 4]),
    "in a union": pa.UnionArray.from_sparse(
        pa.array([0, 1, 0, 1], pa.int8()), [runs(pa.array([1, 2]), [2, 4]), pa.array(["a", "b", "c", "d"])]
    ),
    "in many columns": None,
}
"""Run ends, four rows each."""
BESIDE = pa.array(["k", "a string that is longer than a view", None, "n"], pa.string_view())


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("version", [pa.ipc.MetadataVersion.V4, pa.ipc.MetadataVersion.V5], ids=["V4", "V5"])
@pytest.mark.parametrize("make", [pa.ipc.new_file, pa.ipc.new_stream], ids=["file", "stream"])
@pytest.mark.parametrize("column", RUNS.values(), ids=RUNS)
def test_we_read_run_ends_as_pyarrow_writes_them_in_either_version(column, make, version):
    """In V4 with one buffer more for each, as Arrow C++ alone has it."""
    if column is None:
        held = [array for array in RUNS.values() if array is not None]
        columns = [*held * 30, BESIDE]
    else:
        columns = [BESIDE, column, BESIDE]
    batch = pa.record_batch(columns, names=[f"c{i}" for i in range(len(columns))])
    sink = io.BytesIO()
    with make(sink, batch.schema, options=pa.ipc.IpcWriteOptions(metadata_version=version)) as writer:
        for part in (batch, batch.slice(1, 2)):
            writer.write_batch(part)
    expected = [batch.to_pydict(), batch.slice(1, 2).to_pydict()]
    assert expected == [found.to_pydict() for found in ipc.open(sink.getvalue())]
    last = [len(columns) - 1]
    projected = [found.to_pydict() for found in ipc.open(sink.getvalue(), columns=last)]
    assert [{batch.schema.names[-1]: values[batch.schema.names[-1]]} for values in expected] == projected


@pytest.mark.parametrize("more", [-1, 1, 2, -3])
def test_another_number_of_buffers_is_refused_beside_run_ends(more):
    """Neither as many as the specification has, nor as many as Arrow C++ writes."""
    sink = io.BytesIO()
    batch = pa.record_batch([RUNS["text"], RUNS["in lists"]], names=["a", "b"])
    with pa.ipc.new_file(sink, batch.schema, options=V4) as writer:
        writer.write_batch(batch)
    reader = ipc.open(sink.getvalue())
    header = reader.read_header(0)
    listed = np.concatenate([header.buffers, header.buffers])[: len(header.buffers) + more]
    plan = compile_plan(reader.schema.fields, (), MetadataVersion.V4)
    with pytest.raises(InvalidMetadataError, match="buffers, as the schema implies"):
        check_header(header._replace(buffers=listed), plan, 1 << 20, Limits())


# ---- nanoarrow

NANOARROW_LACKS = {
    t.BinaryView: "BinaryView not yet supported in IPC reader",
    t.Utf8View: "Utf8View not yet supported in IPC reader",
    t.ListView: "ListView/LargeListView not yet supported in IPC reader",
    t.LargeListView: "ListView/LargeListView not yet supported in IPC reader",
    t.RunEndEncoded: "RunEndEncoded not yet supported in IPC reader",
    t.Dictionary: "decoded, but a union in a dictionary comes with a validity bitmap, and a map's key as nullable",
    **UNBOXED,
}


@pytest.mark.parametrize("codec", [None, "lz4", "zstd"])
@given(strategies.batches(strategies.types(only=EVERY_CLASS - set(NANOARROW_LACKS))))
def test_nanoarrow_reads_what_we_write(codec, made):
    (batch,) = made
    if any(
        strategies.holds(field.type, t.FixedSizeBinary) and "[0]" in str(field.type) for field in batch.schema.fields
    ):
        return  # "ArrowSchemaSetTypeFixedSize failed": nanoarrow has no binary of 0 bytes
    content = written([batch], ipc.WriteOptions(format="stream", compression=codec))
    stream = na.ArrayStream.from_readable(content)
    found = [batch_from_pyarrow(found) for found in pa.RecordBatchReader.from_stream(stream)]
    assert_alike([batch], found)


# ---- polars

POLARS_LACKS = {
    t.IntervalYearMonth: "cannot create series from Interval",
    t.IntervalDayTime: "operator does not support primitive DaysMs",
    t.IntervalMonthDayNano: "could not import from month_day_nano_interval",
    t.ListView: "not yet implemented",
    t.LargeListView: "not yet implemented",
    t.SparseUnion: "cannot create series from Union",
    t.DenseUnion: "cannot create series from Union",
    t.RunEndEncoded: "not yet implemented",
}
POLARS_READS = [
    t.null, t.bool_, *strategies.INDEX_TYPES, t.float16, t.float32, t.float64, t.Decimal(38, 2), t.Decimal(9, 9),
    t.date32, t.Time(t.TimeUnit.NANOSECOND, 64), *map(t.Timestamp, list(t.TimeUnit)[1:]),
    t.Timestamp(t.TimeUnit.MICROSECOND, "UTC"), t.Timestamp(t.TimeUnit.NANOSECOND, "Europe/Berlin"),
    *map(t.Duration, list(t.TimeUnit)[1:]), t.binary, t.large_binary, t.binary_view, t.utf8, t.large_utf8, t.utf8_view,
    t.list_(t.int32), t.LargeList(Field("item", t.utf8)), t.FixedSizeList(Field("item", t.int32), 2),
    t.struct([("a", t.int8), ("b", t.utf8)]), t.struct([]), t.list_(t.struct([("m", t.list_(t.float64))])),
    t.map_(t.utf8, t.int32),
    *(t.dictionary(index, t.utf8) for index in strategies.INDEX_TYPES), t.dictionary(t.uint32, t.int64),
]  # fmt: skip
POLARS_CONVERTS = {
    t.Decimal(9, 2, 32): t.Decimal(9, 2),
    t.Decimal(18, 2, 64): t.Decimal(18, 2),
    t.date64: t.Timestamp(t.TimeUnit.MILLISECOND),
    t.Time(t.TimeUnit.SECOND, 32): t.Time(t.TimeUnit.NANOSECOND, 64),
    t.Time(t.TimeUnit.MICROSECOND, 64): t.Time(t.TimeUnit.NANOSECOND, 64),
    t.Timestamp(t.TimeUnit.SECOND): t.Timestamp(t.TimeUnit.MILLISECOND),
    t.Duration(t.TimeUnit.SECOND): t.Duration(t.TimeUnit.MILLISECOND),
    t.FixedSizeBinary(3): t.large_binary,
}
"""What polars has no type for, and what it takes instead; the values stay."""


def polars_frame(content, form):
    read = pl.read_ipc if form == "file" else pl.read_ipc_stream
    return read(io.BytesIO(content))


def batch_of(type_):
    """A batch as we build it, nulls zeroed: polars looks at what lies under nulls and refuses it."""
    array = strategies.random_array(np.random.default_rng(17), type_, 33)
    rebuilt = from_pylist.array(array.to_pylist(), type_)
    return RecordBatch(Schema((Field("column", type_),)), (rebuilt,), 33)


def as_polars_has_it(value):
    return dt.datetime(value.year, value.month, value.day) if type(value) is dt.date else value


def assert_polars_holds(batch, frame):
    (found,) = (batch_from_pyarrow(found) for found in frame.to_arrow().combine_chunks().to_batches())
    ours, theirs = batch.columns[0], found.columns[0]
    if ours.type not in POLARS_CONVERTS:
        assert equality.difference(ours, theirs, types=False) is None
        return
    assert POLARS_CONVERTS[ours.type] == theirs.type
    pairs = list(zip(ours.to_pylist(), theirs.to_pylist(), strict=True))
    # An int is a count that `datetime` cannot hold; in a finer unit it may not fit at all.
    assert [] == [(a, b) for a, b in pairs if not isinstance(a, int) and as_polars_has_it(a) != b]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("options", WAYS)
@pytest.mark.parametrize("type_", [*POLARS_READS, *POLARS_CONVERTS], ids=str)
def test_polars_reads_what_we_write_and_we_read_what_polars_writes(type_, options):
    batch = batch_of(type_)
    frame = polars_frame(written([batch, batch.slice(0, 7)], options), options.format).head(33)
    assert_polars_holds(batch, frame)
    for form, write in (("file", frame.write_ipc), ("stream", frame.write_ipc_stream)):
        sink = io.BytesIO()
        write(sink, compression=options.compression or "uncompressed")
        with ipc.open(sink.getvalue()) as reader:
            assert form == reader.format
            expected = [batch_from_pyarrow(found) for found in frame.to_arrow().combine_chunks().to_batches()]
            assert_alike(expected, list(reader))


def test_every_class_is_read_by_polars_or_listed_with_a_reason():
    read = {type(type_) for type_ in (*POLARS_READS, *POLARS_CONVERTS)}
    assert EVERY_CLASS == read | set(POLARS_LACKS)
    assert set() == read & set(POLARS_LACKS)
