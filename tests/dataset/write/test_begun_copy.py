"""Jobs keep away from a copy that is not whole: its records know tokens and batches whose rows are not there."""

import pytest
from commit_jobs import APPEND, OVERWRITE, dying, interrupted
from places import WAYS, Place, local, two_places

from spark_arrow_ipc.dataset.commit_log.record import Batch
from spark_arrow_ipc.dataset.write import commit as commit_module
from spark_arrow_ipc.dataset.write import copy as copy_module
from spark_arrow_ipc.dataset.write.commit import commit
from spark_arrow_ipc.dataset.write.job_plan import CommitIntent, plan_batch
from spark_arrow_ipc.dataset.write.staged_file import Staging
from spark_arrow_ipc.dataset.write.vacuum import give_up, vacuum
from spark_arrow_ipc.errors import CommitError

pytestmark = pytest.mark.usefixtures("clock")

REFUSED = "was begun here, and is not whole yet; nothing is published"


@pytest.fixture(params=WAYS, ids=" to ".join)
def places(request, tmp_path):
    with two_places(request.param, tmp_path) as found:
        yield found


@pytest.fixture
def pair(tmp_path):
    with local(tmp_path) as found:
        yield found


def begun(places, point="K3.carried"):
    """Leave a copy whose record is not committed; return the source and the target."""
    source, target = places
    source.save(APPEND, "a", commit_token="t", query=Batch("q" * 32, 3))
    source.save(APPEND, "b")
    with dying(point):
        source.copied_to(target)
    return source, target


JOBS = {
    "a token that the source knows": (APPEND, {"commit_token": "t"}),
    "a batch that the source knows": (APPEND, {"query": Batch("q" * 32, 3)}),
    "another token": (APPEND, {"commit_token": "u"}),
    "an append": (APPEND, {}),
    "an overwrite": (OVERWRITE, {}),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("point", ["K3.carried", "C3.checked"])
def test_jobs_are_refused_until_the_copy_is_whole(places, point):
    source, target = begun(places, point)
    before = target.contents()
    for mode, options in JOBS.values():
        with pytest.raises(CommitError, match=REFUSED):
            target.save(mode, "lost", **options)
    assert before == target.contents()
    assert 2 == source.copied_to(target).files
    assert "_ipc_commits/copy" not in target.names()
    assert not target.save(APPEND, "not again", commit_token="t").published
    target.save(APPEND, "c")
    assert ["a", "b", "c"] == target.ours() == target.plain()


@pytest.mark.slow
def test_a_batch_of_a_stream_is_refused(places):
    target = begun(places)[1]
    with pytest.raises(CommitError, match=REFUSED):
        plan_batch(Staging(target.dataset, "f" * 32, durable=True), CommitIntent(APPEND, query=Batch("q" * 32, 3)))


@pytest.mark.slow
def test_a_vacuum_does_not_open_it_to_jobs(places):
    source, target = begun(places)
    vacuum(target.root, older_than_seconds=0, storage=target.storage)
    with pytest.raises(CommitError, match=REFUSED):
        target.save(APPEND, "lost", commit_token="t")
    source.save(APPEND, "c")
    source.save(APPEND, "d")
    source.copied_to(target)
    assert ["a", "b", "c", "d"] == target.ours() == target.plain()
    assert target.save(APPEND, "e").published


@pytest.mark.slow
def test_it_is_no_source_of_another_copy(places):
    target = begun(places)[1]
    third = Place(target.storage, f"{target.root}3")
    with pytest.raises(CommitError, match=REFUSED):
        target.copied_to(third)
    assert third.storage.status(third.root) is None


@pytest.mark.slow
def test_a_job_that_was_planned_before_the_copy_is_refused_at_its_commit(places):
    source, target = places
    source.save(APPEND, "a", commit_token="t")
    plan, outputs = target.planned(APPEND, "mine", commit_token="t")
    with dying("K3.carried"):
        source.copied_to(target)
    with pytest.raises(CommitError, match=REFUSED):
        commit(plan, outputs, write_empty=None)
    assert [] == target.ours() == target.plain()


@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.parametrize("records", [1, 4])
@pytest.mark.parametrize("text", ["mine", ""], ids=["with files", "without files"])
def test_a_job_that_commits_while_files_are_copied_keeps_its_data_set(places, records, text):
    source, target = places
    for number in range(records):
        source.save(APPEND, f"a{number}", commit_token=f"t{number}")
    texts = [text] if text else []
    with (
        interrupted("K2.copied", lambda: target.save(APPEND if text else OVERWRITE, *texts)),
        pytest.raises(CommitError, match=r"a copy replaces nothing|of another (dataset|job)"),
    ):
        source.copied_to(target)
    assert 1 == target.record.seq
    assert target.save(APPEND, "more", commit_token="t0").published
    assert sorted([*texts, "more"]) == target.ours() == target.plain()


@pytest.mark.slow
def test_a_job_that_commits_in_the_last_moment_keeps_its_data_set(pair, monkeypatch):
    """Its record is made after the target was looked at, and before that of the source is there."""
    source, target = pair
    for number in range(4):
        source.save(APPEND, f"a{number}", commit_token=f"t{number}", commit_retention=3600)
    plan, outputs = target.planned(APPEND, "mine")
    real, done = copy_module._carry_kept, []

    def carried(*args):
        real(*args)
        done.append(1)
        with pytest.MonkeyPatch.context() as patch:  # it looked before the mark was made
            patch.setattr(commit_module, "check_no_copy", lambda *_: None)
            commit_module.commit(plan, outputs, write_empty=None)

    monkeypatch.setattr(copy_module, "_carry_kept", carried)
    with pytest.raises(CommitError, match="was committed in the target while its files were copied"):
        source.copied_to(target)
    assert done
    assert 1 == target.record.seq
    assert target.save(APPEND, "more", commit_token="t0").published
    assert ["mine", "more"] == target.ours() == target.plain()


@pytest.mark.slow
def test_a_copy_that_is_committed_is_not_given_up(pair):
    """The records without it would know tokens whose rows are not there."""
    source, target = pair
    source.save(APPEND, "a", commit_token="t")
    with dying("C4.directories"):
        source.copied_to(target)
    target.storage.delete_tree(f"{target.root}/_ipc_stage")
    before = target.contents()
    with pytest.raises(CommitError, match=r"it is a copy of another dataset.*make the copy again"):
        give_up(target.root, target.record.jobid, storage=target.storage)
    with pytest.raises(
        CommitError, match="Mend that, and try again; or remove this directory, and make the copy again"
    ):
        target.save(OVERWRITE, "b")
    assert before == target.contents()


@pytest.mark.slow
@pytest.mark.parametrize("text", ["", "{}", "[]", '{"source": "x"}'])
def test_a_damaged_mark_is_named(pair, text):
    target = begun(pair)[1]
    target.put("_ipc_commits/copy", text)
    with pytest.raises(CommitError, match="not a mark that 'arrowipc copy' made"):
        target.save(APPEND, "lost")
