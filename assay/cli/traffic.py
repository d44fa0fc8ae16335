"""The words for the sizes of updates."""

from pathlib import Path
from typing import TYPE_CHECKING

from assay.cli.output import size

if TYPE_CHECKING:
    from domain.market.records import Order
    from pol.rules.traffic import Traffic

CODED = "coded"


def update_words(kind: str, update: int, full: int) -> str:
    """Return the size of an update, and how it compares with FP32 if the job codes it."""
    if kind != CODED:
        return f"{size(update)}, in full"
    return f"{size(update)}, coded ({size(full)} in FP32, {full / update:.1f} times more)"


def traffic_words(traffic: "Traffic") -> str:
    """Return the size of the updates of several shares, and the size that they would have in FP32."""
    bound = "at most " if traffic.is_bound else ""
    return f"{size(traffic.moved)} ({bound}{size(traffic.moved_in_full)} in FP32)"


def traffic_of(home: Path, order: "Order", shares: int) -> "Traffic":
    """Return the traffic of an order's ``shares``; it is exact if this home submitted the order and has its job."""
    from consumer.errors import ConsumerError
    from consumer.jobs import read_job, recall
    from pol.errors import JobError
    from pol.job.cost import plain_update_size
    from pol.rules.traffic import compute_traffic

    full = 0
    try:
        job = read_job(recall(home, order.id).job)
        full = plain_update_size(job.document) if job.id == order.terms.job_id else 0
    except (ConsumerError, JobError):
        # another home's order, or a job that was moved or built again
        full = 0
    return compute_traffic(order.terms, shares, full)
