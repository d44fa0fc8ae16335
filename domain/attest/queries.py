"""Queries that the attest component answers."""

from dataclasses import dataclass
from typing import Annotated

from domain.attest.evidence import Evidence
from domain.attest.records import Attestation, AttestPolicy, AttestSeat, Credential, KeptBeacon, PolicyName
from domain.bounds import Address, Hash, Many, Number
from domain.queries import Query


@dataclass(frozen=True, slots=True)
class AttestPoliciesResponse:
    """All policies about evidence, by name, with those that were withdrawn."""

    policies: Annotated[tuple[AttestPolicy, ...], Many]


@dataclass(frozen=True, slots=True)
class AttestPoliciesRequest(Query[AttestPoliciesResponse]):
    """A request for all policies about evidence."""


@dataclass(frozen=True, slots=True)
class AttestPolicyResponse:
    """The policy with the requested name, or None."""

    policy: AttestPolicy | None


@dataclass(frozen=True, slots=True)
class AttestPolicyRequest(Query[AttestPolicyResponse]):
    """A request for a policy about evidence."""

    name: PolicyName


@dataclass(frozen=True, slots=True)
class AttestBeaconResponse:
    """The newest beacon that the chain keeps for evidence, or None if no policy is in force."""

    beacon: KeptBeacon | None


@dataclass(frozen=True, slots=True)
class AttestBeaconRequest(Query[AttestBeaconResponse]):
    """A request for the newest beacon to which evidence can be bound."""


@dataclass(frozen=True, slots=True)
class AttestationResponse:
    """The last request of an account for a credential with its seats, or None."""

    attestation: Attestation | None
    seats: Annotated[tuple[AttestSeat, ...], Many]


@dataclass(frozen=True, slots=True)
class AttestationRequest(Query[AttestationResponse]):
    """A request for the last attestation of an account."""

    owner: Address


@dataclass(frozen=True, slots=True)
class AttestEvidenceResponse:
    """The evidence of an attestation that is not decided, or None."""

    evidence: Evidence | None


@dataclass(frozen=True, slots=True)
class AttestEvidenceRequest(Query[AttestEvidenceResponse]):
    """A request for the evidence of an account's attestation with this number."""

    owner: Address
    number: Number


@dataclass(frozen=True, slots=True)
class AttestDuty:
    """A seat of a panel about evidence that has to commit or to reveal, and the attestation."""

    attestation: Attestation
    seat: AttestSeat


@dataclass(frozen=True, slots=True)
class AttestDutiesResponse:
    """The seats of a validator in panels about evidence that are not decided, by owner of the evidence."""

    duties: Annotated[tuple[AttestDuty, ...], Many]


@dataclass(frozen=True, slots=True)
class AttestDutiesRequest(Query[AttestDutiesResponse]):
    """A request for the open seats of a validator in panels about evidence."""

    validator: Address


@dataclass(frozen=True, slots=True)
class CredentialResponse:
    """The credential with the requested id, or None, and whether it is in force now."""

    credential: Credential | None
    in_force: bool


@dataclass(frozen=True, slots=True)
class CredentialRequest(Query[CredentialResponse]):
    """A request for the credential of a device."""

    id: Hash


@dataclass(frozen=True, slots=True)
class CredentialsResponse:
    """The credentials of which an account is the last owner, by id, and the id of the one in force, or nothing."""

    credentials: Annotated[tuple[Credential, ...], Many]
    in_force: Annotated[tuple[Hash, ...], Many]


@dataclass(frozen=True, slots=True)
class CredentialsRequest(Query[CredentialsResponse]):
    """A request for the credentials of an account."""

    owner: Address
