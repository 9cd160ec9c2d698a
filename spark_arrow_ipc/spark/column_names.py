"""How a name stands for a column: ``dataset/column_names.py`` knows, and `spark/` asks it through here."""

from __future__ import annotations

from spark_arrow_ipc.dataset.column_names import find_columns

__all__ = ["find_columns"]
