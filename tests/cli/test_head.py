"""``arrowipc head``, ``tail``, ``sample`` and ``cat``, with ``--columns`` and ``--where``."""

import sys

import pytest
from cli_lake import rows, write_lake

from spark_arrow_ipc.cli.main import main

pa = pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    return write_lake(tmp_path_factory.mktemp("lake"))


def numbers(capsys, *arguments):
    return [row["a"] for row in rows(capsys, *arguments, "--columns", "a")]


EVERY = [*range(1000, 1100), *range(2000, 2100)]
ENDS = [
    ("head", [], EVERY[:10]),
    ("head", ["-n", "0"], []),
    ("head", ["-n", "31"], EVERY[:31]),
    ("head", ["-n", "999"], EVERY),
    ("head", ["-n", "3", "--where", "a > 1050"], [1051, 1052, 1053]),
    ("tail", [], EVERY[-10:]),
    ("tail", ["-n", "0"], []),
    ("tail", ["-n", "95"], EVERY[-95:]),
    ("tail", ["-n", "131"], EVERY[-131:]),
    ("tail", ["-n", "999"], EVERY),
    ("tail", ["-n", "3", "--where", "k = 1 AND a < 1050"], [1047, 1048, 1049]),
    ("cat", ["--where", "a IN (1001, 2002) OR name IS NULL AND a < 1015"], [1001, 1003, 1013, 2002]),
    ("cat", ["--where", "nested.x >= 2098.0"], [2098, 2099]),
    ("sample", ["-n", "999"], EVERY),
]


@pytest.mark.parametrize(("command", "options", "expected"), ENDS, ids=[f"{c[0]} {' '.join(c[1])}" for c in ENDS])
def test_rows_in_their_order(capsys, lake, command, options, expected):
    assert expected == numbers(capsys, command, *options, lake)


def test_columns_of_the_predicate_need_not_be_printed(capsys, lake):
    expected = [{"name": None, "k": 1}]
    assert expected == rows(capsys, "cat", "--columns", "name,k", "--where", "A = 1003", lake)


def test_a_sample_is_the_same_for_a_seed(capsys, lake):
    first = numbers(capsys, "sample", "-n", "20", "--seed", "4", lake)
    assert first == sorted(first)
    assert 20 == len(set(first) & set(EVERY))
    assert first == numbers(capsys, "sample", "-n", "20", "--seed", "4", lake)
    assert first != numbers(capsys, "sample", "-n", "20", "--seed", "5", lake)
    some = numbers(capsys, "sample", "-n", "20", "--seed", "4", "--where", "a < 1030", lake)
    assert 20 == len(set(some))
    assert max(some) < 1030


def test_without_pyspark_where_is_one_sentence(capsys, lake, monkeypatch):
    for name in [*(n for n in sys.modules if n.startswith("spark_arrow_ipc.spark.")), "pyspark", "pyarrow"]:
        monkeypatch.setitem(sys.modules, name, None)
    assert 1 == main(["head", "--where", "a = 1", lake])
    err = capsys.readouterr().err
    assert "--where needs PySpark" in err
    assert 1 == len(err.splitlines())
    assert 0 == main(["head", lake])


def test_a_predicate_that_is_none_is_one_sentence(capsys, lake):
    assert 1 == main(["cat", "--where", "a ==== 1", lake])
    assert 1 == len(capsys.readouterr().err.splitlines())


@pytest.mark.parametrize(("predicate", "expected"), [("a = 2005", 2), ("a = 7", 1)], ids=["one row", "none"])
def test_files_without_a_match_print_no_names(capsys, lake, predicate, expected):
    assert 0 == main(["cat", "--columns", "a", "--where", predicate, lake])
    lines = capsys.readouterr().out.splitlines()
    assert (expected, "a") == (len(lines), lines[0].strip())
