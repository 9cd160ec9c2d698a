"""The entry point: commands by name, and errors as one line with a status."""

import subprocess
import sys
from pathlib import Path

import pytest

from spark_arrow_ipc import __version__
from spark_arrow_ipc.cli import main as module
from spark_arrow_ipc.cli.main import COMMANDS, main

FILE = Path(__file__).parents[1] / "data" / "integers.arrow"


def test_the_version_is_printed(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert (0, f"arrowipc {__version__}\n") == (ended.value.code, capsys.readouterr().out)


def test_without_a_command_the_help_names_all(capsys):
    assert 2 == main([])
    out = capsys.readouterr().out
    assert [] == [name for name in COMMANDS if name not in out]


def test_an_unknown_command_is_a_usage_error(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["fetch"])
    assert 2 == ended.value.code
    assert "fetch" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["fe\x1b[31mtch"], ["inspect", "--fe\x1b[31mtch", "x"], ["head", "-n", "\x1b[31m", "x"]]
)
def test_a_usage_error_repeats_no_escape_sequence(capsys, arguments):
    with pytest.raises(SystemExit):
        main(arguments)
    err = capsys.readouterr().err
    assert "\x1b" not in err
    assert "\\x1b[31m" in err


@pytest.mark.parametrize("arguments", [["--jsn", "x"], [], ["x", "y", "--jsn"]])
def test_a_usage_error_of_a_command_shows_its_usage(capsys, arguments):
    with pytest.raises(SystemExit) as ended:
        main(["inspect", *arguments])
    lines = capsys.readouterr().err.splitlines()
    assert 2 == ended.value.code
    assert lines[0].startswith("usage: arrowipc inspect [-h]")
    assert lines[-1].startswith("arrowipc inspect: error: ")


def test_an_error_is_one_line_and_status_1(tmp_path, capsys):
    assert 1 == main(["inspect", str(tmp_path / "no such file")])
    out, err = capsys.readouterr()
    assert ("", 1) == (out, len(err.splitlines()))
    assert err.startswith("arrowipc: ")


def test_a_missing_package_leads_to_the_doctor(monkeypatch, capsys):
    def missing(_):
        raise ModuleNotFoundError("No module named 'numpy'", name="numpy")

    monkeypatch.setattr(module, "import_module", missing)
    assert 1 == main(["inspect", "x.arrow"])
    assert "No module named 'numpy'; 'arrowipc doctor' names" in capsys.readouterr().err


@pytest.mark.slow
def test_a_reader_that_closes_the_pipe_is_no_error():
    """As `arrowipc inspect FILE | head -0`; the interpreter must not complain at its end either."""
    code = f"import sys; from spark_arrow_ipc.cli.main import main; sys.exit(main(['inspect', {str(FILE)!r}]))"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    with process.stderr as stderr:
        err = stderr.read()
    assert (b"", 0) == (err, process.wait(30))
