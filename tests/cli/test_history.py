"""``arrowipc history``: a line or a JSON object for each entry, the newest first."""

import json

import pytest
from maintained_tables import content, save, table

from spark_arrow_ipc.cli.main import main
from spark_arrow_ipc.table.entry import Batch
from spark_arrow_ipc.table.log import read_state, read_table_id, write_checkpoint
from spark_arrow_ipc.table.restore import restore


def ran(capsys, *arguments):
    status = main(["history", *map(str, arguments)])
    return status, *capsys.readouterr()


@pytest.fixture
def lake(tmp_path):
    directory = table(tmp_path)
    save(directory, (1, 2), (3,), application="loader", user="ada", token="day 1")
    save(directory, (4,), overwrites=True, retain=True, batch=Batch("query", 7))
    restore(directory, 1)
    return directory


def test_a_line_for_each_entry(capsys, lake):
    status, out, err = ran(capsys, lake.root)
    head, *lines, last = out.splitlines()
    assert (0, "", f"{lake.root}: 3 entries") == (status, err, last)
    assert ["entry", "time", "operation", "files", "rows", "bytes", "job", "by"] == head.split()
    first, second = len(content(1, 2)) + len(content(3)), len(content(4))
    for line, words in zip(lines, (
        ("3", "restore 1", "+2 -1", "+3 -1", f"+{first} -{second}"),
        ("2", "overwrite", "+1 -2", "+1 -3", f"+{second} -{first}", "batch 7 of query"),
        ("1", "append", "+2 -0", "+3 -0", f"+{first} -0", "loader, ada, token day 1"),
    ), strict=True):  # fmt: skip
        assert [] == [word for word in words if word not in line]


def test_json_has_a_line_for_each_entry(capsys, lake):
    rows = [json.loads(line) for line in ran(capsys, "--json", lake.root)[1].splitlines()]
    assert [(3, "restore", 1), (2, "overwrite", None), (1, "append", None)] == [
        (row["number"], row["operation"], row["restores"]) for row in rows
    ]
    assert ("query", 7, "day 1", 2, 3) == (
        rows[1]["query"], rows[1]["batch"], rows[2]["token"], rows[2]["files_added"], rows[2]["rows_added"]
    )  # fmt: skip


def test_only_the_newest(capsys, lake):
    out = ran(capsys, "-n", 1, lake.root)[1].splitlines()
    assert (3, "1 entry; older ones are not shown (-n)") == (len(out), out[-1].removeprefix(f"{lake.root}: "))


@pytest.mark.parametrize("limit", [(), ("-n", 5)], ids=["all", "more than there are"])
def test_entries_that_are_gone_are_not_those_that_a_limit_leaves_out(capsys, lake, limit):
    write_checkpoint(lake, read_state(lake, 1))
    lake.storage.delete(lake.entry(read_table_id(lake), 1))
    out = ran(capsys, *limit, lake.root)[1].splitlines()
    assert "2 entries; those up to 1 are gone" == out[-1].removeprefix(f"{lake.root}: ")


def test_names_are_printed_with_escapes(capsys, lake):
    save(lake, (5,), application="\x1b[2J", user="\u202e")
    assert all(line.isprintable() for line in ran(capsys, lake.root)[1].splitlines())
    assert all(line.isprintable() for line in ran(capsys, "--json", lake.root)[1].splitlines())


def test_a_directory_without_a_log(capsys, tmp_path):
    status, out, err = ran(capsys, tmp_path)
    assert (1, "", True) == (status, out, "this directory has no log" in err)


@pytest.mark.parametrize("arguments", [["-n", "0"], ["-n", "x"], []])
def test_invalid_command_lines(capsys, tmp_path, arguments):
    with pytest.raises(SystemExit) as ended:
        main(["history", *arguments, *([str(tmp_path)] if arguments else [])])
    assert 2 == ended.value.code
