"""``arrowipc copy``: its words, its statuses, and the options of two stores."""

import json

import pytest
from commit_jobs import interrupted
from fault_server import fault_server
from maintained_tables import content, ids, save, table

from spark_arrow_ipc.cli.main import main
from spark_arrow_ipc.storage.open import storage_of
from spark_arrow_ipc.table.names import TableDirectory


def copied(capsys, *arguments):
    status = main(["copy", *map(str, arguments)])
    return status, *capsys.readouterr()


@pytest.fixture
def source(tmp_path):
    (tmp_path / "source").mkdir()
    directory = table(tmp_path / "source")
    save(directory, (1, 2), (3,), at="k=1")
    return directory


def test_what_is_copied_is_said(capsys, source, tmp_path):
    target, nbytes = tmp_path / "target", len(content(1, 2)) + len(content(3))
    line = f"{target}: 2 files, 3 rows, {nbytes} bytes, as of entry 1 of {source.root}"
    assert (0, f"{line}\n", "") == copied(capsys, source.root, target)
    assert [1, 2, 3] == ids(table(target))


def test_json(capsys, source, tmp_path):
    status, out, err = copied(capsys, "--json", source.root, tmp_path / "target")
    assert (0, "") == (status, err)
    expected = {"source": source.root, "target": f"{tmp_path}/target", "number": 1, "files": 2, "rows": 3}
    assert expected | {"nbytes": len(content(1, 2)) + len(content(3))} == json.loads(out)


def test_a_plain_directory_has_no_entry(capsys, tmp_path):
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "a.arrow").write_bytes(content(1))
    words = f"{tmp_path}/t: 1 file, 1 row, {len(content(1))} bytes, as of the files of {tmp_path}/plain\n"
    assert words == copied(capsys, tmp_path / "plain", tmp_path / "t")[1]


def test_an_error_is_one_line(capsys, source, tmp_path):
    copied(capsys, source.root, tmp_path / "other")
    status, out, err = copied(capsys, source.root, tmp_path / "other")
    assert (1, "", 1) == (status, out, err.count("\n"))
    assert f"arrowipc: {tmp_path}/other: the target holds files (2, such as " in err
    assert 1 == copied(capsys, tmp_path / "none", tmp_path / "target")[0]


def test_what_is_refused_leaves_nothing(capsys, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    status, out, err = copied(capsys, source, tmp_path / "new/target")
    assert (1, "", 1) == (status, out, err.count("\n"))
    assert f"{source}: there is nothing to copy" in err
    assert [source] == list(tmp_path.iterdir())


@pytest.mark.slow
def test_two_stores_with_options_of_their_own(capsys, source, tmp_path):
    with fault_server() as one, fault_server() as other:
        of = {
            flag: [f"{flag}={name}={value}" for name, value in server.options.items()]
            for flag, server in (("--storage", one), ("--target-storage", other))
        }
        assert 0 == copied(capsys, *of["--storage"], source.root, f"{one.url}/a")[0]
        assert 0 == copied(capsys, *of["--storage"], *of["--target-storage"], f"{one.url}/a", f"{other.url}/a")[0]
        options = [option.replace("--target-", "--") for option in of["--target-storage"]]
        assert 0 == copied(capsys, *options, f"{other.url}/a", tmp_path / "b")[0]
        there = TableDirectory(storage_of(other.url, tuple(other.options.items()))[0], f"{other.url}/a")
        assert [1, 2, 3] == ids(source) == ids(there) == ids(table(tmp_path / "b"))


def test_a_copy_while_a_job_replaces_everything(capsys, source, tmp_path):
    with interrupted("planned.mark", lambda: save(source, (9,), overwrites=True)):
        status, out, _ = copied(capsys, source.root, tmp_path / "target")
    assert (0, True) == (status, "as of entry 2 of" in out)
    assert [9] == ids(table(tmp_path / "target"))
