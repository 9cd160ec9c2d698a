"""``arrowipc schema``: print the schemas of files, as text, as Spark DDL or as JSON. Reads headers only."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.cli.shared import inputs, render
from spark_arrow_ipc.cli.shared.describe import describe_fields, field_json, pairs_json
from spark_arrow_ipc.cli.shared.rows import needs_spark, read_schema
from spark_arrow_ipc.errors import ArrowIpcError, error_context, printable


def schema_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc schema``."""
    inputs.add_path_arguments(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--ddl",
        action="store_true",
        help="columns as Spark reads them, for CREATE TABLE and .schema(); needs PySpark, but no Java",
    )
    form.add_argument("--json", action="store_true", help="one JSON object a line for each schema")


def run_schema(arguments: argparse.Namespace) -> int:
    """Print each schema once, with the number of its files; return 1 if a file cannot be read."""
    refused = inputs.Refusals()
    paths_of: dict[Schema, list[str]] = {}
    for source in inputs.named_by(arguments, refused=refused):
        try:
            with error_context(path=source.path):
                paths_of.setdefault(read_schema(source), []).append(source.path)
        except (ArrowIpcError, OSError) as error:
            refused(source.path, error)
    for number, (schema, paths) in enumerate(paths_of.items()):
        if arguments.ddl:
            with error_context(path=paths[0]):
                print(printable(_ddl(schema)))
        elif arguments.json:
            print(render.json_line(_to_json(schema, paths)))
        else:
            print("\n".join([*([""] if number else []), *_describe(schema, paths)]))
    return refused.status


def _describe(schema: Schema, paths: list[str]) -> Iterator[str]:
    more = "" if len(paths) == 1 else f" and {render.count(len(paths) - 1, 'other file')}"
    yield f"{printable(paths[0])}{more}: {render.count(len(schema), 'column')}"
    yield from describe_fields(schema.fields)


def _to_json(schema: Schema, paths: list[str]) -> dict[str, object]:
    return {
        "path": paths[0],
        "files": len(paths),
        "endianness": schema.endianness.name.lower(),
        "fields": [field_json(field) for field in schema.fields],
        "custom_metadata": pairs_json(schema.custom_metadata),
    }


def _ddl(schema: Schema) -> str:
    try:
        from spark_arrow_ipc.spark.types.arrow_to_spark import to_ddl
    except ModuleNotFoundError as error:
        raise needs_spark("--ddl", error) from error
    return to_ddl(schema)
