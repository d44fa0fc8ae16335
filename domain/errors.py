"""The two kinds of failure in the core.

``Refusal`` is expected: somebody sent something that does not hold. It carries a codespace and a number that are
never reused, the field at fault and a remedy. Anything else that is raised is a bug and stops the block loudly.
Codespace ``sdk`` has the numbers that Cosmos clients know (``facts``: SDK types/errors); ``assay`` is ours.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Code:
    """A kind of refusal: codespace, number (unique in the codespace), and a stable name for scripts."""

    space: str
    number: int
    name: str


class Refusal(Exception):
    """A message or transaction that does not hold; the transaction gets ``code`` and its changes are dropped."""

    def __init__(self, code: Code, field: str, reason: str, remedy: str = "") -> None:
        """Keep the parts; the text is ``field: reason; remedy``."""
        self.code = code
        self.field = field
        self.reason = reason
        self.remedy = remedy
        super().__init__(f"{field}: {reason}" + (f"; {remedy}" if remedy else ""))


def _sdk(number: int, name: str) -> Code:
    return Code("sdk", number, name)


TX_DECODE: Final = _sdk(2, "tx_decode")
INVALID_SEQUENCE: Final = _sdk(3, "invalid_sequence")
UNAUTHORIZED: Final = _sdk(4, "unauthorized")
INSUFFICIENT_FUNDS: Final = _sdk(5, "insufficient_funds")
UNKNOWN_REQUEST: Final = _sdk(6, "unknown_request")
INVALID_ADDRESS: Final = _sdk(7, "invalid_address")
INVALID_PUBKEY: Final = _sdk(8, "invalid_pubkey")
UNKNOWN_ADDRESS: Final = _sdk(9, "unknown_address")
INVALID_COINS: Final = _sdk(10, "invalid_coins")
OUT_OF_GAS: Final = _sdk(11, "out_of_gas")
MEMO_TOO_LARGE: Final = _sdk(12, "memo_too_large")
INSUFFICIENT_FEE: Final = _sdk(13, "insufficient_fee")
INVALID_REQUEST: Final = _sdk(18, "invalid_request")
TX_IN_CACHE: Final = _sdk(19, "tx_in_cache")
MEMPOOL_FULL: Final = _sdk(20, "mempool_full")
TX_TOO_LARGE: Final = _sdk(21, "tx_too_large")
KEY_NOT_FOUND: Final = _sdk(22, "key_not_found")
TX_TIMEOUT: Final = _sdk(30, "tx_timeout_height")
WRONG_SEQUENCE: Final = _sdk(32, "wrong_sequence")


def _assay(number: int, name: str) -> Code:
    return Code("assay", number, name)


BAD_FIELD: Final = _assay(1, "bad_field")  # a value out of its bounds, whatever the state
NOT_FOUND: Final = _assay(2, "not_found")
WRONG_STATE: Final = _assay(3, "wrong_state")  # the record is not in a state that allows this
DEADLINE_PASSED: Final = _assay(4, "deadline_passed")
NOT_YET: Final = _assay(5, "not_yet")  # seeds are not known, or a window still runs
NOT_YOURS: Final = _assay(6, "not_yours")  # the signer is not the party that may do this
ALREADY_EXISTS: Final = _assay(7, "already_exists")
INSUFFICIENT_BOND: Final = _assay(8, "insufficient_bond")
INSUFFICIENT_DEPOSIT: Final = _assay(9, "insufficient_deposit")
BAD_PROOF: Final = _assay(
    10, "bad_proof"
)  # a signature, Merkle path or possession proof does not hold
NOT_COVERED: Final = _assay(11, "not_covered")  # accepted ranges do not cover the round
TOO_SLOW_TO_AUDIT: Final = _assay(12, "too_slow_to_audit")
UNSUPPORTED: Final = _assay(
    13, "unsupported"
)  # executor version, tier or feature this chain does not run
LIMIT_REACHED: Final = _assay(14, "limit_reached")
