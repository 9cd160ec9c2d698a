"""``arrowipc doctor`` finds what is here, and names what mends the rest."""

import json
import os
import stat
import subprocess
import sys
import zipfile
from types import SimpleNamespace

import pytest

from spark_arrow_ipc.cli import doctor
from spark_arrow_ipc.cli.main import main


def fake_program(directory, name, words):
    """A program that answers with `words` on stderr."""
    directory.mkdir(parents=True, exist_ok=True)
    program = directory / name
    program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{words}\nEND\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


JAVAS = [
    ("17", 'openjdk version "17.0.15" 2025-04-15', True, "Java 17 at"),
    ("21", 'openjdk version "21" 2023-09-19', True, "Java 21 at"),
    ("early access", 'openjdk version "25-ea" 2025-09-16', True, "Java 25 at"),
    ("8", 'java version "1.8.0_392"', False, "Java 8 at"),
    ("11", 'openjdk version "11.0.2" 2019-01-15', False, "Java 11 at"),
    ("no Java", "bash: nothing", False, "names no version"),
]


@pytest.mark.parametrize(("words", "ok", "found"), [c[1:] for c in JAVAS], ids=[c[0] for c in JAVAS])
def test_java_is_judged_by_what_it_says(monkeypatch, tmp_path, words, ok, found):
    fake_program(tmp_path / "bin", "java", words)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    finding = doctor.java()
    assert (ok, True) == (finding.ok, found in finding.found)
    assert ok == (finding.remedy == "")


def test_a_client_of_connect_needs_no_java(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    monkeypatch.setattr(doctor.metadata, "distributions", lambda: [SimpleNamespace(name="pyspark_client")])
    assert (True, "not needed: pyspark-client starts no Java") == (doctor.java().ok, doctor.java().found)


def test_java_home_without_java_is_said_even_if_path_has_one(monkeypatch, tmp_path):
    fake_program(tmp_path / "path", "java", JAVAS[0][1])
    monkeypatch.setenv("PATH", str(tmp_path / "path"), prepend=os.pathsep)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    finding = doctor.java()
    assert (False, "") == (finding.ok, finding.found)
    assert str(tmp_path / "nowhere") in finding.remedy


@pytest.mark.parametrize(
    ("program", "command"), [("apt-get", "apt-get install"), ("brew", "brew install"), (None, "http")]
)
def test_missing_java_names_the_command_of_this_machine(monkeypatch, tmp_path, program, command):
    (tmp_path / "empty").mkdir()
    if program:
        fake_program(tmp_path / "empty", program, "")
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    finding = doctor.java()
    assert (False, "") == (finding.ok, finding.found)
    assert command in finding.remedy


def test_a_package_is_named_by_the_versions_that_work_also_where_fewer_are_advised():
    advised = doctor.Package("numpy", "numpy", (1,), install="numpy<2", advised_below=(2,), advice="Better:")
    assert ("numpy>=1", True) == (doctor._package(advised).name, doctor._package(advised).ok)
    assert "numpy>=99,<100" == doctor._package(doctor.Package("numpy", "numpy", (99,), (100,))).name


PACKAGES = [
    ("sound", doctor.Package("numpy", "numpy", (2, 0)), True, ""),
    ("too old", doctor.Package("numpy", "numpy", (99,)), False, "pip install 'numpy>=99'"),
    ("too new", doctor.Package("numpy", "numpy", (1,), (2,), "numpy<2"), False, "pip install 'numpy<2'"),
    ("missing", doctor.Package("no-such-thing", "no_such_thing", (1,)), False, "pip install 'no-such-thing>=1'"),
    ("advice", doctor.Package("numpy", "numpy", (1,), advised_below=(2,), advice="Better:"), True, "Better: "),
]


@pytest.mark.parametrize(("package", "ok", "remedy"), [c[1:] for c in PACKAGES], ids=[c[0] for c in PACKAGES])
def test_a_package_is_judged_by_import_and_version(package, ok, remedy):
    finding = doctor._package(package)
    assert ok == finding.ok
    assert remedy in finding.remedy
    assert bool(remedy) == bool(finding.remedy)


def test_a_package_that_breaks_at_import_is_found_and_wrong(monkeypatch, tmp_path):
    (tmp_path / "breaks_at_import.py").write_text("raise ValueError('numpy.dtype size changed')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    finding = doctor._package(doctor.Package("breaks", "breaks_at_import", (1,)))
    assert (False, "ValueError: numpy.dtype size changed") == (finding.ok, finding.found)


WORKERS = [
    ("this Python", lambda _: sys.executable, True),
    ("none", lambda tmp_path: str(tmp_path / "none"), False),
    ("another", lambda tmp_path: str(fake_program(tmp_path, "python", "3.9")), False),
]


@pytest.mark.parametrize(("program", "ok"), [c[1:] for c in WORKERS], ids=[c[0] for c in WORKERS])
@pytest.mark.parametrize(("variable", "position"), [("PYSPARK_PYTHON", 0), ("PYSPARK_DRIVER_PYTHON", 1)])
def test_sparks_python_must_be_this_one(monkeypatch, tmp_path, program, ok, variable, position):
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
    monkeypatch.setenv(variable, program(tmp_path))
    findings = doctor._pythons()
    assert [ok if number == position else True for number in range(2)] == [finding.ok for finding in findings]
    assert ok == (f"export {variable}={sys.executable}" not in findings[position].remedy)


def test_the_python_that_plans_is_that_of_tasks_unless_it_is_named(monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", "no-such-python")
    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)
    (finding,) = doctor._pythons()
    assert not finding.ok


def test_status_and_json_agree(monkeypatch, capsys):
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    status = main(["doctor", "--json"])
    findings = json.loads(capsys.readouterr().out)
    assert (0 if all(finding["ok"] for finding in findings) else 1) == status
    assert {"name", "found", "ok", "remedy"} == set(findings[0])
    assert all(finding["ok"] or finding["remedy"] for finding in findings)


def test_a_person_gets_the_commands_below_the_table(monkeypatch, capsys):
    monkeypatch.setenv("PYSPARK_PYTHON", "no-such-python")
    assert 1 == main(["doctor"])
    out = capsys.readouterr().out
    assert f"export PYSPARK_PYTHON={sys.executable}" in out
    assert "Some of what Spark needs is missing." in out


@pytest.mark.slow
def test_doctor_runs_where_numpy_is_missing(tmp_path):
    """The command for broken environments imports nothing but the standard library by itself."""
    (tmp_path / "numpy.py").write_text("raise ImportError('no numpy here')\n")
    script = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from spark_arrow_ipc.cli.main import main\n"
        "sys.exit(main(['doctor']))"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (1, "") == (answer.returncode, answer.stderr)
    assert "ImportError: no numpy here" in answer.stdout


def test_other_commands_say_where_to_look_when_a_module_is_missing(tmp_path):
    script = (
        "import sys; sys.modules['numpy'] = None\n"
        "from spark_arrow_ipc.cli.main import main\n"
        "sys.exit(main(['inspect', 'x']))"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert 1 == answer.returncode
    assert "arrowipc doctor" in answer.stderr
    assert 1 == len(answer.stderr.splitlines())


BYTECODE = [
    ("a zip of sources, as Spark comes", ["pyspark/__init__.py"], True, "compileall"),
    ("a zip with bytecode", ["pyspark/__init__.py", "pyspark/__init__.pyc"], True, ""),
    ("a directory of that name", None, True, ""),
    ("no zip", (), True, ""),
    ("a torn zip", b"PK", False, "install Spark again"),
]


@pytest.mark.parametrize(("content", "ok", "remedy"), [c[1:] for c in BYTECODE], ids=[c[0] for c in BYTECODE])
def test_processes_that_compile_pyspark_are_named_with_the_cure(monkeypatch, tmp_path, content, ok, remedy):
    place = tmp_path / "python" / "lib" / "pyspark.zip"
    place.parent.mkdir(parents=True)
    if content is None:
        place.mkdir()
    elif isinstance(content, bytes):
        place.write_bytes(content)
    elif content:
        with zipfile.ZipFile(place, "w") as archive:
            for name in content:
                archive.writestr(name, "")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    (finding,) = doctor._bytecode()
    assert (ok, bool(remedy)) == (finding.ok, bool(finding.remedy))
    assert remedy in finding.remedy


@pytest.mark.slow
def test_the_cure_for_missing_bytecode_runs(monkeypatch, tmp_path):
    place = tmp_path / "python" / "lib" / "pyspark.zip"
    place.parent.mkdir(parents=True)
    with zipfile.ZipFile(place, "w") as archive:
        archive.writestr("pyspark/__init__.py", "")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    (finding,) = doctor._bytecode()
    subprocess.run(finding.remedy[finding.remedy.index("cd ") :], shell=True, check=True)
    assert [] == [each.remedy for each in doctor._bytecode() if each.remedy]
    assert list((place / "pyspark" / "__pycache__").glob("__init__.*.pyc"))
