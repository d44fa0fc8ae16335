"""Typed events: one per change of state, numbered without gaps by the state machine.

``Event.number`` is the next number of the gap-free sequence (0 for Cosmos-style events such as ``transfer``, which
clients expect and which are not part of it). Attributes are strings: hex for bytes, decimal for integers.
The event log lies outside the Merkle tree. Types and their attributes:

=====================  ==================================================================
``validator.endpoint``  operator, endpoint
``provider.registered`` provider, validator
``provider.left``       provider, validator
``provider.certified``  provider, validator, speed
``bond.deposited``      owner, amount            (also ``bond.withdrawing``, ``bond.released``)
``bid.placed``          bid, validator, price    (also ``bid.changed``, ``bid.closed`` with reason)
``order.opened``        order, consumer, work, price_limit, deposit, attempt
``order.matched``       order, attempt, validator, bid, price, job_bond
``order.unmatched``     order, and one attribute per failed predicate
``order.accepted``      order, attempt, validator
``order.declined``      order, attempt, validator, reason
``order.failed``        order, attempt, validator, reason   (the attempt failed)
``order.proven``        order, attempt, ciphertext_root
``order.closed``        order, reason, refunded, and one attribute per predicate that the last auction failed on
``share.committed``     order, attempt, round, slot, issue, provider, segments
``share.skipped``       order, attempt, round, slot, issue, provider, reason
``share.rejected``      order, attempt, round, slot, issue, provider, reason
``share.drawn``         order, attempt, round, slot, issue, segments
``report.opened``       order, attempt, round, slot, issue, provider, segment   (also ``.objected``, ``.decided``)
``round.closed``        order, attempt, round, next_root, window_ends
``round.verified``      order, attempt, round, paid
``round.void``          order, attempt, round
``audit.drawn``         order, attempt, round, draw, seats
``audit.answered``      order, attempt, round, auditor, agrees
``audit.missed``        order, attempt, round, auditor, cut
``payment``             order, to, kind, amount, round
=====================  ==================================================================
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """An event with its place in the gap-free sequence (0: outside it)."""

    type: str
    attributes: tuple[tuple[str, str], ...]
    number: int = 0

    def get(self, key: str) -> str:
        """Return the first attribute named ``key``, or an empty string."""
        for name, value in self.attributes:
            if name == key:
                return value
        return ""
