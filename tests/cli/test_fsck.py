"""``arrowipc fsck``: its words, its statuses, and that what it says to do can be done."""

import json
import shlex
import shutil

import pytest
from commit_jobs import APPEND, OVERWRITE
from places import Place

from spark_arrow_ipc.cli.main import main
from spark_arrow_ipc.storage.local import LOCAL

OTHER = f"part-00000-{'a' * 32}.arrow"


def ran(capsys, *arguments):
    status = main([*map(str, arguments)])
    return status, *capsys.readouterr()


@pytest.fixture
def place(tmp_path):
    place = Place(LOCAL, f"{tmp_path}/a lake")
    place.save(APPEND, "a", "k=1:bc")
    return place


def test_a_sound_data_set_is_one_line(capsys, place):
    line = f"{place.root}: 2 files, 3 bytes, whole: the state of record 1; 0 faults\n"
    assert (0, line, "") == ran(capsys, "fsck", place.root) == ran(capsys, "fsck", "--repair", place.root)


def test_a_note_is_no_fault(capsys, place):
    place.put("b.arrow", "x")
    status, out, _ = ran(capsys, "fsck", place.root)
    assert (0, f"{place.root}: note: 1 file of other programs, which readers read: b.arrow") == (
        status,
        out.split("\n")[0],
    )


def test_what_it_says_mends(capsys, place):
    place.put(f"k=1/{OTHER}", "twice")
    status, out, err = ran(capsys, "fsck", place.root)
    first, last, _ = out.split("\n")
    assert (1, "") == (status, err)
    assert f"{place.root}: 3 files, 8 bytes, not the state of record 1; 1 fault" == last
    assert first.endswith(f"it is. arrowipc fsck --repair '{place.root}'")
    command = shlex.split(first[first.rindex("arrowipc") :])[1:]
    status, out, err = ran(capsys, *command)
    assert (0, "") == (status, err)
    assert out.startswith(f"{place.root}/k=1/{OTHER}: moved to {place.root}/_ipc_aside/k=1/{OTHER}.staged\n")
    assert ["a", "k=1:bc"] == place.ours()


def test_an_older_record(capsys, place):
    place.save(APPEND, "d")
    place.storage.delete(f"{place.root}/{place.record.adds[0].final}")
    _, out, _ = ran(capsys, "fsck", place.root)
    assert f"arrowipc fsck --back-to 1 '{place.root}'\n" in out
    assert (1, "does not hold the state of record 2 whole; those that it holds: 1") == (
        (answer := ran(capsys, "fsck", "--back-to", 2, place.root))[0],
        answer[2].strip().partition("the directory ")[2],
    )
    status, out, _ = ran(capsys, "fsck", "--back-to", 1, place.root)
    assert 0 == status
    assert out.endswith(f"{place.root}: 2 files, 3 bytes, whole: the state of record 1; 0 faults\n")


def test_json(capsys, place):
    place.put(OTHER, "\x1b")
    status, out, _ = ran(capsys, "fsck", "--json", place.root)
    report = json.loads(out)
    assert (1, False, 1, 3, []) == (
        status, report["is_whole"], report["record"], report["files"], report["done"]
    )  # fmt: skip
    assert [(place.root, f"arrowipc fsck --repair '{place.root}'", False)] == [
        (finding["path"], finding["mend"], finding["is_note"]) for finding in report["findings"]
    ]


def test_names_are_printed_with_escapes(capsys, place):
    place.put("k=\x1b[2J/b.arrow", "x")
    assert "\x1b" not in ran(capsys, "fsck", place.root)[1]


@pytest.mark.parametrize("arguments", [["--repair", "--back-to", "1"], ["--back-to", "x"]])
def test_what_is_no_command_line(capsys, place, arguments):
    with pytest.raises(SystemExit) as ended:
        main(["fsck", *arguments, place.root])
    assert 2 == ended.value.code


def test_a_backup_of_a_quiet_data_set_and_what_is_put_back(capsys, place, tmp_path):
    """As the page on copying tells it."""
    backup = tmp_path / "backup"
    shutil.copytree(place.root, backup)
    assert 0 == ran(capsys, "fsck", backup)[0]
    place.save(OVERWRITE, "lost")
    shutil.copytree(backup, place.root, dirs_exist_ok=True)
    status, out, _ = ran(capsys, "fsck", place.root)
    assert (1, True) == (status, "a record has removed this file" in out)
    assert 0 == ran(capsys, "fsck", "--repair", place.root)[0]
    assert ["lost"] == place.ours(), "over a living dataset a backup brings nothing back, and breaks nothing"
