"""The cost of an order, as in quotes: the price of its work plus the amount reserved for audits."""

from consumer.submit import LIMIT_FACTOR, audits_beside
from domain.amount import MONEY_MAX, PFLOP, price_ceil
from domain.market.records import Conditions, JobTerms
from domain.params import Params
from pol.rules.schedule import total_work
from pol.rules.tiers.table import all_tiers, highest_floor


def cost_of(terms: JobTerms, conditions: Conditions, price: int, price_limit: int, params: Params | None) -> int:
    """Return the cost of a whole job (uassay) at a price (uassay per PFLOP); 0 if the price is 0, which means unknown.

    If ``price_limit`` is 0, the usual limit for the price is used. If ``params`` is None, the cost is only the price of
    the work.
    """
    if not price:
        return 0
    work = price_ceil(total_work(terms), price)
    if params is None:
        return work
    limit = price_limit or min(LIMIT_FACTOR * price, MONEY_MAX)
    # Tiers that only a newer version knows are ignored: their floor is not known here.
    tiers = {tier.name for tier in all_tiers()}.intersection(conditions.tiers)
    floor = highest_floor(sorted(tiers), terms, limit, params.for_order())
    return work + audits_beside(terms, price, floor, params)


def limit_of(terms: JobTerms, conditions: Conditions, pays: int, params: Params | None) -> int:
    """Return the highest price limit (uassay per PFLOP) for which an order costs at most ``pays`` (uassay), or 0.

    Audit fees are rounded in each round, so an order with a higher price may cost a few uassay less. The search allows
    for this with a tolerance of one uassay per round, plus one.
    """
    rounding = terms.rounds + 1
    low, high = 0, min(pays * PFLOP // total_work(terms), MONEY_MAX)
    while low < high:
        middle = (low + high + 1) // 2
        if cost_of(terms, conditions, middle, middle, params) <= pays + rounding:
            low = middle
        else:
            high = middle - 1
    return low
