"""A seat in a panel about somebody else's round: what each place needs, when to give up, what to commit to and show.

A seat works from its duty and what the chain has of that one round. Each place goes its own way: its opening is asked
for, compared with the chain, fetched and replayed. What the winner did not serve in time, or what does not hash to what
is on chain, is answered ``unavailable``. What was served and is not finished in time is left out, because it says
nothing about the winner. The winner may be hostile: nothing it sends is larger than the order allows, and nothing it
does keeps a seat beyond its time, because silence is cut.

The winner has to serve at the rate that it owes, so early that what is left suffices for whoever keeps its promise. One
that sends the last byte in the last moment, so that strangers look silent, is ``unavailable`` like one that sends none.
Where this daemon was away meanwhile, the winner has that much longer, and less can have come.

The answers are written down before the commitment to them goes out, and their salt follows from this validator's secret
and the seat: so a restart shows what was committed to.
"""

from dataclasses import replace
from hashlib import sha256
from hmac import digest as hmac

from domain.amount import ceil_div
from domain.hashing import hash_fields, u32
from domain.market.records import JobTerms
from domain.proof.messages import MsgCommitAnswer, MsgRevealAnswer
from domain.proof.queries import NumberedPlace, PanelDuty, PanelResponse
from domain.proof.records import (
    AnswerKind,
    AuditKind,
    Place,
    Ruling,
    SeatAnswer,
    Share,
    ShareRoots,
    ShownLeaf,
)
from link.types import AuditOpening
from pol.rules.commitment import check_leaf, update_claim
from pol.rules.panels import STAGE_TIMES
from pol.rules.tiers.answers import finding_of
from pol.rules.tiers.table import tier_named
from validator.decide.actions import (
    Action,
    AskOpening,
    EndSeat,
    LoadAudited,
    ReplayPlace,
    SendAnswer,
)
from validator.decide.records import (
    JOB_FILE,
    LocalSeat,
    Recomputed,
    SealedAnswers,
    SeatKey,
    SeatPlace,
    Sizes,
    nests,
)
from validator.decide.view import Look

SEND_SECONDS = 6
"""Chain seconds for a transaction that has to be in time, behind a look that comes late, the transaction that is under
way and a block that nobody made; a third of the commitment part where that is less."""


def new_seat(duty: PanelDuty, clock: int) -> LocalSeat:
    """Return the record of a seat that this validator was just drawn for."""
    return LocalSeat(duty=duty, begun=clock, looked=clock, places=tuple(SeatPlace() for _ in duty.places))


def commit_by(duty: PanelDuty, subject: PanelResponse) -> int:
    """Return the chain clock at which the commitment goes out, whatever is missing: in the last fifth, or before."""
    given = subject.commit_seconds
    return duty.commits_end - max(min(SEND_SECONDS, given // 3), ceil_div(given, 5))


def serve_by(duty: PanelDuty, subject: PanelResponse) -> int:
    """Return the chain clock at which everything has to be here: a seat replays in a sixth of its time."""
    return commit_by(duty, subject) - ceil_div(subject.commit_seconds, STAGE_TIMES)


def decide_seat(key: SeatKey, seat: LocalSeat | None, look: Look) -> tuple[LocalSeat | None, tuple[Action, ...]]:
    """Return the record as it is now, and every action whose outcome is missing."""
    duty, subject = look.chain.duties.get(key), look.chain.subjects.get(key)
    if duty is None:
        return seat, (EndSeat(f"{key}/end", key),)
    if subject is None:
        return seat, ()
    seat = seat or new_seat(duty, look.chain.clock)
    if seat.sealed is None:
        # A record that was lost is made again, up to the same answers.
        ends = duty.reveals_end - 1 if duty.commitment else commit_by(duty, subject)
        seat = _note_look(seat, look)
        # Before anything is made of what the winner sent: whatever that leads to, an answer goes out.
        if look.chain.clock < ends:
            seat = _judge(_note_served(seat, look.chain.clock), subject)
            if any(place.is_open for place in seat.places):
                return seat, tuple(_steps(key, seat, duty, subject, ends))
        seat = replace(seat, sealed=_seal(key, seat, duty, subject, look))
    return seat, _say(key, seat, duty, look)


def _say(key: SeatKey, seat: LocalSeat, duty: PanelDuty, look: Look) -> tuple[Action, ...]:
    """Commit to the answers, and show them when nobody can commit any more."""
    sealed, clock = seat.sealed, look.chain.clock
    if sealed is None or not sealed.answers:
        return ()
    message: MsgCommitAnswer | MsgRevealAnswer
    if not duty.commitment:
        if clock >= duty.commits_end:
            return ()
        message = MsgCommitAnswer(
            auditor=look.me,
            order_id=key.order_id,
            leg=key.leg,
            round=key.round,
            stage=key.stage,
            commitment=sealed.commitment,
        )
        return (SendAnswer(key=f"{key}/commit", message=message, agreed=sealed.agreed, by=duty.commits_end),)
    if duty.commitment != sealed.commitment or not duty.commits_end <= clock < duty.reveals_end:
        return ()
    message = MsgRevealAnswer(
        auditor=look.me,
        order_id=key.order_id,
        leg=key.leg,
        round=key.round,
        stage=key.stage,
        salt=sealed.salt,
        answers=sealed.answers,
        leaves=sealed.leaves,
    )
    return (SendAnswer(key=f"{key}/reveal", message=message, agreed=sealed.agreed, by=duty.reveals_end),)


def _steps(key: SeatKey, seat: LocalSeat, duty: PanelDuty, subject: PanelResponse, until: int) -> list[Action]:
    """Return what is to be done for the places that are open."""
    winner, terms = subject.validator, subject.terms
    steps: list[Action] = []
    if seat.files and seat.sizes is None:
        steps.append(
            LoadAudited(
                key=f"{key}/load",
                seat=key,
                winner=winner,
                files=seat.files,
                terms=terms,
                until=until,
            )
        )
    for index, (place, asked) in enumerate(zip(seat.places, duty.places, strict=True)):
        name = f"{key}/{asked.number}"
        if place.opening is None and place.is_open:
            steps.append(AskOpening(key=f"{name}/ask", seat=key, index=index, number=asked.number, winner=winner))
        elif place.accepted and place.is_open and seat.sizes is not None:
            shares = _shares(subject, asked.place)
            replay = ReplayPlace(
                key=f"{name}/replay",
                seat=key,
                index=index,
                place=asked.place,
                seed=duty.seed,
                winner=winner,
                shares=shares,
                global_in=subject.round.global_in,
                until=until,
                tier=subject.tier,
            )
            steps.append(replay)
    return steps


# What arrives


def opening_arrived(seat: LocalSeat, index: int, opening: AuditOpening) -> LocalSeat:
    """Record what the winner says first about a place; it is compared with the chain when it is decided on."""
    if seat.places[index].opening is not None:
        return seat
    return _with(seat, index, opening=opening)


def payload_awaited(seat: LocalSeat, blob: bytes) -> LocalSeat:
    """Record which file of the job is waited for."""
    return replace(seat, lacking=blob)


def job_loaded(seat: LocalSeat, ordered: JobTerms, terms: JobTerms | None, sizes: Sizes | None, text: str) -> LocalSeat:
    """Record what loading the job found: its sizes, or why no place can be replayed."""
    if terms == ordered:
        return replace(seat, sizes=sizes, lacking=b"")
    why = text or "a job with other terms"
    return replace(
        seat,
        places=tuple(replace(place, unavailable=why) if place.is_open else place for place in seat.places),
    )


def blob_awaited(seat: LocalSeat, index: int, blob: bytes) -> LocalSeat:
    """Record which blob of a place is waited for; none once all are here."""
    if not seat.places[index].is_open:
        return seat
    return _with(seat, index, lacking=blob, served=not blob)


def _note_look(seat: LocalSeat, look: Look) -> LocalSeat:
    """Write down that this daemon is there; at the first look of a life, for how long it was not."""
    away = seat.away + max(0, look.since - seat.looked)
    return replace(seat, looked=look.chain.clock, away=away)


def _note_served(seat: LocalSeat, clock: int) -> LocalSeat:
    """Write down when the places were served that are."""
    for index, place in enumerate(seat.places):
        if place.served and not place.served_at:
            seat = _with(seat, index, served_at=clock)
    return seat


def place_recomputed(seat: LocalSeat, index: int, found: Recomputed) -> LocalSeat:
    """Record what the replay of a place found whose opening was accepted."""
    if not (seat.places[index].accepted and seat.places[index].is_open):
        return seat
    if found.fault:
        return _with(seat, index, unavailable=found.fault)
    return _with(seat, index, found=found)


def _with(seat: LocalSeat, index: int, **changes: object) -> LocalSeat:
    changed: SeatPlace = replace(seat.places[index], **changes)  # type: ignore[arg-type]
    return replace(seat, places=tuple(changed if i == index else p for i, p in enumerate(seat.places)))


# What the winner sent against what is on chain


def _judge(seat: LocalSeat, subject: PanelResponse) -> LocalSeat:
    """Accept the openings that are what the chain has, and give up the places of others."""
    for index, (place, asked) in enumerate(zip(seat.places, seat.duty.places, strict=True)):
        if place.opening is None or not place.is_open:
            continue
        files, why = seat.files, ""
        if not place.accepted:
            why = _fault(seat, asked, place.opening, subject)
            files = place.opening.payload
        if not why and seat.sizes is not None and not _fits(place.opening, seat.sizes):
            why = "a state or update of another size"
        if why:
            seat = _with(seat, index, unavailable=why)
        elif not place.accepted:
            seat = _with(seat, index, opening=replace(place.opening, payload=()), accepted=True)
            seat = replace(seat, files=files)
    return seat


def _fault(seat: LocalSeat, asked: NumberedPlace, opening: AuditOpening, subject: PanelResponse) -> str:
    """Return what is wrong with an opening, or nothing."""
    terms, place = subject.terms, asked.place
    files = {file.path: file.blob for file in opening.payload}
    size = sum(blob.size for blob in files.values())
    if JOB_FILE not in files or files[JOB_FILE].sha256 != terms.job_id:
        return "another job"
    if len(files) != len(opening.payload) or size != terms.delivered_bytes or nests(list(files)):
        return "a payload of another size"
    if seat.files and opening.payload != seat.files:
        return "another payload than for other places"
    shares = _shares(subject, place)
    if place.kind == AuditKind.AGGREGATION:
        sent = {update.slot for update in opening.updates}
        whole = len(opening.updates) == len(sent) and sent == {share.claim.slot for share in shares}
        return "" if whole and len(opening.states) == 1 else "not the round's updates"
    roots = _roots(*shares)
    ends = (place.segment, place.segment + 1)
    if place.kind == AuditKind.UPDATE:
        ends = (0, roots.segments)
    leaves = opening.leaves
    # Boundary 0 has none: it is what the chain says that the share starts from. Behind its last one there is nothing.
    inside = tuple(end for end in ends if 0 < end <= roots.segments)
    if tuple(leaf.index for leaf in leaves) != inside:
        return "leaves of other boundaries"
    if not all(check_leaf(roots.trace_root, roots.segments, leaf) for leaf in leaves):
        return "leaves that are not in the share's trace"
    states = 2 if place.kind == AuditKind.UPDATE else 1
    return "" if len(opening.states) == states else "no states"


def _fits(opening: AuditOpening, sizes: Sizes) -> bool:
    states = all(
        state.global_state.size == sizes.global_state and state.local_state.size == sizes.local_state
        for state in opening.states
    )
    return states and all(item.update.blob.size == sizes.update for item in opening.updates)


def _shares(subject: PanelResponse, place: Place) -> tuple[Share, ...]:
    """Return the place's share, or all shares that were aggregated, in slot order."""
    if place.kind == AuditKind.AGGREGATION:
        return subject.shares
    return tuple(
        share for share in subject.shares if (share.claim.slot, share.claim.issue) == (place.slot, place.issue)
    )


def _roots(share: Share) -> ShareRoots:
    if share.roots is None:
        raise AssertionError("only accepted shares are recomputed")
    return share.roots


# The answers


def _seal(key: SeatKey, seat: LocalSeat, duty: PanelDuty, subject: PanelResponse, look: Look) -> SealedAnswers:
    """Return what the seat says of each place, as far as it has something to say, with the commitment to it."""
    found: list[SeatAnswer] = []
    leaves: list[ShownLeaf] = []
    agreed = True
    own = look.chain.validators.get(look.me)
    rate = min(subject.accept_rate, own.audit_rate if own else subject.accept_rate)
    serve_end = serve_by(duty, subject)
    could_come = rate * (serve_end - seat.begun - seat.away)
    for place, asked in zip(seat.places, duty.places, strict=True):
        serving = serve_end + seat.away, could_come
        answer = _answer(seat, place, asked.number, subject, serving)
        if answer is not None:
            found.append(answer)
        leaf = place.opening.leaves[-1:] if place.accepted and place.opening else ()
        # Nothing is behind where the job stops.
        if asked.place.kind is AuditKind.SEGMENT and not _stops(subject, asked):
            leaves += [ShownLeaf(asked.number, shown) for shown in leaf]
        agreed = agreed and answer is not None and agrees(asked, answer, place, subject)
    salt = make_salt(look.secret, look.chain_id, key)
    answers = tuple(found)
    commit = tier_named(subject.tier).commitment
    commitment = commit(look.chain_id, key.panel, key.stage, look.me, salt, answers)
    return SealedAnswers(salt=salt, answers=answers, leaves=tuple(leaves), commitment=commitment, agreed=agreed)


def make_salt(secret: bytes, chain_id: str, key: SeatKey) -> bytes:
    """Return the salt of a seat: nobody else can know it, and a daemon that lost its records makes it again."""
    name = hash_fields("assay/seat/salt", chain_id, key.order_id, u32(key.leg), u32(key.round), u32(key.stage))
    return hmac(secret, name, sha256)


def _answer(
    seat: LocalSeat,
    place: SeatPlace,
    number: int,
    subject: PanelResponse,
    serving: tuple[int, int],
) -> SeatAnswer | None:
    """Return what the seat says of a place; None where it was served in time, or could not be, and is not finished.

    ``serving`` are the end of the time for that, and the bytes that come in it at the rate that the winner owes and
    this validator has promised to take.
    """
    if place.found is not None:
        found = place.found
        return SeatAnswer(place=number, kind=found.kind, root=found.root, digest=found.digest, step=found.step)
    unavailable = SeatAnswer(place=number, kind=AnswerKind.UNAVAILABLE, root=place.lacking, digest=b"", step=0)
    if place.unavailable:
        return unavailable
    ends, could_come = serving
    needed = 1 if seat.sizes is not None else subject.terms.delivered_bytes
    needed += _bytes_of(place.opening) if place.opening else 0
    if could_come < needed or (place.served and place.served_at <= ends):
        return None
    if place.accepted and seat.sizes is None:
        # The job is fetched and not loaded yet, or a file of it never came.
        return replace(unavailable, root=seat.lacking) if seat.lacking else None
    return unavailable


def _bytes_of(opening: AuditOpening) -> int:
    states = sum(s.global_state.size + s.local_state.size for s in opening.states)
    return states + sum(item.update.blob.size for item in opening.updates)


def _stops(subject: PanelResponse, asked: NumberedPlace) -> bool:
    """Tell whether the chain has it that the job stops at a place."""
    return subject.panel.places[asked.number].stops


def agrees(asked: NumberedPlace, answer: SeatAnswer, known: SeatPlace, subject: PanelResponse) -> bool:
    """Tell whether an answer rules for what the chain has, by the leg's tier."""
    stops = _stops(subject, asked)
    claim = b"" if stops else _claim(asked.place, known, subject)
    return tier_named(subject.tier).rule(finding_of(answer), claim, stops) is Ruling.RIGHT


def _claim(place: Place, known: SeatPlace, subject: PanelResponse) -> bytes:
    """Return the root that the chain has for a place; of a segment it has none, but a leaf in the trace."""
    match place.kind:
        case AuditKind.SEGMENT:
            leaves = known.opening.leaves if known.opening is not None else ()
            return leaves[-1].boundary_root if leaves else b""
        case AuditKind.AGGREGATION:
            return subject.round.next_root
        case AuditKind.UPDATE:
            roots = _roots(*_shares(subject, place))
            return update_claim(roots.update_root, roots.local_out)
