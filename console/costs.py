"""What an order costs: its work and what audits need beside it, the sum that a quote calls its cost."""

from consumer.submit import LIMIT_FACTOR, audits_beside
from domain.amount import MONEY_MAX, PFLOP, price_ceil
from domain.market.records import Conditions, JobTerms
from domain.params import Params
from pol.rules.schedule import total_work
from pol.rules.tiers.table import all_tiers, highest_floor


def cost_of(terms: JobTerms, conditions: Conditions, price: int, price_limit: int, params: Params | None) -> int:
    """Return the cost of a whole job at a price of a PFLOP (uassay); 0 where no price is known.

    Without a price limit it is what an order would cost that has the usual one, and without parameters the work alone.
    """
    if not price:
        return 0
    work = price_ceil(total_work(terms), price)
    if params is None:
        return work
    limit = price_limit or min(LIMIT_FACTOR * price, MONEY_MAX)
    # A tier of a newer version has no floor here.
    tiers = {tier.name for tier in all_tiers()}.intersection(conditions.tiers)
    floor = highest_floor(sorted(tiers), terms, limit, params.for_order())
    return work + audits_beside(terms, price, floor, params)


def limit_of(terms: JobTerms, conditions: Conditions, pays: int, params: Params | None) -> int:
    """Return the highest price limit (uassay per PFLOP) at which an order costs ``pays``; 0 where it costs more.

    Audit fees are rounded in each round, so that a higher price may cost a few uassay less: they are left out here.
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
