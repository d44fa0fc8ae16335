"""Providers that cheat, each in its own way: found, named, cut where it can be proven, and replaced by others.

One network, three orders at once, and the most processes of all: by its name it comes last here, when no other network
is left. Every segment is drawn (``quick_params``), so that nothing here hangs on luck.
"""

from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from dataclasses import dataclass

import pytest

from domain.ledger.queries import AccountRequest
from domain.market.reasons import CloseReason
from domain.params import local_params
from domain.proof.params import ProofParams
from domain.proof.queries import OrderResponse
from domain.proof.reasons import ShareReason
from domain.proof.records import AuditKind, Ruling, Share, ShareState
from localnet.layout import ProviderSpec
from localnet.network import PROVIDER_BOND
from tests.support.market_network import MarketNetwork, MarketOrder, market_network, quick_params
from validator.decide.records import VerdictRow

CLUSTERS = (
    ("skip_training", "wrong_trace", ""),
    ("wrong_update", "garbage", "copy_trace", ""),
    ("never_answer", "late", ""),
)
SLOTS = 4
"""At least one for each provider of a cluster."""
SLOW, FAST = 20_000, 10**9
"""FLOP/s that the providers are certified for: slow ones get time to answer that a busy machine does not use up, while
those that miss their deadline on purpose have only the shortest one, and are given all slots of the first round."""
DEADLINE_SECONDS = 600.0
BOND = PROVIDER_BOND

pytestmark = pytest.mark.timeout(900)


@dataclass(frozen=True)
class World:
    """The network when all orders are closed."""

    market: MarketNetwork
    orders: dict[str, MarketOrder]  # by validator

    def order_of(self, spec: ProviderSpec) -> MarketOrder:
        return self.orders[spec.validator]

    def verdicts(self, spec: ProviderSpec) -> list[VerdictRow]:
        """Return what its validator found about a provider's shares."""
        rows = self.market.verdicts(spec.validator, self.order_of(spec).id)
        return [row for row in rows if row.provider == spec.address]

    def shares(self, spec: ProviderSpec) -> list[Share]:
        on_chain = self.order_of(spec).on_chain
        return [share for share in on_chain.shares if share.claim.provider == spec.address]

    def lost(self, address: str) -> int:
        return BOND - self.free_bond(address)

    def free_bond(self, address: str) -> int:
        return self.market.client.query(AccountRequest(address)).bond.free


def speed_of(misbehave: str) -> int:
    return FAST if misbehave in ("never_answer", "late") else SLOW


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("faults")
    with market_network(directory, CLUSTERS, quick_params(), speed_of, SLOTS) as market:
        names = [spec.moniker for spec in market.layout.validators]
        for name in names:
            market.bid(name, name)
        orders = {name: market.submit(name) for name in names}
        with suppress(AssertionError):  # one that does not close fails the tests that are about it
            for order in orders.values():
                order.wait_closed(DEADLINE_SECONDS)
        yield World(market, orders)


def reasons(rows: list[VerdictRow]) -> set[ShareReason]:
    return {ShareReason(row.reason) for row in rows}


@pytest.mark.parametrize(
    ("method", "reason", "wrong_segments"),
    [
        # Its first and last segments are honest, all between are not.
        ("skip_training", ShareReason.SEGMENT_MISMATCH, lambda n: range(1, n - 1)),
        ("wrong_trace", ShareReason.SEGMENT_MISMATCH, range),
        ("wrong_update", ShareReason.UPDATE_MISMATCH, lambda n: [n]),
    ],
    ids=["skip_training", "wrong_trace", "wrong_update"],
)
def test_what_training_does_not_give_is_rejected_and_its_bond_burnt(
    world: World, method: str, reason: ShareReason, wrong_segments: Callable[[int], Container[int]]
) -> None:
    cheat = world.market.cheat(method)
    verdicts = world.verdicts(cheat)
    assert verdicts
    assert reasons(verdicts) == {reason}
    for row in verdicts:
        # Replays run side by side, and the first that fails is shown.
        assert row.segment in wrong_segments(row.segments)
    shares = world.shares(cheat)
    # Strangers recomputed the round, and it is not what these are committed to.
    assert {share.state for share in shares} == {ShareState.WRONG}
    assert {share.reason for share in shares} == {reason}
    # Its daemon stood for them, and a panel found a place of each wrong.
    assert world.lost(cheat.address) >= sum(share.bond for share in shares) > 0


def test_the_bonds_of_cheats_pay_the_seats_of_their_stands_and_the_rest_is_burnt(world: World) -> None:
    for moniker, order in world.orders.items():
        lost = sum(world.lost(spec.address) for spec in world.market.members(moniker))
        assert order.paid("compensation") + order.paid("burn") == lost
        assert (lost > 0) is (moniker != "val2")


def test_garbage_counts_as_no_answer_and_its_bond_returns(world: World) -> None:
    """The commitment is right, and the delivery is not.

    The validator posts a receipt, and shows a wrong piece if the key comes on chain.
    """
    cheat = world.market.cheat("garbage")
    verdicts = world.verdicts(cheat)
    assert reasons(verdicts) == {ShareReason.NO_ANSWER}
    shares = world.shares(cheat)
    assert {(share.state, share.reason) for share in shares} == {(ShareState.RIGHT, ShareReason.NO_ANSWER)}
    # If its key came on chain, the validator showed a wrong piece there, and it paid the answer fee.
    fees = len(shares) * local_params().of(ProofParams).answer_fee
    assert BOND - world.free_bond(cheat.address) in (0, fees)


def test_a_copied_commitment_earns_nothing(world: World) -> None:
    """Nothing that its provider can deliver hashes to it, so no key opens its delivery."""
    cheat = world.market.cheat("copy_trace")
    assert reasons(world.verdicts(cheat)) == {ShareReason.NO_ANSWER}
    shares = world.shares(cheat)
    assert {(share.state, share.reason) for share in shares} == {(ShareState.WRONG, ShareReason.NO_ANSWER)}
    # A receipt without a key costs the answer fee, once for each share.
    assert world.free_bond(cheat.address) == BOND - len(shares) * local_params().of(ProofParams).answer_fee


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        ("never_answer", ShareReason.NO_ANSWER),
        ("late", ShareReason.LATE),
    ],
)
def test_what_does_not_stand_is_never_committed(world: World, method: str, reason: ShareReason) -> None:
    cheat = world.market.cheat(method)
    found = reasons(world.verdicts(cheat))
    # Of its two slots one may not even be trained by the deadline: that is dropped, and never comes.
    if method == "late":
        found.discard(ShareReason.NO_ANSWER)
    assert found == {reason}
    assert world.shares(cheat) == []
    assert world.free_bond(cheat.address) == BOND


def test_nobody_trusts_a_cheat_again(world: World) -> None:
    for spec in world.market.layout.providers:
        if spec.misbehave:
            assert {row.round for row in world.verdicts(spec)} == {0}


def test_every_order_is_finished_by_the_others(world: World) -> None:
    for moniker, order in world.orders.items():
        on_chain = order.wait_closed(0)
        assert order.close_reason is CloseReason.SETTLED
        assert len(on_chain.legs) == 1  # within the first leg
        assert [r.round for r in on_chain.rounds if r.verified] == [0, 1]
        honest = next(s for s in world.market.members(moniker) if not s.misbehave)
        assert standing_providers(on_chain) == {honest.address}
        assert ShareReason.NONE in reasons(world.verdicts(honest))
        # The honest provider has earned its part of all rounds, and nobody else in the cluster anything.
        earned = sum(
            share.work * on_chain.legs[0].price // 10**15
            for share in world.shares(honest)
            if share.state is ShareState.ACCEPTED
        )
        assert 0 < order.paid("provider") < earned
        assert order.paid("provider", to=honest.address) == order.paid("provider")
        assert world.free_bond(honest.address) == BOND
        assert order.paid("validator", to=world.market.operator(moniker)) > 0


def standing_providers(on_chain: OrderResponse) -> set[str]:
    return {s.claim.provider for s in on_chain.shares if s.state is ShareState.ACCEPTED}


def test_strangers_recomputed_every_round_and_are_paid(world: World) -> None:
    for moniker, order in world.orders.items():
        for panel in order.on_chain.panels:
            stands = panel.standing is not None
            assert (Ruling.WRONG in {place.ruling for place in panel.places}) is stands
            if stands:
                continue
            kinds = [place.place.kind for place in panel.places]
            assert kinds[:2] == [AuditKind.AGGREGATION, AuditKind.UPDATE]
            assert kinds.count(AuditKind.SEGMENT) >= 2
        seats = world.market.seats(order)
        answered = {seat.validator for seat in seats if seat.answers}
        assert world.market.operator(moniker) not in answered
        first = {seat.validator for seat in seats if seat.stage == 1 and seat.answers}
        auditors = {p.to for p in order.on_chain.payments if p.kind == "auditor"}
        assert first <= auditors <= answered


def test_no_coin_is_lost(world: World) -> None:
    for order in world.orders.values():
        paid = order.paid("provider", "validator", "auditor")
        fees, refund = order.paid("protocol"), order.paid("refund")
        assert order.deposit == paid + fees + refund
        (row,) = order.on_chain.escrow.depositors
        assert (row.locked, row.paid, row.refunded) == (0, paid + fees, refund)
        assert order.on_chain.escrow.bonds == ()
