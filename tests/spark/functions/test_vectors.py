"""``vectors=binary`` through Spark, both ways; and the views that functions take of such columns."""

import arrow_files
import numpy as np
import pyarrow as pa
import pyspark
import pytest
from pyspark.errors import PySparkException

from spark_arrow_ipc import map_in_arrow, vectors
from spark_arrow_ipc.errors import ColumnNotFoundError, SchemaMismatchError

WIDTHS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]
NUMBERS = {
    dtype: pa.array([[1, 2, 3], None, [4, 5, 6], [7, 8, 9]], pa.list_(pa.from_numpy_dtype(np.dtype(dtype)), 3))
    for dtype in WIDTHS
}
TABLE = pa.table(
    {
        **NUMBERS,
        "ragged": pa.array([[1.5], [], None, [2.5, 3.5]], pa.list_(pa.float32())),
        "large": pa.array([[1], [2, 3], [], None], pa.large_list(pa.int64())),
        "s": pa.array([{"v": [1.0, 2.0]}, None, {"v": None}, {"v": [3.0, 4.0]}], pa.struct([("v", pa.list_(pa.float64(), 2))])),
        "strings": pa.array([["a"], None, [], ["b"]], pa.list_(pa.string())),
        "nested": pa.array([[[1]], None, [], [[2]]], pa.list_(pa.list_(pa.int32()))),
        "doc": pa.array(["{}", None, "[]", "1"]),
    },
)  # fmt: skip


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    fields = [f if f.name != "doc" else f.with_metadata({"ARROW:extension:name": "arrow.json"}) for f in TABLE.schema]
    table = TABLE.cast(pa.schema(fields))
    return arrow_files.write(tmp_path_factory.mktemp("vectors") / "a.arrow", table, rows=3)


def read(spark, path, **options):
    return spark.read.format("arrowipc").options(vectors="binary", **options).load(str(path))


def test_lists_of_numbers_are_their_bytes(spark, path):
    frame = read(spark, path)
    types = dict(frame.dtypes)
    assert {"binary"} == {types[name] for name in [*WIDTHS, "ragged", "large"]}
    assert ("struct<v:binary>", "array<string>", "array<array<int>>") == (types["s"], types["strings"], types["nested"])
    rows = frame.orderBy("strings").collect()
    for name in [*WIDTHS, "ragged", "large"]:
        dtype = {"ragged": "float32", "large": "int64"}.get(name, name)
        wanted = [None if v is None else np.array(v, dtype).tobytes() for v in TABLE[name].to_pylist()]
        assert sorted(wanted, key=str) == sorted((row[name] for row in rows), key=str)
    assert {np.array([3.0, 4.0]).tobytes()} <= {row.s.v for row in rows if row.s is not None}


def test_they_are_written_as_the_lists_that_they_were(spark, path, tmp_path):
    read(spark, path).coalesce(1).write.format("arrowipc").mode("append").option("vectors", "binary").save(
        str(tmp_path / "out")
    )
    (file,) = (tmp_path / "out").glob("*.arrow")
    with pa.ipc.open_file(str(file)) as reader:
        again = reader.read_all()
    kept = [name for name in TABLE.column_names if name not in ("nested", "doc")]
    assert [TABLE.schema.field(name).type for name in kept] == [again.schema.field(name).type for name in kept]
    assert "arrow.json" in str(again.schema.field("doc"))
    assert sorted(map(str, TABLE.to_pylist())) == sorted(map(str, again.to_pylist()))


def test_without_the_option_they_are_written_as_binary(spark, path, tmp_path):
    frame = read(spark, path, columns="float32")
    frame.coalesce(1).write.format("arrowipc").mode("append").save(str(tmp_path / "out"))
    (file,) = (tmp_path / "out").glob("*.arrow")
    with pa.ipc.open_file(str(file)) as reader:
        assert pa.binary() == reader.schema.field("float32").type


def test_a_null_among_the_numbers_is_an_error_and_one_under_a_null_is_none(spark, tmp_path):
    hidden = pa.ListArray.from_arrays([0, 2, 4], pa.array([1, None, 3, 4]), mask=pa.array([True, False]))
    path = arrow_files.write(tmp_path / "a.arrow", pa.table({"v": hidden}))
    assert [None, np.array([3, 4]).tobytes()] == [row.v and bytes(row.v) for row in read(spark, path).collect()]
    path = arrow_files.write(tmp_path / "b.arrow", pa.table({"v": pa.array([[1, 2], [], [3, None]])}))
    with pytest.raises(PySparkException, match="field v: the vector in slot 2 has a null among its numbers"):
        read(spark, path).collect()


@pytest.mark.smoke("where")
def test_where_and_a_schema_of_the_users(spark, path):
    assert 3 == read(spark, path, where="float32 IS NOT NULL", columns="doc").count()
    with pytest.raises(PySparkException, match="read it with vectors=binary"):
        spark.read.format("arrowipc").schema("float32 binary").load(path).collect()
    assert 4 == spark.read.format("arrowipc").option("vectors", "binary").schema("float32 binary").load(path).count()


def halves(batches):
    """Vectors in and out, in memory that is shared."""
    from spark_arrow_ipc import vectors

    for batch in batches:
        kept = batch.filter(batch["float32"].is_valid())
        yield pa.record_batch({"v": vectors.to_binary(vectors.matrix(kept, "float32") / 2)})


NO_METADATA = pytest.mark.skipif(pyspark.__version__ < "4.2", reason="Spark 4.1 leaves out the metadata of fields")


@pytest.mark.parametrize("where", ["ours", pytest.param("spark's", marks=NO_METADATA)])
def test_functions_find_the_type_of_the_numbers(spark, path, where, monkeypatch, tmp_path):
    import sys

    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    if where == "ours":
        made = map_in_arrow(spark, path, halves, "v binary", vectors="binary", columns="float32")
    else:
        made = read(spark, path, columns="float32").mapInArrow(halves, "v binary")
    made = made.withMetadata("v", vectors.metadata("float32", 3))
    assert [[0.5, 1.0, 1.5], [2.0, 2.5, 3.0], [3.5, 4.0, 4.5]] == sorted(
        np.frombuffer(r.v, "f4").tolist() for r in made.collect()
    )
    made.coalesce(1).write.format("arrowipc").mode("append").option("vectors", "binary").save(str(tmp_path / "out"))
    assert "array<float>" == dict(spark.read.format("arrowipc").load(str(tmp_path / "out")).dtypes)["v"]
    (file,) = (tmp_path / "out").glob("*.arrow")
    with pa.ipc.open_file(str(file)) as reader:
        assert pa.list_(pa.float32(), 3) == reader.schema.field("v").type


# ---- without Spark


def binary(*rows, dtype="f4"):
    return pa.record_batch(
        {"v": pa.array([None if row is None else np.array(row, dtype).tobytes() for row in rows], pa.binary())}
    )


def test_a_matrix_is_a_view():
    batch = binary([1, 2], [3, 4], [5, 6])
    made = vectors.matrix(batch.slice(1), "v", "float32")
    assert [[3, 4], [5, 6]] == made.tolist()
    assert made.ctypes.data == batch["v"].buffers()[2].address + 8
    assert (0, 0) == vectors.matrix(binary(), "v", "f4").shape
    assert (2, 0) == vectors.matrix(binary([], []), "v", "f4").shape


def test_rows_of_any_length():
    values, offsets = vectors.ragged(binary([1], None, [2, 3]).slice(1), "v", "f4")
    assert ([2, 3], [0, 0, 2]) == (values.tolist(), offsets.tolist())


def test_rows_of_pandas_are_stacked():
    assert [[1, 2], [3, 4]] == vectors.stack([np.array(r, "i2").tobytes() for r in ([1, 2], [3, 4])], "int16").tolist()
    assert (0, 0) == vectors.stack([], "f4").shape
    with pytest.raises(ColumnNotFoundError, match="there is no column 'w'"):
        vectors.matrix(binary([1]), "w", "f4")
    with pytest.raises(SchemaMismatchError, match="vectors of one length"):
        vectors.stack([b"12", b"1234"], "int16")
    with pytest.raises(SchemaMismatchError, match="no nulls"):
        vectors.stack([b"12", None], "int16")


@pytest.mark.parametrize(
    "given",
    [np.arange(6, dtype=">i4").reshape(2, 3), np.arange(6, dtype="<f8").reshape(3, 2).T, np.zeros((0, 4), "f4")],
)
def test_matrices_become_binary(given):
    made = vectors.to_binary(given)
    assert pa.binary() == made.type
    assert [np.ascontiguousarray(row, given.dtype.newbyteorder("<")).tobytes() for row in given] == made.to_pylist()


REFUSED = [
    (binary([1], [1, 2]), "f4", "vectors of one length, found 1 to 2 numbers"),
    (binary([1], None), "f4", "no nulls, found 1"),
    (binary([1]), None, "give the dtype, as float32"),
    (binary([1], dtype="i2"), "f4", "a multiple of 4 bytes, found 2 bytes in row 0"),
    (pa.record_batch({"v": [[1.0]]}), "f4", "read it with vectors=binary"),
]


@pytest.mark.parametrize(("batch", "dtype", "words"), REFUSED)
def test_what_is_no_matrix_is_said(batch, dtype, words):
    with pytest.raises(SchemaMismatchError, match=words):
        vectors.matrix(batch, "v", dtype)


def test_numbers_that_arrow_lacks():
    with pytest.raises(TypeError, match="expected a dtype"):
        vectors.metadata("bool")
