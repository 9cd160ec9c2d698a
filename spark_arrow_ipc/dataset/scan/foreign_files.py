"""Find files at planning that are no Arrow files, where their names raise the suspicion.

Strategy
--------
Planning opens few files, so a directory that holds other files beside those of Arrow, such as the ``.json`` files of a
Hugging Face data set, would fail in its tasks. A file whose name ends like no Arrow file's is therefore opened here, one
of each ending. Names prove nothing, so that only its first bytes are held against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final

from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.scan.error_policy import STRICT, ErrorPolicy, advised
from spark_arrow_ipc.dataset.scan.outline import Outlines
from spark_arrow_ipc.errors import NotArrowError
from spark_arrow_ipc.ipc.constants import ENDINGS
from spark_arrow_ipc.storage.paths import name_of

_USUAL: Final = tuple(f".{ending}" for ending in ENDINGS)

_MOST_OPENED: Final = 8
"""Most files that are opened. Names such as ``part.0``, ``part.1`` have an ending each."""


def check_no_foreign_files(files: Sequence[DataFile], outlines: Outlines, policy: ErrorPolicy = STRICT) -> None:
    """Raise if a file is not Arrow by its first bytes; opens one file of each unusual ending, at most 8.

    Other errors of a file, and those that the policy skips, are left to the task that reads it.
    """
    unusual: dict[str, DataFile] = {}
    for file in files:
        if file.path.endswith(_USUAL):  # most of 100,000 files, at a third of the time
            continue
        _, dot, ending = name_of(file.path).rpartition(".")
        if ending.lower() not in ENDINGS or not dot:
            unusual.setdefault(ending if dot else "", file)
    opened = list(islice(unusual.values(), _MOST_OPENED))
    outlines.read_all(opened)
    for file in opened:
        error = outlines.read(file).error
        if isinstance(error, NotArrowError) and not policy.skips(error):
            raise advised(error) if len(files) > 1 else error
