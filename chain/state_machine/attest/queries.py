"""Answers about policies, attestations and credentials."""

from collections.abc import Mapping
from types import MappingProxyType

from chain.state_machine.attest.credentials import find_current, is_in_force
from chain.state_machine.attest.policies import get_last_beacon
from chain.state_machine.attest.tables import (
    ATTEST_DUTIES,
    ATTEST_POLICIES,
    ATTEST_SEATS,
    ATTESTATIONS,
    CREDENTIALS,
    EVIDENCE,
    LIVE_POLICIES,
    OWNED,
)
from chain.state_machine.component import Answer
from chain.state_machine.context import HEAD, NS
from chain.state_machine.store import Overlay
from domain.attest.queries import (
    AttestationRequest,
    AttestationResponse,
    AttestBeaconRequest,
    AttestBeaconResponse,
    AttestDutiesRequest,
    AttestDutiesResponse,
    AttestDuty,
    AttestEvidenceRequest,
    AttestEvidenceResponse,
    AttestPoliciesRequest,
    AttestPoliciesResponse,
    AttestPolicyRequest,
    AttestPolicyResponse,
    CredentialRequest,
    CredentialResponse,
    CredentialsRequest,
    CredentialsResponse,
)


def _clock(store: Overlay) -> int:
    return HEAD.must(store).clock_ns // NS


def _policies(store: Overlay, _: AttestPoliciesRequest) -> AttestPoliciesResponse:
    return AttestPoliciesResponse(tuple(ATTEST_POLICIES.scan(store)))


def _policy(store: Overlay, request: AttestPolicyRequest) -> AttestPolicyResponse:
    return AttestPolicyResponse(ATTEST_POLICIES.get(store, request.name))


def _beacon(store: Overlay, _: AttestBeaconRequest) -> AttestBeaconResponse:
    return AttestBeaconResponse(get_last_beacon(store) if LIVE_POLICIES.get(store) else None)


def _attestation(store: Overlay, request: AttestationRequest) -> AttestationResponse:
    seats = tuple(ATTEST_SEATS.scan(store, request.owner))
    return AttestationResponse(ATTESTATIONS.get(store, request.owner), seats)


def _evidence(store: Overlay, request: AttestEvidenceRequest) -> AttestEvidenceResponse:
    attestation = ATTESTATIONS.get(store, request.owner)
    is_meant = attestation is not None and attestation.number == request.number
    return AttestEvidenceResponse(EVIDENCE.get(store, request.owner) if is_meant else None)


def _duties(store: Overlay, request: AttestDutiesRequest) -> AttestDutiesResponse:
    duties = []
    for _, owner in ATTEST_DUTIES.keys(store, request.validator):
        name = owner.decode()
        number = ATTEST_DUTIES.get(store, request.validator, name) - 1
        duties.append(AttestDuty(ATTESTATIONS.must(store, name), ATTEST_SEATS.must(store, name, number)))
    return AttestDutiesResponse(tuple(duties))


def _credential(store: Overlay, request: CredentialRequest) -> CredentialResponse:
    credential = CREDENTIALS.get(store, request.id)
    in_force = credential is not None and is_in_force(store, credential, _clock(store))
    return CredentialResponse(credential, in_force)


def _credentials(store: Overlay, request: CredentialsRequest) -> CredentialsResponse:
    owned = tuple(CREDENTIALS.must(store, credential) for _, credential in OWNED.keys(store, request.owner))
    current = find_current(store, request.owner, _clock(store))
    return CredentialsResponse(owned, () if current is None else (current.id,))


ANSWERS: Mapping[type, Answer] = MappingProxyType(
    {
        AttestPoliciesRequest: _policies,
        AttestPolicyRequest: _policy,
        AttestBeaconRequest: _beacon,
        AttestationRequest: _attestation,
        AttestEvidenceRequest: _evidence,
        AttestDutiesRequest: _duties,
        CredentialRequest: _credential,
        CredentialsRequest: _credentials,
    }
)
