"""Commands overwrite no file, and its name says its format."""

import argparse

import pytest

from spark_arrow_ipc.cli.shared import files
from spark_arrow_ipc.storage.local import LOCAL


def parsed(declare, *arguments):
    parser = argparse.ArgumentParser()
    declare(parser)
    return parser.parse_args(list(map(str, arguments)))


FORMATS = [("x.arrow", "file"), ("x.arrows", "stream"), ("x.stream", "stream"), ("x", "file")]


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
