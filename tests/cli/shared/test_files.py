"""Commands find the files that Spark's reader finds, and overwrite none."""

import argparse

import pytest

from spark_arrow_ipc.cli.shared import files
from spark_arrow_ipc.errors import ArrowIpcError


def parsed(declare, *arguments):
    parser = argparse.ArgumentParser()
    declare(parser)
    return parser.parse_args(list(map(str, arguments)))


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "below").mkdir()
    for name in ("b.arrow", "a.arrow", "_hidden.arrow", "below/c.arrow"):
        (tmp_path / name).write_bytes(b"x")
    return tmp_path


PATHS = {
    "a directory": (["."], ["a.arrow", "b.arrow"]),
    "a directory and those below": (["-r", "."], ["a.arrow", "b.arrow", "below/c.arrow"]),
    "files in the order of the arguments": (["b.arrow", "a.arrow"], ["b.arrow", "a.arrow"]),
    "a pattern": (["b*.arrow"], ["b.arrow"]),
}


@pytest.mark.parametrize("case", PATHS)
def test_paths_stand_for_files(case, tree):
    arguments, expected = PATHS[case]
    given = [argument if argument == "-r" else tree / argument for argument in arguments]
    listed = files.each_file(parsed(files.add_path_arguments, *given))
    assert expected == [path.removeprefix(f"{tree}/") for path in listed]


def test_a_path_that_does_not_exist_is_an_error(tree):
    with pytest.raises((ArrowIpcError, OSError), match=r"missing\.arrow"):
        list(files.each_file(parsed(files.add_path_arguments, tree / "missing.arrow")))


FORMATS = [("x.arrow", "file"), ("x.arrows", "stream"), ("x.stream", "stream"), ("x", "file")]


@pytest.mark.parametrize(("name", "expected"), FORMATS)
def test_the_format_follows_the_name_by_default(name, expected):
    assert expected == files.write_options(parsed(files.add_output_arguments), name).format


def test_the_format_and_codec_can_be_given():
    options = files.write_options(
        parsed(files.add_output_arguments, "--ipc-format", "stream", "--compression", "none"), "x"
    )
    assert ("stream", None) == (options.format, options.compression)


def test_an_existing_file_is_refused(tree):
    files.refuse_existing(str(tree / "new.arrow"))
    with pytest.raises(FileExistsError, match="never overwritten"):
        files.refuse_existing(str(tree / "a.arrow"))


def test_metadata_about_blocks_is_not_copied():
    pairs = (("spark_arrow_ipc.statistics", "x"), ("owner", "me"))
    assert (("owner", "me"),) == files.foreign_metadata(pairs)


def test_an_error_is_one_line(capsys):
    files.complain(OSError("two\nlines"))
    assert "arrowipc: two\\nlines\n" == capsys.readouterr().err
