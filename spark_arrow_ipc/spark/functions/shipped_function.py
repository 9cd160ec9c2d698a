"""`ship`: pickle a user's function for workers, within limits, and refuse what cannot go with it.

Strategy
--------
The function is pickled by value with PySpark's cloudpickle, once, on the driver. The bytes then travel unread through
Spark's planners to the tasks, where `ShippedFunction.load` makes the function. A pickler of our own looks at each
object on the way: broadcasts and accumulators of a SparkContext would arrive there without their values, and sessions
and DataFrames exist on the driver only. The sink of the pickler stops at the limit, before a large closure is complete.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark import cloudpickle

from spark_arrow_ipc.errors import FunctionError
from spark_arrow_ipc.spark.bridge import PyArrowBatch

BatchFunction = Callable[[Iterator[PyArrowBatch]], Iterator[PyArrowBatch]]
"""A function for ``mapInArrow``."""

MOST_NBYTES: Final = 16 << 20
"""Most bytes of a pickled function. Spark holds it several times, in its heap and in each task; 32 MiB ended JVMs."""

_USE_INSTEAD: Final[Mapping[tuple[str, str], str]] = {
    ("pyspark.core.broadcast", "Broadcast"): (
        "a broadcast of the SparkContext, whose value does not reach a Python data source; "
        "use the value itself if it is small, or a file that each worker reads"
    ),
    ("pyspark.accumulators", "Accumulator"): (
        "an accumulator of the SparkContext, whose sums a Python data source cannot send back; "
        "yield what you count as a column, and sum that column"
    ),
    ("pyspark.core.context", "SparkContext"): "the SparkContext, which exists on the driver only",
    ("pyspark.core.rdd", "RDD"): "an RDD, which exists on the driver only; collect its rows first",
    ("pyspark.sql.session", "SparkSession"): "the SparkSession, which exists on the driver only",
    ("pyspark.sql.connect.session", "SparkSession"): "the SparkSession, which exists on the driver only",
    ("pyspark.sql.dataframe", "DataFrame"): "a DataFrame, which exists on the driver only; collect its rows first",
}
"""By module and class: what an object that a worker cannot use is, and what to use instead."""


@dataclass(frozen=True, slots=True)
class ShippedFunction:
    """A pickled function.

    Parameters
    ----------
    name
        Of the function, for errors.
    pickled
        Its bytes.
    """

    name: str
    pickled: bytes

    @property
    def digest(self) -> str:
        """A hash of the function and all that it holds, as 32 hexadecimal digits."""
        return hashlib.blake2b(self.pickled, digest_size=16).hexdigest()

    def load(self) -> BatchFunction:
        """Make the function, in a worker.

        Raises
        ------
        FunctionError
            The worker cannot import a module that the function needs.
        """
        try:
            function: BatchFunction = cloudpickle.loads(self.pickled)
        except ImportError as error:
            raise FunctionError(
                f"the function {self.name} needs a module that this worker cannot import: {error}; "
                "install it where the executors run, or send it there with addPyFile or --py-files"
            ) from error
        return function


def ship(function: BatchFunction) -> ShippedFunction:
    """Pickle a function for the workers.

    Raises
    ------
    FunctionError
        It is not callable, cannot be pickled, is larger than `MOST_NBYTES`, or holds an object that only the driver
        has.
    """
    if not callable(function):
        raise FunctionError(
            f"expected a function from an iterator of pyarrow.RecordBatch to one, found {type(function).__name__}"
        )
    name = str(getattr(function, "__qualname__", type(function).__name__))
    sink = _Sink(name)
    try:
        _Pickler(sink, function, name).dump(function)
    except FunctionError:
        raise
    except Exception as error:
        raise FunctionError(
            f"the function {name} cannot be sent to the workers, as something that it uses cannot be pickled: {error}; "
            "make files, locks and connections inside the function"
        ) from error
    return ShippedFunction(name, b"".join(sink.parts))


class _Sink:
    """Collects the pickle, up to the limit."""

    def __init__(self, name: str) -> None:
        self.parts: list[bytes] = []
        self._name = name
        self._nbytes = 0

    def write(self, data: Any) -> int:
        part = bytes(data)
        self._nbytes += len(part)
        if self._nbytes > MOST_NBYTES:
            raise FunctionError(
                f"the function {self._name} and the values that it uses are larger than {MOST_NBYTES >> 20} MiB; "
                "put large values into a file that each worker reads once, and let the function open it"
            )
        self.parts.append(part)
        return len(part)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # PySpark is not typed for mypy's strict mode here
    """Pickles a function, and refuses objects that only the driver has."""

    def __init__(self, sink: _Sink, function: BatchFunction, name: str) -> None:
        super().__init__(sink)
        self._function = function
        self._name = name
        self._refused: dict[type, str] = {}
        # A class that nobody has imported has no objects.
        for (module, class_name), words in _USE_INSTEAD.items():
            if (class_ := getattr(sys.modules.get(module), class_name, None)) is not None:
                self._refused[class_] = words
        self._classes = tuple(self._refused)

    def persistent_id(self, value: object) -> None:
        """Look at an object that is about to be pickled; pickle calls this for each."""
        if isinstance(value, self._classes):
            words = next(words for class_, words in self._refused.items() if isinstance(value, class_))
            raise FunctionError(f"the function {self._name} uses {_name_of(value, self._function)}{words}")


def _name_of(value: object, function: BatchFunction) -> str:
    """Return the name by which a function refers to a value, followed by a comma; an empty string if it has none."""
    if not inspect.isfunction(function):
        return ""
    variables = inspect.getclosurevars(function)
    named = {**variables.globals, **variables.nonlocals}
    name = next((name for name, other in named.items() if other is value), None)
    return "" if name is None else f"{name}, "
