"""Mends that the state machine misses when they are taken out. All of them: python tests/faults/mutations.py."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import mutations
import table_mutations


@pytest.mark.parametrize("mutation", mutations.MUTATIONS, ids=[mutation[0] for mutation in mutations.MUTATIONS])
def test_a_mutation_takes_out_what_is_there(tmp_path, mutation):
    _, path, text, other = mutation
    mutations.mutated(tmp_path, path, text, other)
    changed = (tmp_path / mutations.PACKAGE / "dataset" / path).read_text()
    compile(changed, path, "exec")


@pytest.mark.parametrize("mutation", table_mutations.MUTATIONS.values(), ids=table_mutations.MUTATIONS)
def test_a_mutation_of_the_table_takes_out_what_is_there(mutation):
    text = (table_mutations.ROOT / "spark_arrow_ipc" / "table" / mutation.module).read_text()
    changed = text.replace(mutation.before, mutation.after)
    assert text != changed
    compile(changed, mutation.module, "exec")


@pytest.mark.nightly
@pytest.mark.parametrize("row", ["D1", "D14"])
def test_a_mend_that_is_taken_out_is_missed(monkeypatch, row):
    monkeypatch.setattr(sys, "argv", ["mutations.py", "--only", f"{row} "])
    assert 0 == mutations.main()
