"""``arrowipc copy``: its words, its statuses, and the options of two stores."""

import json

import pytest
from commit_jobs import APPEND, OVERWRITE, interrupted
from fault_server import fault_server
from places import Place

from spark_arrow_ipc.cli.main import main
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.open import storage_of


def copied(capsys, *arguments):
    status = main(["copy", *map(str, arguments)])
    return status, *capsys.readouterr()


@pytest.fixture
def source(tmp_path):
    place = Place(LOCAL, f"{tmp_path}/source")
    place.save(APPEND, "a", "k=1:bc")
    return place


def test_what_is_copied_is_said(capsys, source, tmp_path):
    target = tmp_path / "target"
    line = f"{target}: 2 files, 3 bytes, the state of record 1 of {source.root}"
    assert (0, f"{line}\n", "") == copied(capsys, source.root, target)
    assert (0, f"{line}; 2 of them were there\n", "") == copied(capsys, source.root, target)


def test_json(capsys, source, tmp_path):
    status, out, err = copied(capsys, "--json", source.root, tmp_path / "target")
    assert (0, "") == (status, err)
    expected = {
        "source": source.root,
        "target": f"{tmp_path}/target",
        "record": 1,
        "files": 2,
        "nbytes": 3,
        "reused": 0,
    }
    assert expected == json.loads(out)


def test_a_plain_directory_has_no_record(capsys, tmp_path):
    Place(LOCAL, f"{tmp_path}/plain").put("a.arrow", "1")
    assert (
        f"{tmp_path}/t: 1 file, 1 byte, of {tmp_path}/plain\n" == copied(capsys, tmp_path / "plain", tmp_path / "t")[1]
    )


def test_an_error_is_one_line(capsys, source, tmp_path):
    Place(LOCAL, f"{tmp_path}/other").save(APPEND, "x")
    status, out, err = copied(capsys, source.root, tmp_path / "other")
    assert (1, "", 1) == (status, out, err.count("\n"))
    assert f"arrowipc: {tmp_path}/other: the target holds 1 file (" in err
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
        there = Place(storage_of(other.url, tuple(other.options.items()))[0], f"{other.url}/a")
        assert source.ours() == there.ours() == Place(LOCAL, f"{tmp_path}/b").ours()


def test_a_copy_beside_a_job(capsys, source, tmp_path):
    with interrupted("K1.listed", lambda: source.save(OVERWRITE, "new")):
        status, out, _ = copied(capsys, source.root, tmp_path / "target")
    assert (0, True) == (status, "the state of record 2 of" in out)
    assert ["new"] == Place(LOCAL, f"{tmp_path}/target").ours()
