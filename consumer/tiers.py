"""A comparison of tiers for a job: price, delay, detection, what is at stake, and who sees data, side by side."""

from dataclasses import dataclass, replace
from math import ceil

from chain.client.client import ChainClient
from consumer.request import Request
from consumer.submit import Quote, quote
from domain.amount import BPS
from domain.readable import Readable
from pol.job.document import Job
from pol.policy.market import OrderAmounts, PolicyInputs
from pol.rules.replicas import REPLICAS
from pol.rules.tiers.table import all_tiers
from pol.rules.tiers.tier import Tier

WRONG_PART = 10
"""A comparison tells how often a panel finds rounds of which one segment in so many is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierQuote(Readable):
    """The best offer for a job in one tier; amounts are in uassay. All numbers are 0 if no bid fits.

    - ``price``: the price per PFLOP. ``cost``: the price of the work and the expected audits.
    - ``deposit``: the amount that the order locks; what is not spent returns.
    - ``seconds``: the time from the close of a round to its payment, without disputes.
    - ``rate_bps``: the chance that a round gets a panel.
    - ``validators``: the number of validators that train the whole job.
    - ``found_in_round``: the chance that a round is found of which a tenth of the segments is wrong, although its
      validator accepted it. ``found_in_job``: the chance that one such round is found, if all rounds are like this. In
      a tier that replicates, both are for a validator that acts alone.
    - ``job_bond``, ``share_bond`` and ``slash``: what a validator's fault, a wrong share and a ruling of all validators
      cost the party at fault.
    - ``challengers``: the accounts that may challenge a round, and so ask for any of its places.
    - ``seats``: the validators that see the places of a round with a panel, and ``drawn`` of its ``segments``.
    - ``attested``: whether the chance and the bonds are those of rounds whose providers all have credentials, because
      the order takes them. Other rounds of the order have the tier's usual chance.
    - ``why_not``: the reason why no bid fits, and a remedy; empty if one fits.
    """

    tier: str
    price: int = 0
    validators: int = 0
    cost: int = 0
    deposit: int = 0
    seconds: int = 0
    rate_bps: int = 0
    found_in_round: float = 0.0
    found_in_job: float = 0.0
    job_bond: int = 0
    share_bond: int = 0
    slash: int = 0
    challengers: str = ""
    seats: int = 0
    drawn: int = 0
    segments: int = 0
    attested: bool = False
    why_not: str = ""


def compare_tiers(client: ChainClient, job: Job, request: Request) -> tuple[TierQuote, ...]:
    """Return the best offer for a job in each tier, as if the order allowed only this tier. Nothing is signed or paid.

    Raise Refusal if the chain would refuse the order.
    """
    return tuple(_compare(client, job, request, tier) for tier in all_tiers())


def _compare(client: ChainClient, job: Job, request: Request, tier: Tier) -> TierQuote:
    replicas = (request.replicas or REPLICAS) if tier.replicates else 0
    asked = replace(request, conditions=replace(request.conditions, tiers=(tier.name,)), replicas=replicas)
    if tier.hardware and job.document.tolerance is None:
        return TierQuote(tier=tier.name, why_not="the job has no thresholds for hardware arithmetic")
    offer = quote(client, job, asked)
    if not offer.match.bids or offer.checked is None:
        return TierQuote(tier=tier.name, why_not="; ".join(offer.explain()))
    return _of_offer(offer, asked, tier, offer.checked.eligible, offer.checked.deposit, offer.checked.window)


def _of_offer(offer: Quote, asked: Request, tier: Tier, eligible: int, deposit: int, window: int) -> TierQuote:
    rules = offer.params.for_order()
    best = offer.match.bids[0].offer
    inputs = PolicyInputs(
        price=offer.price,
        providers_bps=best.providers_bps,
        validators=max(2, eligible),
        coalition=0,
        tier=tier.name,
        attested=asked.conditions.attested,
    )
    amounts = OrderAmounts(offer.terms, offer.params, inputs)
    challenges = tier.challenges(asked.challenges, rules)
    found = amounts.found_by_panel(ceil(amounts.segments / WRONG_PART)) if amounts.auditors else 0.0
    if tier.replicates:
        found = 1.0  # the other validators of the order recompute every segment
    rate = amounts.rate_bps if amounts.auditors else 0
    return TierQuote(
        tier=tier.name,
        price=offer.price,
        cost=offer.cost - offer.audits * (BPS - rate) // BPS,
        deposit=deposit * max(1, asked.replicas),
        validators=max(1, asked.replicas),
        seconds=window + challenges.wait,
        rate_bps=rate,
        found_in_round=found,
        found_in_job=1 - (1 - found) ** offer.terms.rounds,
        job_bond=amounts.job_bond,
        share_bond=amounts.share_bond,
        slash=amounts.slash,
        challengers="anyone with a bond" if challenges.anyone else "parties and validators",
        seats=amounts.auditors,
        drawn=amounts.drawn,
        segments=amounts.segments,
        attested=asked.conditions.attested,
    )
