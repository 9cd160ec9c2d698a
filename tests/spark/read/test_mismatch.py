"""An error of a file with another type names the file that the schema is from, and what reads both."""

import os

import arrow_files
import pyarrow as pa
import pytest
from pyspark.sql import types as s

from spark_arrow_ipc.errors import SchemaMismatchError
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource

INT, LONG, TEXT = pa.array([1], pa.int32()), pa.array([1]), pa.array(["a"])
NO_WAY = "read the files apart (pathGlobFilter), or leave the column out with the option columns"
BOTH = "mergeSchema=true reads both"
NEWEST = ", as in the newest file {new}"


def struct(**fields):
    return pa.StructArray.from_arrays(list(fields.values()), list(fields))


# (The column in the newest file and in an older one, options, a user's schema, the error from the column on.)
CASES = {
    "text and a number": (TEXT, LONG, {}, None, f"c: the schema of the read{NEWEST}: expected string, found int64, which is bigint in Spark and does not widen to it; {NO_WAY}"),
    "a narrower type": (INT, LONG, {}, None, f"c: the schema of the read{NEWEST}: expected int, found int64, which is bigint in Spark and does not widen to it; {BOTH}"),
    "elements": (pa.array([[1]], pa.list_(pa.int32())), pa.array([[1]]), {}, None, f"c[]: the schema of the read{NEWEST}: expected int, found int64, which is bigint in Spark and does not widen to it; {BOTH}"),
    "some fields of a struct": (struct(y=INT, x=TEXT), struct(x=LONG, y=INT), {"columns": "c.x, c.y"}, None, f"c.x: the schema of the read{NEWEST}: expected string, found int64, which is bigint in Spark and does not widen to it; {NO_WAY}"),
    "a column of where alone": (TEXT, LONG, {"columns": "n", "where": "c > 'b' OR n = 1"}, None, f"c: the option where{NEWEST}: expected string, found int64, which is bigint in Spark and does not widen to it; {NO_WAY}"),
    "a user's schema": (INT, TEXT, {}, "long", "c: the schema of the read: expected bigint, found utf8, which is string in Spark and does not widen to it"),
    "a user's schema that is the newest's": (LONG, TEXT, {}, "long", f"c: the schema of the read{NEWEST}: expected bigint, found utf8, which is string in Spark and does not widen to it; {NO_WAY}"),
    "the newest file itself": (TEXT, LONG, {}, "long", "c: the schema of the read: expected bigint, found utf8, which is string in Spark and does not widen to it"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_both_files_are_named_with_both_types(name, tmp_path):
    newest, older, options, schema, says = CASES[name]
    new, old = tmp_path / "d" / "new.arrow", tmp_path / "d" / "old.arrow"
    arrow_files.write(new, pa.table({"c": newest, "n": INT}))
    arrow_files.write(old, pa.table({"c": older, "n": INT}))
    os.utime(old, (1, 1))
    source = ArrowIpcDataSource({"path": str(tmp_path / "d"), **options})
    reader = source.reader(source.schema() if schema is None else s.StructType().add("c", schema))
    with pytest.raises(SchemaMismatchError) as caught:
        list(map(list, map(reader.read, reader.partitions())))
    at = new if name == "the newest file itself" else old
    assert f"{at}: field {says.format(new=new)}" == str(caught.value)


def test_the_newest_file_may_be_gone_by_then(tmp_path):
    """The error is that of the file all the same."""
    new, old = tmp_path / "d" / "new.arrow", tmp_path / "d" / "old.arrow"
    arrow_files.write(new, pa.table({"c": TEXT}))
    arrow_files.write(old, pa.table({"c": LONG}))
    os.utime(old, (1, 1))
    source = ArrowIpcDataSource({"path": str(tmp_path / "d"), "maxPartitionBytes": "1"})
    reader = source.reader(source.schema())
    of_old = next(one for one in reader.partitions() if one.ranges[0].path == str(old))
    new.unlink()
    with pytest.raises(SchemaMismatchError, match="field c: the schema of the read: expected string, found int64"):
        list(reader.read(of_old))
