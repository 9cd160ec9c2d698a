"""Files are opened ahead of their turn, and come in their order with their own errors."""

import time
from contextlib import closing
from threading import Lock

import pytest
from waiting import Asked, eventually

from spark_arrow_ipc.dataset.scan.read_blocks import FILES_AHEAD, in_turn


class Files:
    """What was opened and what was closed."""

    def __init__(self, seconds):
        self.asked, self.opened, self.closed, self.lock = Asked(seconds), [], [], Lock()

    def open(self, number):
        with self.asked.request("open"):
            if number == 5:
                raise OSError("the fifth")
        with self.lock:
            self.opened.append(number)
        return number

    def close(self, number):
        with self.lock:
            self.closed.append(number)


@pytest.mark.parametrize("waits", [False, True])
def test_items_come_in_order_and_an_error_at_its_turn(waits):
    files, found = Files(0.01), []
    with closing(in_turn(range(30), files.open, files.close, waits=waits)) as turns:
        for item, opens in turns:
            if item == 5:
                with pytest.raises(OSError, match="the fifth"):
                    opens()
            else:
                found.append(opens())
    assert [i for i in range(30) if i != 5] == found == sorted(files.opened)
    assert files.asked.peak <= FILES_AHEAD
    assert (files.asked.peak > 1) == waits
    assert [] == files.closed


def test_what_was_opened_in_vain_is_closed():
    files = Files(0.005)
    with closing(in_turn(range(20, 60), files.open, files.close, waits=True)) as turns:
        assert 20 == next(turns)[1]()
        assert 21 == next(turns)[1]()
    assert eventually(lambda: sorted(files.opened)[2:] == sorted(files.closed))
    time.sleep(0.03)
    assert len(files.opened) <= FILES_AHEAD + 2
