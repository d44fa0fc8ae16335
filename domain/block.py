"""What the application gives the state machine for a block, what it gets back, and what the mempool says."""

from dataclasses import dataclass

from domain.beacon import Reveal
from domain.errors import Refusal
from domain.events import Event
from domain.readable import Readable
from domain.tx import Tx


@dataclass(frozen=True, slots=True)
class Block:
    """A decided block. ``txs`` holds a Refusal where decoding failed, and not the reveal that stands before them."""

    height: int
    time_ns: int  # header time, nanoseconds since the epoch
    hash: bytes
    proposer: bytes  # consensus address, 20 bytes
    txs: tuple[Tx | Refusal, ...]
    reveal: Reveal | None = None


@dataclass(frozen=True, slots=True)
class TxResult:
    """Result of one transaction; ``code`` 0 is success."""

    code: int
    codespace: str
    log: str
    gas_wanted: int
    gas_used: int
    events: tuple[Event, ...]
    responses: tuple[tuple[str, bytes], ...] = ()  # (name, id) a message created: ("order_id", …), ("bid_id", …)


@dataclass(frozen=True, slots=True)
class BroadcastResult(Readable):
    """What the mempool said: code 0 means accepted there, not that a block has it.

    Example::

        def taken(result: assay.BroadcastResult) -> bool:
            return result.code == 0
    """

    hash: bytes
    code: int
    codespace: str
    log: str


@dataclass(frozen=True, slots=True)
class ValidatorUpdate:
    """A change of consensus power (0 removes)."""

    cons_key: bytes
    power: int


@dataclass(frozen=True, slots=True)
class BlockResult:
    """Everything a block did: results in order, that of a reveal first; block events, power changes.

    State changes stay in the overlay.
    """

    tx_results: tuple[TxResult, ...]
    events: tuple[Event, ...]
    validator_updates: tuple[ValidatorUpdate, ...]
