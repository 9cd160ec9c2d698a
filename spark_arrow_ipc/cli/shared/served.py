"""What `inspect` shows of a server's table."""

from __future__ import annotations

from dataclasses import dataclass

from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.arrow.types import CustomMetadata
from spark_arrow_ipc.cli.shared import inputs
from spark_arrow_ipc.cli.shared.inputs import Input
from spark_arrow_ipc.ipc.dissociated.connect import read_served_schema
from spark_arrow_ipc.ipc.dissociated.location import Location, parse_location
from spark_arrow_ipc.ipc.dissociated.reader import DissociatedReader
from spark_arrow_ipc.ipc.dissociated.shared_memory import Handle


@dataclass(frozen=True, slots=True)
class ServedTable:
    """A server's table without its values.

    Parameters
    ----------
    path
        Address, ticket and part: the URI without its tags.
    bodies
        Where they are, for people.
    parts
        Whether it has parts, for people.
    schema, custom_metadata
        Of the table, and of the schema's message.
    batches
        Each record batch, without columns.
    """

    path: str
    bodies: str
    parts: str
    schema: Schema
    custom_metadata: CustomMetadata
    batches: tuple[RecordBatch, ...]

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return sum(batch.num_rows for batch in self.batches)


def read_served(given: Input) -> ServedTable:
    """Read a table's schema and the rows of its record batches. Bodies travel only from servers that know no parts.

    Raises
    ------
    ArrowIpcError, OSError
        As `ipc.connect`.
    """
    location = parse_location(given.path)
    schema = read_served_schema(given.path, token=inputs.given_token())
    with inputs.open_rows(given, []) as rows:
        assert isinstance(rows.reader, DissociatedReader)
        metadata, batches = rows.reader.custom_metadata, tuple(rows.batches)
    return ServedTable(location.shown, _bodies(location), _parts(location), schema, metadata, batches)


def _bodies(location: Location) -> str:
    if location.remote_handle is None:
        return "through the socket"
    return f"in shared memory ({Handle.decode(location.remote_handle).kind})"


def _parts(location: Location) -> str:
    if location.want_part is None:
        return "the server reads it out whole only"
    advised = "" if location.of is None else f", of={location.of} as the URI has it"
    return f"can be read in parts, and by columns{advised}"
