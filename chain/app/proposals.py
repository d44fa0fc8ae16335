"""The choice of a block's transactions by its proposer, and the check of another validator's proposal.

The proposer takes duties first, by their deadlines, each together with its sender's earlier transactions. Then it takes
the other transactions, the highest gas price first. If a transaction does not fit, it and its sender's later
transactions are left out, but smaller transactions of other senders may still fit. A transaction of several signers is
in the queue of each of them, and is taken when it is the first in all of them. Nothing is executed. The choice needs
only lookups in the state before the block, and sums of bytes and declared gas, which are the same on every node.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from chain.state_machine.context import PARAMS
from chain.state_machine.gas import OPEN_PERCENT
from chain.state_machine.lane import Lane
from chain.state_machine.ledger.queries import get_account
from chain.state_machine.rules import Rules
from chain.state_machine.store import Overlay
from chain.state_machine.transition import check_proposed
from domain.errors import Refusal
from domain.limits import BLOCK_TXS_MAX
from domain.messages import LaneHalf
from domain.node.params import NodeParams, tx_gas_max
from domain.tx import Tx, signers_of

BEFORE_DUTY_MAX = 16
"""Largest number of earlier transactions of the same sender that enter a block together with a duty."""

Decode = Callable[[bytes], Tx | Refusal]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A waiting transaction: its bytes, its place in the mempool, and the accounts that sign it."""

    raw: bytes
    tx: Tx
    place: int
    senders: tuple[str, ...]


@dataclass(slots=True)
class Along:
    """The room for transactions that must come before a duty, because the same sender sent them earlier. Its bounds
    keep room in the lane for the duties of other senders.

    ``each`` is the most gas that the transactions before one duty may have. ``gas`` and ``size`` (bytes) are the room
    that is left for the transactions before all duties.
    """

    each: int
    gas: int
    size: int

    def take(self, candidates: Sequence[Candidate]) -> bool:
        """Take the room for the transactions before a duty, and return whether there was enough."""
        gas = sum(each.tx.gas_limit for each in candidates)
        size = sum(encoded_size(each.raw) for each in candidates)
        if gas > min(self.each, self.gas) or size > self.size:
            return False
        self.gas -= gas
        self.size -= size
        return True


class BlockRoom:
    """The rest of a block that is being filled or checked, transaction by transaction."""

    def __init__(self, store: Overlay, rules: Rules, room: int) -> None:
        """Begin with ``room`` bytes; ``store`` is the state before the block, already converted to the form of
        ``rules``.
        """
        self._rules = rules
        self._params = PARAMS.get(store).of(NodeParams)
        self._lane = Lane(store, rules)
        self._txs_left = BLOCK_TXS_MAX
        self._bytes_left = room
        self._gas_left = self._params.block_gas

    @property
    def lane(self) -> Lane:
        """The lane in its state before the next transaction."""
        return self._lane

    def find_problem(self, raw: bytes, tx: Tx) -> str:
        """Return the reason why the block must not have this transaction next, or an empty string."""
        try:
            check_proposed(tx, self._rules, self._params)
        except Refusal as refusal:
            return str(refusal)
        if not self._txs_left:
            return "would be more than the largest number of transactions of a block"
        if encoded_size(raw) > self._bytes_left:
            return "would exceed the largest size of a block"
        if tx.gas_limit > self._gas_left:
            return "would exceed the gas of a block"
        in_lane = self._lane.has_room(tx, self._lane.find(tx))
        return "" if self._lane.pays(tx, in_lane) else "does not pay the gas price of the block"

    def take(self, raw: bytes, tx: Tx) -> None:
        """Add a transaction without a problem."""
        self._txs_left -= 1
        self._bytes_left -= encoded_size(raw)
        self._gas_left -= tx.gas_limit
        self._lane.take(tx, self._lane.find(tx))

    def fits(self, candidates: Sequence[Candidate]) -> bool:
        """Return whether there are bytes and gas for all candidates together."""
        size = sum(encoded_size(each.raw) for each in candidates)
        gas = sum(each.tx.gas_limit for each in candidates)
        return size <= self._bytes_left and gas <= self._gas_left and len(candidates) <= self._txs_left


def choose(raws: Sequence[bytes], decode: Decode, store: Overlay, rules: Rules, room: int) -> list[bytes]:
    """Return the transactions of a proposal with at most ``room`` bytes, from those that wait in the mempool."""
    block = BlockRoom(store, rules, room)
    queues = _get_queues(raws, decode, store)
    params = PARAMS.get(store).of(NodeParams)
    along = Along(
        each=tx_gas_max(params),
        gas=params.block_gas * OPEN_PERCENT // 100,
        size=room * OPEN_PERCENT // 100,
    )
    return _choose_duties(block, queues, along) + _choose_others(block, queues)


def _get_queues(raws: Sequence[bytes], decode: Decode, store: Overlay) -> dict[str, list[Candidate]]:
    """Return each sender's transactions with consecutive sequences, beginning with the sequence of its account."""
    found: dict[str, dict[int, Candidate]] = {}
    for place, raw in enumerate(raws[:BLOCK_TXS_MAX]):
        tx = decode(raw)
        if isinstance(tx, Refusal) or not tx.messages:
            continue
        senders = signers_of(tx)
        if len(senders) != len(tx.signers):
            continue
        candidate = Candidate(raw=raw, tx=tx, place=place, senders=senders)
        for sender, signer in zip(senders, tx.signers, strict=True):
            found.setdefault(sender, {}).setdefault(signer.sequence, candidate)
    queues: dict[str, list[Candidate]] = {}
    for sender, by_sequence in found.items():
        account = get_account(store, sender)
        sequence = account.sequence if account is not None else 0
        queue: list[Candidate] = []
        while (following := by_sequence.get(sequence + len(queue))) is not None:
            queue.append(following)
        queues[sender] = queue
    return queues


def _choose_duties(block: BlockRoom, queues: dict[str, list[Candidate]], along: Along) -> list[bytes]:
    """Move duties from their queues into the block. In each half of the lane, the duty with the nearest deadline comes
    first.
    """
    duties: list[tuple[LaneHalf, int, int, str, int]] = []
    for sender, queue in queues.items():
        halves: set[LaneHalf] = set()
        for at, candidate in enumerate(queue[: BEFORE_DUTY_MAX + 1]):
            if len(candidate.senders) > 1:
                break  # the duties behind it wait until it is in a block, because it may have to wait for others
            duty = block.lane.find(candidate.tx)
            if duty is not None and duty.half not in halves:
                halves.add(duty.half)
                duties.append((duty.half, duty.deadline, candidate.place, sender, at))
    chosen: list[bytes] = []
    taken: dict[str, int] = {}
    for _half, _deadline, _place, sender, at in sorted(duties, key=_by_deadline):
        queue = queues[sender]
        first = taken.get(sender, 0)
        if at < first:
            continue  # it went along with a later duty of its sender
        bundle = queue[first : at + 1]
        last = bundle[-1].tx
        if not block.fits(bundle) or not block.lane.has_room(last, block.lane.find(last)):
            continue
        if not along.take(bundle[:-1]):
            continue
        for candidate in bundle:
            if block.find_problem(candidate.raw, candidate.tx):
                break
            block.take(candidate.raw, candidate.tx)
            chosen.append(candidate.raw)
            taken[sender] = taken.get(sender, 0) + 1
    for sender, count in taken.items():
        del queues[sender][:count]
    return chosen


def _by_deadline(duty: tuple[LaneHalf, int, int, str, int]) -> tuple[bool, int, int]:
    half, deadline, place, _sender, _at = duty
    return half is LaneHalf.LEGS, deadline, place


def _choose_others(block: BlockRoom, queues: dict[str, list[Candidate]]) -> list[bytes]:
    """Take the other transactions into the block, the highest price first. The transactions of one sender stay in the
    order of their sequences.
    """
    heap: list[tuple[int, int, Candidate]] = []
    offered: set[int] = set()
    positions = dict.fromkeys(queues, 0)

    def first(sender: str) -> Candidate | None:
        queue, at = queues[sender], positions[sender]
        return queue[at] if at < len(queue) else None

    def offer_first(sender: str) -> None:
        """Offer a sender's first transaction, if it is the first one of all its senders."""
        candidate = first(sender)
        if candidate is None or candidate.place in offered:
            return
        senders = candidate.senders
        if len(senders) == 1 or all(first(other) is candidate for other in senders):
            offered.add(candidate.place)
            heappush(heap, (-block.lane.offer(candidate.tx), candidate.place, candidate))

    for sender in queues:
        offer_first(sender)
    chosen: list[bytes] = []
    while heap:
        _price, _place, candidate = heappop(heap)
        if block.find_problem(candidate.raw, candidate.tx):
            continue  # the sender's later transactions need the sequence of this one
        block.take(candidate.raw, candidate.tx)
        chosen.append(candidate.raw)
        for sender in candidate.senders:
            positions[sender] += 1
        for sender in candidate.senders:
            offer_first(sender)
    return chosen


def encoded_size(raw: bytes) -> int:
    """Return the number of bytes that a transaction adds to a block: tag, length as a varint, and its own bytes."""
    return 1 + max(1, (len(raw).bit_length() + 6) // 7) + len(raw)
