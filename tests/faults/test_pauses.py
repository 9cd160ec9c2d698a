"""Some processes that stand still. Long: python tests/faults/pauses.py --runs 2000 [--copies] [--recreate]."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import pauses


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("what", [(), ("--copies",), ("--recreate",), ("--recreate", "--copies")], ids=" ".join)
@pytest.mark.parametrize("runs", [10, pytest.param(200, marks=pytest.mark.nightly)])
def test_a_process_that_stands_still_loses_nothing(tmp_path, capsys, monkeypatch, what, runs):
    monkeypatch.setattr(sys, "argv", ["pauses.py", "--runs", str(runs), "--folder", str(tmp_path), *what])
    pauses.main()
    assert runs == json.loads(capsys.readouterr().out)["runs"]
    assert [] == list(tmp_path.iterdir())
