"""The option `tensors`, without Spark: what a plan reads is what numpy has."""

import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import types as s

from spark_arrow_ipc import ipc
from spark_arrow_ipc.errors import NoFilesError, NoTensorError, OptionError
from spark_arrow_ipc.ipc.tensors import read as tensor_rows
from spark_arrow_ipc.spark.convert import pyarrow_schema
from spark_arrow_ipc.spark.options.options import parse_read
from spark_arrow_ipc.spark.read.dataset_schema import read_spark_schema
from spark_arrow_ipc.spark.read.reader import ArrowIpcBatchReader

FINE = {"maxPartitionBytes": "2k", "minPartitionNum": "1"}
MATRIX = np.arange(1200.0, dtype=np.float32).reshape(60, 20)


@pytest.fixture
def lake(tmp_path):
    for k, tensor in ((1, MATRIX), (2, ipc.CooTensor.from_dense_numpy(np.eye(3, dtype=np.float32)))):
        (tmp_path / f"k={k}").mkdir()
        ipc.write_tensor(tmp_path / f"k={k}" / "m.tensor", tensor)
    return tmp_path


def read(path, schema=None, **options):
    """Rows as executors read them, and the number of partitions."""
    parsed = parse_read({"path": str(path), **options})
    schema = read_spark_schema(parsed) if schema is None else schema
    reader = ArrowIpcBatchReader(schema, parsed)
    reader, partitions = pickle.loads(pickle.dumps((reader, reader.partitions())))
    found = [batch for partition in partitions for batch in reader.read(partition)]
    assert {pyarrow_schema(schema)} >= {batch.schema for batch in found}
    return [tuple(row.values()) for batch in found for row in batch.to_pylist()], len(partitions)


CELLS = sorted(
    [(i, j, float(MATRIX[i, j]), 1) for i in range(60) for j in range(20)] + [(i, i, 1.0, 2) for i in range(3)]
)


@pytest.mark.parametrize("slab", [100, 1 << 20])
@pytest.mark.parametrize("splits", [{}, FINE], ids=["large splits", "small splits"])
def test_each_cell_is_a_row(lake, monkeypatch, splits, slab):
    monkeypatch.setattr(tensor_rows, "_SLAB_CELLS", slab)
    found, partitions = read(lake, tensors="cells", **splits)
    assert sorted(found) == CELLS
    if splits and slab == 100:
        assert partitions >= 3


def test_each_tensor_is_a_row(lake):
    found, _ = read(lake, tensors="values")
    assert sorted((*row[:2], row[3]) for row in found) == [([3, 3], ["", ""], 2), ([60, 20], ["", ""], 1)]
    (values,) = (row[2] for row in found if row[3] == 1)
    assert values == MATRIX.reshape(-1).tolist()


@pytest.mark.parametrize("splits", [{}, FINE], ids=["large splits", "small splits"])
def test_other_options_work_as_with_tables(lake, splits):
    found, _ = read(lake, tensors="cells", columns="value, i0", pathGlobFilter="m.*", **splits)
    assert sorted(found) == sorted((value, i) for i, _, value, _ in CELLS)
    found, _ = read(lake, tensors="cells", where="k = 2 AND value > 0", columns="i0, i1", **splits)
    assert sorted(found) == [(0, 0), (1, 1), (2, 2)]
    found, _ = read(lake, tensors="cells", metadataColumns="true", columns="i0", where="k = 1", **splits)
    assert {Path(row[1]).name for row in found} == {"m.tensor"}
    assert sorted(row[-1] for row in found) == list(range(1200))


def test_a_schema_of_ones_own_widens_and_leaves_out(lake):
    schema = s.StructType([s.StructField("value", s.DoubleType()), s.StructField("i1", s.LongType())])
    found, _ = read(lake, schema, tensors="cells")
    assert sorted(found) == sorted((value, j) for _, j, value, _ in CELLS)


def test_a_table_among_tensors_is_named_or_skipped(lake, caplog):
    table = lake / "k=1" / "t.arrow"
    with pa.OSFile(str(table), "wb") as sink, pa.ipc.new_file(sink, pa.schema([("a", pa.int8())])):
        pass
    with pytest.raises(NoTensorError, match="without the option tensors") as caught:
        read(lake, tensors="cells", where="k > 0")
    assert str(table) == caught.value.path
    found, _ = read(lake, tensors="cells", ignoreCorruptFiles="true")
    assert sorted(found) == CELLS
    assert 1 == sum(f"{table}: skipped" in line for line in caplog.messages)


def test_a_broken_tensor_is_named_or_skipped(lake, caplog):
    path = lake / "k=1" / "m.tensor"
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(Exception, match=r"k=1/m.tensor: tensor 0: .*truncated"):
        read(lake, tensors="cells")
    found, _ = read(lake, tensors="cells", ignoreCorruptFiles="true")
    assert sorted(found) == [row for row in CELLS if row[3] == 2]
    assert 1 == sum("skipped record batch 0 (1,200 rows)" in line for line in caplog.messages)


def test_a_directory_without_tensors(tmp_path):
    with pytest.raises(NoFilesError):
        read(tmp_path, tensors="cells")


@pytest.mark.parametrize("other", ["recover", "metadataOnly"])
def test_options_that_make_no_sense_together(lake, other):
    with pytest.raises(OptionError, match="tensors"):
        read(lake, tensors="cells", **{other: "true"})


def test_an_unknown_word(lake):
    with pytest.raises(OptionError, match="the option tensors must be one of cells, values, and is 'rows'"):
        read(lake, tensors="rows")
