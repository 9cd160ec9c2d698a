"""Which mode a stream has, and the options that do not fit its source."""

import os
import re

import pytest
from stream_queries import Query, drop

from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark.options.options import parse_stream
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.object_store import ObjectStorage
from spark_arrow_ipc.table.log import create_table
from spark_arrow_ipc.table.names import TableDirectory

pytest.importorskip("pyspark.sql.streaming.datasource", reason="reading a stream needs Spark 4.2 or later")
from spark_arrow_ipc.spark.read.stream_reader import poll_seconds, stream_mode


def mode_of(path, **options):
    return stream_mode(*parse_stream({"path": str(path), **options}))


def test_a_directory_is_followed_within_a_window(tmp_path):
    mode = mode_of(tmp_path)
    assert ("window", "window") == (mode.name, mode.initial()["mode"])


@pytest.mark.parametrize(
    ("log", "fits"),
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
def test_a_log_is_not_where_the_stream_looks(tmp_path, log, fits):
    options = {"sourceLog": str(tmp_path / log)}
    if fits:
        assert mode_of(tmp_path / "in", **options) is not None
        return
    with pytest.raises(OptionError, match=r"sourceLog lies in .*/in, where the stream looks"):
        mode_of(tmp_path / "in", **options)


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
    if not at_once:
        assert mode_of(tmp_path / "in", sourceLog=own) is not None
        return
    with pytest.raises(OptionError, match="where the stream looks"):
        mode_of(tmp_path / "in", sourceLog=own)


REMOTE = [
    # the path, the log, options, and words of the error; None if it fits
    ("s3://b/in", "s3://b/old", {}, None),
    ("s3://b/in", "s3a://b/old", {}, None),
    ("s3://b/in", "s3a://b/in/old", {}, "lies in s3://b/in"),
    ("s3a://b/in/*", "s3://b/in", {}, "lies in s3a://b/in"),
    ("s3://b/in", "S3://b//in/_old/", {}, None),
    ("s3://b/in", "s3://c/in/old", {}, None),
    ("abfss://c@acc.dfs.core.windows.net/in", "abfs://c@acc.blob.core.windows.net/in/old", {}, "lies in abfss://c@acc"),
    (
        "abfss://c@acc.dfs.core.windows.net/in",
        "az://c/in/old",
        {"storage.account_name": "acc"},
        "lies in abfss://c@acc",
    ),
    ("abfss://c@acc.dfs.core.windows.net/in", "az://c/in/old", {"storage.account_name": "other"}, None),
]


@pytest.mark.parametrize(("path", "log", "options", "words"), REMOTE)
def test_a_log_in_an_object_store_by_any_spelling(path, log, options, words, monkeypatch):
    monkeypatch.setattr(ObjectStorage, "status", lambda *_, **__: None)
    options = {"sourceLog": log, **options}
    if words is None:
        assert mode_of(path, **options) is not None
        return
    with pytest.raises(OptionError, match=f"sourceLog {words}"):
        mode_of(path, **options)


@pytest.fixture
def lake(tmp_path):
    """A table, with a partition and a stream of files beside it."""
    (tmp_path / "lake/k=1").mkdir(parents=True)
    (tmp_path / "log").mkdir()
    (tmp_path / "lake/x.arrows").touch()
    create_table(TableDirectory(LOCAL, str(tmp_path / "lake")))
    (tmp_path / "link").symlink_to("lake/k=1")
    return tmp_path


COMPLETE = "a stream reads a complete table by its log: give its path as the only one, and the option where"
NO_MEANING = "has no meaning here: the source is a table, which is read by its log"

# (A path, options, and the mode or the words of an error.)
OF_TABLES = {
    "a table": ("lake", {}, "table"),
    "a partition": ("lake/k=1", {}, COMPLETE),
    "a link to a partition": ("link", {}, COMPLETE),
    "files of a table": ("lake/*.arrow", {}, COMPLETE),
    "a file that grows": ("lake/x.arrows", {"tail": "true"}, "tail"),
    "cleaned": ("lake", {"cleanSource": "delete"}, f"cleanSource {NO_MEANING}"),
    "a partition that is cleaned": ("lake/k=1", {"cleanSource": "delete"}, COMPLETE),
    "files that are cleaned": ("lake/*.arrow", {"cleanSource": "delete"}, COMPLETE),
    "a late window": ("lake", {"lateWindow": "1h"}, f"lateWindow {NO_MEANING}"),
    "a log of its own": ("lake", {"sourceLog": "log"}, f"sourceLog {NO_MEANING}"),
    "the directory that holds a table": (".", {}, "window"),
}


@pytest.mark.parametrize("case", OF_TABLES)
def test_a_table_is_read_by_its_log(lake, case):
    path, options, expected = OF_TABLES[case]
    if "sourceLog" in options:
        options = {"sourceLog": str(lake / options["sourceLog"])}
    if " " not in expected:
        assert expected == mode_of(lake / path, **options).name
        return
    with pytest.raises(OptionError, match=re.escape(expected)):
        mode_of(lake / path, **options)


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


def test_the_number_of_a_log_entry_is_for_tables(tmp_path):
    with pytest.raises(OptionError, match="startingFrom=3 is the number of a log entry"):
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
