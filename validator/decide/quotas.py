"""The quotas of consumers and providers: the number of bytes of an order that each may store here, computed from the
order's terms.
"""

from dataclasses import dataclass

from domain.market.records import JobTerms
from domain.proof.queries import OrderResponse, PanelResponse
from domain.proof.records import ReceiptAsk
from link.types import PAYLOAD_FILES_MAX, BlobRef
from pol.rules.delivery import largest_delivery
from validator.decide.records import LocalOrder
from validator.decide.tasks import open_tasks
from validator.decide.view import Panels

SPARE_BOUNDARIES = 4
"""Number of boundaries that a provider may have uploaded although they were not used, because the validator had
requested them and then no longer needed them.
"""


@dataclass(frozen=True, slots=True)
class Allowance:
    """The limits on blobs that no record names yet: their number, their bytes in total, and the bytes of the largest
    blob.
    """

    blobs: int = 0
    size: int = 0
    largest: int = 0

    def __add__(self, other: "Allowance") -> "Allowance":
        largest = max(self.largest, other.largest)
        return Allowance(self.blobs + other.blobs, self.size + other.size, largest)


def payload_quota(on_chain: OrderResponse) -> int:
    """Return the bytes of an order's payload, which its consumer uploads."""
    return on_chain.order.terms.delivered_bytes


def provider_quota(local: LocalOrder, on_chain: OrderResponse, panels: Panels, provider: str) -> Allowance:
    """Return the allowance of a provider for a leg; it is empty if the provider was given no share.

    For each share that it has not delivered, the provider may upload the encrypted delivery. It may also upload
    both states of each boundary that it was asked for, and of a few more boundaries. The provider may upload all this
    even after its time is over, because the record then shows that the provider was late.
    """
    works = [w for known in local.rounds for w in known.works if w.provider == provider]
    if not works:
        return Allowance()
    terms = on_chain.order.terms
    shares = [work for work in works if work.packet is None and work.offer is None]
    asked = sum(len(task.indices) for task in open_tasks(local, on_chain, panels, provider))
    sizes = [largest_delivery(terms, work.anchors[0] if work.anchors else 0) for work in shares]
    delivered = Allowance(len(sizes), sum(sizes), max(sizes, default=0))
    return delivered + _pairs(asked + SPARE_BOUNDARIES, terms.global_bytes, terms.local_bytes)


def delivery_quota(terms: JobTerms, ask: ReceiptAsk) -> Allowance:
    """Return the allowance of a party that sends a delivery of which witnesses state that it arrived."""
    size = largest_delivery(terms, ask.manifest.every)
    return Allowance(1, size, size)


def offered_deliveries(local: LocalOrder, provider: str) -> set[BlobRef]:
    """Return the ciphertexts that a provider has offered. It asks again and again whether they have arrived."""
    works = (work for known in local.rounds for work in known.works if work.provider == provider)
    return {work.offer.ciphertext for work in works if work.offer is not None}


def stander_of(subject: PanelResponse) -> str:
    """Return the provider that stands for the share of a panel; empty if the panel is about something else."""
    if subject.panel.standing is None or not subject.shares:
        return ""
    return subject.shares[0].claim.provider


def stander_quota(subject: PanelResponse) -> Allowance:
    """Return the allowance of a provider that stands for a share at a seat of the panel.

    It may upload the files of the payload, and two boundaries for each place of the panel.
    """
    terms = subject.terms
    payload = Allowance(PAYLOAD_FILES_MAX, terms.delivered_bytes, terms.delivered_bytes)
    return payload + _pairs(2 * len(subject.panel.places), terms.global_bytes, terms.local_bytes)


def _pairs(count: int, *sizes: int) -> Allowance:
    return Allowance(count * len(sizes), count * sum(sizes), max(sizes) if count else 0)
