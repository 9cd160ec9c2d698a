"""``arrowipc count``: count the rows of files, by their headers alone."""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass

from spark_arrow_ipc import ipc
from spark_arrow_ipc.cli.shared import inputs, render
from spark_arrow_ipc.cli.shared.inputs import Input
from spark_arrow_ipc.errors import ArrowIpcError

__all__ = ["Count", "add_arguments", "count", "run"]


@dataclass(frozen=True, slots=True)
class Count:
    """The number of rows and record batches of one file."""

    path: str
    rows: int
    record_batches: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc count``."""
    inputs.add_path_arguments(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object a line for each file, and no total")


def run(arguments: argparse.Namespace) -> int:
    """Print the rows of each file and of all; return 1 if one could not be counted."""
    rows = counted = 0
    errors: list[ArrowIpcError | OSError] = []

    def refused(_: str, error: ArrowIpcError | OSError) -> None:
        inputs.complain(error)
        errors.append(error)

    for given in inputs.each_input(arguments.paths, recursive=arguments.recursive, refused=refused):
        try:
            found = count(given)
        except (ArrowIpcError, OSError) as error:
            refused(given.path, error)
            continue
        rows, counted = rows + found.rows, counted + 1
        print(render.json_line(asdict(found)) if arguments.json else f"{found.rows}\t{render.printable(given.path)}")
    if counted > 1 and not arguments.json:
        print(f"{rows}\ttotal")
    return 1 if errors else 0


def count(given: Input) -> Count:
    """Count the rows of a file or stream. Reads only the headers of record batches.

    Raises
    ------
    ArrowIpcError
        It is not Arrow IPC, or its metadata is broken or truncated.
    OSError
        The file cannot be read.
    """
    with ipc.open(given.openable(), columns=[]) as reader:
        if isinstance(reader, ipc.FileReader):
            headers = (reader.read_header(i).length for i in range(len(reader)))
        else:
            headers = (batch.rows for batch in reader.read_headers())
        rows = batches = 0
        for length in headers:
            rows, batches = rows + length, batches + 1
    return Count(given.path, rows, batches)
