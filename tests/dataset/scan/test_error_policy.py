"""Missing, changed, broken and truncated files: errors that help, or skipped with a word about it."""

import datetime as dt
import os
import random
from contextlib import suppress
from pathlib import Path

import pytest
from split_files import split_files

from spark_arrow_ipc import ipc
from spark_arrow_ipc.dataset.scan.error_policy import ErrorPolicy
from spark_arrow_ipc.dataset.scan.file_range import FileRange
from spark_arrow_ipc.dataset.scan.scan import ScanOptions, scan
from spark_arrow_ipc.errors import FileChangedError, InvalidArrowError, InvalidBodyError, LimitError, UnsupportedError
from spark_arrow_ipc.ipc import Limits
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.paths import name_of
from spark_arrow_ipc.table.log import create_table
from spark_arrow_ipc.table.names import TableDirectory, data_file_name, new_id

pa = pytest.importorskip("pyarrow")

MAKERS = {"file": pa.ipc.new_file, "stream": pa.ipc.new_stream}
IGNORE_CORRUPT = ErrorPolicy(ignore_corrupt_files=True)
IGNORE_MISSING = ErrorPolicy(ignore_missing_files=True)
RECOVER = ErrorPolicy(recover=True)
BOTH = ErrorPolicy(ignore_corrupt_files=True, ignore_missing_files=True)
ALL = ErrorPolicy(ignore_corrupt_files=True, ignore_missing_files=True, recover=True)


def write(path, kind="file", first=0, rows=100, step=10):
    table = pa.table({"a": range(first, first + rows), "s": [f"text {i}" for i in range(first, first + rows)]})
    with pa.OSFile(str(path), "wb") as sink, MAKERS[kind](sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=step)
    return str(path)


def whole(path, **more):
    found = Path(path).stat()
    return FileRange(str(path), found.st_size, found.st_mtime_ns, **more)


def values(ranges, policy, **options):
    found = scan(ranges, options=ScanOptions(error_policy=policy, **options))
    return [value for file in found for scanned in file.batches for value in scanned.batch.to_pydict()["a"]]


def said(caplog):
    return [record.getMessage() for record in caplog.records]


def spoil(path, number):
    """Make a string of record batch `number` invalid UTF-8."""
    data = bytearray(Path(path).read_bytes())
    # The last place that holds it: pyarrow's padding repeats the beginning of what follows.
    at = data.rindex(f"text {number * 10}".encode())
    data[at] = 0xFF
    Path(path).write_bytes(data)


@pytest.mark.parametrize("joined_rows", [0, 10_000])
@pytest.mark.parametrize("kind", ["file", "stream"])
def test_the_rest_of_a_corrupt_file_is_skipped_and_counted(tmp_path, caplog, kind, joined_rows):
    bad, good = write(tmp_path / "1", kind), write(tmp_path / "2", kind, first=1000)
    spoil(bad, 6)
    found = values([whole(bad), whole(good)], IGNORE_CORRUPT, joined_rows=joined_rows)
    assert [*range(60), *range(1000, 1100)] == found
    (warning,) = said(caplog)
    assert f"{bad}: skipped record batches 6 to 9 (40 rows), as ignoreCorruptFiles asks" in warning
    assert "record batch 6, field s: expected UTF-8 text in slot 0" in warning


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_without_the_option_a_corrupt_file_is_an_error_after_its_sound_rows(tmp_path, caplog, kind):
    path = write(tmp_path / "x", kind)
    spoil(path, 6)
    scanning = scan([whole(path)])
    batches = next(scanning).batches
    assert 60 == next(batches).batch.num_rows
    with pytest.raises(InvalidBodyError) as caught:
        next(batches)
    assert (path, 6) == (caught.value.path, caught.value.block_number)
    assert [] == said(caplog)


@pytest.mark.parametrize("data", [b"", b"a,b\n1,2\n" * 5, b"ARROW1\0\0" + bytes(50)], ids=["empty", "text", "zeros"])
def test_what_cannot_be_opened_is_skipped_from_its_start(tmp_path, caplog, data):
    bad, good = tmp_path / "1", write(tmp_path / "2")
    bad.write_bytes(data)
    assert [*range(100)] == values([whole(bad), whole(good)], IGNORE_CORRUPT)
    (warning,) = said(caplog)
    assert f"{bad}: skipped from its start, as ignoreCorruptFiles asks" in warning


def test_limits_and_permissions_are_not_corruption(tmp_path):
    path = write(tmp_path / "x")
    with pytest.raises(LimitError):
        values([whole(path)], IGNORE_CORRUPT, read=ipc.ReadOptions(limits=Limits(max_batch_bytes=10)))


def test_rows_of_a_range_only_are_counted(tmp_path, caplog):
    path = write(tmp_path / "x")
    spoil(path, 6)
    assert [*range(50, 60)] == values([whole(path, start=5, stop=8)], IGNORE_CORRUPT)
    assert "record batches 6 to 7 (20 rows)" in said(caplog)[0]


def test_a_missing_file_is_skipped_or_a_changed_one(tmp_path, caplog):
    gone, good = whole(write(tmp_path / "1")), whole(write(tmp_path / "2"))
    Path(gone.path).unlink()
    assert [*range(100)] == values([gone, good], IGNORE_MISSING)
    assert [f"{gone.path}: the file is gone since this read was planned; skipped, as ignoreMissingFiles asks"] == said(
        caplog
    )
    with pytest.raises(FileChangedError, match="it is gone"):
        values([gone, good], IGNORE_CORRUPT)


def test_a_changed_file_is_an_error_under_each_policy(tmp_path):
    part = whole(write(tmp_path / "x"))
    write(tmp_path / "x", rows=200)
    planned_at = dt.datetime(2026, 11, 20, 22, 10, 5, tzinfo=dt.UTC)
    with pytest.raises(FileChangedError) as caught:
        values([part], ALL, planned_at=planned_at)
    words = str(caught.value)
    assert f"{part.path}: the file changed after this read was planned at 2026-11-20 22:10:05 UTC (it has " in words
    assert "read the path again" in words


CUTS = [("file", 400), ("file", 5), ("stream", 300)]


@pytest.mark.parametrize(("kind", "cut"), CUTS, ids=[f"{kind} without {cut} bytes" for kind, cut in CUTS])
def test_recover_yields_what_is_whole_and_says_what_is_not(tmp_path, caplog, kind, cut):
    path = Path(write(tmp_path / "x", kind))
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(InvalidArrowError):
        values([whole(path)], ErrorPolicy())
    found = values([whole(path)], RECOVER)
    assert [*range(len(found))] == found
    assert len(found) >= (100 if cut == 5 else 60)
    (warning,) = said(caplog)
    assert f"{path}: skipped the bytes after its last complete record batch, as recover asks: " in warning


def test_recover_reads_sound_files_without_a_word(tmp_path, caplog):
    paths = [write(tmp_path / kind, kind) for kind in MAKERS]
    assert [*range(100)] * 2 == values(map(whole, paths), RECOVER)
    assert [] == said(caplog)


@pytest.mark.slow
def test_recover_skips_a_file_that_has_no_schema(tmp_path, caplog):
    path = tmp_path / "x"
    path.write_bytes(Path(write(tmp_path / "y")).read_bytes()[:50])
    assert [] == values([whole(path)], RECOVER)
    assert "skipped from its start, as recover asks" in said(caplog)[0]


def test_recover_does_not_excuse_broken_values(tmp_path):
    path = write(tmp_path / "x")
    spoil(path, 3)
    with pytest.raises(InvalidBodyError):
        values([whole(path)], RECOVER)


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_large_truncated_files_are_planned_and_recovered(tmp_path, kind):
    path = Path(write(tmp_path / "x", kind, rows=5000))
    path.write_bytes(path.read_bytes()[:-3000])
    ((part,),) = split_files([path], 1000, 1, skips_broken=True)
    found = values([part], RECOVER)
    assert [*range(len(found))] == found
    assert len(found) > 4500


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_random_damage_never_costs_a_row_without_a_word(tmp_path, caplog, kind):
    """Whatever byte is broken: all rows are read, or a warning says that some are not."""
    sound = Path(write(tmp_path / "sound", kind)).read_bytes()
    random_ = random.Random(3)
    path = tmp_path / "x"
    for _ in range(60):
        data = bytearray(sound)
        data[random_.randrange(len(data))] ^= 1 << random_.randrange(8)
        path.write_bytes(data)
        caplog.clear()
        options = ScanOptions(error_policy=IGNORE_CORRUPT, joined_rows=random_.choice([0, 1000]))
        rows = 0
        # What this package does not read is no damage, and not ignored.
        with suppress(UnsupportedError, LimitError):
            for file in scan([whole(path)], options=options):
                rows += sum(scanned.batch.num_rows for scanned in file.batches)
            assert rows == 100 or said(caplog)


def test_a_removed_file_is_found_where_its_table_retains_it(tmp_path):
    directory = TableDirectory(LOCAL, str(tmp_path))
    path = directory.path(data_file_name(0, create_table(directory), new_id()))
    listed = LOCAL.status(write(path))
    part = FileRange(path, listed.nbytes, listed.mtime_ns)
    retained = Path(directory.replaced(7, name_of(path)))
    retained.parent.mkdir(parents=True)
    Path(path).rename(retained)
    assert [*range(100)] == values([part], ErrorPolicy())
    retained.unlink()
    with pytest.raises(FileChangedError, match="it is gone"):
        values([part], ErrorPolicy())


def test_rows_before_a_range_are_known(tmp_path):
    path, stream = write(tmp_path / "f"), write(tmp_path / "s", "stream")
    for file in (path, stream):
        partitions = split_files([file], 1500)
        before = [scanned.rows_before() for ranges in partitions for scanned in scan(ranges)]
        blocks = [part.start for ranges in partitions for part in ranges]
        assert [10 * block for block in blocks] == before
        assert len(before) > 2
    assert [0] == [scanned.rows_before() for scanned in scan([whole(path)])]


def test_a_file_touched_after_planning_stays_an_error_when_mapped(tmp_path):
    part = whole(write(tmp_path / "x"))
    os.utime(part.path, ns=(1, 1))
    with pytest.raises(FileChangedError):
        values([part], ErrorPolicy(), memory_map=True)
