"""The reason why a provider has nothing to train, and what would help: one sentence for the provider's operator."""

from collections.abc import Iterable, Sequence

from domain.legs.records import Leg, LegState
from domain.measures import duration, speed
from domain.proof.queries import OrderResponse
from pol.rules.schedule import share_work
from validator.decide.pace import paced
from validator.decide.plan import FreeProvider
from validator.decide.records import LocalOrder, LocalRound, SlotWork

ID_DIGITS = 12
NO_ORDER = "no order is being trained in this cluster now; the next order that a bid of this validator wins brings work"


def why_idle(
    provider: str,
    orders: Iterable[tuple[LocalOrder, OrderResponse]],
    workers: Sequence[FreeProvider],
    measuring: str,
) -> str:
    """Return why ``provider`` gets no share now, from the validator's open orders and the providers with a speed.

    ``measuring`` is the reason why a measurement of the provider cannot begin now. It is used only if the provider has
    no certified speed.
    """
    if all(worker.address != provider for worker in workers):
        waits = f": {measuring}" if measuring else ""
        return f"its speed is not certified yet{waits}; it gets work after its measurement"
    reasons = [reason for local, on_chain in orders if (reason := _of(provider, local, on_chain, workers))]
    if not reasons:
        return NO_ORDER
    more = len(reasons) - 1
    return reasons[0] + (f" (likewise in {more} other orders)" if more else "")


def _of(provider: str, local: LocalOrder, on_chain: OrderResponse, workers: Sequence[FreeProvider]) -> str:
    """Return why an order has no share for the provider; empty if the order is not in training."""
    name = f"order {local.order_id.hex()[:ID_DIGITS]}"
    leg = on_chain.leg(local.leg)
    if leg is not None and leg.state == LegState.MATCHED:
        return f"{name} begins when the validator has its files and its trial has passed"
    if leg is None or leg.state != LegState.RUNNING:
        return ""
    if provider in local.excluded:
        return f"{name} continues without this provider, because one of its shares in this order was wrong"
    current = local.find(leg.round)
    if current is None or not current.works:
        return f"round {leg.round} of {name} begins when the validator has its initial state"
    return _of_round(provider, local, on_chain, leg, current, workers)


def _of_round(
    provider: str,
    local: LocalOrder,
    on_chain: OrderResponse,
    leg: Leg,
    current: LocalRound,
    workers: Sequence[FreeProvider],
) -> str:
    where = f"round {leg.round} of order {local.order_id.hex()[:ID_DIGITS]}"
    own = [work for work in current.works if work.provider == provider]
    latest = {work.slot: work for work in current.works}
    missing = [work for work in latest.values() if _is_awaited(work)]
    if any(not work.verdict for work in own):
        if not missing:
            return f"{where} is trained; the next round begins when this one is checked and closed"
        return f"its shares of {where} are submitted; {len(missing)} shares of other providers are missing"
    if own:
        return f"its share in {where} failed, so other providers come first in this round"
    if not missing:
        return f"all shares of {where} are submitted; the next round begins when this one is closed"
    work = share_work(on_chain.order.terms)
    speeds = {worker.address: max(1, worker.speed) for worker in paced(workers, local, on_chain.order.terms)}
    mine = speeds[provider]
    others = max(work // speeds.get(each.provider, mine) for each in latest.values())
    return (
        f"faster providers have the {len(latest)} slots of {where}: a share takes about {duration(work // mine)} at its"
        f" speed of {speed(mine)}, and {duration(others)} at theirs; a faster machine gets slots, and a machine that is"
        " idle while it is measured gets a higher speed"
    )


def _is_awaited(work: SlotWork) -> bool:
    return work.signed is None and not work.verdict
