"""``arrowipc layout``: draw where the bytes of a file lie. Reads headers, and 8 bytes of compressed buffers."""

from __future__ import annotations

import argparse

from spark_arrow_ipc.cli.shared import files, inputs, render
from spark_arrow_ipc.cli.shared.inputs import STDIN
from spark_arrow_ipc.cli.shared.layout_bytes import read_layout
from spark_arrow_ipc.cli.shared.layout_picture import draw, page
from spark_arrow_ipc.errors import OptionError, printable

_ENDINGS = {"svg": "svg", "html": "html", "htm": "html"}
"""The formats of names."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc layout``."""
    inputs.add_path_arguments(parser)
    parser.add_argument(
        "target", metavar="TARGET", help="the picture to write: .svg, or .html; - writes HTML to stdout"
    )
    files.add_force_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the picture of one file.

    Raises
    ------
    OptionError
        The paths stand for no file, or for several.
    """
    target = arguments.target
    given = list(inputs.each_input(arguments.paths, recursive=arguments.recursive, storage=arguments.storage))
    if len(given) != 1:
        raise OptionError(f"a picture is of one file, and the paths stand for {len(given):,}; name one of them")
    form = "html" if target == STDIN else files.format_of(target, _ENDINGS, "give another name")
    if target != STDIN:
        files.check_target(arguments, target, given)
    layout = read_layout(given[0])
    drawn = draw(layout)
    text = drawn if form == "svg" else page(layout, drawn)
    with files.open_target(arguments, target) as sink:
        sink.write(text.encode())
    if target != STDIN:
        print(f"{printable(target)}: {render.count(len(text.encode()), 'byte')}")
    return 0
