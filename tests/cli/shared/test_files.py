"""Commands overwrite no file, and its name says its format."""

import argparse
from types import SimpleNamespace

import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import RecordBatch, Schema, types
from spark_arrow_ipc.cli.main import main
from spark_arrow_ipc.cli.shared import files
from spark_arrow_ipc.storage.local import LOCAL


def parsed(declare, *arguments):
    parser = argparse.ArgumentParser()
    declare(parser)
    return parser.parse_args(list(map(str, arguments)))


FORMATS = [
    ("x.arrow", "file"), ("x.feather", "file"), ("x.ipc", "file"), ("x.arrows", "stream"), ("x.stream", "stream"),
    ("x", "file"), ("X.ARROWS", "stream"), (".arrows", "file"), ("a.csv/x", "file"), ("s3://bucket/x.arrows", "stream"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "expected"), FORMATS)
def test_the_format_follows_the_name_by_default(name, expected):
    assert expected == files.write_options(parsed(files.add_output_arguments), name).format


def test_the_format_and_codec_can_be_given():
    options = files.write_options(
        parsed(files.add_output_arguments, "--ipc-format", "stream", "--compression", "none"), "x"
    )
    assert ("stream", None) == (options.format, options.compression)


def test_an_existing_file_is_refused(tmp_path):
    (tmp_path / "a.arrow").touch()
    files.refuse_existing(LOCAL, str(tmp_path / "new.arrow"))
    with pytest.raises(FileExistsError, match="not overwritten"):
        files.refuse_existing(LOCAL, str(tmp_path / "a.arrow"))


def test_metadata_about_blocks_is_not_copied():
    pairs = (("spark_arrow_ipc.statistics", "x"), ("owner", "me"))
    assert (("owner", "me"),) == files.foreign_metadata(pairs)


# Commands that write one file, with endings that they do not write.
OTHERS = ["json", "xlsx", "csv.gz", "orc", "avro", "txt", "JSON", "zip", "arrow.zst", "2024"]
TARGETS = {
    "convert": OTHERS,
    "concat": [*OTHERS, "parquet", "csv", "jsonl", "html"],
    "rewrite": [*OTHERS, "parquet", "csv", "jsonl"],
    "repair": [*OTHERS, "parquet", "csv", "jsonl"],
    "layout": [*OTHERS, "png", "pdf", "arrow"],
}
WAYS = {"convert": ["--to", "file"], "layout": None}
CASES = [(command, ending) for command, endings in TARGETS.items() for ending in endings]


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize(("command", "ending"), CASES, ids=map(".".join, CASES))
def test_a_name_that_says_another_format_is_refused_before_anything_is_read(tmp_path, capsys, command, ending):
    """A file of Arrow under the name x.json is found out by somebody else, much later."""
    source, target = tmp_path / "f.arrow", tmp_path / f"x.{ending}"
    with ipc.create(source, Schema.of([types.field("a", types.int8)])) as writer:
        writer.write(RecordBatch.from_pydict({"a": [1]}, writer.schema))
    assert 1 == main([command, str(source), str(target)])
    out, err = capsys.readouterr()
    assert "" == out
    assert f"{target}: this command writes files whose names end in ." in err
    assert f", and not in .{ending.rpartition('.')[2].lower()}; " in err
    assert 1 == len(err.splitlines())
    assert [source] == list(tmp_path.iterdir())
    way = WAYS.get(command, ["--ipc-format", "file"])
    if way is not None:
        assert 0 == main([command, *way, str(source), str(target)])
        with ipc.open(target) as reader:
            assert [{"a": 1}] == [row for batch in reader for row in batch.to_pylist()]


ENDINGS_ALONE = {"convert": [".arrow", ".parquet", ".csv", "..arrow"], "layout": [".svg"]}
ENDINGS_ALONE |= {command: [".arrow", ".json", "...arrows"] for command in ("concat", "rewrite", "repair")}
UNNAMED = [(command, name) for command, names in ENDINGS_ALONE.items() for name in [*names, "new/"]]


@pytest.mark.parametrize(("command", "name"), UNNAMED, ids=map(" ".join, UNNAMED))
def test_a_name_that_names_no_file_is_refused(tmp_path, capsys, command, name):
    """``.parquet`` was written as an Arrow file that readers pass over, and ``new/`` as a file named new."""
    source = tmp_path / "f.arrow"
    ipc.write(source, RecordBatch.from_pydict({"a": [1]}, Schema.of([types.field("a", types.int8)])))
    assert 1 == main([command, str(source), f"{tmp_path}/{name}"])
    out, err = capsys.readouterr()
    what = (
        "this command writes one file, and a name"
        if name == "new/"
        else "this name is an ending with nothing before it"
    )
    assert ("", 1) == (out, err.count("\n"))
    assert f"arrowipc: {tmp_path}/{name}: {what}" in err
    assert [source] == list(tmp_path.iterdir())
    way = WAYS.get(command, ["--ipc-format", "file"])
    if way is not None and name != "new/":
        assert 0 == main([command, *way, str(source), f"{tmp_path}/{name}"])


def test_a_repaired_directory_keeps_the_names_of_its_files(tmp_path):
    (tmp_path / "lake").mkdir()
    for name in ("part.0", "b.bin"):
        with ipc.create(tmp_path / "lake" / name, Schema.of([types.field("a", types.int8)])):
            pass
    assert 0 == main(["repair", str(tmp_path / "lake"), str(tmp_path / "whole")])
    assert ["b.bin", "part.0"] == sorted(path.name for path in (tmp_path / "whole").iterdir())


SAME = [
    # a file that is read, the one to write, and whether it is the same
    ("s3://b/a.arrow", "s3://b/a.arrow", True),
    ("s3://b/a.arrow", "s3a://b//a.arrow", True),
    ("s3://b/a.arrow", "s3://c/a.arrow", False),
    ("s3://b/a.arrow", "gs://b/a.arrow", False),
    ("abfss://c@acc.dfs.core.windows.net/a", "az://c/a", True),
    ("/b/a.arrow", "s3://b/a.arrow", False),
    ("s3://b/a.arrow", "/b/a.arrow", False),
]


@pytest.mark.parametrize(("path", "target", "is_same"), SAME)
def test_a_file_that_is_read_is_known_by_any_spelling_of_its_url(path, target, is_same):
    arguments = argparse.Namespace(force=True, storage=(("account_name", "acc"),) if "://" in target else ())
    given = [SimpleNamespace(content=None, is_served=False, path=path)]
    if not is_same:
        files.check_target(arguments, target, given)
        return
    with pytest.raises(FileExistsError, match="this file is read"):
        files.check_target(arguments, target, given)
