"""``arrowipc schema``: print the schemas in the headers of files, as text, as Spark DDL or as JSON."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.cli.shared import files, terminal
from spark_arrow_ipc.cli.shared.rows import needs_spark, read_schema
from spark_arrow_ipc.dataset.statistics.format import KEY
from spark_arrow_ipc.errors import ArrowIpcError, error_context, printable
from spark_arrow_ipc.ipc.messages.checksums import CHECKSUMS_KEY, ROW_COUNTS_KEY


def schema_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc schema``."""
    files.add_path_arguments(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--ddl",
        action="store_true",
        help="columns as Spark reads them, for CREATE TABLE and .schema(); needs PySpark, but no Java",
    )
    form.add_argument("--json", action="store_true", help="one JSON object a line for each schema")


def run_schema(arguments: argparse.Namespace) -> int:
    """Print each schema once, with the number of its files; return 1 if a file cannot be read."""
    refused = files.Refusals()
    paths_of: dict[Schema, list[str]] = {}
    for source in files.list_inputs(arguments, refused=refused):
        try:
            with error_context(path=source.path):
                # Most directories have one schema, whatever the number of their files.
                paths_of.setdefault(read_schema(source), []).append(source.path)
        except (ArrowIpcError, OSError) as error:
            refused(source.path, error)
    for number, (schema, paths) in enumerate(paths_of.items()):
        if arguments.ddl:
            # Some Arrow types have no Spark type; the error names a file with such a type.
            with error_context(path=paths[0]):
                print(printable(_ddl(schema)))
        elif arguments.json:
            print(terminal.json_line({"path": paths[0], "files": len(paths), **schema_json(schema)}))
        else:
            more = "" if len(paths) == 1 else f" and {terminal.count(len(paths) - 1, 'other file')}"
            head = f"{printable(paths[0])}{more}: {terminal.count(len(schema), 'column')}"
            print("\n".join([*([""] if number else []), head, *describe_fields(schema.fields)]))
    return refused.status


def _ddl(schema: Schema) -> str:
    try:
        from spark_arrow_ipc.spark.types.arrow_to_spark import to_ddl
    except ModuleNotFoundError as error:
        raise needs_spark("--ddl", error) from error
    return to_ddl(schema)


# ---- fields, as tables for people and as JSON


def describe_fields(fields: Sequence[t.Field]) -> Iterator[str]:
    """Yield the lines of a table of fields."""
    rows = [
        (str(i), terminal.cut(f.name), terminal.cut(str(f.type), 200), "yes" if f.nullable else "no")
        for i, f in enumerate(fields)
    ]
    yield from terminal.table(("#", "name", "type", "nullable"), rows, terminal.RIGHT)


def schema_json(schema: Schema) -> dict[str, Any]:
    """Convert a schema for `json.dumps`."""
    return {
        "endianness": schema.endianness.name.lower(),
        "fields": list(map(_field_json, schema.fields)),
        "custom_metadata": pairs_json(schema.custom_metadata),
    }


def _field_json(field: t.Field) -> dict[str, Any]:
    # A dictionary type has no children, but the type of its values may have some.
    type_ = field.type.value if isinstance(field.type, t.Dictionary) else field.type
    return {
        "name": field.name,
        "type": str(field.type),
        "nullable": field.nullable,
        "custom_metadata": pairs_json(field.custom_metadata),
        "children": list(map(_field_json, type_.children)),
    }


def pairs_json(pairs: t.CustomMetadata) -> list[dict[str, str]]:
    """Convert custom metadata for `json.dumps`."""
    # A list and not an object: a key may occur twice, and the order is the file's.
    return [{"key": key, "value": value} for key, value in pairs]


def without_statistics(custom_metadata: t.CustomMetadata) -> t.CustomMetadata:
    """Return a footer's metadata without the pairs that people cannot read: statistics, checksums and row counts."""
    return tuple(pair for pair in custom_metadata if pair[0] not in {KEY, CHECKSUMS_KEY, ROW_COUNTS_KEY})
