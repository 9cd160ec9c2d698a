"""What pyarrow reads from an IPC file or stream, as our schema and record batches.

The way goes through Arrow's integration JSON (integration_from_pyarrow, then integration_json, which is itself tested
against the goldens), so nothing of our IPC reader takes part.
"""

import integration_from_pyarrow
import integration_json
import pyarrow as pa
from pyarrow import ipc

MAGIC = b"ARROW1"


def read(path):
    """Return schema and batches as pyarrow reads them. Costs Python time a value."""
    with pa.OSFile(str(path)) as source:
        is_file = source.read(len(MAGIC)) == MAGIC
        source.seek(0)
        if is_file:
            reader = ipc.open_file(source)
            batches = [reader.get_batch(i) for i in range(reader.num_record_batches)]
        else:
            reader = ipc.open_stream(source)
            batches = list(reader)
        # One document a batch: a stream may grow or replace its dictionaries.
        documents = [
            integration_json.read(integration_from_pyarrow.to_json(reader.schema, [batch])) for batch in batches
        ]
        empty = integration_json.read(integration_from_pyarrow.to_json(reader.schema, []))
        return empty.schema, [document.batches[0] for document in documents]
