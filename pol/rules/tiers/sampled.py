"""The tier ``sampled``: the rules of ``exact``, but a lot decides after the close whether a round gets a panel.

The chance is so high that a cluster that closes a bad round loses more than it gains on average
(``docs/decisions/sampling.md``). What providers risk grows as the chance falls. Rounds wait longer before they are
paid, and every account that has a bond may challenge them meanwhile.
"""

from dataclasses import replace

from domain.amount import BPS, ceil_div, price_ceil
from domain.limits import SHARE_BOND_MAX
from domain.market.records import ChallengeTerms, JobTerms
from domain.order_params import OrderParams
from pol.rules.schedule import round_work
from pol.rules.tiers.exact import EXACT
from pol.rules.tiers.tier import Description, Tier

MARGIN = 12_000
"""Least loss that a bad round brings on average (bps), as a part of the price of the round, which is the most that it
could gain.
"""


def least_rate(price: int, job_bond: int, audit_rate_min: int) -> int:
    """Return the least chance of a panel (bps), rounded up, at which a bad round does not pay.

    ``price`` (uassay) is the price of the round. A bad round with a panel costs this price and the ``job_bond``. A bad
    round without one gains at most the price. The chance is at least ``audit_rate_min`` (bps), and at most 100 %.
    """
    at_stake = job_bond + price
    needed = ceil_div(MARGIN * price, at_stake) if at_stake else BPS
    return min(BPS, max(needed, audit_rate_min, 1))


def panel_rate(terms: JobTerms, price: int, job_bond: int, params: OrderParams) -> int:
    """Return the chance (bps) that a round gets a panel, if nothing speaks against it.

    ``terms`` are the terms of the leg, ``price`` is its price in uassay per PFLOP, and ``job_bond`` (uassay) is what is
    left of its job bond.
    """
    return least_rate(price_ceil(round_work(terms), price), job_bond, params.audit_rate_min)


def least_multiple(terms: JobTerms, price: int, job_bond: int, params: OrderParams) -> int:
    """Return the least bond of a share, as a multiple of the price of its work.

    A wrong share costs its provider its pay, which is at most its price, and its bond. With this multiple, both
    together cost on average at least as much as in ``exact`` with the least bond there.
    """
    rate = panel_rate(terms, price, job_bond, params)
    return min(SHARE_BOND_MAX, max(1, ceil_div(2 * BPS, rate) - 1))


def open_challenges(asked: ChallengeTerms, params: OrderParams) -> ChallengeTerms:
    """Return the rules about challenges: every account that has a bond may challenge, and rounds wait for
    ``challenge_wait_min``, or longer if the order says so.
    """
    return replace(asked, anyone=True, wait=max(asked.wait, params.challenge_wait_min))


SAMPLED: Tier = replace(
    EXACT,
    name="sampled",
    description=Description(
        arithmetic=EXACT.description.arithmetic,
        recomputed="a panel for rounds that a lot draws, and for every round with a rejected share",
        agreement=EXACT.description.agreement,
        promise="a wrong round is found with the chance of a panel, or by anyone who challenges it",
        against="parties that gain less by a wrong round than its price",
        cost="the audit fee of rounds that have a panel, and a longer wait for each payment",
    ),
    rate=panel_rate,
    draws_doubtful=True,
    least_multiple=least_multiple,
    challenges=open_challenges,
)
