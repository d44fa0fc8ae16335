"""The log lines for changes of a record: payload, slots, shares, verdicts, rounds."""

from collections.abc import Iterator

from domain.proof.reasons import ShareReason
from validator.decide.duties import Record
from validator.decide.records import LocalOrder, LocalRound, LocalSeat, SlotWork


def tell(before: Record | None, after: Record) -> Iterator[str]:
    """Yield a log line for each difference between the record ``before`` and the record ``after`` it."""
    match before, after:
        case LocalOrder(), LocalOrder():
            yield from _of_order(before, after)
        case LocalSeat() | None, LocalSeat():
            yield from _of_seat(before, after)


def _of_order(before: LocalOrder, after: LocalOrder) -> Iterator[str]:
    name = f"order {after.order_id.hex()[:12]} leg {after.leg}"
    if after.payload.stage != before.payload.stage:
        why = f" ({after.payload.text})" if after.payload.text else ""
        yield f"{name}: payload {after.payload.stage.name.lower()}{why}"
    for current in after.rounds:
        known = before.find(current.round)
        for line in _of_round(known, current):
            yield f"{name} round {current.round}{line}"


def _of_seat(before: LocalSeat | None, after: LocalSeat) -> Iterator[str]:
    duty = after.duty
    name = f"seat for order {duty.order_id.hex()[:12]} leg {duty.leg} round {duty.round} stage {duty.stage}"
    if before is None:
        yield f"{name}: {len(duty.places)} places, commit before chain second {duty.commits_end}"
    for index, (place, asked) in enumerate(zip(after.places, duty.places, strict=True)):
        known = before.places[index] if before else None
        if place.unavailable and not (known and known.unavailable):
            yield f"{name}: place {asked.number} is unavailable: {place.unavailable}"
        if place.found is not None and not (known and known.found):
            yield f"{name}: place {asked.number} recomputed: {place.found.kind.name.lower()}"
    if after.sealed is not None and not (before and before.sealed):
        silent = len(duty.places) - len(after.sealed.answers)
        unanswered = f", {silent} places without an answer" if silent else ""
        result = "all results agree with the chain" if after.sealed.agreed else "a result differs from the chain"
        yield f"{name}: answers are ready; {result}{unanswered}"


def _of_round(before: LocalRound | None, after: LocalRound) -> Iterator[str]:
    known = {(work.slot, work.issue): work for work in before.works} if before else {}
    for work in after.works:
        for line in _of_work(known.get((work.slot, work.issue)), work):
            yield f" slot {work.slot} issue {work.issue}: {line}"
    if after.next_global is not None and (before is None or before.next_global is None):
        yield ": aggregated"
    if after.sealed is not None and (before is None or before.sealed is None):
        yield ": sealed for the consumer"


def _of_work(before: SlotWork | None, after: SlotWork) -> Iterator[str]:
    if before is None:
        yield f"assigned to {after.provider}, until chain second {after.answer_by}"
    elif after.answer_by != before.answer_by:
        yield f"the deadline moves to chain second {after.answer_by}"
    if after.signed is not None and (before is None or before.signed is None):
        yield "commitment arrived"
    if after.packet is not None and (before is None or before.packet is None):
        end = "" if after.packet.roots.is_whole else "; the job stopped itself there"
        yield f"trace of {len(after.packet.boundaries)} segments arrived{end}"
    done = {checked.segment for checked in before.checked} if before else set()
    for checked in after.checked:
        if checked.segment not in done:
            yield f"segment {checked.segment}: {_outcome(checked.reason)}"
    if after.verdict and (before is None or not before.verdict):
        yield f"rejected: {_outcome(after.verdict)}"


def _outcome(reason: int) -> str:
    return ShareReason(reason).name.lower() if reason else "correct"
