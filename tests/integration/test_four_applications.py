"""The comparison of four applications finds what would make nodes differ, and names it."""

import pytest

from chain.app.application import AppConfig, Application
from chain.app.beacon_keys import BeaconKeys
from chain.app.storage import Storage
from tests.support.busy_chain import BEACON_KEYS, BusyChain
from tests.support.four_apps import BLOCKS_ONLY, KILLED, WATCHING, FourApplications, first_difference
from tests.support.small_chain import GENESIS_TIME_NS, cons_address, genesis, reveal, transfer

GENESIS = genesis()


def run_blocks(four: FourApplications, heights: range) -> str:
    """Make blocks of transfers, which the mempool sees first, and return what differs."""
    storage = Storage.temporary()
    app = Application(storage, AppConfig())
    app.init_chain(GENESIS, GENESIS_TIME_NS)
    for height in heights:
        raws = [transfer(sender, height - 1, 3) for sender in (1, 2)]
        for raw in raws:
            app.check_tx(raw)
        items = [reveal(height, GENESIS), *raws]
        assert app.process_proposal(items, height, cons_address(0))
        app.finalize_block(height, GENESIS_TIME_NS + height * 10**9, bytes([height] * 32), cons_address(0), items)
        app.commit()
    storage.close()
    return four.check()


@pytest.mark.parametrize("seed", [1, 2])
def test_four_applications_agree_on_messages_of_every_kind(seed: int) -> None:
    """The fixture of this folder compares them."""
    storage = Storage.temporary()
    chain = BusyChain(Application(storage, AppConfig(), beacon_keys=BeaconKeys(BEACON_KEYS)), seed)
    succeeded = sum(chain.block(40) for _ in range(12))
    storage.close()
    assert succeeded > 30


@pytest.mark.parametrize(
    ("bug", "first"),
    [
        ("set order", {WATCHING: 1, BLOCKS_ONLY: 1, KILLED: 1}),
        ("CheckTx", {BLOCKS_ONLY: 1, KILLED: 1}),
        ("memory", {KILLED: 2}),
    ],
)
def test_a_difference_is_found_with_its_block_and_transaction(bug: str, first: dict[str, int]) -> None:
    with FourApplications(bug).recording() as four:
        differences = run_blocks(four, range(1, 4)).splitlines()
    assert [line.partition(":")[0] for line in differences] == list(first), differences
    for line, (role, height) in zip(differences, first.items(), strict=True):
        assert line.startswith(f"{role}: block {height}, transaction 2, events[")
        assert line.partition(" attributes")[2], line


def test_a_field_that_differs_is_named() -> None:
    assert first_difference((1, (2, b"\x01")), (1, (2, b"\x02")), "results") == "results[1][1]: 01 here, 02 there"
    assert first_difference((1,), (1, 2), "codes") == "codes: 1 here, 2 there"
    assert first_difference((1, 2), (1, 2)) == ""
