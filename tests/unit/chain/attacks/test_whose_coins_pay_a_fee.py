"""A granter pays only what it allowed, only while it allows it, and a block or a mempool gains nothing from it."""

from dataclasses import replace
from typing import Any

import pytest

from chain.state_machine.feegrant.tables import FEE_GRANTS
from chain.state_machine.lane import Lane
from chain.state_machine.rules import RULES
from domain.errors import (
    FEE_ALLOWANCE_EXPIRED,
    FEE_LIMIT_EXCEEDED,
    GRANT_NOT_FOUND,
    INSUFFICIENT_FUNDS,
    UNAUTHORIZED,
    WRONG_SEQUENCE,
)
from domain.legs.messages import MsgAcceptOrder
from domain.tx import SignMode
from tests.support.chain_harness import CHAIN_ID, COINS, Chain
from tests.support.chain_market import CONSUMER, Market, bid, submit
from tests.support.fee_grants import DAY, FEE, after, basic, coins, give, left, make_chain, paid, periodic, send, take
from tests.support.signed import joint, key_of, real_chain, signed
from tests.support.signed import send as transfer
from wire.signing import sign as sign_tx
from wire.signing import unsigned_tx
from wire.tx import decode_tx, raw_of

ALICE, BOB, CAROL = map(key_of, ("alice", "bob", "carol"))


@pytest.fixture
def chain() -> Chain:
    return make_chain()


@pytest.fixture
def real() -> Chain:
    """Return a chain with real signatures, on which alice pays for bob."""
    chain = real_chain(ALICE.address, BOB.address, CAROL.address)
    chain.ok(decode_tx(signed(chain, ALICE, give(granter=ALICE.address, grantee=BOB.address))))
    return chain


def granted(chain: Chain, key: Any = BOB, mode: SignMode = SignMode.DIRECT, **changes: Any) -> Any:
    """Return a transaction of ``key`` whose fee alice pays, as protobuf."""
    values: dict[str, Any] = {"fee": coins(FEE), "gas_limit": 400_000, "granter": ALICE.address} | changes
    tx = unsigned_tx([transfer(key, CAROL)], **values)
    account = chain.account(key.address)
    assert account is not None
    sign_tx(tx, key, mode, CHAIN_ID, account.number, account.sequence)
    return tx


# --- who pays ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", list(SignMode))
def test_the_granter_does_not_sign(real: Chain, mode: SignMode) -> None:
    before = [real.balance(key.address) for key in (ALICE, BOB)]
    real.ok(decode_tx(raw_of(granted(real, mode=mode))))
    assert [real.balance(key.address) for key in (ALICE, BOB)] == [before[0] - FEE, before[1] - 7]
    assert real.sequence(ALICE.address) == 1


@pytest.mark.parametrize("mode", list(SignMode))
def test_a_granter_is_signed(real: Chain, mode: SignMode) -> None:
    """Nobody can put a granter into a transaction of others, or take it out."""
    for changed, granter in ((granted(real, mode=mode), ""), (granted(real, mode=mode, granter=""), ALICE.address)):
        changed.auth_info.fee.granter = granter
        real.refused(UNAUTHORIZED, decode_tx(raw_of(changed)))


def test_a_grant_is_for_the_payer_of_the_fee(real: Chain) -> None:
    """Carol has no grant; bob's is used only by a transaction for which bob signs as the payer."""
    real.refused(GRANT_NOT_FOUND, decode_tx(raw_of(granted(real, CAROL))))
    tx = unsigned_tx(
        [transfer(CAROL, ALICE)], fee=coins(FEE), gas_limit=400_000, granter=ALICE.address, payer=BOB.address
    )
    sign_tx(tx, CAROL, SignMode.AMINO_JSON, CHAIN_ID, 2, 0)
    real.refused(UNAUTHORIZED, decode_tx(raw_of(tx)))
    before = real.balance(ALICE.address)
    raw = joint(
        real, [transfer(CAROL, ALICE, 5)], [CAROL, BOB], fee=coins(FEE), payer=BOB.address, granter=ALICE.address
    )
    real.ok(decode_tx(raw))
    assert real.balance(ALICE.address) == before - FEE + 5


def test_a_transaction_is_paid_once(real: Chain) -> None:
    tx = decode_tx(raw_of(granted(real)))
    real.ok(tx)
    before = real.balance(ALICE.address)
    real.refused(WRONG_SEQUENCE, tx)
    assert real.balance(ALICE.address) == before


def test_a_refused_transaction_costs_the_granter_nothing(chain: Chain) -> None:
    chain.ok(give(basic(5 * FEE)))
    before = chain.balance("alice")
    chain.refused(WRONG_SEQUENCE, paid(chain, sequence=9))
    chain.refused(FEE_LIMIT_EXCEEDED, paid(chain, fee=6 * FEE))
    assert chain.balance("alice") == before
    grant = left(chain)
    assert grant is not None
    assert grant.spend_limit == 5 * FEE


# --- limits --------------------------------------------------------------------------------------


def test_a_limit_holds_in_one_block_and_in_the_mempool(chain: Chain) -> None:
    chain.ok(give(basic(2 * FEE)))
    txs = [paid(chain, sequence=number) for number in range(3)]
    mempool = chain.mempool()
    assert [chain.check(tx, mempool).code for tx in txs] == [0, 0, FEE_LIMIT_EXCEEDED.number]
    assert [result.code for result in chain.block(*txs).tx_results] == [0, 0, GRANT_NOT_FOUND.number]
    assert chain.balance("alice") == COINS - chain.fees["alice"]


def test_a_granter_with_few_coins_and_many_grantees(chain: Chain) -> None:
    """The coins of the granter are counted down in the mempool, too: it takes no more than they pay for."""
    chain.ok(give(), give(grantee="carol"), send("alice", "v0", chain.balance("alice") - 3 * FEE))
    rest = chain.balance("alice")
    fee = rest // 2 + 1
    txs = [paid(chain, fee=fee), paid(chain, send("carol", "bob"), fee=fee)]
    mempool = chain.mempool()
    assert [chain.check(tx, mempool).code for tx in txs] == [0, INSUFFICIENT_FUNDS.number]
    assert [result.code for result in chain.block(*txs).tx_results] == [0, INSUFFICIENT_FUNDS.number]
    assert chain.balance("alice") == rest - fee


def test_a_period_is_not_renewed_by_waiting_for_several(chain: Chain) -> None:
    """Ten days without a fee are worth one period, not ten."""
    chain.ok(give(periodic(FEE)))
    chain.ok(paid(chain))
    for _ in range(10):
        chain.block(seconds=DAY)
    txs = [paid(chain, sequence=chain.sequence("bob") + number) for number in range(2)]
    assert [result.code for result in chain.block(*txs).tx_results] == [0, FEE_LIMIT_EXCEEDED.number]


def test_a_grantee_cannot_bring_a_reset_forward(chain: Chain) -> None:
    """A fee that fails, and a message that fails, leave the period as it is."""
    chain.ok(give(periodic(2 * FEE, period_reset=after(chain, 100))))
    reset = after(chain, 99).ns
    chain.refused(FEE_LIMIT_EXCEEDED, paid(chain, fee=2 * FEE + 1), seconds=50)
    chain.refused(INSUFFICIENT_FUNDS, paid(chain, send(amount=COINS + 1)))
    grant = left(chain)
    assert grant is not None
    assert grant.period is not None
    assert (grant.period.left, grant.period.resets_ns) == (FEE, reset)


# --- the end of a grant --------------------------------------------------------------------------


def test_a_revoked_grant_pays_for_its_own_block(chain: Chain) -> None:
    """All transactions of a block pay before any is applied. So a granter cannot make others take room for nothing."""
    chain.ok(give())
    revoked, used = chain.tx(take()), paid(chain)
    assert [result.code for result in chain.block(revoked, used).tx_results] == [0, 0]
    chain.refused(GRANT_NOT_FOUND, paid(chain))
    assert chain.check(paid(chain)).code == GRANT_NOT_FOUND.number


def test_a_grant_of_the_same_block_pays_nothing(chain: Chain) -> None:
    assert [result.code for result in chain.block(give(), paid(chain)).tx_results] == [0, GRANT_NOT_FOUND.number]


def test_a_grant_that_expires_while_a_transaction_waits(chain: Chain) -> None:
    chain.ok(give(basic(ends=after(chain, 5))))
    tx = paid(chain)
    assert chain.check(tx).code == 0
    before = chain.balance("alice")
    chain.refused(FEE_ALLOWANCE_EXPIRED, tx, seconds=5)
    assert chain.balance("alice") == before
    assert chain.check(tx, recheck=True).code == GRANT_NOT_FOUND.number


def test_a_flood_of_ends_delays_nothing(chain: Chain) -> None:
    """Thousands of fee grants end at once: none of them pays, and each block removes a few."""
    ends = after(chain, 100)
    chain.ok(*(give(basic(FEE, ends), grantee=f"new{number:03}") for number in range(200)), give(basic(FEE, ends)))
    chain.refused(FEE_ALLOWANCE_EXPIRED, paid(chain), seconds=100)
    rest = len(FEE_GRANTS.scan(chain.overlay()))
    assert rest == 201 - 32
    chain.ok(give(basic(7)))  # in place of the old one
    for _ in range(rest // 32 + 1):
        chain.block()
    assert [grant.grantee for grant in FEE_GRANTS.scan(chain.overlay())] == ["bob"]


# --- the lane ------------------------------------------------------------------------------------


def test_others_do_not_pay_for_a_place_in_the_lane() -> None:
    """A duty that a granter pays for is an ordinary transaction: a place in the lane is the signer's own."""
    market = Market(bidders=(), checked=False)
    market.chain.ok(bid("v0", slots=8))
    order_id = market.submit(submit(price_limit=10**12))
    chain, leg = market.chain, market.leg(order_id)
    tx = chain.tx(MsgAcceptOrder(leg.validator, order_id, leg.number))
    lane = Lane(chain.overlay(), RULES)
    assert lane.find(tx) is not None
    assert lane.find(replace(tx, fee_granter=leg.validator)) is not None
    assert lane.find(replace(tx, fee_granter="mallory")) is None


def test_a_consumer_gets_no_fee_back_that_a_granter_paid() -> None:
    """Otherwise a consumer would earn by its validator's failure."""
    market = Market(consumers=(CONSUMER, "mallory"), checked=False)
    chain = market.chain
    chain.ok(give(granter="mallory", grantee=CONSUMER))
    (result,) = chain.ok(chain.tx(submit(price_limit=10**12), gas_limit=2_000_000, granter="mallory")).tx_results
    (order_id,) = [value for name, value in result.responses if name == "order_id"]
    assert market.order_fee(order_id) == 0
