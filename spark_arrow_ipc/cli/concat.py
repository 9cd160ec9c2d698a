"""``arrowipc concat``: write the rows of several files as one."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.kernels.slice import rechunk
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.cli.shared import files, inputs, render
from spark_arrow_ipc.cli.shared.differences import Comparison
from spark_arrow_ipc.cli.shared.inputs import Input
from spark_arrow_ipc.cli.shared.rows import each_given, positive
from spark_arrow_ipc.errors import SchemaMismatchError, printable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc concat``."""
    inputs.add_path_arguments(parser)
    parser.add_argument("target", metavar="TARGET", help="the file to write")
    parser.add_argument(
        "--batch-rows",
        type=positive,
        metavar="ROWS",
        help="rows of each record batch, fewer where they take more than 2 GiB; by default record batches are copied as they are",
    )
    files.add_output_arguments(parser)
    files.add_force_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the rows of all files in the order of the paths."""
    target = arguments.target
    files.check_ending(arguments, target)
    files.check_target(arguments, target, ())
    given = list(each_given(arguments))
    files.check_target(arguments, target, given)
    # All schemas are compared before anything is written. This opens files twice, but headers are small.
    schema, pairs = _common(given)
    written = rows = 0
    with files.create(arguments, target, schema, pairs) as writer:
        # Rows are joined up to a number that says nothing of their bytes: those have a budget too.
        most = ipc.Limits().max_batch_bytes
        for batch in rechunk(_batches(given, schema), rows=arguments.batch_rows, nbytes=None, joined_nbytes=most):
            writer.write(batch)
            written, rows = written + 1, rows + batch.num_rows
    print(
        f"{printable(target)}: {render.count(rows, 'row')} in "
        f"{render.count(written, 'record batch', 'record batches')}, of {render.count(len(given), 'file')}"
    )
    return 0


def _common(given: list[Input]) -> tuple[Schema, t.CustomMetadata]:
    """Return the schema of all files, and the footer metadata that all have in common.

    Raises
    ------
    SchemaMismatchError
        Two files differ; the message names the first difference.
    """
    first, *others = given
    with inputs.open_rows(first) as rows:
        schema, pairs = rows.schema, _pairs(rows.reader)
    for other in others:
        with inputs.open_rows(other) as rows:
            difference = Comparison(first.path, other.path).of_schemas(schema, rows.schema)
            if difference is not None:
                raise SchemaMismatchError(f"its schema is not that of the first file: {difference}", path=other.path)
            own = _pairs(rows.reader)
            pairs = tuple(pair for pair in pairs if pair in own)
    return schema, pairs


def _pairs(reader: inputs.AnyReader) -> t.CustomMetadata:
    return files.foreign_metadata(reader.custom_metadata)


def _batches(given: list[Input], schema: Schema) -> Iterator[RecordBatch]:
    for one in given:
        with inputs.open_rows(one) as rows:
            for batch in rows.batches:
                # The schemas are equal except for the order of metadata and endianness.
                yield RecordBatch(schema, batch.columns, batch.num_rows, batch.custom_metadata)
