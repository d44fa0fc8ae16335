"""Handlers of requests for credentials, of the seats that judge them, and of releases."""

from dataclasses import dataclass

from chain.state_machine.attest.attestations import ask, certificate_of, list_strangers, take_answer, take_commitment
from chain.state_machine.attest.credentials import end, find_obstacle
from chain.state_machine.attest.policies import (
    apply_add,
    apply_withdraw,
    check_add,
    check_add_fields,
    check_withdraw,
    find_beacon,
)
from chain.state_machine.attest.tables import (
    ATTEST_DUTIES,
    ATTEST_POLICIES,
    ATTEST_SEATS,
    ATTESTATIONS,
    CREDENTIALS,
    OPEN_ATTESTATIONS,
    OWNED,
)
from chain.state_machine.context import NS, Context
from chain.state_machine.handler import Duty, Handler
from chain.state_machine.ledger.balances import check_funds
from chain.state_machine.proof.gas import READ_GAS, VALIDATOR_GAS
from chain.state_machine.staking.tables import count_bonded
from chain.state_machine.store import Overlay
from domain.attest.messages import (
    MsgAddAttestPolicy,
    MsgAttest,
    MsgCommitVerdict,
    MsgReleaseCredential,
    MsgRevealVerdict,
    MsgWithdrawAttestPolicy,
)
from domain.attest.params import AttestParams
from domain.attest.records import Attestation, AttestPolicy, AttestSeat, AttestState, Credential, KeptBeacon
from domain.errors import (
    ALREADY_EXISTS,
    BAD_FIELD,
    BAD_PROOF,
    DEADLINE_PASSED,
    LIMIT_REACHED,
    NOT_FOUND,
    NOT_YET,
    NOT_YOURS,
    WRONG_STATE,
    Refusal,
)
from domain.limits import CREDENTIALS_MAX, EVIDENCE_BYTES_MAX
from pol.rules.attest import answer_commitment

# --- MsgAttest -----------------------------------------------------------------------------------


def check_attest_fields(message: MsgAttest) -> None:
    """Check the size of the evidence."""
    size = message.evidence.size
    if size > EVIDENCE_BYTES_MAX:
        reason = f"has {size} bytes, but at most {EVIDENCE_BYTES_MAX} are allowed"
        raise Refusal(LIMIT_REACHED, "evidence", reason, "leave out certificates and lists that no verifier needs")


def check_attest(ctx: Context, message: MsgAttest) -> Attestation:
    """Return the request.

    Refuse it if the account has one that is not decided, or could not get the credential now. Refuse it also if the
    policy does not accept its executor or beacon, if too few validators could judge it, or if the fee is missing.
    """
    old = ATTESTATIONS.get(ctx.store, message.owner)
    if old is not None and old.state is not AttestState.ENDED:
        reason = "has a request that is not decided"
        raise Refusal(ALREADY_EXISTS, "owner", reason, "wait for its end (`assay query attest attestation`)")
    policy = ATTEST_POLICIES.need(ctx.store, message.policy)
    if policy.withdrawn_at:
        reason = f"was withdrawn at {policy.withdrawn_at} (chain clock)"
        raise Refusal(WRONG_STATE, "policy", reason, "use one that `assay query attest policies` lists as in force")
    beacon = _check_policy(ctx, message, policy)
    reason, remedy = find_obstacle(ctx, message.owner, message.credential)
    if reason:
        raise Refusal(WRONG_STATE, "credential", reason, remedy)
    owned = [credential for _, credential in OWNED.keys(ctx.store, message.owner)]
    if message.credential not in owned and len(owned) >= CREDENTIALS_MAX:
        reason = f"is the last owner of {len(owned)} devices, the most that an account can have"
        raise Refusal(LIMIT_REACHED, "owner", reason, "use another account")
    params = ctx.block.params.of(AttestParams)
    if OPEN_ATTESTATIONS.get(ctx.store) >= params.attest_open_max:
        reason = f"{params.attest_open_max} requests are not decided, so no other one is taken"
        raise Refusal(LIMIT_REACHED, "owner", reason, "wait until one of them ends")
    if len(list_strangers(ctx.store, message.owner)) < params.attest_seats_min:
        reason = f"fewer than {params.attest_seats_min} validators could judge the evidence"
        raise Refusal(WRONG_STATE, "owner", reason, "wait for more validators that promise audits")
    check_funds(ctx, message.owner, params.attest_seats * params.attest_seat_fee)
    return Attestation(
        owner=message.owner,
        number=1 if old is None else old.number + 1,
        policy=message.policy,
        credential=message.credential,
        executor=message.executor,
        certificate=certificate_of(ctx.store, message.owner),
        beacon=message.beacon,
        beacon_time=beacon.time,
        time=ctx.time_ns // NS,
        digest=message.evidence.digest,
        size=message.evidence.size,
        wanted=params.attest_seats,
        seat_fee=params.attest_seat_fee,
        asked_at=ctx.clock,
        state=AttestState.WAITING,
    )


def _check_policy(ctx: Context, message: MsgAttest, policy: AttestPolicy) -> KeptBeacon:
    """Return the beacon to which the evidence is bound; refuse what the policy does not accept at first sight."""
    wanted = policy.policy
    if message.evidence.technology != wanted.technology:
        reason = f"is of {message.evidence.technology}, but the policy accepts {wanted.technology}"
        raise Refusal(BAD_FIELD, "evidence.technology", reason, "name a policy for this technology")
    if message.executor not in wanted.executors:
        reason = "is not an executor that the policy accepts"
        raise Refusal(BAD_FIELD, "executor", reason, "run a release that `assay query attest policy` lists")
    beacon = find_beacon(ctx.store, message.beacon)
    if beacon is None:
        reason = "is none that the chain keeps for evidence, or no longer"
        raise Refusal(NOT_FOUND, "beacon", reason, "make new evidence for the one of `assay query attest beacon`")
    age = ctx.time_ns // NS - beacon.time
    if age > wanted.max_age:
        reason = f"is {age} s old, but the policy allows {wanted.max_age} s"
        raise Refusal(DEADLINE_PASSED, "beacon", reason, "make new evidence for the one of `assay query attest beacon`")
    return beacon


def weigh_attest(ctx: Context, message: MsgAttest, _: Attestation) -> int:
    """Return the gas of a request.

    The validators that can judge it and the devices of the account are read, and the last panel's seats are removed.
    """
    old = ATTESTATIONS.get(ctx.store, message.owner)
    records = CREDENTIALS_MAX + (old.seats if old is not None else 0)
    return 3 * VALIDATOR_GAS * count_bonded(ctx.store) + READ_GAS * records


def apply_attest(ctx: Context, message: MsgAttest, attestation: Attestation) -> None:
    """Store the request, and let a lot draw the panel."""
    ask(ctx, attestation, message.evidence)


# --- MsgCommitVerdict and MsgRevealVerdict ---------------------------------------------------------

Answered = MsgCommitVerdict | MsgRevealVerdict


@dataclass(frozen=True, slots=True)
class CheckedSeat:
    """The attestation that a message is about, and the signer's seat."""

    attestation: Attestation
    seat: AttestSeat


def _get_seat(ctx: Context, message: Answered) -> CheckedSeat:
    """Return the signer's seat; refuse a signer that has no duty about this attestation."""
    found = _find_seat(ctx.store, message)
    if found is None:
        reason = "has no open seat in this panel: it was not drawn, has answered, or the panel has ended"
        raise Refusal(NOT_YOURS, "validator", reason, "no further action is needed")
    return found


def _find_seat(store: Overlay, message: Answered) -> CheckedSeat | None:
    number = ATTEST_DUTIES.get(store, message.validator, message.owner)
    if not number:
        return None
    attestation = ATTESTATIONS.must(store, message.owner)
    if attestation.number != message.number:
        return None
    return CheckedSeat(attestation, ATTEST_SEATS.must(store, message.owner, number - 1))


def _check_before(ctx: Context, name: str, deadline: int) -> None:
    if ctx.clock >= deadline:
        reason = f"the {name} passed at {deadline} (now {ctx.clock})"
        raise Refusal(DEADLINE_PASSED, "number", reason, "no further action is possible")


def check_commit(ctx: Context, message: MsgCommitVerdict) -> CheckedSeat:
    """Return the seat; refuse one that has committed, or that is too late."""
    checked = _get_seat(ctx, message)
    if checked.seat.commitment:
        reason = "the seat has already committed"
        remedy = "reveal when all seats have committed or the time to commit is over"
        raise Refusal(ALREADY_EXISTS, "commitment", reason, remedy)
    _check_before(ctx, "time to commit", checked.attestation.commits_end)
    return checked


def apply_commit(ctx: Context, message: MsgCommitVerdict, checked: CheckedSeat) -> None:
    """Store the commitment."""
    take_commitment(ctx, checked.attestation, checked.seat, message.commitment)


def check_reveal(ctx: Context, message: MsgRevealVerdict) -> CheckedSeat:
    """Return the seat; refuse another answer than the seat committed to, and one that is too early or too late."""
    checked = _get_seat(ctx, message)
    attestation, seat = checked.attestation, checked.seat
    if not seat.commitment:
        reason = "the seat has not committed to an answer"
        raise Refusal(WRONG_STATE, "validator", reason, "commit in the first part of the panel's time")
    if ctx.clock < attestation.commits_end:
        reason = f"other seats may commit until {attestation.commits_end} (now {ctx.clock})"
        raise Refusal(NOT_YET, "number", reason, "reveal after that time")
    _check_before(ctx, "time to reveal", attestation.reveals_end)
    sealed = answer_commitment(
        ctx.block.chain_id, message.owner, message.number, message.validator, message.salt, message.answer
    )
    if sealed != seat.commitment:
        reason = "does not hash to the commitment"
        raise Refusal(BAD_PROOF, "answer", reason, "send the committed answer, with its salt")
    return checked


def apply_reveal(ctx: Context, message: MsgRevealVerdict, checked: CheckedSeat) -> None:
    """Store the answer."""
    take_answer(ctx, checked.attestation, checked.seat, message.answer)


def find_commit_duty(store: Overlay, message: MsgCommitVerdict) -> Duty | None:
    """Return the duty to commit, or None if the signer has no open seat or has committed."""
    found = _find_seat(store, message)
    return None if found is None or found.seat.commitment else Duty(found.attestation.commits_end)


def find_reveal_duty(store: Overlay, message: MsgRevealVerdict) -> Duty | None:
    """Return the duty to reveal, or None if the signer has no open seat with a commitment."""
    found = _find_seat(store, message)
    return None if found is None or not found.seat.commitment else Duty(found.attestation.reveals_end)


# --- MsgReleaseCredential ------------------------------------------------------------------------


def check_release(ctx: Context, message: MsgReleaseCredential) -> Credential:
    """Return the credential; refuse one of another account, or one that is over."""
    credential = CREDENTIALS.need(ctx.store, message.credential)
    if credential.owner != message.owner:
        raise Refusal(NOT_YOURS, "credential", "is of another account", "release a credential of your own")
    if ctx.clock >= credential.ends_at:
        reason = f"ended at {credential.ends_at} (now {ctx.clock})"
        raise Refusal(WRONG_STATE, "credential", reason, "no further action is needed")
    return credential


def apply_release(ctx: Context, _: MsgReleaseCredential, credential: Credential) -> None:
    """End the credential."""
    end(ctx, credential)


HANDLERS = (
    Handler(message=MsgAddAttestPolicy, check_state=check_add, apply=apply_add, check_fields=check_add_fields),
    Handler(MsgWithdrawAttestPolicy, check_withdraw, apply_withdraw),
    Handler(
        message=MsgAttest,
        check_state=check_attest,
        apply=apply_attest,
        check_fields=check_attest_fields,
        weight=weigh_attest,
    ),
    Handler(MsgCommitVerdict, check_commit, apply_commit, duty=find_commit_duty),
    Handler(MsgRevealVerdict, check_reveal, apply_reveal, duty=find_reveal_duty),
    Handler(MsgReleaseCredential, check_release, apply_release),
)
