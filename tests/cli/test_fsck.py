"""``arrowipc fsck``: its words, its statuses, and that what it says to do can be done."""

import json
import re
import shlex
import shutil

import pytest
from maintained_tables import content, ids, save, table

from spark_arrow_ipc.cli.main import main
from spark_arrow_ipc.table.log import read_state
from spark_arrow_ipc.table.transaction import Transaction


def ran(capsys, *arguments):
    status = main([*map(str, arguments)])
    return status, *capsys.readouterr()


@pytest.fixture
def lake(tmp_path):
    (tmp_path / "a lake").mkdir()
    directory = table(tmp_path / "a lake")
    save(directory, (1, 2), (3,), at="k=1")
    return directory


def lose(lake, slot=0):
    """Delete a file that the log counts, and return its path."""
    path = read_state(lake).files.paths[slot]
    lake.storage.delete(lake.path(path))
    return lake.path(path)


def command_in(line, name):
    """Return the arguments of a command that a line says, as a shell splits them."""
    return shlex.split(re.search(rf"arrowipc ({name}(?: '[^']*'| [^ ;,']+)*)", line)[1])


def test_a_sound_table_is_one_line(capsys, lake):
    nbytes = len(content(1, 2)) + len(content(3))
    line = f"{lake.root}: entry 1 of the table {read_state(lake).table}: 2 files, 3 rows, {nbytes} bytes; 0 faults\n"
    assert (0, line, "") == ran(capsys, "fsck", lake.root) == ran(capsys, "fsck", "--deep", lake.root)


def test_a_directory_without_a_log(capsys, tmp_path):
    status, out, _ = ran(capsys, "fsck", tmp_path)
    assert (0, f"{tmp_path}: no log: 0 files, 0 rows, 0 bytes; 0 faults") == (status, out.splitlines()[-1])


def test_a_note_is_no_fault(capsys, lake):
    lake.storage.put(lake.path("b.arrow"), content(4))
    status, out, _ = ran(capsys, "fsck", lake.root)
    words = f"{lake.root}: note: a file of another program, which readers read, such as b.arrow"
    assert (0, words) == (status, out.splitlines()[0])


def test_a_lost_file_is_forgotten_only_when_asked(capsys, lake):
    path = lose(lake)
    status, out, err = ran(capsys, "fsck", lake.root)
    first, last = out.splitlines()
    assert (1, "") == (status, err)
    assert first.startswith(
        f"{path}: entry 1 added this file of 2 rows and {len(content(1, 2))} bytes, and it is missing."
    )
    assert last.endswith("; 1 fault")
    status, out, err = ran(capsys, *command_in(first[first.rindex("arrowipc") :], "fsck"))
    lines = (f"{path}: removed from the log; 2 rows are lost\n", f"{lake.root}: 2 rows of 1 file are lost\n")
    assert (0, "", True) == (status, err, out.startswith("".join(lines)))
    assert [3] == ids(lake)


def test_an_older_entry(capsys, lake):
    save(lake, (4,))
    lose(lake, 2)
    assert "fsck --back-to N" in ran(capsys, "fsck", lake.root)[1]
    status, out, _ = ran(capsys, "fsck", "--back-to", 1, lake.root)
    assert (0, f"{lake.root}: entry 3 has the files of entry 1") == (status, out.splitlines()[0])
    assert [1, 2, 3] == ids(lake)


def test_an_entry_whose_files_are_gone(capsys, lake):
    save(lake, (4,), overwrites=True)
    status, out, err = ran(capsys, "fsck", "--back-to", 1, lake.root)
    assert (1, "", True) == (status, out, "this file was removed and is not retained" in err)
    status, _, err = ran(capsys, "fsck", "--back-to", 9, lake.root)
    assert (1, True) == (status, "expected an entry 9 in the log of this table, found entries up to 2" in err)
    assert [4] == ids(lake)


def test_a_job_that_may_still_run_and_the_command_that_ends_it(capsys, lake):
    job = Transaction.begin(lake)
    status, out, _ = ran(capsys, "fsck", lake.root)
    line = next(line for line in out.splitlines() if job.job in line)
    assert (0, True) == (status, "may still run" in line)
    command = command_in(line, "vacuum")
    assert 0 == ran(capsys, *command)[0]
    assert 0 == ran(capsys, *command[:-1], "0")[0]
    assert 1 == len(ran(capsys, "fsck", lake.root)[1].splitlines())


def test_json(capsys, lake):
    path = lose(lake)
    status, out, _ = ran(capsys, "fsck", "--json", lake.root)
    report = json.loads(out)
    assert (1, 1, 2, 3, []) == (status, report["number"], report["files"], report["rows"], report["done"])
    assert [(path, False)] == [(finding["path"], finding["is_note"]) for finding in report["findings"]]
    assert "fsck --forget-missing" in report["findings"][0]["fix"]


def test_names_are_printed_with_escapes(capsys, lake):
    lake.storage.make_directory(lake.path("k=\x1b[2J"))
    lake.storage.put(lake.path("k=\x1b[2J/b.arrow"), content(5))
    assert "\x1b" not in ran(capsys, "fsck", lake.root)[1]


@pytest.mark.parametrize("arguments", [["--new-id", "--back-to", "1"], ["--back-to", "x"], ["--back-to", "0"]])
def test_invalid_command_lines(capsys, lake, arguments):
    with pytest.raises(SystemExit) as ended:
        main(["fsck", *arguments, lake.root])
    assert 2 == ended.value.code


def test_a_backup_of_a_quiet_table_that_is_put_back(capsys, lake, tmp_path):
    """As the page on copying tells it."""
    backup = tmp_path / "backup"
    shutil.copytree(lake.root, backup)
    assert 0 == ran(capsys, "fsck", "--deep", backup)[0]
    assert 0 == ran(capsys, "fsck", "--new-id", backup)[0]
    assert read_state(table(backup)).table != read_state(lake).table
    save(lake, (9,), overwrites=True)
    shutil.rmtree(lake.root)
    shutil.copytree(backup, lake.root)
    assert 0 == ran(capsys, "fsck", "--deep", lake.root)[0]
    assert [1, 2, 3] == ids(lake)


def test_a_backup_over_a_table_that_has_changed_brings_no_rows_back(capsys, lake, tmp_path):
    shutil.copytree(lake.root, tmp_path / "backup")
    save(lake, (9,), overwrites=True)
    shutil.copytree(tmp_path / "backup", lake.root, dirs_exist_ok=True)
    assert 0 == ran(capsys, "fsck", lake.root)[0]
    assert [9] == ids(lake)
