"""The files of the documentation's pages: the same rows everywhere, and nothing of a user's is replaced."""

import datetime as dt
import json
import os
import re
import shlex
import subprocess
import sys

import numpy as np
import page_programs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

from spark_arrow_ipc import examples


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("examples") / "new"
    assert 0 == examples.main([str(folder)])
    return folder


def table(folder, name):
    return ds.dataset(folder / name, format="ipc").to_table()


# Name, rows, a column, and its sum: if one changes, so do the outputs on the pages.
ROWS = [
    ("flights.arrow", 100_000, "dep_delay", 1_007_497.0),
    ("items", 1_000, "amount", 4_895),
    ("texts", 1_000, "id", 500_500),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rows", "column", "total"), ROWS, ids=[row[0] for row in ROWS])
def test_rows_are_the_same_everywhere(folder, name, rows, column, total):
    found = table(folder, name)
    assert (rows, total) == (found.num_rows, pc.sum(found[column]).as_py())


def test_numbers_are_those_of_splitmix64():
    """Of the seed 0, as its authors give them."""
    authors = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert [(x >> 11) / 2.0**53 for x in authors] == examples.pseudo_random(3, 0).tolist()


def test_seeds_give_numbers_of_their_own():
    assert 0.02 > abs(np.corrcoef(examples.pseudo_random(100_000, 1), examples.pseudo_random(100_000, 2))[0, 1])


def test_events_are_of_three_days_and_many_files(folder):
    found = table(folder, "events")
    assert examples.EVENT_FILES == len(list((folder / "events").iterdir()))
    assert [dt.date(2026, 6, 1), dt.date(2026, 6, 2), dt.date(2026, 6, 3)] == pc.unique(found["day"]).to_pylist()
    assert found["at"].cast(pa.date32()).equals(found["day"])


def test_texts_have_vectors_of_one_length(folder):
    assert pa.list_(pa.float32(), 64) == table(folder, "texts").schema.field("embedding").type


def test_the_torn_file_is_torn(folder):
    with pytest.raises(pa.ArrowInvalid):
        pa.ipc.open_file(str(folder / "torn.arrow"))


def test_what_is_there_stays(tmp_path, capsys):
    (tmp_path / "items").mkdir()
    assert 1 == examples.main([str(tmp_path)])
    assert [tmp_path / "items"] == list(tmp_path.iterdir())
    assert f"{tmp_path / 'items'} would be replaced" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--help"], ["a", "b"]])
def test_arguments_that_it_does_not_know_are_refused(arguments, capsys):
    assert 2 == examples.main(arguments)
    assert "python -m spark_arrow_ipc.examples [FOLDER]" in capsys.readouterr().err


@pytest.mark.slow
def test_it_is_a_program_that_writes_a_few_megabytes_where_it_is_called(tmp_path):
    program = [sys.executable, "-X", "importtime", "-m", "spark_arrow_ipc.examples"]
    answer = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert list(examples.NAMES) == [line.partition(":")[0] for line in answer.stdout.splitlines()]
    assert 3_000_000 > sum(path.stat().st_size for path in tmp_path.rglob("*.arrow"))
    assert not {"pyarrow", "pyspark"} & {line.rpartition("|")[2].strip() for line in answer.stderr.splitlines()}


@pytest.mark.slow
def test_the_tutorial_runs_where_nobody_made_the_examples(tmp_path):
    """Its first cell makes them: a notebook that is opened where it is finds nothing beside it."""
    first = page_programs.cells_of(json.loads(page_programs.NOTEBOOK.read_text()))[0]
    asked = [sys.executable, "-c", page_programs.source_of(first)]
    found = subprocess.run(
        asked, cwd=tmp_path, env=os.environ | {"TMPDIR": str(tmp_path)}, capture_output=True, text=True
    )
    assert page_programs.output_of(first) == found.stdout, found.stderr
    (folder,) = tmp_path.iterdir()
    assert set(examples.NAMES) == {path.name for path in folder.iterdir()}


INPUT = re.compile(r"(?:--from \S+(?: --\S+ \S+)*|arrowipc \w+) (\S+)")
"""The file that a command of a page reads, of our commands and of the script that converts."""


def test_files_that_commands_of_pages_read_are_made_by_the_page_or_are_examples():
    """Where a page reads ``flights.csv``, something has made it: an example, or a word of an earlier command."""
    absent = []
    for page in [page_programs.README, *sorted(page_programs.DOCS.rglob("*.md"))]:
        named = {name.split(".")[0] for name in examples.NAMES} & {"flights", "torn"}
        made = set(examples.NAMES)
        for block in page_programs.blocks(page):
            for line in re.findall(r"^\$ (.*)$", block.code.replace("\\\n", ""), re.MULTILINE):
                words = shlex.split(line, comments=True)
                read = INPUT.search(line)
                if read and read[1].split(".")[0] in named and read[1] not in made and not block.not_run:
                    absent.append(f"{page.name}: {line}")
                made |= set(words)
    assert [] == absent
