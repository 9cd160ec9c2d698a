"""``arrowipc head``: print the first rows of files; `cat` with a limit."""

from __future__ import annotations

import argparse

from spark_arrow_ipc.cli import cat
from spark_arrow_ipc.cli.shared import inputs
from spark_arrow_ipc.cli.shared.print_rows import add_format_argument
from spark_arrow_ipc.cli.shared.rows import add_number_argument, add_row_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc head``."""
    inputs.add_path_arguments(parser)
    add_format_argument(parser)
    add_row_arguments(parser)
    add_number_argument(parser, dest="limit")


def run(arguments: argparse.Namespace) -> int:
    """Print the first rows, in the order of the files."""
    return cat.run(arguments)
