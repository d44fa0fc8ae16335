"""The chain clock, and lots from later blocks."""

from dataclasses import replace

from chain.state_machine.context import NS
from chain.state_machine.proof.shares import share_id
from chain.state_machine.proof.tables import LOTS
from chain.state_machine.registry.tables import VALIDATORS
from domain import queries as q
from domain.messages import MsgRegisterProvider
from domain.params import local_params
from pol.rules.lots import draw, seed
from tests.support.chain_harness import Chain, make_genesis
from tests.support.chain_market import Market, bid, digest, submit

HASHES = [digest("block hash", number) for number in range(6)]


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
    assert chain.ask(q.StatusRequest()).height == 4


def committed(market: Market) -> bytes:
    order_id = market.run()
    market.commit(order_id, market.trace(order_id, 0, 0, 8), market.trace(order_id, 1, 8, 8))
    return order_id


def drawn(market: Market, order_id: bytes) -> list[tuple[int, ...]]:
    return [share.drawn for share in market.shares(order_id)]


def expected(market: Market, order_id: bytes, *hashes: bytes) -> list[tuple[int, ...]]:
    return [
        draw(seed("shares", share_id(share.claim.key), hashes), share.claim.segments, 1)
        for share in market.shares(order_id)
    ]


def one_drawn() -> Market:
    return Market(replace(local_params(), segments_drawn=1))


def test_two_blocks_of_two_proposers_who_are_no_party_make_the_seed() -> None:
    market = one_drawn()
    order_id = committed(market)
    chain = market.chain
    chain.block(proposer="v0", block_hash=HASHES[0])  # the operator itself: a party
    chain.block(proposer="v1", block_hash=HASHES[1])
    chain.block(proposer="v1", block_hash=HASHES[2])  # the same proposer again
    assert drawn(market, order_id) == [(), ()]
    chain.block(proposer="v3", block_hash=HASHES[3])
    assert drawn(market, order_id) == expected(market, order_id, HASHES[1], HASHES[3])
    assert len(chain.seen("share.drawn")) == 2
    assert LOTS.scan(chain.overlay()) == []


def test_what_is_drawn_never_changes() -> None:
    market = one_drawn()
    order_id = committed(market)
    market.wait_drawn(order_id)
    before = market.shares(order_id)
    market.chain.pass_time(25)
    assert market.shares(order_id) == before


def test_a_provider_of_the_cluster_and_the_consumer_are_parties() -> None:
    market = Market(replace(local_params(), segments_drawn=1))
    market.chain.ok(MsgRegisterProvider("v1", "v0"))
    order_id = market.run(submit("v2"))
    market.commit(order_id, market.trace(order_id))
    for proposer in ("v1", "v2", "v0", "v3"):
        market.chain.block(proposer=proposer, block_hash=digest(proposer))
    # Only v3 is no party: one hash is enough, because there is no second proposer to wait for.
    assert drawn(market, order_id) == expected(market, order_id, digest("v3"))


def test_after_the_wait_the_blocks_that_there_are_must_do() -> None:
    market = one_drawn()
    order_id = committed(market)
    deadline = market.chain.clock + 20
    market.chain.block(proposer="v1", block_hash=HASHES[0], seconds=2)
    while market.chain.clock < deadline - 1:
        market.chain.block(proposer="v0", seconds=1)
    assert drawn(market, order_id) == [(), ()]
    market.chain.block(proposer="v0")
    assert market.chain.clock == deadline
    assert drawn(market, order_id) == expected(market, order_id, HASHES[0])


def test_after_the_wait_even_the_blocks_of_a_party() -> None:
    market = one_drawn()
    order_id = committed(market)
    hashes = [digest("party", number) for number in range(30)]
    for number in range(20):
        market.chain.block(proposer="v0", block_hash=hashes[number])
    assert drawn(market, order_id) == expected(market, order_id, hashes[0], hashes[1])


def test_with_a_single_validator_the_next_block_draws() -> None:
    market = Market(replace(local_params(), segments_drawn=1, auditors=0), validators=1)
    order_id = committed(market)
    market.chain.block(block_hash=HASHES[0])
    assert drawn(market, order_id) == expected(market, order_id, HASHES[0])
    market.chain.ok(market.close_message(order_id))
    market.train_round(order_id)
    market.prove(order_id)
    market.chain.pass_time(12)
    assert market.order(order_id).work_verified == 160_000_000
    kinds = {payment.kind for payment in market.all_of(order_id).payments}
    assert "auditor" not in kinds


def test_jailed_validators_are_not_waited_for() -> None:
    market = Market(replace(local_params(), segments_drawn=1), validators=3, bidders=())
    jailed = replace(VALIDATORS.must(market.chain.overlay(), "v2"), jailed=True)
    market.chain.change(lambda overlay: VALIDATORS.put(overlay, jailed))
    market.chain.ok(bid("v0"))
    order_id = committed(market)
    market.chain.block(proposer="v1", block_hash=HASHES[0])
    assert drawn(market, order_id) == expected(market, order_id, HASHES[0])


def test_two_commitments_of_one_round_draw_from_their_own_blocks() -> None:
    market = one_drawn()
    order_id = market.run()
    market.commit(order_id, market.trace(order_id, 0, 0, 8))
    market.chain.block(
        market.commit_message(order_id, market.trace(order_id, 1, 8, 8)), proposer="v1"
    )
    market.chain.block(proposer="v2")
    first, second = drawn(market, order_id)
    assert first
    assert second == ()
    market.chain.block(proposer="v3")
    assert drawn(market, order_id)[1]
