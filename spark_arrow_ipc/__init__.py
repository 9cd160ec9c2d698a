"""Apache Arrow IPC files as a data source of Apache Spark, and their codec.

Importing this package imports nothing else: `ipc` (numpy, no Spark) and the functions for Spark (PySpark) are imported
on first use, so that each works in an environment without the dependencies of the other.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_arrow_ipc import ipc
    from spark_arrow_ipc.dataset.statistics.read import statistics
    from spark_arrow_ipc.spark.functions import vectors
    from spark_arrow_ipc.spark.functions.aggregate import aggregate, count
    from spark_arrow_ipc.spark.functions.map_in_arrow import map_in_arrow
    from spark_arrow_ipc.spark.options import typed as options
    from spark_arrow_ipc.spark.registration import push_down, register
    from spark_arrow_ipc.spark.rewrite.compact import compact
    from spark_arrow_ipc.spark.rewrite.ingest import ingest
    from spark_arrow_ipc.spark.rewrite.rewrite import rewrite

__all__ = [
    "__version__", "aggregate", "compact", "count", "ingest", "ipc", "map_in_arrow", "options", "push_down", "register", "rewrite",
    "statistics", "vectors",
]  # fmt: skip

__version__ = "0.1.0"

# Public name -> its module and attribute (None: the module itself)
_LATE = {
    "aggregate": ("spark_arrow_ipc.spark.functions.aggregate", "aggregate"),
    "compact": ("spark_arrow_ipc.spark.rewrite.compact", "compact"),
    "count": ("spark_arrow_ipc.spark.functions.aggregate", "count"),
    "ingest": ("spark_arrow_ipc.spark.rewrite.ingest", "ingest"),
    "ipc": ("spark_arrow_ipc.ipc", None),
    "map_in_arrow": ("spark_arrow_ipc.spark.functions.map_in_arrow", "map_in_arrow"),
    "options": ("spark_arrow_ipc.spark.options.typed", None),
    "push_down": ("spark_arrow_ipc.spark.registration", "push_down"),
    "statistics": ("spark_arrow_ipc.dataset.statistics.read", "statistics"),
    "vectors": ("spark_arrow_ipc.spark.functions.vectors", None),
    "rewrite": ("spark_arrow_ipc.spark.rewrite.rewrite", "rewrite"),
    "register": ("spark_arrow_ipc.spark.registration", "register"),
}


def __getattr__(name: str) -> Any:
    """Return a public name on its first use."""
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module_name, attribute = _LATE[name]
    module = import_module(module_name)
    return module if attribute is None else getattr(module, attribute)


def __dir__() -> list[str]:
    return __all__
