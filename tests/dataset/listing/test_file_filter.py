"""Filters of files by name and by the time of their last modification."""

import os

import pytest
from listed_files import list_files

from spark_arrow_ipc.dataset.listing.data_file import FileFilter, parse_modified
from spark_arrow_ipc.errors import OptionError


def fill(root, *names):
    for name in names:
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(name.encode())


def listed(root, *paths, **options):
    return [os.path.relpath(file.path, root) for file in list_files([str(root / path) for path in paths], **options)]


MODIFIED = [
    ("strictly before", {"modified_before": 2000}, ["0", "1"]),
    ("strictly after", {"modified_after": 2000}, ["3"]),
    ("between", {"modified_after": 0, "modified_before": 3000}, ["1", "2"]),
    ("and by name", {"modified_after": 0, "path_glob_filter": "{0,3}"}, ["3"]),
]


@pytest.mark.parametrize(("filters", "expected"), [case[1:] for case in MODIFIED], ids=[case[0] for case in MODIFIED])
def test_files_by_time_of_modification(tmp_path, filters, expected):
    for i in range(4):
        fill(tmp_path, str(i))
        os.utime(tmp_path / str(i), ns=(0, 1000 * i))
    assert expected == listed(tmp_path, "", file_filter=FileFilter(**filters))


TIMES = [
    ("2024-03-09T12:00:00", None, 1_709_985_600),
    ("2024-03-09T12:00:00", "Europe/Berlin", 1_709_982_000),
    ("2024-03-09 12:00:00", "+02:00", 1_709_978_400),
    ("2024-03-09T12:00:00Z", "Europe/Berlin", 1_709_985_600),
    ("2024-03-09T12:00:00+01:00", None, 1_709_982_000),
    ("2024-03-09", "GMT-1", 1_709_946_000),
    ("1969-12-31T23:59:59.5", None, -0.5),
]


@pytest.mark.parametrize(("string", "zone", "seconds"), TIMES, ids=[f"{case[0]} in {case[1]}" for case in TIMES])
def test_times_are_utc_unless_a_zone_is_given(string, zone, seconds):
    assert int(seconds * 10**9) == parse_modified(string, zone)


@pytest.mark.parametrize(
    ("string", "zone"), [("yesterday", None), ("2024-13-01", None), ("", None), ("2024-01-01", "Mars/X")]
)
def test_no_time_and_no_zone_are_named(string, zone):
    with pytest.raises(OptionError, match=r"Mars" if zone else "2024-03-09T12:00:00"):
        parse_modified(string, zone)
