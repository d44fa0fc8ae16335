"""A decided block for the state machine, the results of the block, and the mempool's answer to a transaction."""

from dataclasses import dataclass
from enum import IntEnum

from domain.beacon import Reveal
from domain.errors import Refusal
from domain.events import Event
from domain.readable import Readable
from domain.tx import Tx


@dataclass(frozen=True, slots=True)
class Vote:
    """A place in the last commit: whether a validator of the previous block's set voted, for the block or for none."""

    validator: bytes  # consensus address, 20 bytes
    power: int
    signed: bool


class MisbehaviourKind(IntEnum):
    """The kinds of misbehaviour that the consensus proves."""

    DUPLICATE_VOTE = 1
    LIGHT_CLIENT_ATTACK = 2


@dataclass(frozen=True, slots=True)
class Misbehaviour:
    """A proof by the consensus that a validator signed two blocks. Height, time and power are those of the vote."""

    kind: MisbehaviourKind
    validator: bytes  # consensus address, 20 bytes
    height: int
    time_ns: int  # header time of that height, nanoseconds since the epoch
    power: int


@dataclass(frozen=True, slots=True)
class Block:
    """A decided block. ``txs`` has the items of the block except the reveal.

    If an item could not be decoded, ``txs`` has a Refusal in its place.
    """

    height: int
    time_ns: int  # header time, nanoseconds since the epoch
    hash: bytes
    proposer: bytes  # consensus address, 20 bytes
    txs: tuple[Tx | Refusal, ...]
    reveal: Reveal | None = None
    votes: tuple[Vote, ...] = ()  # for the previous block, in the order of its validator set
    misbehaviours: tuple[Misbehaviour, ...] = ()


@dataclass(frozen=True, slots=True)
class TxResult:
    """Result of one transaction; ``code`` 0 is success."""

    code: int
    codespace: str
    log: str
    gas_wanted: int
    gas_used: int
    events: tuple[Event, ...]
    responses: tuple[tuple[str, bytes], ...] = ()  # what messages answer, each with its name: ("order_id", …)


@dataclass(frozen=True, slots=True)
class BroadcastResult(Readable):
    """The mempool's answer to a transaction. Code 0 means that the mempool accepted it, not that a block includes it.

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
    """A change of a validator's consensus power. A ``power`` of 0 removes the validator from consensus."""

    cons_key: bytes
    power: int


@dataclass(frozen=True, slots=True)
class BlockResult:
    """The results of a block: one result per item in order (the reveal comes first), the events, and the power changes.

    The changes of the state are in the overlay, not in this record.
    """

    tx_results: tuple[TxResult, ...]
    events: tuple[Event, ...]
    validator_updates: tuple[ValidatorUpdate, ...]
