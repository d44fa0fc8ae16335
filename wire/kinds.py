"""What a field's name says about its value on the wire: the table that the converters read.

Names mean the same thing in every message, so that one table serves all. Whether a value is allowed
in the state is not decided here, only whether it has the form of what it is.
"""

from enum import Enum

from domain.amount import MONEY_MAX, WORK_MAX


class Blank(Enum):
    """Whether an empty address or hash is a value."""

    REFUSED = "refused"  # messages: what is named must be named
    ALLOWED = "allowed"  # queries: empty means "any" or "not yet"


ADDRESSES = frozenset(
    {
        "address",
        "auditor",
        "consumer",
        "excluded",
        "from_address",
        "operator",
        "owner",
        "provider",
        "to_address",
        "validator",
    }
)

# Integers that are decimal digits on the wire, with their greatest value.
DECIMALS: dict[str, int] = {
    **dict.fromkeys(
        (
            "amount",
            "balance",
            "bond",
            "deposit",
            "free",
            "job_bond",
            "locked",
            "paid",
            "price",
            "price_limit",
            "refunded",
            "stake",
        ),
        MONEY_MAX,
    ),
    **dict.fromkeys(
        (
            "capacity",
            "max_work",
            "min_work",
            "reference_speed",
            "speed",
            "work",
            "work_per_step",
            "work_verified",
        ),
        WORK_MAX,
    ),
}

# Byte strings of one length. Names that end in "_root" are hashes of 32 bytes.
SIZES: dict[str, int] = {
    "app_hash": 32,
    "bid_id": 32,
    "cons_address": 20,
    "cons_key": 32,
    "digest": 32,
    "global_in": 32,
    "id": 32,
    "job_id": 32,
    "key_proof": 64,
    "local_in": 32,
    "local_out": 32,
    "order_id": 32,
    "order_key": 33,
    "path": 32,
    "pub_key": 33,
    "root": 32,
    "signature": 64,
}

# Byte strings of any length, bounded by the transaction and by the state machine.
FREE_BYTES = frozenset({"after", "certificate"})

# Fields of messages that may be empty all the same: an auditor that answers "unavailable" has no
# root.
MAY_BE_BLANK = frozenset({("AuditAnswer", "root"), ("AuditAnswer", "digest")})


def size_of(name: str) -> int | None:
    """Return the length that bytes called ``name`` have, or None where any length is a value."""
    if name in FREE_BYTES:
        return None
    if name.endswith("_root"):
        return 32
    return SIZES[name]
