"""Each rule of the table that `table_mutations` takes out is there. All of them: python tests/faults/table_mutations.py."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import table_mutations


@pytest.mark.parametrize("mutation", table_mutations.MUTATIONS.values(), ids=table_mutations.MUTATIONS)
def test_a_mutation_takes_out_what_is_there(mutation):
    text = (table_mutations.ROOT / "spark_arrow_ipc" / "table" / mutation.module).read_text()
    changed = text.replace(mutation.before, mutation.after)
    assert text != changed
    compile(changed, mutation.module, "exec")


def test_the_directed_tests_are_there():
    assert [] == [name for name in table_mutations.TESTS if not (table_mutations.ROOT / name).is_file()]


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["the fence", "names are synced"])
def test_a_rule_that_is_taken_out_is_missed(monkeypatch, name):
    monkeypatch.setattr(sys, "argv", ["table_mutations.py", "--only", name])
    assert 0 == table_mutations.main()
