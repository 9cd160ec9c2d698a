"""A copy is one state of a dataset, whole, with its records; nothing of it is seen before it is whole."""

from contextlib import nullcontext, suppress

import pytest
from commit_jobs import APPEND, DYNAMIC, OVERWRITE, Died, dying, interrupted
from places import WAYS, Place, local, two_places

from spark_arrow_ipc.arrow import types
from spark_arrow_ipc.arrow.types import field
from spark_arrow_ipc.dataset.commit_log.record import COPIED
from spark_arrow_ipc.dataset.commit_log.stored_record import read_kept, read_retention, record_path
from spark_arrow_ipc.dataset.stream.mode import ALL_AVAILABLE
from spark_arrow_ipc.dataset.stream.table import TableMode, TableOptions
from spark_arrow_ipc.dataset.write import copy as copy_module
from spark_arrow_ipc.dataset.write.commit import abort
from spark_arrow_ipc.dataset.write.copy import copy_dataset
from spark_arrow_ipc.dataset.write.vacuum import vacuum
from spark_arrow_ipc.errors import CommitError, ConcurrentWriteError, NoFilesError, OptionError
from spark_arrow_ipc.storage.local import LOCAL

pytestmark = pytest.mark.usefixtures("clock")

HOUR = 3600


@pytest.fixture(params=WAYS, ids=" to ".join)
def places(request, tmp_path):
    """A source and a target, of one storage or of two."""
    with two_places(request.param, tmp_path) as found:
        yield found


@pytest.fixture
def pair(tmp_path):
    with local(tmp_path) as found:
        yield found


@pytest.mark.slow
def test_a_copy_has_the_files_and_the_records(places):
    source, target = places
    source.save(APPEND, "a", "k=1:b", "k=2:c", commit_token="first", commit_retention=HOUR)
    source.save(DYNAMIC, "k=1:d")
    abort(source.planned(APPEND, "never")[0].staging)
    source.put("foreign.csv", "not ours")
    source.put("k=1/empty.arrow", "")
    before = source.contents()
    report = source.copied_to(target)
    assert before == source.contents()
    assert (3, 5, 11, 0) == (report.record, report.files, report.nbytes, report.reused)
    everything = ["a", "k=1:", "k=1:d", "k=2:c", "not ours"]
    assert everything == source.ours() == target.ours() == target.plain()
    kept = [name for name in before if "_ipc_commits/0" not in name]
    records = [f"_ipc_commits/{number:020d}.{kind}" for number in (3, 4) for kind in ("json", "done")]
    assert sorted([*kept, *records, record_path(target.dataset, 4)[len(target.root) + 1 :]]) == target.names()
    first, last = source.record, target.record
    assert (COPIED, 4, first.jobid) == (last.mode, last.seq, last.previous)
    assert last.chain != first.chain
    assert (*first.jobs, last.jobid) == last.jobs
    assert (first.tokens, first.withdrawn) == (last.tokens, last.withdrawn)
    assert HOUR == read_retention(target.dataset)
    assert 3 == sum(read_kept(source.dataset, n) == read_kept(target.dataset, n) for n in (1, 2, 3))
    assert COPIED == read_kept(target.dataset, 4).mode
    assert not target.save(APPEND, "again", commit_token="first").published
    target.save(APPEND, "next")
    target.save(DYNAMIC, "k=2:e")
    assert sorted([*everything, "next", "k=2:e"]) == sorted([*target.ours(), "k=2:c"])
    assert everything == source.ours()


@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.one_in(3)
@pytest.mark.parametrize("mode", [APPEND, OVERWRITE, DYNAMIC], ids=lambda mode: mode.value)
@pytest.mark.parametrize("point", ["C3.linked", "C4.directories", "C4.synced", "C5.synced", "C6.success", "C6.done"])
def test_a_job_that_is_not_in_place_is_in_the_copy(places, mode, point):
    source, target = places
    source.save(APPEND, "k=1:a", "k=2:b", commit_retention=HOUR)
    plan, outputs = source.planned(mode, "k=1:c", "k=1:d")
    with suppress(AssertionError), dying(point):  # an append deletes nothing
        copy_module.commit(plan, outputs, write_empty=None)
    before, seen = source.contents(), source.ours()
    source.copied_to(target)
    assert before == source.contents()
    assert seen == target.ours() == target.plain()
    assert [2, 3] == [read_kept(target.dataset, n).seq for n in (2, 3)]
    source.save(APPEND, "k=3:e")
    assert sorted([*seen, "k=3:e"]) == source.ours()


KILLS = ["K1.listed", "K2.copied", "K3.carried", "C1.checked", "C3.checked", "C3.linked", "C4.synced", "C6.done"]


@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.parametrize("point", KILLS)
def test_a_copy_that_dies_shows_nothing_or_all_and_goes_on(places, point):
    source, target = places
    source.save(APPEND, "a", commit_retention=HOUR)
    source.save(APPEND, "k=1:b", "k=1:c", "k=2:d")
    source.put("foreign.arrow", "e")
    if point == "C3.linked" and not target.storage.traits.directories:
        point = "C4.directories"
    with dying(point, 2 if point == "C3.linked" else 1):  # the first is the source's record
        source.copied_to(target)
    is_committed = point in ("C3.linked", "C4.directories", "C4.synced", "C6.done")
    with suppress(NoFilesError):
        assert (source.ours() if is_committed else []) == target.ours()
    assert is_committed or [] == target.plain()
    if not is_committed:
        source.save(APPEND, "f")
    report = source.copied_to(target)
    assert source.ours() == target.ours() == target.plain()
    assert (6 if not is_committed else 5) == report.files
    assert {"K1.listed": 0}.get(point, report.reused if point == "K2.copied" else 5) == report.reused
    others = ("/log/", "foreign", ".room/")  # a job that had copied nothing is dead for vacuum alone
    assert [name for name in target.leftovers() if not any(other in name for other in others)] == []
    assert [1, 2, 3] == [read_kept(target.dataset, n).seq for n in (1, 2, 3)]


@pytest.mark.slow
def test_the_mark_of_the_sources_record_comes_before_it(pair, monkeypatch):
    """A record without a mark would be a pending job, whose files are not there."""
    source, target = pair
    source.save(APPEND, "a")
    real = type(LOCAL).put

    def put(self, path, data, **options):
        if path.endswith(".done"):
            raise Died
        real(self, path, data, **options)

    monkeypatch.setattr(type(LOCAL), "put", put)
    with pytest.raises(Died):
        source.copied_to(target)
    monkeypatch.undo()
    assert [] == target.ours() == target.plain()


@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.parametrize("when", ["K1.listed", "K2.copied", "K3.carried"])
def test_a_job_that_replaces_everything_meanwhile(places, when):
    """The copy has the state before it or after it; where files are open, that before it."""
    source, target = places
    source.save(APPEND, "a", "k=1:b", "c")
    with interrupted(when, lambda: source.save(OVERWRITE, "d", "k=1:e")):
        report = source.copied_to(target)
    is_old = when == "K3.carried" or (when == "K2.copied" and not source.storage.traits.waits)
    assert (["a", "c", "k=1:b"] if is_old else ["d", "k=1:e"]) == target.ours() == target.plain()
    assert (1 if is_old else 2) == report.record
    assert [] == target.leftovers()


@pytest.mark.slow
def test_a_replaced_file_that_lives_on_is_copied(places):
    source, target = places
    source.save(APPEND, "a", "b")
    with interrupted("K1.listed", lambda: source.save(OVERWRITE, "c", keep_replaced=HOUR)):
        assert 1 == source.copied_to(target).record
    assert ["a", "b"] == target.ours() == target.plain()


@pytest.mark.slow
def test_jobs_that_replace_files_faster_than_they_are_copied(places, monkeypatch):
    source, target = places
    source.save(APPEND, "a")
    monkeypatch.setattr(copy_module, "_ATTEMPTS", 3)
    tried = []

    def replace(name):
        if name == "K1.listed":
            tried.append(name)
            with pytest.MonkeyPatch.context() as quiet:
                quiet.setattr("spark_arrow_ipc.storage.failpoint.hit", lambda _: None)
                source.save(OVERWRITE, "b")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spark_arrow_ipc.storage.failpoint.hit", replace)
        with pytest.raises(ConcurrentWriteError, match=r"in each of 3 attempts.*keepReplaced=1h"):
            source.copied_to(target)
    assert 3 == len(tried)
    source.copied_to(target)
    assert ["b"] == target.ours()


@pytest.mark.slow
def test_a_file_of_others_that_changes_meanwhile_is_copied_as_it_is_then(places):
    source, target = places
    source.save(APPEND, "a", "b")
    source.put("data.arrow", "one")
    listed = []

    def hit(name):
        if name == "K1.listed":
            listed.append(name)
            if len(listed) == 1:
                source.put("data.arrow", "two")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spark_arrow_ipc.storage.failpoint.hit", hit)
        source.copied_to(target)
    assert ["a", "b", "two"] == target.ours()
    assert 2 == len(listed), "it is not what was listed"


@pytest.mark.slow
def test_a_file_of_another_program_that_grows_all_the_time_is_named(pair, monkeypatch):
    source, target = pair
    source.save(APPEND, "a")
    source.put("k=1/log.arrow", "x")
    monkeypatch.setattr(copy_module, "_ATTEMPTS", 3)

    def hit(name):
        if name == "K1.listed":
            source.put("k=1/log.arrow", f"{source.read(f'{source.root}/k=1/log.arrow')}y")

    words = r"in each of 3 attempts, the last time by k=1/log\.arrow, which was replaced, removed or written to;.*another program"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spark_arrow_ipc.storage.failpoint.hit", hit)
        with pytest.raises(ConcurrentWriteError, match=words):
            source.copied_to(target)
    source.copied_to(target)
    assert ["a", "k=1:xyyy"] == target.ours()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["k=9", "a.arrow"])
@pytest.mark.parametrize("way", [("s3", "local"), ("s3", "s3"), ("memory", "local")], ids=" to ".join)
def test_an_object_that_is_a_directory_of_others_is_named_at_once(way, name, tmp_path):
    """A reader reads both, and a disk can have one of the two."""
    with two_places(way, tmp_path) as (source, target):
        source.save(APPEND, "a")
        for key in (name, f"{name}/b.arrow"):
            source.storage.put(f"{source.root}/{key}", b"x")
        with pytest.raises(CommitError, match=r"is a directory of others, too.*another name; nothing is copied"):
            source.copied_to(target)
        assert target.storage.status(target.root) is None
        source.storage.delete(f"{source.root}/{name}/b.arrow")
        source.storage.put(f"{source.root}/{name}/_hidden", b"x")
        listed = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("spark_arrow_ipc.storage.failpoint.hit", listed.append)
            if name == "k=9" and way[0] == "s3":
                with pytest.raises(CommitError, match="is a directory of others, too"):
                    source.copied_to(target)
            else:
                source.copied_to(target)
                assert ["a", "x"] == target.ours()
        assert 1 == listed.count("K1.listed")


@pytest.mark.slow
def test_a_directory_without_records(places):
    source, target = places
    source.put("k=1/a.arrow", "1")
    source.put("b.parquet", "2")
    assert (0, 2) == ((report := source.copied_to(target)).record, report.files)
    assert (1, "", ["2", "k=1:1"]) == (target.record.seq, target.record.previous, target.ours())
    target.save(OVERWRITE, "c")
    assert ["c"] == target.ours() == target.plain()


@pytest.mark.slow
def test_the_same_copy_again(places):
    source, target = places
    source.save(APPEND, "a")
    first = source.copied_to(target)
    before = target.contents()
    again = source.copied_to(target)
    assert (first.files, first.record, 1) == (again.files, again.record, again.reused)
    assert before == target.contents()
    source.save(APPEND, "b")
    with pytest.raises(
        CommitError, match="whole copy of a dataset, of the state of its record 1, and the source is not"
    ):
        source.copied_to(target)
    target.save(APPEND, "c")
    with pytest.raises(CommitError, match=r"holds 2 files .*a copy replaces nothing"):
        source.copied_to(target)
    assert ["a", "c"] == target.ours()


@pytest.mark.slow
def test_a_copy_of_a_copy(places):
    source, target = places
    source.save(APPEND, "a", commit_token="t")
    source.copied_to(target)
    target.save(APPEND, "b")
    third = Place(target.storage, f"{target.root}3")
    assert 3 == target.copied_to(third).record
    assert ["a", "b"] == third.ours()
    assert ("t",) == third.record.tokens
    assert 3 == len({place.record.chain for place in (source, target, third)})


TARGETS = {
    "itself": (lambda pair: pair[0].root, OptionError, "are one directory, or one is inside of the other"),
    "inside": (lambda pair: f"{pair[0].root}/copy", OptionError, "one is inside of the other"),
    "above": (lambda pair: pair[0].root.rpartition("/")[0], OptionError, "one is inside of the other"),
    "by a link": (lambda pair: f"{pair[0].root}_link/x", OptionError, "one is inside of the other"),
    "a file": (lambda pair: f"{pair[0].root}_file", OptionError, "a dataset is written into a directory"),
    "another dataset": (lambda pair: f"{pair[0].root}_other", CommitError, r"holds 1 file \("),
    "an empty dataset": (lambda pair: f"{pair[0].root}_empty", CommitError, "has commit records of another dataset"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_targets_that_are_refused(pair, tmp_path, name):
    source = pair[0]
    source.save(APPEND, "a")
    (tmp_path / "source_link").symlink_to(source.root)
    (tmp_path / "source_file").write_text("x")
    Place(LOCAL, f"{source.root}_other").save(APPEND, "b")
    Place(LOCAL, f"{source.root}_empty").save(OVERWRITE)
    before = Place(LOCAL, str(tmp_path)).contents()
    target, error, words = TARGETS[name]
    with pytest.raises(error, match=words):
        copy_dataset(source.root, target(pair), storage=LOCAL, target_storage=LOCAL)
    assert before == Place(LOCAL, str(tmp_path)).contents()


SOURCES = {
    "nothing": (lambda source: None, NoFilesError, "a dataset, found nothing"),
    "a file": (lambda source: Place(LOCAL, source.root.rpartition("/")[0]).put("source", "x"), NoFilesError, "found something else"),
    "an empty directory": (lambda source: LOCAL.make_directory(source.root), NoFilesError, "nothing to copy"),
    "a damaged record": (
        lambda source: (source.save(APPEND, "a"), source.put("_ipc_commits/00000000000000000002.json", "{}")),
        CommitError,
        "which of the files it counts cannot be known",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", SOURCES)
def test_sources_that_are_refused(pair, name):
    source, target = pair
    make, error, words = SOURCES[name]
    make(source)
    with pytest.raises(error, match=words):
        source.copied_to(target)
    assert LOCAL.status(target.root) is None or [] == target.plain()


@pytest.mark.slow
def test_two_copies_at_once_into_one_target(places):
    """One is whole, and the other says so or finds it done."""
    source, target = places
    source.save(APPEND, "a", "b")
    with (
        interrupted("K1.listed", lambda: source.copied_to(target)),
        pytest.raises(CommitError, match="the target has commit records up to number 2, and"),
    ):
        source.copied_to(target)
    assert ["a", "b"] == target.ours() == target.plain()
    vacuum(target.root, older_than_seconds=0, storage=target.storage)
    assert [] == target.leftovers()


@pytest.mark.slow
@pytest.mark.parametrize("ends", [False, True], ids=["that dies before its commit", "that is whole"])
def test_copies_of_two_states_into_one_target(places, ends):
    source, target = places
    source.save(APPEND, "a")

    def later():
        source.save(APPEND, "b")
        with nullcontext() if ends else dying("K3.carried"):
            source.copied_to(target)

    with interrupted("K3.carried", later), pytest.raises(CommitError, match="nothing is published"):
        source.copied_to(target)
    assert (["a", "b"] if ends else []) == target.ours() == target.plain()
    source.copied_to(target)
    assert ["a", "b"] == target.ours() == target.plain()


@pytest.mark.slow
def test_a_copy_that_a_vacuum_withdraws_begins_anew(places):
    source, target = places
    source.save(APPEND, "a", "b")

    def clear():
        vacuum(target.root, older_than_seconds=0, storage=target.storage)

    with interrupted("K3.carried", clear), pytest.raises(CommitError, match="nothing is published"):
        source.copied_to(target)
    source.save(APPEND, "c")
    source.save(APPEND, "d")
    source.copied_to(target)
    assert ["a", "b", "c", "d"] == target.ours() == target.plain()


@pytest.mark.slow
def test_names_with_special_characters_are_no_patterns(tmp_path):
    source, other = Place(LOCAL, f"{tmp_path}/a[1]"), Place(LOCAL, f"{tmp_path}/a1")
    source.save(APPEND, "mine", "k={x,*}:too")
    other.save(APPEND, "other")
    target = Place(LOCAL, f"{tmp_path}/b[1]")
    source.copied_to(target)
    assert ["k={x,*}:too", "mine"] == target.ours()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("k=1/new\nline.arrow", "control character"),
        ("k=\x7f/a.arrow", "control character"),
        ("k=1/\udc80.arrow", "surrogate"),
        (f"{'k=' + 'x' * 250}/" * 4 + "a.arrow", "is too long here"),
    ],
)
def test_names_that_an_object_store_cannot_have_are_refused_before_anything_is_copied(name, words, tmp_path):
    with two_places(("memory", "s3"), tmp_path) as (source, target):
        source.save(APPEND, "k=1:a")
        source.put(name, "other program's")
        with pytest.raises((OptionError, CommitError), match=words):
            source.copied_to(target)
        assert [] == target.names()
        source.storage.delete(f"{source.root}/{name}")
        source.copied_to(target)
        assert ["k=1:a"] == target.ours()


@pytest.mark.slow
def test_a_single_file_of_a_copy_is_no_placeholder(pair):
    """The record of a copy counts no rows, so that none is believed to be 0."""
    source, target = pair
    source.put("data.parquet", "PAR1")
    source.copied_to(target)
    with pytest.raises(OptionError, match="another format"):
        target.save(APPEND, "k=1:a", partition_by=(field("k", types.int64),), check_existing=lambda _: None)
    assert ["PAR1"] == target.ours()


@pytest.mark.slow
def test_a_stream_goes_on_in_the_copy(places):
    source, target = places
    source.save(APPEND, "a", commit_retention=HOUR)

    def read(place, start):
        mode = TableMode(place.dataset, TableOptions())
        end = mode.latest(start, ALL_AVAILABLE)
        batch = mode.batch(start, end)
        return end, sorted(place.read(file.current_path(place.storage)) for file in batch.files)

    at, texts = read(source, TableMode(source.dataset, TableOptions()).initial())
    assert ["a"] == texts
    source.save(APPEND, "b")
    source.copied_to(target)
    target.save(APPEND, "c")
    source.save(APPEND, "not in the copy")
    at, texts = read(target, at)
    assert ["b", "c"] == texts
    target.save(APPEND, "d")
    assert ["d"] == read(target, at)[1]


@pytest.mark.slow
def test_links_are_read_through_and_none_is_written_through(pair, tmp_path):
    source, target = pair
    source.save(APPEND, "a")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "b.arrow").write_text("b")
    (tmp_path / "source" / "k=1").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "target").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "target" / "_ipc_stage").symlink_to(tmp_path / "outside")
    with pytest.raises(CommitError, match="found a link"):
        source.copied_to(target)
    assert [] == list((tmp_path / "outside").iterdir())
    (tmp_path / "target" / "_ipc_stage").unlink()
    source.copied_to(target)
    assert ["a", "k=1:b"] == target.ours()
    assert not (tmp_path / "target" / "k=1").is_symlink()


@pytest.mark.slow
@pytest.mark.parametrize("is_there", [False, True], ids=["a new target", "an empty target"])
@pytest.mark.parametrize("name", ["k={}/a.arrow", "k=1/{}.arrow"])
def test_a_name_that_a_disk_cannot_have_is_refused_before_anything_is_copied(tmp_path, name, is_there):
    with two_places(("s3", "local"), tmp_path) as (source, target):
        source.save(APPEND, "a")
        source.put(name.format("x" * 249), "255 bytes, and 253")
        source.put(name.format("x" * 256), "too long")
        if is_there:
            target.storage.make_directory(target.root)
        with pytest.raises(CommitError, match=r"of 2\d\d bytes is too long here; nothing is copied"):
            source.copied_to(target)
        assert not is_there or [] == target.names()
        assert is_there or target.storage.status(target.root) is None
        source.storage.delete(f"{source.root}/{name.format('x' * 256)}")
        source.copied_to(target)
        assert 2 == len(target.ours())


@pytest.mark.slow
@pytest.mark.parametrize("way", [("local", "s3"), ("s3", "s3")], ids="-".join)
def test_long_names_are_copied_into_an_object_store(tmp_path, way):
    with two_places(way, tmp_path) as (source, target):
        source.save(APPEND, "a")
        source.put(f"k={'x' * 240}/{'y' * 200}.arrow", "long")
        source.copied_to(target)
        assert source.ours() == target.ours()
