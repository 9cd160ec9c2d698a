"""Jobs for tests of what reads a table: transactions whose files have a few bytes, and the texts that are in them."""

from pathlib import Path

from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.paths import join
from spark_arrow_ipc.table.entry import Entry, Operation, Removed
from spark_arrow_ipc.table.files import StagedFile
from spark_arrow_ipc.table.log import read_state, read_table_id, write_checkpoint
from spark_arrow_ipc.table.names import TableDirectory, data_file_name
from spark_arrow_ipc.table.snapshot import Snapshot, removal_of
from spark_arrow_ipc.table.transaction import Transaction

APPEND, OVERWRITE, DYNAMIC, REWRITE = list(Operation)[:4]


def table(path, storage=LOCAL):
    return TableDirectory(storage, str(path))


def begin(directory, *contents):
    """Begin a job whose files have their names; ``k=1:text`` goes to the partition ``k=1``, as does ``("k=1", bytes)``."""
    transaction = Transaction.begin(directory)
    storage, staged = directory.storage, []
    for number, content in enumerate(contents):
        at, data = content if isinstance(content, tuple) else content.encode().rpartition(b":")[::2]
        at = at if isinstance(at, str) else at.decode()
        name = f"{number}.staged"
        storage.put(join(directory.staging(transaction.job), name), data)
        final = data_file_name(number, transaction.table, transaction.job)
        staged.append(StagedFile(name, at, final, len(data), 1, 0))
    transaction.name_files(staged)
    return transaction


def commit(transaction, operation=APPEND, *, replaces=None, collects=True, **fields):
    """Commit a job. `replaces` tells, of a path, whether the job removes the file."""
    directory, snapshot = transaction.directory, Snapshot.open(transaction.directory)
    if replaces is None:
        replaces = _replaced_by(transaction, operation)
    sizes = zip(snapshot.state.files.paths, snapshot.state.files.nbytes.tolist(), strict=True)
    removes = [Removed(path, nbytes) for path, nbytes in sizes if replaces(path)]
    foreign = [(path, status) for path, status in snapshot.unmanaged.items() if replaces(path)]
    removes += [removal_of(directory, path, status) for path, status in foreign]
    state = transaction.commit(lambda _: Entry(0, "", operation, remove=tuple(removes), **fields))
    if collects:
        transaction.collect()
    return state


def _replaced_by(transaction, operation):
    if operation is OVERWRITE:
        return lambda _: True
    if operation is DYNAMIC:
        directories = {path.rpartition("/")[0] for path in transaction._added.paths}
        return lambda path: path.rpartition("/")[0] in directories
    return lambda _: False


def save(path, operation, *contents, storage=LOCAL, **options):
    """Write files with these contents as one job; return the state after it."""
    return commit(begin(table(path, storage), *contents), operation, **options)


def prune(path, *numbers):
    """Let entries be gone, with a checkpoint after the last of them, as `log.prune` leaves them."""
    directory = table(path)
    write_checkpoint(directory, read_state(directory, numbers[-1]))
    directory.storage.delete_all([directory.entry(read_table_id(directory), number) for number in numbers])


def text_of(directory, file):
    """Return the text of a planned file, at its path or where it is retained, behind its partition."""
    storage, name = directory.storage, file.path.removeprefix(directory.root + "/")
    numbers = [None, *range(1, 100)]
    paths = (file.path if number is None else directory.replaced(number, name) for number in numbers)
    place = next(path for path in paths if storage.status(path) is not None)
    text = storage.read(place, 1 << 20).decode()
    at = name.rpartition("/")[0]
    return f"{at}:{text}" if at else text


def live_texts(path):
    """Return the texts of the files that the log counts, each behind its partition."""
    at = Path(path)
    return sorted(
        f"{name.rpartition('/')[0]}:{(at / name).read_text()}".lstrip(":")
        for name in read_state(table(path)).files.paths
    )
