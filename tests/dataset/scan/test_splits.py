"""Files become input partitions: Spark's arithmetic, over Arrow's blocks."""

import pickle

import cpu_time
import pytest

from spark_arrow_ipc.dataset.listing.tree import DataFile
from spark_arrow_ipc.dataset.scan.file_metadata import FileMetadata
from spark_arrow_ipc.dataset.scan.file_range import FileRange
from spark_arrow_ipc.dataset.scan.splits import SplitOptions, cut_above, larger_than_split, plan_splits
from spark_arrow_ipc.errors import FileChangedError, InvalidFramingError, LimitError

MIB = 1 << 20


def file(name, nbytes):
    return DataFile(f"/data/{name}", nbytes, 17)


def splits(
    files,
    sizes=None,
    *,
    rows=None,
    max_partition_bytes=128 * MIB,
    open_cost_bytes=4 * MIB,
    min_partitions=None,
    **options,
):
    """Plan files that have record batches of `sizes`; without these, files that need no metadata."""
    metadata = None if sizes is None else FileMetadata(block_nbytes=tuple(sizes), block_rows=rows or {})
    return plan_splits(
        files,
        SplitOptions(max_partition_bytes, open_cost_bytes, min_partitions),
        metadata={} if metadata is None else {file.path: metadata for file in files},
        **options,
    )


def names(partitions):
    return [[part.path.removeprefix("/data/") for part in partition] for partition in partitions]


def blocks(partitions):
    return [part.stop - part.start for partition in partitions for part in partition]


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
    partitions = splits([file("x", nbytes)], sizes, min_partitions=cores)
    assert expected == blocks(partitions)
    ranges = [part for partition in partitions for part in partition]
    edges = [ranges[0].start, *(part.stop for part in ranges)]
    assert edges == [*(part.start for part in ranges), len(sizes)]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 149, 150, 151, 1000])
@pytest.mark.parametrize("parts", [1, 2, 3, 4, 7, 64])
def test_equal_batches_differ_by_one_batch_at_most(count, parts):
    partitions = splits(
        [file("x", count * 10)], [10] * count,
        max_partition_bytes=-(-count * 10 // parts), open_cost_bytes=0, min_partitions=1,
    )  # fmt: skip
    counts = [part.stop - part.start for partition in partitions for part in partition if part.stop]
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
    partitions = splits([file("x", sum(sizes))], sizes, rows={} if length is None else {0: length}, min_partitions=1)
    ranges = sorted((part for partition in partitions for part in partition), key=lambda p: (p.start, p.rows or (0, 0)))
    assert [part.rows for part in ranges] == expected
    assert sum(part.stop - part.start for part in ranges if part.rows is None) == len(sizes) - any(
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
    partitions = splits([large], [400 * MIB // 150] * 150, min_partitions=2, share=share)
    assert expected == blocks(partitions)


def test_a_projection_of_what_is_kept():
    sizes = [0] * 50 + [10 * MIB] * 50
    partitions = splits([file("x", 1)], min_partitions=1, selected={"/data/x": sizes}, share=0.5)
    assert blocks(partitions) == [25, 25]


def test_unequal_batches_are_balanced_by_bytes():
    """No range is heavier than its fair share by more than the largest block."""
    sizes = [(i * 7919) % 101 * MIB + 1 for i in range(200)]
    partitions = splits([file("x", sum(sizes))], sizes, min_partitions=2)
    ranges = [part for partition in partitions for part in partition]
    weights = [sum(sizes[part.start : part.stop]) for part in ranges]
    assert sum(sizes) == sum(weights)
    assert max(weights) <= sum(sizes) / len(ranges) + max(sizes)


def test_a_file_that_fits_a_split_needs_no_outline():
    fits = file("x", 128 * MIB)
    assert ((FileRange("/data/x", 128 * MIB, 17),),) == splits([fits], min_partitions=1)
    assert ([], cut_above(128 * MIB)) == larger_than_split([fits], SplitOptions(min_partitions=1))


def test_larger_files_need_an_outline():
    files = [file("x", 129 * MIB), file("y", 100 * MIB), file("z", 300 * MIB)]
    large, most = larger_than_split(files, SplitOptions(min_partitions=1))
    assert ["/data/x", "/data/z"] == [found.path for found in large]
    assert 128 * MIB - 1 == most
    large, most = larger_than_split(files, SplitOptions(min_partitions=1), share=0.5)
    assert ["/data/z"] == [found.path for found in large]
    assert 256 * MIB - 1 == most


def test_splits_rise_with_the_bytes_of_all_files():
    """What is known of some files is a lower bound of what is true of all."""
    options = SplitOptions(100, 10, 3)
    sizes = [options.split_bytes(total) for total in range(0, 400, 7)]
    assert sizes == sorted(sizes)
    assert {10, 100} < set(sizes)


def test_what_cannot_be_cut_is_one_range_however_large():
    large = file("x", 999 * MIB)
    assert ((FileRange("/data/x", 999 * MIB, 17),),) == plan_splits([large], metadata={"/data/x": FileMetadata()})


FAULTS = [
    # why the file cannot be opened, whether it is one range where broken files are skipped
    (InvalidFramingError("no end"), True),
    (FileChangedError("gone"), True),
    (LimitError("too much"), False),
    (PermissionError("not yours"), False),
]


@pytest.mark.parametrize(("error", "skipped"), FAULTS, ids=[type(case[0]).__name__ for case in FAULTS])
def test_a_large_file_that_cannot_be_opened_is_an_error_unless_it_is_skipped(error, skipped):
    large, metadata = file("x", 999 * MIB), {"/data/x": FileMetadata(error=error)}
    with pytest.raises(type(error)) as caught:
        plan_splits([large], metadata=metadata)
    assert caught.value is error
    if skipped:
        assert 1 == len(plan_splits([large], metadata=metadata, skips_broken=True))
    else:
        with pytest.raises(type(error)):
            plan_splits([large], metadata=metadata, skips_broken=True)


def test_what_the_listing_found_of_a_file_travels_with_its_ranges():
    listed = DataFile("/data/x", 400 * MIB, 17, ("a", None), "v1")
    for metadata in (FileMetadata(block_nbytes=(MIB,) * 400), FileMetadata()):
        (first, *_), *_ = plan_splits([listed], SplitOptions(min_partitions=2), metadata={"/data/x": metadata})
        assert (("a", None), "v1") == (first.partition, first.version)
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
    # Record batches that statistics select weigh as much as a file of which nothing is known.
    for selected in ({}, {each.path: [each.nbytes] for each in files if each.nbytes}):
        partitions = splits(files, max_partition_bytes=10, open_cost_bytes=4, min_partitions=1, selected=selected)
        assert expected == names(partitions)


def test_cut_file_keeps_the_order_of_its_rows():
    sizes = [10, 11, 12, 13]
    partitions = splits([file("x", 46)], sizes, max_partition_bytes=12, open_cost_bytes=0, min_partitions=1)
    assert [0, 1, 2, 3] == [part.start for partition in partitions for part in partition]


WRONG = [
    ("max_partition_bytes", {"max_partition_bytes": 0}),
    ("open_cost_bytes", {"open_cost_bytes": -1}),
    ("min_partitions", {"min_partitions": 0}),
]


@pytest.mark.parametrize(("name", "parameters"), WRONG, ids=[case[0] for case in WRONG])
def test_parameter_out_of_bounds_is_named(name, parameters):
    with pytest.raises(ValueError, match=name):
        SplitOptions(**parameters)


@pytest.mark.slow
def test_a_hundred_thousand_files_are_planned_in_seconds_and_stay_small():
    files = [file(f"part-{i:05d}-{'0' * 32}.arrow", 4096) for i in range(100_000)]
    partitions = cpu_time.at_most(5, lambda: splits(files, min_partitions=2))
    assert 100_000 == sum(map(len, partitions))
    longest = max(partitions, key=len)
    assert len(pickle.dumps(longest)) / len(longest) < 120
    assert longest == pickle.loads(pickle.dumps(longest))


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
def test_skipped_blocks_are_in_no_range(case):
    sizes, expected = KEPT[case]
    files = [DataFile(f"/{i}", 300 if kept is None else len(kept) * 100, 0) for i, kept in enumerate(sizes)]
    by_path = {file.path: kept for file, kept in zip(files, sizes, strict=True) if kept is not None}
    partitions = splits(
        files,
        max_partition_bytes=10_000,
        open_cost_bytes=0,
        min_partitions=1 if "split" not in case else 2,
        selected=by_path,
    )
    found = [(int(part.path[1:]), part.start, part.stop) for ranges in partitions for part in ranges]
    assert expected == sorted(found)
