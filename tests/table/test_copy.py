"""A copy is one snapshot as a table of its own: readers see nothing of it before its entry, and all of it afterwards."""

from contextlib import suppress

import pytest
from commit_jobs import dying, interrupted
from maintained_tables import content, ids, paths_in, save, stage, table
from places import WAYS, Place, local, two_places

from spark_arrow_ipc.arrow import types
from spark_arrow_ipc.arrow.types import field
from spark_arrow_ipc.dataset.write import WriteMode, job_plan
from spark_arrow_ipc.errors import ArrowIpcError, CommitError, ConcurrentWriteError, NoFilesError, OptionError
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.table import copy as module
from spark_arrow_ipc.table.copy import copy_table
from spark_arrow_ipc.table.entry import Batch, Entry, Operation
from spark_arrow_ipc.table.fsck import check_table
from spark_arrow_ipc.table.log import read_state
from spark_arrow_ipc.table.names import TableDirectory
from spark_arrow_ipc.table.transaction import Transaction
from spark_arrow_ipc.table.vacuum import vacuum

HOUR = 3600


@pytest.fixture(params=WAYS, ids=" to ".join)
def tables(request, tmp_path):
    """A source and a target, of one storage or of two."""
    with two_places(request.param, tmp_path) as pair:
        yield made(pair)


@pytest.fixture
def pair(tmp_path):
    with local(tmp_path) as places:
        yield made(places)


def made(places):
    source, target = (place.table for place in places)
    source.storage.make_directory(source.root)
    return source, target


def put(directory, name, data):
    path = directory.path(name)
    directory.storage.make_directory(path.rpartition("/")[0])
    directory.storage.put(path, data)


def contents(directory):
    return {path: directory.storage.read(directory.path(path), 1 << 20) for path in paths_in(directory)}


def others(directory):
    """The paths of what is neither data nor the log, nor the object by which a store is tried."""
    return [
        path
        for path in paths_in(directory)
        if "part-" not in path and not path.startswith(("_ipc_log/", "_ipc_stage/probe"))
    ]


def seen(directory):
    """The numbers that a reader sees; none without a directory or a log."""
    with suppress(FileNotFoundError, AttributeError):
        return ids(directory)
    return []


@pytest.mark.slow
def test_a_copy_has_the_rows_the_schema_and_what_jobs_are_known_by(tables):
    source, target = tables
    save(source, (1, 2), token="first", retention=HOUR)
    save(source, (3,), at="k=1", batch=Batch("query", 7))
    put(source, "k=2/other.arrow", content(4))
    put(source, "_hidden.arrow", content(5))
    dead = Transaction.begin(source)
    dead.name_files(stage(dead, (6,)))
    before = contents(source)
    report = copy_table(source, target)
    assert before == contents(source)
    assert (2, 3, 4) == (report.number, report.files, report.rows)
    assert [1, 2, 3, 4] == ids(target)
    assert [] == others(target)
    assert ["", "k=1", "k=2"] == [path.rpartition("/")[0] for path in read_state(target).files.paths]
    old, new = read_state(source), read_state(target)
    assert (old.schema, HOUR, {"first": 1}) == (new.schema, new.retention, new.tokens)
    assert {"query": 7} == {query: row.batch for query, row in new.queries.items()}
    assert new.table != old.table
    assert check_table(target, deep=True).is_sound
    save(target, (9,), overwrites=True)
    assert ([9], [1, 2, 3, 4]) == (ids(target), ids(source))


@pytest.mark.slow
def test_a_job_that_is_in_the_copy_is_known_there(pair):
    source, target = pair
    save(source, (1,), token="t", batch=Batch("q", 3))
    copy_table(source, target)
    third = TableDirectory(LOCAL, f"{target.root}3")
    copy_table(target, third)
    for again in ({"token": "t"}, {"batch": Batch("q", 2)}):
        job = Transaction.begin(third)
        job.name_files(stage(job, (8,)))
        assert 1 == job.commit(lambda _, again=again: Entry(0, "", Operation.APPEND, **again)).number
        job.abort()
    assert [1] == ids(third)
    assert 3 == len({read_state(directory).table for directory in (source, target, third)})


KILLS = ["planned.id", "planned.mark", "named.file", "named.all", "committed.asked", "committed.put", "collected.mark"]


@pytest.mark.slow
@pytest.mark.parametrize("point", KILLS)
def test_a_copy_that_dies_shows_nothing_or_all_and_can_be_run_again(tables, point):
    source, target = tables
    save(source, (1,))
    save(source, (2,), (3,), at="k=1")
    with dying(point):
        copy_table(source, target)
    if point in ("committed.put", "collected.mark"):
        assert [1, 2, 3] == ids(target)
        with pytest.raises(CommitError, match="the target holds files"):
            copy_table(source, target)
        return
    assert [] == seen(target)
    save(source, (4,))
    copy_table(source, target)
    assert [1, 2, 3, 4] == ids(target)
    assert [] == others(target)
    assert 4 == len([path for path in paths_in(target) if "part-" in path])


@pytest.mark.slow
@pytest.mark.parametrize("retain", [False, True], ids=["deleted", "retained"])
def test_a_job_that_replaces_everything_meanwhile(tables, retain):
    """The copy has the newer snapshot; where replaced files are retained, that which it began with."""
    source, target = tables
    save(source, (1,), (2,), (3,))
    with interrupted("planned.mark", lambda: save(source, (4,), at="k=1", overwrites=True, retain=retain)):
        report = copy_table(source, target)
    assert ([1, 2, 3], 1) == (ids(target), report.number) if retain else ([4], 2) == (ids(target), report.number)


@pytest.mark.slow
def test_jobs_that_replace_files_faster_than_they_are_copied(tables, monkeypatch):
    source, target = tables
    save(source, (1,))
    monkeypatch.setattr(module, "_ATTEMPTS", 3)
    listing, calls = module._list, []

    def replace_after(directory):
        tree = listing(directory)
        calls.append(save(source, (2,), overwrites=True))
        return tree

    with monkeypatch.context() as patch:
        patch.setattr(module, "_list", replace_after)
        with pytest.raises(ConcurrentWriteError, match=r"in each of 3 attempts, the last time part-.*retention=1h"):
            copy_table(source, target)
    assert 4 == len(calls)
    copy_table(source, target)
    assert [2] == ids(target)


@pytest.mark.slow
def test_a_file_of_another_program_that_changes_meanwhile_is_copied_as_it_is_then(tables):
    source, target = tables
    save(source, (1,))
    put(source, "data.arrow", content(2))
    with interrupted("planned.mark", lambda: put(source, "data.arrow", content(3, 4))):
        copy_table(source, target)
    assert [1, 3, 4] == ids(target)


@pytest.mark.slow
def test_a_directory_without_a_log(tables):
    source, target = tables
    put(source, "k=1/a.arrow", content(1, 2))
    report = copy_table(source, target)
    assert (0, 1, 2) == (report.number, report.files, report.rows)
    assert [1, 2] == ids(target)
    assert 1 == read_state(target).number


TARGETS = {
    "itself": (lambda root: root, OptionError, "are one directory, or one is inside of the other"),
    "inside": (lambda root: f"{root}/copy", OptionError, "one is inside of the other"),
    "above": (lambda root: root.rpartition("/")[0], OptionError, "one is inside of the other"),
    "by a link": (lambda root: f"{root}_link/x", OptionError, "one is inside of the other"),
    "a file": (lambda root: f"{root}_file", OptionError, "a table is a directory"),
    "another table": (lambda root: f"{root}_other", CommitError, r"holds files \(1, such as"),
    "a table without files": (lambda root: f"{root}_empty", CommitError, "a table in which jobs were committed"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_targets_that_are_refused(pair, tmp_path, name):
    source = pair[0]
    save(source, (1,))
    (tmp_path / "source_link").symlink_to(source.root)
    (tmp_path / "source_file").write_text("x")
    for other in ("other", "empty"):
        (tmp_path / f"source_{other}").mkdir()
    save(table(tmp_path / "source_other"), (2,))
    save(table(tmp_path / "source_empty"))
    before = Place(LOCAL, str(tmp_path)).contents()
    target, error, words = TARGETS[name]
    with pytest.raises(error, match=words):
        copy_table(source, table(target(source.root)))
    assert before == Place(LOCAL, str(tmp_path)).contents()


def damage_newest_entry(source):
    save(source, (1,))
    source.storage.put(source.entry(read_state(source).table, 1), b"{}")


def cut_file(source):
    path = save(source, (1,)).files.paths[0]
    source.storage.put(source.path(path), content(1)[:-3])


def change_end(source):
    path = save(source, (1,)).files.paths[0]
    data = content(1)
    source.storage.put(source.path(path), data[:200] + bytes([data[200] ^ 1]) + data[201:])


SOURCES = {
    "no files": (lambda source: None, NoFilesError, "nothing to copy"),
    "a damaged entry": (damage_newest_entry, CommitError, "CRC-32"),
    "a file that is cut": (cut_file, CommitError, "added this file of"),
    "a file with another end": (change_end, CommitError, "its last bytes|the last bytes"),
    "a file that is no Arrow file": (lambda source: put(source, "a.csv", b"a,b\n"), ArrowIpcError, "a.csv"),
    "a dataset of HuggingFace": (
        lambda source: (put(source, "data-00000.arrow", content(1)), put(source, "state.json", b"{}")),
        ArrowIpcError,
        "state.json",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SOURCES)
def test_sources_that_are_refused(pair, name):
    source, target = pair
    make, error, words = SOURCES[name]
    make(source)
    with pytest.raises(error, match=words):
        copy_table(source, target)
    assert [] == seen(target)
    with suppress(FileNotFoundError):
        assert {"_ipc_log"} >= {path.partition("/")[0] for path in paths_in(target)}


@pytest.mark.slow
def test_bytes_that_the_target_does_not_keep_are_an_error(tables, monkeypatch):
    source, target = tables
    save(source, (1,))
    digests = iter("ab")
    monkeypatch.setattr(module, "_digest", lambda _: next(digests))
    with pytest.raises(CommitError, match="read back, and is not what was written"):
        copy_table(source, target)
    assert [] == seen(target)


@pytest.mark.slow
def test_files_that_an_object_store_cannot_copy_are_refused_before_anything_is_copied(tmp_path, monkeypatch):
    with two_places(("local", "s3"), tmp_path) as places:
        source, target = made(places)
        save(source, (1,))
        monkeypatch.setattr("spark_arrow_ipc.dataset.write.commit.MAX_COPIED_NBYTES", 100)
        with pytest.raises(CommitError, match="an object store copies at most 100 at once"):
            copy_table(source, target)
        assert not any("part-" in path or ".staged" in path for path in paths_in(target))


@pytest.mark.slow
def test_two_copies_at_once_into_one_target(tables):
    """One is complete, and the other says that it was stopped."""
    source, target = tables
    save(source, (1,), (2,))
    with interrupted("planned.mark", lambda: copy_table(source, target)), pytest.raises(CommitError):
        copy_table(source, target)
    assert [1, 2] == ids(target)
    vacuum(target, older_than=0)
    assert 2 == len([path for path in paths_in(target) if "part-" in path])


@pytest.mark.slow
@pytest.mark.parametrize("point", ["planned.mark", "named.all"])
def test_a_job_that_commits_in_the_target_meanwhile_keeps_it(tables, point):
    source, target = tables
    save(source, (1,))
    with (
        interrupted(point, lambda: save(target, (9,))),
        pytest.raises(ConcurrentWriteError, match="a job was committed in the target"),
    ):
        copy_table(source, target)
    assert [9] == ids(target)


@pytest.mark.slow
@pytest.mark.parametrize("point", ["planned.mark", "named.all"])
def test_a_copy_that_a_vacuum_ends_can_be_run_again(tables, point):
    source, target = tables
    save(source, (1,), (2,))
    with (
        interrupted(point, lambda: vacuum(target, older_than=0)),
        pytest.raises(CommitError, match=r"nothing is (copied|published)|was expired"),
    ):
        copy_table(source, target)
    assert [] == seen(target)
    copy_table(source, target)
    assert [1, 2] == ids(target)


@pytest.mark.slow
def test_names_with_special_characters_are_no_patterns(tmp_path):
    source, other, target = (table(tmp_path / name) for name in ("a[1]", "a1", "b[1]"))
    for directory in (source, other):
        LOCAL.make_directory(directory.root)
    save(source, (1,), at="k={x,*}")
    save(other, (2,))
    copy_table(source, target)
    assert [1] == ids(target)
    assert "k={x,*}" == read_state(target).files.paths[0].partition("/")[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["k=new\nline", "k=\x7f", f"{'k=' + 'x' * 250}" + f"/{'k=' + 'x' * 250}" * 3])
def test_directories_that_an_object_store_cannot_have_are_refused(name, tmp_path):
    with two_places(("memory", "s3"), tmp_path) as places:
        source, target = made(places)
        save(source, (1,))
        put(source, f"{name}/a.arrow", content(2))
        with pytest.raises((ArrowIpcError, OSError)):
            copy_table(source, target)
        assert [] == seen(target)
        source.storage.delete(source.path(f"{name}/a.arrow"))
        copy_table(source, target)
        assert [1] == ids(target)


@pytest.mark.slow
def test_nothing_is_written_through_a_link(pair, tmp_path):
    source, target = pair
    save(source, (1,))
    (tmp_path / "target").mkdir()
    (tmp_path / "outside").mkdir()
    for name in ("_ipc_stage", "_ipc_log"):
        (tmp_path / "target" / name).symlink_to(tmp_path / "outside")
        with pytest.raises(CommitError, match="found a link"):
            copy_table(source, target)
        (tmp_path / "target" / name).unlink()
    assert [] == list((tmp_path / "outside").iterdir())
    copy_table(source, target)
    assert [1] == ids(target)


STRAYS = {
    "beside partitions": ("k=1", "stray.arrow"),
    "in a directory that is no partition": ("", "elsewhere/stray.arrow"),
}


@pytest.mark.parametrize(("at", "stray"), STRAYS.values(), ids=STRAYS)
def test_files_that_no_reader_reads_are_left_out_so_that_the_copy_takes_jobs(pair, caplog, at, stray):
    source, target = pair
    save(source, (1,), at=at)
    put(source, stray, content(9))
    copy_table(source, target)
    assert f"are not copied: {source.path(stray)}" in caplog.text
    assert [at] == [path.rpartition("/")[0] for path in read_state(target).files.paths]
    partition_by = tuple(field(name, types.utf8) for name in [at.partition("=")[0]] if at)
    job_plan.plan_job(target.root, job_plan.CommitIntent(WriteMode.APPEND, partition_by=partition_by))
