"""Failpoints: what the variable may say, that it acts, and that it costs nothing when unset."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.storage import failpoint
from spark_arrow_ipc.storage.failpoint import COPY_POINTS, OF_COPIES, POINTS, TABLE_POINTS, VARIABLE, Failpoint

ROOT = Path(__file__).parents[2]

TEXTS = [
    ("C3.linked:kill", Failpoint("C3.linked", "kill")),
    ("C4.renamed:raise@12", Failpoint("C4.renamed", "raise", 12)),
    ("T2.batch:enospc", Failpoint("T2.batch", "enospc")),
    ("P0.staging:delay=2.5@3", Failpoint("P0.staging", "delay", 3, 2.5)),
    ("P0.staging:delay=2", Failpoint("P0.staging", "delay", 1, 2.0)),
]


@pytest.mark.parametrize(("text", "expected"), TEXTS, ids=[case[0] for case in TEXTS])
def test_a_text_is_a_failpoint(text, expected):
    assert expected == Failpoint.parse(text)


@pytest.mark.parametrize("text", ["", "C3.linked", "C3.linked:", "C3:kill", "C3.linked:explode", "C3.linked:kill@0",
                                  "C3.linked:delay", "C3.linked:delay=x", "C3.linked:kill@", "C3.linked:kill "])  # fmt: skip
def test_a_text_that_means_nothing_is_an_error(text):
    with pytest.raises(OptionError, match=f"expected {VARIABLE} as NAME:kill.*C3.linked"):
        Failpoint.parse(text)


def test_it_acts_once_at_its_passage():
    point = Failpoint.parse("C4.renamed:raise@2")
    point.hit("C4.renamed")
    point.hit("C5.unlinked")
    with pytest.raises(OSError, match=r"Input/output error \(failpoint C4.renamed\)"):
        point.hit("C4.renamed")
    point.hit("C4.renamed")


def test_a_delay_delays():
    begun = time.perf_counter()
    Failpoint.parse("C4.renamed:delay=0.05").hit("C4.renamed")
    assert time.perf_counter() - begun >= 0.05


PROGRAM = """
from spark_arrow_ipc.storage import failpoint
failpoint.hit("C3.linked")
print("first")
failpoint.hit("C3.linked")
print("second")
"""


def run(**environment):
    return subprocess.run(
        [sys.executable, "-uc", PROGRAM], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )  # fmt: skip


@pytest.mark.slow
def test_the_variable_arms_a_process():
    killed = run(**{VARIABLE: "C3.linked:kill@2"})
    assert (-signal.SIGKILL, "first\n") == (killed.returncode, killed.stdout)
    assert "OSError: [Errno 28]" in run(**{VARIABLE: "C3.linked:enospc"}).stderr
    assert "OptionError" in run(**{VARIABLE: "C3.likned:kill"}).stderr


def test_unset_it_is_a_function_that_does_nothing():
    assert VARIABLE not in os.environ
    assert None is failpoint.hit("no point of any name")
    assert "first\nsecond\n" == run().stdout


def test_every_point_is_passed_somewhere_and_no_other():
    sources = "".join(path.read_text() for path in (ROOT / "spark_arrow_ipc").rglob("*.py"))
    assert OF_COPIES <= POINTS.keys()
    assert {*POINTS, *COPY_POINTS, *TABLE_POINTS} == set(re.findall(r'failpoint\.hit\("([^"]+)"\)', sources))
