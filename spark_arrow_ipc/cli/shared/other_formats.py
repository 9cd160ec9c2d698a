"""Tables of Parquet, CSV and JSON lines, by pyarrow, which is imported when one is asked for.

Strategy
--------
pyarrow's readers and writers stand here alone in the package: these formats are not ours. Record batches cross
without a copy by the Arrow PyCapsule interface, and what pyarrow gives is checked as a file is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.cli.shared.rows import Table
from spark_arrow_ipc.errors import (
    ArrowIpcError,
    InvalidArrowError,
    SchemaMismatchError,
    UnsupportedError,
    error_context,
)

if TYPE_CHECKING:
    import pyarrow as pa

_STDIN: Final = "-"


def _arrow() -> Any:
    """Import pyarrow.

    Raises
    ------
    UnsupportedError
        It is not installed.
    """
    try:
        import pyarrow as pa
    except ModuleNotFoundError as error:
        raise UnsupportedError(
            f"Parquet, CSV and JSON lines that are read need pyarrow ({error}): pip install pyarrow"
        ) from error
    return pa


@contextmanager
def _named(pa: Any, path: str | None, doing: str) -> Iterator[None]:
    """Turn pyarrow's errors into ours."""
    try:
        with error_context(path=path):
            yield
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedError(f"pyarrow cannot {doing}: {error}", path=path) from error
    except pa.ArrowInvalid as error:
        raise InvalidArrowError(f"pyarrow cannot {doing}: {error}", path=path) from error
    except pa.ArrowException as error:
        raise ArrowIpcError(f"pyarrow cannot {doing}: {error}", path=path) from error


@contextmanager
def open_table(form: str, paths: Sequence[str], stdin: BinaryIO) -> Iterator[Table]:
    """Open files of one schema; they are read while the batches are iterated.

    Parameters
    ----------
    form
        One of `READERS`.
    paths
        Local paths, or ``-`` for stdin.

    Raises
    ------
    UnsupportedError
        pyarrow is missing, or cannot read a file.
    ArrowIpcError, OSError
        A file cannot be read, or its schema is not that of the first.
    """
    pa = _arrow()
    doing = f"read it as {form}"
    with _named(pa, paths[0], doing):
        schema, first = READERS[form](stdin if paths[0] == _STDIN else paths[0])

    def batches() -> Iterator[Any]:
        for number, path in enumerate(paths):
            with _named(pa, path, doing):
                own, found = (schema, first) if not number else READERS[form](stdin if path == _STDIN else path)
                if own != schema:
                    raise SchemaMismatchError(f"its schema is not that of {paths[0]}: {own}", path=path)
                yield from map(RecordBatch.from_arrow, found)

    yield Table(Schema.from_arrow(schema), (), batches())


def write_table(form: str, table: Table, sink: BinaryIO, compression: str) -> int:
    """Write a table into an open file; return the number of rows.

    Raises
    ------
    UnsupportedError
        pyarrow is missing, or the format has no such type.
    """
    pa = _arrow()
    with _named(pa, None, f"write {form}"):
        schema = pa.schema(table.schema)
        rows = 0
        plain = _plain_schema(pa, schema) if form == "csv" else schema
        with WRITERS[form](sink, plain, compression) as writer:
            for batch in table.batches:
                made = pa.record_batch(batch)
                writer.write_batch(made if plain is schema else made.cast(plain))
                rows += batch.num_rows
    return rows


def _plain_schema(pa: Any, schema: pa.Schema) -> pa.Schema:
    """Return a schema without encodings, which CSV does not know."""
    plain = []
    for field in schema:
        type_ = field.type
        while pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_):
            type_ = type_.value_type
        if pa.types.is_string_view(type_):
            type_ = pa.string()
        if pa.types.is_nested(type_):
            raise UnsupportedError(f"CSV has no {type_}; leave the column out with --columns", field_path=field.name)
        plain.append(field.with_type(type_))
    return pa.schema(plain)


def _read_parquet(source: Any) -> tuple[Any, Iterator[Any]]:
    import pyarrow.parquet as pq

    if source is sys.stdin.buffer:
        import pyarrow as pa

        source = pa.BufferReader(source.read())
    file = pq.ParquetFile(source)
    return file.schema_arrow, file.iter_batches()


def _read_csv(source: Any) -> tuple[Any, Iterator[Any]]:
    import pyarrow.csv

    reader = pyarrow.csv.open_csv(source)
    return reader.schema, iter(reader)


def _read_json(source: Any) -> tuple[Any, Iterator[Any]]:
    import pyarrow.json

    table = pyarrow.json.read_json(source)
    return table.schema, iter(table.to_batches())


def _write_parquet(sink: BinaryIO, schema: Any, compression: str) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetWriter(sink, schema, compression=compression)


def _write_csv(sink: BinaryIO, schema: Any, _: str) -> Any:
    import pyarrow.csv

    return pyarrow.csv.CSVWriter(sink, schema)


READERS: Final[Mapping[str, Callable[[Any], tuple[Any, Iterator[Any]]]]] = {
    "parquet": _read_parquet,
    "csv": _read_csv,
    "jsonl": _read_json,
}
"""By format: opens a path or a file object; returns its schema and record batches."""

WRITERS: Final[Mapping[str, Callable[[BinaryIO, Any, str], Any]]] = {"parquet": _write_parquet, "csv": _write_csv}
"""By format: a writer of record batches."""
