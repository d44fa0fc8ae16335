"""The checks of invariants (protocol section 8): every block checks conservation; in tests every block checks all.

Some invariants concern the whole state. Every other invariant concerns one record, most often an order. An invariant of
an order can break only when the order, or a record that belongs to it, changes.
"""

from typing import Any

from chain.state_machine.rules import RULES, Rules
from chain.state_machine.store import Overlay, Reader
from chain.state_machine.tables import Table


def check_block(store: Overlay, rules: Rules) -> None:
    """Check the invariants that every block must check, whatever they cost; InvariantBroken stops the chain."""
    for component in rules.components:
        for check in component.invariants.block:
            check(store)


def check_all(reader: Reader, rules: Rules = RULES) -> None:
    """Check every invariant for the whole state; InvariantBroken names the first that does not hold."""
    store = Overlay(reader)
    for component in rules.components:
        for each in component.invariants.each:
            for record in each.table.iterate(store):
                for check in each.checks:
                    check(store, record)
    check_whole(store, rules)


def check_whole(store: Overlay, rules: Rules = RULES) -> None:
    """Check the invariants that every block checks, and the invariants of the state as a whole."""
    check_block(store, rules)
    for component in rules.components:
        for check in component.invariants.whole:
            check(store, rules)


def check_record(store: Overlay, table: Table[Any], record: Any, rules: Rules = RULES) -> None:
    """Check the invariants of one record of a table."""
    for component in rules.components:
        for each in component.invariants.each:
            if each.table is table:
                for check in each.checks:
                    check(store, record)
