"""`ship`: pickle a user's function for workers, within limits, and refuse objects that workers cannot use.

The function is pickled by value with PySpark's cloudpickle, once, on the driver. Spark's planners pass the bytes on to
the tasks, where `ShippedFunction.load` restores the function. The pickler checks each object: broadcasts and accumulators
of a SparkContext would arrive without their values, and sessions and DataFrames exist only on the driver. It stops at
the limit, before a large closure is complete.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.errors import ArrowIpcError, FunctionError, SchemaMismatchError
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.bridge import PyArrowBatch
from spark_arrow_ipc.spark.convert import BatchConverter, compile_converter, expand, expanded_type
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.options.values import MissingColumns, Nanoseconds

BatchFunction = Callable[[Iterator[PyArrowBatch]], Iterator[PyArrowBatch]]
"""A function for ``mapInArrow``."""

MOST_NBYTES: Final = 16 << 20
"""Most bytes of a pickled function. Spark has several copies, in its heap and in each task; 32 MiB ended JVMs."""

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
"""By module and class of objects that workers cannot use: their description, and the alternative."""


@dataclass(frozen=True, slots=True)
class ShippedFunction:
    """A pickled function."""

    name: str  # for errors
    pickled: bytes

    @property
    def digest(self) -> str:
        """A hash of the pickled function, as 32 hexadecimal digits."""
        return hashlib.blake2b(self.pickled, digest_size=16).hexdigest()

    def load(self) -> BatchFunction:
        """Restore the function in a worker."""
        try:
            function: BatchFunction = cloudpickle.loads(self.pickled)
        except ImportError as error:
            raise FunctionError(
                f"the function {self.name} needs a module that this worker cannot import: {error}; "
                "install it where the executors run, or send it there with addPyFile or --py-files"
            ) from error
        return function


def ship(function: BatchFunction) -> ShippedFunction:
    """Pickle a function for the workers."""
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
        # Modules are not imported for this: an object of a class means that its module is loaded.
        for (module, class_name), words in _USE_INSTEAD.items():
            if (class_ := getattr(sys.modules.get(module), class_name, None)) is not None:
                self._refused[class_] = words
        self._classes = tuple(self._refused)

    def persistent_id(self, value: object) -> None:
        """Refuse an object that is about to be pickled, if only the driver has it."""
        # pickle calls this for each object.
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


# `OutputCheck`: convert the batches of a user's function to the promised schema, or name the column that differs.
#
# Spark compares only the first batch of a task, and a later one of another type breaks the JVM. So each batch is converted
# by ``spark/convert`` as batches of files are: columns are found by name, types that widen without loss are converted
# (`large_string`, views, dictionaries, smaller integers), and other types are errors that name the column. The option
# `nanoseconds` of the read applies too. The plan is compiled once for consecutive batches of one schema.
_OPTIONS: Final = ReadOptions(missing_columns=MissingColumns.ERROR)


class OutputCheck:
    """Converts the batches that the function `name` yields to the schema that was promised to Spark."""

    def __init__(self, schema: s.StructType, name: str, nanoseconds: Nanoseconds = Nanoseconds.FLOOR) -> None:
        self._options = replace(_OPTIONS, nanoseconds=nanoseconds)
        self._schema = schema
        self._name = name
        self._of: pa.Schema | None = None
        self._plan: BatchConverter | None = None
        self._number = -1

    def not_iterable(self, result: object) -> FunctionError:
        """Return the error for a function whose result is not an iterator."""
        return FunctionError(
            f"the function {self._name} must return an iterator of pyarrow.RecordBatch, and returned {_describe(result)}"
        )

    def convert(self, result: object) -> Iterator[pa.RecordBatch]:
        """Yield a batch of the function in the promised schema, in pieces of about 64 MiB."""
        self._number += 1
        if not isinstance(result, pa.RecordBatch):
            raise FunctionError(
                f"the function {self._name} must yield pyarrow.RecordBatch, and yielded {_describe(result)}"
            )
        try:
            plan = self._plan_for(result.schema)
            yield from plan.convert(bridge.batch_from_pyarrow(result))
        except ArrowIpcError as error:
            error.asked_by = f"batch {self._number} of the function {self._name}"
            raise

    def _plan_for(self, schema: pa.Schema) -> BatchConverter:
        if self._plan is None or not schema.equals(self._of):
            # The plan would ignore columns that were not promised, and a function that yields one has a mistake.
            promised = {name.casefold() for name in self._schema.names}
            others = [name for name in schema.names if name.casefold() not in promised]
            if others:
                raise SchemaMismatchError(
                    f"the schema that was given has no such column; it has {', '.join(self._schema.names)}",
                    field_path=others[0],
                )
            self._plan = compile_converter(bridge.schema_from_pyarrow(schema), self._schema, self._options)
            self._of = schema
        return self._plan


def _describe(result: object) -> str:
    """Return the type of a result that is not a batch, for an error, with what to do about a table."""
    kind = type(result)
    name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.").replace("pyarrow.lib.", "pyarrow.")
    return f"{name}; yield each of its to_batches()" if isinstance(result, pa.Table) else name


# `in_zone`: label the timestamps of batches with a time zone.
#
# A Python data source gives Spark timestamps in UTC, and ``DataFrame.mapInArrow`` gives functions timestamps in the
# session's zone. The instants are the same numbers, but `hour` and `strftime` differ. So the input of a function
# has the session's zone here too. The zone is part of the type, so no value is copied. (pyarrow's cast refuses a null
# struct with a null in a field that is NOT NULL, as variants have.)
def in_zone(batches: Iterable[pa.RecordBatch], zone: str) -> Iterator[pa.RecordBatch]:
    """Yield the batches with `zone` as the zone of all timestamps that have one; dictionaries of these are expanded."""
    was: Any = None
    target: Any = None
    changed: list[int] = []
    for batch in batches:
        if was is None or not batch.schema.equals(was, check_metadata=True):
            was = batch.schema
            target = pa.schema([field.with_type(_type_in_zone(field.type, zone)) for field in was], was.metadata)
            changed = [i for i, field in enumerate(was) if target.field(i).type != field.type]
        if not changed:
            yield batch
            continue
        columns = batch.columns
        for i in changed:
            type_ = bridge.type_from_pyarrow(target.field(i).type)
            columns[i] = bridge.to_pyarrow(_retype(bridge.from_pyarrow(expand(columns[i])), type_))
        yield pa.RecordBatch.from_arrays(columns, schema=target)


def _retype(array: Array, type_: t.DataType) -> Array:
    children = tuple(_retype(child, field.type) for child, field in zip(array.children, type_.children, strict=True))
    return replace(array, type=type_, children=children)


def _type_in_zone(type_: pa.DataType, zone: str) -> pa.DataType:
    plain = expanded_type(type_)
    labelled = _label_zone(plain, zone)
    return type_ if labelled == plain else labelled


def _label_zone(type_: pa.DataType, zone: str) -> pa.DataType:
    """Return a type with another zone in its timestamps."""
    if pa.types.is_timestamp(type_):
        return type_ if type_.tz is None else pa.timestamp(type_.unit, zone)
    if pa.types.is_list(type_):
        return pa.list_(_field(type_.value_field, zone))
    if pa.types.is_map(type_):
        return pa.map_(_field(type_.key_field, zone), _field(type_.item_field, zone))
    if pa.types.is_struct(type_):
        return pa.struct([_field(field, zone) for field in type_])
    return type_


def _field(field: pa.Field, zone: str) -> pa.Field:
    return field.with_type(_label_zone(field.type, zone))
