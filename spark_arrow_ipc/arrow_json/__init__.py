"""Arrow's integration JSON, the format for tests between implementations.

`types` alone is used by Spark's workers, to note Arrow types in field metadata: what reads and writes whole documents
is imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_arrow_ipc.arrow_json.reader import ArrowJson, read
    from spark_arrow_ipc.arrow_json.writer import to_json

__all__ = ["ArrowJson", "read", "to_json"]

_LATE = {
    "ArrowJson": "spark_arrow_ipc.arrow_json.reader",
    "read": "spark_arrow_ipc.arrow_json.reader",
    "to_json": "spark_arrow_ipc.arrow_json.writer",
}
"""Public name -> its module."""


def __getattr__(name: str) -> Any:
    """Return a public name on its first use."""
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATE[name]), name)
