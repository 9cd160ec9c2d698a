"""What cleaning does with files on a disk."""

import pytest

from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.stream.clean import Cleaner
from spark_arrow_ipc.dataset.stream.mode import StreamBatch
from spark_arrow_ipc.storage.local import LOCAL


@pytest.fixture
def batch(tmp_path):
    files = []
    for name in ("a.arrow", "k=1/b.arrow"):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        files.append(DataFile(str(path), path.stat().st_size, path.stat().st_mtime_ns))
    return StreamBatch(tuple(files), (str(tmp_path / "in"),) * 2)


def test_files_move_to_the_archive_with_their_whole_path(tmp_path, batch):
    cleaner = Cleaner(LOCAL, str(tmp_path / "old"))
    for _ in range(2):
        cleaner.clean(batch)
        assert [] == [path for path in (tmp_path / "in").rglob("*") if path.is_file()]
        for file in batch.files:
            assert cleaner.archived(file.path) == f"{tmp_path}/old{file.path}"
            assert LOCAL.status(cleaner.archived(file.path)).nbytes == file.nbytes


def test_what_cannot_be_cleaned_is_a_warning_and_the_rest_is_cleaned(tmp_path, batch, caplog):
    (tmp_path / "old").write_text("in the way")
    Cleaner(LOCAL, str(tmp_path / "old")).clean(batch)
    assert 2 == caplog.text.count("not cleaned: ")
    (tmp_path / "in" / "a.arrow").write_text("longer than before")
    Cleaner(LOCAL, None).clean(batch)
    assert ["a.arrow"] == [path.name for path in (tmp_path / "in").rglob("*") if path.is_file()]
    assert "has changed since it was read" in caplog.text


@pytest.mark.parametrize(
    ("path", "archived"), [("s3://b/in/a", "s3://c/old/in/a"), ("memory:/in/a", "s3://c/old/in/a")]
)
def test_the_path_in_an_archive_has_no_bucket(path, archived):
    assert archived == Cleaner(LOCAL, "s3://c/old").archived(path)
