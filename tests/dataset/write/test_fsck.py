"""Faults of a dataset's directory: how each is named, what mends it, and that mending loses nothing."""

import os
import re
import shlex
import shutil
import uuid
from functools import partial

import pytest
from commit_jobs import APPEND, DYNAMIC, OVERWRITE, dying
from places import PLACES

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.write.commit import abort, commit
from spark_arrow_ipc.dataset.write.fsck import ASIDE_DIRECTORY, fsck, go_back, repair
from spark_arrow_ipc.dataset.write.record_chain import Claim
from spark_arrow_ipc.dataset.write.vacuum import give_up, vacuum
from spark_arrow_ipc.errors import CommitError, ConcurrentWriteError, NoFilesError
from spark_arrow_ipc.storage.paths import join, name_of

KINDS = ["local", "memory", "memory that copies", "s3"]
OTHER_NAME = f"part-00000-{'a' * 32}.arrow"


@pytest.fixture(params=KINDS)
def places(request, tmp_path):
    """Two places of one storage; the first has two jobs' files."""
    with PLACES[request.param](tmp_path) as (place, other):
        place.save(APPEND, "1", "k=1:2")
        place.save(APPEND, "3", "k=2:4")
        yield place, other


@pytest.fixture
def place(places):
    return places[0]


ROWS = ["1", "3", "k=1:2", "k=2:4"]


def own(place, part=""):
    """The names of our files, of a partition or beside all."""
    return [name for name in place.names() if name.startswith(f"{part}part-")]


def looked(place):
    return fsck(place.root, place.storage)


def faults(place):
    return [finding for finding in looked(place).findings if not finding.is_note]


def notes(place):
    return [finding for finding in looked(place).findings if finding.is_note]


def move(place, old, new):
    data = place.read(join(place.root, old))
    place.storage.delete(join(place.root, old))
    place.put(new, data)


# What is sound


@pytest.mark.slow
def test_a_sound_data_set_has_no_findings(place):
    before = place.contents()
    report = looked(place)
    assert (2, 4, 4, True, True, ()) == (
        report.record, report.files, report.nbytes, report.is_whole, report.is_sound, report.findings
    )  # fmt: skip
    assert () == repair(place.root, place.storage).done
    assert before == place.contents()


@pytest.mark.slow
def test_a_copy_and_what_follows_it_is_sound(places):
    place, other = places
    place.copied_to(other)
    assert (True, ()) == (looked(other).is_whole, looked(other).findings)
    other.save(OVERWRITE, "5")
    assert (True, ()) == (looked(other).is_whole, looked(other).findings)


@pytest.mark.slow
def test_what_is_no_directory(place):
    with pytest.raises(NoFilesError):
        fsck(join(place.root, "none"), place.storage)


@pytest.mark.slow
def test_a_directory_without_records(places):
    _, other = places
    other.put("a.arrow", "1")
    report = looked(other)
    assert (0, 1, 1, None, ()) == (report.record, report.files, report.nbytes, report.is_whole, report.findings)


@pytest.mark.slow
def test_files_of_other_programs_are_a_note(place):
    place.put("k=1/part-0.arrow", "x")
    assert looked(place).is_sound
    assert "1 file of other programs, which readers read: k=1/part-0.arrow" == notes(place)[0].what
    assert () == repair(place.root, place.storage).done


@pytest.mark.slow
def test_files_that_are_older_than_the_chain_cannot_be_counted(places):
    _, other = places
    other.put(OTHER_NAME, "0")
    other.save(APPEND, "1")
    report = looked(other)
    assert (None, True, True) == (report.is_whole, report.is_sound, "older than the chain" in report.findings[0].what)
    other.save(OVERWRITE, "2")
    assert looked(other).is_whole


# What is mended without a loss: what makes the fault, words of the finding, and what readers see after that


def removed_file_is_back(place):
    old = {name: place.read(join(place.root, name)) for name in own(place)}
    place.save(OVERWRITE, "new")
    for name, data in old.items():
        place.put(name, data)


def removed_file_of_a_pruned_record_is_back(place):
    old = own(place)[0]
    data = place.read(join(place.root, old))
    place.save(OVERWRITE, "new")
    for i in range(3):
        place.save(APPEND, f"more {i}")
    for name in [name for name in place.names() if "00002." in name or "00003." in name]:
        place.storage.delete(join(place.root, name))
    place.put(old, data)


def file_twice(place):
    name = own(place, "k=1/")[0]
    place.put(name.replace("k=1", "k=7"), place.read(join(place.root, name)))


def all_files_twice(place):
    for name in [*own(place), *own(place, "k=1/"), *own(place, "k=2/")]:
        place.put(f"k=backup/{name}", place.read(join(place.root, name)))


def copy_of_a_file_manager(place):
    name = own(place)[0]
    place.put(name.replace(".arrow", " (1).arrow"), place.read(join(place.root, name)))


def younger_files(place):
    for i in range(3):
        place.put(f"k={i}/part-00000-{uuid.uuid4().hex}.arrow", f"younger {i}")


def two_files_of_a_job_that_has_no_record(place):
    place.put(OTHER_NAME, "x")
    place.put(OTHER_NAME.replace("aaaa", "bbbb"), "y")
    for name in own(place)[:2]:  # so that they are not the youngest
        place.put(name, place.read(join(place.root, name)))


def record_of_another_chain(place):
    other = type(place)(place.storage, f"{place.root}-other")
    for text in "789":
        other.save(APPEND, text)
    place.save(APPEND, "5")
    place.storage.delete(place.dataset.record(1))
    place.put(f"_ipc_commits/{1:020d}.json", other.read(other.dataset.record(1)))


MENDED = [
    (removed_file_is_back, "a record has removed this file, and it is there", ["new"]),
    (removed_file_of_a_pruned_record_is_back, r"without 1 file \(.*\) it is", ["more 0", "more 1", "more 2", "new"]),
    (file_twice, "is there twice: k=1/part-.*, k=7/part-", ROWS),
    (all_files_twice, r"without 4 files \(k=backup/.*\) it is", ROWS),
    (copy_of_a_file_manager, "these are the bytes of part-", ROWS),
    (two_files_of_a_job_that_has_no_record, "without 2 files", ROWS),
    (record_of_another_chain, "this record is of another chain", ["1", "3", "5", "k=1:2", "k=2:4"]),
]


@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.parametrize(("make", "words", "rows"), MENDED, ids=[case[0].__name__ for case in MENDED])
def test_what_is_too_much_is_moved_aside(place, make, words, rows):
    make(place)
    before = place.contents()
    assert (rows == place.ours()) == (make is record_of_another_chain)
    found = faults(place)
    assert any(re.search(words, finding.what) for finding in found), found
    assert {f"arrowipc fsck --repair {place.root}"} == {finding.mend for finding in found}
    assert before == place.contents(), "looking changes nothing"
    report = repair(place.root, place.storage)
    assert report.is_sound
    assert report.done
    assert rows == place.ours() == place.plain()
    aside = {name.removeprefix(f"{ASIDE_DIRECTORY}/") for name in place.names() if name.startswith(ASIDE_DIRECTORY)}
    after = place.contents()
    there = {name.removesuffix(".staged"): after[f"{ASIDE_DIRECTORY}/{name}"] for name in aside}
    assert before == there | {name: data for name, data in after.items() if not name.startswith(ASIDE_DIRECTORY)}
    place.save(APPEND, "goes on")
    assert sorted(["goes on", *rows]) == place.ours()
    assert looked(place).is_whole


@pytest.mark.slow
@pytest.mark.parametrize("places", ["local", "memory"], indirect=True)  # where times are finer than seconds
def test_the_youngest_files_are_known_by_their_times(place):
    younger_files(place)
    words = "which has 4 files of 4 bytes, and here are 7 files of 31; without 3 files"
    assert [True] == [words in finding.what for finding in faults(place)]
    assert repair(place.root, place.storage).is_sound
    assert ROWS == place.ours()


@pytest.mark.slow
def test_what_is_taken_aside_twice_is_kept_twice(place):
    for _ in range(2):
        place.put(OTHER_NAME, "x")
        assert repair(place.root, place.storage).is_sound
    kept = [name for name in place.names() if name.startswith(ASIDE_DIRECTORY)]
    assert [f"{ASIDE_DIRECTORY}/{OTHER_NAME}{end}" for end in (".1.staged", ".staged")] == kept


@pytest.mark.slow
@pytest.mark.parametrize("point", ["C4.directories", "C4.renamed", "C5.unlinked", "C6.success"])
def test_a_job_whose_process_died_is_brought_to_its_end(point, tmp_path):
    with PLACES["local"](tmp_path) as (place, _):
        place.save(APPEND, "1", "2")
        with dying(point):
            place.save(OVERWRITE, "3", "k=1:4")
        report = looked(place)
        assert (True, True, 2) == (report.is_whole, report.is_sound, report.files)
        assert re.search("is committed, and [0-2] of 2 new files have their names", report.findings[0].what)
        assert f"arrowipc vacuum {place.root}" == report.findings[0].mend
        assert "the job is brought to its end" == repair(place.root, place.storage).done[0].what
        assert ["3", "k=1:4"] == place.plain()
        assert () == looked(place).findings


@pytest.mark.slow
@pytest.mark.parametrize("point", ["C4.directories", "C5.unlinked", "C6.success"])
def test_what_older_jobs_removed_is_seen_beside_a_pending_one(point, tmp_path):
    """A reader leaves out what the pending record removes, and not what older ones have removed."""
    with PLACES["local"](tmp_path) as (place, _):
        place.save(APPEND, "1")
        old = own(place)[0]
        place.save(OVERWRITE, "2")
        with dying(point):
            place.save(OVERWRITE, "3")
        assert (True, True, 1) == (looked(place).is_whole, looked(place).is_sound, looked(place).files)
        place.put(old, "1")
        report = looked(place)
        assert (False, False, 2) == (report.is_whole, report.is_sound, report.files)
        assert ["1", "3"] == place.ours()
        assert repair(place.root, place.storage).is_whole
        assert ["3"] == place.ours() == place.plain()


@pytest.mark.slow
@pytest.mark.parametrize("places", ["local", "memory"], indirect=True)  # elsewhere a writer waits for the dead one
def test_the_mark_of_another_job_is_replaced(place):
    place.put(f"_ipc_commits/{2:020d}.done", "f" * 32)
    assert repair(place.root, place.storage).done
    assert place.read(place.dataset.done_mark(2)).encode() == place.record.to_bytes()


SPOILT = {
    "empty": ("json", lambda data: b""),
    "another record": ("json", lambda data: data.replace(b'"seq":2', b'"seq":1')),
    "long": ("json", lambda data: b"\xff" * 50_000),
    "a copy that is cut": (
        "done",
        lambda data: data[:-1],
    ),  # one whose first bytes are gone says that the job is pending
}


@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.parametrize("case", SPOILT)
def test_the_newest_record_is_written_from_its_copy(place, case):
    name, spoil = SPOILT[case]
    damage = spoil(place.record.to_bytes())
    path, before = f"_ipc_commits/{2:020d}.{name}", place.contents()
    place.storage.put(join(place.root, path), damage)
    assert [join(place.root, path)] == [finding.path for finding in faults(place)]
    assert f"arrowipc fsck --repair {place.root}" == faults(place)[0].mend
    report = repair(place.root, place.storage)
    assert (True, True) == (report.is_sound, report.is_whole)
    assert before | {f"{ASIDE_DIRECTORY}/{path}.staged": damage} == place.contents()


# What only a person may decide: the state of an older record


def newest_files_gone(place):
    place.save(APPEND, "5", "k=1:6")
    place.storage.delete(join(place.root, place.record.adds[0].final))


def newest_overwrite_is_half_there(place):
    """As a copy that read the files before an overwrite, and the records after it."""
    old = {name: place.read(join(place.root, name)) for name in [*own(place), *own(place, "k=1/"), *own(place, "k=2/")]}
    place.save(OVERWRITE, "5", "k=1:6")
    place.storage.delete(join(place.root, own(place)[0]))
    for name, data in old.items():
        place.put(name, data)


def newest_record_is_damaged(place):
    place.save(APPEND, "5")
    for path in (place.dataset.record(3), place.dataset.done_mark(3)):
        place.storage.put(path, b"{")


def committed_and_not_copied(place):
    """As a copy that read the staged files before a job, and its record while it was put in place."""
    with dying("C4.directories"):
        place.save(OVERWRITE, "5", "k=1:6")
    place.storage.delete_tree(place.dataset.all_staging)


BACK = [
    (newest_files_gone, "a committed file is gone"),
    (newest_overwrite_is_half_there, "it was copied while jobs ran"),
    (newest_record_is_damaged, "a commit record"),
    (committed_and_not_copied, "0 of 2 new files have their names"),
]


@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.parametrize(("make", "words"), BACK, ids=[case[0].__name__ for case in BACK])
def test_the_newest_state_is_not_there_and_an_older_one_is(place, make, words):
    place.save(APPEND, "k=3:3", commit_retention=3600)
    place.storage.delete(join(place.root, own(place, "k=3/")[0]))
    go_back(place.root, 2, place.storage)
    assert ROWS == place.ours()
    make(place)
    found = faults(place)
    assert any(words in finding.what for finding in found), found
    assert f"arrowipc fsck --back-to 2 {place.root}" in {finding.mend for finding in found}
    before = place.contents()
    repair(place.root, place.storage)
    assert before.keys() - place.contents().keys() <= {name for name in before if "part-" in name}, "no job is undone"
    report = go_back(place.root, 2, place.storage)
    assert (True, True, 2) == (report.is_sound, report.is_whole, report.record)
    assert ROWS == place.ours() == place.plain()
    assert sorted(before.values()) == sorted(place.contents().values())
    place.save(APPEND, "goes on")
    assert sorted(["goes on", *ROWS]) == place.ours()
    assert looked(place).is_whole


@pytest.mark.slow
@pytest.mark.parametrize("has_mark", [True, False])
def test_going_back_deletes_no_file_of_other_programs(has_mark, tmp_path):
    """As `cp -a` copies it while jobs run: what record 2 removed is there with its time, and its mark may not be."""
    with PLACES["local"](tmp_path) as (place, _):
        place.save(APPEND, "1")
        place.put("part-0.arrow", "foreign")
        time = place.storage.status(f"{place.root}/part-0.arrow").mtime_ns
        place.save(OVERWRITE, "2")
        place.save(APPEND, "3")
        place.put("part-0.arrow", "foreign")
        os.utime(f"{place.root}/part-0.arrow", ns=(time, time))
        place.storage.delete(join(place.root, place.record.adds[0].final))
        if not has_mark:
            place.storage.delete(place.dataset.done_mark(2))
        assert f"arrowipc fsck --back-to 2 {place.root}" in {finding.mend for finding in faults(place)}
        before = place.contents()
        report = go_back(place.root, 2, place.storage)
        assert (True, True) == (report.is_whole, report.is_sound)
        assert ["2"] == place.ours() == place.plain()
        assert {*before.values()} <= {*place.contents().values()}
        assert b"foreign" == place.contents()[f"{ASIDE_DIRECTORY}/part-0.arrow.staged"]


@pytest.mark.slow
def test_going_back_to_a_copy_whose_mark_is_lost(tmp_path):
    """A copy names files of other programs, too, which may be gone by now: its record is not applied once more."""
    with PLACES["local"](tmp_path) as (source, place):
        source.save(APPEND, "1")
        source.put("part-0.arrow", "foreign")
        source.copied_to(place)
        place.save(APPEND, "3")
        for name in ("part-0.arrow", place.record.adds[0].final, f"_ipc_commits/{2:020d}.done"):
            place.storage.delete(join(place.root, name))
        assert go_back(place.root, 2, place.storage).is_whole
        assert ["1"] == place.ours()
        place.save(APPEND, "4")
        assert ["1", "4"] == place.ours()


@pytest.mark.slow
def test_only_a_state_that_is_there_is_gone_back_to(place):
    newest_files_gone(place)
    before = place.contents()
    for record in (0, 3, 4):
        words = f"does not hold the state of record {record} whole; those that it holds: 2, 1"
        with pytest.raises(CommitError, match=words):
            go_back(place.root, record, place.storage)
    assert before == place.contents()


@pytest.mark.slow
def test_a_job_that_commits_meanwhile_is_not_undone(place):
    newest_files_gone(place)
    patched = pytest.MonkeyPatch()
    from spark_arrow_ipc.dataset.write import fsck as module

    def states(inventory):
        found = list(original(inventory))
        place.save(APPEND, "meanwhile")
        return iter(found)

    original = module.states
    with patched.context() as context:
        context.setattr(module, "states", states)
        with pytest.raises(ConcurrentWriteError, match="nothing is changed"):
            go_back(place.root, 2, place.storage)
    assert "meanwhile" in place.ours()


# What cannot be mended


def old_file_gone(place):
    (name,) = [name for name in own(place) if "1" == place.read(join(place.root, name))]
    place.storage.delete(join(place.root, name))


def file_cut(place):
    place.storage.put(join(place.root, own(place, "k=2/")[0]), b"")


def partition_copied_late(place):
    """As a copy that read the records and a partition before an overwrite of another one, and that after it."""
    name = own(place, "k=1/")[0]
    place.storage.delete(join(place.root, name))
    place.put(f"k=1/{OTHER_NAME}", "of a later job")


@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.parametrize("make", [old_file_gone, file_cut, partition_copied_late])
def test_rows_that_are_not_there_are_no_state(place, make):
    for text in "56":
        place.save(APPEND, text)
    for name in [name for name in place.names() if "00001." in name or "00002." in name]:
        place.storage.delete(join(place.root, name))
    make(place)
    before = place.contents()
    found = faults(place)
    assert any("nor is it that of another record" in finding.what for finding in found), found
    assert all("cannot be mended from here" in finding.mend for finding in found)
    assert (False, False) == (looked(place).is_sound, repair(place.root, place.storage).is_sound)
    assert before == place.contents()
    with pytest.raises(CommitError, match="does not hold the state of record 4 whole"):
        go_back(place.root, 4, place.storage)


@pytest.mark.slow
def test_a_file_that_was_cut_is_named(place):
    file_cut(place)
    words = {finding.what for finding in faults(place) if name_of(finding.path) == name_of(own(place, "k=2/")[0])}
    assert {"a committed file has 0 bytes, and had others when it was committed"} == words


@pytest.mark.slow
@pytest.mark.parametrize("is_kept", [False, True])
def test_records_that_are_all_gone_are_missed(is_kept, tmp_path):
    """As a copy that listed the names of a chain, which jobs had replaced before it read them; beside a log of records."""
    with PLACES["local"](tmp_path) as (place, _):
        for text in "12":
            place.save(APPEND, text, commit_retention=3600 if is_kept else None)
        for name in [name for name in place.names() if re.fullmatch("_ipc_commits/[0-9]+[.][a-z]+", name)]:
            place.storage.delete(join(place.root, name))
        (fault,) = faults(place)
        assert (join(place.root, "_ipc_commits"), True) == (fault.path, "none of the records" in fault.what)
        assert "cannot be mended from here" in fault.mend
        assert not repair(place.root, place.storage).is_sound
        place.storage.delete_tree(fault.path)
        assert looked(place).is_sound


# Datasets in datasets, links, and what is left of jobs


@pytest.mark.slow
def test_a_data_set_inside_is_named_from_both(places):
    place, other = places
    other.save(APPEND, "x")
    inner = type(place)(place.storage, join(place.root, "k=1"))
    for name in other.names():  # as a copy; jobs are refused there
        inner.put(name, other.read(join(other.root, name)))
    found = [finding for finding in faults(place) if finding.path == inner.root]
    assert ["inside of another" in finding.what for finding in found] == [True]
    assert f"rm -r {inner.root}/_ipc_commits" in found[0].mend
    assert any(f"this lies in the dataset {place.root}" in finding.what for finding in faults(inner))


@pytest.mark.slow
def test_what_a_refused_first_job_leaves_inside_is_no_data_set(places):
    place, other = places
    abort(other.planned(APPEND, "x")[0].staging)
    assert any("_ipc_commits/0" in name for name in other.names())
    for name in other.names():
        place.put(f"k=1/{name}", other.read(join(other.root, name)))
    assert [] == faults(place)


def stuck(place, mode, *texts, point=None):
    """Leave a job that is committed, and whose staged files are gone."""
    plan, outputs = place.planned(mode, *(texts or ("5", "k=2:6")))
    with dying(point or ("C4.directories" if place.storage.traits.directories else "C3.synced")):
        commit(plan, outputs, write_empty=None)
    place.storage.delete_tree(plan.staging.directory)
    return plan.staging.jobid


def run(command):
    """Give up the job that a command names."""
    _, _, option, jobid, root = shlex.split(command)
    assert "--give-up" == option
    return partial(give_up, root, jobid)


@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.parametrize("mode", [APPEND, OVERWRITE, DYNAMIC], ids=lambda mode: mode.value)
def test_a_job_whose_files_are_gone_is_given_up_where_the_state_before_is_whole(place, mode):
    jobid = stuck(place, mode)
    found = faults(place)
    mended = [finding.mend for finding in found]
    assert 3 == mended.count(f"arrowipc vacuum --give-up {jobid} {place.root}"), "its two files, and itself"
    assert {f"arrowipc fsck --back-to 2 {place.root}"} == {*mended} - {mended[0]}, (
        "which a copy may want, and a dataset may, too"
    )
    run(found[0].mend)(storage=place.storage)
    assert ROWS == place.ours() == place.plain()
    assert [] == faults(place)
    assert looked(place).is_whole


@pytest.mark.slow
def test_a_job_whose_files_are_gone_in_part_and_the_first_of_all(tmp_path):
    with PLACES["local"](tmp_path) as (place, other):
        place.save(APPEND, "1")
        jobid = stuck(place, OVERWRITE, point="C4.renamed")
        stuck(other, APPEND)
        for each in (place, other):
            found = faults(each)
            run(found[0].mend)(storage=each.storage)
            assert [] == faults(each)
        assert f"arrowipc vacuum --give-up {jobid} {place.root}" not in (f.mend for f in faults(place))
        assert (["1"], []) == (place.ours(), other.ours())


@pytest.mark.slow
def test_a_job_is_not_given_up_where_the_state_before_is_lost(place):
    stuck(place, OVERWRITE)
    place.storage.delete(join(place.root, own(place, "k=1/")[0]))
    assert not any("--give-up" in finding.mend for finding in faults(place))


@pytest.mark.slow
def test_a_job_is_not_given_up_where_an_older_file_is_gone(place):
    stuck(place, APPEND)
    place.storage.delete(join(place.root, own(place, "k=1/")[0]))
    assert not any("--give-up" in finding.mend for finding in faults(place))


@pytest.mark.slow
def test_where_a_process_may_remove_old_files_the_command_is_for_a_person_who_knows(tmp_path):
    with PLACES["local"](tmp_path) as (place, _):
        place.save(APPEND, "1")
        plan, outputs = place.planned(OVERWRITE, "2")
        with dying("C4.synced"):
            commit(plan, outputs, write_empty=None)
        place.storage.put(place.dataset.claim(2), Claim.APPLY.value)
        place.storage.delete(place.dataset.path(outputs[0].files[0].final))
        words, command = faults(place)[0].mend.split(": ")
        assert "if no process works on this directory" == words
        assert f"arrowipc vacuum --give-up {plan.staging.jobid} --older-than 0 {place.root}" == command
        with pytest.raises(CommitError, match="add --older-than 0"):
            give_up(place.root, plan.staging.jobid, storage=place.storage)
        give_up(place.root, plan.staging.jobid, older_than_seconds=0, storage=place.storage)
        assert ["1"] == place.ours() == place.plain()
        assert [] == faults(place)


@pytest.mark.slow
def test_a_copy_whose_files_are_gone_is_made_again(places):
    place, other = places
    with dying("C4.directories" if place.storage.traits.directories else "C3.synced", 1):
        place.copied_to(other)
    other.storage.delete_tree(f"{other.root}/_ipc_stage")
    assert not any("--give-up" in finding.mend for finding in faults(other))


@pytest.mark.slow
@pytest.mark.parametrize("places", ["local", "memory"], indirect=True)
def test_a_copy_that_was_withdrawn_is_told_by_its_mark(places):
    place, other = places
    with dying("K3.carried"):
        place.copied_to(other)
    vacuum(other.root, older_than_seconds=0, storage=other.storage)
    (found,) = faults(other)
    assert f"remove this directory; then: arrowipc copy {place.root} {other.root}" == found.mend
    other.storage.delete_tree(other.root)
    place.copied_to(other)
    assert (True, ROWS) == (looked(other).is_whole, other.ours())


@pytest.mark.slow
@pytest.mark.parametrize("point", ["K2.copied", "K3.carried"])
def test_a_copy_that_was_begun_is_gone_on_with(places, point):
    """Its records are those of the source, and its files have no names yet: none is gone."""
    place, other = places
    with dying(point):
        place.copied_to(other)
    has_records = any("_ipc_commits/0" in name for name in other.names())
    found = [finding for finding in looked(other).findings if "was begun here" in finding.what]
    assert [has_records] == [not finding.is_note for finding in found]
    assert has_records == (not looked(other).is_sound)
    assert f"arrowipc copy {place.root} {other.root}" == found[0].mend
    assert {finding.mend for finding in faults(other)} <= {found[0].mend}
    place.copied_to(other)
    assert (True, ROWS) == (looked(other).is_whole, other.ours())
    assert [] == faults(other)


@pytest.mark.slow
@pytest.mark.parametrize("places", ["local", "memory"], indirect=True)  # where the newest record is not waited for
def test_a_copy_that_was_given_up_is_made_anew_without_a_fault(places):
    """Vacuum withdrew the first run by a record, which is of no other dataset."""
    place, other = places
    place.save(APPEND, "5")
    with dying("K2.copied"):
        place.copied_to(other)
    vacuum(other.root, older_than_seconds=0, storage=other.storage)
    place.copied_to(other)
    assert ((), True) == (looked(other).findings, looked(other).is_whole)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["local"])
def test_links(kind, tmp_path):
    with PLACES[kind](tmp_path) as (place, other):
        place.save(APPEND, "1")
        other.save(APPEND, "2")
        (tmp_path / "source" / "k=1").symlink_to(tmp_path / "target")
        assert ["links, which are not looked into: k=1"] == [note.what for note in notes(place)]
        shutil.rmtree(tmp_path / "target")
        assert ["the link leads to nothing, and no reader reads the dataset"] == [f.what for f in faults(place)]
        (tmp_path / "source" / "k=1").unlink()
        shutil.move(tmp_path / "source" / "_ipc_commits", tmp_path / "elsewhere")
        (tmp_path / "source" / "_ipc_commits").symlink_to(tmp_path / "elsewhere")
        before = sorted(tmp_path.rglob("*"))
        for work in (fsck, repair):
            with pytest.raises(CommitError, match="found a link"):
                work(place.root, place.storage)
        assert before == sorted(tmp_path.rglob("*"))


@pytest.mark.slow
@pytest.mark.parametrize("places", ["local", "s3"], indirect=True)  # the memory's clock is none
def test_what_jobs_have_left_is_a_note(place):
    plan, _ = place.planned(APPEND, "staged")
    (note,) = notes(place)
    assert f"the job {plan.staging.jobid} has staged 6 bytes" in note.what
    assert f"if it does not: arrowipc vacuum {place.root} --older-than 1h" == note.mend
    assert looked(place).is_sound


@pytest.mark.slow
@pytest.mark.one_in(4, "exhaustive")
def test_jobs_that_commit_while_it_is_listed(place):
    """It looks again; and if they never stop it says so."""
    from spark_arrow_ipc.dataset.write import inventory

    original, passed = inventory._Names.list_all, []

    def list_all(found):
        original(found)
        if len(passed) < most:
            passed.append(place.save(DYNAMIC, "k=1:new", partition_by=(t.field("k", t.int32),)))

    for most in (3, 1000):
        with pytest.MonkeyPatch.context() as context:
            context.setattr(inventory._Names, "list_all", list_all)
            if most == 3:
                assert looked(place).is_whole
                continue
            with pytest.raises(ConcurrentWriteError, match="20 times"):
                looked(place)


@pytest.mark.slow
def test_commands_can_be_pasted(tmp_path):
    with PLACES["local"](tmp_path / "a b;c") as (place, _):
        place.save(APPEND, "1")
        place.put(OTHER_NAME, "x")
        assert f"arrowipc fsck --repair '{place.root}'" == faults(place)[0].mend
