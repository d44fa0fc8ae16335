"""The tiers that this software runs, and functions to look them up."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from domain.errors import UNSUPPORTED, Refusal
from domain.legs.records import Leg
from domain.market.records import ChallengeTerms, JobTerms, Order
from domain.order_params import OrderParams
from pol.rules.schedule import served_terms
from pol.rules.tiers.exact import EXACT
from pol.rules.tiers.replicated import REPLICATED
from pol.rules.tiers.sampled import SAMPLED
from pol.rules.tiers.tier import Tier
from pol.rules.tiers.tolerance import TOLERANCE

TIERS: Mapping[str, Tier] = MappingProxyType({tier.name: tier for tier in (EXACT, SAMPLED, REPLICATED, TOLERANCE)})
"""The tiers by name, the default first. Use the functions below for look-ups, since tests replace this table."""

DEFAULT_TIERS = tuple(TIERS)[:1]
"""The tiers that an order allows and a bid offers by default."""


def all_tiers() -> tuple[Tier, ...]:
    """Return every tier, the default first."""
    return tuple(TIERS.values())


def tier_names() -> tuple[str, ...]:
    """Return the names of all tiers, the default first."""
    return tuple(TIERS)


def default_tier() -> Tier:
    """Return the tier of an order whose consumer did not name one."""
    return all_tiers()[0]


def tier_named(name: str) -> Tier:
    """Return the tier with the given name. The chain has already checked the name."""
    return TIERS[name]


def tier_of(leg: Leg) -> Tier:
    """Return the tier in which the work of a leg is verified. The tier was fixed by the auction."""
    return TIERS[leg.tier]


def check_names(names: Iterable[str], field: str) -> None:
    """Raise Refusal if one of the names is not a tier that this software runs."""
    for at, name in enumerate(names):
        if name not in TIERS:
            reason = f"{name!r} is not a tier of this chain"
            remedy = f"use one of: {', '.join(TIERS)}"
            raise Refusal(UNSUPPORTED, f"{field}[{at}]", reason, remedy)


def is_replicating(name: str) -> bool:
    """Return whether a name is that of a tier in which several validators each serve the whole order."""
    tier = TIERS.get(name)
    return tier is not None and tier.replicates


def single_tiers() -> tuple[str, ...]:
    """Return the names of the tiers in which a bid may serve an order that names no tier: the first of them that it
    offers.

    One validator serves the order, and its results have the same bits everywhere. All other tiers have to be named.
    """
    return tuple(tier.name for tier in TIERS.values() if not (tier.replicates or tier.hardware))


def highest_floor(names: Iterable[str], terms: JobTerms, price_limit: int, params: OrderParams) -> int:
    """Return the highest of the least audit fees that a round has in the named tiers.

    If ``names`` is empty, the tiers count in which a bid may serve such an order.
    """
    tiers = [TIERS[name] for name in tuple(names) or single_tiers()]
    return max(tier.floor(terms, price_limit, params) for tier in tiers)


def longest_wait(names: Iterable[str], asked: ChallengeTerms, params: OrderParams) -> int:
    """Return the longest time (seconds) that a round waits for challenges in one of the named tiers.

    ``asked`` are the rules that the order asked for. If ``names`` is empty, the tiers count in which a bid may serve
    such an order.
    """
    tiers = [TIERS[name] for name in tuple(names) or single_tiers()]
    return max(tier.challenges(asked, params).wait for tier in tiers)


def panel_rate(order: Order, leg: Leg, job_bond: int, *, attested: bool = False) -> int:
    """Return the chance (bps) that a round of a leg gets a panel, if nothing speaks against the round.

    ``job_bond`` (uassay) is what is left of the leg's job bond. ``attested`` says whether the lower floor applies,
    because all shares of the round have providers with credentials.
    """
    params = attested_params(order.params) if attested else order.params
    return tier_of(leg).rate(served_terms(order.terms, leg), leg.price, job_bond, params)


def least_multiple(order: Order, leg: Leg, *, attested: bool = False) -> int:
    """Return the least bond of a share of a leg, as a multiple of the price of its work.

    If ``attested``, it is the bond that a round with the lower floor of the audit rate needs.
    """
    params = attested_params(order.params) if attested else order.params
    return tier_of(leg).least_multiple(served_terms(order.terms, leg), leg.price, leg.job_bond, params)


def attested_params(params: OrderParams) -> OrderParams:
    """Return an order's parameters with the floor of the audit rate that credentials allow."""
    return replace(params, audit_rate_min=min(params.audit_rate_min, params.attested_rate_min))


def challenges_of(order: Order, leg: Leg) -> ChallengeTerms:
    """Return the rules about challenges of a leg's rounds."""
    return tier_of(leg).challenges(order.challenges, order.params)
