"""What must always hold (protocol section 8): conservation in every block, all of it in every block of every test.

Some of it is about the whole state, and the rest about one record each, most often an order: what is about an order can
only break when something of that order changes.
"""

from typing import Any

from chain.state_machine.rules import RULES, Rules
from chain.state_machine.store import Overlay, Reader
from chain.state_machine.tables import Table


def check_block(store: Overlay, rules: Rules) -> None:
    """Check what every block has to check, whatever it costs; InvariantBroken stops the chain."""
    for component in rules.components:
        for check in component.invariants.block:
            check(store)


def check_all(reader: Reader, rules: Rules = RULES) -> None:
    """Check every invariant over the whole state; InvariantBroken names the first that does not hold."""
    store = Overlay(reader)
    for component in rules.components:
        for each in component.invariants.each:
            for record in each.table.iterate(store):
                for check in each.checks:
                    check(store, record)
    check_whole(store, rules)


def check_whole(store: Overlay, rules: Rules = RULES) -> None:
    """Check what holds of the state as a whole."""
    check_block(store, rules)
    for component in rules.components:
        for check in component.invariants.whole:
            check(store, rules)


def check_record(store: Overlay, table: Table[Any], record: Any, rules: Rules = RULES) -> None:
    """Check what holds of each record of a table."""
    for component in rules.components:
        for each in component.invariants.each:
            if each.table is table:
                for check in each.checks:
                    check(store, record)
