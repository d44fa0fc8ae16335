"""Tables of the ledger: accounts and their coins, bonds, escrows with their payments, and a count of each pot."""

from dataclasses import dataclass

from chain.state_machine.kinds import Due
from chain.state_machine.store import Overlay
from chain.state_machine.tables import KeySet, Numbers, Table
from domain.ledger.records import Account, BondAccount, BondRow, Escrow, Payment


@dataclass(frozen=True, slots=True)
class Tally:
    """A record of an order's money: counts that check its other records, and counters that can delay its end."""

    order_id: bytes
    # Coins in the order's escrow; every move into it or out of it changes this count.
    held: int = 0
    # Number of listed payments.
    payments: int = 0
    # Amount (uassay) that the consumer paid for verified rounds of the current leg, including the withheld part.
    paid: int = 0
    # Amount (uassay) of the current leg's withheld part that paid for right shares which the validator had rejected.
    right_shares_paid: int = 0
    # Amount (uassay) of the escrow's withheld sum that belongs to earlier, failed legs and still waits.
    parts_waiting: int = 0
    # CloseReason of the order if the order's end is decided but some bonds are not returned yet, else 0.
    ending: int = 0
    # The least fee (uassay) of the consumer's transaction that placed the order, less the part already compensated.
    fee: int = 0
    # Amount (uassay) by which the consumer was compensated for its payments for rounds of the current leg.
    compensated: int = 0
    # Number of panels that wait for audit room.
    waiting: int = 0
    # Time of the chain clock since which at least one panel has been waiting.
    waits_since: int = 0
    # Number of disputes in which providers stand for shares, and of wrong shares whose providers may still stand.
    stands: int = 0
    # Time of the chain clock until which providers may stand for shares of void rounds. The order closes after it.
    stands_until: int = 0
    # Number of failed legs whose right shares are still to be paid from bonds.
    funds: int = 0


NEXT_ACCOUNT = Numbers(0x04, "number of the next account", remembered=True)
SUPPLY = Numbers(0x05, "supply", remembered=True)
# Key: name of a pot; value: number of coins in it.
POTS = Numbers(0x06, "count of a pot", remembered=True)
ACCOUNTS = Table(0x10, "account", Account, lambda r: (r.address,), remembered=True)
# Key: address, denomination.
BALANCES = Numbers(0x11, "balance", remembered=True)
BOND_ACCOUNTS = Table(0x12, "bond account", BondAccount, lambda r: (r.owner,))
# Shares whose bond is locked. Key: provider, order, leg, round, slot, issue.
BONDED_SHARES = KeySet(0x1E, "bonded share")
TALLIES = Table(0x2E, "tally", Tally, lambda r: (r.order_id,))
ESCROWS = Table(0x40, "escrow", Escrow, lambda r: (r.order_id,))
# Key: order, leg, kind, round, slot, issue.
BOND_ROWS = Table(0x41, "bond", BondRow)
# Key: order, number.
PAYMENTS = Table(0x42, "payment", Payment)

# Parts of an entry: owner.
WITHDRAWAL_DUE = Due("withdrawal", 21, lane=2)


def get_bond_account(store: Overlay, owner: str) -> BondAccount:
    """Return a bond account; an empty one for an owner that never deposited."""
    return BOND_ACCOUNTS.get(store, owner) or BondAccount(owner, 0, ())
