"""``arrowipc count``: count the rows of files, by their headers alone."""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from typing import Final

from spark_arrow_ipc import ipc
from spark_arrow_ipc.cli.shared import inputs, render, tensors
from spark_arrow_ipc.cli.shared.inputs import Input
from spark_arrow_ipc.cli.shared.rows import Chosen
from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.errors import ArrowIpcError, FileChangedError, NoTableError, printable

_ATTEMPTS: Final = 5
"""Attempts to count a directory whose files are replaced meanwhile."""


@dataclass(frozen=True, slots=True)
class Count:
    """The number of rows and record batches of one file, or of cells and tensors."""

    path: str
    rows: int
    record_batches: int
    tensors: int = 0


def count_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc count``."""
    inputs.add_path_arguments(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object a line for each file, and no total")


def run_count(arguments: argparse.Namespace) -> int:
    """Print the rows of each file and of all; return 1 if one could not be counted.

    Nothing is printed before all files are counted: where a writer replaces files meanwhile, they are listed again.
    """
    earlier: dict[DataFile, Count] = {}
    for _ in range(_ATTEMPTS):
        try:
            counts, errors = _count_all(arguments, earlier)
        except FileChangedError as error:
            changed = error
            continue
        for refusal in errors:
            inputs.complain(refusal)
        for one in counts:
            print(render.json_line(asdict(one)) if arguments.json else f"{one.rows}\t{printable(one.path)}")
        if len(counts) > 1 and not arguments.json:
            print(f"{sum(one.rows for one in counts)}\ttotal")
        return 1 if errors else 0
    raise changed


def _count_all(
    arguments: argparse.Namespace, earlier: dict[DataFile, Count]
) -> tuple[list[Count], list[ArrowIpcError | OSError]]:
    """Count the files that are there now; `earlier` has those of earlier attempts."""
    counts: list[Count] = []
    errors: list[ArrowIpcError | OSError] = []

    def refused(_: str, error: ArrowIpcError | OSError) -> None:
        errors.append(error)

    for source in inputs.named_by(arguments, refused=refused):
        try:
            result = earlier.get(source.file) if source.file is not None else None
            if result is None:
                result = count(source)
        except FileChangedError:
            raise
        except (ArrowIpcError, OSError) as error:
            errors.append(error)
            continue
        if source.file is not None:
            earlier[source.file] = result
        counts.append(result)
    return counts, errors


def count(source: Input) -> Count:
    """Count the rows of a file or stream, or the cells of tensors. Reads only headers."""
    try:
        return _count_rows(source)
    except NoTableError:
        if not tensors.holds_tensors(source):
            raise
    with tensors.open_tensors(source) as stored:
        cells = list(map(tensors.count_cells, stored))
    return Count(source.path, sum(cells), 0, len(cells))


def _count_rows(source: Input) -> Count:
    if source.is_served:
        with Chosen(()).open_rows(source) as served:
            lengths = [batch.num_rows for batch in served.batches]
        return Count(source.path, sum(lengths), len(lengths))
    with ipc.open(source.openable(), columns=[]) as reader:
        rows = batches = 0
        for batch in reader.read_headers():
            rows, batches = rows + batch.rows, batches + 1
    return Count(source.path, rows, batches)
