"""A dataset as a build before the format of records had a number left it: plain reads work, jobs are refused in a sentence."""

import shutil
from pathlib import Path

import pytest
from commit_jobs import APPEND, DYNAMIC, OVERWRITE, REWRITE, save

from spark_arrow_ipc import ipc
from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.dataset.write.vacuum import give_up, vacuum
from spark_arrow_ipc.errors import CommitError

LEFT = Path(__file__).parent / "written_by_7c2a5b5"
"""An append of 1 to 3, an overwrite by 4 and 5, and an append of 6."""

WAY_OUT = r"found the format 1 of an older build\. Write with that build; or .*'arrowipc vacuum', .*remove the directory \S+_ipc_commits and"

JOBS = {mode.value: lambda path, mode=mode: save(path, mode, "new") for mode in (APPEND, OVERWRITE, DYNAMIC, REWRITE)}
JOBS["vacuum"] = lambda path: vacuum(path, older_than_seconds=0)
JOBS["give up"] = lambda path: give_up(path, "f" * 32)


@pytest.fixture
def left(tmp_path):
    return shutil.copytree(LEFT, tmp_path / "data")


def ids(path):
    found = []
    for file in list_tree([str(path)]).all_files():
        with ipc.open(file.path) as reader:
            found += [row["id"] for batch in reader for row in batch.to_pylist()]
    return sorted(found)


def data_files(path):
    return {found.name: found.read_bytes() for found in path.glob("part-*")}


@pytest.mark.parametrize("job", JOBS)
def test_plain_reads_work_and_jobs_are_refused(left, job):
    before = data_files(left)
    with pytest.raises(CommitError, match=WAY_OUT):
        JOBS[job](left)
    assert [4, 5, 6] == ids(left)
    assert before == data_files(left)


@pytest.mark.parametrize("job", [mode.value for mode in (APPEND, OVERWRITE, DYNAMIC, REWRITE)])
def test_the_way_out_works(left, job):
    before = data_files(left)
    shutil.rmtree(left / "_ipc_commits")
    JOBS[job](left)
    assert (job == "append") == (before.items() <= data_files(left).items())
    vacuum(left, older_than_seconds=0)
    assert not (left / "_ipc_stage").exists()


def test_a_job_that_is_not_in_place_is_no_answer_for_readers_either(left):
    """Which of the files count is in its record."""
    max((left / "_ipc_commits").glob("*.done")).unlink()
    with pytest.raises(CommitError, match=WAY_OUT):
        ids(left)
