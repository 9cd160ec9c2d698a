"""Jobs that write Arrow files into a table, for tests of maintenance; pyarrow writes and reads the rows."""

import io
import zlib

import pyarrow as pa

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.paths import join
from spark_arrow_ipc.table.encoded_schema import encode_schema
from spark_arrow_ipc.table.entry import Entry, Operation, Removed
from spark_arrow_ipc.table.files import StagedFile
from spark_arrow_ipc.table.names import TableDirectory, data_file_name
from spark_arrow_ipc.table.snapshot import Snapshot, removal_of
from spark_arrow_ipc.table.transaction import Transaction

SCHEMA = encode_schema(Schema.of([t.Field("id", t.int64)]), "")


def table(path, storage=LOCAL):
    return TableDirectory(storage, str(path))


def content(*ids):
    """An Arrow file with a row for each number."""
    sink, rows = io.BytesIO(), pa.table({"id": pa.array(ids, pa.int64())})
    with pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue()


def stage(transaction, *ids, at=""):
    """Stage a file for each tuple of numbers."""
    staged = []
    for number, of_file in enumerate(ids):
        data, name = content(*of_file), f"{number}.staged"
        transaction.directory.storage.put(join(transaction.directory.staging(transaction.job), name), data)
        final = data_file_name(number, transaction.table, transaction.job)
        staged.append(StagedFile(name, at, final, len(data), len(of_file), zlib.crc32(data[-(64 << 10) :])))
    return staged


def save(directory, *ids, at="", overwrites=False, collects=True, **fields):
    """Commit a job with a file for each tuple of numbers, and return the state after it."""
    snapshot = Snapshot.open(directory)
    transaction = Transaction.begin(directory)
    transaction.name_files(stage(transaction, *ids, at=at))
    removes = ()
    if overwrites and snapshot.state is not None:
        files = snapshot.state.files
        removes = tuple(Removed(path, nbytes) for path, nbytes in zip(files.paths, files.nbytes.tolist(), strict=True))
        removes += tuple(removal_of(directory, path, status) for path, status in snapshot.unmanaged.items())
    operation = Operation.OVERWRITE if overwrites else Operation.APPEND
    state = transaction.commit(lambda _: Entry(0, "", operation, schema=SCHEMA, remove=removes, **fields))
    if collects:
        transaction.collect()
    return state


def ids(directory):
    """The numbers in all files that count, as pyarrow reads them."""
    snapshot = Snapshot.open(directory)
    paths = [*snapshot.state.files.paths, *snapshot.unmanaged]
    tables = [
        pa.ipc.open_file(bytes(directory.storage.read(directory.path(path), 1 << 20))).read_all() for path in paths
    ]
    return sorted(value for rows in tables for value in rows["id"].to_pylist())


def paths_in(directory, below=""):
    """All paths of files below a directory of the table."""
    paths, level = [], [directory.path(below)]
    while level:
        for status in directory.storage.list(level.pop()):
            (level if status.kind.name == "DIRECTORY" else paths).append(status.path)
    return sorted(path.removeprefix(f"{directory.root}/") for path in paths)
