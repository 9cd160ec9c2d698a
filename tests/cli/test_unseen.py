"""Commands say of files whose unseen slots are broken what they say of clean ones."""

import re

import pytest

pytest.importorskip("pyarrow")

from unseen_cases import batches, write_raw

from spark_arrow_ipc.cli.main import main

CODECS = ("none", "lz4")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two directories of files of the same names: the broken ones and the clean ones."""
    made = []
    for clean in (False, True):
        directory = tmp_path_factory.mktemp("files")
        for number, batch in enumerate(batches(clean=clean)):
            with (directory / f"{number}.arrow").open("wb") as sink:
                write_raw(sink, batch, compression="lz4" if number % 2 else None)
        made.append(directory)
    return made


COMMANDS = {
    "validate": ["validate", "0.arrow", "1.arrow", "2.arrow", "3.arrow"],
    "validate --values": ["validate", "--values", "0.arrow"],
    "head": ["head", "0.arrow"],
    "cat": ["cat", "1.arrow"],
    "concat": ["concat", "0.arrow", "0.arrow", "made.arrow"],
    "repair": ["repair", "1.arrow", "made.arrow"],
    "rewrite": ["rewrite", "2.arrow", "made.arrow"],
    "convert": ["convert", "3.arrow", "made.jsonl"],
    "diff": ["diff", "0.arrow", "0.arrow"],
    "inspect --stats": ["inspect", "--stats", "--json", "--scan", "2.arrow"],
    "schema": ["schema", "3.arrow"],
}

SIZES = re.compile(r'"(\w*bytes|compression_ratio)": [\d.]+')
"""Of buffers: the same values take a validity bitmap or not."""


def run(directory, arguments, capsys, monkeypatch):
    monkeypatch.chdir(directory)
    status = main(arguments)
    out, err = capsys.readouterr()
    made = [main(["cat", str(path)]) for path in directory.glob("made.arrow")]
    shown = capsys.readouterr().out
    for path in directory.glob("made*"):
        path.unlink()
    return status, SIZES.sub("", out), err, made, shown


@pytest.mark.slow
@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_say_what_they_say_of_clean_files(command, number, files, capsys, monkeypatch):
    arguments = [f"{number}.arrow" if word[0].isdigit() else word for word in COMMANDS[command]]
    broken, clean = (run(directory, arguments, capsys, monkeypatch) for directory in files)
    assert clean == broken


@pytest.mark.slow
def test_headers_are_described(files, capsys):
    assert 0 == main(["inspect", *map(str, sorted(files[0].glob("*.arrow")))])
    assert "" == capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("number", range(4))
def test_a_broken_file_differs_in_nothing_from_a_clean_one(number, files, capsys):
    assert 0 == main(["diff", *(str(directory / f"{number}.arrow") for directory in files)]), capsys.readouterr()
