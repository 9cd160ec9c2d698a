"""Options of a read whose rows are written again: no value changes and no row is left out without an error."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.ipc.concatenated_streams import ConcatenatedStreams
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.options.values import ExtensionTypes, Nanoseconds, TimestampsWithOffset
from spark_arrow_ipc.spark.types.spark_annotation import find_annotation


def as_stored(reading: ReadOptions, schemas: Iterable[Schema], names: Collection[str] = ()) -> ReadOptions:
    """Return options that read values in their stored form, except for the user's options `names`."""
    reading = replace(reading, is_exact=True)
    if "timestampswithoffset" not in names:
        reading = replace(reading, timestamps_with_offset=TimestampsWithOffset.STRUCT)
    if "nanoseconds" not in names:
        reading = replace(reading, nanoseconds=Nanoseconds.LONG)
    if "extensiontypes" in names or any(find_annotation(schema.custom_metadata) is not None for schema in schemas):
        return reading
    return replace(reading, extension_types=ExtensionTypes.STORAGE)


def without_rounding(reading: ReadOptions, names: Collection[str]) -> ReadOptions:
    """Return options with which a value finer than Spark's types is an error."""
    # A rewrite would round it permanently.
    return reading if "nanoseconds" in names else replace(reading, nanoseconds=Nanoseconds.ERROR)


def without_skipping(reading: ReadOptions) -> ReadOptions:
    """Return options with which a second stream in a file is an error, and not only a warning."""
    # Its rows would be lost when the file is replaced.
    return replace(reading, concatenated_streams=ConcatenatedStreams.ERROR)


def exact_reading(reading: ReadOptions, names: Collection[str]) -> ReadOptions:
    """Return options of a read in Spark's types that changes no value or raises; `names` are the user's in lower case."""
    return without_skipping(without_rounding(replace(reading, is_exact=True), names))
