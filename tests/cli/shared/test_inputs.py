"""Commands read the files that Spark's reader reads, with the columns of their paths, and stdin."""

import io
import os
import threading

import pytest

from spark_arrow_ipc.cli.shared import files
from spark_arrow_ipc.cli.shared.files import Input, each_input
from spark_arrow_ipc.cli.shared.rows import Chosen
from spark_arrow_ipc.errors import ArrowIpcError, ColumnNotFoundError, SchemaMismatchError

pa = pytest.importorskip("pyarrow")


def content(table=None, *, stream=False):
    table = pa.table({"a": [1, 2]}) if table is None else table
    sink = io.BytesIO()
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


@pytest.fixture
def tree(tmp_path):
    for name in ("b.arrow", "a.arrow", "_hidden.arrow", "below/c.arrow", "lake/k=1/x", "lake/k=2/y", "lake/z"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content())
    return tmp_path


PATHS = {
    "a file": (["b.arrow"], False, [("b.arrow", None)]),
    "a directory": (["below"], False, [("below/c.arrow", "c.arrow")]),
    "files in the order of the arguments": (["b.arrow", "a.arrow"], False, [("b.arrow", None), ("a.arrow", None)]),
    "a pattern": (["b*.arrow"], False, [("b.arrow", "b.arrow")]),
    "a pattern of directories": (["b*/*"], False, [("below/c.arrow", "below/c.arrow")]),
    "a partitioned directory": (["lake"], False, [("lake/k=1/x", "k=1/x"), ("lake/k=2/y", "k=2/y")]),
    "all files of it": (["lake"], True, [("lake/z", "z"), ("lake/k=1/x", "k=1/x"), ("lake/k=2/y", "k=2/y")]),
    "all files of a directory": (["below/.."], True, None),
}


@pytest.mark.parametrize("case", PATHS)
def test_paths_stand_for_files(case, tree):
    paths, recursive, expected = PATHS[case]
    found = list(each_input([str(tree / path) for path in paths], recursive=recursive))
    shown = [(os.path.relpath(one.path, tree), one.below) for one in found]
    if expected is None:
        expected = sorted(
            (name, name) for name in ("a.arrow", "b.arrow", "below/c.arrow", "lake/k=1/x", "lake/k=2/y", "lake/z")
        )
        shown.sort()
    assert expected == shown


def test_a_file_is_shown_as_it_was_given(tree, monkeypatch):
    monkeypatch.chdir(tree)
    (one,) = each_input(["below/../a.arrow"], recursive=False)
    assert "below/../a.arrow" == one.path
    (one,) = each_input([f"file://{tree}/a.arrow"], recursive=False)
    assert f"{tree}/a.arrow" == one.path


def test_partition_columns_come_from_paths(tree, capsys):
    found = list(each_input([str(tree / "lake")], recursive=False))
    assert [("k",)] * 2 == [tuple(field.name for field in one.fields) for one in found]
    assert [(1,), (2,)] == [one.values for one in found]
    assert f"1 file such as {tree}/lake/z is not read" in capsys.readouterr().err
    assert [(None,), (1,), (2,)] == [one.values for one in each_input([str(tree / "lake")], recursive=True)]
    assert "" == capsys.readouterr().err


def test_directories_that_do_not_agree_on_columns(tmp_path):
    """What shows columns cannot; what counts or checks files can."""
    for name in ("k=1/x", "j=1/x"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(content())
    assert 2 == len(list(each_input([str(tmp_path)], recursive=False)))
    with pytest.raises(SchemaMismatchError, match="conflicting names of partition columns"):
        list(each_input([str(tmp_path)], recursive=False, columns=True))


@pytest.mark.parametrize("name", ["missing.arrow", "x*.arrow"])
def test_a_path_that_stands_for_nothing_is_an_error(tree, name):
    with pytest.raises(ArrowIpcError, match=name.replace("*", r"\*")):
        list(each_input([str(tree / name)], recursive=False))
    refused = []
    path = str(tree / name)
    found = each_input([path, str(tree / "a.arrow")], recursive=False, refused=lambda *given: refused.append(given))
    assert [str(tree / "a.arrow")] == [one.path for one in found]
    assert [path] == [given for given, _ in refused]


def rows(one, columns=None):
    with Chosen(columns).open_rows(one) as opened:
        batches = list(opened.batches)
        assert all(batch.schema == opened.schema for batch in batches)
        return list(opened.schema.names), [row for batch in batches for row in batch.to_pylist()]


def test_the_columns_of_a_path_follow_those_of_the_file(tree):
    first, _ = each_input([str(tree / "lake")], recursive=False, columns=True)
    assert (["a", "k"], [{"a": 1, "k": 1}, {"a": 2, "k": 1}]) == rows(first)


CHOSEN = [
    (["k", "a"], ["k", "a"]), (["k"], ["k"]), ([1, 0], ["k", "a"]), (["a"], ["a"]), ([], []), (["a", "k", "a"], ["a", "k", "a"]),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "names"), CHOSEN, ids=[str(c[0]) for c in CHOSEN])
def test_columns_of_files_and_paths_are_chosen_alike(tree, columns, names):
    first, _ = each_input([str(tree / "lake")], recursive=False, columns=True)
    found, values = rows(first, columns)
    assert names == found
    assert [{name: {"a": i, "k": 1}[name] for name in names} for i in (1, 2)] == values


def test_a_column_of_the_path_replaces_that_of_the_file(tmp_path):
    (tmp_path / "a=7").mkdir()
    (tmp_path / "a=7" / "x").write_bytes(content(pa.table({"a": [1], "b": ["x"]})))
    (one,) = each_input([str(tmp_path)], recursive=False, columns=True)
    assert (["a", "b"], [{"a": 7, "b": "x"}]) == rows(one)
    assert (["b", "a"], [{"b": "x", "a": 7}]) == rows(one, ["b", "a"])


def test_a_column_that_is_not_there_names_the_file(tree):
    first, _ = each_input([str(tree / "lake")], recursive=False, columns=True)
    with pytest.raises(ColumnNotFoundError, match=r"k=1/x.*there is no column|no column.*"):
        rows(first, ["other"])


class Pipe(io.RawIOBase):
    """What can only be read forward."""

    def __init__(self, data):
        super().__init__()
        self._data = io.BytesIO(data)

    def readable(self):
        return True

    def readinto(self, buffer):
        return self._data.readinto(buffer)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("make", [io.BytesIO, Pipe])
def test_stdin_is_a_file_or_a_stream(monkeypatch, make, stream):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(make(content(stream=stream)))))
    (one,) = each_input(["-"], recursive=False)
    (again,) = each_input(["-"], recursive=False)
    assert ("-", None) == (one.path, one.below)
    for _ in range(2):
        assert (["a"], [{"a": 1}, {"a": 2}]) == rows(one)
    assert rows(one) == rows(again)


@pytest.mark.slow
def test_stdin_may_be_a_pipe_of_a_process(monkeypatch):
    ends = os.pipe()
    data = content(pa.table({"a": range(100_000)}))

    def send():
        with os.fdopen(ends[1], "wb") as pipe:
            pipe.write(data)

    thread = threading.Thread(target=send)
    thread.start()
    with os.fdopen(ends[0]) as pipe:
        monkeypatch.setattr("sys.stdin", pipe)
        (one,) = each_input(["-"], recursive=False)
        thread.join()
    assert 100_000 == len(rows(one)[1])


def test_an_error_of_stdin_says_so(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"no Arrow at all")))
    (one,) = each_input(["-"], recursive=False)
    with pytest.raises(ArrowIpcError, match=r"^-: "):
        rows(one)


def test_what_is_opened_begins_at_the_first_byte():
    file = io.BytesIO(content())
    file.seek(9)
    assert bytes(Input("-", content=file).openable().read_up_to(0, 6)) == b"ARROW1"


def test_an_error_is_one_line(capsys):
    files.complain(OSError("two\nlines"))
    assert "arrowipc: two\\nlines\n" == capsys.readouterr().err
