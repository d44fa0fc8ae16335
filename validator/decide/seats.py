"""The decision about a seat in a panel about another validator's round: its places, its time, and its answers.

The input of a seat is its duty and the chain's records of that round. For each place, the daemon asks the winner (the
validator of that round) for the opening, compares the opening with the chain, fetches its blobs, and recomputes the
place. If the winner does not send the data of a place in time, or if the data do not hash to the roots on the chain,
the answer is ``unavailable``. An encrypted chunk of a hand-over round needs no job and no blob: its opening has the
chunk and the scalar with which the winner encrypted it.

Once half of the time to serve is over, the daemon also asks the mirrors of the round, and then seats of earlier stages
that have revealed answers. It takes their blobs by hash. A wrong opening from such a helper says nothing about the
winner: the daemon drops the opening and no longer asks that helper. In turn, the daemon keeps what it fetched until the
panel has decided its places, and serves it to seats of later stages (:func:`serves_later`).

If the data arrived in time, but the recomputation did not end in time, the place gets no answer, because a slow
recomputation says nothing about the winner. The winner may be hostile. So the daemon accepts nothing that is larger
than the order allows. Nothing that the winner does may delay a seat beyond its time, because a missing answer costs
stake.

The winner must send its data at the rate that it owes, and early enough that the seat can recompute in the rest of the
time. A winner could send the last byte at the last moment, so that seats would seem to be silent. In this case, the
answer is ``unavailable``, as if the winner had sent nothing. If this daemon was away for some time, the winner gets as
much more time, and the daemon expects fewer bytes from it.

In a tier that compares states, the commitment covers the root of the end state that this daemon computed itself. Once
the time to commit is over, it fetches the provider's end state and compares the two, and it asks seats of earlier
stages for theirs (:class:`CompareStates`). Only then are the answers final.

The answers are recorded before their commitment is sent, and their salt is derived from this validator's secret and the
seat. So a restarted daemon reveals the same answers that it committed to.
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
    AuditPlace,
    Ruling,
    SeatAnswer,
    Share,
    ShareRoots,
    ShownLeaf,
)
from link.handover import SealedState
from link.types import AuditOpening, OpenedState, PayloadFile, not_ready
from pol.rules.commitment import check_leaf, update_claim
from pol.rules.handover import HandoverId, chunk_layout
from pol.rules.panels import STAGE_TIMES
from pol.rules.states import is_fetched
from pol.rules.stops import stop_step
from pol.rules.tiers.answers import finding_of
from pol.rules.tiers.remarks import SEATS_MAX, Standing, has_compared, numbers_in_stage, review
from pol.rules.tiers.table import tier_named
from pol.rules.tiers.tier import Vote
from validator.decide.actions import (
    Action,
    AskOpening,
    CompareStates,
    EndSeat,
    FindResult,
    FindStates,
    LoadAudited,
    RebuildChunk,
    ReplayPlace,
    ReviewedSeat,
    SendAnswer,
)
from validator.decide.records import (
    JOB_FILE,
    Compared,
    LegKey,
    LocalSeat,
    Recomputed,
    SealedAnswers,
    SeatKey,
    SeatPlace,
    Sizes,
    nests,
)
from validator.decide.view import Look, OwnPanel

SEND_SECONDS = 6
"""Chain seconds that are reserved to get a transaction into a block. They allow for a late look, a transaction under
way, and a missing block. If a third of the time for commitments is shorter, that third is used instead.
"""


def new_seat(duty: PanelDuty, clock: int) -> LocalSeat:
    """Return the record of a new seat."""
    return LocalSeat(duty=duty, begun=clock, looked=clock, places=tuple(SeatPlace() for _ in duty.places))


def commit_by(duty: PanelDuty, subject: PanelResponse) -> int:
    """Return the chain second at which the commitment is sent, even if answers are missing.

    At that second, a fifth of the time for commitments is left, or somewhat more if the time for commitments is short.
    """
    seconds = subject.commit_seconds
    return duty.commits_end - max(min(SEND_SECONDS, seconds // 3), ceil_div(seconds, 5))


def serve_by(duty: PanelDuty, subject: PanelResponse) -> int:
    """Return the chain second by which the winner must have sent all data.

    The time from then until the commitment is for the recomputation.
    """
    return commit_by(duty, subject) - ceil_div(subject.commit_seconds, STAGE_TIMES)


def decide_seat(key: SeatKey, seat: LocalSeat | None, look: Look) -> tuple[LocalSeat | None, tuple[Action, ...]]:
    """Return the updated record of a seat, and every action whose outcome is missing."""
    duty = look.chain.duties.get(key)
    subject = look.chain.subjects.get(key)
    if duty is None:
        if seat is not None and may_serve(seat, look.chain.earlier.get(key.panel)):
            return seat, ()
        return seat, (EndSeat(f"{key}/end", key),)
    if subject is None:
        return seat, ()
    seat = seat or new_seat(duty, look.chain.clock)
    if seat.sealed is None:
        # If the record was lost after the commitment, the seat works again until it has the same answers.
        ends = duty.reveals_end - 1 if duty.commitment else commit_by(duty, subject)
        # Data that arrive just before the commitment came too late to be recomputed, and are not noted as in time.
        seat = _note_served(_note_look(seat, look), look.chain.clock)
        # The time is checked before the winner's data are handled, so that they cannot keep an answer from being sent.
        if look.chain.clock < ends:
            seat = _judge(seat, subject)
            if any(place.is_open for place in seat.places):
                return seat, tuple(_steps(key, seat, duty, subject, ends, look))
        seat = replace(seat, sealed=_seal(key, seat, duty, subject, look))
    if seat.sealed is not None and not seat.sealed.is_final and _is_time_to_compare(seat.sealed, duty, look):
        waiting = _compare(key, seat, duty, subject, look)
        if waiting and look.chain.clock < reveal_by(duty):
            return seat, waiting
        seat = replace(seat, sealed=_finish(seat.sealed, seat, duty, subject))
    return seat, _send(key, seat, duty, look)


def reveal_by(duty: PanelDuty) -> int:
    """Return the chain second at which the answers are sent, even if some states have not been compared."""
    return duty.reveals_end - min(SEND_SECONDS, max(1, (duty.reveals_end - duty.commits_end) // 3))


def _is_time_to_compare(sealed: SealedAnswers, duty: PanelDuty, look: Look) -> bool:
    """Return whether the commitment of a seat is on chain, and no other seat of the stage can commit any longer."""
    if duty.commitment != sealed.commitment:
        return False
    return look.chain.clock >= duty.commits_end


def _compare(
    key: SeatKey, seat: LocalSeat, duty: PanelDuty, subject: PanelResponse, look: Look
) -> tuple[CompareStates, ...]:
    """Return the actions that compare the states of the segments that were not compared yet."""
    about = look.chain.earlier.get(key.panel)
    half = duty.commits_end + max(0, reveal_by(duty) - duty.commits_end) // 2
    return tuple(
        CompareStates(
            key=f"{key}/{asked.number}/compare",
            seat=key,
            index=index,
            number=asked.number,
            place=asked.place,
            winner=subject.validator,
            shares=shares_of(subject.shares, asked.place),
            global_in=subject.round.global_in,
            claim=b"" if _stops(subject, asked) else _claim(asked.place, place, subject),
            reviewed=find_reviewed(key.stage, asked.number, about, is_last=subject.panel.is_last),
            ask_until=half,
            until=reveal_by(duty),
            tier=subject.tier,
            stages=len(duty.seeds) - 1,
            shown=subject.panel.standing is not None,
        )
        for index, (place, asked) in enumerate(zip(seat.places, duty.places, strict=True))
        if place.kept is not None and place.compared is None
    )


def find_reviewed(stage: int, number: int, about: OwnPanel | None, *, is_last: bool) -> tuple[ReviewedSeat, ...]:
    """Return the seats of earlier stages that compared states for a place, and have to serve their own.

    In the last stage, in which every validator has a seat, these are only the seats about which there are remarks.
    """
    seats = [seat for seat in (about.seats if about is not None else ()) if number in seat.places]
    votes = [Vote(seat.stage, seat.stake, seat.answer(number)) for seat in seats]
    rows = zip(seats, votes, numbers_in_stage(votes), review(votes), strict=True)
    return tuple(
        ReviewedSeat(validator=seat.validator, stage=seat.stage, number=at, root=vote.answer.digest)
        for seat, vote, at, found in rows
        if seat.stage < stage and vote.answer is not None and has_compared(vote.answer) and at < SEATS_MAX
        if not is_last or found.standing is Standing.UNCLEAR
    )


def _finish(sealed: SealedAnswers, seat: LocalSeat, duty: PanelDuty, subject: PanelResponse) -> SealedAnswers:
    """Return the final answers of a seat, with the results of comparing states."""
    index_of = {asked.number: index for index, asked in enumerate(duty.places)}
    answers, agreed = [], sealed.agreed
    for answer in sealed.answers:
        index = index_of[answer.place]
        place, asked = seat.places[index], duty.places[index]
        if place.kept is not None:
            answer = _compared_answer(answer, place, asked, subject)  # noqa: PLW2901 -- the final form of the answer
            agreed = agreed and agrees(asked, answer, place, subject)
        answers.append(answer)
    return replace(sealed, answers=tuple(answers), agreed=agreed, is_final=True)


def _compared_answer(answer: SeatAnswer, place: SeatPlace, asked: NumberedPlace, subject: PanelResponse) -> SeatAnswer:
    """Return the final answer for a segment: whether the provider's end state is within the thresholds."""
    found = place.compared
    if found is None or found.kind is AnswerKind.UNAVAILABLE:
        return replace(answer, kind=AnswerKind.UNAVAILABLE, step=0, earlier=())
    claim, stop = _chain_of(asked, place, subject)
    if found.kind is AnswerKind.OUTSIDE:
        return replace(answer, kind=AnswerKind.OUTSIDE, step=0, earlier=found.remarks)
    return replace(answer, kind=AnswerKind.WITHIN, root=claim, step=stop or 0, earlier=found.remarks)


def _send(key: SeatKey, seat: LocalSeat, duty: PanelDuty, look: Look) -> tuple[Action, ...]:
    """Return the action that commits to the answers, or that reveals them once no seat can commit any longer."""
    sealed = seat.sealed
    clock = look.chain.clock
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
            dispute=key.dispute,
        )
        return (SendAnswer(key=f"{key}/commit", message=message, agreed=sealed.agreed, by=duty.commits_end),)
    if duty.commitment != sealed.commitment or not duty.commits_end <= clock < duty.reveals_end:
        return ()
    if not sealed.is_final:
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
        dispute=key.dispute,
    )
    return (SendAnswer(key=f"{key}/reveal", message=message, agreed=sealed.agreed, by=duty.reveals_end),)


def _steps(
    key: SeatKey, seat: LocalSeat, duty: PanelDuty, subject: PanelResponse, until: int, look: Look
) -> list[Action]:
    """Return the actions for the places that have no answer yet."""
    winner = subject.validator
    terms = subject.terms
    steps: list[Action] = []
    asks_seats = look.chain.clock >= seat.begun + (serve_by(duty, subject) - seat.begun) // 2
    helpers = tuple(name for name in _helpers(key, subject, look) if name not in seat.unhelpful) if asks_seats else ()
    if seat.files and seat.sizes is None:
        steps.append(
            LoadAudited(
                key=f"{key}/load",
                seat=key,
                winner=winner,
                files=seat.files,
                terms=terms,
                until=until,
                helpers=helpers,
            )
        )
    for index, (place, asked) in enumerate(zip(seat.places, duty.places, strict=True)):
        name = f"{key}/{asked.number}"
        if is_fetched(asked.place):
            if place.is_open:
                find = _find_states if asked.place.kind is AuditKind.STATES else _find_result
                steps.append(find(key, index, duty, subject, until, look))
        elif place.opening is None and place.is_open:
            # A provider that stands for its share sends the openings itself.
            if subject.panel.standing is not None:
                continue
            ask = AskOpening(
                key=f"{name}/ask",
                seat=key,
                index=index,
                number=asked.number,
                winner=winner,
                helpers=helpers,
            )
            steps.append(ask)
        elif place.accepted and place.is_open and asked.place.kind is AuditKind.HANDOVER:
            rebuild = RebuildChunk(
                key=f"{name}/rebuild",
                seat=key,
                index=index,
                chunk=asked.place.chunk,
                asked=_sealed_state(asked.place.chunk, subject, look.chain_id),
                seeds=duty.seeds,
                tier=subject.tier,
            )
            steps.append(rebuild)
        elif place.accepted and place.is_open and seat.sizes is not None:
            shares = shares_of(subject.shares, asked.place)
            replay = ReplayPlace(
                key=f"{name}/replay",
                seat=key,
                index=index,
                place=asked.place,
                seeds=duty.seeds,
                winner=winner,
                shares=shares,
                global_in=subject.round.global_in,
                until=until,
                tier=subject.tier,
                helpers=helpers,
            )
            steps.append(replay)
    return steps


def _find_states(
    key: SeatKey, index: int, duty: PanelDuty, subject: PanelResponse, until: int, look: Look
) -> FindStates:
    """Return the action that fetches the states that a round left, from all validators that may have them."""
    leg = LegKey(key.order_id, key.leg)
    names = (subject.validator, *subject.round.mirrors, *look.chain.finders.get(leg, ()))
    terms = subject.terms
    locals_ = (share.roots.local_out for share in subject.shares if share.roots is not None)
    return FindStates(
        key=f"{key}/{duty.places[index].number}/states",
        seat=key,
        index=index,
        sources=tuple(name for name in dict.fromkeys(names) if name != look.me),
        roots=tuple(dict.fromkeys((subject.round.next_root, *locals_))),
        sizes=(terms.global_bytes, terms.local_bytes),
        seeds=duty.seeds,
        until=until,
        tier=subject.tier,
    )


def _find_result(
    key: SeatKey, index: int, duty: PanelDuty, subject: PanelResponse, until: int, look: Look
) -> FindResult:
    """Return the action that fetches the encrypted result of a round, from the winner and from other seats."""
    closed = subject.round
    names = (subject.validator, *look.chain.result_finders.get(closed.key, ()))
    locals_ = (share.roots.local_out for share in subject.shares if share.roots is not None)
    return FindResult(
        key=f"{key}/{duty.places[index].number}/result",
        seat=key,
        index=index,
        sources=tuple(name for name in dict.fromkeys(names) if name != look.me),
        handover=HandoverId(chain_id=look.chain_id, order_id=closed.order_id, leg=closed.leg, round=closed.round),
        layout=chunk_layout(subject.terms, len(closed.shares)),
        root=closed.ciphertext_root,
        roots=(closed.next_root, *locals_),
        seeds=duty.seeds,
        until=until,
        tier=subject.tier,
    )


def _sealed_state(chunk: int, subject: PanelResponse, chain_id: str) -> SealedState:
    """Return what the chain has about an encrypted chunk of a hand-over round."""
    closed = subject.round
    layout = chunk_layout(subject.terms, len(closed.shares))
    place = layout.locate(chunk)
    if place is None:
        raise AssertionError("a drawn chunk is not a chunk of the round")
    return SealedState(
        handover=HandoverId(chain_id=chain_id, order_id=closed.order_id, leg=closed.leg, round=closed.round),
        layout=layout,
        state_root=_roots(subject.shares[place.state - 1]).local_out if place.state else closed.next_root,
        root=closed.ciphertext_root,
        order_key=subject.order_key,
    )


# Seats of other stages


def _helpers(key: SeatKey, subject: PanelResponse, look: Look) -> tuple[str, ...]:
    """Return the round's mirrors, and the seats of earlier stages that revealed at least one answer with a digest."""
    mirrors = (name for name in subject.round.mirrors if name not in (look.me, subject.validator))
    about = look.chain.earlier.get(key.panel)
    earlier = (
        seat.validator
        for seat in (about.seats if about is not None else ())
        if seat.stage < key.stage and seat.revealed and any(answer.digest for answer in seat.answers)
    )
    return tuple(dict.fromkeys((*mirrors, *earlier)))


def may_serve(seat: LocalSeat, about: OwnPanel | None) -> bool:
    """Return whether seats of later stages may ask for what this seat fetched: it has a place without a ruling."""
    if about is None or about.panel.is_settled:
        return False
    undecided = set(about.panel.undecided)
    asked = zip(seat.places, seat.duty.places, strict=True)
    return any(place.accepted and numbered.number in undecided for place, numbered in asked)


def serves_later(seat: LocalSeat, about: OwnPanel, caller: str, number: int) -> AuditOpening | None:
    """Return the opening of a place for a seat of a later stage; None if the caller has none, or there is no opening.

    Only data that the seat itself got are served: the states before a segment, but never the state after it
    (:func:`serves_end`).
    """
    later = (other for other in about.seats if other.stage > seat.duty.stage and other.validator == caller)
    if not any(number in other.places for other in later):
        return None
    for place, asked in zip(seat.places, seat.duty.places, strict=True):
        if asked.number == number and place.accepted and place.opening is not None:
            return replace(place.opening, payload=seat.files)
    return None


def serves_end(seat: LocalSeat, about: OwnPanel, caller: str, number: int, clock: int) -> AuditOpening | None:
    """Return the end states that this seat computed itself, for a seat of a later stage that has committed."""
    if not may_see_end(about, caller, number, clock, after=seat.duty.stage):
        return None
    for place, asked in zip(seat.places, seat.duty.places, strict=True):
        if asked.number == number and place.kept is not None:
            return replace(not_ready(0), ready=True, states=(place.kept,))
    return None


def may_see_end(about: OwnPanel, caller: str, number: int, clock: int, after: int = 0) -> bool:
    """Return whether a validator may see the end states of a segment.

    It may if it has a seat of the open stage for the place, no seat of this stage can commit any longer, and the stage
    is later than ``after``.
    """
    panel = about.panel
    if not panel.is_open or clock < panel.commits_end or panel.stage <= after:
        return False
    seats = (seat for seat in about.seats if seat.stage == panel.stage and seat.validator == caller)
    return any(number in seat.places for seat in seats)


# Arrivals


def opening_arrived(seat: LocalSeat, index: int, opening: AuditOpening, helper: str = "") -> LocalSeat:
    """Record the first opening of a place; the next decision compares it with the chain.

    The opening comes from the winner or, if ``helper`` is given, from this seat of an earlier stage.
    """
    if seat.places[index].opening is not None:
        return seat
    return _with(seat, index, opening=opening, helper=helper)


def place_shown(seat: LocalSeat, number: int, opening: AuditOpening) -> LocalSeat:
    """Record the opening of the place with this number in the panel, from the provider that stands for the share."""
    index = next((at for at, asked in enumerate(seat.duty.places) if asked.number == number), None)
    return seat if index is None else opening_arrived(seat, index, opening)


def payload_awaited(seat: LocalSeat, blob: bytes) -> LocalSeat:
    """Record the digest of the job's file that has not arrived yet; it is empty if all files have arrived."""
    return replace(seat, lacking=blob)


def job_loaded(seat: LocalSeat, ordered: JobTerms, terms: JobTerms | None, sizes: Sizes | None, text: str) -> LocalSeat:
    """Record the result of loading the job: its sizes, or the reason why no place can be recomputed."""
    if terms == ordered:
        return replace(seat, sizes=sizes, lacking=b"")
    why = text or "the winner sent a job whose terms differ from the order's terms"
    return replace(
        seat,
        places=tuple(replace(place, unavailable=why) if place.is_open else place for place in seat.places),
    )


def blob_awaited(seat: LocalSeat, index: int, blob: bytes) -> LocalSeat:
    """Record the digest of a place's blob that has not arrived yet; it is empty if all blobs have arrived."""
    if not seat.places[index].is_open:
        return seat
    return _with(seat, index, lacking=blob, served=not blob)


def _note_look(seat: LocalSeat, look: Look) -> LocalSeat:
    """Record the time of this look; in the first look of a process, add the time since the last look to ``away``."""
    away = seat.away + max(0, look.since - seat.looked)
    return replace(seat, looked=look.chain.clock, away=away)


def _note_served(seat: LocalSeat, clock: int) -> LocalSeat:
    """Record the time for each place whose blobs have all arrived since the last look."""
    for index, place in enumerate(seat.places):
        if place.served and not place.served_at:
            seat = _with(seat, index, served_at=clock)
    return seat


def place_recomputed(seat: LocalSeat, index: int, found: Recomputed, kept: OpenedState | None = None) -> LocalSeat:
    """Record the result of recomputing a place with an accepted opening.

    In a tier that compares states, ``kept`` are the end states that were computed.
    """
    if is_fetched(seat.duty.places[index].place):
        return _with(seat, index, found=found) if seat.places[index].is_open else seat
    if not (seat.places[index].accepted and seat.places[index].is_open):
        return seat
    if found.fault:
        return _refuse(seat, index, found.fault)
    return _with(seat, index, found=found, kept=kept)


def states_compared(seat: LocalSeat, index: int, compared: Compared) -> LocalSeat:
    """Record the result of comparing the end states of a segment; a later result does not replace it."""
    place = seat.places[index]
    return seat if place.kept is None or place.compared is not None else _with(seat, index, compared=compared)


def _refuse(seat: LocalSeat, index: int, why: str) -> LocalSeat:
    """Record that an opening is wrong. If it came from the winner, the place is unavailable; if it came from a helper,
    it is dropped.
    """
    helper = seat.places[index].helper
    if not helper:
        return _with(seat, index, unavailable=why)
    seat = replace(seat, unhelpful=(*seat.unhelpful, helper))
    return _with(seat, index, opening=None, accepted=False, helper="", lacking=b"", served=False, served_at=0)


def _with(seat: LocalSeat, index: int, **changes: object) -> LocalSeat:
    changed: SeatPlace = replace(seat.places[index], **changes)  # type: ignore[arg-type]
    return replace(seat, places=tuple(changed if i == index else p for i, p in enumerate(seat.places)))


# The winner's data compared with the chain


def _judge(seat: LocalSeat, subject: PanelResponse) -> LocalSeat:
    """Accept the openings that agree with the chain; mark the places of all other openings as unavailable."""
    for index, (place, asked) in enumerate(zip(seat.places, seat.duty.places, strict=True)):
        if place.opening is None or not place.is_open:
            continue
        files = seat.files
        why = ""
        if not place.accepted:
            why = find_fault(
                asked.place, place.opening, subject.terms, subject.shares, seat.files, with_end=_is_shown_whole(subject)
            )
            files = seat.files if asked.place.kind is AuditKind.HANDOVER else place.opening.payload
        if not why and seat.sizes is not None and not fits_sizes(place.opening, seat.sizes):
            why = "a state or an update in the opening has a wrong size"
        if why:
            seat = _refuse(seat, index, why)
        elif not place.accepted:
            seat = _with(seat, index, opening=replace(place.opening, payload=()), accepted=True)
            seat = replace(seat, files=files)
    return seat


def _is_shown_whole(subject: PanelResponse) -> bool:
    """Return whether the opening of a segment has its end states, too: a provider that stands for its share in a tier
    that compares states sends all at once.
    """
    return subject.panel.standing is not None and tier_named(subject.tier).hardware


def find_fault(
    asked: AuditPlace,
    opening: AuditOpening,
    terms: JobTerms,
    shares: tuple[Share, ...],
    files: tuple[PayloadFile, ...],
    *,
    with_end: bool = False,
) -> str:
    """Return what is wrong with the opening of a place; an empty string if nothing is wrong.

    ``shares`` are the accepted shares of the round in slot order. ``files`` is the job's payload, if another place of
    the round was opened before. If ``with_end``, a segment is opened with its end states, unless the job stops in it.
    """
    if asked.kind is AuditKind.HANDOVER:
        return "" if opening.chunk is not None else "the opening has no encrypted chunk"
    payload = {file.path: file.blob for file in opening.payload}
    size = sum(blob.size for blob in payload.values())
    if JOB_FILE not in payload or payload[JOB_FILE].sha256 != terms.job_id:
        return "the job in the opening is not the order's job"
    if len(payload) != len(opening.payload) or size != terms.delivered_bytes or nests(list(payload)):
        return "the opening's payload does not have the order's size, or its paths collide"
    if files and opening.payload != files:
        return "the opening's payload differs from the payload of another place"
    own = shares_of(shares, asked)
    if asked.kind == AuditKind.AGGREGATION:
        sent = {update.slot for update in opening.updates}
        whole = len(opening.updates) == len(sent) and sent == {share.claim.slot for share in own}
        return "" if whole and len(opening.states) == 1 else "the opening does not have exactly the round's updates"
    roots = _roots(*own)
    ends = (asked.segment, asked.segment + 1)
    if asked.kind == AuditKind.UPDATE:
        ends = (0, roots.segments)
    leaves = opening.leaves
    # Boundary 0 has no leaf: its root is on the chain. No leaf comes after the share's last boundary.
    inside = tuple(end for end in ends if 0 < end <= roots.segments)
    if tuple(leaf.index for leaf in leaves) != inside:
        return "the opening's leaves are not those of the place"
    if not all(check_leaf(roots.trace_root, roots.segments, leaf) for leaf in leaves):
        return "a leaf of the opening is not in the share's trace"
    has_end = with_end and asked.kind is AuditKind.SEGMENT and asked.segment < roots.segments
    states = 2 if asked.kind == AuditKind.UPDATE or has_end else 1
    return "" if len(opening.states) == states else "the opening lacks states, or has too many"


def fits_sizes(opening: AuditOpening, sizes: Sizes) -> bool:
    """Return whether all states and updates of an opening have the sizes that the job gives them."""
    states = all(
        state.global_state.size == sizes.global_state and state.local_state.size == sizes.local_state
        for state in opening.states
    )
    return states and all(item.update.blob.size == sizes.update for item in opening.updates)


def shares_of(shares: tuple[Share, ...], place: AuditPlace) -> tuple[Share, ...]:
    """Return the share of a place; for an aggregation, return all shares of the round in slot order."""
    if place.kind == AuditKind.AGGREGATION:
        return shares
    return tuple(share for share in shares if (share.key.slot, share.key.issue) == (place.slot, place.issue))


def _roots(share: Share) -> ShareRoots:
    if share.roots is None:
        raise AssertionError("a place is recomputed whose share is not accepted")
    return share.roots


# The answers


def _seal(key: SeatKey, seat: LocalSeat, duty: PanelDuty, subject: PanelResponse, look: Look) -> SealedAnswers:
    """Return the final answers of a seat, for the places that have an answer, with the commitment to these answers."""
    answers: list[SeatAnswer] = []
    leaves: list[ShownLeaf] = []
    agreed, compares = True, False
    own = look.chain.validators.get(look.me)
    rate = min(subject.accept_rate, own.audit_rate if own else subject.accept_rate)
    serve_end = serve_by(duty, subject)
    could_come = rate * (serve_end - seat.begun - seat.away)
    for place, asked in zip(seat.places, duty.places, strict=True):
        serving = serve_end + seat.away, could_come
        answer = _answer(seat, place, asked, subject, serving)
        if answer is not None:
            answers.append(answer)
        leaf = place.opening.leaves[-1:] if place.accepted and place.opening else ()
        # If the job stops in the segment, the trace has no leaf after it.
        if asked.place.kind is AuditKind.SEGMENT and not _stops(subject, asked):
            leaves += [ShownLeaf(asked.number, shown) for shown in leaf]
        is_kept = answer is not None and place.kept is not None
        agreed = agreed and answer is not None and (is_kept or agrees(asked, answer, place, subject))
        compares = compares or is_kept
    salt = make_salt(look.secret, look.chain_id, key)
    commit = tier_named(subject.tier).commitment
    commitment = commit(look.chain_id, key.panel, key.stage, look.me, salt, tuple(answers))
    return SealedAnswers(
        salt=salt,
        answers=tuple(answers),
        leaves=tuple(leaves),
        commitment=commitment,
        agreed=agreed,
        is_final=not compares,
    )


def make_salt(secret: bytes, chain_id: str, key: SeatKey) -> bytes:
    """Return the salt of a seat. It is secret, but a daemon that has lost its records can derive the same salt
    again.
    """
    numbers = key.leg, key.round, key.dispute, key.stage
    name = hash_fields("assay/seat/salt", chain_id, key.order_id, *map(u32, numbers))
    return hmac(secret, name, sha256)


def _answer(
    seat: LocalSeat,
    place: SeatPlace,
    asked: NumberedPlace,
    subject: PanelResponse,
    serving: tuple[int, int],
) -> SeatAnswer | None:
    """Return the answer for a place; None if there is no answer.

    There is no answer if the data of the place arrived in time and the recomputation is not finished, or if the data
    could not have arrived in time. ``serving`` has the chain second by which all data must have arrived, and the number
    of bytes that could arrive until then. This number follows from the rate that the winner owes, or from the rate that
    this validator has promised to take if that rate is lower.
    """
    if place.found is not None:
        result = place.found
        return SeatAnswer(
            place=asked.number,
            kind=result.kind,
            root=result.root,
            digest=result.digest,
            step=result.step,
            earlier=result.earlier,
        )
    unavailable = SeatAnswer(place=asked.number, kind=AnswerKind.UNAVAILABLE, root=place.lacking, digest=b"", step=0)
    if place.unavailable:
        return unavailable
    ends, could_come = serving
    if is_fetched(asked.place):
        return None if place.served else unavailable
    if asked.place.kind is AuditKind.HANDOVER:
        # The opening is all that the seat needs.
        return None if place.accepted or could_come < 1 else unavailable
    needed = 1 if seat.sizes is not None else subject.terms.delivered_bytes
    needed += _bytes_of(place.opening) if place.opening else 0
    if could_come < needed or (place.served and place.served_at <= ends):
        return None
    if place.accepted and seat.sizes is None:
        # Either a file of the job never arrived, or the job is here and not loaded yet.
        return replace(unavailable, root=seat.lacking) if seat.lacking else None
    return unavailable


def _bytes_of(opening: AuditOpening) -> int:
    states = sum(s.global_state.size + s.local_state.size for s in opening.states)
    return states + sum(item.update.blob.size for item in opening.updates)


def _stops(subject: PanelResponse, asked: NumberedPlace) -> bool:
    """Return whether the job stops at a place, according to the chain."""
    return subject.panel.places[asked.number].stops


def agrees(asked: NumberedPlace, answer: SeatAnswer, known: SeatPlace, subject: PanelResponse) -> bool:
    """Return whether an answer agrees with the chain, by the rules of the leg's tier."""
    claim, stop = _chain_of(asked, known, subject)
    return tier_named(subject.tier).rule(finding_of(answer), claim, stop) is Ruling.RIGHT


def _chain_of(asked: NumberedPlace, known: SeatPlace, subject: PanelResponse) -> tuple[bytes, int | None]:
    """Return what the chain has for a place: the root, or the step at which the job stops there."""
    if not _stops(subject, asked):
        return _claim(asked.place, known, subject), None
    share = next(iter(shares_of(subject.shares, asked.place)), None)
    return b"", stop_step(subject.terms, subject.round.round, asked.place, share.roots if share else None)


def _claim(place: AuditPlace, known: SeatPlace, subject: PanelResponse) -> bytes:
    """Return the root that the round claims for a place: for a segment, the root of its last leaf in the trace."""
    match place.kind:
        case AuditKind.SEGMENT:
            leaves = known.opening.leaves if known.opening is not None else ()
            return leaves[-1].boundary_root if leaves else b""
        case AuditKind.AGGREGATION:
            return subject.round.next_root
        case AuditKind.STATES:
            return subject.round.next_root
        case AuditKind.UPDATE:
            roots = _roots(*shares_of(subject.shares, place))
            return update_claim(roots.update_root, roots.local_out, roots.metrics)
        case AuditKind.HANDOVER | AuditKind.RESULT:
            return subject.round.ciphertext_root
