"""Reading and writing without a registration call."""

import pyarrow as pa
import pytest
from frames import check_same


@pytest.mark.smoke("read")
def test_what_pyarrow_wrote_is_read_and_comes_back(spark, tmp_path):
    """The format name is found by Spark itself."""
    table = pa.table({"a": pa.array([1, None, 3], pa.int64()), "s": ["x", None, "yy"]})
    with pa.ipc.new_file(str(tmp_path / "in.arrow"), table.schema) as writer:
        writer.write_table(table)
    frame = spark.read.format("arrowipc").load(str(tmp_path / "in.arrow"))
    frame.write.format("arrowipc").mode("append").save(str(tmp_path / "out"))
    back = spark.read.format("arrowipc").load(str(tmp_path / "out"))
    assert [row.asDict() for row in frame.collect()] == table.to_pylist()
    check_same(back, frame)
