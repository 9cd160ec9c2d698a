"""What cleaning does with files on a disk."""

import pytest

from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.stream.clean import Cleaner
from spark_arrow_ipc.dataset.stream.mode import StreamBatch
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.table.log import create_table
from spark_arrow_ipc.table.names import TableDirectory


def batch_of(root, *paths):
    files = [DataFile(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in paths]
    return StreamBatch(tuple(files), (str(root),) * len(files))


@pytest.fixture
def batch(tmp_path):
    paths = [tmp_path / "in" / name for name in ("a.arrow", "k=1/b.arrow")]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(path.name)
    return batch_of(tmp_path / "in", *paths)


def cleaner(tmp_path):
    return Cleaner(LOCAL, (str(tmp_path / "in"),))


def names(directory):
    return sorted(path.name for path in directory.rglob("*") if path.is_file())


def test_what_cannot_be_cleaned_is_a_warning_and_the_rest_is_cleaned(tmp_path, batch, caplog):
    (tmp_path / "in" / "a.arrow").write_text("longer than before")
    cleaner(tmp_path).clean(batch)
    assert ["a.arrow"] == names(tmp_path / "in")
    assert 1 == caplog.text.count("not cleaned: ")
    assert "has changed since it was read" in caplog.text


@pytest.mark.parametrize("place", ["", "k=1"])
def test_files_of_a_table_below_the_source_stay(tmp_path, batch, caplog, place):
    create_table(TableDirectory(LOCAL, str(tmp_path / "in" / place)))
    cleaner(tmp_path).clean(batch)
    assert (["a.arrow", "b.arrow"] if not place else ["b.arrow"]) == sorted(set(names(tmp_path / "in")) - {"table"})
    assert "it is in the table" in caplog.text


def test_a_file_that_is_a_path_of_the_stream_is_taken_away(tmp_path, batch):
    path = batch.files[0].path
    Cleaner(LOCAL, (path,)).clean(batch)
    assert ["b.arrow"] == names(tmp_path / "in")
