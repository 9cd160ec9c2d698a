"""Modes of a write, by the names that options and records use."""

from spark_arrow_ipc.dataset.write import IfExists, WriteMode


def test_values_are_those_of_records_and_options():
    assert ["append", "overwrite", "dynamic", "rewrite", "delete", "update", "merge"] == [
        mode.value for mode in WriteMode
    ]
    assert ["append", "error", "ignore"] == [str(value) for value in IfExists]
    assert IfExists.ERROR is IfExists("error")
