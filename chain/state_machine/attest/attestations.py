"""Requests for credentials: the panel that judges the evidence, its answers, its verdict, and its money."""

from dataclasses import replace
from hashlib import sha256

from chain.state_machine.attest.credentials import find_obstacle, grant
from chain.state_machine.attest.policies import is_policy_live
from chain.state_machine.attest.tables import (
    ATTEST_DUE,
    ATTEST_DUTIES,
    ATTEST_SEATS,
    ATTESTATIONS,
    EVIDENCE,
    OPEN_ATTESTATIONS,
    AttestSubject,
)
from chain.state_machine.context import Context
from chain.state_machine.ledger.balances import apply_transfer
from chain.state_machine.proof.gas import SEAT_GAS, VALIDATOR_GAS
from chain.state_machine.proof.lots import open_lot
from chain.state_machine.queue import QueueEntry, cancel, schedule
from chain.state_machine.registry.members import count_silence, get_active, may_audit
from chain.state_machine.registry.tables import PROVIDERS, VALIDATORS
from chain.state_machine.staking.cuts import cut_stake, get_payable
from chain.state_machine.staking.tables import count_bonded
from chain.state_machine.store import Overlay
from domain.amount import BPS
from domain.attest.events import (
    AttestationAsked,
    AttestationEnded,
    AttestPanelDrawn,
    AttestSeatSettled,
    VerdictCommitted,
    VerdictRevealed,
)
from domain.attest.evidence import Evidence
from domain.attest.moves import ATTEST_CUT, ATTEST_FEE, ATTEST_PAY, ATTEST_RETURN
from domain.attest.params import AttestParams
from domain.attest.records import AttestAnswer, Attestation, AttestSeat, AttestState, AttestVerdict
from domain.moves import Transfer
from domain.proof.params import ProofParams
from domain.registry.records import Validator
from pol.rules.attest import SeatVerdict, decide, seat_loss
from pol.rules.lots import draw_weighted, seed

NOTHING = bytes(32)
"""The certificate hash of an account that serves nothing."""


def certificate_of(store: Overlay, owner: str) -> bytes:
    """Return the SHA-256 of the certificate that an account has on chain; zeros if it has none."""
    validator = VALIDATORS.get(store, owner)
    has_one = validator is not None and validator.certificate
    return sha256(validator.certificate).digest() if validator is not None and has_one else NOTHING


def list_strangers(store: Overlay, owner: str) -> list[Validator]:
    """Return the validators that may judge the evidence of an account: neither the account nor its own validator."""
    parties = get_parties(store, owner)
    return [each for each in get_active(store) if each.operator not in parties and may_audit(each)]


def get_parties(store: Overlay, owner: str) -> tuple[str, ...]:
    """Return the validators that must not judge the evidence of an account."""
    provider = PROVIDERS.get(store, owner)
    named = (owner, provider.validator if provider is not None else "")
    return tuple(name for name in named if name and VALIDATORS.has(store, name))


# --- the request ---------------------------------------------------------------------------------


def ask(ctx: Context, attestation: Attestation, evidence: Evidence) -> None:
    """Store a request, lock its fee, and open the lot that draws its panel."""
    owner = attestation.owner
    for old in ATTEST_SEATS.scan(ctx.store, owner):
        ATTEST_SEATS.delete(ctx.store, owner, old.seat)
    ATTESTATIONS.put(ctx.store, attestation)
    EVIDENCE.put_at(ctx.store, evidence, owner)
    OPEN_ATTESTATIONS.set(ctx.store, OPEN_ATTESTATIONS.get(ctx.store) + 1)
    apply_transfer(ctx, Transfer(move=ATTEST_FEE, source=owner, target=owner, amount=attestation.fee))
    ctx.emit(
        AttestationAsked(
            owner=owner,
            number=attestation.number,
            policy=attestation.policy,
            credential=attestation.credential,
            executor=attestation.executor,
            certificate=attestation.certificate,
            beacon=attestation.beacon,
            beacon_time=attestation.beacon_time,
            time=attestation.time,
            digest=attestation.digest,
            size=attestation.size,
            wanted=attestation.wanted,
            seat_fee=attestation.seat_fee,
            asked_at=attestation.asked_at,
        )
    )
    lot_wait = ctx.block.params.of(ProofParams).lot_wait
    open_lot(ctx, AttestSubject(owner, attestation.number), get_parties(ctx.store, owner), lot_wait)


def draw_panel(ctx: Context, subject: AttestSubject, beacon: bytes) -> None:
    """Draw the seats of a panel by stake. If too few validators are left, the request ends undecided."""
    attestation = ATTESTATIONS.must(ctx.store, subject.owner)
    params = ctx.block.params.of(AttestParams)
    pool = list_strangers(ctx.store, subject.owner)
    lot = seed("attest/seats", subject.id, beacon)
    drawn = [pool[at] for at in draw_weighted(lot, [each.stake for each in pool], attestation.wanted)]
    if len(drawn) < min(params.attest_seats_min, attestation.wanted):
        drawn = []
    commits_end = ctx.clock + (params.attest_answer_time if drawn else 0)
    attestation = ATTESTATIONS.update(
        ctx.store,
        subject.owner,
        state=AttestState.OPEN,
        seats=len(drawn),
        drawn_at=ctx.clock,
        commits_end=commits_end,
        reveals_end=commits_end + (params.attest_answer_time if drawn else 0),
    )
    for number, validator in enumerate(drawn):
        ATTEST_SEATS.put(
            ctx.store,
            AttestSeat(
                owner=subject.owner,
                number=subject.number,
                seat=number,
                validator=validator.operator,
                stake=validator.stake,
            ),
        )
        ATTEST_DUTIES.set(ctx.store, number + 1, validator.operator, subject.owner)
    ctx.emit(
        AttestPanelDrawn(
            owner=subject.owner,
            number=subject.number,
            validators=tuple(each.operator for each in drawn),
            stakes=tuple(each.stake for each in drawn),
            drawn_at=attestation.drawn_at,
            commits_end=attestation.commits_end,
            reveals_end=attestation.reveals_end,
        )
    )
    schedule(ctx, attestation.commits_end, ATTEST_DUE, subject.owner, subject.number)


def weigh_draw(ctx: Context, subject: AttestSubject) -> int:
    """Return the gas of drawing a panel; it depends on the validators that are read, and on the seats."""
    seats = ATTESTATIONS.must(ctx.store, subject.owner).wanted
    return 2 * VALIDATOR_GAS * count_bonded(ctx.store) + SEAT_GAS * seats


# --- answers -------------------------------------------------------------------------------------


def take_commitment(ctx: Context, attestation: Attestation, seat: AttestSeat, commitment: bytes) -> None:
    """Store a seat's commitment. When every seat has committed, the time to reveal begins at once."""
    ATTEST_SEATS.update(ctx.store, seat.owner, seat.seat, commitment=commitment)
    changed = replace(attestation, committed=attestation.committed + 1)
    if changed.committed == changed.seats:
        left = changed.commits_end - ctx.clock
        cancel(ctx, changed.commits_end, ATTEST_DUE, changed.owner, changed.number)
        changed = replace(changed, commits_end=ctx.clock, reveals_end=changed.reveals_end - left)
        schedule(ctx, changed.reveals_end, ATTEST_DUE, changed.owner, changed.number)
    ATTESTATIONS.put(ctx.store, changed)
    ctx.emit(
        VerdictCommitted(
            owner=seat.owner,
            number=seat.number,
            seat=seat.seat,
            commitment=commitment,
            commits_end=changed.commits_end,
            reveals_end=changed.reveals_end,
        )
    )


def take_answer(ctx: Context, attestation: Attestation, seat: AttestSeat, answer: AttestAnswer) -> None:
    """Store a seat's answer. When all committed seats have revealed, the panel ends in this block."""
    ATTEST_SEATS.update(ctx.store, seat.owner, seat.seat, answer=int(answer))
    ATTEST_DUTIES.delete(ctx.store, seat.validator, seat.owner)
    changed = replace(attestation, revealed=attestation.revealed + 1)
    if changed.revealed == changed.committed:
        cancel(ctx, changed.reveals_end, ATTEST_DUE, changed.owner, changed.number)
        changed = replace(changed, reveals_end=ctx.clock)
        schedule(ctx, ctx.clock, ATTEST_DUE, changed.owner, changed.number)
    ATTESTATIONS.put(ctx.store, changed)
    ctx.emit(
        VerdictRevealed(
            owner=seat.owner,
            number=seat.number,
            seat=seat.seat,
            answer=int(answer),
            reveals_end=changed.reveals_end,
        )
    )


# --- the end -------------------------------------------------------------------------------------


def on_due(ctx: Context, entry: QueueEntry) -> None:
    """Begin the time to reveal, or end a panel whose time is over or whose seats have all revealed."""
    attestation = ATTESTATIONS.must(ctx.store, entry.text(0))
    is_open = attestation.state is AttestState.OPEN and attestation.number == entry.number(1)
    if not is_open or ctx.clock < attestation.commits_end:
        return
    if attestation.revealed == attestation.committed or ctx.clock >= attestation.reveals_end:
        _end(ctx, attestation)
    else:
        schedule(ctx, attestation.reveals_end, ATTEST_DUE, attestation.owner, attestation.number)


def weigh_due(ctx: Context, entry: QueueEntry) -> int:
    """Return the gas of ending a panel; each seat is read, and paid or cut."""
    attestation = ATTESTATIONS.must(ctx.store, entry.text(0))
    return 2 * SEAT_GAS * (attestation.seats + 1)


def _end(ctx: Context, attestation: Attestation) -> None:
    """Decide, pay and cut the seats, return the rest of the fee, and grant the credential if nothing forbids it."""
    owner = attestation.owner
    seats = ATTEST_SEATS.scan(ctx.store, owner)
    decision = decide([AttestAnswer(seat.answer) if seat.answer else None for seat in seats])
    left = attestation.fee
    for seat, verdict in zip(seats, decision.seats, strict=True):
        paid = attestation.seat_fee if verdict is SeatVerdict.RIGHT else 0
        left -= paid
        apply_transfer(ctx, Transfer(move=ATTEST_PAY, source=owner, target=seat.validator, amount=paid))
        _settle_seat(ctx, attestation, seat, verdict, paid)
    apply_transfer(ctx, Transfer(move=ATTEST_RETURN, source=owner, target=owner, amount=left))
    EVIDENCE.delete(ctx.store, owner)
    OPEN_ATTESTATIONS.set(ctx.store, OPEN_ATTESTATIONS.get(ctx.store) - 1)
    granted = (
        decision.verdict is AttestVerdict.ACCEPTED
        and is_policy_live(ctx.store, attestation.policy)
        and find_obstacle(ctx, owner, attestation.credential) == ("", "")
    )
    reason = int(decision.reason) if decision.reason is not None else 0
    ended = ATTESTATIONS.update(
        ctx.store, owner, state=AttestState.ENDED, verdict=int(decision.verdict), reason=reason, granted=granted
    )
    ctx.emit(
        AttestationEnded(
            owner=owner,
            number=ended.number,
            verdict=ended.verdict,
            reason=reason,
            granted=granted,
            returned=left,
        )
    )
    if granted:
        grant(ctx, ended)


def _settle_seat(ctx: Context, attestation: Attestation, seat: AttestSeat, verdict: SeatVerdict, paid: int) -> None:
    """Cut the stake of a seat that was silent or refuted, and record what it got or lost."""
    ATTEST_DUTIES.delete(ctx.store, seat.validator, seat.owner)
    most = seat.stake * ctx.block.params.of(ProofParams).seat_cut_max_bps // BPS
    loss = min(seat_loss(verdict, attestation.seat_fee), most)
    cut = get_payable(ctx.store, seat.validator, loss, attestation.drawn_at)
    cut_stake(ctx, seat.validator, cut, attestation.drawn_at, ATTEST_CUT)
    ATTEST_SEATS.update(ctx.store, seat.owner, seat.seat, paid=paid, cut=cut)
    is_silent = verdict is SeatVerdict.SILENT
    ctx.emit(
        AttestSeatSettled(
            owner=seat.owner,
            number=seat.number,
            seat=seat.seat,
            validator=seat.validator,
            paid=paid,
            cut=cut,
            counts_silence=is_silent,
        )
    )
    if is_silent:
        count_silence(ctx, seat.validator)
