"""A file's schema as DDL is what Spark reads."""

import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.spark.types.arrow_to_spark import to_ddl

pa = pytest.importorskip("pyarrow")


@pytest.mark.slow
def test_spark_takes_the_ddl(tmp_path, spark):
    hostile = pa.table(
        {
            "a`b": pa.array([1]),
            "c d": pa.array(
                [{"e:f": [1.5], "g`": None}],
                pa.struct([("e:f", pa.list_(pa.float64())), ("g`", pa.map_(pa.string(), pa.int8()))]),
            ),
        }
    )
    path = str(tmp_path / "x.arrow")
    with pa.ipc.new_file(path, hostile.schema) as writer:
        writer.write_table(hostile)
    ddl = to_ddl(ipc.read_schema(path))
    read = spark.read.format("arrowipc").load(path)
    assert [(f.name, f.dataType) for f in read.schema] == [
        (f.name, f.dataType) for f in spark.createDataFrame([], ddl).schema
    ]
