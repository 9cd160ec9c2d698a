"""What cleaning does with files on a disk."""

import pytest

from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.stream.clean import Cleaner
from spark_arrow_ipc.dataset.stream.mode import StreamBatch
from spark_arrow_ipc.storage.local import LOCAL


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


def cleaner(tmp_path, archive=None):
    return Cleaner(LOCAL, archive and str(tmp_path / archive), (str(tmp_path / "in"),))


def names(directory):
    return sorted(path.name for path in directory.rglob("*") if path.is_file())


def test_files_move_to_the_archive_with_their_whole_path(tmp_path, batch):
    own = cleaner(tmp_path, "old")
    for _ in range(2):
        own.clean(batch)
        assert [] == names(tmp_path / "in")
        for file in batch.files:
            assert own.archived(file.path) == f"{tmp_path}/old{file.path}"
            assert LOCAL.status(own.archived(file.path)).nbytes == file.nbytes


def test_what_cannot_be_cleaned_is_a_warning_and_the_rest_is_cleaned(tmp_path, batch, caplog):
    (tmp_path / "old").write_text("in the way")
    cleaner(tmp_path, "old").clean(batch)
    assert 2 == caplog.text.count("not cleaned: ")
    (tmp_path / "in" / "a.arrow").write_text("longer than before")
    cleaner(tmp_path).clean(batch)
    assert ["a.arrow"] == names(tmp_path / "in")
    assert "has changed since it was read" in caplog.text


def test_nothing_in_the_archive_is_replaced(tmp_path, batch, caplog):
    own = cleaner(tmp_path, "old")
    own.clean(batch)
    again = tmp_path / "in" / "a.arrow"
    again.write_text("another file of this name")
    own.clean(batch_of(tmp_path / "in", again))
    assert "a.arrow" == (tmp_path / f"old{again}").read_text()
    assert again.exists()
    assert "the archive has a file of its name already" in caplog.text


@pytest.mark.parametrize("archive", [None, "old"])
@pytest.mark.parametrize("place", ["", "k=1"])
def test_files_of_a_dataset_below_the_source_stay(tmp_path, batch, caplog, place, archive):
    (tmp_path / "in" / place / "_ipc_commits").mkdir()
    cleaner(tmp_path, archive).clean(batch)
    assert (["a.arrow", "b.arrow"] if not place else ["b.arrow"]) == names(tmp_path / "in")
    assert "in a dataset that this package commits" in caplog.text


def test_a_file_that_is_a_path_of_the_stream_is_taken_away(tmp_path, batch):
    path = batch.files[0].path
    Cleaner(LOCAL, None, (path,)).clean(batch)
    assert ["b.arrow"] == names(tmp_path / "in")


@pytest.mark.parametrize(
    ("path", "archived"), [("s3://b/in/a", "s3://c/old/in/a"), ("memory:/in/a", "s3://c/old/in/a")]
)
def test_the_path_in_an_archive_has_no_bucket(path, archived):
    assert archived == Cleaner(LOCAL, "s3://c/old", ()).archived(path)
