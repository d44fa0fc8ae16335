"""Auditing somebody else's round: what each place needs, whether it is what the chain has, when to give up, the answer.

Each place goes its own way: its opening is asked for, compared with the chain, and replayed. A place whose data cannot
be had in time, or do not hash to what is on chain, is answered ``unavailable``: that is what an auditor can say for
certain. The audited validator may be hostile: nothing it sends is larger than the order allows, and nothing it does
keeps an auditor beyond its time, because a silent seat is cut.
"""

from dataclasses import replace

from domain.messages import MsgAnswerAudit
from domain.queries import AuditDuty, OrderResponse
from domain.reasons import ShareReason
from domain.records import (
    AuditAnswer,
    AuditKind,
    JobTerms,
    Place,
    Round,
    Share,
    ShareRoots,
)
from link.types import AuditOpening
from pol.rules.commitment import audit_digest, check_leaf, update_claim
from pol.rules.schedule import share_segments
from validator.decide.actions import (
    Action,
    AnswerAudit,
    AskOpening,
    EndAudit,
    LoadAudited,
    ReplayPlace,
)
from validator.decide.records import JOB_FILE, AuditedPlace, LocalAudit, ReplayOutcome, Sizes, nests
from validator.decide.view import Look

UNAVAILABLE = AuditAnswer(b"", b"", None)
ANSWER_SECONDS = 2
"""Chain seconds before the end of a draw that are for the transaction, at least; a fifth of the time given, if more."""


def new_audit(duty: AuditDuty, clock: int) -> LocalAudit:
    """Return the record of an audit that this validator was just drawn for."""
    return LocalAudit(duty, clock, (), None, tuple(AuditedPlace() for _ in duty.places))


def audit_name(duty: AuditDuty) -> str:
    """Return the name of an audit, under which it holds its blobs; a round may be drawn for twice."""
    return f"audit/{duty.order_id.hex()}/{duty.attempt}/{duty.round}/{duty.draw_ends}"


def answer_by(audit: LocalAudit) -> int:
    """Return the chain clock at which the answer goes out, whatever is missing: in time before the draw ends."""
    given = audit.duty.draw_ends - audit.begun
    return audit.duty.draw_ends - max(ANSWER_SECONDS, given // 5)


def decide_audit(audit: LocalAudit, look: Look) -> tuple[LocalAudit, tuple[Action, ...]]:
    """Return the record as it is now, and every action whose outcome is missing."""
    duty, clock = audit.duty, look.chain.clock
    name = audit_name(duty)
    if duty not in look.chain.audits:
        return audit, (EndAudit(f"{name}/end", duty),)
    on_chain = look.chain.audited.get(duty)
    if on_chain is None or clock >= duty.draw_ends:
        return audit, ()
    # Before anything is made of what the winner sent: whatever that leads to, the answer goes out.
    if clock < answer_by(audit):
        audit = _judge(audit, on_chain)
        if any(place.is_open for place in audit.places):
            return audit, tuple(_steps(audit, on_chain, name))
    answers = tuple(_answer(audit, index, look.me) for index in range(len(audit.places)))
    agreed = all(
        agrees(duty, place, answer, on_chain)
        for place, answer in zip(duty.places, answers, strict=True)
    )
    message = MsgAnswerAudit(look.me, duty.order_id, duty.attempt, duty.round, answers)
    return audit, (AnswerAudit(f"{name}/answer", message, agreed),)


def _steps(audit: LocalAudit, on_chain: OrderResponse, name: str) -> list[Action]:
    """Return what is to be done for the places that are open."""
    duty, terms = audit.duty, on_chain.order.terms
    assignment = on_chain.assignment(duty.attempt)
    closed = on_chain.round(duty.attempt, duty.round)
    if assignment is None or closed is None:
        return []
    winner = assignment.validator
    steps: list[Action] = []
    if audit.files and audit.sizes is None:
        steps.append(LoadAudited(f"{name}/load", duty, winner, audit.files, terms))
    for index, place in enumerate(audit.places):
        if place.opening is None and place.is_open:
            steps.append(AskOpening(f"{name}/{index}/ask", duty, index, winner))
        elif place.accepted and place.is_open and audit.sizes is not None:
            shares = _shares(duty, duty.places[index], on_chain)
            steps.append(
                ReplayPlace(f"{name}/{index}/replay", duty, index, winner, shares, closed.global_in)
            )
    return steps


# What arrives


def opening_arrived(audit: LocalAudit, index: int, opening: AuditOpening) -> LocalAudit:
    """Record what the winner says first about a place; it is compared with the chain when it is decided on."""
    if audit.places[index].opening is not None:
        return audit
    return _with(audit, index, opening=opening)


def audited_loaded(
    audit: LocalAudit, ordered: JobTerms, terms: JobTerms | None, sizes: Sizes | None, text: str
) -> LocalAudit:
    """Record what loading the job found: its sizes, or why no place of this audit can be replayed."""
    if terms == ordered:
        return replace(audit, sizes=sizes)
    why = text or "a job with other terms"
    return replace(
        audit,
        places=tuple(
            replace(place, unavailable=why) if place.is_open else place for place in audit.places
        ),
    )


def place_replayed(audit: LocalAudit, index: int, outcome: ReplayOutcome) -> LocalAudit:
    """Record what the replay of a place found whose opening was accepted."""
    if not (audit.places[index].accepted and audit.places[index].is_open):
        return audit
    if not outcome.root:
        return _with(audit, index, unavailable=ShareReason(outcome.reason).name.lower())
    return _with(audit, index, outcome=outcome)


def _with(
    audit: LocalAudit,
    index: int,
    *,
    opening: AuditOpening | None = None,
    outcome: ReplayOutcome | None = None,
    unavailable: str = "",
) -> LocalAudit:
    known = audit.places[index]
    changed = AuditedPlace(
        opening or known.opening,
        known.accepted,
        outcome or known.outcome,
        unavailable or known.unavailable,
    )
    return replace(
        audit, places=tuple(changed if i == index else p for i, p in enumerate(audit.places))
    )


# What the winner sent against what is on chain


def _judge(audit: LocalAudit, on_chain: OrderResponse) -> LocalAudit:
    """Accept the openings that are what the chain has, and give up the places of others."""
    for index, place in enumerate(audit.places):
        if place.opening is None or not place.is_open:
            continue
        files, why = audit.files, ""
        if not place.accepted:
            why = _fault(audit, index, place.opening, on_chain)
            files = place.opening.payload
        if not why and audit.sizes is not None and not _fits(place.opening, audit.sizes):
            why = "a state or update of another size"
        if why:
            audit = _with(audit, index, unavailable=why)
        elif not place.accepted:
            accepted = AuditedPlace(replace(place.opening, payload=()), accepted=True)
            places = tuple(accepted if i == index else p for i, p in enumerate(audit.places))
            audit = replace(audit, files=files, places=places)
    return audit


def _fault(audit: LocalAudit, index: int, opening: AuditOpening, on_chain: OrderResponse) -> str:
    """Return what is wrong with an opening, or nothing."""
    place, terms = audit.duty.places[index], on_chain.order.terms
    files = {file.path: file.blob for file in opening.payload}
    size = sum(blob.size for blob in files.values())
    if JOB_FILE not in files or files[JOB_FILE].sha256 != terms.job_id:
        return "another job"
    if len(files) != len(opening.payload) or size != terms.delivered_bytes or nests(list(files)):
        return "a payload of another size"
    if audit.files and opening.payload != audit.files:
        return "another payload than for other places"
    shares = _shares(audit.duty, place, on_chain)
    if place.kind == AuditKind.AGGREGATION:
        sent = {update.slot for update in opening.updates}
        whole = len(opening.updates) == len(sent) and sent == {share.claim.slot for share in shares}
        return "" if whole and len(opening.states) == 1 else "not the round's updates"
    segments, root = share_segments(terms), _roots(*shares).trace_root
    ends = (place.segment, place.segment + 1)
    if place.kind == AuditKind.UPDATE:
        ends = (0, segments)
    leaves = opening.leaves
    # Boundary 0 has none: it is what the chain says that the share starts from.
    if tuple(leaf.index for leaf in leaves) != tuple(end for end in ends if end):
        return "leaves of other boundaries"
    if not all(check_leaf(root, segments, leaf) for leaf in leaves):
        return "leaves that are not in the share's trace"
    states = 2 if place.kind == AuditKind.UPDATE else 1
    return "" if len(opening.states) == states else "no states"


def _fits(opening: AuditOpening, sizes: Sizes) -> bool:
    states = all(
        state.global_state.size == sizes.global_state
        and state.local_state.size == sizes.local_state
        for state in opening.states
    )
    return states and all(item.update.blob.size == sizes.update for item in opening.updates)


def _shares(duty: AuditDuty, place: Place, on_chain: OrderResponse) -> tuple[Share, ...]:
    """Return the place's share, or all shares that were aggregated, in slot order."""
    shares = on_chain.shares_of(duty.attempt, duty.round)
    if place.kind != AuditKind.AGGREGATION:
        return (shares[place.slot, place.issue],)
    closed = _round_of(duty, on_chain)
    return tuple(shares[ref.slot, ref.issue] for ref in closed.shares)


def _roots(share: Share) -> ShareRoots:
    if share.roots is None:
        raise AssertionError("only accepted shares are audited")
    return share.roots


def _round_of(duty: AuditDuty, on_chain: OrderResponse) -> Round:
    closed = on_chain.round(duty.attempt, duty.round)
    if closed is None:
        raise AssertionError("only closed rounds are audited")
    return closed


# The answer


def _answer(audit: LocalAudit, index: int, me: str) -> AuditAnswer:
    duty, place = audit.duty, audit.places[index]
    outcome, opening = place.outcome, place.opening
    if outcome is None or opening is None:
        return UNAVAILABLE
    digest = audit_digest(me, duty.order_id, duty.attempt, duty.round, index, outcome.inner_roots)
    is_segment = duty.places[index].kind == AuditKind.SEGMENT
    leaf = opening.leaves[-1] if is_segment else None
    return AuditAnswer(outcome.root, digest, leaf)


def agrees(duty: AuditDuty, place: Place, answer: AuditAnswer, on_chain: OrderResponse) -> bool:
    """Tell whether an answer is what the chain has; of a segment it has no root, but a leaf in the trace."""
    if not answer.root:
        return False
    if place.kind == AuditKind.SEGMENT:
        return answer.leaf is not None and answer.root == answer.leaf.boundary_root
    if place.kind == AuditKind.AGGREGATION:
        return answer.root == _round_of(duty, on_chain).next_root
    roots = _roots(*_shares(duty, place, on_chain))
    return answer.root == update_claim(roots.update_root, roots.local_out)
