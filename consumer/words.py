"""Words for orders and bids: the same in commands, in the library and in the console."""

from collections.abc import Iterable
from enum import Enum
from types import MappingProxyType
from typing import Final

from domain.amount import in_assay
from domain.legs.reasons import LegEnd
from domain.market.reasons import CloseReason
from domain.market.records import Histogram
from domain.measures import work
from matching_engine.conditions import CONDITIONS

CLOSED: Final = MappingProxyType(
    {
        CloseReason.CANCELLED: "cancelled by its consumer",
        CloseReason.STOPPED_BY_JOB: "the job has no result from some place on; what was done before is paid",
        CloseReason.SETTLED: "all rounds verified and paid",
        CloseReason.EXPIRED: "no bid took it within its time to live",
        CloseReason.DEADLINE: "its deadline passed before a match",
        CloseReason.UNSERVED: "every leg that it may have has failed",
        CloseReason.FAILED: "the leg failed, and it was not to be matched again",
        CloseReason.UNVERIFIED: "a round was left that panels could not decide",
    }
)
ENDS: Final = MappingProxyType(
    {
        LegEnd.PAYLOAD_NOT_DELIVERED: "the consumer did not deliver the job's files",
        LegEnd.DECLINED_BAD_JOB: "declined: the job does not load",
        LegEnd.DECLINED_WORK_MISMATCH: "declined: the job is another amount of work than the order says",
        LegEnd.DECLINED_TOO_SLOW: "declined: a trial was slower than its work at the bid's speed",
        LegEnd.DECLINED_NOT_FINITE: "declined: a trial ended in what is no number",
        LegEnd.STOPPED_BY_JOB: "all that there is of the job was done",
        LegEnd.DECLINED_NO_CAPACITY: "declined: no room for it",
        LegEnd.NOT_ACCEPTED: "the validator did not accept in time",
        LegEnd.NO_PROGRESS: "the validator did not close a round in time",
        LegEnd.STOPPED_BY_VALIDATOR: "the validator stopped",
        LegEnd.WRONG_ROUND: "a panel found wrong what the validator answers for",
        LegEnd.WRONG_SHARE: "a panel found wrong what a provider did",
        LegEnd.DECLINED_BY_CHOICE: "declined by choice",
        LegEnd.ORDER_DEADLINE: "the order's deadline passed",
        LegEnd.UNDECIDED: "a panel could not tell whether a place is right",
    }
)
_FAILS: Final = MappingProxyType({row.name: row.fails for row in CONDITIONS})
STAKE: Final = "stake"


class Asker(Enum):
    """Where a sentence is read: it names what can be typed there.

    Example::

        print(network.quote("my-job").explain(assay.Asker.SHELL))
    """

    SHELL = "shell"
    PYTHON = "python"

    def price_limit(self, price: int) -> str:
        """Return how a price limit is given (uassay per PFLOP)."""
        if self is Asker.SHELL:
            return f"--price-limit {in_assay(price)}"
        return f"price_limit={price}"

    def follow(self, order_id: bytes) -> str:
        """Return what follows an order, and delivers its files."""
        name = order_id.hex()[:12]
        if self is Asker.SHELL:
            return f"assay order watch {name}"
        return f"network.order({name!r}).wait()"

    def fetch(self, order_id: bytes) -> str:
        """Return what fetches the result of an order."""
        name = order_id.hex()[:12]
        if self is Asker.SHELL:
            return f"assay order result {name} -o model.safetensors"
        return f"network.order({name!r}).result()"


def bids_fail(count: int, condition: str) -> str:
    """Say how many bids fail on a condition: 4 bids ask more."""
    one, several = _FAILS.get(condition, (f"fails on {condition}", f"fail on {condition}"))
    return f"1 bid {one}" if count == 1 else f"{count:,} bids {several}"


def list_failures(unmatched: Histogram, backed: int = 0, needed: int = 0) -> str:
    """Say how many bids fail on which condition; ``backed`` and ``needed`` are FLOPs, where stake is too small."""
    return ", ".join(_failures(unmatched, backed, needed))


def _failures(unmatched: Histogram, backed: int, needed: int) -> Iterable[str]:
    for name, count in unmatched:
        text = bids_fail(count, name)
        if name == STAKE and needed:
            most = "which backs" if count == 1 else "the most backs"
            text += f" ({most} {work(backed)} at its price, and this job is {work(needed)})"
        yield text


def explain(
    unmatched: Histogram,
    cheapest: int = 0,
    *,
    backed: int = 0,
    needed: int = 0,
    asker: Asker = Asker.PYTHON,
) -> tuple[str, str]:
    """Return why no bid takes an order, and what would help.

    ``cheapest`` is the price that would do, 0 where none would. ``backed`` is the most work that a stake which is too
    small backs, and ``needed`` the work of the job.
    """
    if not unmatched:
        limit = "--price-limit" if asker is Asker.SHELL else "price_limit="
        return (
            "no bid stands",
            f"wait for bids: an order with a price limit ({limit}) stays in the book",
        )
    reason = list_failures(unmatched, backed, needed)
    return f"no bid fits now: {reason}", what_helps(unmatched, cheapest, asker)


def what_helps(unmatched: Histogram, cheapest: int, asker: Asker) -> str:
    """Return what would help against what most bids fail on; ``cheapest`` is the price that would do, 0 for none."""
    if cheapest:
        return f"{asker.price_limit(cheapest)} would match one"
    most = max((count for _, count in unmatched), default=0)
    failed = [name for name, count in unmatched if count == most]
    return "; ".join(row.helps for row in CONDITIONS if row.name in failed)
