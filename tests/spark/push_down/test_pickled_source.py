"""Sources that the jar creates by a call: no process creates them, and the process that plans infers their schemas."""

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.serializers import CloudPickleSerializer

from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource
from spark_arrow_ipc.spark.push_down import pickled_source

CLASS = CloudPickleSerializer().dumps(ArrowIpcDataSource)


@pytest.mark.parametrize(
    ("create", "is_inferred"), [(pickled_source.create, False), (pickled_source.create_inferred, True)]
)
def test_a_call_creates_the_source_with_its_options(create, is_inferred):
    source = create(CLASS, json.dumps({"path": "/data/ä b", "mergeSchema": "true"}))
    assert (type(source), source.is_inferred) == (ArrowIpcDataSource, is_inferred)
    assert (source.options["PATH"], source.options["mergeschema"]) == ("/data/ä b", "true")


def test_a_jar_of_another_release_is_refused():
    with pytest.raises(OptionError, match="write the jar anew"):
        pickled_source.create(CLASS, json.dumps({"path": "/data", "arrowipc.release": "0.0.1 for Spark 4.1"}))


def creators():
    """Return the processes below this one that create Python sources."""
    parents, named = {}, set()
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            command = (directory / "cmdline").read_bytes()
            parents[directory.name] = (directory / "stat").read_text().rsplit(")", 1)[1].split()[1]
        except OSError:  # it has ended
            continue
        if b"create_data_source" in command:
            named.add(directory.name)
    return {name for name in named if str(os.getpid()) in ancestors(name, parents)}


def ancestors(name, parents):
    while name in parents:
        name = parents[name]
        yield name


def test_no_process_creates_a_source(pushed, tmp_path):
    spark, path = pushed, str(tmp_path / "t")
    spark.range(3).selectExpr("id AS `ä``b`", "array(struct(id AS x)) AS l").write.format("arrowipc").save(path)
    before = creators()
    read = spark.read.format("arrowipc").load(path)
    assert ["ä`b", "l"] == read.columns
    for frame in (read, spark.read.format("arrowipc").schema("l array<struct<x bigint>>").load(path)):
        assert [0, 1, 2] == sorted(row.l[0].x for row in frame.collect())
    assert before == creators()


class Derived(ArrowIpcDataSource):
    """Has state of `schema`, and returns a schema as text."""

    def schema(self):
        super().schema()
        self.state = "kept"
        return "id long"

    def reader(self, schema):
        assert self.state == "kept"
        return super().reader(schema)


def test_a_derived_class_is_created_as_spark_does(pushed, tmp_path):
    pushed.range(3).write.format("arrowipc").save(str(tmp_path / "t"))
    session = pushed.newSession()
    session.dataSource.register(type("Here", (Derived,), {"__module__": "__main__"}))
    assert 3 == session.read.format("arrowipc").load(str(tmp_path / "t")).count()


@pytest.mark.parametrize("rows", ["0", "-1"])
def test_columns_are_shown_where_spark_plans_no_read(pushed, tmp_path, rows):
    pushed.range(3).write.format("arrowipc").save(str(tmp_path / "t"))
    session = pushed.newSession()
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", rows)
    assert ["id"] == session.read.format("arrowipc").load(str(tmp_path / "t")).columns


def test_errors_are_those_of_a_source_that_is_created(pushed, tmp_path):
    with pytest.raises(AnalysisException, match="Failed to create Python data source instance:") as error:
        pushed.read.format("arrowipc").load(str(tmp_path))
    assert "NoFilesError" in str(error.value)


@pytest.mark.parametrize("schema", [None, "id bigint"])
@pytest.mark.parametrize("push_down", ["true", "false"])
def test_what_is_not_supported_is_said(pushed, tmp_path, schema, push_down):
    """Spark takes a NotImplementedError of a plan for a source without partitions."""
    import arrow_files  # not in the process that unpickles `Derived`

    session = pushed.newSession()
    session.conf.set("spark.arrowipc.pushDown", push_down)
    session.range(1).write.format("arrowipc").mode("append").save(str(tmp_path / "t"))
    arrow_files.write(tmp_path / "t" / "foreign.arrow", pa.table({"id": [7]}))
    reader = session.read.format("arrowipc").option("versionAsOf", 1)
    with pytest.raises(AnalysisException, match=r"UnsupportedError: .*files of other programs"):
        (reader if schema is None else reader.schema(schema)).load(str(tmp_path / "t")).collect()


def test_structs_nest_as_deep_as_fields(pushed, tmp_path):
    column = "id"
    for i in range(60):
        column = f"named_struct('f{i}', {column})"
    pushed.range(1).selectExpr(f"{column} AS s").write.format("arrowipc").save(str(tmp_path / "t"))
    (row,) = pushed.read.format("arrowipc").load(str(tmp_path / "t")).collect()
    value = row.s
    for _ in range(60):
        (value,) = value
    assert value == 0
