"""Many calls of one kind: each item once, in threads where calls wait, and the first error is the one that is raised."""

import threading

import pytest

from spark_arrow_ipc.storage.storage import each

CASES = [(slow, number) for slow in (False, True) for number in (0, 1, 31, 32, 33, 500)]


@pytest.mark.parametrize(("slow", "number"), CASES, ids=[f"{'slow' if slow else 'quick'} {n}" for slow, n in CASES])
def test_each_item_once(monkeypatch, slow, number):
    monkeypatch.setattr("spark_arrow_ipc.storage.storage._SLOW_SECONDS", -1 if slow else 10)
    done, threads = [], set()

    def call(item):
        done.append(item)
        threads.add(threading.get_ident())

    each(call, range(number))
    assert [*range(number)] == sorted(done)
    assert (threads - {threading.get_ident()} != set()) == (slow and number > 32)


def test_calls_that_wait_are_made_at_once_from_the_first_one_on():
    together = threading.Barrier(8, timeout=20)
    each(lambda _: together.wait(), range(8), waits=True)
    alone = []
    each(lambda _: alone.append(threading.get_ident()), [1], waits=True)
    assert [threading.get_ident()] == alone
    each(lambda _: 1 / 0, [], waits=True)


@pytest.mark.parametrize("slow", [False, True], ids=["quick", "slow"])
@pytest.mark.parametrize("bad", [0, 40, 499])
def test_an_error_is_raised(monkeypatch, slow, bad):
    monkeypatch.setattr("spark_arrow_ipc.storage.storage._SLOW_SECONDS", -1 if slow else 10)

    def call(item):
        if item == bad:
            raise OSError(5, "Input/output error")

    with pytest.raises(OSError, match="Input/output"):
        each(call, range(500))
