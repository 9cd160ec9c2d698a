"""``arrowipc count`` tells the rows without a body."""

import json
from pathlib import Path

import pytest

from spark_arrow_ipc.cli.main import main

pa = pytest.importorskip("pyarrow")


def write(path, rows, kind="file"):
    make = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
    table = pa.table({"a": range(rows), "s": ["text"] * rows})
    with make(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=7)
    return str(path)


def counted(capsys, *arguments):
    status = main(["count", *arguments])
    out, err = capsys.readouterr()
    return status, out, err


@pytest.mark.parametrize("kind", ["file", "stream"])
@pytest.mark.parametrize("rows", [0, 7, 100])
def test_rows_of_one_file(capsys, tmp_path, kind, rows):
    path = write(tmp_path / "x", rows, kind)
    assert (0, f"{rows}\t{path}\n", "") == counted(capsys, path)


def test_rows_of_several_files_and_directories(capsys, tmp_path):
    (tmp_path / "d" / "deep").mkdir(parents=True)
    paths = [
        write(tmp_path / "x", 10),
        write(tmp_path / "d" / "1", 20),
        write(tmp_path / "d" / "deep" / "2", 5, "stream"),
    ]
    status, out, _ = counted(capsys, paths[0], str(tmp_path / "d"))
    assert (0, f"10\t{paths[0]}\n20\t{paths[1]}\n30\ttotal\n") == (status, out)
    assert counted(capsys, "-r", str(tmp_path / "d"))[1].endswith("25\ttotal\n")
    _, out, _ = counted(capsys, "--json", *paths)
    found = [json.loads(line) for line in out.splitlines()]
    assert [(10, 2), (20, 3), (5, 1)] == [(one["rows"], one["record_batches"]) for one in found]


def test_a_broken_file_does_not_hide_the_others(capsys, tmp_path):
    good, cut = write(tmp_path / "1", 10), Path(write(tmp_path / "2", 100, "stream"))
    cut.write_bytes(cut.read_bytes()[:-100])
    status, out, err = counted(capsys, str(cut), good)
    assert (1, f"10\t{good}\n") == (status, out)
    assert f"{cut}: expected" in err
    status, _, err = counted(capsys, str(tmp_path / "none"))
    assert 1 == status
    assert "does not exist" in err


def test_bodies_are_not_read(capsys, tmp_path):
    path = Path(write(tmp_path / "x", 1000))
    data = path.read_bytes()
    path.write_bytes(data.replace(b"text" * 7, b"\xff" * 28))
    assert (0, f"1000\t{path}\n", "") == counted(capsys, str(path))
