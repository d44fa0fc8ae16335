"""Events that the attest component emits."""

from dataclasses import dataclass
from typing import ClassVar

from domain.attest.evidence import Policy
from domain.events import Change


@dataclass(frozen=True, slots=True)
class AttestPolicyAdded(Change):
    """A vote added a policy about evidence, at ``added_at`` (chain clock).

    Example::

        for event in network.events():
            if isinstance(event, assay.AttestPolicyAdded):
                print(event.name, event.valid_for)
    """

    KIND: ClassVar[str] = "attest.policy_added"
    name: str
    policy: Policy
    valid_for: int
    added_at: int


@dataclass(frozen=True, slots=True)
class AttestPolicyWithdrawn(Change):
    """A vote withdrew a policy about evidence, at ``withdrawn_at`` (chain clock)."""

    KIND: ClassVar[str] = "attest.policy_withdrawn"
    name: str
    withdrawn_at: int


@dataclass(frozen=True, slots=True)
class BeaconKept(Change):
    """The chain keeps a beacon for evidence, and no longer keeps that of the number ``dropped``, if it is not 0."""

    KIND: ClassVar[str] = "attest.beacon"
    number: int
    beacon: bytes
    height: int
    time: int
    dropped: int


@dataclass(frozen=True, slots=True)
class AttestationAsked(Change):
    """An account asked for the credential of a device. The fields are those of the record ``Attestation``.

    Example::

        for event in network.events():
            if isinstance(event, assay.AttestationAsked):
                print(event.owner, event.policy, event.size)
    """

    KIND: ClassVar[str] = "attest.asked"
    owner: str
    number: int
    policy: str
    credential: bytes
    executor: bytes
    certificate: bytes
    beacon: bytes
    beacon_time: int
    time: int
    digest: bytes
    size: int
    wanted: int
    seat_fee: int
    asked_at: int


@dataclass(frozen=True, slots=True)
class AttestPanelDrawn(Change):
    """The panel about an account's evidence is drawn: ``validators`` with their ``stakes`` (uassay).

    They commit before ``commits_end`` and reveal before ``reveals_end`` (chain clock).
    """

    KIND: ClassVar[str] = "attest.panel"
    owner: str
    number: int
    validators: tuple[str, ...]
    stakes: tuple[int, ...]
    drawn_at: int
    commits_end: int
    reveals_end: int


@dataclass(frozen=True, slots=True)
class VerdictCommitted(Change):
    """A seat committed to its answer. The two times may be earlier now, because all seats have committed."""

    KIND: ClassVar[str] = "attest.committed"
    owner: str
    number: int
    seat: int
    commitment: bytes
    commits_end: int
    reveals_end: int


@dataclass(frozen=True, slots=True)
class VerdictRevealed(Change):
    """A seat revealed its answer (an ``AttestAnswer``)."""

    KIND: ClassVar[str] = "attest.revealed"
    owner: str
    number: int
    seat: int
    answer: int
    reveals_end: int


@dataclass(frozen=True, slots=True)
class AttestSeatSettled(Change):
    """A seat of an ended panel was paid or lost stake (uassay, burnt), or did neither.

    ``counts_silence`` is true if it was silent, and the silence counts in the validator's track record.
    """

    KIND: ClassVar[str] = "attest.seat"
    owner: str
    number: int
    seat: int
    validator: str
    paid: int
    cut: int
    counts_silence: bool


@dataclass(frozen=True, slots=True)
class AttestationEnded(Change):
    """The panel about an account's evidence ended with a ``verdict`` (``AttestVerdict``).

    ``reason`` is the most frequent answer on the side of the verdict, or 0. ``granted`` is true if a credential
    followed. ``returned`` (uassay) is the part of the fee that no seat earned.

    Example::

        for event in network.events():
            if isinstance(event, assay.AttestationEnded):
                print(event.owner, assay.AttestVerdict(event.verdict).name, event.returned)
    """

    KIND: ClassVar[str] = "attest.ended"
    owner: str
    number: int
    verdict: int
    reason: int
    granted: bool
    returned: int


@dataclass(frozen=True, slots=True)
class CredentialGranted(Change):
    """An account has the credential of a device. ``before`` is the account that had it, or empty."""

    KIND: ClassVar[str] = "credential.granted"
    credential: bytes
    owner: str
    policy: str
    executor: bytes
    since: int
    ends_at: int
    before: str


@dataclass(frozen=True, slots=True)
class CredentialEnded(Change):
    """A credential ended before its time: its owner released it, or attested another device."""

    KIND: ClassVar[str] = "credential.ended"
    credential: bytes
    owner: str
    ends_at: int


@dataclass(frozen=True, slots=True)
class CredentialBanned(Change):
    """A credential is lost for good, because a panel found a share of its owner wrong.

    Example::

        for event in network.events():
            if isinstance(event, assay.CredentialBanned):
                print(event.credential.hex(), event.owner)
    """

    KIND: ClassVar[str] = "credential.banned"
    credential: bytes
    owner: str
    banned_at: int
