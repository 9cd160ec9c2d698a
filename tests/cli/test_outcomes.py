"""outcomes.md has what each command answers; after a change: ``python tests/cli/outcomes.py``, into it."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from spark_arrow_ipc.cli.main import COMMANDS

pytest.importorskip("pyarrow")

HERE = Path(__file__).parent
PAGE = (HERE / "outcomes.md").read_text(encoding="utf-8")

spec = importlib.util.spec_from_file_location("outcomes", HERE / "outcomes.py")
outcomes = importlib.util.module_from_spec(spec)
spec.loader.exec_module(outcomes)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    outcomes.write_inputs(folder)
    return folder


def test_every_command_that_reads_files_is_there():
    assert {"doctor", "completion", "jar", "serve"} == set(COMMANDS) - set(outcomes.COMMANDS)
    assert list(outcomes.COMMANDS) == re.findall(r"^## (\w+)$", PAGE, re.MULTILINE)


def rows_of_page(command):
    return re.search(rf"^## {command}\n.*?((?:^\|[^\n]*\n)+)", PAGE, re.DOTALL | re.MULTILINE)[1].splitlines()[2:]


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("command", outcomes.COMMANDS)
def test_a_command_answers_as_the_file_says(folder, command):
    assert rows_of_page(command)[: len(outcomes.INPUTS)] == outcomes.inside(folder, command)


@pytest.fixture(scope="module")
def many(folder):
    outcomes.write_many(folder)
    return folder


@pytest.mark.nightly
@pytest.mark.parametrize("command", outcomes.COMMANDS)
def test_a_terminal_a_closed_pipe_and_many_files_are_as_the_file_says(many, command, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(HERE), *sys.path])
    assert rows_of_page(command)[len(outcomes.INPUTS) :] == outcomes.outside(many, command)
