"""What the ledger keeps: accounts and their coins, bonds, escrows with their payments, and a count of each pot."""

from dataclasses import dataclass

from chain.state_machine.kinds import Due
from chain.state_machine.store import Overlay
from chain.state_machine.tables import KeySet, Numbers, Table
from domain.ledger.records import Account, BondAccount, BondRow, Escrow, Payment


@dataclass(frozen=True, slots=True)
class Tally:
    """An order's own count of money and of what its end waits for, beside the records that it checks."""

    order_id: bytes
    # Coins in its escrow, counted by every move in and out.
    held: int = 0
    # Payments listed.
    payments: int = 0
    # Verified rounds of the current leg without a panel.
    unaudited: int = 0
    # What rejected shares that were right took of what is withheld in the current leg (uassay).
    righted: int = 0
    # CloseReason that is decided and waits for the return of bonds, else 0.
    ending: int = 0
    # What is left of the least fee that ordering cost the consumer, and what it paid for rounds of the current
    # leg that was made good to it (uassay).
    fee: int = 0
    made_good: int = 0
    # Panels that wait for audit room, and since when some do (chain clock).
    waiting: int = 0
    waits_since: int = 0


NEXT_ACCOUNT = Numbers(0x04, "number of the next account", remembered=True)
SUPPLY = Numbers(0x05, "supply", remembered=True)
# Coins of a pot.
POTS = Numbers(0x06, "count of a pot", remembered=True)
ACCOUNTS = Table(0x10, "account", Account, lambda r: (r.address,), remembered=True)
# Address, denomination.
BALANCES = Numbers(0x11, "balance", remembered=True)
BOND_ACCOUNTS = Table(0x12, "bond account", BondAccount, lambda r: (r.owner,))
# Shares whose bond is locked: provider, order, leg, round, slot, issue.
BONDED_SHARES = KeySet(0x1E, "bonded share")
TALLIES = Table(0x2E, "tally", Tally, lambda r: (r.order_id,))
ESCROWS = Table(0x40, "escrow", Escrow, lambda r: (r.order_id,))
# Order, leg, kind, round, slot, issue.
BOND_ROWS = Table(0x41, "bond", BondRow)
# Order, number.
PAYMENTS = Table(0x42, "payment", Payment)

# Owner.
WITHDRAWAL_DUE = Due("withdrawal", 21, lane=2)


def get_bond_account(store: Overlay, owner: str) -> BondAccount:
    """Return a bond account; whoever never deposited has an empty one."""
    return BOND_ACCOUNTS.get(store, owner) or BondAccount(owner, 0, ())
