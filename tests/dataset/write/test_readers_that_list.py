"""A table is read by programs that know nothing of its log: they list files."""

import io
import shutil

import pytest
from commit_jobs import save_files

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema

pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
dataset = pytest.importorskip("pyarrow.dataset")


def arrow_file(*numbers):
    data = memoryview(b"".join(number.to_bytes(8, "little") for number in numbers))
    schema = Schema((t.field("id", t.int64),))
    sink = io.BytesIO()
    ipc.write(sink, [RecordBatch(schema, (Array(t.int64, len(numbers), 0, (None, data)),), len(numbers))], schema)
    return sink.getvalue()


@pytest.fixture(params=["", "k=1"])
def lake(request, tmp_path):
    """Two jobs: two log entries, and files of both."""
    for numbers in ((1, 2), (3,)):
        save_files(tmp_path, [(request.param, arrow_file(*numbers))])
    return tmp_path


@pytest.mark.slow
def test_polars_reads_the_pattern_of_data_files(lake):
    assert [1, 2, 3] == sorted(pl.scan_ipc(f"{lake}/**/*.arrow").collect()["id"].to_list())


def test_polars_reads_the_columns_of_partitions(lake):
    found = pl.scan_ipc(f"{lake}/**/*.arrow", hive_partitioning=True).collect()
    assert (["id", "k"] if (lake / "k=1").exists() else ["id"]) == found.columns


def test_nothing_but_the_log_keeps_polars_from_the_directory(lake):
    """polars takes every file that is not empty, hidden ones too: the docs say which pattern to give.

    Where this fails because polars skips hidden names, the docs may say that the directory will do.
    """
    with pytest.raises(pl.exceptions.InvalidOperationError, match="different file extensions"):
        pl.scan_ipc(lake).collect()
    shutil.rmtree(lake / "_ipc_log")
    assert 3 == pl.scan_ipc(lake).collect().height


@pytest.mark.slow
def test_pyarrow_reads_the_directory(lake):
    found = dataset.dataset(lake, format="ipc", partitioning="hive").to_table()
    assert [1, 2, 3] == sorted(found["id"].to_pylist())
