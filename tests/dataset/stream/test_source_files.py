"""A stream's look at its paths: what a batch read would list, and nothing is no error where files may still come."""

import logging

import pytest
from memory_storage import MemoryStorage

from spark_arrow_ipc.dataset.listing.data_file import FileFilter
from spark_arrow_ipc.dataset.stream.source_files import SourceFiles
from spark_arrow_ipc.errors import NoFilesError, SchemaMismatchError
from spark_arrow_ipc.storage.local import LOCAL


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
    files, roots = SourceFiles(LOCAL, tuple(str(lake / path) for path in paths), **options).look()
    assert {str(lake / path): str(lake / root) for path, root in expected.items()} == {
        file.path: roots.of(file.path) for file in files
    }


def test_a_local_path_must_exist_and_a_prefix_of_an_object_store_need_not(lake):
    with pytest.raises(NoFilesError, match="does not exist"):
        SourceFiles(LOCAL, (str(lake / "missing"),)).look()
    assert () == SourceFiles(MemoryStorage(), ("memory:/in",)).look()[0]


def test_links_that_lead_nowhere_and_conflicting_directories_are_errors(lake):
    (lake / "b" / "link").symlink_to(lake / "missing")
    with pytest.raises(NoFilesError, match="leads to nothing"):
        SourceFiles(LOCAL, (str(lake / "b"),)).look()
    with pytest.raises(SchemaMismatchError, match="conflicting"):
        SourceFiles(LOCAL, (str(lake),)).look()


def test_files_beside_partitions_are_warned_of_once(lake, caplog):
    (lake / "a" / "beside.arrow").write_bytes(b"x")
    source = SourceFiles(LOCAL, (str(lake / "a"),))
    with caplog.at_level(logging.WARNING):
        assert [2, 2] == [len(source.look()[0]) for _ in range(2)]
    assert 1 == len(caplog.records)
