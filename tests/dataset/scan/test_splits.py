"""Files become input partitions: Spark's arithmetic, over Arrow's blocks."""

import pickle
import time

import pytest

from spark_arrow_ipc.dataset.listing.tree import DataFile
from spark_arrow_ipc.dataset.scan.splits import FileRange, block_sizes, block_sizes_if_sound, plan_splits
from spark_arrow_ipc.errors import FileChangedError, InvalidFramingError

MIB = 1 << 20


def file(name, nbytes):
    return DataFile(f"/data/{name}", nbytes, 17)


def never(path):
    raise AssertionError(f"{path} was opened")


def names(partitions):
    return [[part.path.removeprefix("/data/") for part in partition] for partition in partitions]


def blocks(partitions):
    return [part.end_block - part.first_block for partition in partitions for part in partition]


SPLITS = [
    # name, bytes, sizes of record batches, minimal partitions, blocks of each partition
    ("the reference case, 2 cores", 400 * MIB, [400 * MIB // 150] * 150, 2, [37, 38, 37, 38]),
    ("the reference case in decimal megabytes", 400 * 10**6, [400 * 10**6 // 150] * 150, 2, [37, 38, 37, 38]),
    ("a lone small file, one split for each core", 40 * MIB, [MIB] * 40, 4, [10, 10, 10, 10]),
    ("never below the cost of opening", 6 * MIB, [MIB] * 6, 100, [2, 2, 2]),
    ("no more ranges than batches", 1024 * MIB, [512 * MIB] * 2, 2, [1, 1]),
    ("one batch cannot be cut", 1024 * MIB, [1024 * MIB], 2, [1]),
    ("no batch", 1024 * MIB, [], 2, [0]),
    ("one large batch among small ones is cut at the bytes", 410 * MIB, [200 * MIB, *[MIB] * 200], 2, [1, 100, 100]),
    ("a short last batch", 300 * MIB, [MIB * 30] * 9 + [1], 1, [3, 3, 4]),
]


@pytest.mark.parametrize(
    ("nbytes", "sizes", "cores", "expected"), [case[1:] for case in SPLITS], ids=[case[0] for case in SPLITS]
)
def test_large_file_is_cut_between_its_blocks(nbytes, sizes, cores, expected):
    partitions = plan_splits([file("x", nbytes)], min_partitions=cores, footer=lambda _: sizes)
    assert expected == blocks(partitions)
    ranges = [part for partition in partitions for part in partition]
    edges = [ranges[0].first_block, *(part.end_block for part in ranges)]
    assert edges == [*(part.first_block for part in ranges), len(sizes)]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 149, 150, 151, 1000])
@pytest.mark.parametrize("parts", [1, 2, 3, 4, 7, 64])
def test_equal_batches_differ_by_one_batch_at_most(count, parts):
    partitions = plan_splits(
        [file("x", count * 10)], max_partition_bytes=-(-count * 10 // parts), open_cost_bytes=0, min_partitions=1,
        footer=lambda _: [10] * count,
    )  # fmt: skip
    counts = [part.end_block - part.first_block for partition in partitions for part in partition if part.end_block]
    assert not counts or max(counts) - min(counts) <= 1
    assert not counts or count == sum(counts)


LARGE = [
    # name, sizes of record batches, rows that may be cut (None: none may), rows of each range
    ("one batch", [400 * MIB], 1000, [(0, 248), (248, 496), (496, 744), (744, 1000)]),
    ("one batch that can only be read whole", [400 * MIB], None, [None]),
    ("a large one among others", [300 * MIB, 50 * MIB, 50 * MIB], 90, [(0, 24), (24, 56), (56, 90), None]),
    ("a little above a split", [130 * MIB], 1000, [None]),
    ("fewer rows than parts", [400 * MIB], 3, [(0, 3)]),
    ("a large empty one", [400 * MIB], 0, [None]),
]


@pytest.mark.parametrize(("sizes", "length", "expected"), [case[1:] for case in LARGE], ids=[case[0] for case in LARGE])
def test_large_batches_are_cut_between_their_rows(sizes, length, expected):
    partitions = plan_splits(
        [file("x", sum(sizes))], min_partitions=1, footer=lambda _: sizes, batch_length=lambda _, i: length if i == 0 else never(i)
    )  # fmt: skip
    ranges = sorted(
        (part for partition in partitions for part in partition), key=lambda p: (p.first_block, p.rows or (0, 0))
    )
    assert [part.rows for part in ranges] == expected
    assert sum(part.end_block - part.first_block for part in ranges if part.rows is None) == len(sizes) - any(
        part.rows is not None for part in ranges
    )
    assert pickle.loads(pickle.dumps(ranges)) == ranges


PROJECTIONS = [
    # part of the bytes that is read, blocks of each partition
    (1.0, [37, 38, 37, 38]),
    (0.5, [75, 75]),
    (1 / 16, [75, 75]),
    (0.3, [75, 75]),
]


@pytest.mark.parametrize(("share", "expected"), PROJECTIONS)
def test_a_projection_makes_fewer_ranges(share, expected):
    large = file("x", 400 * MIB)
    partitions = plan_splits([large], min_partitions=2, footer=lambda _: [400 * MIB // 150] * 150, share=share)
    assert expected == blocks(partitions)


def test_a_projection_of_what_is_kept():
    sizes = [0] * 50 + [10 * MIB] * 50
    partitions = plan_splits([file("x", 1)], min_partitions=1, kept=lambda _: sizes, share=0.5)
    assert blocks(partitions) == [25, 25]


def test_unequal_batches_are_balanced_by_bytes():
    """No range is heavier than its fair share by more than the largest block."""
    sizes = [(i * 7919) % 101 * MIB + 1 for i in range(200)]
    partitions = plan_splits([file("x", sum(sizes))], min_partitions=2, footer=lambda _: sizes)
    ranges = [part for partition in partitions for part in partition]
    weights = [sum(sizes[part.first_block : part.end_block]) for part in ranges]
    assert sum(sizes) == sum(weights)
    assert max(weights) <= sum(sizes) / len(ranges) + max(sizes)


def test_file_that_fits_a_split_is_not_opened():
    partitions = plan_splits([file("x", 128 * MIB)], min_partitions=1, footer=never)
    assert ((FileRange("/data/x", 128 * MIB, 17),),) == partitions


def test_what_cannot_be_cut_is_one_range_however_large():
    assert ((FileRange("/data/x", 999 * MIB, 17),),) == plan_splits([file("x", 999 * MIB)], footer=lambda _: None)


def test_what_the_listing_found_of_a_file_travels_with_its_ranges():
    found = DataFile("/data/x", 400 * MIB, 17, ("a", None), "/data/staged")
    for footer in (lambda _: [MIB] * 400, lambda _: None):
        (first, *_), *_ = plan_splits([found], min_partitions=2, footer=footer)
        assert (("a", None), "/data/staged") == (first.partition, first.staged)
        assert first == pickle.loads(pickle.dumps(first))


PACKINGS = [
    ("nothing", [], []),
    ("one empty file", [0], [["0"]]),
    ("together while they fit, the cost of opening counted", [1, 1, 1, 1, 1, 1], [["0", "1"], ["2", "3"], ["4", "5"]]),
    ("largest first", [1, 8, 3], [["1"], ["2", "0"]]),
    ("a partition is closed by the first that does not fit", [8, 5, 1], [["0"], ["1", "2"]]),
    ("equal files keep their order", [5, 5, 5], [["0"], ["1"], ["2"]]),
]


@pytest.mark.parametrize(("sizes", "expected"), [case[1:] for case in PACKINGS], ids=[case[0] for case in PACKINGS])
def test_small_files_are_packed_as_spark_packs_them(sizes, expected):
    files = [file(str(i), size) for i, size in enumerate(sizes)]
    partitions = plan_splits(files, max_partition_bytes=10, open_cost_bytes=4, min_partitions=1, footer=never)
    assert expected == names(partitions)


def test_cut_file_keeps_the_order_of_its_rows():
    sizes = [10, 11, 12, 13]
    partitions = plan_splits(
        [file("x", 46)], max_partition_bytes=12, open_cost_bytes=0, min_partitions=1, footer=lambda _: sizes
    )
    assert [0, 1, 2, 3] == [part.first_block for partition in partitions for part in partition]


WRONG = [
    ("max_partition_bytes", {"max_partition_bytes": 0}),
    ("open_cost_bytes", {"open_cost_bytes": -1}),
    ("min_partitions", {"min_partitions": 0}),
]


@pytest.mark.parametrize(("name", "parameters"), WRONG, ids=[case[0] for case in WRONG])
def test_parameter_out_of_bounds_is_named(name, parameters):
    with pytest.raises(ValueError, match=name):
        plan_splits([], **parameters)


def test_a_hundred_thousand_files_are_planned_in_seconds_and_stay_small():
    files = [file(f"part-{i:05d}-{'0' * 32}.arrow", 4096) for i in range(100_000)]
    started = time.perf_counter()
    partitions = plan_splits(files, min_partitions=2, footer=never)
    assert time.perf_counter() - started < 5
    assert 100_000 == sum(map(len, partitions))
    longest = max(partitions, key=len)
    assert len(pickle.dumps(longest)) / len(longest) < 120
    assert longest == pickle.loads(pickle.dumps(longest))


def test_block_sizes_of_real_files(tmp_path):
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"a": range(1000)})
    with pa.OSFile(str(tmp_path / "f.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=300)
    with pa.OSFile(str(tmp_path / "s.arrows"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    sizes = block_sizes(str(tmp_path / "f.arrow"))
    assert 4 == len(sizes)
    assert 8000 < sum(sizes) < (tmp_path / "f.arrow").stat().st_size
    (batch,) = block_sizes(str(tmp_path / "s.arrows")).batches
    assert (0, 1000) == (batch.rows_before, batch.rows)


@pytest.mark.parametrize("footer", [block_sizes, block_sizes_if_sound])
def test_a_file_that_a_commit_has_not_renamed_yet_is_cut_where_it_lies(tmp_path, footer):
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"a": range(1000)})
    staged = tmp_path / "staged"
    with pa.OSFile(str(staged), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=250)
    large = DataFile(str(tmp_path / "part.arrow"), staged.stat().st_size, 17, staged=str(staged))
    partitions = plan_splits([large], max_partition_bytes=5000, open_cost_bytes=1, min_partitions=1, footer=footer)
    assert blocks(partitions) == [2, 2]
    staged.rename(large.path)
    assert (
        plan_splits([large], max_partition_bytes=5000, open_cost_bytes=1, min_partitions=1, footer=footer) == partitions
    )


def test_block_sizes_of_what_is_no_arrow_names_the_file(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\n" * 10)
    with pytest.raises(InvalidFramingError, match=r"x\.csv.*text"):
        block_sizes(str(path))
    with pytest.raises(FileChangedError, match=r"y\.arrow.*gone"):
        block_sizes(str(tmp_path / "y.arrow"))


# (Bytes of the blocks of each file that are kept, or None; ranges: file, first block, end.)
KEPT = {
    "nothing of one file": ([(0, 0, 0), (10, 10, 10)], [(1, 0, 3)]),
    "nothing at all": ([(0,), (0, 0)], []),
    "the middle": ([(0, 10, 10, 0)], [(0, 1, 3)]),
    "a hole stays": ([(0, 10, 0, 10, 0)], [(0, 1, 4)]),
    "not known": ([None, (0, 5)], [(0, None, None), (1, 1, 2)]),
    "more than a split": ([(0, 0, *[100] * 6, 0)], [(0, 2, 5), (0, 5, 8)]),
}


@pytest.mark.parametrize("case", KEPT)
def test_what_is_passed_over_is_in_no_range(case):
    sizes, expected = KEPT[case]
    files = [DataFile(f"/{i}", 300 if kept is None else len(kept) * 100, 0) for i, kept in enumerate(sizes)]
    by_path = {file.path: kept for file, kept in zip(files, sizes, strict=True)}
    splits = plan_splits(
        files, max_partition_bytes=10_000, open_cost_bytes=0, min_partitions=1 if "split" not in case else 2,
        kept=lambda file: by_path[file.path],
    )  # fmt: skip
    found = [(int(part.path[1:]), part.first_block, part.end_block) for ranges in splits for part in ranges]
    assert expected == sorted(found)
