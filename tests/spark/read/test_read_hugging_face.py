"""Directories of HuggingFace's `datasets` in Spark, made by hand; those of the library itself are in another file."""

import json

import arrow_files
import pyarrow as pa
import pyspark
import pytest
from pyspark.errors import PySparkException

ORDERED = {"z.arrow": [1, 2], "a.arrow": [3, 4], "m.arrow": [5, 6]}


def dataset(root, files):
    """Write a Dataset, whose files are named in an order that is not that of their names."""
    for name, values in files.items():
        arrow_files.write(root / name, pa.table({"n": pa.array(values, pa.int32())}), stream=True)
    arrow_files.write(root / "cache-1.arrow", pa.table({"n": pa.array([-1], pa.int32())}), stream=True)
    (root / "dataset_info.json").write_text('{"features": {"n": {"dtype": "int32", "_type": "Value"}}}')
    (root / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in files]}))
    return root


@pytest.fixture(scope="module")
def splits(tmp_path_factory):
    root = tmp_path_factory.mktemp("dict")
    dataset(root / "train", ORDERED)
    dataset(root / "test", {"data.arrow": [7]})
    (root / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    return root


def load(spark, *paths, **options):
    return spark.read.format("arrowipc").options(**options).load([str(path) for path in paths])


def test_the_files_in_the_order_of_the_state(spark, splits):
    frame = load(spark, splits / "train", minPartitionNum=1)
    assert ["n"] == frame.columns
    assert [1, 2, 3, 4, 5, 6] == [row.n for row in frame.collect()]
    assert 6 == load(spark, splits / "train").count()


def test_the_split_is_a_column(spark, splits):
    frame = load(spark, splits)
    assert "struct<n:int,split:string>" == frame.schema.simpleString()
    assert {"train": 6, "test": 1} == {row.split: row["count"] for row in frame.groupBy("split").count().collect()}
    assert [(7, "test")] == load(spark, splits, where="split = 'test'").collect()
    assert ["test"] == [row.split for row in load(spark, splits, columns="split").where("split = 'test'").collect()]
    assert 7 == load(spark, splits, metadataOnly="true").selectExpr("sum(rows)").first()[0]


def test_filters_of_names_still_choose(spark, splits):
    assert [5, 6, 7] == [row.n for row in load(spark, splits, pathGlobFilter="[md]*.arrow").collect()]


@pytest.mark.skipif(pyspark.__version__ < "4.2", reason="reading a stream needs Spark 4.2 or later")
def test_a_stream_reads_one_split(spark, splits, tmp_path):
    def stream(path, name):
        source = spark.readStream.format("arrowipc").schema("n int").load(str(path))
        query = source.writeStream.format("memory").queryName(name).trigger(availableNow=True)
        query.option("checkpointLocation", str(tmp_path / name)).start().awaitTermination()

    stream(splits / "train", "hugging_face_train")
    assert 6 == spark.table("hugging_face_train").count()
    with pytest.raises(PySparkException, match="stream the directory of one split"):
        stream(splits, "hugging_face_all")
