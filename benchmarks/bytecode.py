"""Where the benchmarks import the package from: as installed packages are, with its bytecode beside it.

Where Python must not write bytecode (``PYTHONDONTWRITEBYTECODE``), every Python process of Spark would compile the
package anew, which takes longer than most of the jobs and is no part of them. A copy is compiled then, once.
"""

from __future__ import annotations

import compileall
import shutil
import sys
import tempfile
from pathlib import Path

_COPY = tempfile.TemporaryDirectory(prefix="benchmarks-package-")
"""Removed when this process ends."""

_NAMES = ("spark_arrow_ipc", "pyspark_arrowipc.py", "benchmarks/contenders.py")


def import_paths(root: Path) -> list[str]:
    """Return the directories of the package and of the contenders, for ``PYTHONPATH``."""
    if not sys.dont_write_bytecode:
        return [str(root / "benchmarks"), str(root)]
    target = Path(_COPY.name)
    for name in _NAMES:
        source, copy = root / name, target / Path(name).name
        if source.is_dir():
            shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy)
    compileall.compile_dir(target, quiet=1)
    return [str(target)]
