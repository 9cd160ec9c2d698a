"""`examples/nightly_compaction.py`: a night joins the small files, and the next one finds nothing to do."""

import importlib.util
import logging
from pathlib import Path

import pytest
from rewrite_jobs import Tasks, files_of, tables, values

EXAMPLE = Path(__file__).parents[3] / "examples" / "nightly_compaction.py"


@pytest.fixture
def example():
    spec = importlib.util.spec_from_file_location("example_of_compaction", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_two_nights(example, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    lake = example.make_lake(tmp_path / "events")
    before = values(lake)
    for night in range(2):
        assert 0 == example.compact_all(Tasks(), [lake], ["at"], compression="zstd")
        assert before == values(lake)
        assert 2 == len(files_of(lake))
        words = "24 files (24,000 rows" if night == 0 else "nothing to do"
        assert words in caplog.messages[-1]
    for table in tables(lake).values():
        assert sorted(table["at"].to_pylist()) == table["at"].to_pylist()


def test_a_conflict_is_left_for_the_next_night(example, tmp_path, caplog):
    lake = example.make_lake(tmp_path / "events", days=1)
    tasks = Tasks(before=lambda *_: example.compact_all(Tasks(), [lake], []))
    assert 1 == example.compact_all(tasks, [lake], [])
    assert "left for the next night" in caplog.text
    assert 12_000 == len(values(lake)["day=2026-06-01"])


def test_the_program_names_what_it_takes(example, capsys):
    with pytest.raises(SystemExit) as ended:
        example.main(["--help"])
    assert 0 == ended.value.code
    assert "--sort-by" in capsys.readouterr().out
