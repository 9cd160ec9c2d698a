"""``arrowipc jar`` writes the jar for the installed Spark; tests/spark/test_jar.py is about what is in it."""

import re

import pytest

from spark_arrow_ipc import __version__
from spark_arrow_ipc.cli import doctor
from spark_arrow_ipc.cli.main import main

pytest.importorskip("pyspark", reason="Spark compiles the jar")

from spark_arrow_ipc.spark import jar


@pytest.fixture
def content(monkeypatch):
    """The jar, as if it was compiled."""
    monkeypatch.setattr(jar, "jar_of_installation", lambda: b"PK jar")
    return b"PK jar"


def test_the_jar_is_written(content, capsys, tmp_path):
    target = tmp_path / "arrowipc.jar"
    assert main(["jar", str(target)]) == 0
    assert target.read_bytes() == content
    assert re.fullmatch(rf".*arrowipc.jar: 6 bytes, {__version__} for Spark 4\.\d+\n", capsys.readouterr().out)


# (Name of the file, whether it exists, further arguments, status, words.)
REFUSED = {
    "a file that exists": ("arrowipc.jar", True, [], 1, "not overwritten"),
    "--force": ("arrowipc.jar", True, ["--force"], 0, ""),
    "another ending": ("arrowipc.zip", False, [], 1, "ending"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_is_replaced_only_if_told(content, capsys, tmp_path, name):
    file, exists, arguments, status, words = REFUSED[name]
    target = tmp_path / file
    if exists:
        target.write_bytes(b"other")
    assert main(["jar", str(target), *arguments]) == status
    assert words in capsys.readouterr().err
    assert (target.read_bytes() if target.exists() else None) == {0: content, 1: b"other" if exists else None}[status]


def test_the_doctor_prints_the_configuration(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "examine", lambda: (doctor.Finding("Java", "17", ok=True),))
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-3:] == [
        "spark.jars /path/to/arrowipc.jar",
        "spark.sql.catalog.arrowipc sparkarrowipc.Catalog",
        "spark.sql.catalog.spark_catalog sparkarrowipc.SessionCatalog",
    ]
