"""The module by which Spark discovers the ``arrowipc`` data source.

Strategy
--------
Spark imports every top-level module whose name begins with ``pyspark_``, in every job of an environment that
uses any Python data source, and registers its `DefaultSource`. So importing this module costs nothing and
never fails: the package is imported only when `DefaultSource` is asked for. Where it cannot be imported (a missing numpy, say), a
stand-in of the same name takes its place, because an exception here would end Spark's whole lookup, and with it
the data sources of other packages. The stand-in raises with the reason when ``arrowipc`` is first used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSource

__all__ = ["DefaultSource"]  # noqa: F822 - `__getattr__` defines it


def __getattr__(name: str) -> type[DataSource]:
    """Return the data source class as `DefaultSource`; there is no other attribute."""
    if name != "DefaultSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource
    except Exception as error:  # noqa: BLE001 - any error is raised when arrowipc is used, and not before
        return _stand_in(f"{type(error).__name__}: {error}")
    return ArrowIpcDataSource


def _stand_in(reason: str) -> type[DataSource]:
    try:
        from pyspark.sql.datasource import DataSource
    except ImportError:
        # This Spark has no Python data sources: hasattr() must return False.
        raise AttributeError(f"module {__name__!r} has no DefaultSource without pyspark 4.1 or later") from None

    class UnavailableArrowIpc(DataSource):  # type: ignore[misc]  # mypy does not look into pyspark
        """The stand-in for ``arrowipc`` where the package cannot be imported."""

        why = reason

        @classmethod
        def name(cls) -> str:
            """Return the short name for ``format(...)``."""
            return "arrowipc"

        def __init__(self, options: dict[str, str]) -> None:
            super().__init__(options)
            import os
            import sys

            program = getattr(sys.modules["__main__"], "__spec__", None)
            if program is not None and program.name.startswith("pyspark."):
                # Spark then shows the sentence alone, without frames, of which none are the person's.
                os.environ.setdefault("SPARK_HIDE_TRACEBACK", "1")
            raise ImportError(
                f"the data source 'arrowipc' is installed, but cannot be imported here: {self.why}. "
                "Run 'arrowipc doctor' with this Python; it names the command that fixes it."
            )

    return UnavailableArrowIpc
