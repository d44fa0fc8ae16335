"""Why a provider has nothing to train: what that waits for, and what would help, in one sentence for its operator."""

from collections.abc import Iterable, Sequence

from domain.legs.records import Leg, LegState
from domain.measures import duration, speed
from domain.proof.queries import OrderResponse
from pol.rules.schedule import share_work
from validator.decide.pace import paced
from validator.decide.plan import FreeProvider
from validator.decide.records import LocalOrder, LocalRound, SlotWork

ID_DIGITS = 12
NO_ORDER = "no order is being trained in this cluster now; the next one that a bid of this validator wins brings work"


def why_idle(
    provider: str,
    orders: Iterable[tuple[LocalOrder, OrderResponse]],
    workers: Sequence[FreeProvider],
    measuring: str,
) -> str:
    """Return why ``provider`` is given no share now, given the validator's open orders and who is there to train.

    ``measuring`` says what its measurement waits for, where it has no certified speed.
    """
    if all(worker.address != provider for worker in workers):
        waits = f": {measuring}" if measuring else ""
        return f"its speed is not certified yet{waits}; it gets work when it is measured"
    reasons = [reason for local, on_chain in orders if (reason := _of(provider, local, on_chain, workers))]
    if not reasons:
        return NO_ORDER
    more = len(reasons) - 1
    return reasons[0] + (f" (likewise in {more} other orders)" if more else "")


def _of(provider: str, local: LocalOrder, on_chain: OrderResponse, workers: Sequence[FreeProvider]) -> str:
    """Return why an order has nothing for the provider; nothing where nobody trains it."""
    name = f"order {local.order_id.hex()[:ID_DIGITS]}"
    leg = on_chain.leg(local.leg)
    if leg is not None and leg.state == LegState.MATCHED:
        return f"{name} begins when its files are here and its trial has passed"
    if leg is None or leg.state != LegState.RUNNING:
        return ""
    if provider in local.excluded:
        return f"{name} goes on without this provider, since a share of it there did not hold"
    current = local.find(leg.round)
    if current is None or not current.works:
        return f"round {leg.round} of {name} begins when its opening state is here"
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
            return f"{where} is trained; the next one begins when it is checked and closed"
        return f"its shares of {where} are handed in; {len(missing)} of other providers are awaited"
    if own:
        return f"a share of it in {where} failed, so that the others come first there"
    if not missing:
        return f"all shares of {where} are handed in; the next round begins when it is closed"
    work = share_work(on_chain.order.terms)
    speeds = {worker.address: max(1, worker.speed) for worker in paced(workers, local, on_chain.order.terms)}
    mine = speeds[provider]
    others = max(work // speeds.get(each.provider, mine) for each in latest.values())
    return (
        f"the {len(latest)} slots of {where} are with faster providers: a share takes about {duration(work // mine)} at"
        f" its speed of {speed(mine)}, and {duration(others)} there; a faster machine, or one that was idle when it was"
        " measured, gets slots"
    )


def _is_awaited(work: SlotWork) -> bool:
    return work.signed is None and not work.verdict
