"""The policy of an order: gains of strategies, least bonds and chances, prices of bribes, and income of watchtowers."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf

from domain.amount import BPS, bps_floor
from domain.disputes.params import DisputesParams
from domain.market.records import JobTerms
from domain.params import Params
from domain.proof.records import AuditKind
from pol.policy.formulas import detection_of, equilibrium_fraud, least_jackpot, least_sampling, least_stake
from pol.policy.market import OrderAmounts, PolicyInputs
from pol.policy.strategies import (
    Odds,
    StrategyGain,
    compute_gains,
    confirmed_segment,
    count_skips,
    forge,
    rounds_at_risk,
    sacrifice,
    skipped_segments,
    wrong_segments,
)
from pol.rules.panels import seat_cut_max

SHARES_OF_STAKE = (10, 25, 33, 50)
"""Parts of the validators (per cent) for which a policy shows how often they decide a place."""
PLANTED = 0.01
"""Part of planted errors for which a policy shows the jackpot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyAmounts:
    """The amounts (uassay) and chances of an order that its policy follows from.

    - ``round_price`` and ``order_price``: the price of the work of a round and of the order.
    - ``share_pay`` and ``validator_part``: the earnings of a share and of the validator in a verified round.
    - ``share_bond`` and ``job_bond``: the bonds. ``slash`` is what a wrong round takes of the validator's stake.
    - ``audit_fee``: the pay of a panel. ``drawn_segments`` of ``segments`` segments of a round are drawn.
    - ``found_one`` and ``found_tenth``: the chance that a panel finds one wrong segment, and a tenth of all.
    - ``rounds_at_risk``: the largest number of closed rounds that one ruling can make void.
    - ``rate_bps``: the chance that a round gets a panel. ``multiple``: the share bond, as a multiple of its price.
    """

    round_price: int
    order_price: int
    share_pay: int
    validator_part: int
    share_bond: int
    job_bond: int
    slash: int
    audit_fee: int
    segments: int
    drawn_segments: int
    found_one: float
    found_tenth: float
    rounds_at_risk: int
    rate_bps: int
    multiple: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyBounds:
    """The least values at which honest work pays; infinity if no value suffices.

    - ``share_bond``: the share bond as a multiple of the share's price, for a provider with an honest validator.
    - ``share_bond_confirmed``: the same for a provider whose validator accepts the wrong share.
    - ``share_bond_cover``: the same for a provider of all other slots, which sacrifices a share so that the cover pays
      the others and they are trained again.
    - ``job_bond_bps``: the job bond at which a consumer that owns the validator gets no training for less than its pay,
      as a part of the price of the work.
    - ``cover``: the amount (uassay) that pays all right shares of the rounds at risk.
    - ``rounds_covered``: the number of closed rounds whose shares the job bond can pay.
    - ``audit_rate_bps``: the chance of a panel per round at which a cluster does not gain by skipping segments.
    - ``honest_rate_bps``: the same also for a provider whose validator accepts a wrong share, and for a validator that
      makes up a state: the chance at which honesty pays.
    - ``drawn_segments``: the segments that a panel of every round has to draw for the same as ``audit_rate_bps``.
    - ``sampling``: the chance of a check of the whole round by the formula of proof of sampling, for comparison.
    """

    share_bond: float
    share_bond_confirmed: float
    share_bond_cover: float
    job_bond_bps: int
    cover: int
    rounds_covered: int
    audit_rate_bps: float
    honest_rate_bps: float
    drawn_segments: float
    sampling: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureChance:
    """The chance that a part of the validators decides a place: to confirm a wrong root, or to deny a right one.

    ``percent`` is the part, and ``validators`` the number of validators that it is.
    """

    percent: int
    validators: int
    confirms: float
    denies: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BribePrices:
    """The prices (uassay) of bribing a panel, if a seat asks for what it loses when a later stage refutes it.

    - ``seat``: the loss of one refuted seat.
    - ``confirm``: the price of a whole first stage, which confirms a wrong round.
    - ``deny``: the price of two whole stages, which make a right round void.
    - ``last_stage``: the price of more than half of all validators that can have a seat.
    - ``worth``: the most that a cluster would pay, which is what a found lie costs it.
    - ``captures``: the chances of coalitions by their part of the validators.
    """

    seat: int
    confirm: int
    deny: int
    last_stage: int
    worth: float
    captures: tuple[CaptureChance, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchIncome:
    """The income (uassay) of a watchtower that recomputes segments no panel has drawn, and challenges wrong ones.

    - ``check``: the cost of recomputing one segment.
    - ``bond``: the bond that its challenge needs. It returns if the challenge is right.
    - ``reward_share`` and ``reward_validator``: the reward if a share is wrong, and if the validator is at fault.
    - ``least_wrong``: the part of wrong segments above which checks pay.
    - ``income``: the income per check at the part of wrong segments in the inputs.
    - ``jackpot``: the reward with which checks pay surely if one answer in a hundred had a planted error.
    """

    check: float
    bond: int
    reward_share: int
    reward_validator: int
    least_wrong: float
    income: float
    jackpot: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The policy of an order on a chain; see the classes of its fields."""

    inputs: PolicyInputs
    amounts: PolicyAmounts
    strategies: tuple[StrategyGain, ...]
    bounds: PolicyBounds
    bribes: BribePrices
    watching: WatchIncome


def compute_policy(terms: JobTerms, params: Params, inputs: PolicyInputs | None = None) -> Policy:
    """Return the policy of an order with these terms on a chain with these parameters."""
    amounts = OrderAmounts(terms, params, inputs or PolicyInputs())
    return Policy(
        inputs=amounts.inputs,
        amounts=_summarise(amounts),
        strategies=compute_gains(amounts),
        bounds=compute_bounds(amounts),
        bribes=compute_bribes(amounts),
        watching=compute_watching(amounts),
    )


def _summarise(amounts: OrderAmounts) -> PolicyAmounts:
    return PolicyAmounts(
        round_price=amounts.round_price,
        order_price=amounts.price,
        share_pay=amounts.share_pay,
        validator_part=amounts.part,
        share_bond=amounts.share_bond,
        job_bond=amounts.job_bond,
        slash=amounts.slash,
        audit_fee=amounts.fee,
        segments=amounts.segments,
        drawn_segments=amounts.drawn,
        found_one=amounts.found_by_panel(1),
        found_tenth=amounts.found_by_panel(ceil(amounts.segments / 10)),
        rounds_at_risk=rounds_at_risk(amounts),
        rate_bps=amounts.rate_bps,
        multiple=amounts.multiple,
    )


# --- the least values ----------------------------------------------------------------------------


def compute_bounds(amounts: OrderAmounts) -> PolicyBounds:
    """Return the least bonds, cover and audit rate at which honest work pays."""
    owed = rounds_at_risk(amounts) * amounts.shares_pay
    skips = [(count, skipped_segments(amounts, count)) for count in count_skips(amounts.segments)]
    return PolicyBounds(
        share_bond=max(_least_bond(amounts, count) for count in count_skips(amounts.share_segments)),
        share_bond_confirmed=max(_least_bond_confirmed(amounts, c) for c in count_skips(amounts.share_segments)),
        share_bond_cover=_least_bond_cover(amounts),
        job_bond_bps=ceil(owed * BPS / amounts.price) if amounts.price else 0,
        cover=owed,
        rounds_covered=amounts.job_bond // amounts.shares_pay if amounts.shares_pay else amounts.terms.rounds,
        audit_rate_bps=max(_least_rate(amounts, odds) for _, odds in skips),
        honest_rate_bps=_least_honest_rate(amounts, [odds for _, odds in skips]),
        drawn_segments=_least_drawn(amounts),
        sampling=least_sampling(
            cost=amounts.saved(amounts.round_price),
            reward=amounts.shares_pay + amounts.part,
            stake=amounts.share_bond,
            colluding=amounts.inputs.coalition / max(1, amounts.eligible),
        ),
    )


def _least_rate(amounts: OrderAmounts, odds: Odds) -> float:
    """Return the chance of a panel (bps) at which a strategy that only panels find does not gain."""
    return amounts.rate * _ratio(BPS * odds.kept, odds.found * odds.lost)


def _least_honest_rate(amounts: OrderAmounts, skips: Sequence[Odds]) -> float:
    """Return the chance of a panel (bps) at which no strategy that only panels find gains, with the bonds as they are.

    These are: skipped segments of a cluster, made-up segments that a validator confirms, and a made-up next state.
    """
    confirmed = [confirmed_segment(amounts, count) for count in count_skips(amounts.share_segments)]
    return max(_least_rate(amounts, odds) for odds in (*skips, *confirmed, forge(amounts, 0)))


def _ratio(numerator: float, denominator: float) -> float:
    if numerator <= 0:
        return 0.0
    return numerator / denominator if denominator > 0 else inf


def _least_bond(amounts: OrderAmounts, count: int) -> float:
    """Return the least bond, in shares' prices, against ``count`` made-up segments under an honest validator."""
    odds = wrong_segments(amounts, count)
    only_panel = odds.found - amounts.found_by_validator(count)
    return _ratio(odds.kept - odds.found * amounts.share_pay, only_panel * amounts.share_price)


def _least_bond_confirmed(amounts: OrderAmounts, count: int) -> float:
    """Return the same if the validator accepts the wrong share."""
    odds = confirmed_segment(amounts, count)
    others = odds.lost - amounts.share_bond
    return least_stake(odds.found, odds.kept, others) / amounts.share_price if amounts.share_price else 0.0


def _least_bond_cover(amounts: OrderAmounts) -> float:
    """Return the least bond, in shares' prices, at which it does not pay to sacrifice a share for the cover.

    Half of the bond is burnt. Seats get the other half first, so this function does not count it.
    """
    odds = sacrifice(amounts)
    return _ratio(odds.kept - amounts.share_pay, amounts.share_price / 2)


def _least_drawn(amounts: OrderAmounts) -> float:
    """Return the least number of drawn segments at which no number of skipped segments gains."""
    skips = [(count, skipped_segments(amounts, count)) for count in count_skips(amounts.segments)]
    low, high = 0, amounts.segments + 1
    while low < high:
        drawn = (low + high) // 2
        if all(odds.kept <= detection_of(amounts.segments, c, drawn) * odds.lost for c, odds in skips):
            high = drawn
        else:
            low = drawn + 1
    return low if low <= amounts.segments else inf


# --- bribes and watchtowers ----------------------------------------------------------------------


def compute_bribes(amounts: OrderAmounts) -> BribePrices:
    """Return the prices of bribing a panel."""
    seat = amounts.seat_loss(amounts.tier.penalty, refuted=True)
    captures = []
    for percent in SHARES_OF_STAKE:
        count = amounts.eligible * percent // 100
        confirms, denies = (amounts.captured(count, for_chain=side) for side in (True, False))
        captures.append(CaptureChance(percent=percent, validators=count, confirms=confirms, denies=denies))
    return BribePrices(
        seat=seat,
        confirm=amounts.auditors * seat,
        deny=(amounts.auditors + 2 * amounts.auditors) * seat,
        last_stage=(amounts.eligible // 2 + 1) * seat_cut_max(amounts.rules, amounts.inputs.stake),
        worth=skipped_segments(amounts, 1).lost,
        captures=tuple(captures),
    )


def compute_watching(amounts: OrderAmounts) -> WatchIncome:
    """Return the income of a watchtower."""
    bps = amounts.params.of(DisputesParams).challenge_reward_bps
    share, validator = bps_floor(amounts.share_bond, bps), bps_floor(amounts.job_bond, bps)
    return WatchIncome(
        check=amounts.check_cost,
        bond=amounts.challenge_bond(AuditKind.SEGMENT),
        reward_share=share,
        reward_validator=validator,
        least_wrong=equilibrium_fraud(amounts.check_cost, share),
        income=amounts.inputs.wrong_bps / BPS * share - amounts.check_cost,
        jackpot=least_jackpot(amounts.check_cost, PLANTED),
    )
