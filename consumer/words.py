"""The words for orders and bids that commands, the library and the console share."""

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
        CloseReason.STOPPED_BY_JOB: "the job cannot be computed past some step; the work before it is paid",
        CloseReason.SETTLED: "all rounds verified and paid",
        CloseReason.EXPIRED: "no bid took it within its time to live",
        CloseReason.DEADLINE: "its deadline passed before a match",
        CloseReason.UNSERVED: "the order has had the largest allowed number of failed legs",
        CloseReason.FAILED: "the leg failed, and the order does not allow another match, or a replica goes on",
        CloseReason.UNVERIFIED: "panels could not decide whether a round is right",
    }
)
ENDS: Final = MappingProxyType(
    {
        LegEnd.PAYLOAD_NOT_DELIVERED: "the consumer did not deliver the job's files",
        LegEnd.DECLINED_BAD_JOB: "declined: the job does not load",
        LegEnd.DECLINED_WORK_MISMATCH: "declined: the job's work differs from what the order says",
        LegEnd.DECLINED_TOO_SLOW: "declined: a test of the job was slower than the bid's speed",
        LegEnd.DECLINED_NOT_FINITE: "declined: a test of the job gave NaN or infinity",
        LegEnd.STOPPED_BY_JOB: "the job was done up to the step where it stops",
        LegEnd.DECLINED_NO_CAPACITY: "declined: no capacity for it",
        LegEnd.NOT_ACCEPTED: "the validator did not accept in time",
        LegEnd.NO_PROGRESS: "the validator did not close a round in time",
        LegEnd.STOPPED_BY_VALIDATOR: "the validator stopped",
        LegEnd.WRONG_ROUND: "a panel found an error of the validator",
        LegEnd.WRONG_SHARE: "a panel found an error in a provider's share",
        LegEnd.WRONG_HANDOVER: "the validator handed over data that are not the states",
        LegEnd.STATE_UNAVAILABLE: "declined: the states from which the leg starts could not be fetched",
        LegEnd.DECLINED_BY_CHOICE: "declined by choice",
        LegEnd.ORDER_DEADLINE: "the order's deadline passed",
        LegEnd.UNDECIDED: "a panel could not decide whether a place is right",
    }
)
_FAILS: Final = MappingProxyType({row.name: row.fails for row in CONDITIONS})
STAKE: Final = "stake"


class Asker(Enum):
    """The place where the user reads a sentence: a shell or Python. The place decides the form in which the sentence
    writes commands.

    Example::

        print(network.quote("my-job").explain(assay.Asker.SHELL))
    """

    SHELL = "shell"
    PYTHON = "python"

    def price_limit(self, price: int) -> str:
        """Return the option or keyword for a price limit (uassay per PFLOP)."""
        if self is Asker.SHELL:
            return f"--price-limit {in_assay(price)}"
        return f"price_limit={price}"

    def follow(self, order_id: bytes) -> str:
        """Return the command or call that follows an order and delivers its files."""
        name = order_id.hex()[:12]
        if self is Asker.SHELL:
            return f"assay order watch {name}"
        return f"network.order({name!r}).wait()"

    def fetch(self, order_id: bytes) -> str:
        """Return the command or call that fetches the result of an order."""
        name = order_id.hex()[:12]
        if self is Asker.SHELL:
            return f"assay order result {name} -o model.safetensors"
        return f"network.order({name!r}).result()"


def bids_fail(count: int, condition: str) -> str:
    """Return a phrase with the number of bids that fail a condition, for example ``4 bids ask more``."""
    one, several = _FAILS.get(condition, (f"fails on {condition}", f"fail on {condition}"))
    return f"1 bid {one}" if count == 1 else f"{count:,} bids {several}"


def list_failures(unmatched: Histogram, backed: int = 0, needed: int = 0) -> str:
    """Return a sentence with the number of bids that fail each condition.

    For bids whose stake is too small, the sentence also has two amounts of work (FLOPs): ``backed`` is the largest
    amount that the stake of one of these bids backs, and ``needed`` is the amount that the job needs.
    """
    return ", ".join(_failures(unmatched, backed, needed))


def _failures(unmatched: Histogram, backed: int, needed: int) -> Iterable[str]:
    for name, count in unmatched:
        text = bids_fail(count, name)
        if name == STAKE and needed:
            most = "its stake backs" if count == 1 else "the largest stake backs"
            text += f" ({most} {work(backed)} at the bid's price, and this job is {work(needed)})"
        yield text


def explain(
    unmatched: Histogram,
    cheapest: int = 0,
    *,
    backed: int = 0,
    needed: int = 0,
    asker: Asker = Asker.PYTHON,
) -> tuple[str, str]:
    """Return the reason why no bid takes an order, and a remedy.

    ``cheapest`` is the lowest price limit at which a bid fits; 0 means that no limit would do. ``needed`` is the work
    of the job (FLOPs). ``backed`` is the largest work that the stake of one bid backs, among the bids whose stake is
    too small.
    """
    if not unmatched:
        limit = "--price-limit" if asker is Asker.SHELL else "price_limit="
        return (
            "there are no bids",
            f"wait for bids: an order with a price limit ({limit}) stays in the book",
        )
    reason = list_failures(unmatched, backed, needed)
    return f"no bid fits now: {reason}", what_helps(unmatched, cheapest, asker)


def what_helps(unmatched: Histogram, cheapest: int, asker: Asker) -> str:
    """Return a remedy for an order that no bid takes.

    If a bid fits at a higher price limit, the remedy is the lowest such limit, ``cheapest``. If ``cheapest`` is 0, the
    remedy is for the condition that most bids fail.
    """
    if cheapest:
        return f"{asker.price_limit(cheapest)} would match a bid"
    most = max((count for _, count in unmatched), default=0)
    failed = [name for name, count in unmatched if count == most]
    return "; ".join(row.helps for row in CONDITIONS if row.name in failed)
