"""A file of few bytes that asks for much is rows or an error of the package's, soon and in little memory.

`bomb_table` prints the whole table, which bomb_table.md has in short; these are its quick rows.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from bombs import BOMBS

PROGRAM = Path(__file__).parent / "programs" / "bomb_table.py"
SMALL = [name for name, bomb in BOMBS.items() if not bomb.large]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each case runs in a forked process")


def outcomes(bombs, routes):
    """Return the outcome of each bomb and route; faults fail."""
    arguments = ["--bombs", ",".join(bombs), "--routes", ",".join(routes)]
    answer = subprocess.run([sys.executable, str(PROGRAM), *arguments], capture_output=True, text=True)
    assert (0, "") == (answer.returncode, answer.stderr.strip()), answer.stdout
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in answer.stdout.splitlines()[2:]]
    names = {BOMBS[name].what: name for name in bombs}
    return {
        (names[what], route): outcome
        for what, _, shown, outcome, *_ in cells
        for route in (routes if shown == "all" else shown.split(", "))
    }


@pytest.mark.slow
def test_what_takes_gigabytes_is_refused_before_it_is_made():
    bombs = ["list-run", "views-12", "zstd-claim", "footer"]
    expected = {
        ("list-run", "full"): "1 rows",
        ("list-run", "to_pylist"): "LimitError",
        ("list-run", "cat"): "refused",
        ("views-12", "full"): "1 rows",
        ("views-12", "to_pylist"): "LimitError",
        ("views-12", "cat"): "refused",
        ("zstd-claim", "full"): "LimitError",
        ("zstd-claim", "to_pylist"): "LimitError",
        ("zstd-claim", "cat"): "refused",
        ("footer", "full"): "LimitError",
        ("footer", "to_pylist"): "LimitError",
        ("footer", "cat"): "refused",
    }
    assert expected == outcomes(bombs, ["full", "to_pylist", "cat"])


@pytest.mark.exhaustive
def test_no_small_bomb_does_harm_on_any_route():
    pytest.importorskip("pyspark")
    routes = ["structural", "to_pylist", "cat", "Spark task"]
    assert len(SMALL) * len(routes) == len(outcomes(SMALL, routes))
