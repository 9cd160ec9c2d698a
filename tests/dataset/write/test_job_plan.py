"""Plans of a write: the snapshot, ifExists and commitToken, and refusals before any work."""

import os
import pickle
from unittest import mock

import pytest
from commit_jobs import APPEND, DYNAMIC, OVERWRITE, REWRITE, dying, finish, foreign, ours, planned, run_tasks, save
from job_plans import plan_job

from spark_arrow_ipc.dataset.write import IfExists
from spark_arrow_ipc.dataset.write.commit import abort
from spark_arrow_ipc.dataset.write.job_plan import make_directory
from spark_arrow_ipc.errors import CommitError, OptionError, UnsupportedError
from spark_arrow_ipc.storage.local import LocalStorage
from spark_arrow_ipc.storage.storage import Traits
from spark_arrow_ipc.table import snapshot


def test_plan_travels_by_pickle_and_two_jobs_share_no_id(tmp_path):
    save(tmp_path, APPEND, "a", "k=1:b")
    plan, other = plan_job(str(tmp_path), OVERWRITE), plan_job(str(tmp_path), OVERWRITE)
    assert plan == pickle.loads(pickle.dumps(plan))
    assert plan.staging.jobid != other.staging.jobid
    assert 2 == len(plan.intent.snapshot)


def test_destination_that_is_a_file_is_named(tmp_path):
    (tmp_path / "x.arrow").write_bytes(b"")
    with pytest.raises(OptionError, match=r"x\.arrow.*a table is a directory, and this is a file"):
        plan_job(str(tmp_path / "x.arrow"), APPEND)
    assert ["x.arrow"] == [found.name for found in tmp_path.iterdir()]


def test_a_remote_path_and_a_partition_that_is_a_link_are_refused(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "k=1").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsupportedError, match=r"k=1.*does not follow links"):
        plan_job(str(tmp_path / "data"), OVERWRITE)
    with pytest.raises(UnsupportedError, match="gopher"):
        plan_job("gopher://host/x", APPEND)
    assert ["k=1"] == [found.name for found in (tmp_path / "data").iterdir()]


def test_files_that_may_not_be_deleted_stop_a_job_that_replaces_them(tmp_path):
    save(tmp_path, APPEND, "a")
    state = sorted(tmp_path.rglob("*"))
    with mock.patch.object(LocalStorage, "check_delete", side_effect=PermissionError(13, "no")):
        for mode in (OVERWRITE, REWRITE):
            with pytest.raises(PermissionError):
                plan_job(str(tmp_path), mode)
    assert state == sorted(tmp_path.rglob("*"))


def test_files_that_are_links_are_not_replaced(tmp_path):
    """The log could not tell a link from the file that it leads to. A job that keeps them does not mind."""
    (tmp_path / "precious").write_text("x")
    data = tmp_path / "data"
    save(data, APPEND, "k=1:a", "k=2:b")
    (data / "k=1" / "linked.arrow").symlink_to(tmp_path / "precious")
    for mode in (OVERWRITE, REWRITE):
        with pytest.raises(UnsupportedError, match=r"linked\.arrow: a job does not replace files that are links"):
            plan_job(str(data), mode)
    job = planned(data, DYNAMIC, "k=1:c")
    with pytest.raises(UnsupportedError, match=r"linked\.arrow: a job does not replace files that are links"):
        finish(*job)
    assert abort(job[0])
    assert save(data, DYNAMIC, "k=2:c").published
    assert save(data, REWRITE, "k=2:d", choose=lambda files: [f for f in files if f.path.startswith("k=2")]).published
    assert ["k=1:a", "k=1:x", "k=2:d"] == ours(data)
    assert "x" == (tmp_path / "precious").read_text()


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
    assert before == sorted(path.rglob("*"))


@pytest.mark.slow
def test_a_plan_survives_a_job_that_deletes_the_empty_staging_directory(tmp_path):
    save(tmp_path, APPEND, "a")
    (tmp_path / "_ipc_stage").mkdir()
    real = LocalStorage.check_put_if_absent

    def check(storage, directory):
        (tmp_path / "_ipc_stage").rmdir()
        real(storage, directory)

    with mock.patch.object(LocalStorage, "check_put_if_absent", check):
        assert save(tmp_path, APPEND, "b").published
    assert ["a", "b"] == foreign(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("point", ["C3.written", "C3.torn", "C3.linked", "planned.id", "planned.mark"])
def test_a_first_job_that_dies_does_not_stop_the_next(tmp_path, point):
    with dying(point):
        plan_job(str(tmp_path), APPEND)
    save(tmp_path, APPEND, "a")
    assert ["a"] == ours(tmp_path)


def test_the_snapshot_is_of_one_moment(tmp_path):
    """A job that commits while the files are listed is in the snapshot with the state that has it, or not at all."""
    save(tmp_path, APPEND, "a")
    real, others = snapshot.list_data_files, iter([lambda: save(tmp_path, APPEND, "b")])

    def listing(*arguments, **options):
        files = real(*arguments, **options)
        next(others, lambda: None)()
        return files

    with mock.patch.object(snapshot, "list_data_files", listing):
        plan = plan_job(str(tmp_path), OVERWRITE)
    assert (2, 2) == (len(plan.intent.snapshot), plan.base)
    assert finish(plan, run_tasks(plan, "new")).published
    assert ["new"] == foreign(tmp_path)


@pytest.mark.slow
def test_if_exists_is_checked_before_any_work(tmp_path):
    path = tmp_path / "data"
    save(path, APPEND, "k=1:a", if_exists=IfExists.ERROR)
    state = sorted(path.rglob("*"))
    with pytest.raises(
        CommitError, match=r"holds 1 file \(k=1/part-0.*ifExists is error, as without a mode; nothing is written"
    ):
        plan_job(str(path), APPEND, if_exists=IfExists.ERROR)
    plan = plan_job(str(path), APPEND, if_exists=IfExists.IGNORE)
    assert plan.skip
    assert not finish(plan, []).published
    assert abort(plan)
    assert state == sorted(path.rglob("*"))
    save(path, APPEND, "b", if_exists=IfExists.APPEND)
    assert ["b", "k=1:a"] == foreign(path)


def test_if_exists_sees_a_job_as_soon_as_it_is_committed(tmp_path):
    with dying("committed.put"):
        save(tmp_path, APPEND, "committed")
    assert plan_job(str(tmp_path), APPEND, if_exists=IfExists.IGNORE).skip
    assert ["committed"] == foreign(tmp_path)


def test_if_exists_is_for_append(tmp_path):
    with pytest.raises(OptionError, match="ifExists=ignore is for the mode append, and the mode is overwrite"):
        plan_job(str(tmp_path / "x"), OVERWRITE, if_exists=IfExists.IGNORE)
    assert not (tmp_path / "x").exists()


def test_a_token_is_known_as_soon_as_its_job_is_committed(tmp_path):
    with dying("committed.put"):
        save(tmp_path, APPEND, "a", commit_token="t")
    assert plan_job(str(tmp_path), APPEND, commit_token="t").skip
    assert ["a"] == foreign(tmp_path)


def test_a_storage_whose_root_is_not_there_gets_it():
    """Looking for a directory that is there ends at the root."""
    storage = mock.Mock(traits=Traits(directories=True), status=mock.Mock(return_value=None))
    make_directory(storage, "made://host/a/b")
    made = [call.args[0] for call in storage.make_directory.call_args_list]
    assert ["made://host", "made://host/a", "made://host/a/b"] == made
