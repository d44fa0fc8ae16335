"""A kind of panel about bytes, as a value (:mod:`chain.state_machine.proof.fetches`)."""

from collections.abc import Callable
from dataclasses import dataclass

from chain.state_machine.context import Context
from domain.ledger.records import BondRow
from domain.market.records import Order
from domain.proof.records import Panel, Ruling


@dataclass(frozen=True, slots=True)
class Payers:
    """The sources that pay the seats of a panel about bytes: ``fee`` (uassay) of the deposit, and bonds."""

    fee: int = 0
    bonds: tuple[BondRow, ...] = ()


@dataclass(frozen=True, slots=True)
class Fetch:
    """A kind of panel about bytes: who pays its seats, and what follows from its ruling."""

    find_payers: Callable[[Context, Order, Panel, Ruling], Payers]
    go_on: Callable[[Context, Order, Panel, Ruling], None]
