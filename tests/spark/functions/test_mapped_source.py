"""The class that is made for a function: what it holds, its name, and that it travels by value."""

import pickle

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import types as s

from spark_arrow_ipc.spark.functions.map_in_arrow import FunctionMapping, MappedReader, mapping_source
from spark_arrow_ipc.spark.functions.user_function import ship

SCHEMA = s.StructType([s.StructField("a", s.LongType())])


def mapping(function=lambda batches: batches, output=SCHEMA, zone="UTC", asked=None):
    return FunctionMapping(ship(function), output, zone, asked)


def test_the_name_is_that_of_all_that_matters():
    others = [mapping(lambda _: []), mapping(output=s.StructType()), mapping(zone="Asia/Tokyo"), mapping(asked=SCHEMA)]
    names = {each.name for each in [mapping(), *others]}
    assert 5 == len(names)
    assert all(name.startswith("arrowipc_map_") and len(name) == 45 for name in names)


def test_the_class_goes_by_value_and_holds_the_mapping_alone():
    made = mapping_source(mapping())
    again = cloudpickle.loads(cloudpickle.dumps(made))
    assert made.mapping == again.mapping
    assert made.name() == again.name()
    assert "mapping" in vars(again)
    assert len(cloudpickle.dumps(made)) < len(made.mapping.function.pickled) + 2000
    assert pickle.dumps(MappedReader(None, made.mapping)), "readers need no cloudpickle"


class Inner:
    def __init__(self, count):
        self.count, self.closed = count, False

    def partitions(self):
        return ["p"]

    def read(self, partition):
        try:
            for i in range(self.count):
                yield pa.record_batch({"a": [i]})
        finally:
            self.closed = True


@pytest.mark.parametrize("take", [0, 1, 5])
def test_the_files_are_closed_when_the_function_ends_early(take):
    inner = Inner(5)

    def some(batches):
        return [next(batches) for _ in range(take)]

    made = list(MappedReader(inner, mapping(some)).read(None))
    assert take == len(made)
    assert inner.closed or take == 0


def test_the_plan_is_that_of_the_read():
    assert ["p"] == MappedReader(Inner(0), mapping()).partitions()
