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
from spark_arrow_ipc.storage.failpoint import POINTS, VARIABLE, Failpoint

ROOT = Path(__file__).parents[2]

TEXTS = [
    ("committed.put:kill", Failpoint("committed.put", "kill")),
    ("named.file:raise@12", Failpoint("named.file", "raise", 12)),
    ("T2.batch:enospc", Failpoint("T2.batch", "enospc")),
    ("planned.mark:delay=2.5@3", Failpoint("planned.mark", "delay", 3, 2.5)),
    ("planned.mark:delay=2", Failpoint("planned.mark", "delay", 1, 2.0)),
]


@pytest.mark.parametrize(("text", "expected"), TEXTS, ids=[case[0] for case in TEXTS])
def test_a_text_is_a_failpoint(text, expected):
    assert expected == Failpoint.parse(text)


@pytest.mark.parametrize("text", ["", "committed.put", "committed.put:", "committed:kill", "committed.put:explode", "committed.put:kill@0",
                                  "committed.put:delay", "committed.put:delay=x", "committed.put:kill@", "committed.put:kill "])  # fmt: skip
def test_a_text_that_means_nothing_is_an_error(text):
    with pytest.raises(OptionError, match=f"expected {VARIABLE} as NAME:kill.*committed.put"):
        Failpoint.parse(text)


def test_it_acts_once_at_its_passage():
    point = Failpoint.parse("named.file:raise@2")
    point.hit("named.file")
    point.hit("collected.removed")
    with pytest.raises(OSError, match=r"Input/output error \(failpoint named.file\)"):
        point.hit("named.file")
    point.hit("named.file")


def test_a_delay_delays():
    begun = time.perf_counter()
    Failpoint.parse("named.file:delay=0.05").hit("named.file")
    assert time.perf_counter() - begun >= 0.05


PROGRAM = """
from spark_arrow_ipc.storage import failpoint
failpoint.hit("committed.put")
print("first")
failpoint.hit("committed.put")
print("second")
"""


def run(**environment):
    return subprocess.run(
        [sys.executable, "-uc", PROGRAM], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )  # fmt: skip


@pytest.mark.slow
def test_the_variable_arms_a_process():
    killed = run(**{VARIABLE: "committed.put:kill@2"})
    assert (-signal.SIGKILL, "first\n") == (killed.returncode, killed.stdout)
    assert "OSError: [Errno 28]" in run(**{VARIABLE: "committed.put:enospc"}).stderr
    assert "OptionError" in run(**{VARIABLE: "committed.putt:kill"}).stderr


def test_unset_it_is_a_function_that_does_nothing():
    assert VARIABLE not in os.environ
    assert None is failpoint.hit("no point of any name")
    assert "first\nsecond\n" == run().stdout


def test_every_point_is_passed_somewhere_and_no_other():
    sources = "".join(path.read_text() for path in (ROOT / "spark_arrow_ipc").rglob("*.py"))
    assert sorted(POINTS) == sorted(re.findall(r'failpoint\.hit\("([^"]+)"\)', sources)), "each once"
