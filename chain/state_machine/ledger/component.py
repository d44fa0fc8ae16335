"""The ledger component: accounts, coins, bonds and escrows, and the fee of every transaction."""

from chain.state_machine.component import Component
from chain.state_machine.ledger import gas
from chain.state_machine.ledger.ante import apply_ante
from chain.state_machine.ledger.balances import on_withdrawal
from chain.state_machine.ledger.genesis import write_ledger
from chain.state_machine.ledger.handlers import HANDLERS
from chain.state_machine.ledger.invariants import INVARIANTS
from chain.state_machine.ledger.queries import ANSWERS
from chain.state_machine.ledger.tables import (
    ACCOUNTS,
    BALANCES,
    BOND_ACCOUNTS,
    BOND_ROWS,
    BONDED_SHARES,
    ESCROWS,
    NEXT_ACCOUNT,
    PAYMENTS,
    POTS,
    SUPPLY,
    TALLIES,
    WITHDRAWAL_DUE,
)
from chain.state_machine.queue import Effect

COMPONENT = Component(
    name="ledger",
    tables=(
        NEXT_ACCOUNT,
        SUPPLY,
        POTS,
        ACCOUNTS,
        BALANCES,
        BOND_ACCOUNTS,
        BONDED_SHARES,
        TALLIES,
        ESCROWS,
        BOND_ROWS,
        PAYMENTS,
    ),
    handlers=HANDLERS,
    effects=(Effect(WITHDRAWAL_DUE, on_withdrawal),),
    answers=ANSWERS,
    invariants=INVARIANTS,
    genesis=write_ledger,
    gas={"BOND_GAS": gas.BOND_GAS, "PAY_GAS": gas.PAY_GAS},
    ante=apply_ante,
)
