"""Paths of a dataset's records and staging directories."""

import itertools

import pytest
from commit_jobs import APPEND, DYNAMIC, OVERWRITE, REWRITE, dying, interrupted
from places import PLACES

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.commit_log.dataset_directory import (
    MAX_SEQUENCE_NUMBER,
    NO_FILES,
    DatasetDirectory,
    RemovedFile,
    StagedFile,
    Tally,
    sequence_number,
    tally_after,
)
from spark_arrow_ipc.dataset.write.commit import abort, commit
from spark_arrow_ipc.dataset.write.vacuum import give_up
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.paths import join

DATASET = DatasetDirectory(LOCAL, "/data/t")


def test_paths_inside_a_dataset():
    assert ("/data/t", "/data/t/k=1/x") == (DATASET.path(""), DATASET.path("k=1/x"))
    assert "/data/t/_ipc_commits" == DATASET.commits
    assert "/data/t/_ipc_commits/00000000000000000007.json" == DATASET.record(7)
    assert "/data/t/_ipc_commits/00000000000000000007.done" == DATASET.done_mark(7)
    assert ("/data/t/_ipc_stage", "/data/t/_ipc_stage/job") == (DATASET.all_staging, DATASET.staging("job"))


NAMES = [
    ("record", "00000000000000000007.json", 7),
    ("mark", "00000000000000000012.done", 12),
    ("claim", "00000000000000000012.claim", 12),
    ("the largest", f"{2**63 - 1:020d}.json", 2**63 - 1),
    ("larger", f"{2**63:020d}.json", None),
    ("twenty digits", "9" * 20 + ".json", None),
    ("too short", "0000000000000000007.json", None),
    ("another suffix", "00000000000000000007.staged", None),
    ("digits of another script", "0000000000000000000\u0661.json", None),
    ("with a directory", "x/00000000000000000007.json", None),
]


@pytest.mark.parametrize(("name", "expected"), [case[1:] for case in NAMES], ids=[case[0] for case in NAMES])
def test_sequence_number(name, expected):
    assert expected == sequence_number(name)


@pytest.mark.parametrize("seq", [1, MAX_SEQUENCE_NUMBER])
def test_sequence_number_of_its_own_names(seq):
    names = [path.rpartition("/")[2] for path in (DATASET.record(seq), DATASET.done_mark(seq))]
    assert [seq, seq] == [sequence_number(name) for name in names]


OWN = [f"{directory}part-{i:05d}-{i:032x}.arrow" for directory in ("", "k=1/") for i in range(3)]


def test_the_order_is_all_the_same_and_what_comes_and_goes_leaves_nothing():
    files = [(name, 7 + i) for i, name in enumerate(OWN)]
    whole = NO_FILES.changed(files)
    assert {whole} == {NO_FILES.changed(some) for some in itertools.permutations(files, len(files))}
    assert (6, sum(nbytes for _, nbytes in files)) == whole[:2]
    assert NO_FILES == whole.changed(files, -1)
    assert whole == whole.changed([("a.arrow", 5), ("k=1/part-0.arrow", 5)]), "names of other programs do not count"


@pytest.mark.parametrize("other", [(OWN[0], 8), (OWN[1], 7), (OWN[3], 7)], ids=["size", "name", "directory"])
def test_another_file_is_another_tally(other):
    assert NO_FILES.changed([(OWN[0], 7)]).digest != NO_FILES.changed([other]).digest


def test_what_cannot_be_is_unknown():
    add, removal = StagedFile("a.staged", OWN[0], 5, 1, 1), RemovedFile(OWN[0], 5, 1)
    assert NO_FILES == tally_after(NO_FILES.changed([(OWN[0], 5)]), [], [removal])
    assert tally_after(NO_FILES, [], [removal]) is None
    assert tally_after(None, [add], []) is None
    assert [False] * 4 == [
        Tally(*numbers).is_sound for numbers in [(-1, 0, 0), (0, "1", 0), (0, 0, 1 << 64), (0, 0, True)]
    ]


def listed(place):
    """The tally of the files that lie there."""
    names = [name for name in place.names() if not name.startswith(("_ipc_", "_SUCCESS"))]
    return NO_FILES.changed((name, len(place.read(join(place.root, name)))) for name in names)


def appended(place):
    place.save(APPEND, "aaa", "k=1:bb")


def overwritten(place):
    place.put("foreign.arrow", "f")
    place.save(OVERWRITE, "k=2:new", "k=1:er")


def overwritten_in_part(place):
    place.save(DYNAMIC, "k=1:only", partition_by=(t.field("k", t.int32),))


def rewritten(place):
    place.save(REWRITE, "a", "b", choose=lambda files: files[:2])


def beside(place):
    with interrupted("C1.checked", lambda: place.save(APPEND, "k=1:stays")):
        plan, outputs = place.planned(OVERWRITE, "k=1:all", partition_by=(t.field("k", t.int32),))
        commit(plan, outputs, write_empty=None, fits=lambda _: True)


def withdrawn(place):
    abort(place.planned(APPEND, "never")[0].staging)


def given_up(place):
    with dying("C4.renamed"):
        place.save(OVERWRITE, "never", "and never")
    give_up(place.root, place.record.jobid, storage=place.storage)


def removed_by_hand(place):
    file = next(name for name in place.names() if "part-" in name)
    place.storage.delete(join(place.root, file))
    assert listed(place) != place.record.tally
    place.save(OVERWRITE, "known again")


JOBS = [appended, overwritten, overwritten_in_part, rewritten, beside, withdrawn, given_up, removed_by_hand]


@pytest.mark.parametrize("kind", ["local", "memory that copies"])
@pytest.mark.parametrize("job", JOBS)
def test_each_record_says_what_lies_there(kind, job, tmp_path):
    with PLACES[kind](tmp_path) as (place, target):
        for step in (lambda _: place.save(APPEND, "1", "k=1:2"), job, appended):
            step(place)
            assert listed(place) == place.record.tally
        place.copied_to(target)
        assert listed(target) == target.record.tally == place.record.tally


def test_files_of_before_the_chain_are_not_known_until_all_are_replaced(tmp_path):
    with PLACES["local"](tmp_path) as (place, _):
        place.put(OWN[0], "before")
        appended(place)
        assert place.record.tally is None
        place.save(OVERWRITE, "all")
        assert listed(place) == place.record.tally
    with PLACES["local"](tmp_path / "made before") as (place, _):
        place.storage.make_directory(place.root)
        appended(place)
        assert listed(place) == place.record.tally
