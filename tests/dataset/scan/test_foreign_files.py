"""Files that are no Arrow files are found at planning, where their names raise the suspicion."""

import pathlib

import pytest
from listed_files import list_files

from spark_arrow_ipc.dataset.scan.error_policy import STRICT, ErrorPolicy
from spark_arrow_ipc.dataset.scan.file_metadata import MetadataCache, MetadataOptions
from spark_arrow_ipc.dataset.scan.schemas import check_no_foreign_files
from spark_arrow_ipc.errors import NotArrowError

pa = pytest.importorskip("pyarrow")

JSON, PARQUET, NOISE = b'{"builder_name": "csv"}', b"PAR1" + bytes(40), b"\x01\x02\x03\x04" * 8
ADVICE = "To read only files of certain names set the option pathGlobFilter, such as *.arrow"


def arrow(kind=pa.ipc.new_file):
    sink = pa.BufferOutputStream()
    with kind(sink, pa.schema([("a", pa.int64())])):
        pass
    return sink.getvalue().to_pybytes()


def check(folder, files, policy=STRICT):
    """Write files, check them, and return the names of those that were opened."""
    for name, data in files.items():
        pathlib.Path(folder, name).write_bytes(data)
    cache = MetadataCache(MetadataOptions())
    try:
        check_no_foreign_files(list_files([str(folder)]), cache, policy)
    finally:
        opened = sorted(pathlib.Path(path).name for path in cache.by_path)
    return opened


# (The directory, the file that the error names, words about what it is.)
FOREIGN = {
    "a dataset of Hugging Face": (
        {"data-00000-of-00001.arrow": arrow(pa.ipc.new_stream), "dataset_info.json": JSON, "state.json": JSON},
        "dataset_info.json",
        "what looks like text",
    ),
    "another format beside": ({"a.arrow": arrow(), "b.parquet": PARQUET}, "b.parquet", "what looks like Parquet"),
    "noise without an ending": ({"a.arrow": arrow(), "readme": NOISE}, "readme", "the bytes 01 02 03 04"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_file_is_named_with_the_way_round(tmp_path, name):
    files, foreign, words = FOREIGN[name]
    with pytest.raises(NotArrowError) as raised:
        check(tmp_path, files)
    assert str(raised.value).startswith(
        f"{tmp_path / foreign}: expected an Arrow IPC file (ARROW1) or stream, found {words}"
    )
    assert ADVICE in str(raised.value)


def test_a_single_file_cannot_be_left_out(tmp_path):
    with pytest.raises(NotArrowError) as raised:
        check(tmp_path, {"a.json": JSON})
    assert ADVICE not in str(raised.value)


# (The directory, the files that are opened.)
READ = {
    "the usual endings": ({f"a.{ending}": JSON for ending in ("arrow", "arrows", "feather", "ipc", "stream", "ARROW")}, []),
    "one of each unusual ending": ({"a.x": arrow(), "b.x": JSON, "c.y": arrow()}, ["a.x", "c.y"]),
    "no ending": ({"part-0": arrow(), "part-1": arrow()}, ["part-0"]),
    "no ending, though it sounds so": ({"arrow": arrow(), "stream": JSON}, ["arrow"]),
    "at most eight": ({f"part.{i:02}": arrow() for i in range(20)}, [f"part.{i:02}" for i in range(8)]),
    "a broken Arrow file": ({"a.x": arrow()[:-8]}, ["a.x"]),
    "an empty file": ({"a.x": b""}, ["a.x"]),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_few_files_are_opened_and_other_errors_left_to_tasks(tmp_path, name):
    files, opened = READ[name]
    assert check(tmp_path, files) == opened


def test_what_is_skipped_is_no_error(tmp_path):
    assert check(tmp_path, {"a.arrow": arrow(), "b.json": JSON}, ErrorPolicy(ignore_corrupt_files=True)) == ["b.json"]
