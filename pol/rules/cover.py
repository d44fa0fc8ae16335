"""Cover: how far the bonds behind a leg pay right shares that become void by another provider's fault.

If a panel finds a share wrong, its round and all later ones are void. If the validator continues, the shares of the
first of these rounds are taken over. The others get half of the wrong share's bond, less the pay of the seats, and the
part of the job bond that their tasks stated. They divide it in proportion to what they would have earned.
"""

from domain.amount import bps_floor
from domain.legs.records import Leg
from domain.market.records import JobTerms, Order
from domain.order_params import OrderParams
from escrow.settle import compute_income, share_bond, split_share_bond
from pol.rules.fees import compute_panel_fee
from pol.rules.schedule import share_work


def earned_by_share(order: Order, leg: Leg, work: int) -> int:
    """Return the amount (uassay) that a leg pays for a share of ``work`` FLOPs in a verified round."""
    params = order.params
    return compute_income(
        work,
        leg.price,
        protocol_bps=params.protocol_bps,
        audit_bps=params.audit_bps,
        providers_bps=leg.providers_bps,
    )


def is_covered(order: Order, leg: Leg, multiple: int, cover: int, ahead: int) -> bool:
    """Return whether bonds and ``cover`` (bps) would pay a share that is trained while ``ahead`` rounds are closed and
    not verified.

    ``multiple`` is the lowest one among the shares that may be wrong. In the worst case, all shares of these rounds and
    of the share's own round are right and void, because the validator does not continue. A provider bears this risk for
    one round.
    """
    if not ahead:
        return True
    work = share_work(order.terms)
    _, paid = split_share_bond(share_bond(work, leg.price, multiple))
    seats = compute_panel_fee(order, leg, 1) * (ahead + 1) if order.params.auditors else 0
    covered = bps_floor(leg.job_bond, cover) + max(0, paid - seats)
    return covered >= (ahead + 1) * leg.slots * earned_by_share(order, leg, work)


def count_paid(terms: JobTerms, params: OrderParams, job_bond: int, price: int, providers_bps: int) -> int:
    """Return how many rounds may be closed and not verified while a whole ``job_bond`` pays the shares of one more."""
    share = compute_income(
        share_work(terms),
        price,
        protocol_bps=params.protocol_bps,
        audit_bps=params.audit_bps,
        providers_bps=providers_bps,
    )
    rounds = job_bond // (terms.slots * share) if share else terms.rounds
    return max(0, min(rounds - 1, params.rounds_ahead, terms.rounds - 1))


def count_covered(order: Order, leg: Leg, multiple: int, cover: int) -> int:
    """Return how many rounds may be closed and not verified while a covered share is trained."""
    most = min(order.params.rounds_ahead, leg.rounds)
    return next((ahead - 1 for ahead in range(1, most + 1) if not is_covered(order, leg, multiple, cover, ahead)), most)
