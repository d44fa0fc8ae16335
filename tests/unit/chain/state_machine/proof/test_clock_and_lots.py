"""The chain clock, and lots from the beacons of later blocks."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chain.state_machine import transition
from chain.state_machine.context import NS, Context
from chain.state_machine.ledger.tables import POTS, SUPPLY
from chain.state_machine.mempool import next_block
from chain.state_machine.proof.lots import (
    GROUPS_PER_BLOCK,
    LOTS_PER_BLOCK,
    close_lot,
    open_lot,
    take_complete,
)
from chain.state_machine.proof.shares import share_id
from chain.state_machine.proof.tables import LOT_GROUPS, LOTS, WAITING_LOTS, Lot, PanelSubject
from chain.state_machine.registry.tables import VALIDATORS
from chain.state_machine.rules import RULES, Rules
from chain.state_machine.store import Overlay
from chain.state_machine.tables import KeySet
from domain.beacon import Reveal
from domain.errors import BAD_PROOF
from domain.genesis import DENOM
from domain.keys import PanelKey
from domain.ledger.messages import MsgSend
from domain.ledger.records import Coin
from domain.node.queries import StatusRequest
from domain.params import local_params
from domain.registry.messages import MsgAdmitProvider, MsgRegisterProvider, MsgRevokeBeaconKey
from domain.staking.moves import STAKES_POT
from domain.vocabulary import POTS as ALL_POTS
from pol.rules.lots import draw_duty_segments, seed
from tests.support.chain_harness import CRYPTO, Chain, beacon_key, make_genesis, prove
from tests.support.chain_market import Market, bid, digest, submit


def test_the_clock_starts_at_zero_and_never_leaps() -> None:
    chain = Chain(make_genesis((), ("v0",)))
    assert chain.clock == 0
    chain.block(seconds=2)
    assert chain.clock == 2
    chain.block(seconds=86_400)  # the chain stood still: nobody fails
    assert chain.clock == 4
    chain.block(seconds=-100)
    assert chain.clock == 4
    chain.block(seconds=100)  # back where it was: no time has passed
    assert chain.clock == 4
    chain.block(seconds=1)
    assert chain.clock == 5


def test_the_clock_keeps_nanoseconds() -> None:
    chain = Chain(make_genesis((), ("v0",)))
    for _ in range(3):
        chain.time_ns += NS // 3
        chain.block(seconds=0)
    assert chain.clock == 0
    chain.time_ns += 1
    chain.block(seconds=0)
    assert chain.clock == 1
    assert chain.ask(StatusRequest()).height == 4


def committed(market: Market) -> bytes:
    order_id = market.run()
    market.commit(order_id, market.trace(order_id, 0), market.trace(order_id, 1))
    return order_id


def drawn(market: Market, order_id: bytes) -> list[tuple[int, ...]]:
    return [share.drawn for share in market.shares(order_id)]


def expected(market: Market, order_id: bytes, beacon: bytes) -> list[tuple[int, ...]]:
    lots = (seed("shares", share_id(share.claim.key), beacon) for share in market.shares(order_id))
    return [draw_duty_segments(lot, 2, 2, 1, at_least=1) for lot in lots]


def one_drawn(validators: int = 4, **params: int) -> Market:
    return Market(local_params().replace(duty_segments=1, lot_wait=20, **params), validators=validators)


NOT_YET = [(), ()]


def test_the_seed_is_the_beacon_at_which_strangers_with_more_than_a_third_have_revealed() -> None:
    market = one_drawn()
    order_id = committed(market)
    chain = market.chain
    chain.block(proposer="v0")  # the operator itself: a party
    chain.block(proposer="v1")
    chain.block(proposer="v1")  # the same proposer again
    chain.block(proposer="v0")
    assert drawn(market, order_id) == NOT_YET
    chain.block(proposer="v3")
    assert drawn(market, order_id) == expected(market, order_id, chain.beacon)
    assert len(chain.seen("share.drawn")) == 2
    assert LOTS.scan(chain.overlay()) == []
    assert LOT_GROUPS.scan(chain.overlay()) == []


def test_two_proposers_in_a_row_are_not_enough_where_they_hold_a_third_or_less() -> None:
    market = one_drawn(validators=6)
    order_id = committed(market)
    for proposer in ("v1", "v2"):  # a third of the stake, and not more
        market.chain.block(proposer=proposer)
    assert drawn(market, order_id) == NOT_YET
    market.chain.block(proposer="v3")
    assert drawn(market, order_id) == expected(market, order_id, market.chain.beacon)


def test_one_proposer_is_not_enough_whatever_its_stake() -> None:
    market = one_drawn()
    change_stake(market, "v1", 10**13)
    order_id = committed(market)
    market.chain.block(proposer="v1")
    assert drawn(market, order_id) == NOT_YET
    market.chain.block(proposer="v2")
    assert drawn(market, order_id) == expected(market, order_id, market.chain.beacon)


def test_strangers_with_less_than_a_third_together_must_all_have_revealed() -> None:
    market = one_drawn()
    change_stake(market, "v0", 10**13)
    order_id = committed(market)
    for proposer in ("v1", "v2"):
        market.chain.block(proposer=proposer)
        assert drawn(market, order_id) == NOT_YET
    market.chain.block(proposer="v3")
    assert drawn(market, order_id) == expected(market, order_id, market.chain.beacon)


def change_stake(market: Market, operator: str, stake: int) -> None:
    market.chain.checked = False  # these coins come from nowhere
    market.chain.change(lambda store: VALIDATORS.update(store, operator, stake=stake))
    market.chain.change(lambda store: POTS.set(store, supply_of(store), STAKES_POT.name))
    market.chain.change(lambda store: SUPPLY.set(store, sum(POTS.get(store, name) for name in ALL_POTS)))


def supply_of(store: Overlay) -> int:
    return sum(validator.stake for validator in VALIDATORS.scan(store))


def test_what_is_drawn_never_changes() -> None:
    market = one_drawn()
    order_id = committed(market)
    market.wait_drawn(order_id)
    before = market.shares(order_id)
    market.chain.pass_time(25)
    assert market.shares(order_id) == before


def test_content_time_and_order_of_a_block_decide_nothing() -> None:
    """What a proposer may still choose of its block, after its reveal: the draw is the same."""
    outcomes = set()
    for number in range(4):
        market = one_drawn()
        order_id = committed(market)
        market.chain.block(proposer="v1", seconds=1)
        sends = [MsgSend("carol", f"c{n}", (Coin(DENOM, 1),)) for n in range(number)]
        market.chain.block(*sends[::-1], proposer="v3", seconds=number % 3, block_hash=digest("content", number))
        assert drawn(market, order_id) != NOT_YET
        outcomes.add(tuple(drawn(market, order_id)))
    assert len(outcomes) == 1


def test_one_accomplice_who_is_last_has_one_more_try_and_no_choice() -> None:
    """It was hundreds: whatever it put into its block, and in whichever round. It may still not propose at all."""

    def outcome(last: str, **content: Any) -> tuple[tuple[int, ...], ...]:
        market = one_drawn()
        order_id = committed(market)
        market.chain.block(proposer="v1")
        market.chain.block(proposer=last, **content)
        return tuple(drawn(market, order_id))

    choices = [{"seconds": n % 3, "block_hash": digest("try", n)} for n in range(40)]
    assert len({outcome("v3", **choice) for choice in choices}) == 1
    assert len({outcome(last, **choice) for last in ("v3", "v2") for choice in choices}) <= 2


def test_a_block_of_a_party_completes_nothing_even_where_others_give_up_their_keys() -> None:
    market = one_drawn()
    order_id, chain = committed(market), market.chain
    chain.block(proposer="v1")
    revocations = [MsgRevokeBeaconKey(name, beacon_key(name)) for name in ("v2", "v3")]
    chain.block(*revocations, proposer="v0")
    chain.block(proposer="v0")
    assert drawn(market, order_id) == NOT_YET
    chain.block(proposer="v1")
    assert drawn(market, order_id) == expected(market, order_id, chain.beacon)


def test_a_wrong_reveal_seeds_nothing_and_neither_does_none() -> None:
    market = one_drawn()
    order_id, chain = committed(market), market.chain
    chain.block(proposer="v1")
    before = chain.beacon
    chain.block(proposer="v3", reveals=False)
    assert (chain.beacon, drawn(market, order_id)) == (before, NOT_YET)
    forged = prove(beacon_key("v2"), b"", chain.value(7))
    chain.block(proposer="v3", reveal=Reveal(digest(forged), forged))
    assert chain.reveal_result is not None
    assert chain.reveal_result.code == BAD_PROOF.number
    assert (chain.beacon, drawn(market, order_id)) == (before, NOT_YET)
    chain.block(proposer="v3")
    assert drawn(market, order_id) == expected(market, order_id, chain.beacon)


def test_a_provider_of_the_cluster_and_the_consumer_are_parties() -> None:
    market = one_drawn()
    market.chain.ok(MsgRegisterProvider("v1", "v0"), MsgAdmitProvider("v0", "v1"))
    order_id = market.run(submit("v2"))
    market.commit(order_id, market.trace(order_id))
    for proposer in ("v1", "v2", "v0"):
        market.chain.block(proposer=proposer)
    assert drawn(market, order_id) == [()]
    # Only v3 is no party: its block is enough, because there is no second proposer to wait for.
    market.chain.block(proposer="v3")
    assert drawn(market, order_id) == expected(market, order_id, market.chain.beacon)


def test_the_parties_are_those_of_the_opening() -> None:
    market = one_drawn()
    order_id = committed(market)
    market.chain.block(MsgRegisterProvider("v1", "v0"), MsgAdmitProvider("v0", "v1"), proposer="v0")
    for proposer in ("v1", "v2"):
        market.chain.block(proposer=proposer)
    assert drawn(market, order_id) == expected(market, order_id, market.chain.beacon)


def test_after_the_wait_the_last_strangers_block_must_do() -> None:
    market = one_drawn()
    order_id = committed(market)
    deadline = market.chain.clock + 20
    market.chain.block(proposer="v1", seconds=2)
    beacon = market.chain.beacon
    while market.chain.clock < deadline - 1:
        market.chain.block(proposer="v0", seconds=1)
    assert drawn(market, order_id) == NOT_YET
    market.chain.block(proposer="v0")
    assert market.chain.clock == deadline
    assert drawn(market, order_id) == expected(market, order_id, beacon)


def test_after_the_wait_without_strangers_the_next_block_draws_whoever_made_it() -> None:
    market = one_drawn()
    order_id = committed(market)
    deadline = market.chain.clock + 20
    while market.chain.clock < deadline - 1:
        market.chain.block(proposer="v0")
    market.chain.block(proposer="v0", reveals=False, seconds=2)
    assert market.chain.clock > deadline
    assert drawn(market, order_id) == NOT_YET
    market.chain.block(proposer="v0")
    assert drawn(market, order_id) == expected(market, order_id, market.chain.beacon)


def test_with_a_single_validator_the_next_block_draws() -> None:
    market = one_drawn(validators=1, auditors=0)
    order_id = committed(market)
    market.chain.block()
    assert drawn(market, order_id) == expected(market, order_id, market.chain.beacon)
    market.chain.ok(*market.close_messages(order_id))
    market.train_round(order_id)
    market.chain.pass_time(12)
    assert market.order(order_id).work_verified == 160_000_000
    kinds = {payment.kind for payment in market.all_of(order_id).payments}
    assert "auditor" not in kinds


def test_who_cannot_reveal_is_not_waited_for() -> None:
    market = Market(local_params().replace(duty_segments=1, auditors=1), validators=3, bidders=())
    market.chain.change(lambda store: VALIDATORS.update(store, "v2", beacon_keys=()))
    market.chain.ok(bid("v0"))
    order_id = committed(market)
    market.chain.block(proposer="v1")
    assert drawn(market, order_id) == expected(market, order_id, market.chain.beacon)


def test_two_commitments_of_one_round_draw_from_their_own_blocks() -> None:
    market = one_drawn()
    order_id = market.run()
    market.commit(order_id, market.trace(order_id, 0))
    market.chain.block(market.commit_message(order_id, market.trace(order_id, 1)), proposer="v1")
    market.chain.block(proposer="v2")
    first, second = drawn(market, order_id)
    assert first
    assert second == ()
    market.chain.block(proposer="v3")
    assert drawn(market, order_id)[1]


@pytest.mark.parametrize("hit", [True, False])
def test_a_test_may_choose_the_beacon(hit: bool) -> None:
    """The hook that other tests use: with a value of its own, a lot hits a segment or misses it."""
    market = one_drawn()
    order_id = committed(market)
    market.chain.block(proposer="v1")
    value = market.chain.value_for(lambda beacon: ((1,) in expected(market, order_id, beacon)) is hit)
    market.chain.block(proposer="v2", value=value)
    assert ((1,) in drawn(market, order_id)) is hit


# --- what a block costs --------------------------------------------------------------------------


class Waiting:
    """A chain with lots that nothing but these tests opened; what is drawn is listed."""

    def __init__(self, validators: int = 4) -> None:
        self.chain = Chain(make_genesis((), tuple(f"v{n}" for n in range(validators))), checked=False)

    def open(self, number: int, *parties: str) -> None:
        """Open lots for a commitment of the last block, one with each number below ``number``."""
        height = self.chain.height

        def edit(store: Overlay) -> None:
            info = replace(next_block(store), height=height)
            for at in range(number):
                subject = PanelSubject(PanelKey(digest(parties, at), 1, height, 0), 1)
                open_lot(Context(store, info, CRYPTO, RULES, 1), subject, parties, 600)

        self.chain.change(edit)

    def complete(self, proposer: str) -> list[Lot]:
        """Return the lots that a next block of ``proposer`` draws, and drop them, as drawing does."""
        found: list[Lot] = []

        def look(ctx: Context, _: Rules) -> None:
            for key, lot in list(take_complete(ctx)):
                close_lot(ctx, key, lot)
                found.append(lot)

        with patch.object(transition, "begin_block", look):
            self.chain.block(proposer=proposer)
        return found


def test_many_lots_with_the_same_parties_are_looked_at_once() -> None:
    """However many lots wait, and from however many heights, a block that completes none looks at the oldest."""
    waiting = Waiting(validators=9)
    for _ in range(20):
        waiting.chain.block(proposer="v0")
        waiting.open(10, "v0")
    looked: list[object] = []

    def keys(*arguments: Any, **options: Any) -> Iterator[object]:
        for key in KeySet.keys(WAITING_LOTS, *arguments, **options):
            looked.append(key)
            yield key

    with patch.object(WAITING_LOTS, "keys", keys):
        assert waiting.complete("v1") == []
    assert len(looked) == 1
    assert len(LOTS.scan(waiting.chain.overlay())) == 200


def test_a_block_looks_at_a_bounded_number_of_groups_in_turn() -> None:
    waiting = Waiting()
    waiting.chain.block(proposer="v0")
    for number in range(GROUPS_PER_BLOCK + 30):
        waiting.open(1, "v0", f"stranger {number}")
    assert waiting.complete("v1") == []
    drawn = [len(waiting.complete(proposer)) for proposer in ("v2", "v3", "v1")]
    assert drawn == [GROUPS_PER_BLOCK, 30, 0]
    assert LOTS.scan(waiting.chain.overlay()) == []


def test_a_block_draws_a_bounded_number_of_lots() -> None:
    waiting = Waiting()
    waiting.chain.block(proposer="v0")
    waiting.open(LOTS_PER_BLOCK + 30, "v0")
    waiting.open(5, "v0", "carol")
    assert waiting.complete("v1") == []
    drawn = [len(waiting.complete(proposer)) for proposer in ("v2", "v3", "v1")]
    assert sum(drawn) == LOTS_PER_BLOCK + 35
    assert max(drawn) <= LOTS_PER_BLOCK
    assert LOTS.scan(waiting.chain.overlay()) == []


@given(
    stakes=st.lists(st.integers(1, 9), min_size=3, max_size=7),
    opened=st.lists(st.booleans(), min_size=12, max_size=12),
    turns=st.lists(st.integers(0, 6), min_size=12, max_size=12),
)
@settings(max_examples=60)
def test_a_lot_is_complete_when_a_count_from_its_commitment_says_so(
    stakes: list[int], opened: list[bool], turns: list[int]
) -> None:
    """Against the rule spelled out for each lot; v0 is the party."""
    waiting = Waiting(validators=len(stakes))
    operators = waiting.chain.operators
    by_name = {name: stake * 10**6 for name, stake in zip(operators, stakes, strict=True)}

    def set_stakes(store: Overlay) -> None:
        for name, stake in by_name.items():
            VALIDATORS.update(store, name, stake=stake)
        POTS.set(store, sum(by_name.values()), STAKES_POT.name)
        SUPPLY.set(store, sum(POTS.get(store, name) for name in ALL_POTS))

    waiting.chain.change(set_stakes)
    able = set(operators[1:])
    seen: dict[int, set[str]] = {}  # commitment -> strangers who have revealed since
    for opens, turn in zip(opened, turns, strict=True):
        proposer = operators[turn % len(operators)]
        heights = {lot.height for lot in waiting.complete(proposer)}
        for names in seen.values():
            names.update({proposer} & able)
        done = {
            height
            for height, names in seen.items()
            if proposer in able
            and (names == able or (len(names) > 1 and 3 * sum(by_name[n] for n in names) > sum(by_name.values())))
        }
        assert heights == done
        for height in done:
            del seen[height]
        if opens:
            waiting.open(1, "v0")
            seen[waiting.chain.height] = set()
