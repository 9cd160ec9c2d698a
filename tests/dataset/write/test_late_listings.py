"""A storage whose listings show new names late, as a gateway with a cache does: jobs make one entry each, or fail."""

from collections import Counter
from pathlib import Path
from unittest import mock

import pytest
from commit_jobs import APPEND, OVERWRITE, finish, ours, planned, save, table

from spark_arrow_ipc.dataset.write.commit import abort
from spark_arrow_ipc.errors import CommitError, ConcurrentWriteError
from spark_arrow_ipc.storage.local import LocalStorage
from spark_arrow_ipc.storage.paths import join
from spark_arrow_ipc.table.log import read_state
from spark_arrow_ipc.table.names import managed_name, parse_number
from spark_arrow_ipc.table.transaction import UnknownOutcomeError

pytestmark = pytest.mark.disk


class Late:
    """Hides names until their directory was listed some times since they were first there."""

    def __init__(self, listings, is_late=parse_number):
        self.listings, self.is_late = listings, is_late
        self.seen = Counter()

    def __enter__(self):
        real = LocalStorage._list

        def listed(storage, directory, choose):
            def choose_visible(names):
                late = [name for name in names if self.is_late(name) is not None]
                self.seen.update(join(directory, name) for name in late)
                hidden = {name for name in late if self.seen[join(directory, name)] <= self.listings}
                visible = [name for name in names if name not in hidden]
                return visible if choose is None else choose(visible)

            return real(storage, directory, choose_visible)

        self.patch = mock.patch.object(LocalStorage, "_list", listed)
        self.patch.start()
        return self

    def __exit__(self, *_):
        self.patch.stop()


def entries(path):
    return sorted(found.name for found in Path(table(path).log).glob("*/*.json"))


@pytest.mark.slow
@pytest.mark.parametrize("mode", [APPEND, OVERWRITE])
@pytest.mark.parametrize("listings", [1, 3, 10, 40])
def test_a_job_makes_one_entry_or_fails(tmp_path, mode, listings):
    """An append makes one; an overwrite that was planned on an old listing gives way."""
    save(tmp_path, APPEND, "old")
    rows, refused = ["old"], 0
    with Late(listings):
        for i in range(4):
            try:
                assert save(tmp_path, mode, f"new {i}").published
            except ConcurrentWriteError:
                refused += 1
            else:
                rows = [f"new {i}"] if mode is OVERWRITE else [*rows, f"new {i}"]
    assert refused == 0 or mode is OVERWRITE
    assert [f"{number:020d}.json" for number in range(1, 6 - refused)] == entries(tmp_path)
    assert sorted(rows) == ours(tmp_path)


@pytest.mark.slow
def test_a_log_whose_entries_are_never_listed_takes_no_job(tmp_path):
    save(tmp_path, APPEND, "old")
    with Late(10**9), pytest.raises(CommitError, match="nothing is published"):
        save(tmp_path, APPEND, "new")
    assert ["old"] == ours(tmp_path)
    assert 1 == len(entries(tmp_path))


@pytest.mark.slow
def test_a_job_whose_own_entry_is_never_listed_is_not_said_to_be_unpublished(tmp_path):
    plan, outputs = planned(tmp_path, APPEND, "new")
    with Late(10**9):
        with pytest.raises(UnknownOutcomeError, match="arrowipc history"):
            finish(plan, outputs)
        assert not abort(plan)
    assert ["new"] == ours(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("listings", "is_published"), [(1, True), (10, False)])
def test_files_whose_names_are_listed_late_are_committed_or_not(tmp_path, listings, is_published):
    """An entry names no file that no listing has shown."""
    save(tmp_path, APPEND, "old")
    plan, outputs = planned(tmp_path, APPEND, "k=1:new", "k=2:new")
    with Late(listings, managed_name):
        if is_published:
            finish(plan, outputs)
        else:
            with pytest.raises(CommitError, match="has no final name; nothing is published"):
                finish(plan, outputs)
    assert (["k=1:new", "k=2:new"] if is_published else []) + ["old"] == ours(tmp_path)
    if not is_published:
        assert abort(plan)
        assert [] == list(tmp_path.glob("k=*/*"))
        assert plan.staging.jobid in read_state(table(tmp_path)).ended
