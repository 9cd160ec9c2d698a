"""The IDL files of the repository are what the declarations say, and flatc takes them."""

import shutil
import subprocess
from pathlib import Path

import print_fbs
import pytest

from spark_arrow_ipc.ipc.flatbuf import tables

FORMAT = Path(__file__).parents[1] / "format"


@pytest.mark.parametrize("file", tables.FILES, ids=lambda file: file.name)
def test_committed_idl_is_current(file):
    """If not: python tests/programs/print_fbs.py format/"""
    assert (FORMAT / file.name).read_text(encoding="utf-8") == print_fbs.render(file)


def test_no_other_idl_is_committed():
    assert {path.name for path in FORMAT.glob("*.fbs")} == {file.name for file in tables.FILES}


def test_main_writes_every_file(tmp_path):
    print_fbs.main([str(tmp_path)])
    assert {path.name for path in tmp_path.iterdir()} == {file.name for file in tables.FILES}


@pytest.mark.parametrize("file", tables.FILES, ids=lambda file: file.name)
def test_flatc_compiles_the_idl(file, tmp_path):
    flatc = shutil.which("flatc")
    if flatc is None:
        pytest.skip("flatc is not on PATH (Debian package flatbuffers-compiler)")
    command = [flatc, "--binary", "--schema", "-o", str(tmp_path), str(FORMAT / file.name)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    assert (tmp_path / file.name).with_suffix(".bfbs").stat().st_size > 0
