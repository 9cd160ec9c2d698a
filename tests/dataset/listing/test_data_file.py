"""A listed file: small when it is pickled, and opened at its path or where its table retains it."""

import pickle
from pathlib import Path

import pytest

from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.table.log import create_table
from spark_arrow_ipc.table.names import TableDirectory, data_file_name, new_id

# (A file, and how many of its values are pickled.)
FILES = {
    "plain": (DataFile("/d/a.arrow", 1, 2), 3),
    "partitioned": (DataFile("/d/k=1/a.arrow", 1, 2, (1, "x")), 4),
    "of a version": (DataFile("/d/a.arrow", 1, 2, version="etag"), 5),
    "partitioned, of a version": (DataFile("/d/k=1/a.arrow", 1, 2, (None,), "etag"), 5),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_pickled_without_its_defaults(name):
    file, values = FILES[name]
    assert file == pickle.loads(pickle.dumps(file))
    assert file[:values] == file.__reduce__()[1]


# (The entries that retain the file, the partition of the file, whether it is at its path, and what is read.)
OPENED = {
    "at its path": ([], "", True, "at its path"),
    "at its path and retained": ([7], "", True, "at its path"),
    "retained": ([7], "", False, "7"),
    "retained in a partition": ([7], "k=1/", False, "7"),
    "retained twice": ([7, 30], "", False, "30"),
    "gone": ([], "", False, None),
}


@pytest.mark.parametrize("case", OPENED)
def test_a_file_is_opened_where_it_is(tmp_path, case):
    numbers, partition, is_there, expected = OPENED[case]
    table = TableDirectory(LOCAL, str(tmp_path))
    name = partition + data_file_name(0, create_table(table), new_id())
    path = table.path(name)
    for place, text in [(path, "at its path")] * is_there + [(table.replaced(n, name), str(n)) for n in numbers]:
        Path(place).parent.mkdir(parents=True, exist_ok=True)
        Path(place).write_text(text)
    Path(table.path("_ipc_replaced/notes.txt")).parent.mkdir(exist_ok=True)
    Path(table.path("_ipc_replaced/notes.txt")).write_text("of somebody")
    file = DataFile(path, 1, 2)
    if expected is None:
        with pytest.raises(FileNotFoundError):
            file.open()
        return
    source = file.open()
    assert expected == bytes(source.read_at(0, source.nbytes)).decode()
    source.close()
