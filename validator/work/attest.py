"""The work of a seat that judges evidence of a device, in a process of the pool.

A parser of certificates reads bytes that a stranger chose, so it runs in a sandbox and not beside the keys.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from chain.client.client import ChainClient
from domain.attest.evidence import Evidence, Policy
from domain.attest.queries import AttestEvidenceRequest, AttestPolicyRequest
from domain.attest.records import AttestAnswer, Attestation
from pol.work.executor import PoolError
from validator.credentials.values import Binding, EvidenceRefused, Reason
from validator.credentials.verify import verify_bound
from validator.decide import actions as do
from validator.ledger import Ledger
from validator.work.perform import Table

_log = logging.getLogger("assay.validator")
JUDGE_SECONDS = 20.0
"""Longest time (s) for the verification of evidence, which takes milliseconds."""
RETRY_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class EvidenceCase:
    """All that an answer about evidence depends on. Every seat has the same."""

    evidence: Evidence
    policy: Policy
    binding: Binding
    time: int
    credential: bytes


def case_of(chain_id: str, attestation: Attestation, evidence: Evidence, policy: Policy) -> EvidenceCase:
    """Return the case of an attestation."""
    binding = Binding(
        chain_id=chain_id,
        address=attestation.owner,
        certificate=attestation.certificate,
        executor=attestation.executor,
        beacon=attestation.beacon,
        beacon_time=attestation.beacon_time,
    )
    return EvidenceCase(
        evidence=evidence,
        policy=policy,
        binding=binding,
        time=attestation.time,
        credential=attestation.credential,
    )


def judge_evidence(case: EvidenceCase) -> AttestAnswer:
    """Return the answer about evidence.

    A missing library says nothing about the evidence, so the answer is then to abstain.
    """
    try:
        credential = verify_bound(case.evidence, case.policy, case.binding, case.time)
    except EvidenceRefused as refused:
        return answer_of(refused.why)
    return AttestAnswer.OK if credential.id == case.credential else AttestAnswer.WRONG_CREDENTIAL


def answer_of(reason: Reason) -> AttestAnswer:
    """Return the answer for a reason why evidence gives no credential."""
    return AttestAnswer.ABSTAINED if reason is Reason.NO_LIBRARY else AttestAnswer[reason.name]


@dataclass(frozen=True, slots=True)
class Attester:
    """The records of seats that judge evidence. ``run`` calls a function in the lane of seats."""

    chain_id: str
    client: ChainClient
    ledger: Ledger
    run: Callable[[float, Callable[[EvidenceCase], AttestAnswer], EvidenceCase], AttestAnswer]

    def table(self) -> Table:
        """Return the functions that carry out the actions, by the class of the action."""
        return {do.JudgeEvidence: self.judge, do.EndAttest: self.end}

    def judge(self, action: do.JudgeEvidence) -> float | None:
        """Read evidence and policy from the chain, and record the answer; return the pause before the next try."""
        key = action.seat
        evidence = self.client.query(AttestEvidenceRequest(key.owner, key.number)).evidence
        policy = self.client.query(AttestPolicyRequest(action.attestation.policy)).policy
        if evidence is None or policy is None:
            return RETRY_SECONDS  # the panel is over, as the next look shows
        case = case_of(self.chain_id, action.attestation, evidence, policy.policy)
        try:
            answer = self.run(JUDGE_SECONDS, judge_evidence, case)
        except PoolError as error:
            _log.warning("%s: %s; trying again", action.key, error)
            return RETRY_SECONDS
        if answer is AttestAnswer.ABSTAINED:
            _log.error("%s: %s; install assay[attest]", action.key, Reason.NO_LIBRARY.value)
        else:
            _log.info("%s: %s", action.key, answer.word)
        self.ledger.change_attest(key, lambda now: replace(now, answer=answer))
        return None

    def end(self, action: do.EndAttest) -> None:
        """Delete the record of a seat."""
        self.ledger.end_attest(action.seat)
