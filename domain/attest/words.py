"""The vocabulary of the attest component."""

from domain.attest.events import (
    AttestationAsked,
    AttestationEnded,
    AttestPanelDrawn,
    AttestPolicyAdded,
    AttestPolicyWithdrawn,
    AttestSeatSettled,
    BeaconKept,
    CredentialBanned,
    CredentialEnded,
    CredentialGranted,
    VerdictCommitted,
    VerdictRevealed,
)
from domain.attest.messages import (
    MsgAddAttestPolicy,
    MsgAttest,
    MsgCommitVerdict,
    MsgReleaseCredential,
    MsgRevealVerdict,
    MsgWithdrawAttestPolicy,
)
from domain.attest.moves import MOVES, POTS
from domain.attest.params import LOCAL, AttestParams
from domain.attest.queries import (
    AttestationRequest,
    AttestBeaconRequest,
    AttestDutiesRequest,
    AttestEvidenceRequest,
    AttestPoliciesRequest,
    AttestPolicyRequest,
    CredentialRequest,
    CredentialsRequest,
)
from domain.words import Words

WORDS = Words(
    name="attest",
    messages=(
        MsgAddAttestPolicy,
        MsgWithdrawAttestPolicy,
        MsgAttest,
        MsgCommitVerdict,
        MsgRevealVerdict,
        MsgReleaseCredential,
    ),
    events=(
        AttestPolicyAdded,
        AttestPolicyWithdrawn,
        BeaconKept,
        AttestationAsked,
        AttestPanelDrawn,
        VerdictCommitted,
        VerdictRevealed,
        AttestSeatSettled,
        AttestationEnded,
        CredentialGranted,
        CredentialEnded,
        CredentialBanned,
    ),
    queries=(
        AttestPoliciesRequest,
        AttestPolicyRequest,
        AttestBeaconRequest,
        AttestationRequest,
        AttestEvidenceRequest,
        AttestDutiesRequest,
        CredentialRequest,
        CredentialsRequest,
    ),
    pots=POTS,
    moves=MOVES,
    message_packages=("assay.attest.v1",),
    query_packages=("assay.attest.v1",),
    params=AttestParams,
    local_params=LOCAL,
)
