"""The files that were there at a record, where rewrites replaced some of them since."""

import pytest
from commit_jobs import APPEND, REWRITE, dataset, dying, save

from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.stream.mode import Backlog
from spark_arrow_ipc.dataset.stream.table_records import Snapshot, TableRecords, replaced_since, status_where_it_lives


def commit(path, *texts, mode=APPEND, **options):
    save(path, mode, *texts, commit_retention=3600, durable=False, **options)


def names(path):
    return sorted(file.name for file in path.glob("part-*.arrow"))


def later(path, seq):
    records = TableRecords(dataset(path))
    found = records.between(seq, records.head().seq, records.head().seq)
    return found, {add.final for record in found for add in record.adds}


@pytest.mark.parametrize(("keep", "point"), [(3600, None), (3600, "C3.linked"), (0, None)])
def test_files_that_a_rewrite_replaced_are_found_where_they_live_on(tmp_path, keep, point):
    commit(tmp_path, "a", "b")
    first = names(tmp_path)
    commit(tmp_path, "c")
    if point is None:
        commit(tmp_path, "a+b+c", mode=REWRITE, keep_replaced=keep)
    else:
        with dying(point):
            commit(tmp_path, "a+b+c", mode=REWRITE, keep_replaced=keep)
    there, gone = replaced_since(dataset(tmp_path), *later(tmp_path, 1))
    assert (first if keep else []) == sorted(there)
    assert ([] if keep else first) == sorted(gone)
    assert all((1, str(tmp_path / name)) == (file.nbytes, file.path) for name, file in there.items())
    assert (status_where_it_lives(dataset(tmp_path), str(tmp_path / first[0])) is not None) == bool(keep)


def test_a_snapshot_is_sorted_and_has_each_file_once():
    named = [(name, DataFile(f"/d/{name}", nbytes, 0)) for name, nbytes in [("c", 4), ("a", 1), ("b", 2), ("a", 1)]]
    snapshot = Snapshot.of(7, frozenset(), named)
    assert ["a", "b", "c"] == snapshot.names
    assert [0, 1, 3, 7] == snapshot.nbytes
    assert [0, 1, 1, 3] == [snapshot.position(after) for after in ("", "a", "aa", "z")]
    assert Backlog(2, 6, 0) == snapshot.rest(1)
