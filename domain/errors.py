"""The tree of errors that a user caused or can fix. Any other exception is a bug, and commands show it as a bug.

::

    Expected                     a reason, a remedy, the field at fault if there is one, an exit code
    ├── Refusal                  the chain refuses a transaction: it gets a code, and its changes are dropped
    ├── ChainError               a call to a node failed                              (chain.client.errors)
    │   ├── TxRefused
    │   ├── ChainTimeout         the transaction may still be included: exit code 3
    │   │   └── TxExpired
    │   └── WrongChain                                                                (validator.daemon)
    ├── KeyringError             a key that cannot be read, written or unlocked       (chain.client.keyring)
    ├── HomeError, StorageError, CometError      a node's home, database, CometBFT    (chain.app)
    ├── RulesMissing             the software lacks the rules of the next block       (chain.state_machine.rules)
    ├── ClusterError             a call between owners failed                         (link.errors)
    ├── ListenError              an address on which no server can listen             (link.errors)
    ├── BadDelivery              a ciphertext is not the one of its manifest          (link.delivery)
    ├── BlobStoreError           a folder of blobs that cannot be used                (link.errors)
    ├── HandoverError            a chunk of a result does not match its hash or key   (link.handover)
    ├── JobError                 a job is refused                                     (pol.errors)
    │   └── TraceError, ProfileError                                                  (pol.errors)
    ├── StateError               a state or a tensor file is not valid                (pol.errors)
    │   └── NotFinite
    ├── ExecutionError           a program cannot be run                              (pol.errors)
    │   └── OutOfRange
    ├── ReplayError              training or replay cannot continue                    (pol.errors)
    │   ├── Stopped          the job has no result there, on any machine
    │   │   └── StepFailed, NotFiniteStep, UpdateFailed, AggregationFailed
    │   └── RangeError, Cancelled, GroupLost
    ├── PoolError                a task of an executor has no result                 (pol.work.executor)
    │   └── PoolFull, TaskTimeout, WorkerDied, OutOfMemory, NoSpace, PoolClosed
    ├── LinkError                a link between machines of an owner failed           (pol.machines.stream)
    │   └── LinkClosed, LostMachine, NoPort
    ├── ClusterUnusable          an owner's cluster that this machine cannot use      (pol.work.cluster.client)
    ├── Unsupported              a model that cannot be written in primitives         (pol.capture.rules.registry)
    ├── NotInAJob                something that a training step cannot contain        (pol.capture.reports.reasons)
    ├── EvidenceRefused      evidence that gives no credential           (validator.credentials.values)
    ├── ProviderError ── NotAdmitted; StoreError, WatchtowerError    daemons  (compute_provider, validator)
    ├── NetworkError, CheatError                              local networks  (localnet)
    │   └── NetworkBusy          exit code 3
    ├── ConsumerError            a consumer's request cannot be carried out           (consumer.errors)
    │   ├── StillWaiting         the time that the caller allowed has passed: exit code 3
    │   └── InvalidId            exit code 2
    ├── SettingsError            a home, a setting or a key cannot be used            (assay.settings.errors)
    ├── ConsoleError             the console cannot start                             (console.errors)
    └── CliError                 a command cannot be carried out                      (assay.cli.errors)
        ├── WrongUsage           exit code 2
        ├── NotSettled           exit code 5
        └── Interrupted, SystemFailed

A Refusal carries a codespace and a number. A number of a codespace is never reused. Codespace ``sdk`` has the numbers
that Cosmos clients know (Cosmos SDK, types/errors), ``feegrant``, ``authz`` and ``slashing`` those of the SDK's modules
of these names; ``assay`` has the numbers of this project.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from domain.readable import Readable


class Exit(IntEnum):
    """Exit codes of every command."""

    DONE = 0
    # The reason is on stderr.
    REFUSED = 1
    USAGE = 2
    # The reason, and how to continue, are on stderr.
    TIMED_OUT = 3
    # The command succeeded, and its output shows a problem that needs attention.
    NEEDS_CARE = 4
    # The order that the command waited for closed without being settled.
    NOT_SETTLED = 5


class Expected(Exception):
    """An error that a user caused or can fix. It has a reason, a remedy, and the field at fault if there is one.

    A command that raises it ends with ``exit_code``. The text is ``field: reason; remedy``; field and remedy may be
    empty. Subclasses that always name a field take it before the reason: code or kind, field, reason, remedy.

    Example::

        try:
            order = network.submit("my-job")
        except assay.Error as error:
            print(error.field, error.reason, error.remedy)
    """

    exit_code = Exit.REFUSED

    def __init__(self, reason: str, remedy: str = "", *, field: str = "") -> None:
        """Store the reason, the remedy and the field."""
        self.reason = reason
        self.remedy = remedy
        self.field = field
        super().__init__(reason, remedy, field)

    @property
    def word(self) -> str:
        """A word for the kind of error, for programs.

        The word stays the same when texts change; by default it is the class's name.
        """
        name = type(self).__name__.removesuffix("Error")
        return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).removeprefix("_")

    def __str__(self) -> str:
        where = f"{self.field}: " if self.field else ""
        return f"{where}{self.reason}" + (f"; {self.remedy}" if self.remedy else "")

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the recipe by which pickle rebuilds the error in another process, without calling its constructor."""
        return rebuilt, (type(self), self.args), self.__dict__


def rebuilt(kind: type[Expected], args: tuple[Any, ...]) -> Expected:
    """Return an error of class ``kind`` with the arguments ``args``, without calling its constructor."""
    return kind.__new__(kind, *args)


def printable(text: str) -> str:
    """Return ``text`` with escapes in place of unprintable characters, so that it is safe in a terminal or a log."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


@dataclass(frozen=True, slots=True)
class Code(Readable):
    """A kind of refusal: a codespace, a number that is unique in the codespace, and a stable name for scripts.

    Example::

        try:
            network.submit("my-job", price_limit=1)
        except assay.Refusal as error:
            print(error.code.space, error.code.number, error.code.name)
    """

    space: str
    number: int
    name: str


class Refusal(Expected):
    """An invalid message or transaction. The transaction's result has ``code``, and the chain drops all its changes.

    Example::

        try:
            network.quote("my-job", tiers=["gold"])
        except assay.Refusal as error:
            print(error.word, error.field, error.reason)
    """

    def __init__(self, code: Code, field: str, reason: str, remedy: str = "") -> None:
        """Store the code with the reason, the remedy and the field."""
        self.code = code
        super().__init__(reason, remedy, field=field)

    @property
    def word(self) -> str:
        """The name of the code."""
        return self.code.name


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
TX_TIMEOUT: Final = _sdk(30, "tx_timeout_height")
WRONG_SEQUENCE: Final = _sdk(32, "wrong_sequence")
GRANT_NOT_FOUND: Final = _sdk(38, "grant_not_found")


def _feegrant(number: int, name: str) -> Code:
    return Code("feegrant", number, name)


FEE_LIMIT_EXCEEDED: Final = _feegrant(2, "fee_limit_exceeded")
FEE_ALLOWANCE_EXPIRED: Final = _feegrant(3, "fee_allowance_expired")
INVALID_DURATION: Final = _feegrant(4, "invalid_duration")
NO_ALLOWED_MESSAGES: Final = _feegrant(6, "no_allowed_messages")
MESSAGE_NOT_ALLOWED: Final = _feegrant(7, "message_not_allowed")


def _authz(number: int, name: str) -> Code:
    return Code("authz", number, name)


AUTHORIZATION_NOT_FOUND: Final = _authz(2, "authorization_not_found")
INVALID_EXPIRATION: Final = _authz(3, "invalid_expiration")
AUTHORIZATION_EXPIRED: Final = _authz(6, "authorization_expired")
GRANTEE_IS_GRANTER: Final = _authz(7, "grantee_is_granter")


def _assay(number: int, name: str) -> Code:
    return Code("assay", number, name)


def _slashing(number: int, name: str) -> Code:
    return Code("slashing", number, name)


NO_VALIDATOR: Final = _slashing(2, "no_validator")
STILL_JAILED: Final = _slashing(4, "still_jailed")
NOT_JAILED: Final = _slashing(5, "not_jailed")
NO_SELF_DELEGATION: Final = _slashing(6, "no_self_delegation")
LOW_SELF_DELEGATION: Final = _slashing(7, "low_self_delegation")
BAD_FIELD: Final = _assay(1, "bad_field")  # a value that is out of its bounds in any state of the chain
NOT_FOUND: Final = _assay(2, "not_found")
WRONG_STATE: Final = _assay(3, "wrong_state")  # the record is not in a state that allows the message
DEADLINE_PASSED: Final = _assay(4, "deadline_passed")
NOT_YET: Final = _assay(5, "not_yet")  # too early: a seed is not known yet, or a window has not ended
NOT_YOURS: Final = _assay(6, "not_yours")  # the signer is not the party that may send the message
ALREADY_EXISTS: Final = _assay(7, "already_exists")
INSUFFICIENT_BOND: Final = _assay(8, "insufficient_bond")
INSUFFICIENT_DEPOSIT: Final = _assay(9, "insufficient_deposit")
# A signature, Merkle path or possession proof is not valid.
BAD_PROOF: Final = _assay(10, "bad_proof")
SLOT_MISSING: Final = _assay(11, "slot_missing")  # a slot of the round has no share
TOO_SLOW_TO_AUDIT: Final = _assay(12, "too_slow_to_audit")
# An executor version, tier or feature that this chain does not support.
UNSUPPORTED: Final = _assay(13, "unsupported")
LIMIT_REACHED: Final = _assay(14, "limit_reached")
