"""The changes of a table's commits: added up they are its rows, whatever was overwritten, and compactions are none."""

import json
import random
from collections import Counter

import pytest
from table_commits import APPEND, DYNAMIC, OVERWRITE, REWRITE, live_texts, save, table, text_of

from spark_arrow_ipc.dataset.stream.mode import ALL_AVAILABLE, Limit
from spark_arrow_ipc.dataset.stream.table import TableMode, TableOptions
from spark_arrow_ipc.errors import StreamOffsetError
from spark_arrow_ipc.table.restore import restore


def commit(path, *texts, mode=APPEND, retain=True, collects=True):
    replaces = (lambda _: True) if mode is REWRITE else None
    save(path, mode, *texts, retain=retain and mode is not APPEND, replaces=replaces, collects=collects)


class Query:
    """Follows changes, each look in another process."""

    def __init__(self, path, **options):
        self.path, self.options = path, TableOptions(changes=True, **options)
        self.at = self.mode().initial()

    def mode(self):
        return TableMode(table(self.path), self.options)

    def look(self, limit=ALL_AVAILABLE):
        """Return the changes of the next batch, each with its commit: ``+a1``; None if there are none."""
        end = json.loads(json.dumps(self.mode().latest(self.at, limit)))
        if end == self.at:
            return None
        batch = self.mode().batch(self.at, end)
        self.at = end
        return [
            f"{'+' if change.kind == 'insert' else '-'}{self.text(file)}@{change.commit}"
            for file, change in zip(batch.files, batch.changes, strict=True)
        ]

    def text(self, file):
        return text_of(table(self.path), file)

    def rest(self, limit=ALL_AVAILABLE):
        return [sorted(found) for found in iter(lambda: self.look(limit), None)]


HISTORIES = {
    "an append": ([(APPEND, "c")], [["+a@1", "+b@1"], ["+c@2"]]),
    "an overwrite": ([(OVERWRITE, "c")], [["+a@1", "+b@1"], ["+c@2", "-a@2", "-b@2"]]),
    "a compaction": ([(REWRITE, "a b"), (APPEND, "c")], [["+a@1", "+b@1"], ["+c@3"]]),
    "a compaction that is overwritten": (
        [(REWRITE, "a b"), (OVERWRITE, "c")],
        [["+a@1", "+b@1"], ["+c@3", "-a b@3"]],
    ),
    "what is added and removed before it is read": (
        [(APPEND, "c"), (OVERWRITE, "d")],
        [["+a@1", "+b@1"], ["+c@2"], ["+d@3", "-a@3", "-b@3", "-c@3"]],
    ),
}


@pytest.mark.parametrize("early", [True, False], ids=["it reads the first files before", "and after"])
@pytest.mark.parametrize("name", HISTORIES)
def test_each_commit_is_its_changes(tmp_path, name, early):
    commit(tmp_path, "a", "b")
    query = Query(tmp_path, first_entry=1)
    jobs, expected = HISTORIES[name]
    found = query.rest() if early else []
    for mode, *texts in jobs:
        commit(tmp_path, *texts, mode=mode)
    assert expected == [*found, *query.rest(Limit(max_files=1))]


def test_the_files_that_are_there_at_the_beginning_are_inserts_also_when_they_are_overwritten_meanwhile(tmp_path):
    commit(tmp_path, "a")
    commit(tmp_path, "b")
    query = Query(tmp_path)
    first = query.look(Limit(max_files=1))
    commit(tmp_path, "c", mode=OVERWRITE)
    rest = query.rest()
    assert ["+a@2", "+b@2", "+c@3", "-a@3", "-b@3"] == sorted(sum(rest, first))


def test_an_overwrite_is_the_same_before_and_after_its_files_are_collected(tmp_path):
    commit(tmp_path, "a")
    query = Query(tmp_path)
    query.rest()
    commit(tmp_path, "b", mode=OVERWRITE, collects=False)
    start = query.at
    before = query.rest()
    commit(tmp_path, "c")
    query.at = start
    assert (before, [["+b@2", "+c@3", "-a@2"]]) == ([["+b@2", "-a@2"]], query.rest())


def test_a_restore_is_the_changes_between_two_entries(tmp_path):
    commit(tmp_path, "k=1:a", "k=2:b")
    commit(tmp_path, "k=1:c", mode=DYNAMIC)
    query = Query(tmp_path)
    query.rest()
    restore(table(tmp_path), 1)
    assert [["+k=1:a@3", "-k=1:c@3"]] == query.rest()


def test_rows_of_other_programs_are_inserts_when_they_are_taken_in_and_never_deletes_before(tmp_path):
    commit(tmp_path, "a")
    query = Query(tmp_path)
    query.rest()
    (tmp_path / "b.arrow").write_text("b")
    commit(tmp_path, "c", mode=OVERWRITE)
    (tmp_path / "d.arrow").write_text("d")
    commit(tmp_path, "c d", mode=REWRITE)
    commit(tmp_path, "e", mode=OVERWRITE)
    assert [["+c@2", "+d@4", "+e@6", "-a@2", "-c d@6"]] == query.rest(), "3 and 5 close the removals"


def test_rows_that_an_overwrite_did_not_retain_are_an_error_or_left_out_with_a_warning(tmp_path, caplog):
    commit(tmp_path, "a")
    query = Query(tmp_path)
    query.rest()
    commit(tmp_path, "b", mode=OVERWRITE, retain=False)
    with pytest.raises(StreamOffsetError, match=r"log entry 2 removed this file, .*retention of the writes"):
        query.look()
    query = Query(tmp_path, first_entry=2, fails_on_data_loss=False)
    assert [["+b@2"]] == query.rest()
    assert "log entry 2 removed this file" in caplog.text


def rows(texts):
    """Return how often each row is there: a file of the partition k=1 with the rows 2 and 3 has the text ``k=1:2 3``."""
    pairs = (text.rpartition(":")[::2] for text in texts)
    return Counter((directory, row) for directory, text in pairs for row in text.split())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_changes_add_up_to_what_is_there(tmp_path, seed):
    luck, number, sums = random.Random(seed), 0, Counter()
    commit(tmp_path, "k=0:0", "k=1:0")
    query = Query(tmp_path)

    def follow(limit):
        for change in query.look(limit) or ():
            kind, text = change[0], change[1:].partition("@")[0]
            for row, count in rows([text]).items():
                sums[row] += count if kind == "+" else -count
                assert sums[row] in (0, 1), "a row is removed after it was added, and once"

    for _ in range(15):
        mode = luck.choice([APPEND, APPEND, OVERWRITE, DYNAMIC, REWRITE])
        if mode is REWRITE:
            there = rows(live_texts(tmp_path))
            joined = {k: " ".join(row for at, row in sorted(there) if at == k) for k, _ in there}
            commit(tmp_path, *(f"{k}:{text}" for k, text in joined.items()), mode=mode)
        else:
            parts = luck.sample(range(3), luck.randint(1, 3))
            number += 1
            commit(tmp_path, *(f"k={k}:{number}" for k in parts), mode=mode)
        if luck.random() < 0.5:
            follow(luck.choice([ALL_AVAILABLE, Limit(max_files=1), Limit(max_files=4)]))
    for _ in range(40):
        follow(Limit(max_files=3))
    assert rows(live_texts(tmp_path)) == +sums
