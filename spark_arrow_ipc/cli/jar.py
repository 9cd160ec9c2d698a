"""``arrowipc jar``: write the jar of this package's Java, for programs that do not call ``register``."""

from __future__ import annotations

import argparse

from spark_arrow_ipc.cli.shared import files, terminal
from spark_arrow_ipc.cli.shared.storages import add_storage_argument
from spark_arrow_ipc.errors import OptionError, UnsupportedError, printable


def jar_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc jar``."""
    parser.add_argument("target", metavar="OUT.jar", help="the jar to write, to be named in spark.jars")
    files.add_force_argument(parser)
    add_storage_argument(parser)


def run_jar(arguments: argparse.Namespace) -> int:
    """Write the jar for the installed Spark."""
    target = arguments.target
    if not target.endswith(".jar"):
        raise OptionError("Spark takes a jar by its ending; give a name such as arrowipc.jar", path=target)
    files.check_target(arguments, target, [])
    try:
        from spark_arrow_ipc.spark import jar
    except ModuleNotFoundError as error:
        raise UnsupportedError(
            f"Spark compiles the jar, and is missing ({error}): pip install 'spark-arrow-ipc[spark]'"
        ) from error
    content = jar.jar_of_installation()
    with files.open_target(arguments, target) as sink:
        sink.write(content)
    print(f"{printable(target)}: {terminal.count(len(content), 'byte')}, {jar.installed_release()}")
    return 0
