"""How the message reads when a Python value does not fit an Arrow type."""

from __future__ import annotations

from spark_arrow_ipc.arrow.types import DataType

_SHOWN = 80
"""Characters of a value's repr that a message shows."""


def unfit(wanted: str, type_: DataType, value: object) -> str:
    """Return ``expected <wanted> for <type>, found <value>``; a long value is cut."""
    text = repr(value)
    return f"expected {wanted} for {type_}, found {text if len(text) <= _SHOWN else text[: _SHOWN - 3] + '...'}"
