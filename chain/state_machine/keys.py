"""Every key of the state as a function: one prefix byte, then parts that each carry their length.

Integers are eight bytes big-endian, so that keys sort as the numbers do. A part has at most 255 bytes. No key is a
prefix of another one of its kind with the same number of parts, and a shorter list of parts is a prefix to scan.
"""

from functools import cache, lru_cache

from domain.hashing import u64

Part = bytes | str | int

_HEAD = 0x01
_PARAMS = 0x02
_NEXT_EVENT = 0x03
_NEXT_ACCOUNT = 0x04
_SUPPLY = 0x05
_COMPONENT = 0x06
_ACCOUNT = 0x10
_BALANCE = 0x11
_BOND_ACCOUNT = 0x12
_VALIDATOR = 0x18
_CONSENSUS = 0x19
_POWER_CHANGED = 0x1A
_LOAD = 0x1B
_PROVIDER = 0x1C
_CLUSTER = 0x1D
_PROVIDER_SHARE = 0x1E
_BID = 0x20
_BID_OF = 0x21
_ORDER = 0x28
_ORDER_OF_CONSUMER = 0x29
_ORDER_OF_VALIDATOR = 0x2A
_OPEN_ORDER = 0x2B
_DIRTY_ORDER = 0x2C
_SWEEP = 0x2D
_TALLY = 0x2E
_ASSIGNMENT = 0x30
_LIVE = 0x31
_SHARE = 0x32
_SLOT = 0x33
_ROUND = 0x34
_AUDIT = 0x35
_AUDIT_POT = 0x36
_DUTY = 0x37
_LOT = 0x38
_REPORT = 0x39
_STANDING = 0x3A
_LAST_ISSUE = 0x3B
_ESCROW = 0x40
_BOND_ROW = 0x41
_PAYMENT = 0x42
_DEADLINE = 0x48

# Keys of the tables that every transfer touches; making one costs as much as the rest.
REMEMBERED = 65_536


def _key(prefix: int, *parts: Part) -> bytes:
    out = bytearray([prefix])
    for part in parts:
        if isinstance(part, int):
            out += b"\x08" + u64(part)
        else:
            data = part.encode() if isinstance(part, str) else part
            out.append(len(data))  # ValueError above 255
            out += data
    return bytes(out)


def parts_of(key: bytes) -> tuple[bytes, ...]:
    """Return the parts of a key, without its prefix byte."""
    parts: list[bytes] = []
    at = 1
    while at < len(key):
        end = at + 1 + key[at]
        parts.append(key[at + 1 : end])
        at = end
    return tuple(parts)


@cache
def head() -> bytes:
    """Where the chain stands."""
    return _key(_HEAD)


@cache
def params() -> bytes:
    """The parameters in force."""
    return _key(_PARAMS)


@cache
def next_event() -> bytes:
    """Number of the next event."""
    return _key(_NEXT_EVENT)


@cache
def next_account() -> bytes:
    """Number of the next account."""
    return _key(_NEXT_ACCOUNT)


@cache
def supply() -> bytes:
    """All coins that there are."""
    return _key(_SUPPLY)


@lru_cache(maxsize=REMEMBERED)
def component(name: str) -> bytes:
    """The count of the coins in a part of the state."""
    return _key(_COMPONENT, name)


@lru_cache(maxsize=REMEMBERED)
def account(*address: str) -> bytes:
    """An account."""
    return _key(_ACCOUNT, *address)


@lru_cache(maxsize=REMEMBERED)
def balance(*address_denom: str) -> bytes:
    """A balance: address, denomination."""
    return _key(_BALANCE, *address_denom)


def bond_account(*owner: str) -> bytes:
    """A bond account."""
    return _key(_BOND_ACCOUNT, *owner)


def validator(*operator: str) -> bytes:
    """A validator."""
    return _key(_VALIDATOR, *operator)


def consensus(cons_address: bytes) -> bytes:
    """The operator of a consensus address."""
    return _key(_CONSENSUS, cons_address)


def power_changed(*operator: str) -> bytes:
    """Marks a validator whose stake changed in this block."""
    return _key(_POWER_CHANGED, *operator)


def load(*operator: str) -> bytes:
    """What a validator's live assignments take."""
    return _key(_LOAD, *operator)


def provider(*address: str) -> bytes:
    """A provider."""
    return _key(_PROVIDER, *address)


def cluster(*validator_provider: str) -> bytes:
    """Marks a provider of a validator's cluster."""
    return _key(_CLUSTER, *validator_provider)


def provider_share(*parts: Part) -> bytes:
    """Marks a share whose bond is locked: provider, order, attempt, round, slot, issue."""
    return _key(_PROVIDER_SHARE, *parts)


def bid(*bid_id: bytes) -> bytes:
    """A bid in the book."""
    return _key(_BID, *bid_id)


def bid_of(*validator_bid: Part) -> bytes:
    """Marks a bid of a validator."""
    return _key(_BID_OF, *validator_bid)


def order(*order_id: bytes) -> bytes:
    """An order."""
    return _key(_ORDER, *order_id)


def order_of_consumer(*consumer_order: Part) -> bytes:
    """Marks an order of a consumer."""
    return _key(_ORDER_OF_CONSUMER, *consumer_order)


def order_of_validator(*validator_order: Part) -> bytes:
    """Marks an order that a validator had an assignment of."""
    return _key(_ORDER_OF_VALIDATOR, *validator_order)


def open_order(*height_order: Part) -> bytes:
    """Marks an open order, by the height that opened it."""
    return _key(_OPEN_ORDER, *height_order)


def dirty_order(*height_order: Part) -> bytes:
    """Marks an open order that the auction has not tried yet."""
    return _key(_DIRTY_ORDER, *height_order)


@cache
def sweep() -> bytes:
    """The pass over all open orders, while there is one."""
    return _key(_SWEEP)


def tally(*order_id: bytes) -> bytes:
    """An order's tally."""
    return _key(_TALLY, *order_id)


def assignment(*order_attempt: Part) -> bytes:
    """An assignment."""
    return _key(_ASSIGNMENT, *order_attempt)


def live_assignment(*validator_order: Part) -> bytes:
    """Marks a live assignment of a validator: validator, order, attempt."""
    return _key(_LIVE, *validator_order)


def share(*parts: Part) -> bytes:
    """A share: order, attempt, round, slot, issue."""
    return _key(_SHARE, *parts)


def slot(*order_attempt_slot: Part) -> bytes:
    """The local state root that a slot's last accepted share left."""
    return _key(_SLOT, *order_attempt_slot)


def standing_share(*order_attempt_round_slot: Part) -> bytes:
    """The issue number of the share that stands in a slot of the open round."""
    return _key(_STANDING, *order_attempt_round_slot)


def last_issue(*order_attempt_slot: Part) -> bytes:
    """Round and issue number (one number) of what a slot committed last."""
    return _key(_LAST_ISSUE, *order_attempt_slot)


def round_(*order_attempt_round: Part) -> bytes:
    """A closed round."""
    return _key(_ROUND, *order_attempt_round)


def audit(*order_attempt_round: Part) -> bytes:
    """The audit of a closed round."""
    return _key(_AUDIT, *order_attempt_round)


def audit_pot(*order_attempt_round: Part) -> bytes:
    """What was cut from silent auditors of a round and is not paid out yet."""
    return _key(_AUDIT_POT, *order_attempt_round)


def duty(*validator_order_attempt_round: Part) -> bytes:
    """Marks a seat that has not answered yet."""
    return _key(_DUTY, *validator_order_attempt_round)


def lot(*purpose_id: Part) -> bytes:
    """A lot that collects block hashes."""
    return _key(_LOT, *purpose_id)


def report(*parts: Part) -> bytes:
    """A report: order, attempt, round, slot, issue."""
    return _key(_REPORT, *parts)


def escrow(*order_id: bytes) -> bytes:
    """The deposits of an order."""
    return _key(_ESCROW, *order_id)


def bond_row(*parts: Part) -> bytes:
    """A bond in an order's escrow: order, attempt, kind, round, slot, issue."""
    return _key(_BOND_ROW, *parts)


def payment(*order_number: Part) -> bytes:
    """A payment out of an order's escrow, by number."""
    return _key(_PAYMENT, *order_number)


def deadline(*lane_time_kind: Part) -> bytes:
    """An entry of the queue: lane, time, kind, and what it concerns."""
    return _key(_DEADLINE, *lane_time_kind)
