"""What the chain says about a task: the validator's word is not enough to work for.

Pure functions over the answer to the order query. A provider trains only for an order that runs,
in the leg and round that are open, with its own validator, from the states the chain knows,
while the escrow still holds what the share will earn.
"""

from domain.amount import price_ceil
from domain.keys import ShareKey
from domain.legs.records import Leg, LegState
from domain.limits import EXECUTOR_VERSION
from domain.market.records import JobTerms, OrderState
from domain.proof.queries import OrderResponse
from domain.proof.records import ShareClaim, ShareState
from link.types import TrainTask
from pol.rules.schedule import share_segments, share_work

_REJECTED = (ShareState.REJECTED, ShareState.RIGHT, ShareState.WRONG)


def problem(task: TrainTask, order: OrderResponse, validator: str) -> str:
    """Return why the chain does not bear out the task, or an empty string."""
    terms = order.order.terms
    leg = order.leg(task.key.leg)
    if leg is None or leg.validator != validator:
        return "the chain has no such leg of this validator"
    for holds, reason in (
        (order.order.state is OrderState.RUNNING, "the order is not running"),
        (order.order.legs == task.key.leg, "the leg is not the current one"),
        (leg.state is LegState.RUNNING, "the leg is not running"),
        (leg.round == task.key.round, "the round is not the open one"),
        (terms.executor_version == EXECUTOR_VERSION, "another executor version"),
        (task.key.slot in leg.served_slots, "the leg does not serve the slot"),
        (leg.global_in == task.global_in.root, "global_in is not the chain's"),
        (_local_root(order, task) == task.local_in.root, "local_in is not the slot's"),
        (_job_file(task) == terms.job_id, "job.json is not the order's"),
        (_payload_bytes(task) <= terms.delivered_bytes, "more bytes than the order's payload has"),
        (task.global_in.blob.size == terms.global_bytes, "global_in is not as large as a state"),
        (task.local_in.blob.size == terms.local_bytes, "local_in is not as large as a state"),
        (_free(order) >= price(terms, leg), "the escrow is too low"),
    ):
        if not holds:
            return reason
    return ""


def price(terms: JobTerms, leg: Leg) -> int:
    """Return what a share's work costs, which is also its bond."""
    return price_ceil(share_work(terms), leg.price)


def bond_of(task: TrainTask, order: OrderResponse) -> int:
    """Return the bond that the share will need."""
    leg = order.leg(task.key.leg)
    return price(order.order.terms, leg) if leg else 0


def trace_bytes(task: TrainTask, order: OrderResponse) -> int:
    """Return what payload, boundary states and update of the share take on disk."""
    terms = order.order.terms
    states = task.global_in.blob.size + task.local_in.blob.size
    boundaries = share_segments(terms) + 1
    return terms.delivered_bytes + (boundaries + 1) * states


def has_committed(order: OrderResponse, claim: ShareClaim) -> bool:
    """Tell whether the chain holds this very commitment, and it stands: from then on nobody can take the work."""
    share = order.share(claim.key)
    return share is not None and share.claim == claim and share.state is ShareState.COMMITTED


def is_over(key: ShareKey, order: OrderResponse, clock: int) -> bool:
    """Tell whether nobody can ask for the states of this share any more."""
    if order.order.state is OrderState.CLOSED:
        return True
    share = order.share(key)
    if share is not None and share.state in _REJECTED:
        return True
    closed = order.round(key.leg, key.round)
    if closed is not None:
        accepted = key.ref in closed.shares
        return not accepted or (clock >= closed.window_ends and (closed.verified or closed.void))
    # A round that did not close will not close once its leg has ended.
    leg = order.leg(key.leg)
    return leg is None or leg.state in (LegState.FAILED, LegState.DONE)


def earned(order: OrderResponse, provider: str) -> int:
    """Return what the order has paid to the provider so far."""
    return sum(
        payment.amount
        for payment in order.payments
        if payment.to == provider and payment.kind in ("provider", "compensation")
    )


def _local_root(order: OrderResponse, task: TrainTask) -> bytes:
    """Return the slot's last accepted local state; the one that the leg starts from if there is none."""
    accepted = {
        share.claim.round: share.roots
        for share in order.shares
        if share.roots is not None
        and (share.claim.leg, share.claim.slot) == (task.key.leg, task.key.slot)
        and share.claim.round < task.key.round
    }
    if not accepted:
        return order.opening_local(task.key.leg, task.key.slot)
    return accepted[max(accepted)].local_out


def still_promised(promised: dict[ShareKey, int], key: ShareKey, order: OrderResponse) -> dict[ShareKey, int]:
    """Return the bonds that are still to be locked: without those of ``key``'s order that are, or never will be."""
    committed = {share.claim.key for share in order.shares}
    return {
        other: bond
        for other, bond in promised.items()
        if other.order_id != key.order_id
        or ((other.leg, other.round) == (key.leg, key.round) and other not in committed)
    }


def _job_file(task: TrainTask) -> bytes:
    return next((f.blob.sha256 for f in task.payload if f.path == "job.json"), b"")


def _payload_bytes(task: TrainTask) -> int:
    return sum(file.blob.size for file in task.payload)


def _free(order: OrderResponse) -> int:
    """Return what the deposits can still pay: of what is locked all but the part that waits for the validator."""
    return sum(row.locked for row in order.escrow.depositors) - order.escrow.withheld
