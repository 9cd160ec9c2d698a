"""The storage of a command's path, and its options, apart from `files` because `vacuum` starts without listings."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from spark_arrow_ipc.storage.open import storage_of
from spark_arrow_ipc.storage.paths import is_remote
from spark_arrow_ipc.storage.storage import Storage


def add_storage_argument(
    parser: argparse.ArgumentParser,
    name: str = "--storage",
    of: str = "an option of the object store of a URL, such as region=eu-central-1",
) -> None:
    """Declare the argument for the options of an object store."""
    parser.add_argument(
        name,
        action="append",
        default=[],
        type=_pair,
        metavar="NAME=VALUE",
        help=f"{of}; may be repeated. Keys and passwords are better left to the environment, as other users see arguments",
    )


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError("expected NAME=VALUE, such as region=eu-central-1")
    return name, value


def storage_at(path: str, options: Sequence[tuple[str, str]]) -> Storage:
    """Return the storage of a path, with the options unless it is local."""
    return storage_of(path, tuple(options) if is_remote(path) else ())[0]
