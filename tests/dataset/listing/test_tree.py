"""The files that paths and patterns name, and the errors if there are none."""

import itertools
import os
import pickle
from pathlib import Path

import cpu_time
import pytest
from listed_files import list_files

from spark_arrow_ipc.dataset.listing.data_file import DataFile, FileFilter
from spark_arrow_ipc.dataset.listing.directory import list_directory
from spark_arrow_ipc.dataset.listing.hive import discover
from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.errors import NoFilesError, OptionError
from spark_arrow_ipc.storage.local import LOCAL


def fill(root, *names):
    for name in names:
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(name.encode())


def listed(root, *paths, **options):
    return [os.path.relpath(file.path, root) for file in list_files([str(root / path) for path in paths], **options)]


TREE = (
    "b.arrow",
    "a.feather",
    "zero bytes",
    "part-1.arrow",
    "part-10.arrow",
    "_SUCCESS",
    "_ipc_stage/job/x.staged",
    "_hidden.arrow",
    ".b.arrow.crc",
    "left.staged",
    "copying.arrow._COPYING_",
    "_strange=name.arrow",
    "sub/c.arrow",
    "sub/_d.arrow",
    "sub/deep/e.arrow",
    "other/f.arrow",
    "two words/g.arrow",
    "a[1].arrow",
)

ANSWERS = [
    ("file", ["b.arrow"], ["b.arrow"]),
    ("files keep their order", ["b.arrow", "a.feather"], ["b.arrow", "a.feather"]),
    ("a path given twice is read twice", ["b.arrow", "b.arrow"], ["b.arrow", "b.arrow"]),
    ("hidden file named outright", ["_hidden.arrow"], ["_hidden.arrow"]),
    ("brackets that match nothing are a name", ["a[1].arrow"], ["a[1].arrow"]),
    ("escaped brackets are a name", [r"a\[1\].arrow"], ["a[1].arrow"]),
    ("brackets that match are a pattern", ["[ab].[af]*"], ["a.feather", "b.arrow"]),
    ("braces", ["{b,part-1?}.arrow"], ["b.arrow", "part-10.arrow"]),
    ("braces across directories", ["{sub/c,b,other/*}.arrow"], ["sub/c.arrow", "b.arrow", "other/f.arrow"]),
    ("any directories", ["**/[ce].arrow"], ["sub/c.arrow", "sub/deep/e.arrow"]),
    ("any directories, none included", ["**/b.arrow"], ["b.arrow"]),
    ("any directories last", ["sub/**"], ["sub/c.arrow", "sub/deep/e.arrow"]),
    ("any directories twice is once", ["**/**/e.arrow"], ["sub/deep/e.arrow"]),
    ("any directories thousands of times is once", ["**/" * 5_000 + "e.arrow"], ["sub/deep/e.arrow"]),
    ("any directories before a name", ["**/deep"], ["sub/deep/e.arrow"]),
    (
        "directory: its own files by name, of any extension",
        [""],
        ["_strange=name.arrow", "a.feather", "a[1].arrow", "b.arrow", "part-1.arrow", "part-10.arrow", "zero bytes"],
    ),
    ("subdirectory", ["sub"], ["sub/c.arrow"]),
    ("directory and one of its files", ["sub", "sub/c.arrow"], ["sub/c.arrow", "sub/c.arrow"]),
    ("star", ["part-*"], ["part-1.arrow", "part-10.arrow"]),
    ("question mark is one letter", ["part-?.arrow"], ["part-1.arrow"]),
    ("a dot is a dot", ["part-1?arrow"], ["part-1.arrow"]),
    (
        "star does not match hidden names",
        ["*.arrow"],
        ["a[1].arrow", "b.arrow", "part-1.arrow", "part-10.arrow", "_strange=name.arrow"],
    ),
    ("star that asks for hidden names", ["_h*"], ["_hidden.arrow"]),
    ("star does not cross directories", ["*/*.arrow"], ["other/f.arrow", "sub/c.arrow", "two words/g.arrow"]),
    ("star of directories lists each", ["s*"], ["sub/c.arrow"]),
    ("star in the middle", ["*/c.arrow"], ["sub/c.arrow"]),
    ("blank in a path", ["two words/*"], ["two words/g.arrow"]),
]


@pytest.mark.parametrize(("paths", "expected"), [case[1:] for case in ANSWERS], ids=[case[0] for case in ANSWERS])
def test_files_that_paths_name(tmp_path, paths, expected):
    fill(tmp_path, *TREE)
    found = listed(tmp_path, *paths)
    assert (sorted(expected) if "*.arrow" in paths else expected) == found


def test_staged_files_of_an_unfinished_write_are_in_no_answer(tmp_path):
    fill(tmp_path, *TREE)
    everything = listed(tmp_path, "", "*", "*/*", "*/*/*", "_*", ".*")
    assert not [name for name in everything if name.endswith(".staged") or "_ipc_stage" in name]
    for pattern in ("left*", "_ipc_stage/*", "_ipc_stage/*/*"):
        with pytest.raises(NoFilesError):
            listed(tmp_path, pattern)


def test_listing_carries_size_and_time_of_modification(tmp_path):
    fill(tmp_path, "a.arrow")
    found = (tmp_path / "a.arrow").stat()
    assert (DataFile(str(tmp_path / "a.arrow"), 7, found.st_mtime_ns),) == list_files([str(tmp_path)])


def test_file_uri_and_relative_path_name_the_same(tmp_path, monkeypatch):
    fill(tmp_path, "with blank.arrow")
    monkeypatch.chdir(tmp_path)
    assert list_files(["with blank.arrow"]) == list_files([f"file://{tmp_path}/with%20blank.arrow"])


def test_link_to_a_file_is_read_and_link_to_a_directory_is_a_subdirectory(tmp_path):
    fill(tmp_path, "elsewhere/x.arrow", "data/y.arrow")
    (tmp_path / "data/link.arrow").symlink_to(tmp_path / "elsewhere/x.arrow")
    (tmp_path / "data/directory").symlink_to(tmp_path / "elsewhere")
    assert ["data/link.arrow", "data/y.arrow"] == listed(tmp_path, "data")


def test_file_that_vanishes_while_listed_is_left_out(tmp_path, monkeypatch):
    fill(tmp_path, "a.arrow", "gone.arrow")
    real = os.scandir

    class Entries:
        def __init__(self, path):
            self.entries = real(path)

        def __enter__(self):
            found = sorted(self.entries, key=lambda entry: entry.name)
            (tmp_path / "gone.arrow").unlink(missing_ok=True)
            return found

        def __exit__(self, *_):
            self.entries.close()

    monkeypatch.setattr(os, "scandir", Entries)
    assert ["a.arrow"] == listed(tmp_path, "")


NOTHING = [
    ("missing file", (), "absent/x.arrow", ["does not exist", "nearest directory that does is"]),
    ("missing with brackets", (), "x[12].arrow", ["matches the pattern"]),
    ("a pattern that is longer than a name", (), f"{{{'x,' * 300}y}}", ["matches the pattern"]),
    ("pattern without match", ("a.arrow",), "*.feather", ["matches the pattern", "feather"]),
    ("empty directory", ("d/",), "d", ["directory is empty"]),
    ("all hidden", ("d/_a", "d/.b", "d/c.staged"), "d", ["found none", "skipped 3 names", r"_ or \."]),
    ("unfinished write", ("d/_ipc_stage/j/x.staged",), "d", ["skipped 1 name ", "a write that has not committed"]),
    (
        "nested",
        ("d/x/a.arrow", "d/y/b.arrow"),
        "d",
        ["2 subdirectories", "not read", r"x, y", "recursiveFileLookup=true", r"pattern .*/d/\*$"],
    ),
    ("nested deeper", ("d/x/y/a.arrow",), "d", ["1 subdirectory", r"pattern .*/d/\*/\*$"]),
    ("staged file named outright", ("d/x.staged",), "d/x.staged", ["has not committed", "never read"]),
    ("inside the staging", ("d/_ipc_stage/j/x",), "d/_ipc_stage/j/x", ["has not committed"]),
]


@pytest.mark.parametrize(("tree", "path", "texts"), [case[1:] for case in NOTHING], ids=[case[0] for case in NOTHING])
def test_nothing_to_read_says_why(tmp_path, tree, path, texts):
    fill(tmp_path, *tree)
    for text in texts:
        with pytest.raises(NoFilesError, match=text) as caught:
            list_files([str(tmp_path / path)])
        assert caught.value.path.startswith(str(tmp_path))


def test_pattern_that_an_error_shows_works(tmp_path):
    fill(tmp_path, "d/x/y/a.arrow", "d/x/z/b.arrow")
    with pytest.raises(NoFilesError) as caught:
        list_files([str(tmp_path / "d")])
    pattern = str(caught.value).rsplit("pattern ", 1)[1]
    assert ["a.arrow", "b.arrow"] == [Path(file.path).name for file in list_files([pattern])]


def test_no_path_link_to_nothing_and_pipe_are_named(tmp_path):
    with pytest.raises(NoFilesError, match="no path was given"):
        list_files([])
    (tmp_path / "d").mkdir()
    os.mkfifo(tmp_path / "d" / "pipe")
    with pytest.raises(NoFilesError, match=r"1 name \(no regular files\)"):
        list_files([str(tmp_path / "d")])
    with pytest.raises(NoFilesError, match="pipe, socket or device"):
        list_files([str(tmp_path / "d" / "pipe")])
    (tmp_path / "d" / "link").symlink_to(tmp_path / "absent")
    with pytest.raises(NoFilesError, match="leads to nothing"):
        list_files([str(tmp_path / "d")])


def test_empty_directory_beside_a_full_one_is_no_error(tmp_path):
    fill(tmp_path, "d/a.arrow", "e/")
    assert ["d/a.arrow"] == listed(tmp_path, "e", "d")


def test_listing_counts_what_it_skips(tmp_path):
    fill(tmp_path, *TREE)
    listing = list_directory(LOCAL, str(tmp_path))
    assert (("other", "sub", "two words"), 6, 0, True) == (
        listing.directories,
        listing.hidden,
        listing.special,
        listing.staging,
    )


@pytest.mark.slow
def test_many_files_are_listed_in_seconds(tmp_path):
    for i in range(10_000):
        os.close(os.open(tmp_path / f"part-{i:05d}.arrow", os.O_CREAT | os.O_WRONLY))
    files = cpu_time.at_most(2, list_files, [str(tmp_path)])
    assert 10_000 == len(files)
    assert files == pickle.loads(pickle.dumps(files))


def test_pattern_that_is_not_closed_is_named_where_no_file_is_called_so(tmp_path):
    with pytest.raises(OptionError, match=r"a \] for each \["):
        list_files([str(tmp_path / "a[1.arrow")])
    fill(tmp_path, "a[1.arrow")
    assert ["a[1.arrow"] == listed(tmp_path, "a[1.arrow")


RECURSIVE = [
    ("all files, none hidden", [""], {}),
    ("each once", ["", "sub", "b.arrow"], {}),
    ("filtered by name, not by path", [""], {"path_glob_filter": "[c-f]*"}),
]


@pytest.mark.parametrize(("paths", "filters"), [case[1:] for case in RECURSIVE], ids=[case[0] for case in RECURSIVE])
def test_recursive_lookup(tmp_path, paths, filters):
    fill(tmp_path, *TREE, "k=1/x.arrow")
    visible = [
        name for name in [*TREE, "k=1/x.arrow"] if "/_" not in name and not name.startswith((".", "_i", "_S", "_h"))
    ]
    expected = {name for name in visible if not name.endswith((".staged", "._COPYING_"))}
    if filters:
        expected = {name for name in expected if name.rpartition("/")[2][0] in "cdef"}
    found = listed(tmp_path, *paths, recursive=True, file_filter=FileFilter(**filters))
    assert (expected, len(expected)) == (set(found), len(found))


def test_filter_that_leaves_nothing_says_so(tmp_path):
    fill(tmp_path, *TREE)
    with pytest.raises(NoFilesError, match=r"pathGlobFilter, .* leave out 7 files such as .*_strange=name"):
        list_files([str(tmp_path)], file_filter=FileFilter("*.parquet"))


def test_loops_of_links_end(tmp_path):
    fill(tmp_path, "d/a/x.arrow", "d/b/y.arrow")
    (tmp_path / "d/a/up").symlink_to(tmp_path / "d")
    (tmp_path / "d/a/self").symlink_to(tmp_path / "d/a")
    (tmp_path / "d/a/across").symlink_to(tmp_path / "d/b")
    (tmp_path / "d/b/across").symlink_to(tmp_path / "d/a")
    found = [os.path.relpath(path, tmp_path) for path in list_tree([str(tmp_path / "d")]).leaves]
    assert ["d/a", "d/a/across", "d/b", "d/b/across"] == found
    assert len(list_files([str(tmp_path / "d/**/*.arrow")])) == 4


def test_link_to_nothing_is_named_only_where_it_would_be_read(tmp_path):
    fill(tmp_path, "d/a.arrow", "d/nested/")
    (tmp_path / "d/nested/link").symlink_to(tmp_path / "absent")
    assert ["d/a.arrow"] == listed(tmp_path, "d")
    for paths, options in (("d", {"recursive": True}), ("d/nested", {}), ("d/nested/*", {})):
        with pytest.raises(NoFilesError, match="leads to nothing") as caught:
            listed(tmp_path, paths, **options)
        assert caught.value.path.endswith("nested/link")


@pytest.mark.slow
@pytest.mark.parametrize("levels", [(10, 10, 10)])
def test_many_partitions_are_listed_and_discovered_in_seconds(tmp_path, levels):
    for values in itertools.product(*map(range, levels)):
        directory = tmp_path.joinpath(*(f"{name}={value}" for name, value in zip("abc", values, strict=True)))
        directory.mkdir(parents=True)
        os.close(os.open(directory / "part.arrow", os.O_CREAT | os.O_WRONLY))
    found = cpu_time.at_most(2, lambda: discover(list_tree([str(tmp_path)])))
    assert (1_000, ["a", "b", "c"]) == (len(found.files), [field.name for field in found.fields])
    assert (9, 9, 9) == found.files[-1].partition
