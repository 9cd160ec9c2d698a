"""What goes to workers with a function, and what is refused by its name."""

import sys
import threading

import pytest
from pyspark import cloudpickle
from pyspark.accumulators import INT_ACCUMULATOR_PARAM, Accumulator
from pyspark.core.broadcast import Broadcast

from spark_arrow_ipc.errors import FunctionError
from spark_arrow_ipc.spark.functions.user_function import MOST_NBYTES, ShippedFunction, ship

cloudpickle.register_pickle_by_value(sys.modules[__name__])

FACTOR = 3


def times(batches):
    return (batch * FACTOR for batch in batches)


class Scale:
    def __init__(self, by):
        self.by = by

    def __call__(self, batches):
        return (batch * self.by for batch in batches)


@pytest.mark.parametrize("function", [times, lambda batches: (b * FACTOR for b in batches), Scale(3)])
def test_a_function_goes_with_its_globals_and_state(function):
    assert [3, 6] == list(ship(function).load()([1, 2]))


def test_the_digest_is_that_of_the_code_and_its_values():
    assert ship(times).digest == ship(times).digest
    assert ship(Scale(1)).digest != ship(Scale(2)).digest
    assert 32 == len(ship(times).digest)


@pytest.mark.slow
def test_the_limit_counts_all_bytes():
    room = MOST_NBYTES - len(ship(Scale(b"")).pickled) - 1000
    assert ship(Scale(b"x" * room)).pickled
    with pytest.raises(
        FunctionError, match="the values that it uses are larger than 16 MiB; put large values into a file"
    ):
        ship(Scale(b"x" * MOST_NBYTES))
    with pytest.raises(FunctionError, match="larger than 16 MiB"):
        ship(Scale([b"%d" % i for i in range(2_000_000)]))


broadcast = Broadcast.__new__(Broadcast)
counter = Accumulator.__new__(Accumulator)
counter.accum_param = INT_ACCUMULATOR_PARAM


def looks_up(batches):
    return broadcast.value


def test_broadcasts_and_accumulators_are_refused_by_name():
    inside = counter
    with pytest.raises(FunctionError, match="the function looks_up uses broadcast, a broadcast of the SparkContext"):
        ship(looks_up)
    with pytest.raises(FunctionError, match=r"uses inside, an accumulator of the SparkContext.*yield what you count"):
        ship(lambda batches: inside.add(1))
    with pytest.raises(FunctionError, match="the function Scale uses an accumulator"):
        ship(Scale([{"deep": inside}]))


def test_what_cannot_be_pickled_is_said():
    lock = threading.Lock()
    with pytest.raises(FunctionError, match=r"cannot be pickled: .*lock.*make files, locks and connections inside"):
        ship(lambda batches: lock.acquire())
    with pytest.raises(FunctionError, match=r"expected a function from an iterator .* found str"):
        ship("late")


def test_a_module_that_workers_lack_is_named():
    shipped = ShippedFunction("times", b"cno_such_module\nf\n.")
    with pytest.raises(
        FunctionError, match=r"the function times needs a module .* No module named 'no_such_module'; install"
    ):
        shipped.load()
