"""What must hold of coins and bonds."""

from chain.state_machine.context import Running
from chain.state_machine.invariant import Invariants, ensure
from chain.state_machine.ledger.tables import (
    BOND_ACCOUNTS,
    POTS,
    SUPPLY,
)
from chain.state_machine.store import Overlay
from escrow.moves import Pot


def check_conservation(store: Overlay) -> None:
    """Check that the counts of all pots add up to the supply."""
    counts = {pot: POTS.get(store, pot) for pot in Pot}
    supply = SUPPLY.get(store)
    ensure(all(count >= 0 for count in counts.values()), "a pot has less than nothing")
    total = sum(counts.values())
    ensure(total == supply, f"pots hold {total}, but the supply is {supply}")


def check_bond_accounts(store: Overlay, _: Running) -> None:
    """No bond account is below zero."""
    for account in BOND_ACCOUNTS.scan(store):
        amounts = (account.free, *(withdrawal.amount for withdrawal in account.withdrawals))
        ensure(min(amounts) >= 0, f"the bond account of {account.owner} is below zero")


INVARIANTS = Invariants(block=(check_conservation,), whole=(check_bond_accounts,))
