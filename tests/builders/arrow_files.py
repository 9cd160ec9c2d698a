"""Writes Arrow IPC files with pyarrow, for tests that read them back."""

import pyarrow as pa


def write(path, data, *, stream=False, compression=None, rows=None):
    """Write a table or record batch and return the path as text; `rows` cuts it into record batches."""
    table = pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else data
    create = pa.ipc.new_stream if stream else pa.ipc.new_file
    options = pa.ipc.IpcWriteOptions(compression=compression, allow_64bit=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    with create(str(path), table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rows)
    return str(path)
