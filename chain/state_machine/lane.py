"""The lane: a part of each block that is reserved for duties, at the chain's lowest gas price.

A duty is a transaction with messages that its signer owes, according to the state before the block. These are
commitments and answers of seats, and messages of validators about legs that they serve. A node looks this up in the
state, and executes nothing. It goes through a block's transactions in their order. The result is the same when the
block is proposed, when it is voted on, and when it is applied.
"""

from dataclasses import dataclass
from typing import Any

from chain.state_machine.context import HEAD, PARAMS
from chain.state_machine.gas import DUTIES_PERCENT, gas_of
from chain.state_machine.gas_price import get_gas_price
from chain.state_machine.handler import Duty, Handler
from chain.state_machine.rules import Rules
from chain.state_machine.store import Overlay
from domain.amount import ceil_div
from domain.errors import Refusal
from domain.ledger.params import LedgerParams
from domain.messages import LaneHalf, Message, signer_of
from domain.node.params import NodeParams
from domain.tx import Tx

MILLION = 1_000_000
DUTY_GAS_FACTOR = 2
"""Largest gas limit of a duty, as a multiple of the gas that it needs, if this gas is known. So a duty cannot fill the
lane with gas that it does not use.
"""


@dataclass(frozen=True, slots=True)
class LaneDuty:
    """A transaction that may be in the lane: its signer, its half, and the earliest deadline (chain seconds)."""

    signer: str
    half: LaneHalf
    deadline: int


class Lane:
    """The lane of one block, as a walk over its transactions. A mempool's lane has no bound on gas."""

    def __init__(self, store: Overlay, rules: Rules, *, has_bounds: bool = True) -> None:
        """Begin with no transaction; ``store`` is the state before the block, and must not change meanwhile."""
        params = PARAMS.get(store)
        half = params.of(NodeParams).block_gas * DUTIES_PERCENT // 200
        self._store = store
        self._rules = rules
        self._denom = HEAD.must(store).denom
        self._left: dict[LaneHalf, int] | None = dict.fromkeys(LaneHalf, half) if has_bounds else None
        self._signers: dict[LaneHalf, dict[str, None]] = {each: {} for each in LaneHalf}
        self.lowest_price = params.of(LedgerParams).min_gas_price_millionths
        """The price (millionths of uassay per gas) in the lane."""
        self.gas_price = get_gas_price(store)
        """The price outside the lane."""

    def find(self, tx: Tx) -> LaneDuty | None:
        """Return the duty that a transaction is, or None.

        If a duty has only commitments and answers of seats, it goes into the half of seats. Any other duty goes into
        the half of legs.
        """
        if any(message.LANE is None for message in tx.messages) or not tx.messages:
            return None
        signer = signer_of(tx.messages[0])
        if len(tx.signers) != 1 or tx.fee_payer not in ("", signer):
            return None  # a signer pays for its own duties, so that its places in the lane are counted as its own
        if tx.fee_granter not in ("", signer):
            return None  # likewise
        found: list[Duty] = []
        is_known = True
        for message in tx.messages:
            handler = self._rules.handlers.get(type(message))
            duty = None if handler is None else self._find_duty(message, handler, signer, tx.is_bounded)
            if handler is None or duty is None:
                return None
            is_known = is_known and handler.weight is None
            found.append(duty)
        if is_known and tx.gas_limit > DUTY_GAS_FACTOR * gas_of(tx):
            return None
        panels = [duty.panel for duty in found if duty.panel is not None]
        if len(set(panels)) != len(panels):
            return None  # a seat has one duty at a time, so the second message about the seat would fail
        half = LaneHalf.SEATS if len(panels) == len(found) else LaneHalf.LEGS
        return LaneDuty(signer, half, min(duty.deadline for duty in found))

    def has_room(self, tx: Tx, duty: LaneDuty | None) -> bool:
        """Return whether a transaction is in the lane if it comes next; ``duty`` is the result of :meth:`find` for it.

        A signer may have one transaction in each half of a block's lane.
        """
        if duty is None or duty.signer in self._signers[duty.half]:
            return False
        return self._left is None or tx.gas_limit <= self._left[duty.half]

    def take(self, tx: Tx, duty: LaneDuty | None) -> bool:
        """Count the next transaction, with its result ``duty`` of :meth:`find`; return whether it is in the lane."""
        if duty is None or not self.has_room(tx, duty):
            return False
        self._signers[duty.half][duty.signer] = None
        if self._left is not None:
            self._left[duty.half] -= tx.gas_limit
        return True

    def price(self, in_lane: bool) -> int:
        """Return the least gas price of a transaction, in millionths of uassay."""
        return self.lowest_price if in_lane else self.gas_price

    def pays(self, tx: Tx, in_lane: bool) -> bool:
        """Return whether a transaction offers the price of its place in the block."""
        return get_fee(tx, self._denom) >= ceil_div(tx.gas_limit * self.price(in_lane), MILLION)

    def offer(self, tx: Tx) -> int:
        """Return the price that a transaction offers, in millionths of uassay per unit of gas."""
        return get_fee(tx, self._denom) * MILLION // max(1, tx.gas_limit)

    def _find_duty(self, message: Message, handler: Handler[Any, Any], signer: str, is_bounded: bool) -> Duty | None:
        if handler.duty is None:
            return None
        try:
            handler.check_stateless(message, is_bounded)
        except Refusal:
            return None  # its fields may be out of bounds, so nothing can be looked up
        return handler.duty(self._store, message) if signer_of(message) == signer else None


def get_fee(tx: Tx, denom: str) -> int:
    """Return the fee of a transaction; 0 if it is not one amount of the chain's coins."""
    return tx.fee[0].amount if len(tx.fee) == 1 and tx.fee[0].denom == denom else 0
