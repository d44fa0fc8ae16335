"""The duty of a seat that judges evidence of a device: verify it, commit to the answer, and reveal it.

The salt follows from the daemon's secret and the attestation. So a daemon that was restarted after its commitment finds
its answer again, even if it would now give another one.
"""

from domain.attest.messages import MsgCommitVerdict, MsgRevealVerdict
from domain.attest.queries import AttestDuty
from domain.attest.records import AttestAnswer
from domain.hashing import hash_fields, u64
from pol.rules.attest import answer_commitment
from validator.decide.actions import Action, EndAttest, JudgeEvidence, SendTx
from validator.decide.records import AttestKey, LocalAttest
from validator.decide.view import Look


def decide_attest(
    key: AttestKey, record: LocalAttest | None, look: Look
) -> tuple[LocalAttest | None, tuple[Action, ...]]:
    """Return the updated record of a seat, and every action whose outcome is missing."""
    duty = look.chain.attesting.get(key)
    if duty is None:
        return record, (EndAttest(f"{key}/end", key),)
    record = record or LocalAttest()
    attestation, seat = duty.attestation, duty.seat
    if seat.commitment:
        answer = _find_committed(duty, look)
        if answer is None or look.chain.clock < attestation.commits_end:
            return record, ()
        reveal = MsgRevealVerdict(
            validator=look.me,
            owner=key.owner,
            number=key.number,
            answer=answer,
            salt=make_salt(look.secret, key),
        )
        return record, (SendTx(f"{key}/reveal", (reveal,), attestation.reveals_end),)
    if look.chain.clock >= attestation.commits_end:
        return record, ()
    if record.answer is None:
        return record, (JudgeEvidence(f"{key}/judge", key, attestation),)
    commit = MsgCommitVerdict(
        validator=look.me, owner=key.owner, number=key.number, commitment=_seal(key, look, record.answer)
    )
    return record, (SendTx(f"{key}/commit", (commit,), attestation.commits_end),)


def make_salt(secret: bytes, key: AttestKey) -> bytes:
    """Return the salt (32 bytes) of this daemon's answer about an attestation."""
    return hash_fields("assay/attest/salt", secret, key.owner, u64(key.number))


def _seal(key: AttestKey, look: Look, answer: AttestAnswer) -> bytes:
    salt = make_salt(look.secret, key)
    return answer_commitment(look.chain_id, key.owner, key.number, look.me, salt, answer)


def _find_committed(duty: AttestDuty, look: Look) -> AttestAnswer | None:
    """Return the answer that this daemon's commitment on chain hides; None if another daemon made it."""
    key = AttestKey(duty.attestation.owner, duty.attestation.number)
    sealed = (answer for answer in AttestAnswer if _seal(key, look, answer) == duty.seat.commitment)
    return next(sealed, None)
