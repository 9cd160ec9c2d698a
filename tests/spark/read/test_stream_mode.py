"""Which mode a stream has, and the options that do not fit its source."""

import os
from contextlib import suppress

import pyarrow as pa
import pytest
from stream_queries import Query, drop

from spark_arrow_ipc.dataset.stream.mode import ALL_AVAILABLE
from spark_arrow_ipc.errors import OptionError, SchemaMismatchError
from spark_arrow_ipc.spark.options.options import parse_stream
from spark_arrow_ipc.storage.object_store import ObjectStorage

pytest.importorskip("pyspark.sql.streaming.datasource", reason="reading a stream needs Spark 4.2 or later")
from spark_arrow_ipc.spark.read.stream_reader import poll_seconds, stream_mode

NUMBER = pa.schema([("n", pa.int64())])


def mode_of(path, **options):
    return stream_mode(*parse_stream({"path": str(path), **options}))


def test_a_directory_is_followed_within_a_window(tmp_path):
    mode = mode_of(tmp_path)
    assert ("window", "window") == (mode.name, mode.initial()["mode"])


@pytest.mark.parametrize(
    ("archive", "fits"),
    [
        ("in", False),
        ("in/old", False),
        ("in/a/_b/c", True),
        ("in/_old", True),
        ("in/.old", True),
        ("old", True),
        ("input", True),
    ],
)
@pytest.mark.parametrize("path", ["in", "in/*.arrow", "in/k=*"])
def test_an_archive_is_not_where_the_stream_looks(tmp_path, archive, fits, path):
    options = {"cleanSource": "archive", "sourceArchiveDir": str(tmp_path / archive)}
    if fits:
        assert mode_of(tmp_path / path, **options) is not None
        return
    with pytest.raises(OptionError, match=r"sourceArchiveDir lies in .*/in, where the stream looks"):
        mode_of(tmp_path / path, **options)


ALIASES = [
    # a link, where it leads, the directory of the stream's own by way of it, and whether that is refused at once
    ("alias", "in", "alias/old", True),
    ("alias", "in/a", "alias", True),
    ("alias", "in/_hidden", "alias/old", False),
    ("in/out", "../other", "in/out", True),
    ("in/out", "../other", "other/old", False),
]


@pytest.mark.parametrize(("link", "target", "directory", "at_once"), ALIASES)
def test_a_directory_where_the_stream_looks_is_known_by_any_name(tmp_path, link, target, directory, at_once):
    for name in ("in/a", "in/_hidden", "other"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / link).symlink_to(target)
    own = str(tmp_path / directory)
    for options in ({"cleanSource": "archive", "sourceArchiveDir": own}, {"sourceLog": own}):
        if not at_once:
            assert mode_of(tmp_path / "in", **options) is not None
            continue
        with pytest.raises(OptionError, match="where the stream looks"):
            mode_of(tmp_path / "in", **options)


REMOTE = [
    # the path, the archive, options, and words of the error; None if it fits
    ("s3://b/in", "s3://b/old", {}, None),
    ("s3://b/in", "s3a://b/old", {}, None),
    ("s3://b/in", "s3a://b/in/old", {}, "lies in s3://b/in"),
    ("s3a://b/in/*", "s3://b/in", {}, "lies in s3a://b/in"),
    ("s3://b/in", "S3://b//in/_old/", {}, None),
    ("s3://b/in", "s3://c/in/old", {}, "is not in s3://b, and files are moved within it"),
    ("s3://b/in", "gs://b/old", {}, "is not in s3://b"),
    ("abfss://c@acc.dfs.core.windows.net/in", "abfs://c@acc.blob.core.windows.net/in/old", {}, "lies in abfss://c@acc"),
    (
        "abfss://c@acc.dfs.core.windows.net/in",
        "az://c/in/old",
        {"storage.account_name": "acc"},
        "lies in abfss://c@acc",
    ),
    ("abfss://c@acc.dfs.core.windows.net/in", "az://c/in/old", {"storage.account_name": "other"}, "is not in abfss"),
]


@pytest.mark.parametrize(("path", "archive", "options", "words"), REMOTE)
def test_an_archive_in_an_object_store_by_any_spelling(path, archive, options, words, monkeypatch):
    """The copy into another bucket went into the bucket of the source, by the key alone."""
    monkeypatch.setattr(ObjectStorage, "status", lambda *_, **__: None)
    options = {"lateWindow": "1h", "cleanSource": "archive", "sourceArchiveDir": archive, **options}
    if words is None:
        assert mode_of(path, **options) is not None
        return
    with pytest.raises(OptionError, match=f"sourceArchiveDir {words}"):
        mode_of(path, **options)


LINKS = {
    # the source, the archive, a link, and where it leads
    "the archive is a link to the source": ("in", "old", "old", "in"),
    "the archive is a link into the source": ("in", "old", "old", "in/k=1"),
    "the archive is below a link to the source": ("in", "p/old", "p", "in"),
    "the source is a link to what holds the archive": ("p", "data/old", "p", "data"),
    "a directory above the source is a link": ("p/in", "data/in/old", "p", "data"),
    "a directory above the archive is a link": ("data/in", "p/in/old", "p", "data"),
    "the source has a link to the archive": ("in", "old", "in/l", "../old"),
    "the source has a link above the archive": ("in", "p/old", "in/l", "../p"),
    "a partition is a link to the archive": ("in", "old", "in/k=1", "../old"),
}
TIMES = ["before the query", "before its first batch", "before an archiving", "after an archiving"]


@pytest.mark.slow
@pytest.mark.one_in(6)
@pytest.mark.parametrize("recursive", [False, True], ids=["", "recursive"])
@pytest.mark.parametrize("log", [{}, {"sourceLog": "_log"}], ids=["window", "log"])
@pytest.mark.parametrize("when", TIMES)
@pytest.mark.parametrize("links", LINKS)
def test_no_row_comes_twice_and_no_file_is_archived_into_the_source(tmp_path, links, when, log, recursive):
    source, archive, link, target = LINKS[links]
    for path in (source, archive, target, "data/in", "in/k=1"):
        if path != link and not path.startswith("."):
            (tmp_path / path).mkdir(parents=True, exist_ok=True)
    read, dropped = [], 0

    def put_link():
        if (tmp_path / link).exists():
            (tmp_path / link).rename(tmp_path / f"_{len(link)}")
        (tmp_path / link).symlink_to(target)

    def archived_in_source():
        place = tmp_path / source
        return {path for path in place.rglob(f"*{tmp_path.name}/**/*.arrow") if not path.is_symlink()}

    if when == TIMES[0]:
        put_link()
    before = archived_in_source()
    options = {"cleanSource": "archive", "sourceArchiveDir": str(tmp_path / archive)}
    options |= {name: str(tmp_path / value) for name, value in log.items()}
    with suppress(OptionError, SchemaMismatchError):
        mode = mode_of(tmp_path / source, recursiveFileLookup=str(recursive).lower(), **options)
        start = mode.initial()
        for number in range(4):
            if when == TIMES[1] and number == 0:
                put_link()
            for part in ("k=1", "k=2"):
                path = tmp_path / source / part / f"{dropped}.arrow"
                path.parent.mkdir(parents=True, exist_ok=True)
                with pa.ipc.new_file(path, NUMBER) as writer:
                    writer.write_batch(pa.record_batch([pa.array([dropped])], NUMBER))
                dropped += 1
            mode._waiting.forget()
            end = mode.latest(start, ALL_AVAILABLE)
            read += [pa.ipc.open_file(file.path).read_all()["n"][0].as_py() for file in mode.batch(start, end).files]
            if when == TIMES[2] and number == 1:
                put_link()
                before = archived_in_source()
            if end != start:
                mode.committed(end)
            if when == TIMES[3] and number == 1:
                put_link()
                before = archived_in_source()
            start = end
    assert len(read) == len(set(read))
    assert before >= archived_in_source()
    kept = {pa.ipc.open_file(path).read_all()["n"][0].as_py() for path in tmp_path.rglob("*.arrow")}
    assert set(range(dropped)) == kept


@pytest.mark.parametrize("log", [{}, {"sourceLog": "log"}])
def test_a_file_in_the_archive_is_never_read_again(tmp_path, log):
    """A link in the source leads to the archive; no row may come twice."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "old").symlink_to(tmp_path / "other")
    archived = tmp_path / "other" / "in"
    archived.mkdir(parents=True)
    with pa.ipc.new_file(archived / "a.arrow", pa.schema([])) as writer:
        writer.write_batch(pa.record_batch([], []))
    options = {"cleanSource": "archive", "sourceArchiveDir": str(tmp_path / "other"), "recursiveFileLookup": "true"}
    mode = mode_of(tmp_path / "in", **options, **{name: str(tmp_path / value) for name, value in log.items()})
    with pytest.raises(OptionError, match="each file would be read again"):
        mode.latest(mode.initial(), ALL_AVAILABLE)


@pytest.mark.parametrize("path", ["lake", "lake/k=1", "lake/*.arrow"])
def test_a_dataset_of_this_package_is_not_cleaned(tmp_path, path):
    (tmp_path / "lake" / "_ipc_commits").mkdir(parents=True)
    with pytest.raises(OptionError, match="cleanSource would take files out of a dataset"):
        mode_of(tmp_path / path, cleanSource="delete")


def test_with_a_log_the_mode_is_another_and_the_log_is_not_where_the_stream_looks(tmp_path):
    mode = mode_of(tmp_path / "in", sourceLog=str(tmp_path / "log"))
    offset = mode.initial()
    assert ("log", {"v": 1, "mode": "log", "log": -1, "owner": offset["owner"]}) == (mode.name, offset)
    with pytest.raises(OptionError, match=r"sourceLog lies in .*/in, where the stream looks"):
        mode_of(tmp_path / "in", sourceLog=str(tmp_path / "in" / "log"))


PATTERNS = [
    # a pattern, a directory of the stream's own, and whether the pattern may match it, above it or below it
    ("*/in", "b/log", False),
    ("*/in", "b/in", True),
    ("*/in", "b/in/log", True),
    ("*/in", "b/in/_log", False),
    ("*/in", "b", True),
    ("*/in", "_log", False),
    ("*/in", ".", True),
    ("*/in", "../log", False),
    ("_*/in", "_b/in", True),
    ("[ab]/in/day=*", "c/in/day=1", False),
    ("[ab]/in/day=*", "a/in/day=1/x", True),
    ("[ab]/in/day=*", "a/in/log", False),
    ("[ab/in", "[ab/in/log", True),
    ("[ab]/in", "[ab]/in/log", True),
    ("{a/in,b}", "a/in/log", True),
    ("{a/in,b}", "a/log", False),
    ("{a/in,b}", "b/log", True),
    ("**/in", "a/log", True),
    ("**/in", "a/_log", False),
    ("**/_in", "a/_in/log", True),
    ("*/*.arrow", "a/log", False),
    ("link*/in", "b/in", False),
    ("../*/b/*", "linked/x", True),
]


@pytest.mark.parametrize(("pattern", "directory", "is_seen"), PATTERNS)
def test_a_pattern_keeps_a_directory_only_from_where_it_may_match(tmp_path, pattern, directory, is_seen):
    root = tmp_path / "root"
    (root / "b").mkdir(parents=True)
    (root / "linked").symlink_to(root / "b")
    if not is_seen:
        assert "log" == mode_of(root / pattern, sourceLog=str(root / directory)).name
        return
    with pytest.raises(OptionError, match=r"sourceLog lies in .*, where the stream looks"):
        mode_of(root / pattern, sourceLog=str(root / directory))


def test_a_data_set_that_keeps_its_records_is_read_by_them(tmp_path):
    (tmp_path / "lake" / "_ipc_commits" / "log").mkdir(parents=True)
    (tmp_path / "lake" / "k=1").mkdir()
    for path, name in (("lake", "table"), ("lake/k=1", "window"), ("lake*", "window"), (".", "window")):
        assert name == mode_of(tmp_path / path).name
    assert "window" == mode_of(tmp_path / "lake", lateWindow="1h").name
    assert "log" == mode_of(tmp_path / "lake", sourceLog=str(tmp_path / "log")).name
    (tmp_path / "lake" / "x.arrows").touch()
    assert "tail" == mode_of(tmp_path / "lake" / "x.arrows", tail="true").name


def test_the_number_of_a_record_is_for_tables(tmp_path):
    with pytest.raises(OptionError, match="startingFrom=3 is the number of a commit record"):
        mode_of(tmp_path, startingFrom="3")


@pytest.mark.parametrize("log", [{}, {"sourceLog": "log"}], ids=["window", "log"])
def test_a_query_of_a_directory_begins_at_a_time(tmp_path, log):
    log = {name: str(tmp_path / value) for name, value in log.items()}
    for name, seconds in (("old", 1_780_318_799), ("new", 1_780_318_800)):
        path = drop(tmp_path / "in" / f"{name}.arrow", seconds)
        os.utime(path, (seconds, seconds))
    query = Query(tmp_path / "in", startingFrom="2026-06-01T13:00:00Z", **log)
    assert [(1_780_318_800,)] == query.next()
    query.restart(startingFrom="earliest")
    assert query.next() is None


@pytest.mark.parametrize(
    ("path", "given", "seconds"),
    [
        ("/in", {}, 0.2),
        ("s3://b/in", {}, 10),
        ("s3://b/in", {"pollInterval": "3s"}, 3),
        ("/in", {"pollInterval": "0"}, 0),
    ],
)
def test_the_pause_of_a_storage(path, given, seconds):
    options = {"path": path, "storage.skip_signature": "true"} if path.startswith("s3") else {"path": path}
    assert seconds == poll_seconds(*parse_stream(options | given))
