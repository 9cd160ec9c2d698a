"""Which entries and checkpoints a listing of a log has."""

import log_cases

from spark_arrow_ipc.table.log_listing import list_log


def test_a_read_asks_for_the_states_of_the_newest_entries_only(directory):
    entries, _ = log_cases.random_entries(4, 20)
    table = log_cases.written(directory, entries, checkpoints=(5, 15))
    listing, of_all = list_log(directory, table, newest_only=True), list_log(directory, table)
    assert [*range(15, 21)] == sorted(listing.entries)
    assert [*range(1, 21)] == sorted(listing.numbers) == sorted(of_all.entries) == sorted(of_all.numbers)
    assert of_all.checkpoints == listing.checkpoints
    assert {number: of_all.entries[number] for number in range(15, 21)} == listing.entries


def test_a_table_without_entries_has_an_empty_listing(directory):
    listing = list_log(directory, "0" * 8, newest_only=True)
    assert ({}, {}, 0, 0) == (listing.entries, listing.checkpoints, listing.newest, len(listing.numbers))
