"""Paths of a dataset's records and staging directories."""

import pytest

from spark_arrow_ipc.dataset.commit_log.dataset_directory import MAX_SEQUENCE_NUMBER, DatasetDirectory, sequence_number
from spark_arrow_ipc.storage.local import LOCAL

DATASET = DatasetDirectory(LOCAL, "/data/t")


def test_paths_inside_a_dataset():
    assert ("/data/t", "/data/t/k=1/x") == (DATASET.path(""), DATASET.path("k=1/x"))
    assert "/data/t/_ipc_commits" == DATASET.commits
    assert "/data/t/_ipc_commits/00000000000000000007.json" == DATASET.record(7)
    assert "/data/t/_ipc_commits/00000000000000000007.done" == DATASET.done_mark(7)
    assert ("/data/t/_ipc_stage", "/data/t/_ipc_stage/job") == (DATASET.all_staging, DATASET.staging("job"))


NAMES = [
    ("record", "00000000000000000007.json", 7),
    ("mark", "00000000000000000012.done", 12),
    ("claim", "00000000000000000012.claim", 12),
    ("the largest", f"{2**63 - 1:020d}.json", 2**63 - 1),
    ("larger", f"{2**63:020d}.json", None),
    ("twenty digits", "9" * 20 + ".json", None),
    ("too short", "0000000000000000007.json", None),
    ("another suffix", "00000000000000000007.staged", None),
    ("digits of another script", "0000000000000000000\u0661.json", None),
    ("with a directory", "x/00000000000000000007.json", None),
]


@pytest.mark.parametrize(("name", "expected"), [case[1:] for case in NAMES], ids=[case[0] for case in NAMES])
def test_sequence_number(name, expected):
    assert expected == sequence_number(name)


@pytest.mark.parametrize("seq", [1, MAX_SEQUENCE_NUMBER])
def test_sequence_number_of_its_own_names(seq):
    names = [path.rpartition("/")[2] for path in (DATASET.record(seq), DATASET.done_mark(seq))]
    assert [seq, seq] == [sequence_number(name) for name in names]
