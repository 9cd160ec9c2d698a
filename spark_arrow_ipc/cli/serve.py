"""``arrowipc serve``: serve files to other processes, from shared memory or through sockets, until it is stopped."""

from __future__ import annotations

import argparse
import os
import re
import signal
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from spark_arrow_ipc import ipc
from spark_arrow_ipc.cli.shared import files
from spark_arrow_ipc.cli.shared.files import Input
from spark_arrow_ipc.cli.shared.rows import Chosen
from spark_arrow_ipc.errors import OptionError, printable
from spark_arrow_ipc.ipc.dissociated import UNIX
from spark_arrow_ipc.ipc.dissociated.location import Selection, parse_address
from spark_arrow_ipc.ipc.dissociated.messages import Table, TableSource, file_version, select_batches
from spark_arrow_ipc.ipc.dissociated.server import KEEP_NBYTES
from spark_arrow_ipc.ipc.dissociated.shared_memory import SharedMemory
from spark_arrow_ipc.storage.local import LOCAL

_NONE: Final = "none"


def serve_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc serve``."""
    files.add_path_arguments(parser)
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
        "--parts",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="in how many parts readers such as Spark read a table at once: the printed URIs say so (of=N). By default the "
        "number of CPUs",
    )
    parser.add_argument(
        "--keep",
        type=_size,
        default=KEEP_NBYTES,
        metavar="BYTES",
        help="the most memory for files as they were sent, so that the next client's are not read and encoded anew where "
        "bodies go through the socket: as 1g; 256m by default, 0 keeps nothing",
    )
    parser.add_argument(
        "--token",
        default=os.environ.get(files.TOKEN_VARIABLE),
        help=f"what clients have to know; needed where the host is not the loopback. The variable {files.TOKEN_VARIABLE} says it too, "
        "and no list of processes shows that",
    )


def run_serve(arguments: argparse.Namespace) -> int:
    """Serve all files, print a line for each (its ticket and its URI), and wait for SIGTERM or SIGINT."""
    sources = _sources(arguments)
    memory = arguments.shared_memory
    if memory is None and parse_address(arguments.listen).scheme == UNIX and arguments.compression is None:
        memory = SharedMemory.MEMFD
    options = ipc.WriteOptions(format="stream", compression=arguments.compression)
    # As Ctrl-C, so that shared memory and sockets lose their names.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with ipc.serve(
            sources,
            arguments.listen,
            shared_memory=None if memory == _NONE else memory,
            options=options,
            token=arguments.token,
            parts=arguments.parts,
            keep_nbytes=arguments.keep,
        ) as server:
            for ticket in sources:
                print(f"{printable(ticket)}\t{server.uri_of(ticket)}", flush=True)
            server.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        signal.signal(signal.SIGTERM, before)
    return 0


class _ServedInput:
    """A file with the columns of its path, as a table of the server."""

    def __init__(self, source: Input) -> None:
        self._source = source

    @property
    def selects(self) -> bool:
        """True if it is a file, and not itself a server's table."""
        return not self._source.is_served

    @contextmanager
    def open(self, selection: Selection) -> Iterator[Table]:
        """Open the file."""
        batches_of = partial(select_batches, selection=selection)
        with Chosen(selection.columns).open_rows(self._source, batches_of) as rows:
            yield Table(rows.schema, rows.batches)

    def version(self) -> Hashable | None:
        """Return identity, size and times of a local file; None for any other input."""
        source = self._source
        if source.is_served or source.content is not None or source.storage is not LOCAL:
            return None
        return file_version(source.path if source.file is None else source.file.path)


def _size(text: str) -> int:
    """Parse a number of bytes, which may have a unit of k, m, g or t."""
    match = re.fullmatch(r"([0-9]{1,15})([kmgt]?)", text.strip().lower(), re.ASCII)
    if match is None:
        raise argparse.ArgumentTypeError(f"expected bytes, as 512m or 0, found {text!r}")
    # Each unit is 10 bits more; a blank stands for bytes.
    return int(match[1]) << 10 * " kmgt".index(match[2] or " ")


def _sources(arguments: argparse.Namespace) -> dict[str, TableSource]:
    """Return the files by ticket: the path below the directory of an argument, or the argument."""
    sources: dict[str, TableSource] = {}
    for source in files.list_inputs(arguments, columns=True):
        ticket = source.path if source.below is None else source.below
        if ticket in sources:
            raise OptionError(
                expected="files of different names below the directories: a file's name is its ticket",
                found=f"{ticket!r} twice; serve the directory above them with --recursive",
                path=source.path,
            )
        sources[ticket] = _ServedInput(source)
    return sources
