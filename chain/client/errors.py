"""What can go wrong between a client and the chain: typed, with a remedy, never a stack trace of gRPC.

``ChainError`` is the base of all of them; ``ChainTimeout`` says that something may still happen.
"""

import re
from enum import StrEnum
from typing import Final

from domain import errors
from domain.errors import Code, Exit, Expected


class ErrorKind(StrEnum):
    """Why a call failed.

    Example::

        try:
            order.status()
        except assay.ChainError as error:
            print("nobody answers" if error.kind is assay.ErrorKind.UNAVAILABLE else error)
    """

    UNAVAILABLE = "unavailable"  # no node answers at the address
    CLOSED = "closed"  # the client was closed by its owner: nothing to wait for
    TIMEOUT = "timeout"
    NOT_FOUND = "not_found"
    REFUSED = "refused"  # the node answered, and says no
    BAD_RESPONSE = "bad_response"  # the node answers something else than it should


class ChainError(Expected):
    """A call that failed: its kind, what happened, and what to do about it.

    Example::

        try:
            network.submit("my-job")
        except assay.ChainError as error:
            print(error.word, error.reason, error.remedy)
    """

    def __init__(self, kind: ErrorKind, reason: str, remedy: str, code: Code | None = None) -> None:
        """Keep the kind beside the parts."""
        super().__init__(reason, remedy)
        self.kind = kind
        # Where the node named one.
        self.code = code

    @property
    def word(self) -> str:
        """The name of the code that the node gave, or the kind."""
        return self.code.name if self.code else self.kind.value


class ChainTimeout(ChainError):
    """The time is up, and how it ended is not known.

    Example::

        try:
            network.send("assay1…", 2_500_000)
        except assay.ChainTimeout as error:
            print("it may still happen:", error.remedy)
    """

    exit_code = Exit.TIMED_OUT

    def __init__(self, reason: str, remedy: str) -> None:
        """Say what was waited for."""
        super().__init__(ErrorKind.TIMEOUT, reason, remedy)


class TxRefused(ChainError):
    """A transaction that the chain refused; ``height`` is 0 where it never came into a block, and cost nothing.

    The code and the field stand in ``word`` and ``field``. The sentence has the field only where that is its subject.

    Example::

        try:
            order.cancel()
        except assay.TxRefused as error:
            print(error.name, error.log, error.height)
    """

    def __init__(self, code: Code, log: str, tx_hash: bytes = b"", height: int = 0) -> None:
        """Keep code, its stable name, the chain's words, and where it happened."""
        # That a transaction was refused is said already, and most refusals of the chain end with what helps.
        told, remedy = log.removeprefix("tx: "), _REMEDIES.get(code.name, "")
        if not remedy:
            told, _, remedy = told.partition("; ")
        named = _FIELD.match(told)
        told = told[named.end() :] if named else told
        where = f" (refused in block {height})" if height else ""
        super().__init__(ErrorKind.REFUSED, f"{told}{where}", remedy, code)
        self.field = named[1] if named else ""
        self.name = code.name
        self.log = log
        self.hash = tx_hash
        self.height = height

    def __str__(self) -> str:
        if self.reason.partition(" ")[0] in _PREDICATES:
            return super().__str__()
        return self.reason + (f"; {self.remedy}" if self.remedy else "")


class TxExpired(ChainTimeout):
    """A transaction that no block took before its timeout height; it can never come into one."""

    def __init__(self, tx_hash: bytes, timeout_height: int) -> None:
        """Say which, and until when."""
        super().__init__(
            f"transaction {tx_hash.hex().upper()} was in no block until {timeout_height}",
            "nothing happened and nothing was paid: send it again",
        )
        self.hash = tx_hash
        self.timeout_height = timeout_height


_CODES: Final = {(code.space, code.number): code for code in vars(errors).values() if isinstance(code, Code)}
_FIELD: Final = re.compile(r"([a-z_]+(?:[.\[][a-z_0-9\].]*)?): ")
"""How a refusal of the chain begins that names a field of the message."""
_PREDICATES: Final = frozenset(
    (
        "is",
        "are",
        "was",
        "has",
        "have",
        "does",
        "names",
        "lists",
        "goes",
        "holds",
        "comes",
        "belongs",
    )
)
"""First words of a refusal whose subject is the field that it names."""
_REMEDIES: Final = {
    "insufficient_fee": "raise the gas price",
    "wrong_sequence": "another program uses this key: give each its own",
    "mempool_full": "the node is busy: try again in a few seconds",
    "unknown_address": "send coins to it first",
}


def code_of(codespace: str, number: int) -> Code:
    """Return the code with its name; one that is not known here keeps its numbers."""
    return _CODES.get((codespace, number)) or Code(codespace, number, f"{codespace}_{number}")
