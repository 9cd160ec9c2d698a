"""What an inventory has of a directory, and which states it finds; what is made of them: `test_fsck`."""

import random

import pytest
from commit_jobs import APPEND, DYNAMIC, OVERWRITE, REWRITE, dying
from places import PLACES

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.commit_log.log import Head
from spark_arrow_ipc.dataset.write.inventory import states, take_inventory
from spark_arrow_ipc.storage.paths import join

BY = (t.field("k", t.int32),)


@pytest.fixture(params=["local", "s3"])
def place(request, tmp_path):
    with PLACES[request.param](tmp_path) as (source, _):
        yield source


def found(place):
    return [(state.record.seq, len(state.others)) for state in states(take_inventory(place.dataset))]


@pytest.mark.slow
def test_what_is_there(place):
    place.save(APPEND, "1", "k=1:2")
    place.put("k=1/part-0.arrow", "foreign")
    with dying("C4.renamed"):
        place.save(OVERWRITE, "3", "4")
    inventory = take_inventory(place.dataset)
    assert (Head(2, done=False), True) == (inventory.head, inventory.is_pending)
    assert [2, 1] == [record.seq for record in inventory.chain]
    names = [name for name in place.names() if "part-" in name and not name.startswith("_")]
    assert names == sorted(inventory.files)
    adds = {add.final for add in inventory.chain[0].adds}
    assert {*names, *adds} == {*inventory.own, *inventory.files}  # copies go at once: both may be there
    assert adds >= inventory.staged.keys()
    assert {file.path for file in inventory.chain[0].removes} == inventory.removed()
    assert {} == inventory.missing() == inventory.doubled()


@pytest.mark.slow
def test_an_empty_directory_and_one_without_records(place):
    place.put("a.arrow", "1")
    inventory = take_inventory(place.dataset)
    assert (Head(), (), None, False) == (inventory.head, inventory.chain, inventory.record, inventory.is_pending)
    assert ["a.arrow"] == [*inventory.files]
    assert [] == [*states(inventory)]


@pytest.mark.slow
def test_states_that_follow_from_each_other(place):
    for text in "123":
        place.save(APPEND, text)
    assert [(3, 0), (2, 1), (1, 2)] == found(place)
    place.save(OVERWRITE, "4")
    assert [(4, 0)] == found(place), "older states are gone with their files"


@pytest.mark.slow
def test_a_rewrite_leaves_none_before_it(place):
    place.save(APPEND, "k=1:1", "k=1:2", "k=2:3")
    place.save(REWRITE, "k=1:1|2", choose=lambda files: files[:2])
    place.save(DYNAMIC, "k=3:4", partition_by=BY)
    assert [(3, 0), (2, 1)] == found(place)


@pytest.mark.parametrize("seed", range(40))
def test_a_directory_that_lacks_a_file_or_has_one_is_of_no_state_but_those_that_it_holds(seed, tmp_path):
    """Against all subsets: which states a directory holds after files were taken and given at random."""
    rng = random.Random(seed)
    with PLACES["memory"](tmp_path) as (place, _):
        kept, at = {}, []
        for number in range(rng.randint(1, 4)):
            mode = rng.choice([APPEND, APPEND, OVERWRITE, DYNAMIC])
            options = {"partition_by": BY} if mode is DYNAMIC else {}
            place.save(mode, *(f"k={rng.randrange(2)}:{number}{i}" for i in range(rng.randint(1, 2))), **options)
            there = {name: place.read(join(place.root, name)) for name in place.names() if "/part-" in name}
            kept |= there
            at.append(there.keys())
        for name, text in kept.items():
            if rng.random() < 0.3:
                place.put(name, text)
            elif rng.random() < 0.2:
                place.storage.delete(join(place.root, name))
        files = {name for name in place.names() if "/part-" in name}
        whole = [number for number, state in enumerate(at, 1) if state <= files]
        mine = list(states(take_inventory(place.dataset)))
        assert whole[::-1] == [state.record.seq for state in mine]
        for state in mine:
            assert at[state.record.seq - 1] == files - {*state.others}
