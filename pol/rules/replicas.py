"""Replicas: several validators each train the whole order, and the roots of their rounds are compared.

Each replica is an order of its own, with its own deposit, winner and legs. The replicas of an order are matched in one
auction, with validators that are strangers to each other. Two rules make their comparison mean something:

- **No one sees roots before it has committed to its own.** The acceptance of shares publishes their roots. So it has to
  wait until each other replica has committed to a share of each slot, or has failed. From then on roots may be in
  mempools, so a share that is committed later is *late*. A round with a late share has a panel, and confirms no other.
- **A difference has a first place.** Each validator shows the leaves of its trace of the first slot that differs. Up to
  the first leaf that differs, the replicas had the same state. So at most one of them is right about the next place,
  and a panel of each replica recomputes it.

A replica that ends is missing from then on. A round that no other replica confirms has a panel, as in ``exact``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from domain.errors import BAD_FIELD, UNSUPPORTED, Refusal
from domain.hashing import hash_fields, u32
from domain.limits import REPLICAS_MAX, REPLICATED_SEGMENTS_MAX
from domain.market.records import JobTerms, Order
from domain.order_params import OrderParams
from domain.proof.records import AuditKind, AuditPlace, Round, ShareRoots
from pol.rules.schedule import share_segments
from pol.rules.tiers.table import all_tiers, tier_named

REPLICAS = 2
"""Number of replicas of an order in a tier that replicates, if its consumer names none."""


def replica_id(first: bytes, number: int) -> bytes:
    """Return the id of a replica, from the id of the first one, which has the number 0."""
    return hash_fields("assay/order/replica", first, u32(number)) if number else first


def replica_ids(order: Order) -> tuple[bytes, ...]:
    """Return the ids of all replicas of an order with it, the first one first; empty for a single order."""
    return tuple(replica_id(order.first_replica, number) for number in range(order.replicas))


def check_replicas(names: Sequence[str], replicas: int, terms: JobTerms, params: OrderParams) -> None:
    """Raise Refusal if an order cannot have so many replicas.

    ``names`` are the tiers that the order allows. All of them have to replicate if there are ``replicas``, and none of
    them otherwise.
    """
    replicating = [name for name in names if tier_named(name).replicates]
    if not replicas:
        if replicating:
            reason = f"is missing, but {replicating[0]} needs several validators"
            raise Refusal(BAD_FIELD, "replicas", reason, f"use 2 to {REPLICAS_MAX}, or another tier")
        return
    if replicas == 1:
        raise Refusal(BAD_FIELD, "replicas", "is 1", f"use 2 to {REPLICAS_MAX}, or leave it out")
    if not names or len(replicating) < len(names):
        known = ", ".join(tier.name for tier in all_tiers() if tier.replicates)
        reason = "have a tier in which one validator serves the order, but the order has replicas"
        raise Refusal(BAD_FIELD, "conditions.tiers", reason, f"name only: {known}; or leave out replicas")
    if not params.auditors:
        reason = "cannot be compared, because this chain has no panels"
        raise Refusal(UNSUPPORTED, "replicas", reason, "use another tier")
    if share_segments(terms) > REPLICATED_SEGMENTS_MAX:
        reason = f"makes {share_segments(terms)} segments of a share, too many to compare"
        raise Refusal(BAD_FIELD, "terms.segment_steps", reason, f"use at most {REPLICATED_SEGMENTS_MAX} segments")


@dataclass(frozen=True, slots=True)
class Result:
    """A closed round of one replica: the states from which it started, and everything that it claims."""

    closed: Round
    local_ins: tuple[bytes, ...]  # the local states from which its slots start
    roots: tuple[ShareRoots, ...]  # of its accepted shares, in slot order

    @property
    def opening(self) -> tuple[bytes, tuple[bytes, ...]]:
        """The states from which the round starts. Only rounds with the same opening can be compared."""
        return self.closed.global_in, self.local_ins

    @property
    def claims(self) -> tuple[object, ...]:
        """The claims of the round, which are equal at all replicas that are right. Issue numbers are left out, because
        each validator gives its own.
        """
        stopped = self.closed.stopped
        stop = (stopped.kind, stopped.slot, stopped.segment) if stopped is not None else ()
        return self.roots, self.closed.next_root, stop


def confirm(result: Result, others: Sequence[Result]) -> bool | None:
    """Return whether other replicas confirm a round: False if one of them contradicts it, and None if none of them can
    be compared with it.
    """
    able = [other for other in others if not other.closed.late and other.opening == result.opening]
    if result.closed.late or not able:
        return None
    return all(other.claims == result.claims for other in able)


def find_slot(results: Sequence[Result]) -> int | None:
    """Return the first slot in which results with the same opening differ; None if their shares are equal.

    The results then differ in the aggregation, which every panel recomputes.
    """
    for refs, roots in zip(
        results[0].closed.shares, zip(*(result.roots for result in results), strict=True), strict=True
    ):
        if any(other != roots[0] for other in roots[1:]):
            return refs.slot
    return None


def find_departures(
    terms: JobTerms, slot: int, traces: Mapping[bytes, tuple[int, ShareRoots, Sequence[bytes]]]
) -> dict[bytes, frozenset[AuditPlace]]:
    """Return the places of a slot at which replicas depart from each other, by replica.

    ``traces`` has the issue, the roots and the leaf hashes of the share of each replica, in the order of the
    boundaries. Before such a place, the two replicas had the same state.
    """
    return {
        name: frozenset(
            AuditPlace(kind=kind, slot=slot, issue=issue, segment=segment)
            for other, (_, theirs, leaves) in traces.items()
            if other != name and theirs != roots
            for kind, segment in (_find_departure(share_segments(terms), own, leaves),)
        )
        for name, (issue, roots, own) in traces.items()
    }


def _find_departure(segments: int, own: Sequence[bytes], leaves: Sequence[bytes]) -> tuple[AuditKind, int]:
    """Return the kind and the number of the first place at which two different shares depart from each other."""
    least = min(len(own), len(leaves))
    equal = next(at for at in count() if at == least or own[at] != leaves[at])
    if equal == segments:
        return AuditKind.UPDATE, segments
    return AuditKind.SEGMENT, equal


def put_departures(
    drawn: Sequence[AuditPlace], departures: Sequence[AuditPlace], stopped: AuditPlace | None
) -> tuple[AuditPlace, ...]:
    """Return the places of a panel with those at which replicas depart from each other.

    They take the place of drawn ones of their kind, so that the seats do not have more work. The place at which the job
    ``stopped`` stays.
    """
    added = [place for place in departures if place not in drawn]
    kept = list(drawn)
    fixed = {stopped, *departures}
    for place in added:
        same = [other for other in kept if other.kind is place.kind and other not in fixed]
        if same:
            kept.remove(same[-1])
    return (*kept, *added)
