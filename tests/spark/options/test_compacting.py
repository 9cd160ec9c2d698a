"""A compaction takes the options that change neither rows nor types."""

import pytest

from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark.options.declare import Use
from spark_arrow_ipc.spark.options.options import check_in_place, of_compactions


def test_options_of_both_sides_are_there_once():
    names = [option.name for option in of_compactions()]
    assert len(names) == len(set(names))
    assert {"pathGlobFilter", "compression", "storage.*", "retention"} <= set(names)
    assert {"path", "where", "columns", "partitionBy", "vectors", "nanoseconds"}.isdisjoint(names)


def test_names_match_in_any_case_and_with_keys():
    check_in_place(["PATHGLOBFILTER", "compression", "storage.region", "metadata.owner"], Use.COMPACTION)


@pytest.mark.parametrize("name", ["where", "vectors", "tail", "nonsense"])
def test_others_are_refused_by_name(name):
    with pytest.raises(OptionError, match=f"the option {name} could change rows, types or partitions"):
        check_in_place(["compression", name], Use.COMPACTION)
