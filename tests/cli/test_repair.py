"""``arrowipc repair`` saves what is whole, and says what is not."""

from pathlib import Path

import pytest

from spark_arrow_ipc.cli.main import main

pa = pytest.importorskip("pyarrow")


def write(path, kind="file", words=("red", "green")):
    table = pa.table(
        {"a": range(100), "s": [f"text {i}" for i in range(100)], "d": pa.array([*words] * 50).dictionary_encode()}
    )
    make = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
    with make(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=10)
    return Path(path)


def repaired(capsys, source, target):
    status = main(["repair", str(source), str(target)])
    out, err = capsys.readouterr()
    return status, out, err


def rows(path):
    return pa.ipc.open_file(str(path)).read_all().to_pydict()["a"]


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_a_truncated_file_gets_a_footer(capsys, tmp_path, kind):
    source, target = write(tmp_path / "x", kind), tmp_path / "y.arrow"
    source.write_bytes(source.read_bytes()[:-400])
    broken = source.read_bytes()
    status, out, err = repaired(capsys, source, target)
    found = rows(target)
    assert (0, "") == (status, err)
    assert [*range(len(found))] == found
    first, second = out.splitlines()
    assert f"{target}: kept {len(found) // 10} record batches, {len(found)} rows" == first
    assert second.startswith({"file": "  the footer was damaged", "stream": "  lost: "}[kind])
    assert broken == source.read_bytes()


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_broken_batches_in_the_middle_are_left_out(capsys, tmp_path, kind):
    source, target = write(tmp_path / "x", kind), tmp_path / "y.arrow"
    data = bytearray(source.read_bytes())
    for number in (3, 4, 9):
        data[data.rindex(f"text {number * 10}".encode())] = 0xFF
    source.write_bytes(data)
    status, out, _ = repaired(capsys, source, target)
    lines = out.splitlines()
    assert (0, f"{target}: kept 7 record batches, 70 rows") == (status, lines[0])
    assert [3, 4, 9] == [int(line.split()[3].rstrip(",")) for line in lines[1:]]
    assert all("10 rows: " in line and "expected UTF-8" in line for line in lines[1:])
    assert [i for i in range(100) if i // 10 not in {3, 4, 9}] == rows(target)


def test_a_sound_file_is_copied(capsys, tmp_path):
    source, target = write(tmp_path / "x"), tmp_path / "y.arrow"
    status, out, _ = repaired(capsys, source, target)
    assert (0, "  nothing was lost: the file was sound") == (status, out.splitlines()[1])
    assert [*range(100)] == rows(target)


def test_a_stream_stays_one_where_its_name_says_so(capsys, tmp_path):
    source, target = write(tmp_path / "x", "stream"), tmp_path / "y.arrows"
    source.write_bytes(source.read_bytes()[:-9])
    assert 0 == repaired(capsys, source, target)[0]
    assert 90 <= len(pa.ipc.open_stream(str(target)).read_all())


def test_dictionaries_are_saved_with_their_batches(capsys, tmp_path):
    source, target = write(tmp_path / "x"), tmp_path / "y.arrow"
    source.write_bytes(source.read_bytes()[:-50])
    repaired(capsys, source, target)
    assert ["red", "green"] * 50 == pa.ipc.open_file(str(target)).read_all()["d"].to_pylist()


def test_batches_without_their_dictionary_are_lost(capsys, tmp_path):
    """The dictionary of a stream is broken: what it stands for cannot be known."""
    source, target = write(tmp_path / "x", "stream", ("rotrotrot", "blaublau")), tmp_path / "y.arrow"
    data = bytearray(source.read_bytes())
    data[data.index(b"rotrotrot")] = 0xFF
    source.write_bytes(data)
    status, out, _ = repaired(capsys, source, target)
    assert (1, 11) == (status, len(out.splitlines()))
    assert f"{target}: not written, because nothing of {source} is left" == out.splitlines()[0]
    assert not target.exists()


def test_a_file_cut_off_within_its_first_batch_leaves_nothing(capsys, tmp_path):
    """Status 0 and a file without rows looked like a success."""
    source, target = write(tmp_path / "x"), tmp_path / "y.arrow"
    with pa.ipc.open_file(str(source)) as reader:
        (tmp_path / "schema").write_bytes(reader.schema.serialize())
    source.write_bytes(source.read_bytes()[: (tmp_path / "schema").stat().st_size + 300])
    status, out, _ = repaired(capsys, source, target)
    assert 1 == status
    assert "not written" in out
    assert not target.exists()


def test_a_sound_file_without_rows_is_copied(capsys, tmp_path):
    source, target = tmp_path / "x", tmp_path / "y.arrow"
    with pa.ipc.new_file(str(source), pa.schema({"a": pa.int64()})):
        pass
    assert 0 == repaired(capsys, source, target)[0]
    assert [] == rows(target)


def test_each_file_of_a_directory_is_repaired_under_its_own_path(capsys, tmp_path):
    for name in ("k=1/cut", "k=1/sound", "k=2/lost"):
        (tmp_path / "lake" / name).parent.mkdir(parents=True, exist_ok=True)
        write(tmp_path / "lake" / name)
    cut, lost = tmp_path / "lake" / "k=1" / "cut", tmp_path / "lake" / "k=2" / "lost"
    cut.write_bytes(cut.read_bytes()[:-400])
    lost.write_bytes(b"no Arrow")
    status, out, err = repaired(capsys, tmp_path / "lake", tmp_path / "new")
    assert (1, 2, 1) == (status, out.count(": kept "), len(err.splitlines()))
    assert str(lost) in err
    assert ["k=1/cut", "k=1/sound"] == sorted(
        str(path.relative_to(tmp_path / "new")) for path in (tmp_path / "new").rglob("*") if path.is_file()
    )
    assert [*range(100)] == rows(tmp_path / "new" / "k=1" / "sound")
    status, _, err = repaired(capsys, tmp_path / "lake", tmp_path / "new")
    assert 1 == status
    assert "not overwritten" in err


NOTHING = [("empty", b""), ("text", b"a,b\n1,2\n" * 4), ("only the magic", b"ARROW1\0\0")]


@pytest.mark.parametrize("data", [case[1] for case in NOTHING], ids=[case[0] for case in NOTHING])
def test_what_has_no_schema_is_an_error(capsys, tmp_path, data):
    source, target = tmp_path / "x", tmp_path / "y.arrow"
    source.write_bytes(data)
    status, out, err = repaired(capsys, source, target)
    assert (1, "", 1) == (status, out, len(err.splitlines()))
    assert str(source) in err
    assert not target.exists()


def test_nothing_is_overwritten(capsys, tmp_path):
    source, target = write(tmp_path / "x"), tmp_path / "y.arrow"
    target.write_text("mine")
    status, _, err = repaired(capsys, source, target)
    assert (1, "mine") == (status, target.read_text())
    assert "not overwritten" in err
    assert 1 == repaired(capsys, source, source)[0]
