"""Records that the attest component keeps: frozen dataclasses of integers, strings, bytes and tuples."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated

from domain.attest.evidence import Policy
from domain.bounds import Address, Count, Duration, Hash, MaybeHash, Money, Number, Pattern
from domain.readable import Readable

PolicyName = Annotated[
    str,
    Pattern("a name of a policy", r"[a-z0-9][a-z0-9.-]{0,31}", "use letters, digits, dots and dashes: snp-milan"),
]


class AttestState(IntEnum):
    """The state of a request for a credential.

    Example::

        if assay.AttestState(attestation.state) is assay.AttestState.ENDED:
            print(attestation.verdict)
    """

    WAITING = 1  # a lot will draw its panel
    OPEN = 2  # the seats of its panel answer
    ENDED = 3  # its verdict is known


class AttestAnswer(IntEnum):
    """An answer of a seat about evidence: ``OK``, a reason why the evidence gives no credential, or none of both.

    ``docs/credentials.md`` explains the reasons. A seat abstains if it lacks the library for the technology.

    Example::

        print(assay.AttestAnswer(attestation.reason).name)
    """

    OK = 1
    MALFORMED = 2
    UNSUPPORTED = 3
    WRONG_TECHNOLOGY = 4
    UNKNOWN_ROOT = 5
    BAD_CHAIN = 6
    BAD_SIGNATURE = 7
    EXPIRED = 8
    REVOKED = 9
    NO_REVOCATION_LIST = 10
    WRONG_REPORT_DATA = 11
    WRONG_EXECUTOR = 12
    TOO_OLD = 13
    OPEN_TO_HOST = 14
    NO_DEVICE_IDENTITY = 15
    WRONG_MEASUREMENT = 16
    OUTDATED_TCB = 17
    WEAK_HASH = 18
    WRONG_CREDENTIAL = 19
    ABSTAINED = 20

    @property
    def word(self) -> str:
        """The name for programs, in lower case."""
        return self.name.lower()


class AttestVerdict(IntEnum):
    """The verdict of a panel about evidence.

    Example::

        assert assay.AttestVerdict(attestation.verdict) is assay.AttestVerdict.ACCEPTED
    """

    ACCEPTED = 1
    REFUSED = 2
    UNDECIDED = 3


@dataclass(frozen=True, slots=True)
class AttestPolicy(Readable):
    """A policy about evidence that a vote made. It never changes, but a vote may withdraw it.

    A credential is valid for ``valid_for`` seconds after the verdict. Times are on the chain clock.

    Example::

        print(found.policy.name, found.policy.policy.technology, found.policy.withdrawn_at)
    """

    name: PolicyName
    policy: Policy
    valid_for: Duration
    added_at: Number
    withdrawn_at: Number = 0  # 0 while the policy is in force


@dataclass(frozen=True, slots=True)
class KeptBeacon(Readable):
    """A beacon to which evidence can be bound. ``time`` is the header time of its block (seconds since 1970).

    Example::

        print(found.beacon.beacon.hex(), found.beacon.time)
    """

    number: Number
    beacon: Hash
    height: Number
    time: Number


@dataclass(frozen=True, slots=True)
class Attestation(Readable):
    """The last request of an account for a credential, and what the panel decided.

    ``certificate`` is the SHA-256 of the owner's TLS certificate, or zeros if it serves nothing. ``beacon_time`` and
    ``time`` are header times (seconds since 1970): of the beacon's block, and of the block with the request. All seats
    judge the evidence at ``time``. The other times are on the chain clock. ``seat_fee`` (uassay) is locked for each of
    the ``wanted`` seats.

    Example::

        print(found.attestation.policy, found.attestation.verdict, found.attestation.reason)
    """

    owner: Address
    number: Number
    policy: PolicyName
    credential: Hash
    executor: Hash
    certificate: Hash
    beacon: Hash
    beacon_time: Number
    time: Number
    digest: Hash
    size: Count  # of the evidence, in bytes
    wanted: Count
    seat_fee: Money
    asked_at: Number
    state: AttestState
    seats: Count = 0
    committed: Count = 0
    revealed: Count = 0
    drawn_at: Number = 0
    commits_end: Number = 0
    reveals_end: Number = 0
    verdict: Count = 0  # AttestVerdict, or 0 while it is not known
    reason: Count = 0  # the most frequent AttestAnswer on the side of the verdict, or 0
    granted: bool = False  # a credential followed

    @property
    def fee(self) -> int:
        """The amount (uassay) that is locked for the panel."""
        return self.wanted * self.seat_fee


@dataclass(frozen=True, slots=True)
class AttestSeat(Readable):
    """A seat of the panel about an account's evidence.

    ``answer`` is an ``AttestAnswer``, or 0 before it is revealed. ``paid`` and ``cut`` are in uassay.

    Example::

        for seat in found.seats:
            print(seat.validator, seat.answer, seat.paid, seat.cut)
    """

    owner: Address
    number: Number  # of the request
    seat: Count
    validator: Address
    stake: Money
    commitment: MaybeHash = b""
    answer: Count = 0
    paid: Money = 0
    cut: Money = 0


@dataclass(frozen=True, slots=True)
class Credential(Readable):
    """The credential of one device. It stays with its last owner until another account gets it.

    It is in force from ``since`` to ``ends_at`` (chain clock), unless it is banned or its policy is withdrawn.

    Example::

        print(found.credential.owner, found.credential.ends_at, found.in_force)
    """

    id: Hash
    owner: Address
    policy: PolicyName
    executor: Hash
    since: Number
    ends_at: Number
    banned_at: Number = 0  # 0 if it is not banned
