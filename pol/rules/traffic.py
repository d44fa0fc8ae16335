"""The bytes of the updates that slots send, and the bytes that the same updates would have without a code."""

from dataclasses import dataclass

from domain.market.records import JobTerms
from domain.readable import Readable
from pol.rules.delivery import largest_delivery


@dataclass(frozen=True, slots=True)
class Traffic(Readable):
    """The bytes of some shares' updates.

    - ``shares``: the number of shares.
    - ``update``: the bytes of one update.
    - ``full``: the bytes that one update would have in FP32. If ``is_bound``, it is not more than that: the size of
      the global state.
    - ``delivery``: the most bytes of the encrypted delivery of one share. A delivery has the update, the slot's local
      state after the round, and both states at the last boundary, from which the update can be recomputed.

    Example::

        traffic = network.quote("my-job").traffic
        print(traffic.moved, traffic.moved_in_full, traffic.delivery)
    """

    shares: int
    update: int
    full: int
    is_bound: bool
    delivery: int

    @property
    def moved(self) -> int:
        """Bytes of the updates of all shares."""
        return self.shares * self.update

    @property
    def moved_in_full(self) -> int:
        """Bytes that these updates would have in FP32."""
        return self.shares * self.full


def compute_traffic(terms: JobTerms, shares: int, full: int = 0) -> Traffic:
    """Return the traffic of ``shares`` shares of a job.

    ``full`` is the size of an update in FP32, which only the job's document determines; without it, the size of the
    global state is the bound.
    """
    return Traffic(
        shares=shares,
        update=terms.update_bytes,
        full=full or terms.global_bytes,
        is_bound=not full,
        delivery=largest_delivery(terms, 0),
    )
