"""What is released: two builds are equal."""

import io
import tarfile
import zipfile

import built_twice
import pytest


@pytest.fixture(scope="module")
def builds(tmp_path_factory):
    pytest.importorskip("hatchling")
    return built_twice.builds(tmp_path_factory.mktemp("builds"))


# ---- two builds


@pytest.mark.slow
def test_two_builds_are_equal_byte_for_byte(builds):
    first, second = builds
    assert [".gz", ".whl"] == sorted(path.suffix for path in first.iterdir())
    assert [] == built_twice.differences(first, second)


def wheel_of(path, *members, mode=0o100644):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            archive.writestr(info, content)


def source_of(path, *members, mode=0o644):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), mode
            archive.addfile(info, io.BytesIO(content))


A, B = ("a", b"1"), ("b", b"2")
DIFFERENT = [
    ("other bytes", [("a", b"2"), B], {}, ["a"]),
    ("another mode", [A, B], {"mode": 0o600}, ["a", "b"]),
    ("another order", [B, A], {}, ["a", "b"]),
    ("one more", [A, B, ("c", b"3")], {}, ["c"]),
    ("one less", [A], {}, ["b"]),
]


@pytest.mark.parametrize(("name", "make"), [("x.whl", wheel_of), ("x.tar.gz", source_of)])
@pytest.mark.parametrize(("members", "how", "expected"), [c[1:] for c in DIFFERENT], ids=[c[0] for c in DIFFERENT])
def test_what_differs_is_named(tmp_path, name, make, members, how, expected):
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    make(one / name, A, B)
    make(two / name, *members, **how)
    assert [f"{name}: {member}" for member in expected] == built_twice.differences(one, two)


def test_a_build_that_is_in_one_place_alone_is_named(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    wheel_of(two / "x.whl", A)
    assert [f"x.whl: only in {two}"] == built_twice.differences(one, two)
