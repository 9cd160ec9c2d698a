"""The tasks of a job agree once, whichever is first, also if replies are lost: on disks and on stores that copy."""

import errno
from threading import Barrier, Thread

import pytest
from places import PLACES

from spark_arrow_ipc.dataset.write import WriteMode
from spark_arrow_ipc.dataset.write.agreement import agree
from spark_arrow_ipc.dataset.write.commit import abort
from spark_arrow_ipc.dataset.write.staged_file import Staging
from spark_arrow_ipc.errors import CommitError
from spark_arrow_ipc.table.names import TableDirectory

NAMES = ("a", "b")


@pytest.fixture(params=["local", "memory that copies", pytest.param("s3", marks=pytest.mark.slow)])
def job(request, tmp_path):
    with PLACES[request.param](tmp_path) as (place, _):
        plan, _ = place.planned(WriteMode.APPEND)
        yield place, plan
        abort(plan)
        assert [] == place.leftovers()


def test_the_first_choice_counts_for_all(job):
    _, plan = job
    assert {"a": 16} == agree(plan.staging, lambda: {"a": 16}, NAMES)
    assert {"a": 16} == agree(plan.staging, lambda: pytest.fail("a second choice"), NAMES)


def test_nothing_is_a_choice_too(job):
    _, plan = job
    for choice in ({}, {"a": 32}):
        assert {} == agree(plan.staging, lambda choice=choice: choice, NAMES)


def test_of_many_at_once_one_is_first(job):
    _, plan = job
    ready, found = Barrier(8), []

    def propose(number):
        ready.wait()  # all have found none, and put theirs
        return {NAMES[number % 2]: 16 + 16 * (number // 4)}

    def run(number):
        found.append(agree(plan.staging, lambda: propose(number), NAMES))

    threads = [Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 8 == len(found)
    assert all(found[0] == other for other in found)


class Lost:
    """A storage whose puts fail, after they have had their effect or before."""

    def __init__(self, storage, *, is_put):
        self._storage, self._is_put = storage, is_put

    def put_if_absent(self, path, data):
        if self._is_put:
            self._storage.put_if_absent(path, data)
        raise OSError(errno.EIO, "no reply", path)

    def inside(self, directory):
        return self

    def __getattr__(self, name):
        return getattr(self._storage, name)


@pytest.mark.parametrize("is_put", [True, False])
def test_a_lost_reply_is_looked_up(job, is_put):
    _, plan = job
    storage = Lost(plan.staging.storage, is_put=is_put)
    staging = Staging(TableDirectory(storage, plan.staging.root), plan.staging.jobid)
    if is_put:
        assert {"a": 16} == agree(staging, lambda: {"a": 16}, NAMES)
    else:
        with pytest.raises(OSError, match="no reply"):
            agree(staging, lambda: {"a": 16}, NAMES)
        assert {"b": 32} == agree(plan.staging, lambda: {"b": 32}, NAMES)


def test_a_task_of_a_job_that_ended_makes_nothing(tmp_path):
    with PLACES["local"](tmp_path) as (place, _):
        plan, _ = place.planned(WriteMode.APPEND)
        abort(plan)
        with pytest.raises(CommitError, match="the job's staging directory is not there"):
            agree(plan.staging, dict, NAMES)
        assert [] == place.leftovers()


@pytest.mark.parametrize(
    "text", ["", "[1]", '["a"]', '{"x": 16}', '{"a": 8}', '{"a": true}', '{"a": 16', "\xff", "{" * 500]
)
def test_what_no_task_has_put_is_an_error(tmp_path, text):
    with PLACES["local"](tmp_path) as (place, _):
        plan, _ = place.planned(WriteMode.APPEND)
        place.storage.put(plan.staging.file(".dictionaries"), text.encode("latin-1"))
        with pytest.raises(CommitError, match="columns of this job and the bits of their indices"):
            agree(plan.staging, dict, NAMES)
