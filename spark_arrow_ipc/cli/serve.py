"""``arrowipc serve``: serve files to other processes, from shared memory or through sockets, until it is stopped."""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

from spark_arrow_ipc import ipc
from spark_arrow_ipc.cli.shared import inputs, render
from spark_arrow_ipc.cli.shared.inputs import Input
from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.ipc.dissociated.location import UNIX, parse_address
from spark_arrow_ipc.ipc.dissociated.messages import Table, TableSource
from spark_arrow_ipc.ipc.dissociated.shared_memory import SharedMemory

__all__ = ["add_arguments", "run"]

_NONE: Final = "none"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc serve``."""
    inputs.add_path_arguments(parser)
    parser.add_argument(
        "--listen",
        default="dissociated+tcp://127.0.0.1:0",
        metavar="URI",
        help="dissociated+tcp://host:port (the default: a free port of the loopback) or dissociated+unix:///path/of/socket",
    )
    parser.add_argument(
        "--shared-memory",
        choices=(*(kind.value for kind in SharedMemory), _NONE),
        help="keep the files decoded in shared memory: memfd (unix sockets, and their default), named (a file below "
        "/dev/shm, for any process of this user), or none: files are read for each client",
    )
    parser.add_argument("--compression", choices=("lz4", "zstd"), help="of what goes through the socket")
    parser.add_argument(
        "--token",
        default=os.environ.get(inputs.TOKEN_VARIABLE),
        help=f"what clients have to know; needed where the host is not the loopback. The variable {inputs.TOKEN_VARIABLE} says it too, "
        "and no list of processes shows that",
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve all files, print a line for each (its ticket and its URI), and wait for SIGTERM or SIGINT."""
    sources = _sources(arguments.paths, recursive=arguments.recursive, storage=arguments.storage)
    memory = arguments.shared_memory
    if memory is None and parse_address(arguments.listen).scheme == UNIX and arguments.compression is None:
        memory = SharedMemory.MEMFD
    options = ipc.WriteOptions(format="stream", compression=arguments.compression)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with ipc.serve(
            sources,
            arguments.listen,
            shared_memory=None if memory == _NONE else memory,
            options=options,
            token=arguments.token,
        ) as server:
            for ticket in sources:
                print(f"{render.printable(ticket)}\t{server.uri_of(ticket)}", flush=True)
            server.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        signal.signal(signal.SIGTERM, before)
    return 0


def _sources(paths: Sequence[str], *, recursive: bool, storage: Sequence[tuple[str, str]]) -> dict[str, TableSource]:
    """Map each ticket to what opens its file. A ticket is the path below a given directory, or the given path."""
    sources: dict[str, TableSource] = {}
    for given in inputs.each_input(paths, recursive=recursive, columns=True, storage=storage):
        ticket = given.path if given.below is None else given.below
        if ticket in sources:
            raise OptionError(
                expected="files of different names below the directories: a file's name is its ticket",
                found=f"{ticket!r} twice; serve the directory above them with --recursive",
                path=given.path,
            )
        sources[ticket] = partial(_opened, given)
    return sources


@contextmanager
def _opened(given: Input) -> Iterator[Table]:
    with inputs.open_rows(given) as rows:
        yield Table(rows.schema, rows.batches)
