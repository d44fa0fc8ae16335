"""Messages that the attest component handles."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from domain.attest.evidence import Evidence, Policy
from domain.attest.records import AttestAnswer, PolicyName
from domain.bounds import Address, Duration, Hash, Number, Size
from domain.limits import SALT_BYTES
from domain.messages import LaneHalf, Message


@dataclass(frozen=True, slots=True)
class MsgAddAttestPolicy(Message):
    """Add a policy about evidence, under a name that no policy had before. Only a proposal can have this message.

    A credential is valid for ``valid_for`` seconds after the verdict on its evidence.
    """

    URL: ClassVar[str] = "/assay.attest.v1.MsgAddAttestPolicy"
    SIGNER: ClassVar[str] = "authority"
    GAS_EXTRA: ClassVar[int] = 4
    authority: Address
    name: PolicyName
    policy: Policy
    valid_for: Duration


@dataclass(frozen=True, slots=True)
class MsgWithdrawAttestPolicy(Message):
    """Withdraw a policy for good. Its credentials end at once. Only a proposal can have this message."""

    URL: ClassVar[str] = "/assay.attest.v1.MsgWithdrawAttestPolicy"
    SIGNER: ClassVar[str] = "authority"
    authority: Address
    name: PolicyName


@dataclass(frozen=True, slots=True)
class MsgAttest(Message):
    """Ask for the credential of a device. A drawn panel judges the evidence by a policy.

    The device must have signed the owner's address, the executor and a beacon that the chain keeps. The chain locks the
    fee of the panel, and returns what no seat earns. An account has one request at a time.
    """

    URL: ClassVar[str] = "/assay.attest.v1.MsgAttest"
    SIGNER: ClassVar[str] = "owner"
    GAS_EXTRA: ClassVar[int] = 8
    owner: Address
    policy: PolicyName
    credential: Hash
    executor: Hash
    beacon: Hash
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class MsgCommitVerdict(Message):
    """Commit to an answer about an account's evidence (:func:`pol.rules.attest.answer_commitment`)."""

    URL: ClassVar[str] = "/assay.attest.v1.MsgCommitVerdict"
    SIGNER: ClassVar[str] = "validator"
    LANE: ClassVar[LaneHalf | None] = LaneHalf.LEGS
    validator: Address
    owner: Address
    number: Number
    commitment: Hash


@dataclass(frozen=True, slots=True)
class MsgRevealVerdict(Message):
    """Reveal the answer to which a seat committed."""

    URL: ClassVar[str] = "/assay.attest.v1.MsgRevealVerdict"
    SIGNER: ClassVar[str] = "validator"
    LANE: ClassVar[LaneHalf | None] = LaneHalf.LEGS
    validator: Address
    owner: Address
    number: Number
    answer: AttestAnswer
    salt: Annotated[bytes, Size(SALT_BYTES, SALT_BYTES)]


@dataclass(frozen=True, slots=True)
class MsgReleaseCredential(Message):
    """End a credential of the signer. Another account can get the credential of this device some time later."""

    URL: ClassVar[str] = "/assay.attest.v1.MsgReleaseCredential"
    SIGNER: ClassVar[str] = "owner"
    owner: Address
    credential: Hash
