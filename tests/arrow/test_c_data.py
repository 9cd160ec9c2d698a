"""Every type there and back through other libraries, and the methods that they ask for."""

import warnings
from pathlib import Path

import corpus
import duckdb
import nanoarrow as na
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from arrow_cases import ARRAYS
from arrow_from_pyarrow import from_pyarrow

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import Array, RecordBatch, RecordBatchStream, Schema, c_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.ipc.columns.decode import NATIVE

DATA = Path(__file__).parents[1] / "data"


def has(schema, *classes):
    def inside(type_):
        inner = [type_.value] if isinstance(type_, t.Dictionary) else [field.type for field in type_.children]
        return isinstance(type_, classes) or any(map(inside, inner))

    return any(inside(field.type) for field in schema.fields)


NANOARROW_LENDS_NO_VIEWS = (t.BinaryView, t.Utf8View)
"""nanoarrow 0.9 reads them; what it lends of them in turn ends in a crash, of pyarrow's arrays too."""

NANOARROW_HAS_NO_EMPTY_BINARY = "Expected size > 0 for fixed size binary but found size 0"


def through_pyarrow(batch):
    theirs = pa.record_batch(batch)
    theirs.validate()
    return RecordBatch.from_arrow(theirs)


def through_nanoarrow(batch):
    theirs = na.Array(batch)
    assert batch.num_rows == len(theirs)
    if has(batch.schema, *NANOARROW_LENDS_NO_VIEWS):
        return None
    try:
        return RecordBatch.from_arrow(theirs)
    except ValueError as error:
        if NANOARROW_HAS_NO_EMPTY_BINARY not in str(error):
            raise
        return None


THROUGH = {"pyarrow": through_pyarrow, "nanoarrow": through_nanoarrow}


def addresses(array):
    # One without slots may be given the value offset that the format leaves out.
    own = {np.frombuffer(buffer, np.uint8).ctypes.data for buffer in array.buffers if buffer} if array.length else set()
    inner = [*array.children, *([array.dictionary] if array.dictionary is not None else [])]
    return own.union(*map(addresses, inner))


def there_and_back(path, through):
    """Return how many batches of a file a library gave back, each equal and in the same memory."""
    count = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ipc.ConcatenatedStreamsWarning)
        with ipc.open(path) as reader:
            for batch in list(reader)[:3]:
                back = THROUGH[through](batch)
                if back is None:
                    continue
                # pyarrow, through which all is lent, gives the parts of a map their usual names.
                renames = has(batch.schema, t.Map)
                assert corpus.difference(batch.schema, [batch], back.schema, [back], renames_maps=renames) is None
                for before, after in zip(batch.columns, back.columns, strict=True):
                    # Nulls may lose a bitmap, and an array without slots its memory: nothing comes from elsewhere. But
                    # files of old writers have bodies at multiples of 4, and what is not aligned is copied.
                    elsewhere = addresses(after) - addresses(before)
                    assert not elsewhere or any(address % 8 for address in addresses(before)), (path, before.type)
                count += 1
    return count


SOUND = sorted(
    path for path in DATA.glob("*.arrow*") if f"{path.name}\tfile\tok" in (DATA / "MANIFEST.tsv").read_text()
)


@pytest.mark.parametrize("through", THROUGH)
@pytest.mark.parametrize("path", SOUND, ids=lambda path: path.name)
def test_files_of_every_type_there_and_back(path, through):
    there_and_back(path, through)


@pytest.mark.slow
def test_most_of_them_do_come_back():
    assert 60 < sum(there_and_back(path, through) for path in SOUND for through in THROUGH)


@pytest.mark.exhaustive
@pytest.mark.parametrize("through", ["pyarrow", pytest.param("nanoarrow", marks=pytest.mark.nightly)])
def test_the_corpus_there_and_back(through):
    """All `ok` files of the corpus; buffers keep their addresses where they are neither compressed nor swapped, which ours are when they are read."""
    if corpus.root() is None:
        pytest.skip(f"{corpus.VARIABLE} is not set")
    files = [e for e in corpus.entries(corpus.root()) if e.expect == "ok" and e.format != "json"]
    assert 800 < len(files)
    assert 1000 < sum(there_and_back(e.path, through) for e in files if e.path.stat().st_size < 3_000_000)


COLUMNS = Schema.of([t.field("n", t.int64), t.field("s", t.utf8), t.field("l", t.list_(t.int32))])
VALUES = {"n": [1, None, 3], "s": ["a", "grün", None], "l": [[1], None, [2, 3]]}
BATCH = RecordBatch.from_pydict(VALUES, COLUMNS)

TAKEN = {
    "polars": lambda x: pl.DataFrame(x).to_dict(as_series=False),
    "pandas": lambda x: {n: [None if v is pd.NA else list(v) if n == "l" else v for v in c] for n, c in pa.RecordBatchReader.from_stream(x).read_pandas(types_mapper=pd.ArrowDtype).items()},
    "pyarrow": lambda x: pa.table(x).to_pydict(),
    "nanoarrow": lambda x: dict(zip(VALUES, map(list, zip(*(row.values() for row in na.Array(x).to_pylist()), strict=True)), strict=True)),
    "DuckDB": lambda x: dict(zip(VALUES, map(list, zip(*duckdb.sql("SELECT * FROM x").fetchall(), strict=True)), strict=True)),
}  # fmt: skip


@pytest.mark.parametrize("take", TAKEN.values(), ids=TAKEN)
def test_other_libraries_take_ours(take):
    assert VALUES == take(BATCH)


GIVEN = [
    ("polars", lambda: pl.DataFrame({"x": [1, 2]}), [t.int64]),
    ("polars, text", lambda: pl.DataFrame({"x": ["a", "b"]}), [t.utf8_view]),
    ("pandas", lambda: pd.DataFrame({"x": [1, 2]}), [t.int64]),
    ("pyarrow, a table", lambda: pa.table({"x": [1, 2]}), [t.int64]),
    ("nanoarrow", lambda: na.Array(pa.table({"x": [1, 2]})), [t.int64]),
]


@pytest.mark.parametrize(("make", "types"), [c[1:] for c in GIVEN], ids=[c[0] for c in GIVEN])
def test_we_take_those_of_others(make, types):
    with RecordBatchStream.from_arrow(make()) as stream:
        assert types == [field.type for field in stream.schema.fields]
        assert 2 == sum(batch.num_rows for batch in stream)


WITHOUT = [
    (
        "no array",
        RecordBatch.from_arrow,
        pl.DataFrame({"x": [1]}),
        "an object with __arrow_c_array__ .*found DataFrame",
    ),
    ("no stream", RecordBatchStream.from_arrow, {"x": [1]}, "an object with __arrow_c_stream__ .*found dict"),
    ("no schema", Schema.from_arrow, 5, "an object with __arrow_c_schema__ .*found int"),
    (
        "no record batch",
        RecordBatch.from_arrow,
        pa.array([1]),
        "the structs of a record batch, found an array of int64",
    ),
    ("no record batches", RecordBatchStream.from_arrow, pl.Series([1]), "the structs of a record batch"),
]


@pytest.mark.parametrize(("take", "source", "message"), [c[1:] for c in WITHOUT], ids=[c[0] for c in WITHOUT])
def test_objects_without_the_method_are_refused(take, source, message):
    with pytest.raises(TypeError, match=message):
        take(source)


def test_another_requested_schema_is_refused():
    with pytest.raises(ArrowIpcError, match="a requested schema of the columns"):
        BATCH.__arrow_c_array__(pa.schema([("q", pa.int8())]).__arrow_c_schema__())
    capsules_of = BATCH.__arrow_c_array__(pa.schema([(n, pa.null()) for n in COLUMNS.names]).__arrow_c_schema__())
    assert 2 == len(capsules_of)


def test_an_array_lends_itself():
    array = BATCH.column("l")
    assert VALUES["l"] == pa.array(array).to_pylist()
    assert VALUES["l"] == Array.from_arrow(pa.array(array)).to_pylist()
    assert t.list_(t.int32) == c_data.import_field(array).type


class OnADevice:
    """Lends by the method of devices alone."""

    def __init__(self, lent):
        self.lent = lent

    def __arrow_c_device_array__(self, requested_schema=None, **others):
        return self.lent.__arrow_c_device_array__(requested_schema, **others)


DEVICE_TAKERS = [
    ("a batch", lambda: pa.record_batch(OnADevice(BATCH)).to_pydict(), VALUES),
    ("an array", lambda: pa.array(OnADevice(BATCH.column("l"))).to_pylist(), VALUES["l"]),
    ("nobody", lambda: BATCH.__arrow_c_device_array__() and None, None),
]


@pytest.mark.slow
@pytest.mark.parametrize(("take", "expected"), [c[1:] for c in DEVICE_TAKERS], ids=[c[0] for c in DEVICE_TAKERS])
def test_what_asks_for_a_device_gets_the_memory_of_the_cpu(take, expected):
    assert expected == take()


def test_arguments_of_a_later_interface_are_refused_unless_they_are_none():
    assert 2 == len(BATCH.__arrow_c_device_array__(None, stream=None))
    with pytest.raises(NotImplementedError, match="stream"):
        BATCH.__arrow_c_device_array__(None, stream=1)


def test_the_machine_is_little_endian_as_the_files():
    assert NATIVE == BATCH.schema.endianness


POLARS_LACKS = {
    "decimal256(50, 2)", "interval", "fixed_size_binary_0", "list_view", "large_list_view", "fixed_size_list_0",
    "sparse_union", "dense_union", "run_end_int16", "run_end_int64",
}  # fmt: skip
MISREAD = {("polars", "decimal32(5, 2)"), ("polars", "decimal64(9, 2)")}
"""polars takes their memory for that of decimals of 128 bits, and reads beyond it: those of pyarrow too."""
DUCKDB_LACKS = {"decimal256(50, 2)", "halffloat", "float16", "map", "dense_union"}

LACKS = {
    "polars": (lambda x: pl.DataFrame(x)["x"].to_list(), POLARS_LACKS),
    "DuckDB": (lambda x: [value for (value,) in duckdb.sql("SELECT * FROM x").fetchall()], DUCKDB_LACKS),
}


TRIED = [(library, name) for library in LACKS for name in ARRAYS if (library, name) not in MISREAD]


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize(("library", "name"), TRIED)
def test_types_that_a_library_lacks_are_an_error_of_its_own(library, name):
    """The page docs/read_it_with.md has the list; what leaves it is a reason to change the page."""
    take, lacking = LACKS[library]
    array = from_pyarrow(ARRAYS[name])
    batch = RecordBatch(Schema.of([t.field("x", array.type)]), (array,), array.length)
    if name in lacking:
        with pytest.raises(
            BaseException, match=r"(?i)unsupported|does not support|unwrap|Arrow|Int256|isn't supported"
        ):
            take(batch)
        return
    assert [value is None for value in ARRAYS[name].to_pylist()] == [value is None for value in take(batch)]
