"""Invariants of coins and bonds."""

from chain.state_machine.context import Running
from chain.state_machine.invariant import Invariants, ensure
from chain.state_machine.ledger.tables import (
    BALANCES,
    BOND_ACCOUNTS,
    POTS,
    SUPPLY,
    TALLIES,
)
from chain.state_machine.store import Overlay
from domain.amount import MONEY_MAX
from domain.ledger.moves import ACCOUNTS_POT, BONDS_POT, ESCROWS_POT
from domain.moves import Pot
from domain.vocabulary import POTS as ALL_POTS


def check_conservation(store: Overlay) -> None:
    """Check that the counts of all pots add up to the supply."""
    counts = {name: POTS.get(store, name) for name in ALL_POTS}
    supply = SUPPLY.get(store)
    ensure(all(count >= 0 for count in counts.values()), "a pot has a negative count")
    total = sum(counts.values())
    ensure(total == supply, f"pots hold {total}, but the supply is {supply}")


def check_pots(store: Overlay, _: Running) -> None:
    """Check that each pot's count equals the sum of the records of that pot."""
    ensure_pot(store, ACCOUNTS_POT, sum(amount for _, amount in BALANCES.scan(store)))
    ensure_pot(
        store,
        BONDS_POT,
        sum(
            account.free + sum(withdrawal.amount for withdrawal in account.withdrawals)
            for account in BOND_ACCOUNTS.scan(store)
        ),
    )
    ensure_pot(store, ESCROWS_POT, sum(tally.held for tally in TALLIES.scan(store)))
    supply = SUPPLY.get(store)
    ensure(0 < supply <= MONEY_MAX, f"the supply {supply} is not between 1 and {MONEY_MAX}")


def ensure_pot(store: Overlay, pot: Pot, total: int) -> None:
    """Raise InvariantBroken unless the count of ``pot`` is ``total``, the sum of its records."""
    count = POTS.get(store, pot.name)
    ensure(total == count, f"{pot.name} hold {total}, but {count} were counted")


def check_bond_accounts(store: Overlay, _: Running) -> None:
    """Check that no amount in a bond account is below zero."""
    for account in BOND_ACCOUNTS.scan(store):
        amounts = (account.free, *(withdrawal.amount for withdrawal in account.withdrawals))
        ensure(min(amounts) >= 0, f"the bond account of {account.owner} is below zero")


INVARIANTS = Invariants(block=(check_conservation,), whole=(check_pots, check_bond_accounts))
