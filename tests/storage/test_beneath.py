"""Directories below a root: no link is followed, modes are taken over, trees are deleted and links in them kept from."""

import os
import stat
from pathlib import Path

import pytest

from spark_arrow_ipc.errors import CommitError, UnsupportedError
from spark_arrow_ipc.storage import beneath
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.storage import Kind


def test_a_directory_is_opened_level_by_level(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    for path in (tmp_path, tmp_path / "a" / "b"):
        descriptor = beneath.open_directory(str(tmp_path), str(path))
        assert os.path.samestat(os.fstat(descriptor), path.stat())
        os.close(descriptor)


def test_links_above_the_root_are_followed_and_those_below_it_refused(tmp_path):
    (tmp_path / "real" / "a").mkdir(parents=True)
    (tmp_path / "root").symlink_to(tmp_path / "real")
    (tmp_path / "real" / "link").symlink_to(tmp_path / "real" / "a")
    root = str(tmp_path / "root")
    os.close(beneath.open_directory(root, f"{root}/a"))
    for call in (beneath.open_directory, beneath.open_readable, beneath.make_directory):
        with pytest.raises(CommitError, match=r"root/link: expected a directory, found a link"):
            call(root, f"{root}/link")


MODES = [
    # of the directory above, umask, of the new one
    ("shared by all", 0o777, 0o022, 0o777),
    ("of a group, which new names keep", 0o2775, 0o077, 0o2775),
    ("private", 0o700, 0o022, 0o700),
    ("sticky: another user has to finish a job", 0o1777, 0o022, 0o777),
]


@pytest.mark.parametrize(("above", "umask", "expected"), [case[1:] for case in MODES], ids=[case[0] for case in MODES])
def test_what_is_made_takes_the_mode_of_the_directory_above(tmp_path, above, umask, expected):
    tmp_path.chmod(above)
    storage = LOCAL.inside(str(tmp_path))
    before = os.umask(umask)
    try:
        storage.make_directory(f"{tmp_path}/a/b")
        storage.put_if_absent(f"{tmp_path}/a/record", b"1")
        storage.put(f"{tmp_path}/a/mark", b"1")
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a", "a/b", "a/record", "a/mark")]
    assert [expected, expected, expected & 0o666, expected & 0o666] == modes


def test_a_tree_is_deleted_and_what_its_links_lead_to_is_not(tmp_path):
    for name in ("keep", "tree/a/b"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "f").write_text("1")
    (tmp_path / "tree" / "link").symlink_to(tmp_path / "keep")
    os.mkfifo(tmp_path / "tree" / "pipe")
    beneath.delete_tree(str(tmp_path / "tree"))
    assert ["f", "keep"] == sorted(path.name for path in tmp_path.rglob("*"))
    for make in (lambda path: path.symlink_to(tmp_path / "keep"), os.mkfifo):
        make(tmp_path / "name")
        beneath.delete_tree(str(tmp_path / "name"))
    assert ["f", "keep"] == sorted(path.name for path in tmp_path.rglob("*"))


def test_a_tree_that_is_too_deep_is_an_error_and_no_crash(tmp_path):
    tmp_path.joinpath("tree", *"d" * 150).mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        beneath.delete_tree(str(tmp_path / "tree"))


PIPES = [
    ("read", lambda storage, path: storage.read(path, 100)),
    ("open", lambda storage, path: storage.open(path).close()),
    ("delete_tree", lambda storage, path: storage.delete_tree(path)),
    ("status", lambda storage, path: storage.status(path)),
]


@pytest.mark.parametrize("call", [case[1] for case in PIPES], ids=[case[0] for case in PIPES])
@pytest.mark.parametrize("inside", [False, True], ids=["any path", "inside"])
def test_nothing_waits_for_the_other_end_of_a_pipe(tmp_path, call, inside):
    os.mkfifo(tmp_path / "pipe")
    storage = LOCAL.inside(str(tmp_path)) if inside else LOCAL
    assert storage.status(f"{tmp_path}/pipe").kind is Kind.SPECIAL
    n_open = len([*Path("/dev/fd").iterdir()])
    try:
        call(storage, f"{tmp_path}/pipe")
    except UnsupportedError as error:
        assert "expected a regular file" in str(error)  # noqa: PT017 - only one of the calls refuses it
    assert n_open == len([*Path("/dev/fd").iterdir()])


def test_a_directory_whose_parent_disappears_is_made_again(tmp_path, monkeypatch):
    """A job that ends deletes the directory above when it is empty."""
    real, calls = os.mkdir, iter(range(9))

    def mkdir(name, **options):
        if name == "b" and next(calls) < 2:
            (tmp_path / "a").rmdir()
        real(name, **options)

    monkeypatch.setattr(os, "mkdir", mkdir)
    LOCAL.inside(str(tmp_path)).make_directory(f"{tmp_path}/a/b")
    assert (tmp_path / "a" / "b").is_dir()
