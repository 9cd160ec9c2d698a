"""The order of files by age."""

from spark_arrow_ipc.dataset.listing.data_file import DataFile, newest_first


def test_files_are_ordered_by_time_then_by_path():
    files = [DataFile("/b", 1, 5), DataFile("/a", 1, 5), DataFile("/z", 1, 9), DataFile("/c", 1, 1)]
    assert [] == list(newest_first([]))
    assert ["/z", "/a", "/b", "/c"] == [file.path for file in newest_first(files)]
