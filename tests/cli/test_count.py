"""``arrowipc count`` tells the rows without a body."""

import json
from pathlib import Path

import pytest

from spark_arrow_ipc.cli import cat
from spark_arrow_ipc.cli.main import main
from spark_arrow_ipc.dataset.listing.data_file import DataFile

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


def replacing(directory, times):
    """Return a stand-in for the count of one file, which a writer overtakes: it replaces all files."""
    left, real = iter(range(times)), cat.count

    def count(given):
        if (number := next(left, None)) is not None:
            old = sorted(directory.iterdir())
            for i in range(len(old)):
                write(directory / f"new-{number}-{i}", 100)
            for path in old:
                path.unlink()
        return real(given)

    return count


def test_a_directory_whose_files_are_replaced_meanwhile_is_listed_again(capsys, tmp_path, monkeypatch):
    for name in "ab":
        write(tmp_path / name, 10)
    monkeypatch.setattr(cat, "count", replacing(tmp_path, 2))
    rows = "".join(f"100\t{tmp_path}/new-1-{i}\n" for i in range(2))
    assert (0, f"{rows}200\ttotal\n", "") == counted(capsys, str(tmp_path))


@pytest.mark.parametrize("json", [[], ["--json"]], ids=["", "json"])
def test_a_directory_that_never_rests_gives_no_partial_total(capsys, tmp_path, monkeypatch, json):
    for name in "ab":
        write(tmp_path / name, 10)
    monkeypatch.setattr(cat, "count", replacing(tmp_path, 99))
    status, out, err = counted(capsys, *json, str(tmp_path))
    assert (1, "") == (status, out)
    assert "the directory changed while it was read" in err
    assert err.endswith("run the command again\n")


@pytest.mark.parametrize("command", ["cat", "inspect", "validate", "concat", "repair"])
def test_every_command_says_that_the_directory_changed(capsys, tmp_path, monkeypatch, command):
    (tmp_path / "d").mkdir()
    for name in "ab":
        write(tmp_path / "d" / name, 10)
    real = DataFile.open
    monkeypatch.setattr(DataFile, "open", lambda file, _: (Path(file.path).unlink(missing_ok=True), real(file))[1])
    target = [str(tmp_path / "target")] if command in ("concat", "repair") else []
    assert 1 == main([command, str(tmp_path / "d"), *target])
    out, err = capsys.readouterr()
    assert "the directory changed while it was read: this file was listed a moment ago" in out + err
    assert "No such file" not in out + err


def test_another_stream_after_the_first_is_told(capsys, tmp_path):
    first, second = (Path(write(tmp_path / name, 20, "stream")) for name in "ab")
    both = tmp_path / "both.arrows"
    both.write_bytes(first.read_bytes() + second.read_bytes())
    status, out, err = counted(capsys, str(both))
    assert (0, f"20\t{both}\n") == (status, out)
    start = len(first.read_bytes())
    assert err.startswith(
        f"arrowipc: warning: {both}: another stream begins at byte {start:,}, after the end of this one"
    )
    assert 1 == len(err.splitlines())
