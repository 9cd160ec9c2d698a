"""The options are printed for a terminal."""

import subprocess
import sys

import pytest

from spark_arrow_ipc.spark.options.__main__ import main
from spark_arrow_ipc.spark.options.options import OPTIONS


def test_every_option_is_printed_with_its_default(capsys):
    assert 0 == main([])
    printed = capsys.readouterr().out
    assert ["Options for reading:", "Options for reading streams:", "Options for writing:"] == [
        line for line in printed.splitlines() if line[0] != " "
    ]
    names = {line[2:].split("=")[0] for line in printed.splitlines() if line[:2] == "  " and line[2] != " "}
    assert {option.name for option in OPTIONS} == names
    assert "  maxBatchBytes=2g\n      The most memory" in printed


def test_words_select_options(capsys):
    assert 0 == main(["batchbytes"])
    assert ["Options for reading:", "  maxBatchBytes=2g"] == capsys.readouterr().out.splitlines()[:2]
    assert 1 == main(["xyzzy"])
    assert "no option has xyzzy in its name\n" == capsys.readouterr().out


@pytest.mark.slow
def test_the_command_of_the_error_needs_no_spark():
    program = "import sys, runpy; sys.modules['pyspark'] = None; runpy.run_module('spark_arrow_ipc.spark.options', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (0, "") == (done.returncode, done.stderr)
    assert "where" in done.stdout
