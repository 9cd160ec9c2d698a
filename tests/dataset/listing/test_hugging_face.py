"""Directories of HuggingFace's `datasets`, made by hand. Those of the library itself are in tests/interop."""

import json
import os
import tracemalloc

import pytest

from spark_arrow_ipc.cli.main import main
from spark_arrow_ipc.dataset.listing.hive import discover
from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.errors import LimitError, NoFilesError, UnsupportedError

pa = pytest.importorskip("pyarrow")

INFO = {"citation": "", "features": {"n": {"dtype": "int64", "_type": "Value"}}}


def plant(root, files):
    """Write files: a JSON value as such, a list of numbers as a stream with a column n, a string as it is."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, dict):
            path.write_text(json.dumps(content))
        elif isinstance(content, str):
            path.write_text(content)
        else:
            table = content if isinstance(content, pa.Table) else pa.table({"n": pa.array(content, pa.int64())})
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
                writer.write_table(table)
    return root


def state(*names, **keys):
    return {"_data_files": [{"filename": name} for name in names], "_fingerprint": "0", "_split": None, **keys}


def dataset(*names, prefix="", **keys):
    files = {f"{prefix}{name}": [i] for i, name in enumerate(names)}
    return {**files, f"{prefix}dataset_info.json": INFO, f"{prefix}state.json": state(*names, **keys)}


def cache(of="Fine_webEdu", splits=("train",), shards=None):
    rows = {name: {"name": name, "dataset_name": of, "shard_lengths": shards} for name in splits}
    return {"dataset_info.json": {**INFO, "splits": rows}}


def discovered(root, *read, **options):
    return discover(list_tree([str(root / path) for path in read or ("",)], hugging_face=True, **options))


TRAIN_TEST = {
    **dataset("data-0.arrow", "data-1.arrow", prefix="train/"),
    **dataset("data-0.arrow", prefix="test/"),
    "dataset_dict.json": {"splits": ["train", "test"]},
}
READ = [
    ("in the order of the state", {**dataset("b.arrow", "a.arrow"), "cache-1.arrow": [9]}, [""], ["b.arrow", "a.arrow"], None),
    ("a file twice", {"a": [1], "dataset_info.json": INFO, "state.json": state("a", "a")}, [""], ["a", "a"], None),
    ("no index", dataset("a.arrow", _indices_files=None, _indices_data_files=[]), [""], ["a.arrow"], None),
    ("splits in their order", TRAIN_TEST, [""],
     ["train/data-0.arrow", "train/data-1.arrow", "test/data-0.arrow"], ["train", "train", "test"]),
    ("one split of several", TRAIN_TEST, ["train"], ["train/data-0.arrow", "train/data-1.arrow"], None),
    ("a pattern of splits", TRAIN_TEST, ["t*n"], ["train/data-0.arrow", "train/data-1.arrow"], None),
    ("a single split", {**dataset("a", prefix="all/"), "dataset_dict.json": {"splits": ["all"]}}, [""], ["all/a"], None),
    ("a Dataset wins, as in load_from_disk", {**TRAIN_TEST, **dataset("a")}, [""], ["a"], None),
    ("beside other files", {**TRAIN_TEST, "other/x.arrow": [7]}, ["", "other"],
     ["train/data-0.arrow", "train/data-1.arrow", "test/data-0.arrow", "other/x.arrow"], ["train", "train", "test", None]),
    ("in partitions", {**dataset("a", prefix="k=1/"), **dataset("b", prefix="k=2/")}, [""], ["k=1/a", "k=2/b"], [1, 2]),
    ("a cache", {**cache(), "fine_web_edu-train.arrow": [1], "cache-7.arrow": [2]}, [""], ["fine_web_edu-train.arrow"], None),
    ("shards of a cache", {**cache("X", shards=[1, 1]), "x-train-00000-of-00002.arrow": [1], "x-train-00001-of-00002.arrow": [2]},
     [""], ["x-train-00000-of-00002.arrow", "x-train-00001-of-00002.arrow"], None),
    ("splits of a cache", {**cache("x", ("b", "a")), "x-a.arrow": [1], "x-b.arrow": [2]}, [""],
     ["x-b.arrow", "x-a.arrow"], ["b", "a"]),
]  # fmt: skip


@pytest.mark.parametrize("case", [case[1:] for case in READ], ids=[case[0] for case in READ])
def test_the_files_that_the_json_names(tmp_path, case):
    files, read, expected, values = case
    found = discovered(plant(tmp_path, files), *read)
    assert expected == [os.path.relpath(file.path, tmp_path) for file in found.files]
    assert ([] if values is None else values) == [value for file in found.files for value in file.partition]


def test_recursively_the_files_of_each_data_set(tmp_path):
    plant(tmp_path, {**dataset("b", "a", prefix="x/"), "y/c": [1]})
    found = discovered(tmp_path, recursive=True)
    assert ["x/b", "x/a", "y/c"] == [os.path.relpath(file.path, tmp_path) for file in found.files]


REFUSED = [
    ("indices", dataset("a", _indices_files=[{"filename": "i"}]), UnsupportedError, r"state.json: .*_indices_files.*flatten_indices"),
    ("older indices", dataset("a", _indices_data_files=[{"filename": "i"}]), UnsupportedError, "_indices_data_files"),
    ("not there", {**dataset("a"), "state.json": state("a", "b")}, NoFilesError, "state.json names the file 'b', which is not there"),
    ("outside", {**dataset("a"), "state.json": state("../secret")}, NoFilesError, "names of files in its directory.*secret"),
    ("absolute", {**dataset("a"), "state.json": state("/etc/passwd")}, NoFilesError, "names of files in its directory"),
    ("dots", {**dataset("a"), "state.json": state("..")}, NoFilesError, "names of files in its directory"),
    ("a number", {**dataset("a"), "state.json": state(7)}, NoFilesError, "names of files in its directory.*7"),
    ("no list", {**dataset("a"), "state.json": {"_data_files": "a"}}, NoFilesError, 'a list "_data_files"'),
    ("strings", {**dataset("a"), "state.json": {"_data_files": ["a"]}}, NoFilesError, 'objects with a "filename"'),
    ("no JSON", {**dataset("a"), "state.json": "{"}, NoFilesError, "state.json: expected JSON"),
    ("a list", {**dataset("a"), "state.json": "[]"}, NoFilesError, "a JSON object"),
    ("deep", {**dataset("a"), "state.json": "[" * 400 + "]" * 400}, NoFilesError, "levels"),
    ("large", {**dataset("a"), "state.json": " " * (16 << 20) + "{}"}, LimitError, "at most 16,777,216 bytes"),
    ("split outside", {"dataset_dict.json": {"splits": ["../x"]}}, NoFilesError, "different names of splits.*x"),
    ("split twice", {**TRAIN_TEST, "dataset_dict.json": {"splits": ["train", "train"]}}, NoFilesError, "different names"),
    ("no splits", {"dataset_dict.json": {"splits": []}}, NoFilesError, "different names of splits"),
    ("split not there", {"dataset_dict.json": {"splits": ["x"]}}, NoFilesError, "the split x, and its directory has no state"),
    ("cache without file", cache(), NoFilesError, "'fine_web_edu-train.arrow', which is not there"),
    ("cache outside", cache("../x"), NoFilesError, "names of files in its directory"),
    ("cache of a long name", cache("A" * 70_000), NoFilesError, "names of splits, each"),
    ("cache without names", {"dataset_info.json": {"splits": {"train": {}}}}, NoFilesError, "names of splits, each"),
    ("splits beside partitions", {**cache("x", ("a", "b")), "x-a.arrow": [1], "x-b.arrow": [1], "k=1/c": [1]}, UnsupportedError,
     "load them separately, and unite"),
    ("a column of that name", {**cache("x", ("a", "b")), "x-a.arrow": pa.table({"Split": ["q"]}), "x-b.arrow": [1]}, UnsupportedError,
     "x-a.arrow: .*has a column split, and"),
]  # fmt: skip


@pytest.mark.parametrize("case", [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_refusals_name_the_file_and_what_is_wrong(tmp_path, case):
    files, error, words = case
    plant(tmp_path, files)
    with pytest.raises(error, match=words):
        discovered(tmp_path)


@pytest.mark.slow
def test_a_long_list_of_shards_is_not_a_list_of_names(tmp_path):
    """Each number of the JSON became a name of 300 characters, before the first was looked for."""
    plant(tmp_path, cache("x" * 255, shards=[0] * 200_000))
    tracemalloc.start()
    try:
        with pytest.raises(NoFilesError, match="which is not there"):
            discovered(tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()


def test_json_that_is_a_link_is_not_followed(tmp_path):
    plant(tmp_path, {**dataset("a", prefix="x/"), "secret": state("a")})
    (tmp_path / "x/state.json").unlink()
    (tmp_path / "x/state.json").symlink_to(tmp_path / "secret")
    with pytest.raises(UnsupportedError, match=r"x/state.json"):
        discovered(tmp_path, "x")


def test_writers_and_copies_see_all_files(tmp_path):
    plant(tmp_path, {**dataset("b", "a"), "cache-1.arrow": [9]})
    names = [file.path.rpartition("/")[2] for file in list_tree([str(tmp_path)]).all_files()]
    assert ["a", "b", "cache-1.arrow", "dataset_info.json", "state.json"] == names


def test_the_command_line_reads_what_the_json_names(tmp_path, capsys):
    plant(tmp_path, {**TRAIN_TEST, "train/cache-1.arrow": [9]})
    assert 0 == main(["count", str(tmp_path)])
    names = ("train/data-0.arrow", "train/data-1.arrow", "test/data-0.arrow")
    assert [*(f"1\t{tmp_path / name}" for name in names), "3\ttotal"] == capsys.readouterr().out.splitlines()
    assert 0 == main(["cat", "--json", str(tmp_path)])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [{"n": 0, "split": "train"}, {"n": 1, "split": "train"}, {"n": 0, "split": "test"}] == rows
