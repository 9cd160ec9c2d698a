"""Where directories lie to each other, whatever links lead to them."""

from types import SimpleNamespace

import pytest

from spark_arrow_ipc.dataset.stream.overlap import names_below, pattern_sees, root_that_sees
from spark_arrow_ipc.storage.local import LOCAL

WAYS = [
    # a directory, a root, and the names from the root down to the directory by any link
    ("in", "in", ()),
    ("in/a/b", "in", ("a", "b")),
    ("input", "in", None),
    ("old", "in", None),
    ("alias/old", "in", ("old",)),
    ("in/old", "alias", ("old",)),
    ("deep", "in", ("a",)),
    ("in/out/x", "in", None),
    ("in/out/x", "other", ("x",)),
]


@pytest.mark.parametrize(("directory", "root", "expected"), WAYS)
def test_the_names_between_two_directories_whatever_links_lead_to_them(tmp_path, directory, root, expected):
    for name in ("in/a", "other"):
        (tmp_path / name).mkdir(parents=True)
    for link, target in (("alias", "in"), ("deep", "in/a"), ("in/out", "../other")):
        (tmp_path / link).symlink_to(target)
    assert expected == names_below(LOCAL, str(tmp_path / directory), str(tmp_path / root))


@pytest.mark.parametrize(
    ("directory", "expected"),
    [("/disk/b", ()), ("/disk/b/old", ("old",)), ("/DISK/IN/Old", ("Old",)), ("/disk/other", None)],
)
def test_a_mount_or_a_name_in_another_case_is_known_by_its_identity(directory, expected):
    same = {"/disk/in", "/disk/b", "/DISK/IN"}

    def status(path):
        return SimpleNamespace(identity=(1, 1 if path in same else hash(path)))

    storage = SimpleNamespace(
        traits=LOCAL.traits, real_path=lambda path: path, unique_path=lambda path: path, status=status
    )
    assert expected == names_below(storage, directory, "/disk/in")


@pytest.mark.parametrize(
    ("pattern", "directory", "expected"),
    [
        ("*/in", "a/in", True),
        ("*/in", "a/in/out", True),
        ("*/in", "a", True),  # holds what the pattern matches
        ("*/in", "a/out", False),
        ("*/in", "a/in/_out", False),
        ("*", ".out", False),
        (".*", ".out", True),
        ("**", "a/b", True),
        ("**", "a/_b", False),
        ("{a,b}/in", "b/in/x", True),
        ("{a,b}/in", "c/in", False),
        ("[ab]", "[ab]", True),  # a name as it stands
    ],
)
def test_a_pattern_sees_what_it_may_match_and_what_lies_below_and_above(tmp_path, pattern, directory, expected):
    assert expected == pattern_sees(LOCAL, f"{tmp_path}/{pattern}", str(tmp_path), str(tmp_path / directory))


def test_hidden_directories_are_not_seen(tmp_path):
    roots = [str(tmp_path / "other"), str(tmp_path / "in")]
    assert roots[1] == root_that_sees(LOCAL, roots, str(tmp_path / "in/a"))
    assert root_that_sees(LOCAL, roots, str(tmp_path / "in/_archive")) is None
