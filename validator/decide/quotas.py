"""How much of an order others may store here: by the order's own terms, and said in this place only."""

from dataclasses import dataclass

from domain.proof.queries import OrderResponse
from validator.decide.records import LocalOrder
from validator.decide.retention import Panels
from validator.decide.tasks import open_tasks

SPARE_BOUNDARIES = 4
"""What a provider may have sent in vain, as when it was asked for something and is not any more."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What may lie here without being part of any record yet: ``blobs``, ``size`` bytes in all, each ``largest``."""

    blobs: int = 0
    size: int = 0
    largest: int = 0

    def __add__(self, other: "Allowance") -> "Allowance":
        largest = max(self.largest, other.largest)
        return Allowance(self.blobs + other.blobs, self.size + other.size, largest)


def payload_quota(on_chain: OrderResponse) -> int:
    """Return the bytes of an order's payload, which its consumer sends."""
    return on_chain.order.terms.delivered_bytes


def provider_quota(local: LocalOrder, on_chain: OrderResponse, panels: Panels, provider: str) -> Allowance:
    """Return the allowance of a provider for a leg; a provider that was given no share has none.

    It may send an update and a local state for each share that it has not delivered, both states of each boundary that
    it is asked for, and a few boundaries more. A provider whose time is over may still send: that it came late is
    worth knowing.
    """
    works = [w for known in local.rounds for w in known.works if w.provider == provider]
    if not works:
        return Allowance()
    terms = on_chain.order.terms
    shares = sum(work.packet is None for work in works)
    asked = sum(len(task.indices) for task in open_tasks(local, on_chain, panels, provider))
    delivered = _pairs(shares, terms.update_bytes, terms.local_bytes)
    return delivered + _pairs(asked + SPARE_BOUNDARIES, terms.global_bytes, terms.local_bytes)


def _pairs(count: int, *sizes: int) -> Allowance:
    return Allowance(count * len(sizes), count * sum(sizes), max(sizes) if count else 0)
