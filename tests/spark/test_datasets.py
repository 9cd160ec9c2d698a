"""HuggingFace's `datasets` itself, where it is installed: what it saved, through Spark, is what it opens again."""

import datetime as dt
import decimal
import io
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from spark_arrow_ipc.cli.main import main
from spark_arrow_ipc.storage.failpoint import VARIABLE

hf = pytest.importorskip("datasets", reason="it is of the extra 'test-ecosystem'")
pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[2]
LAYOUT = ROOT / "tests" / "dataset" / "write" / "test_hugging_face_layout.py"
D = decimal.Decimal


def png(red):
    image = pytest.importorskip("PIL.Image").new("RGB", (2, 2), (red, 0, 0))
    sink = io.BytesIO()
    image.save(sink, "PNG")
    return {"bytes": sink.getvalue(), "path": None}


def kinds():
    """By name, a feature and values for three rows."""
    value, labels = hf.Value, hf.ClassLabel(names=["neg", "pos"])
    return {
        "text": (value("string"), ["a", "b", None]),
        "large": (value("large_string"), ["l", "", None]),
        "label": (labels, [0, 1, None]),
        "uint8": (value("uint8"), [1, 255, None]),
        "float16": (value("float16"), [0.5, 1.5, None]),
        "flag": (value("bool"), [True, False, None]),
        "bytes": (value("binary"), [b"\0\xff", b"", None]),
        "at": (value("timestamp[us]"), [dt.datetime(2026, 1, 1), dt.datetime(1960, 1, 1), None]),
        "day": (value("date32"), [dt.date(2026, 1, 1), dt.date(1960, 1, 1), None]),
        "took": (value("duration[us]"), [dt.timedelta(seconds=1), dt.timedelta(0), None]),
        "price": (value("decimal128(9, 2)"), [D("1.25"), D("-0.01"), None]),
        "list": (hf.List(value("int64")), [[1, 2], [], None]),
        "fixed": (hf.List(value("float32"), length=2), [[1, 2], [3, 4], [5, 6]]),
        "nested": ({"a": value("int32"), "tags": hf.List(labels)}, [{"a": 1, "tags": [0, 1]}, {"a": 2, "tags": []}, {"a": 3, "tags": [1]}]),
        "matrix": (hf.Array2D((2, 3), "int32"), [[[1, 2, 3], [4, 5, 6]]] * 3),
        "cube": (hf.Array3D((None, 2, 2), "float32"), [np.ones((i, 2, 2), "float32") for i in (1, 2, 3)]),
        "image": (hf.Image(), [png(1), png(200), None]),
    }  # fmt: skip


def made():
    columns = kinds()
    features = hf.Features({name: feature for name, (feature, _) in columns.items()})
    return hf.Dataset.from_dict({name: values for name, (_, values) in columns.items()}, features=features)


def load(spark, path):
    return spark.read.format("arrowipc").load(str(path))


def save(frame, path, mode="overwrite", **options):
    frame.write.format("arrowipc").options(layout="huggingface", **options).mode(mode).save(str(path))


def rows(dataset):
    """Return the rows as Arrow has them, without decoding images."""
    return dataset.with_format("arrow")[:].to_pylist()


def test_every_kind_of_feature_comes_back(spark, tmp_path):
    dataset = made()
    dataset.save_to_disk(tmp_path / "saved", num_shards=2)
    frame = load(spark, tmp_path / "saved")
    assert {"names": ["neg", "pos"], "_type": "ClassLabel"} == json.loads(
        frame.schema["label"].metadata["arrow.huggingface"]
    )
    save(frame.coalesce(1).orderBy("uint8"), tmp_path / "back")
    back = hf.load_from_disk(str(tmp_path / "back"))
    assert dataset.features == back.features
    assert sorted(map(repr, rows(dataset))) == sorted(map(repr, rows(back)))
    assert (2, 2) == next(image for image in back["image"] if image is not None).size
    save(load(spark, tmp_path / "back").where("label = 1"), tmp_path / "saved")  # over what the library wrote
    over = hf.load_from_disk(str(tmp_path / "saved"))
    assert dataset.features == over.features
    assert rows(dataset)[1:2] == rows(over)


def test_columns_of_spark_have_features(spark, tmp_path):
    frame = spark.sql(
        "SELECT id, 'x' AS s, named_struct('a', array(id)) AS n, timestamp_seconds(id) AS t, CAST(id AS decimal(20, 3)) AS d FROM range(3)"
    )
    save(frame, tmp_path / "x", mode="append", ifExists="error", compression="zstd")
    opened = hf.load_from_disk(str(tmp_path / "x"))
    expected = {
        "id": hf.Value("int64"), "s": hf.Value("string"), "n": {"a": hf.List(hf.Value("int64"))},
        "t": hf.Value("timestamp[us, tz=UTC]"), "d": hf.Value("decimal128(20, 3)"),
    }  # fmt: skip
    assert hf.Features(expected) == opened.features
    assert [0, 1, 2] == sorted(opened["id"])


def test_a_dataset_dict_is_read_with_its_splits(spark, tmp_path, capsys):
    one = hf.Dataset.from_dict({"n": [1, 2, 3]})
    hf.DatasetDict({"train": one, "test": one.select([2])}).save_to_disk(tmp_path / "dict")
    frame = load(spark, tmp_path / "dict")
    assert [("test", 3), ("train", 1), ("train", 2), ("train", 3)] == sorted(
        (row.split, row.n) for row in frame.collect()
    )
    assert 0 == main(["count", str(tmp_path / "dict")])
    assert "4\ttotal" == capsys.readouterr().out.splitlines()[-1]


def test_selected_rows_are_those_that_are_saved(spark, tmp_path):
    hf.Dataset.from_dict({"n": range(10)}).select([7, 2]).save_to_disk(tmp_path / "x")
    assert [7, 2] == [row.n for row in load(spark, tmp_path / "x").collect()]


def test_the_cache_of_load_dataset_is_read_without_results_of_map(spark, tmp_path):
    (tmp_path / "x.jsonl").write_text("".join(json.dumps({"n": n}) + "\n" for n in range(5)))
    paths = {"train": str(tmp_path / "x.jsonl"), "test": str(tmp_path / "x.jsonl")}
    opened = hf.load_dataset("json", data_files=paths, cache_dir=str(tmp_path / "cache"))
    opened["train"].map(lambda row: {"m": row["n"] + 1})
    cached = Path(opened["train"].cache_files[0]["filename"]).parent
    assert list(cached.glob("cache-*.arrow"))
    counts = {row.split: row["count"] for row in load(spark, cached).groupBy("split").count().collect()}
    assert {"train": 5, "test": 5} == counts


KILLS = [
    *(
        (point, 1)
        for point in ("planned.id", "planned.mark", "T2.proven", "named.all", "committed.asked", "committed.put")
    ),
    *(("named.file", passage) for passage in (1, 2)),
    *((point, 1) for point in ("collected.removed", "collected.files", "collected.mark")),
]


@pytest.mark.parametrize(("point", "passage"), KILLS)
def test_a_killed_job_leaves_what_load_from_disk_opens(tmp_path, point, passage):
    write = runpy.run_path(str(LAYOUT))["write"]
    old, new = ([1, 0], ["a", "b"]), ([0, 1, 2], ["x", "y", "z"])
    labels = hf.Features({"label": hf.ClassLabel(names=old[1])})
    hf.Dataset.from_dict({"label": old[0]}, features=labels).save_to_disk(tmp_path / "x")
    program = f"import pathlib, runpy; runpy.run_path({str(LAYOUT)!r})['write'](pathlib.Path({str(tmp_path / 'x')!r}), {new[1]!r}, (0, 1), (2,))"
    environment = {**os.environ, VARIABLE: f"{point}:kill@{passage}", "PYTHONPATH": os.pathsep.join(sys.path)}
    assert -9 == subprocess.run([sys.executable, "-c", program], env=environment, timeout=300).returncode

    def opened():
        dataset = hf.load_from_disk(str(tmp_path / "x"))
        return list(dataset["label"]), dataset.features["label"].names

    found = opened()
    is_new = point.startswith("collected")
    assert (new if is_new else old) == found
    assert 0 == main(["vacuum", "--older-than", "0", str(tmp_path / "x")])
    is_committed = is_new or point == "committed.put"
    assert (new if is_committed else old) == opened()
    write(tmp_path / "x", ["m"], (0,))
    assert ([0], ["m"]) == opened()
