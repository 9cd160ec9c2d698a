"""Modes of a write: dynamic overwrite, rewrite, ifExists and commitToken."""

import pickle

import pytest
from commit_jobs import APPEND, DYNAMIC, OVERWRITE, REWRITE, finish, foreign, leftovers, ours, planned, save
from job_plans import plan_job

from spark_arrow_ipc.arrow.types import Field, int32
from spark_arrow_ipc.dataset.write import IfExists
from spark_arrow_ipc.dataset.write.commit import abort
from spark_arrow_ipc.errors import ConcurrentWriteError

pytestmark = pytest.mark.usefixtures("publishing")

# Rewrite


def only(*directories):
    """Choose the files of some partitions."""
    return lambda files: [file for file in files if file.path.rpartition("/")[0] in directories]


MEANWHILE = [
    # what another job does while the file of k=1 is rewritten, and whether that is a conflict
    ("append to the same partition", APPEND, "k=1:x", {}, False),
    ("overwrite of another partition", DYNAMIC, "k=2:x", {}, False),
    ("rewrite of another partition", REWRITE, "k=2:x", {"choose": only("k=2")}, False),
    ("overwrite of the same partition", DYNAMIC, "k=1:x", {}, True),
    ("rewrite of the same file", REWRITE, "k=1:x", {"choose": only("k=1")}, True),
    ("overwrite of everything", OVERWRITE, "k=3:x", {}, True),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "content", "options", "minds"), [c[1:] for c in MEANWHILE], ids=[c[0] for c in MEANWHILE]
)
def test_a_rewrite_replaces_the_chosen_files_and_minds_changes_of_these_only(tmp_path, mode, content, options, minds):
    save(tmp_path, APPEND, "k=1:a", "k=2:b")
    plan, outputs = planned(tmp_path, REWRITE, "k=1:A", choose=only("k=1"))
    save(tmp_path, mode, content, **options)
    others = foreign(tmp_path)
    if minds:
        with pytest.raises(ConcurrentWriteError, match=r"another writer changed .*k=1/part-0.*nothing is published"):
            finish(plan, outputs)
        abort(plan)
        assert others == foreign(tmp_path) == ours(tmp_path)
    else:
        assert 1 == finish(plan, outputs).removed
        assert sorted([*others, "k=1:A"]) == sorted([*foreign(tmp_path), "k=1:a"])
        assert foreign(tmp_path) == ours(tmp_path)
    assert [] == leftovers(tmp_path)


@pytest.mark.slow
def test_an_overwrite_minds_that_its_files_were_rewritten(tmp_path):
    save(tmp_path, APPEND, "a", "b")
    plan, outputs = planned(tmp_path, OVERWRITE, "new")
    save(tmp_path, REWRITE, "a+b")
    with pytest.raises(ConcurrentWriteError):
        finish(plan, outputs)
    assert ["a+b"] == ours(tmp_path)
    assert abort(plan)
    assert ["a+b"] == foreign(tmp_path)


def test_a_rewrite_of_nothing_is_no_job(tmp_path):
    save(tmp_path, APPEND, "a")
    plan = plan_job(str(tmp_path), REWRITE, choose=lambda _: [])
    assert plan.skip
    assert not finish(plan, []).published
    assert ["a"] == foreign(tmp_path)
    assert [] == leftovers(tmp_path)


# Dynamic


@pytest.mark.slow
def test_dynamic_replaces_only_the_partitions_that_are_written(tmp_path):
    save(tmp_path, APPEND, "k=1:a", "k=1:b", "k=2:c", "k=3/j=1:d", "k=3/j=2:e", "plain")
    summary = save(tmp_path, DYNAMIC, "k=1:A", "k=3/j=2:E", "k=4:F")
    assert ["k=1:A", "k=2:c", "k=3/j=1:d", "k=3/j=2:E", "k=4:F", "plain"] == foreign(tmp_path)
    assert (3, 3) == (summary.files, summary.removed)


@pytest.mark.slow
@pytest.mark.parametrize("own", [DYNAMIC, OVERWRITE, REWRITE], ids=lambda mode: mode.value)
def test_what_lies_deeper_in_a_partition_is_replaced_with_it(tmp_path, own):
    save(tmp_path, APPEND, "g", "k=1/sub:b", "k=1/sub/more:c", "k=1/j=1:d", "k=10:e", "k=2/sub:f", "k=1:a")
    plan, outputs = planned(tmp_path, own, "k=1:A", partition_by=(Field("k", int32),) if own is DYNAMIC else None)
    finish(plan, outputs)
    others = ["g", "k=10:e", "k=2/sub:f"] if own is DYNAMIC else []
    assert sorted(["k=1:A", *others]) == foreign(tmp_path)


CHANGES = [
    # what another job does meanwhile, whether a dynamic overwrite of k=1 minds, and a static one
    ("append to the same partition", APPEND, "k=1:x", True, True),
    ("append deeper in the same partition", APPEND, "k=1/sub:x", True, True),
    ("append to another partition", APPEND, "k=2:x", False, True),
    ("overwrite of the same partition", DYNAMIC, "k=1:x", True, True),
    ("overwrite of another partition", DYNAMIC, "k=2:x", False, True),
    ("overwrite of everything", OVERWRITE, "k=2:x", True, True),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "content", "dynamic", "static"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES]
)
def test_an_overwrite_minds_changes_of_what_it_replaces(tmp_path, mode, content, dynamic, static):
    for name, own, minds in (("dynamic", DYNAMIC, dynamic), ("static", OVERWRITE, static)):
        path = tmp_path / name
        save(path, APPEND, "k=1:a", "k=2:b")
        plan, outputs = planned(path, own, "k=1:new")
        save(path, mode, content)
        before = foreign(path)
        if not minds:
            finish(plan, outputs)
            assert "k=1:new" in foreign(path)
            assert "k=1:a" not in foreign(path)
            assert content in foreign(path)
            continue
        with pytest.raises(ConcurrentWriteError, match=r"part-0000.*nothing is published"):
            finish(plan, outputs)
        assert abort(plan)
        assert before == foreign(path) == ours(path)
        assert [] == leftovers(path)


OUTSIDERS = [
    # what another program does meanwhile, and what is there then; None where the overwrite gives way
    ("a file came", lambda path: (path / "came.arrow").write_bytes(b"came"), ["came", "new"]),
    ("a file went", lambda path: (path / "old.arrow").unlink(), None),
    ("a file changed", lambda path: (path / "old.arrow").write_bytes(b"changed"), None),
]


@pytest.mark.parametrize(("change", "expected"), [case[1:] for case in OUTSIDERS], ids=[case[0] for case in OUTSIDERS])
@pytest.mark.parametrize("mode", [OVERWRITE, DYNAMIC], ids=lambda mode: mode.value)
def test_an_overwrite_minds_writers_that_know_no_protocol(tmp_path, mode, change, expected):
    """What they change of the files that it replaces; a file that they add comes after it."""
    (tmp_path / "old.arrow").write_bytes(b"old")
    plan, outputs = planned(tmp_path, mode, "new")
    change(tmp_path)
    before = foreign(tmp_path)
    if expected is not None:
        finish(plan, outputs)
        assert expected == foreign(tmp_path) == ours(tmp_path)
        return
    with pytest.raises(ConcurrentWriteError, match=r"old\.arrow.*nothing is published"):
        finish(plan, outputs)
    assert abort(plan)
    assert before == foreign(tmp_path) == ours(tmp_path)


# ifExists


@pytest.mark.parametrize("if_exists", [IfExists.ERROR, IfExists.IGNORE], ids=lambda value: value.value)
def test_if_exists_is_checked_again_at_the_commit(tmp_path, if_exists):
    plan, outputs = planned(tmp_path, APPEND, "late", if_exists=if_exists)
    save(tmp_path, APPEND, "first")
    if if_exists is IfExists.ERROR:
        with pytest.raises(ConcurrentWriteError, match=r"made files.*ifExists is error; nothing is published"):
            finish(plan, outputs)
        assert abort(plan)
    else:
        assert not finish(plan, outputs).published
    assert ["first"] == foreign(tmp_path)
    assert [] == leftovers(tmp_path)


def test_a_directory_without_data_counts_as_empty(tmp_path):
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / "sub").mkdir()
    assert save(tmp_path, APPEND, "a", if_exists=IfExists.ERROR).published


# commitToken


@pytest.mark.slow
def test_a_job_that_runs_again_with_its_token_changes_nothing(tmp_path):
    assert save(tmp_path, APPEND, "a", commit_token="job 7").published
    assert not save(tmp_path, APPEND, "a", commit_token="job 7").published
    assert not save(tmp_path, OVERWRITE, "a", commit_token="job 7").published
    assert save(tmp_path, APPEND, "b", commit_token="job 8").published
    assert save(tmp_path, APPEND, "c").published
    assert plan_job(str(tmp_path), APPEND, commit_token="job 7").skip
    assert ["a", "b", "c"] == foreign(tmp_path)
    assert [] == leftovers(tmp_path)


def test_of_two_jobs_with_one_token_the_later_commit_drops_its_files(tmp_path):
    plans = [planned(tmp_path, APPEND, text, commit_token="t") for text in "ab"]
    assert [True, False] == [finish(pickle.loads(pickle.dumps(plan)), outputs).published for plan, outputs in plans]
    assert ["a"] == foreign(tmp_path)
    assert [] == leftovers(tmp_path)


# A dynamic overwrite of a partition that the statement names

NAMED = {
    "rows of the partition": ("k=1", ["k=1:x"], ["k=1:x", "k=2:b"], 1),
    "no rows": ("k=1", [], ["k=2:b"], 1),
    "rows of another partition are added": ("k=1", ["k=2:x"], ["k=2:b", "k=2:x"], 1),
    "another spelling of the value": ("k=01", ["k=1:x"], ["k=1:x", "k=2:b"], 1),
    "a partition that is not there": ("k=3", [], ["k=1:a", "k=2:b"], 0),
}


@pytest.mark.parametrize(("partition", "contents", "expected", "removed"), NAMED.values(), ids=NAMED)
def test_a_named_partition_is_replaced_and_others_stay(tmp_path, partition, contents, expected, removed):
    save(tmp_path, APPEND, "k=1:a", "k=2:b")
    done = save(tmp_path, DYNAMIC, *contents, partition_by=(Field("k", int32),), partition=partition)
    assert removed == done.removed
    assert expected == ours(tmp_path) == foreign(tmp_path)


def test_the_last_partition_leaves_a_file_for_the_schema(tmp_path):
    save(tmp_path, APPEND, "k=1:a")
    save(tmp_path, DYNAMIC, partition_by=(Field("k", int32),), partition="k=1")
    assert ["empty"] == ours(tmp_path) == foreign(tmp_path)


def test_a_partition_of_outer_columns_has_all_of_the_inner_ones(tmp_path):
    save(tmp_path, APPEND, "k=1/m=1:a", "k=1/m=2:b", "k=2/m=1:c")
    save(tmp_path, DYNAMIC, "k=1/m=3:x", partition_by=(Field("k", int32), Field("m", int32)), partition="k=1")
    assert ["k=1/m=3:x", "k=2/m=1:c"] == ours(tmp_path) == foreign(tmp_path)


def test_a_named_partition_minds_that_others_add_to_it(tmp_path):
    save(tmp_path, APPEND, "k=1:a", "k=2:b")
    named = {"partition_by": (Field("k", int32),), "partition": "k=1"}
    plan, outputs = planned(tmp_path, DYNAMIC, "k=1:x", **named)
    save(tmp_path, APPEND, "k=2:c")
    finish(plan, outputs)
    assert ["k=1:x", "k=2:b", "k=2:c"] == ours(tmp_path)
    plan, outputs = planned(tmp_path, DYNAMIC, **named)
    save(tmp_path, APPEND, "k=1:d")
    with pytest.raises(ConcurrentWriteError, match=r"another writer changed .*nothing is published"):
        finish(plan, outputs)
    abort(plan)
    assert ["k=1:d", "k=1:x", "k=2:b", "k=2:c"] == ours(tmp_path)
