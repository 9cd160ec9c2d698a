"""`vector_element`: which Arrow types are vectors, for the options `vectors`."""

from __future__ import annotations

from spark_arrow_ipc.arrow import types as t


def vector_element(type_: t.DataType) -> t.Int | t.FloatingPoint | None:
    """Return the type of the numbers of a list that may be one binary value in Spark; None for other types.

    Such lists are List, LargeList and FixedSizeList of whole numbers or floats.
    """
    if not isinstance(type_, t.List | t.LargeList | t.FixedSizeList):
        return None
    element = type_.value.type
    return element if isinstance(element, t.Int | t.FloatingPoint) else None
