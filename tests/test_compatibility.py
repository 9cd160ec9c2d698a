"""Later releases keep what docs/compatibility.md promises of each earlier one: its names, and the table that it wrote."""

import json

import pytest
import release_facts
from archives import unpack
from commit_jobs import APPEND, planned, save_files
from release_facts import AFTER, BEFORE, ENTRIES_OF_A_CHECKPOINT, TOKEN

import spark_arrow_ipc
from spark_arrow_ipc.cli.main import main

RELEASES = sorted(release_facts.RELEASES.iterdir())
NAMES = [pytest.param(json.loads((folder / "names.json").read_text()), id=folder.name) for folder in RELEASES]


@pytest.fixture(params=RELEASES, ids=lambda folder: folder.name)
def table(request, tmp_path):
    """A copy of the table that a release wrote."""
    unpack(request.param / "table.tar.gz", tmp_path)
    return tmp_path / "table"


def printed(capsys, *arguments):
    """The JSON lines that a command prints."""
    assert 0 == main([str(argument) for argument in arguments])
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def rows(capsys, table):
    """The rows of a table, of which files that lack a column print none."""
    return sorted(printed(capsys, "cat", "--json", table), key=lambda row: row["id"])


def without_nulls_of_absent_columns(expected):
    return [{name: value for name, value in row.items() if name != "late" or value is not None} for row in expected]


def test_this_version_has_its_facts():
    """A release is held to what it had, so the facts are written before its tag."""
    assert spark_arrow_ipc.__version__ in {folder.name for folder in RELEASES}


# ---- names


@pytest.mark.parametrize("names", NAMES)
def test_no_public_name_is_gone(names):
    now = release_facts.names()
    gone = {
        (module, name)
        for module, before in names["python"].items()
        for name in set(before) - set(now["python"][module])
    }
    gone |= {("options", name) for name in names["options"].keys() - now["options"].keys()}
    gone |= {
        (f"arrowipc {command}", argument)
        for command, before in names["commands"].items()
        for argument in set(before) - set(now["commands"].get(command, ()))
    }
    assert set() == gone


@pytest.mark.parametrize("names", NAMES)
def test_an_error_stays_what_it_was(names):
    now = release_facts.names()["errors"]
    assert {} == {name: before for name, before in names["errors"].items() if set(before) - set(now[name])}


# ---- the table


def test_its_rows_and_its_history_are_read(table, capsys):
    assert without_nulls_of_absent_columns(AFTER) == rows(capsys, table)
    entries = printed(capsys, "history", "--json", table)
    assert ENTRIES_OF_A_CHECKPOINT + 1 == entries[0]["number"]
    assert len(AFTER) == sum(line["rows"] for line in printed(capsys, "count", "--json", table))


def test_its_checkpoint_is_used(table, capsys):
    """The entries that it covers may be gone."""
    for path in table.glob("_ipc_log/*/*.json"):
        if int(path.stem) < ENTRIES_OF_A_CHECKPOINT - 1:
            path.unlink()
    assert without_nulls_of_absent_columns(AFTER) == rows(capsys, table)


def test_it_has_no_fault_and_its_files_pass_every_check(table, capsys):
    assert 0 == main(["fsck", "--deep", str(table)])
    assert 0 == main(["validate", "--values", str(table)])
    assert "0 faults" in capsys.readouterr().out


def test_the_version_before_is_brought_back(table, capsys):
    assert 0 == main(["fsck", "--back-to", str(ENTRIES_OF_A_CHECKPOINT), str(table)])
    capsys.readouterr()
    assert BEFORE == rows(capsys, table)


def test_a_job_appends_to_it_and_one_with_its_token_does_not_run_again(table, capsys):
    (file,) = (table / "k=b").glob("*.arrow")
    save_files(table, [("k=c", file.read_bytes())])
    assert [3, 3, 4] == [row["id"] for row in rows(capsys, table)]
    plan, outputs = planned(table, APPEND, commit_token=TOKEN)
    assert (True, []) == (plan.skip, outputs)
    assert not planned(table, APPEND, "k=c:another", commit_token="another")[0].skip
