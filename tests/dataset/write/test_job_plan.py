"""Plans of a write: the snapshot, ifExists and commitToken, and refusals before any work."""

import os
import pickle
from unittest import mock

import pytest
from commit_jobs import APPEND, OVERWRITE, dying, finish, foreign, leftovers, save
from job_plans import plan_job

from spark_arrow_ipc.dataset.write import IfExists
from spark_arrow_ipc.dataset.write import job_plan as job_module
from spark_arrow_ipc.dataset.write.commit import abort
from spark_arrow_ipc.errors import CommitError, OptionError, UnsupportedError
from spark_arrow_ipc.storage.storage import Traits


def test_plan_travels_by_pickle_and_two_jobs_share_no_id(tmp_path):
    save(tmp_path, APPEND, "a", "k=1:b")
    plan, other = plan_job(str(tmp_path), OVERWRITE), plan_job(str(tmp_path), OVERWRITE)
    assert plan == pickle.loads(pickle.dumps(plan))
    assert plan.staging.jobid != other.staging.jobid
    assert 2 == len(plan.intent.snapshot)


def test_destination_that_is_a_file_is_named(tmp_path):
    (tmp_path / "x.arrow").write_bytes(b"")
    with pytest.raises(OptionError, match=r"x\.arrow.*written into a directory, and this is a file"):
        plan_job(str(tmp_path / "x.arrow"), APPEND)
    assert ["x.arrow"] == leftovers(tmp_path)


def test_a_remote_path_and_a_partition_that_is_a_link_are_refused(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "k=1").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsupportedError, match=r"k=1.*does not follow links"):
        plan_job(str(tmp_path / "data"), OVERWRITE)
    with pytest.raises(UnsupportedError, match="gopher"):
        plan_job("gopher://host/x", APPEND)
    assert ["k=1"] == [found.name for found in (tmp_path / "data").iterdir()]


@pytest.mark.parametrize("mode", [APPEND, OVERWRITE], ids=lambda mode: mode.value)
@pytest.mark.parametrize("there", [(), ("old",)], ids=["new", "moved there"])
def test_a_file_system_without_hard_links_is_refused_before_any_work(tmp_path, monkeypatch, mode, there):
    path = tmp_path / "x"
    for text in there:
        save(path, APPEND, text)
    before = sorted(path.rglob("*"))
    monkeypatch.setattr(os, "link", mock.Mock(side_effect=PermissionError(1, "Operation not permitted")))
    with pytest.raises(UnsupportedError, match="has no hard links"):
        plan_job(str(path), mode)
    assert before == sorted(found for found in path.rglob("*") if found.name != "_ipc_stage")


@pytest.mark.slow
def test_the_snapshot_is_of_one_moment(tmp_path):
    """A job that commits while the files are listed makes the planner list again."""
    save(tmp_path, APPEND, "a")
    real, others = job_module.live_files, iter([lambda: save(tmp_path, APPEND, "b")])

    def listing(*arguments):
        files = real(*arguments)
        next(others, lambda: None)()
        return files

    with mock.patch.object(job_module, "live_files", listing):
        plan = plan_job(str(tmp_path), OVERWRITE)
    assert 2 == len(plan.intent.snapshot)


@pytest.mark.slow
def test_if_exists_is_checked_before_any_work(tmp_path):
    path = tmp_path / "data"
    save(path, APPEND, "k=1:a", if_exists=IfExists.ERROR)
    state = sorted(path.rglob("*"))
    with pytest.raises(CommitError, match=r"holds 1 file \(k=1/part-0.*ifExists is error; nothing is written"):
        plan_job(str(path), APPEND, if_exists=IfExists.ERROR)
    plan = plan_job(str(path), APPEND, if_exists=IfExists.IGNORE)
    assert plan.skip
    assert not finish(plan, []).published
    assert abort(plan.staging)
    assert state == sorted(path.rglob("*"))
    save(path, APPEND, "b", if_exists=IfExists.APPEND)
    assert ["b", "k=1:a"] == foreign(path)


def test_if_exists_sees_a_pending_job(tmp_path):
    with dying("C3.linked"):
        save(tmp_path, APPEND, "pending")
    assert plan_job(str(tmp_path), APPEND, if_exists=IfExists.IGNORE).skip
    assert ["pending"] == foreign(tmp_path)


def test_if_exists_is_for_append(tmp_path):
    with pytest.raises(OptionError, match="ifExists=ignore is for the mode append, and the mode is overwrite"):
        plan_job(str(tmp_path / "x"), OVERWRITE, if_exists=IfExists.IGNORE)
    assert not (tmp_path / "x").exists()


def test_a_token_is_known_as_soon_as_its_job_is_committed(tmp_path):
    with dying("C3.linked"):
        save(tmp_path, APPEND, "a", commit_token="t")
    assert plan_job(str(tmp_path), APPEND, commit_token="t").skip
    assert ["a"] == foreign(tmp_path)


def test_a_storage_whose_root_is_not_there_gets_it():
    """Looking for a directory that is there ends at the root."""
    storage = mock.Mock(traits=Traits(directories=True), status=mock.Mock(return_value=None))
    job_module._make_directory(storage, "made://host/a/b", durable=False)
    made = [call.args[0] for call in storage.make_directory.call_args_list]
    assert ["made://host", "made://host/a", "made://host/a/b"] == made
