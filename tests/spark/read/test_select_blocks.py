"""Which record batches are decoded, by the truths of a predicate and by who can answer without rows."""

from types import SimpleNamespace

import pytest
from statistics_cases import batch_of, write_described

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.predicate.prune import ANYTHING, FALSE, NULL, TRUE
from spark_arrow_ipc.spark.read.reader import select_blocks

TRUTHS = [TRUE, FALSE, TRUE | NULL, NULL, ANYTHING, TRUE]
SELECTION = SimpleNamespace(of_blocks=(), block_truths=lambda *_: TRUTHS.__getitem__)
CASES = [
    ("a predicate", SELECTION, None, None, [0, 2, 4, 5], []),
    ("all that match as a whole are offered", SELECTION, set(), None, [0, 2, 4, 5], [0, 5]),
    ("what is answered is not decoded", SELECTION, {5}, None, [0, 2, 4], [0, 5]),
    ("of a range", SELECTION, {5}, (1, 5), [2, 4], []),
    ("without a predicate", None, {0, 1}, (0, 4), [2, 3], [0, 1, 2, 3]),
]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("blocks") / "a.arrow")
    batches = [batch_of(t.int64, i) for i in range(len(TRUTHS))]
    write_described(path, batches, batches[0].schema)
    return path


@pytest.mark.parametrize(
    ("selection", "known", "part", "decoded", "offered"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_blocks_are_decoded_that_may_match_and_are_not_answered(file, selection, known, part, decoded, offered):
    asked = []

    def answer(reader, part, fields, statistics, numbers):
        asked.extend(numbers)
        assert len(TRUTHS) == len(statistics.row_counts)
        return frozenset(known) & set(numbers)

    answers = SimpleNamespace(need_statistics=True, answer=answer)
    start, stop = part or (None, None)
    with ipc.open(file) as reader:
        keeps = select_blocks(selection, (), None if known is None else answers)(
            reader, SimpleNamespace(start=start, stop=stop)
        )
        assert decoded == [i for i in range(*(part or (0, len(TRUTHS)))) if keeps(i)]
    assert offered == asked


def test_a_file_without_statistics_is_decoded_unless_someone_answers(tmp_path):
    path = str(tmp_path / "a.arrow")
    batch = batch_of(t.int64, 1)
    ipc.write(path, [batch], batch.schema)
    whole = SimpleNamespace(start=None, stop=None)
    by_path = SimpleNamespace(of_blocks=(), block_truths=lambda *_: lambda _: TRUE)
    with ipc.open(path) as reader:
        assert select_blocks(by_path, (), None)(reader, whole) is None
        answers = SimpleNamespace(need_statistics=False, answer=lambda *_: frozenset([0]))
        assert not select_blocks(by_path, (), answers)(reader, whole)(0)
