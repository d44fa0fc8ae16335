"""Records that only the state machine reads: nothing of the protocol's vocabulary, so nothing that queries show."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Head:
    """Where the chain stands after a block."""

    chain_id: str
    denom: str
    height: int
    time_ns: int  # the latest header time
    clock_ns: int  # the chain clock
    last_hash: bytes  # of the last block: the seed of the next block's auction


@dataclass(frozen=True, slots=True)
class Tally:
    """An order's own count of money and of what its end waits for, beside the records that it checks."""

    order_id: bytes
    held: int  # coins in its escrow, counted by every move in and out
    payments: int  # payments listed
    open_reports: int
    verified: int  # verified rounds of the current attempt
    # CloseReason that is decided and waits for open reports or the return of bonds, else 0.
    ending: int


@dataclass(frozen=True, slots=True)
class Load:
    """What a validator's live assignments take: the capacity that is reserved, and its value."""

    validator: str
    work: int  # FLOPs
    value: int  # uassay


@dataclass(frozen=True, slots=True)
class Sweep:
    """A pass over all open orders because the book changed; it may take several blocks."""

    height: int  # of the last open order that was tried, with its id
    order_id: bytes
    again: bool  # the book changed since the pass began
