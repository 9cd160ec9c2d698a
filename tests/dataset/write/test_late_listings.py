"""A storage whose listings show new names late, as a gateway with a cache does: jobs end, and make one record each."""

from pathlib import Path
from unittest import mock

import pytest
from commit_jobs import APPEND, OVERWRITE, dataset, ours, save

from spark_arrow_ipc.dataset.commit_log.dataset_directory import parse_name
from spark_arrow_ipc.errors import CommitError
from spark_arrow_ipc.storage.local import LocalStorage
from spark_arrow_ipc.storage.paths import name_of

pytestmark = pytest.mark.disk


class Late:
    """Hides names in the directory of the records until it was listed some times since they were first there."""

    def __init__(self, listings):
        self.listings, self.seen = listings, {}
        self.made = set()

    def __enter__(self):
        real = LocalStorage.list

        def listed(storage, directory):
            for status in real(storage, directory):
                name = name_of(status.path)
                if parse_name(name) is not None:
                    self.made.add(name)
                    self.seen[name] = self.seen.get(name, 0) + 1
                    if self.seen[name] <= self.listings:
                        continue
                yield status

        self.patch = mock.patch.object(LocalStorage, "list", listed)
        self.patch.start()
        return self

    def __exit__(self, *_):
        self.patch.stop()


@pytest.mark.slow
@pytest.mark.parametrize("mode", [APPEND, OVERWRITE])
@pytest.mark.parametrize("listings", [1, 3, 10, 40])
def test_a_job_makes_one_record(tmp_path, clock, mode, listings):
    save(tmp_path, APPEND, "old")
    with Late(listings) as late:
        for i in range(4):
            save(tmp_path, mode, f"new {i}")
    assert {name for name in late.made if name.endswith("json")} <= {f"{n:020d}.json" for n in range(1, 6)}
    expected = ["new 3"] if mode is OVERWRITE else [*(f"new {i}" for i in range(4)), "old"]
    assert expected == ours(tmp_path)


@pytest.mark.slow
def test_a_listing_that_never_shows_a_record_is_an_error(tmp_path, clock):
    save(tmp_path, APPEND, "old")
    with (
        Late(10**9),
        pytest.raises(CommitError, match=r"number 1 is there, and the storage's listing has not shown it for"),
    ):
        save(tmp_path, APPEND, "new")
    assert ["old"] == ours(tmp_path)
    assert 1 == len(list(Path(dataset(tmp_path).commits).glob("*.json")))
