"""The policy: no strategy pays at the defaults but those that the page names, and least values are where gains end."""

from dataclasses import replace
from math import inf, isfinite
from typing import Any

import pytest

from domain.amount import BPS
from domain.params import Params, local_params
from localnet.simulator.behaviours import HABITS, VALIDATOR_CHEATS
from localnet.simulator.coalitions import COALITIONS
from pol.policy.market import OrderAmounts, PolicyInputs, ReferenceJob
from pol.policy.policy import PolicyBounds, compute_bounds, compute_policy, compute_watching
from pol.policy.strategies import (
    STRATEGIES,
    Party,
    compute_gains,
    confirmed_segment,
    count_skips,
    rounds_at_risk,
    skipped_segments,
    worst_skip,
    wrong_segments,
)

WITH_COVER, WITHOUT_COVER = {"sacrificed share"}, {"consumer and cluster"}
"""The strategies that pay if a validator states a cover for low share bonds, or no cover (docs/policy.md)."""
SMALL = ReferenceJob(slots=4, segments=20, segment_steps=10, step_work=2 * 10**8, rounds=10, state_bytes=2_000_000)
WIDE = ReferenceJob(slots=64, segments=100, rounds=20)
JOBS = {"reference": ReferenceJob(), "wide": WIDE, "one slot": ReferenceJob(slots=1, segments=400)}

PLAYED = {
    "silent": "no delivery",
    "late": "no delivery",
    "away": "no delivery",
    "first": "one made-up segment",
    "last": "one made-up segment",
    "middle": "one made-up segment",
    "update": "wrong end of a share",
    "metrics": "changed metric",
    "quits": "wrong end of a share",
    "copied": "no delivery",
    "garbage": "no delivery",
    "hidden": "no delivery",
    "closed": "no delivery",
    "junk": "no delivery",
    "noise": "no delivery",
    "keyless": "no delivery",
    "odd bond": "no delivery",
    "idle": "made-up segments",
    "absent": "hides from audits",
    "saboteur": "hides from audits",
    "Forger": "wrong aggregation",
    "NoiseSeller": "noise handed over",
    "LocalNoiseSeller": "noise handed over",
    "NeverCloses": "closes nothing",
    "NeverAccepts": "accepts nothing",
    "Hider": "serves no auditor",
    "Rejecter": "rejects a right share",
    "SilentAuditor": "silent seat",
    "LazyAuditor": "guessed answer",
    "CopyingAuditor": "guessed answer",
    "HidingAuditor": "silent seat",
    "Slanderer": "false answer",
    "Withholder": "withholds blocks",
    "Vanisher": "vanishes",
    "provider and validator": "provider and validator",
    "consumer and provider": "consumer and provider",
    "two providers": "two providers",
    "two of seven validators": "validators",
    "the validators of all replicas": "cluster",
    "a third of the stake": "validators",
    "a validator alone": "rejects a right share",
    "consumer and validator": "consumer and validator",
    "consumer, validator and cluster": "consumer and cluster",
    "two seats and a provider": "cluster and seats",
    "a filler of blocks and a consumer": "early result",
    "a challenger and a provider": "made-up segments",
}
"""The strategy of the policy for each habit, each cheating validator and each coalition of the simulator."""


def make_amounts(job: ReferenceJob | None = None, params: Params | None = None, **inputs: Any) -> OrderAmounts:
    return OrderAmounts((job or ReferenceJob()).terms, params or Params(), PolicyInputs(**inputs))


def test_every_strategy_of_the_simulator_has_a_gain() -> None:
    played = {*HABITS, *(cheat.__name__ for cheat in VALIDATOR_CHEATS), *COALITIONS} - {"honest"}
    assert set(PLAYED) == played
    assert set(PLAYED.values()) <= {strategy.name for strategy in STRATEGIES}
    assert len({strategy.name for strategy in STRATEGIES}) == len(STRATEGIES)
    assert {strategy.party for strategy in STRATEGIES} == set(Party)


@pytest.mark.parametrize("price", [3 * 10**5, 10**6, 10**7])
@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
def test_nothing_else_pays_at_the_public_defaults(job: ReferenceJob, price: int) -> None:
    policy = compute_policy(job.terms, Params(), PolicyInputs(price=price))
    assert {row.name for row in policy.strategies if row.pays} <= WITH_COVER
    assert policy.bounds.share_bond <= 1.0
    assert policy.bounds.share_bond_confirmed <= 1.0
    assert policy.bounds.audit_rate_bps <= BPS
    assert policy.bounds.drawn_segments <= policy.amounts.drawn_segments
    assert policy.bounds.job_bond_bps > Params().for_order().job_bond_bps  # the reason for what pays


def test_a_cheap_order_with_wide_rounds_needs_larger_share_bonds() -> None:
    """Its fee pays for two of 6,400 segments, so one accomplice of 64 providers is found too rarely."""
    policy = compute_policy(WIDE.terms, Params(), PolicyInputs(price=10**5))
    assert {row.name for row in policy.strategies if row.pays} == WITH_COVER | {"provider and validator"}
    assert policy.amounts.drawn_segments == 2
    assert 1 < policy.bounds.share_bond_confirmed < 64


def test_a_consumer_trains_one_round_for_a_share_bond_where_no_cover_is_stated() -> None:
    policy = compute_policy(ReferenceJob().terms, Params(), PolicyInputs(cover_bps=0))
    assert {row.name for row in policy.strategies if row.pays} == WITHOUT_COVER


def test_a_sacrificed_share_gains_below_its_least_bond_only() -> None:
    job = ReferenceJob()
    least = compute_bounds(make_amounts()).share_bond_cover
    assert 1 < least < 64
    for multiple, pays in ((int(least), True), (int(least) + 1, False)):
        inputs = PolicyInputs(multiple=multiple)
        gains = compute_gains(OrderAmounts(job.terms, Params(), inputs))
        assert next(row.pays for row in gains if row.name == "sacrificed share") == pays


def test_nothing_else_pays_on_a_local_network() -> None:
    inputs = PolicyInputs(validators=4, stake=10**9, coalition=1)
    policy = compute_policy(SMALL.terms, local_params().for_founders(4), inputs)
    assert {row.name for row in policy.strategies if row.pays} <= WITH_COVER


def test_a_gain_is_what_is_kept_less_what_is_lost_on_average() -> None:
    for row in compute_gains(make_amounts()):
        assert 0 <= row.found <= 1
        assert row.lost >= 0
        assert row.gain == pytest.approx(row.kept - row.found * row.lost)


# --- the least values ----------------------------------------------------------------------------


def _bounds(**inputs: Any) -> tuple[OrderAmounts, PolicyBounds]:
    amounts = OrderAmounts(ReferenceJob().terms, Params(), PolicyInputs(**inputs))
    return amounts, compute_bounds(amounts)


def _with_bond(amounts: OrderAmounts, multiple: float) -> OrderAmounts:
    changed = OrderAmounts(amounts.terms, amounts.params, amounts.inputs)
    changed.__dict__["share_bond"] = multiple * amounts.share_price
    return changed


def test_a_provider_alone_gains_below_the_least_bond_only() -> None:
    """A validator that never replays more than its duty, and work that costs nearly its price."""
    amounts, bounds = _bounds(own_picks=0, cost_bps=10_000)
    assert 0 < bounds.share_bond < inf
    for multiple, pays in ((0.99, True), (1.01, False)):
        changed = _with_bond(amounts, multiple * bounds.share_bond)
        gains = [wrong_segments(changed, count).gain for count in count_skips(amounts.share_segments)]
        assert (max(gains) > 0) is pays


def test_a_provider_and_its_validator_gain_below_the_least_bond_only() -> None:
    amounts, bounds = _bounds(side=10**4)
    assert bounds.share_bond_confirmed > 1
    for multiple, pays in ((0.99, True), (1.01, False)):
        changed = _with_bond(amounts, multiple * bounds.share_bond_confirmed)
        gains = [confirmed_segment(changed, count).gain for count in count_skips(amounts.share_segments)]
        assert (max(gains) > 0) is pays


def test_a_cluster_gains_below_the_least_audit_rate_only() -> None:
    amounts, bounds = _bounds()
    for multiple, pays in ((0.99, True), (1.01, False)):
        rate = multiple * bounds.audit_rate_bps / BPS
        odds = [skipped_segments(amounts, count) for count in count_skips(amounts.segments)]
        assert (max(each.kept - rate * each.found * each.lost for each in odds) > 0) is pays


@pytest.mark.parametrize("rounds", [10, 40, 400, 4_000])
@pytest.mark.parametrize("slots", [1, 8])
def test_no_lie_that_a_panel_has_to_find_pays_in_sampled_at_the_chance_of_the_chain(rounds: int, slots: int) -> None:
    """Only the sacrificed share pays, as in the tier ``exact``: it needs no panel to miss it."""
    amounts = make_amounts(ReferenceJob(rounds=rounds, slots=slots), tier="sampled")
    assert amounts.rate_bps == BPS or compute_bounds(amounts).honest_rate_bps <= amounts.rate_bps < BPS
    assert {row.name for row in compute_gains(amounts) if row.pays} <= {"sacrificed share"}


def test_a_least_chance_that_is_too_low_lets_a_provider_and_its_validator_gain() -> None:
    amounts = make_amounts(ReferenceJob(rounds=100), Params().replace(audit_rate_min=400), tier="sampled")
    amounts.__dict__["multiple"] = 1
    bounds = compute_bounds(amounts)
    assert amounts.rate_bps < bounds.honest_rate_bps <= BPS
    assert "provider and validator" in {row.name for row in compute_gains(amounts) if row.pays}


def test_a_cluster_gains_with_fewer_drawn_segments_only() -> None:
    amounts, bounds = _bounds(side=2_000)
    assert 1 < bounds.drawn_segments < amounts.segments
    for fewer, pays in ((1, True), (0, False)):
        changed = OrderAmounts(amounts.terms, amounts.params, amounts.inputs)
        changed.__dict__["drawn"] = int(bounds.drawn_segments) - fewer
        gains = [skipped_segments(changed, count).gain for count in count_skips(amounts.segments)]
        assert (max(gains) > 0) is pays


def test_a_lie_that_is_worth_more_than_all_that_is_at_stake_is_not_deterred() -> None:
    _, bounds = _bounds(side=10**9)
    assert bounds.drawn_segments == inf
    assert bounds.audit_rate_bps > BPS


def test_a_chain_without_auditors_deters_no_cluster() -> None:
    amounts = make_amounts(params=Params().replace(auditors=0))
    bounds = compute_bounds(amounts)
    assert bounds.audit_rate_bps == bounds.share_bond_confirmed == inf
    assert {row.name for row in compute_gains(amounts) if row.pays}


def test_the_least_job_bond_ends_training_for_nothing() -> None:
    amounts, bounds = _bounds()
    assert bounds.cover == rounds_at_risk(amounts) * amounts.shares_pay
    assert bounds.rounds_covered == amounts.job_bond // amounts.shares_pay
    enough = make_amounts(params=Params().replace(job_bond_bps=bounds.job_bond_bps + 1))
    gain = next(row for row in compute_gains(enough) if row.name == "consumer and validator")
    assert gain.gain <= 0


def test_the_worst_skip_is_the_one_that_gains_most() -> None:
    amounts = make_amounts(SMALL, params=local_params(), validators=4)
    worst = skipped_segments(amounts, worst_skip(amounts)).gain
    assert worst == max(skipped_segments(amounts, count).gain for count in range(1, amounts.segments + 1))


# --- seats and watchtowers -----------------------------------------------------------------------


def test_bribing_more_seats_costs_more() -> None:
    bribes = compute_policy(ReferenceJob().terms, Params()).bribes
    assert bribes.seat < bribes.confirm < bribes.deny < bribes.last_stage
    confirms = [row.confirms for row in bribes.captures]
    assert confirms == sorted(confirms)
    assert all(row.denies < row.confirms for row in bribes.captures)


def test_a_watchtower_earns_above_its_least_part_of_wrong_segments() -> None:
    least = compute_watching(make_amounts()).least_wrong
    assert isfinite(least)
    for multiple, earns in ((0.9, False), (1.1, True)):
        watching = compute_watching(make_amounts(wrong_bps=round(multiple * least * BPS)))
        assert (watching.income > 0) is earns


def test_a_challenge_of_ones_own_lie_costs_more_than_its_reward() -> None:
    """A reward above the bond at fault would make a self-challenge an insurance without a price."""
    watching = compute_watching(make_amounts())
    amounts = make_amounts()
    assert watching.reward_share < amounts.share_bond
    assert watching.reward_validator < amounts.job_bond


def test_the_cost_of_recomputing_can_be_named() -> None:
    cheap, dear = (
        compute_watching(OrderAmounts(ReferenceJob().terms, Params(), replace(PolicyInputs(), replay_cost=cost)))
        for cost in (10**5, 10**7)
    )
    assert dear.check == pytest.approx(100 * cheap.check)
