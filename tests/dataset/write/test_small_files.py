"""Which files are joined: the small ones of a directory, in the order in which they were written."""

import pytest

from spark_arrow_ipc.dataset.write.existing_files import LiveFile, fill_bins

CASES = [
    # files as (path, bytes, time); the bins by their names, for an aim of 100 bytes
    ("few", [("a", 10, 1), ("b", 20, 2)], [["a", "b"]]),
    ("one", [("a", 10, 1)], []),
    ("none is small", [("a", 50, 1), ("b", 100, 2), ("c", 1000, 3)], []),
    ("a large one between small ones", [("a", 10, 1), ("b", 99, 2), ("c", 10, 3)], [["a", "c"]]),
    ("as many as fit", [(c, 40, i) for i, c in enumerate("abcde")], [["a", "b"], ["c", "d"]]),
    ("in the order of time", [("c", 10, 1), ("a", 10, 3), ("b", 10, 2)], [["c", "b", "a"]]),
    ("by directory", [("k=1/a", 9, 1), ("k=2/b", 9, 2), ("k=1/c", 9, 3), ("d", 9, 4)], [["k=1/a", "k=1/c"]]),
    ("empty ones", [(f"{i:03}", 0, 1) for i in range(300)], [[f"{i:03}" for i in range(300)]]),
    ("nothing", [], []),
]


@pytest.mark.parametrize(("files", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_bins(files, expected):
    bins = fill_bins([LiveFile(*file) for file in files], 100)
    assert expected == [[file.path for file in each.files] for each in bins]
    assert [each.directory for each in bins] == [each.files[0].path.rpartition("/")[0] for each in bins]


def test_a_second_run_finds_at_most_one_small_file_of_a_directory():
    sizes = [(i * 7919) % 49 + 1 for i in range(500)]
    bins = fill_bins([LiveFile(f"{i}", size, i) for i, size in enumerate(sizes)], 100)
    made = [LiveFile(f"m{i}", sum(f.nbytes for f in each.files), i) for i, each in enumerate(bins)]
    assert [] == fill_bins(made, 100)
    assert all(file.nbytes <= 100 for file in made)
