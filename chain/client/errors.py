"""The errors of a client's calls to the chain. Each has a type and a remedy, and none shows a stack trace of gRPC.

``ChainError`` is the base of all of them. ``ChainTimeout`` means that the result is unknown and may still come.
"""

import re
from enum import StrEnum
from typing import Final

from domain import errors
from domain.errors import Code, Exit, Expected


class ErrorKind(StrEnum):
    """The kind of a failed call, as a word.

    Example::

        try:
            order.status()
        except assay.ChainError as error:
            print("no node answers" if error.kind is assay.ErrorKind.UNAVAILABLE else error)
    """

    UNAVAILABLE = "unavailable"  # no node answers at the address
    CLOSED = "closed"  # The owner of the client closed it, so no answer will come.
    TIMEOUT = "timeout"
    NOT_FOUND = "not_found"
    REFUSED = "refused"  # the node answered and refused the request
    BAD_RESPONSE = "bad_response"  # The answer did not come from an assay node.


class ChainError(Expected):
    """An error of a call to a node: its kind, the reason, and the remedy.

    Example::

        try:
            network.submit("my-job")
        except assay.ChainError as error:
            print(error.word, error.reason, error.remedy)
    """

    def __init__(self, kind: ErrorKind, reason: str, remedy: str, code: Code | None = None) -> None:
        """Keep the kind, the texts, and the code."""
        super().__init__(reason, remedy)
        self.kind = kind
        # The code in the node's answer, if there is one.
        self.code = code

    @property
    def word(self) -> str:
        """The name of the code in the node's answer, or the kind."""
        return self.code.name if self.code else self.kind.value


class ChainTimeout(ChainError):
    """An error of a call whose time ran out before its result was known.

    Example::

        try:
            network.send("assay1…", 2_500_000)
        except assay.ChainTimeout as error:
            print("it may still happen:", error.remedy)
    """

    exit_code = Exit.TIMED_OUT

    def __init__(self, reason: str, remedy: str) -> None:
        """Keep the reason and the remedy."""
        super().__init__(ErrorKind.TIMEOUT, reason, remedy)


class TxRefused(ChainError):
    """An error for a transaction that the chain refused. If no block has the transaction, ``height`` is 0, and it cost
    nothing.

    ``word`` has the code, and ``field`` the message's field at fault. The text contains the field's name only if the
    name is the subject of the sentence.

    Example::

        try:
            order.cancel()
        except assay.TxRefused as error:
            print(error.name, error.log, error.height)
    """

    def __init__(self, code: Code, log: str, tx_hash: bytes = b"", height: int = 0) -> None:
        """Make the error from the chain's text ``log``. ``height`` is the height of the block that refused the
        transaction, or 0.
        """
        # The prefix "tx: " adds nothing. Most refusals of the chain end with their remedy.
        reason, remedy = log.removeprefix("tx: "), _REMEDIES.get(code.name, "")
        if not remedy:
            reason, _, remedy = reason.partition("; ")
        match = _FIELD.match(reason)
        reason = reason[match.end() :] if match else reason
        where = f" (refused in block {height})" if height else ""
        super().__init__(ErrorKind.REFUSED, f"{reason}{where}", remedy, code)
        self.field = match[1] if match else ""
        self.name = code.name
        self.log = log
        self.hash = tx_hash
        self.height = height

    def __str__(self) -> str:
        if self.reason.partition(" ")[0] in _PREDICATES:
            return super().__str__()
        return self.reason + (f"; {self.remedy}" if self.remedy else "")


class TxExpired(ChainTimeout):
    """An error for a transaction that was in no block before its timeout height. No later block can include it."""

    def __init__(self, tx_hash: bytes, timeout_height: int) -> None:
        """Keep the transaction's hash and its timeout height."""
        super().__init__(
            f"transaction {tx_hash.hex().upper()} was not in a block before its timeout height {timeout_height}",
            "nothing happened and nothing was paid: send it again",
        )
        self.hash = tx_hash
        self.timeout_height = timeout_height


_CODES: Final = {(code.space, code.number): code for code in vars(errors).values() if isinstance(code, Code)}
_FIELD: Final = re.compile(r"([a-z_]+(?:[.\[][a-z_0-9\].]*)?): ")
"""The start of a refusal that names a field of the message."""
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
"""First words of a refusal's text whose subject is the field that is named before the text."""
_REMEDIES: Final = {
    "insufficient_fee": "raise the gas price",
    "wrong_sequence": "another program uses this key: use a key of its own for each program",
    "mempool_full": "the node is busy: try again in a few seconds",
    "unknown_address": "send coins to it first",
}


def code_of(codespace: str, number: int) -> Code:
    """Return the code with its name; a code that this software does not know is named by its codespace and number."""
    return _CODES.get((codespace, number)) or Code(codespace, number, f"{codespace}_{number}")
