"""What is released: two builds are equal, and the wheel has its bill of materials."""

import io
import json
import re
import tarfile
import tomllib
import zipfile
from pathlib import Path

import built_twice
import pytest

import spark_arrow_ipc

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
NOT_SHIPPED = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]["not-shipped"]


@pytest.fixture(scope="module")
def builds(tmp_path_factory):
    pytest.importorskip("hatchling")
    return built_twice.builds(tmp_path_factory.mktemp("builds"))


@pytest.fixture(scope="module")
def wheel(builds):
    (path,) = builds[0].glob("*.whl")
    return path


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


# ---- the bill of materials


@pytest.fixture(scope="module")
def bill(wheel):
    name = f"spark_arrow_ipc-{spark_arrow_ipc.__version__}.dist-info/sboms/spark-arrow-ipc.cdx.json"
    with zipfile.ZipFile(wheel) as archive:
        assert [name] == [member for member in archive.namelist() if "/sboms/" in member]
        text = archive.read(name).decode()
    print(text)
    return json.loads(text)


@pytest.mark.slow
def test_the_bill_is_of_this_version(bill):
    assert ("CycloneDX", "1.6", 1) == (bill["bomFormat"], bill["specVersion"], bill["version"])
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}", bill["serialNumber"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", bill["metadata"]["timestamp"])
    itself = bill["metadata"]["component"]
    assert f"pkg:pypi/spark-arrow-ipc@{spark_arrow_ipc.__version__}" == itself["purl"]
    assert [{"license": {"id": PROJECT["project"]["license"]}}] == itself["licenses"]


def name_in(requirement):
    return re.match(r"[\w.-]+", requirement)[0].lower()


@pytest.mark.slow
def test_the_bill_names_what_an_installer_brings_and_nothing_else(bill):
    required = {name_in(requirement): ("required", set()) for requirement in PROJECT["project"]["dependencies"]}
    optional = {}
    for extra in EXTRAS.keys() - set(NOT_SHIPPED):
        for requirement in EXTRAS[extra]:
            optional.setdefault(name_in(requirement), ("optional", set()))[1].add(extra)
    found = {
        each["name"]: (
            each["scope"],
            {each["value"] for each in each["properties"] if each["name"] == "python:extra"},
        )
        for each in bill["components"]
    }
    assert optional | required == found
    assert [f"pkg:pypi/{name}" for name in sorted(found)] == [each["purl"] for each in bill["components"]]


@pytest.mark.slow
def test_what_the_bill_refers_to_is_in_it_once(bill):
    known = [bill["metadata"]["component"]["bom-ref"], *(each["bom-ref"] for each in bill["components"])]
    assert len(known) == len(set(known))
    assert known == [each["ref"] for each in bill["dependencies"]]
    assert known[1:] == bill["dependencies"][0]["dependsOn"]
    named = [
        name for each in bill["compositions"] for key in ("assemblies", "dependencies") for name in each.get(key, ())
    ]
    assert set(known) == set(named)


@pytest.mark.slow
def test_the_bill_keeps_the_schema_of_cyclonedx(bill):
    schema = pytest.importorskip("cyclonedx.schema")
    validator = pytest.importorskip("cyclonedx.validation.json").JsonStrictValidator(schema.SchemaVersion.V1_6)
    assert None is validator.validate_str(json.dumps(bill))


def test_extras_that_are_not_shipped_exist():
    assert set(NOT_SHIPPED) < set(EXTRAS)
