"""``arrowipc vacuum``: its words, its durations, its errors."""

import pytest
from commit_jobs import APPEND, OVERWRITE, dying, finish, foreign, planned, save

from spark_arrow_ipc.cli.main import main


def vacuumed(capsys, *arguments):
    status = main(["vacuum", *map(str, arguments)])
    out, err = capsys.readouterr()
    return status, out, err


def test_nothing_to_do(capsys, tmp_path):
    save(tmp_path, APPEND, "a")
    assert (0, f"{tmp_path}: nothing to do\n", "") == vacuumed(capsys, tmp_path)


def test_what_was_done_is_said(capsys, tmp_path):
    plan, _ = planned(tmp_path, APPEND, "abc")
    with dying("C3.linked"):
        save(tmp_path, APPEND, "new")
    dry = vacuumed(capsys, tmp_path, "--older-than", "0", "--dry-run")[1]
    assert "committed; would be brought to its end" in dry
    assert f"job {plan.staging.jobid}: its staging would be removed" in dry
    assert [] == foreign(tmp_path)
    status, out, err = vacuumed(capsys, tmp_path)
    assert (0, "") == (status, err)
    assert "committed; brought to its end" in out
    assert f"job {plan.staging.jobid}: kept with 3 bytes, it wrote 0 s ago" in out
    assert ["new"] == foreign(tmp_path)
    out = vacuumed(capsys, tmp_path, "--older-than", "0")[1]
    assert f"job {plan.staging.jobid}: its staging is removed\n{tmp_path}: 3 bytes are removed\n" == out


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
    assert "vacuum clears the directory of a dataset, and this is none" in err


def test_a_job_is_given_up(capsys, tmp_path):
    save(tmp_path, APPEND, "old")
    plan, outputs = planned(tmp_path, OVERWRITE, "k=1:x", "k=1:y")
    with dying("C4.renamed"):
        finish(plan, outputs)
    jobid, (published,) = plan.staging.jobid, [path.name for path in tmp_path.glob("k=1/*")]
    dry = vacuumed(capsys, tmp_path, "--give-up", jobid, "--dry-run")[1]
    assert (
        f"k=1/{published}: would be removed\n"
        f"{tmp_path}: the job {jobid} would be taken back; 1 old files would be kept\n"
    ) == dry
    status, out, err = vacuumed(capsys, tmp_path, "--give-up", jobid)
    assert (0, dry.replace("would be ", "is ", 2).replace("would be ", "are "), "") == (status, out, err)
    assert ["old"] == foreign(tmp_path)
    assert (0, f"{tmp_path}: the job {jobid} is taken back\n", "") == vacuumed(capsys, tmp_path, "--give-up", jobid)


def test_a_job_that_does_not_wait_cannot_be_given_up(capsys, tmp_path):
    save(tmp_path, APPEND, "old")
    status, out, err = vacuumed(capsys, tmp_path, "--give-up", "f" * 32)
    assert (1, "") == (status, out)
    assert "has staged nothing, and does not wait to be brought to its end; no job waits" in err


@pytest.mark.parametrize("text", ["", "7", "F" * 32, "../" * 10 + "xx"])
def test_what_is_no_job(capsys, tmp_path, text):
    with pytest.raises(SystemExit):
        main(["vacuum", str(tmp_path), f"--give-up={text}"])
    assert "expected the 32 hexadecimal digits of a job's id" in capsys.readouterr().err
