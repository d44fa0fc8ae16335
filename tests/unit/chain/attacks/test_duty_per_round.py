"""Providers and validators that look for work that no one will recompute.

A lot throws a round's duty onto all its segments. So most shares have no drawn segment, and their providers see that.
"""

from chain.state_machine.proof.tables import SHARES
from chain.state_machine.registry.tables import PROVIDERS
from domain.legs.reasons import LegEnd
from domain.params import local_params
from domain.proof.records import AnswerKind, AuditKind, SeatAnswer
from domain.registry.messages import MsgAdmitProvider, MsgLeaveCluster, MsgRegisterProvider
from tests.support.chain_market import BOND, Market, digest, make_terms, submit

LONG = make_terms(rounds=6, round_steps=80, step_work=900_000)
"""Two shares of 40 segments; their lots throw one ticket each."""


def known(**params: int) -> Market:
    """Return a market in which both providers of v0 have a share in a verified round."""
    market = Market(local_params().replace(duty_segments=1, **params), validators=6)
    first = market.run(submit(deposit=10**6))
    market.settle(first)
    assert all(is_known(market, name) for name in market.clusters["v0"])
    return market


def is_known(market: Market, provider: str) -> bool:
    return PROVIDERS.must(market.chain.overlay(), provider).has_verified_share


def lie(market: Market, order_id: bytes, round: int, number: int) -> tuple[SeatAnswer, ...]:
    """Return the right answers, but at one place another root than the chain has."""
    panel = market.panel(order_id, round)
    *before, made = (digest("work", stage + 1) for stage in range(panel.stage))
    wrong = SeatAnswer(number, AnswerKind.FINISHED, digest("right"), made, 0, tuple(before))
    return tuple(wrong if answer.place == number else answer for answer in market.answers(order_id, round))


def find_place(market: Market, kind: AuditKind) -> tuple[bytes, int, int, str]:
    """Return an order, a round, a place of its panel in a share without a draw, and the provider of the share."""
    order_id = market.run(submit(terms=LONG, deposit=10**7, deadline=10**5))
    for round in range(LONG.rounds):
        market.train_round(order_id)
        panel = market.wait_stage(order_id, round)
        for number, place in enumerate(panel.places):
            where = place.place
            if where.kind is kind:
                share = SHARES.must(market.chain.overlay(), *panel.round_key.share(where.slot, where.issue))
                if not share.drawn:
                    return order_id, round, number, share.claim.provider
        market.answer_all(order_id, round)
    raise AssertionError("no lot left such a place without a draw")


def test_a_share_without_a_draw_is_no_safe_place_for_its_provider() -> None:
    """The panel asks for it like for any other share, and its provider alone is at fault."""
    market = known()
    bond = market.chain.bond("v0")
    order_id, round, number, provider = find_place(market, AuditKind.SEGMENT)
    market.say_all(order_id, lambda: lie(market, order_id, round, number), round)
    assert market.all_of(order_id).legs[0].end_reason == LegEnd.WRONG_SHARE
    assert market.chain.bond(provider) < BOND
    # The validator continues, and locks the job bond of its next leg.
    assert market.chain.bond("v0") + market.leg(order_id).job_bond == bond


def test_an_update_is_the_validators_duty_in_a_share_without_a_draw_too() -> None:
    """A provider that knows that nothing was drawn could send any update; its validator checks each of them."""
    market = known()
    bond = market.chain.bond("v0")
    order_id, round, number, provider = find_place(market, AuditKind.UPDATE)
    market.say_all(order_id, lambda: lie(market, order_id, round, number), round)
    assert market.all_of(order_id).legs[0].end_reason == LegEnd.WRONG_ROUND
    assert market.chain.bond("v0") < bond
    assert market.chain.bond(provider) == BOND


def test_shares_of_known_providers_have_few_draws_and_those_of_new_ones_have_some() -> None:
    market = Market(local_params().replace(duty_segments=1), validators=6)
    order_id = market.run(submit(terms=LONG, deposit=10**7, deadline=10**5))
    drawn: list[int] = []
    for round in range(LONG.rounds):
        market.train_round(order_id)
        drawn += [len(share.drawn) for share in market.shares(order_id) if share.claim.round == round]
        assert min(drawn) == 1, "no round is verified yet"
    for round in range(LONG.rounds):
        market.answer_all(order_id, round)
    market.chain.pass_time(market.order(order_id).window + 2)
    market.pass_handover(order_id)
    later = market.run(submit(terms=LONG, deposit=10**7, deadline=10**5))
    for _ in range(LONG.rounds):
        market.train_round(later)
    counts = [len(share.drawn) for share in market.shares(later)]
    # On average one ticket of a round falls on it.
    assert counts.count(0) >= 3
    assert 0 < sum(counts) <= 12


def test_a_validator_makes_no_provider_known_by_shares_that_are_not_verified() -> None:
    market = Market(local_params().replace(auditors=3), validators=8)
    providers = market.clusters["v0"]
    order_id = market.run(submit(deposit=600_000))
    market.train_round(order_id)
    assert not any(is_known(market, name) for name in providers)
    market.fault_round(order_id)
    assert market.round_of(order_id, 1, 0).void
    assert not any(is_known(market, name) for name in providers)


def test_a_provider_stays_known_in_another_cluster() -> None:
    market = known()
    name = market.clusters["v0"][0]
    market.chain.ok(MsgLeaveCluster(name))
    market.chain.ok(MsgRegisterProvider(name, "v1"), MsgAdmitProvider("v1", name))
    assert is_known(market, name)
