"""``arrowipc vacuum``: its words, its durations, its errors."""

import pytest
from commit_jobs import dying
from maintained_tables import content, ids, save, stage, table

from spark_arrow_ipc.cli.main import main
from spark_arrow_ipc.table.log import read_state
from spark_arrow_ipc.table.names import data_file_name
from spark_arrow_ipc.table.transaction import Transaction


def vacuumed(capsys, *arguments):
    status = main(["vacuum", *map(str, arguments)])
    out, err = capsys.readouterr()
    return status, out, err


def test_nothing_to_do(capsys, tmp_path):
    save(table(tmp_path), (1,))
    assert (0, f"{tmp_path}: nothing to do\n", "") == vacuumed(capsys, tmp_path)


def test_what_was_done_is_said(capsys, tmp_path):
    lake = table(tmp_path)
    save(lake, (1,))
    with dying("committed.put"):
        save(lake, (2,), overwrites=True)
    committed = next(iter(job for job, ended in read_state(lake).ended.items() if ended.number == 2))
    young = Transaction.begin(lake)
    stage(young, (3,))
    nbytes = len(content(1))
    dry = vacuumed(capsys, tmp_path, "--dry-run")[1]
    assert f"job {committed}: its files would be deleted\n" in dry
    assert f"removed files: 1 file, {nbytes} bytes\n" in dry
    assert (
        f"job {young.job}: it may still run, and keeps {nbytes} bytes; it wrote 0 s ago; if no job runs: --older-than 0\n"
        in dry
    )
    assert dry.endswith(f"{tmp_path}: {nbytes} bytes would be deleted\n")
    assert [2] == ids(lake)
    status, out, err = vacuumed(capsys, tmp_path)
    assert (0, dry.replace("would be", "are"), "") == (status, out, err)
    out = vacuumed(capsys, tmp_path, "--older-than", "0")[1]
    assert out.splitlines() == [
        f"job {young.job}: its files are deleted",
        f"files of dead jobs: 2 files, {nbytes} bytes",
        f"{tmp_path}: {nbytes} bytes are deleted",
    ]
    assert (0, f"{tmp_path}: nothing to do\n", "") == vacuumed(capsys, tmp_path, "--older-than", "0")
    assert [2] == ids(lake)


def test_a_file_that_the_log_does_not_know_is_named_and_stays(capsys, tmp_path):
    state = save(table(tmp_path), (1,))
    name = data_file_name(0, state.table, "f" * 32)
    (tmp_path / name).write_bytes(content(7))
    status, out, _ = vacuumed(capsys, tmp_path, "--older-than", "0")
    assert (0, True) == (status, out.startswith(f"{name}: it stays, and nobody reads it"))
    assert (tmp_path / name).exists()


@pytest.mark.parametrize("text", ["0", "90s", "30m", "12h", "7d", "3600"])
def test_durations(capsys, tmp_path, text):
    assert 0 == vacuumed(capsys, tmp_path, "--older-than", text)[0]


@pytest.mark.parametrize("text", ["", "-1", "1w", "1.5h", "d"])
def test_what_is_no_duration(capsys, tmp_path, text):
    with pytest.raises(SystemExit):
        main(["vacuum", str(tmp_path), f"--older-than={text}"])
    assert "expected a duration such as 30m, 12h or 7d" in capsys.readouterr().err


def test_no_directory(capsys, tmp_path):
    status, out, err = vacuumed(capsys, tmp_path / "x")
    assert (1, "") == (status, out)
    assert "expected the directory of a table, found nothing" in err
