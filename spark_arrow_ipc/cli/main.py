"""The entry point of ``arrowipc``: the commands, their errors, and the scripts that complete them.

A command is a row of `COMMANDS`. Only its module is imported, so that ``arrowipc doctor`` runs without numpy. Errors of
files (`ArrowIpcError`) and of the file system (`OSError`) are one line on stderr and exit status 1; any other exception
is a bug and keeps its traceback. Warnings are lines on stderr as well.

To add a command:

1. ``NAME_arguments`` and ``run_NAME`` in a module of ``cli/``, and its row in `COMMANDS`. `files.list_inputs` lists the files
   that it reads, `Chosen.open_rows` opens their rows. Text from a file is printed through `printable` (``errors.py``) or
   a function of ``cli/shared/terminal.py``.
2. Its tests, ``tests/cli/test_NAME.py``; in ``docs/cli.md`` what it prints and its exit statuses; in ``tests/cli/outcomes.py``
   its arguments, of which that program prints ``outcomes.md``.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import NoReturn, cast

from spark_arrow_ipc import __version__
from spark_arrow_ipc.errors import ArrowIpcError, UnsupportedError, printable


@dataclass(frozen=True, slots=True)
class Command:
    """A row of `COMMANDS`: a line of help, and the module in `cli/` that has ``NAME_arguments`` and ``run_NAME``."""

    summary: str
    module: str

    @property
    def description(self) -> str:
        """The summary as a sentence."""
        # `str.capitalize` would make small letters of SVG and JSON.
        return f"{self.summary[:1].upper()}{self.summary[1:]}."


COMMANDS: Mapping[str, Command] = {
    "inspect": Command("show the metadata of files, without decoding values", "inspect"),
    "layout": Command("draw where the bytes of a file lie, as SVG or HTML", "layout"),
    "validate": Command("check every value of files, and exit with 1 if a file is bad", "validate"),
    "cat": Command("print the rows of files, as a table or as JSON lines", "cat"),
    "head": Command("print the first rows of files", "cat"),
    "tail": Command("print the last rows of files", "cat"),
    "sample": Command("print rows of files at random, the same ones for a seed", "cat"),
    "schema": Command("print the schemas of files, also as Spark DDL", "schema"),
    "count": Command("count the rows of files, by their headers alone", "cat"),
    "concat": Command("write the rows of several files of one schema as one file", "rewrite"),
    "diff": Command("compare the schemas and rows of two tables", "diff"),
    "rewrite": Command("write files anew: compression, record batches, statistics, sorted", "rewrite"),
    "split": Command("write the rows of files as several files", "rewrite"),
    "convert": Command("convert between Arrow files, streams, Parquet, CSV and JSON lines", "convert"),
    "repair": Command("copy the readable record batches of a broken or truncated file", "repair"),
    "serve": Command("serve files to other processes, from shared memory or sockets", "serve"),
    "copy": Command("copy a table to another place while jobs run", "copy"),
    "fsck": Command("compare the log of a table with its files, and repair it", "fsck"),
    "history": Command("print what the jobs of a table did", "history"),
    "stream": Command("show the batches of a streaming query, and what keeps it from going on", "stream"),
    "vacuum": Command("delete what failed jobs left in a table's directory", "vacuum"),
    "jar": Command("write the jar that gives SQL and queries the tables of files, for spark.jars", "jar"),
    "completion": Command("print a script for the shell to complete commands", "main"),
    "doctor": Command("check this environment, and name the fixes", "doctor"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command, by default with the arguments of this process; return its exit status."""
    argv = sys.argv[1:] if argv is None else list(argv)
    parser, commands = _parser()
    name = argv[0] if argv and argv[0] in COMMANDS else None
    if name is None:
        # Without a command no module of one is imported.
        parser.parse_args(argv)  # --version, --help and unknown commands exit here
        parser.print_help()
        # As argparse does for a missing argument.
        return 2
    try:
        run = _load(name, commands[name])
    except ModuleNotFoundError as error:
        return _fail(f"{error}; 'arrowipc doctor' names the command that fixes it")
    # Not by the parser of all commands, whose usage says nothing of a command's arguments.
    arguments = commands[name].parse_args(argv[1:])
    from spark_arrow_ipc.cli.shared import terminal  # late, as --help does not need it

    try:
        with warnings.catch_warnings():
            # Each place warns once: a warning for each of 10,000 files says no more.
            warnings.simplefilter("default", UserWarning)
            warnings.showwarning = lambda message, *_, **__: print(
                f"arrowipc: warning: {printable(str(message))}", file=sys.stderr
            )
            with terminal.show_progress():
                status = run(arguments)
        # Here and not at exit, where a full disk would be an error without exit status.
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of stdout has closed it (`| head`), which is fine; the interpreter must not flush again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ArrowIpcError, OSError) as error:
        return _fail(str(error))
    except MemoryError:
        return _fail("there is not enough memory for this file")
    return status


def parsers() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """Return the parser of all arguments, and the commands' parsers by name; imports every command's module."""
    parser, commands = _parser()
    for name, of_command in commands.items():
        _load(name, of_command)
    return parser, commands


def _load(name: str, parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    """Import a command, declare its arguments, and return the function that runs it."""
    module = import_module(f"spark_arrow_ipc.cli.{COMMANDS[name].module}")
    getattr(module, f"{name}_arguments")(parser)
    return cast("Callable[[argparse.Namespace], int]", getattr(module, f"run_{name}"))


class _Parser(argparse.ArgumentParser):
    """A parser whose errors repeat arguments with escapes for what does not print."""

    def error(self, message: str) -> NoReturn:
        super().error(printable(message))


def _parser() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    parser: argparse.ArgumentParser = _Parser(
        prog="arrowipc", description="Inspect, check and repair Arrow IPC files, without Spark."
    )
    parser.add_argument("--version", action="version", version=f"arrowipc {__version__}")
    # Not required, so that `arrowipc` without arguments prints its help instead of an error.
    group = parser.add_subparsers(dest="command", metavar="COMMAND", required=False)
    added = {
        name: group.add_parser(name, help=command.summary, description=command.description)
        for name, command in COMMANDS.items()
    }
    return parser, added


def _fail(words: str) -> int:
    print(f"arrowipc: {printable(words)}", file=sys.stderr)
    return 1


# ---- completion


def completion_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc completion``."""
    parser.add_argument(
        "shell",
        choices=("bash", "zsh", "fish"),
        help='bash: eval "$(arrowipc completion bash)"; "Command line" in the documentation has the others',
    )


def run_completion(arguments: argparse.Namespace) -> int:
    """Print a script by which a shell completes commands, options and their words without Python."""
    print(script(arguments.shell))
    return 0


def script(shell: str) -> str:
    """Return the script for a shell, which shtab derives from the parsers of all commands."""
    try:
        import shtab
    except ModuleNotFoundError as error:
        raise UnsupportedError(
            f"scripts for shells are made by shtab ({error}): pip install 'spark-arrow-ipc[completion]'"
        ) from error
    parser, commands = parsers()
    for of_command in commands.values():
        for action in of_command._actions:  # noqa: SLF001 - argparse has no other way to list them
            # Positional arguments and PATH options are paths; others have words of their own, or none.
            if not action.choices and (not action.option_strings or action.metavar == "PATH"):
                action.complete = shtab.FILE  # type: ignore[attr-defined] # shtab's way to say so
    return shtab.complete(parser, shell)


if __name__ == "__main__":
    sys.exit(main())
