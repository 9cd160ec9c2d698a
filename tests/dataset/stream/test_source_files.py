"""A stream's look at its paths: what a batch read would list, and nothing is no error where files may still come."""

import logging
import shutil

import pytest
from memory_storage import MemoryStorage
from table_commits import APPEND, save, table

from spark_arrow_ipc.dataset.listing.data_file import FileFilter
from spark_arrow_ipc.dataset.stream.source_files import SourceFiles
from spark_arrow_ipc.errors import NoFilesError, SchemaMismatchError, StreamOffsetError
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.table.repair import renew_id


@pytest.fixture
def lake(tmp_path):
    for name in ("a/k=1/x.arrow", "a/k=2/y.arrow", "b/z.arrow", "b/deep/w.arrow", "c/.hidden", "c/u.arrow._COPYING_"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    (tmp_path / "empty").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("paths", "options", "expected"),
    [
        (["a"], {}, {"a/k=1/x.arrow": "a", "a/k=2/y.arrow": "a"}),
        (["a/k=1"], {}, {"a/k=1/x.arrow": "a/k=1"}),
        (["a/k=1"], {"base_path": "a"}, {"a/k=1/x.arrow": "a"}),
        (["a/*"], {}, {"a/k=1/x.arrow": "a/k=1", "a/k=2/y.arrow": "a/k=2"}),
        (["b"], {}, {"b/z.arrow": "b"}),
        (["b"], {"recursive": True}, {"b/z.arrow": "b", "b/deep/w.arrow": "b"}),
        (["b", "b/deep", "b/z.arrow"], {}, {"b/z.arrow": "b", "b/deep/w.arrow": "b/deep"}),
        (["b"], {"file_filter": FileFilter("*.feather")}, {}),
        (["c"], {}, {}),
        (["empty"], {}, {}),
        (["none*"], {}, {}),
        (["none*", "b"], {}, {"b/z.arrow": "b"}),
    ],
)
def test_a_look_finds_what_a_read_would_list_and_where_partitions_begin(lake, paths, options, expected):
    if "base_path" in options:
        options = options | {"base_path": str(lake / options["base_path"])}
    files, roots = SourceFiles(LOCAL, tuple(str(lake / path) for path in paths), **options).list_files()
    assert {str(lake / path): str(lake / root) for path, root in expected.items()} == {
        file.path: roots.of(file.path) for file in files
    }


def test_a_local_path_must_exist_and_a_prefix_of_an_object_store_need_not(lake):
    with pytest.raises(NoFilesError, match="does not exist"):
        SourceFiles(LOCAL, (str(lake / "missing"),)).list_files()
    assert () == SourceFiles(MemoryStorage(), ("memory:/in",)).list_files()[0]


def test_links_that_lead_nowhere_and_conflicting_directories_are_errors(lake):
    (lake / "b" / "link").symlink_to(lake / "missing")
    with pytest.raises(NoFilesError, match="leads to nothing"):
        SourceFiles(LOCAL, (str(lake / "b"),)).list_files()
    with pytest.raises(SchemaMismatchError, match="conflicting"):
        SourceFiles(LOCAL, (str(lake),)).list_files()


def test_files_beside_partitions_are_warned_of_once(lake, caplog):
    (lake / "a" / "beside.arrow").write_bytes(b"x")
    source = SourceFiles(LOCAL, (str(lake / "a"),))
    with caplog.at_level(logging.WARNING):
        assert [2, 2] == [len(source.list_files()[0]) for _ in range(2)]
    assert 1 == len(caplog.records)


LISTED_TABLES = {
    "the directory": ["t"],
    "a partition": ["t/k=1"],
    "a pattern": ["*"],
    "a pattern in it": ["t/k=*"],
    "a directory that has it": ["."],
    "one of two": ["plain", "t"],
    "a link to a partition": ["link"],
}


@pytest.mark.parametrize("name", LISTED_TABLES)
def test_files_of_a_table_are_not_listed_once_a_job_has_named_one(tmp_path, name):
    (tmp_path / "plain").mkdir()
    drop(tmp_path / "plain" / "0.arrow")
    drop(tmp_path / "t" / "k=1" / "0.arrow")
    (tmp_path / "link").symlink_to(tmp_path / "t" / "k=1")
    paths = tuple(str(tmp_path / path) for path in LISTED_TABLES[name])
    source = SourceFiles(LOCAL, paths, recursive=True)
    assert source.list_files()[0]
    save(tmp_path / "t", APPEND, "k=1:a")
    for _ in range(2):
        with pytest.raises(StreamOffsetError, match=rf"{tmp_path}/t is a table .*startingFrom=latest"):
            source.list_files()


def test_copies_of_a_table_s_files_are_files_like_any_others(tmp_path):
    (tmp_path / "t").mkdir()
    (tmp_path / "other").mkdir()
    save(tmp_path / "t", APPEND, "a")
    save(tmp_path / "other", APPEND, "b")
    for target in ("plain", "other/k=1"):
        (tmp_path / target).mkdir(exist_ok=True)
        for path in (tmp_path / "t").glob("*.arrow"):
            shutil.copy(path, tmp_path / target)
    for target in ("plain", "other/k=1"):
        assert 1 == len(SourceFiles(LOCAL, (str(tmp_path / target),)).list_files()[0])


def drop(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")


@pytest.mark.parametrize("below", ["", "k=1"], ids=["the table", "a partition"])
@pytest.mark.parametrize("is_renewed", [False, True], ids=["its id", "a former id"])
def test_files_of_a_table_are_refused_by_its_id_and_by_former_ones(tmp_path, below, is_renewed):
    save(tmp_path, APPEND, "k=1:a")
    if is_renewed:
        renew_id(table(tmp_path))
    with pytest.raises(StreamOffsetError, match="is a table of this package"):
        SourceFiles(LOCAL, (str(tmp_path / below),), recursive=not below).list_files()
