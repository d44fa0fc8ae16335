"""The page of one order: where it stands, its rounds and slots, its panels, its money."""

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from console import words
from console.costs import cost_of
from console.flows import FlowAccount, bonds_of, deposit_of, draw
from console.index.writing import EventIndex
from console.rows import PageQuery, condition_bars, event_row, is_loud
from console.share import curve, find_share, state_of, tell_difference, tell_share
from console.story import LegStory, OrderStory, RoundStory, ShareStory
from console.traces import ShareTrace
from console.waits import waiting_of
from domain.keys import ShareKey
from domain.market.records import JobTerms, OrderState
from domain.params import Params
from domain.proof.reasons import ShareReason
from domain.proof.records import AnswerKind, Ruling, ShareState
from pol.rules.schedule import first_step, share_segments, total_work
from pol.rules.tiers.table import tier_named

ROUNDS_SHOWN: Final = 40
EVENTS_SHOWN: Final = 30
EVENTS_READ: Final = 400
"""The newest events, among which those that matter are shown."""
SLOTS_DRAWN: Final = 16
"""Slots that have a line of their own in the chart of the loss."""
_STEPS: Final = (
    OrderState.OPEN,
    OrderState.MATCHED,
    OrderState.RUNNING,
    OrderState.PROVEN,
    OrderState.CLOSED,
)


class OrderPage:
    """Tells stories, with what an index knows of times, the names of validators, and the number of bids."""

    def __init__(
        self,
        index: EventIndex,
        names: Mapping[str, str],
        bids: int,
        params: Params | None = None,
        clock: int = 0,
    ) -> None:
        """``names`` are monikers by operator address, and ``clock`` is the chain's."""
        self._index, self._names, self._bids = index, names, bids
        self._params, self._clock = params, clock

    def show(self, query: PageQuery, story: OrderStory) -> dict[str, Any]:
        """Return all about an order."""
        order, terms = story.order, story.order.terms
        current = story.current
        number = query.number("leg", 1, current.number if current else 0)
        shown = story.legs.get(number, current)
        everything = query.text("events") == "all"
        shows = None if everything else is_loud
        latest = self._index.latest(EVENTS_READ, order.id)
        traces = self._index.traces(order.id, shown.number) if shown else {}
        deposit, bonds = deposit_of(story), bonds_of(story)
        last = -(-terms.rounds // ROUNDS_SHOWN)
        reached = max(shown.rounds, default=0) if shown else 0
        at = min(last, query.number("rounds", 1, reached // ROUNDS_SHOWN + 1))
        return {
            "id": order.id.hex(),
            "consumer": order.consumer,
            "job": terms.job_id.hex(),
            "job_name": self._index.job_name(terms.job_id),
            "state": story.state.name.lower(),
            "status": words.order_state(story.state, story.close_reason),
            "close_reason": story.close_reason,
            "told": self._told(story),
            "waiting": waiting_of(story, self._clock, self._name),
            "next_event": story.next,
            "steps": self._steps(story),
            "terms": {
                "rounds": terms.rounds,
                "slots": terms.slots,
                "round_steps": terms.round_steps,
                "segments": share_segments(terms),
                "batch": terms.batch,
                "work": total_work(terms),
                "payload_bytes": terms.payload_bytes,
                "data_bytes": terms.data_bytes,
                "result_bytes": terms.result_bytes,
            },
            "conditions": {
                "device_class": order.conditions.device_class,
                "memory": order.conditions.memory,
                "regions": list(order.conditions.regions),
                "tiers": list(order.conditions.tiers),
            },
            "price_limit": order.price_limit,
            "price": current.price if current else 0,
            "deadline": story.deadline,
            "rounds_closed": current.closed if current else 0,
            "rounds_verified": current.verified if current else 0,
            "seconds_left": self._seconds_left(story),
            "cost": self._cost(story, deposit),
            "paid": _paid(deposit),
            "loss": loss_of(shown, terms, traces) if shown else None,
            "legs": [self._leg(found) for found in story.legs.values()],
            "leg": shown.number if shown else 0,
            "rounds_page": at,
            "rounds_pages": last,
            "grid": self._grid(shown, at) if shown else [],
            "cheats": self._cheats(story),
            "unmatched": condition_bars(story.unmatched, self._bids),
            "excluded": story.excluded,
            "deposit": _account(deposit),
            "bonds": _account(bonds),
            "all_events": everything,
            "events": [event_row(self._index, event) for event in islice(filter(shows, latest), EVENTS_SHOWN)],
        }

    def _leg(self, found: LegStory) -> dict[str, Any]:
        return {
            "number": found.number,
            "validator": found.validator,
            "bid": found.bid.hex(),
            "price": found.price,
            "tier": found.tier,
            "recomputed": tier_named(found.tier).description.recomputed,
            "job_bond": found.job_bond,
            "first_round": found.first_round,
            "rounds": found.length,
            "first_slot": found.first_slot,
            "slots": found.slots,
            "state": found.state.name.lower(),
            "reason": found.reason,
            "closed": found.closed,
            "verified": found.verified,
            "matched_ns": self._index.block_time(found.matched_height),
            "ended_ns": self._index.block_time(found.ended_height),
        }

    def _steps(self, story: OrderStory) -> list[dict[str, Any]]:
        """Return the line from open to closed: when each was reached, and until when the next one must be."""
        time = self._index.block_time
        current = story.current
        is_open = story.state is OrderState.OPEN
        heights = {OrderState.OPEN: story.opened_height if is_open else story.submitted_height}
        if current is not None and not is_open:
            heights[OrderState.MATCHED] = current.matched_height
            heights[OrderState.RUNNING] = current.accepted_height
            heights[OrderState.PROVEN] = current.proven_height
        heights[OrderState.CLOSED] = story.closed_height
        ends: dict[OrderState, tuple[str, int]] = {}
        if is_open:
            ends[story.state] = (
                "waits for a bid for another",
                min(story.expires_at, story.deadline),
            )
        elif current is not None and story.state is OrderState.MATCHED:
            ends[story.state] = ("has to be accepted within", current.accept_deadline)
        elif current is not None and story.state is OrderState.RUNNING:
            ends[story.state] = ("the open round has to close within", current.progress_deadline)
        elif current is not None and story.state is OrderState.PROVEN:
            windows = [r.window_ends for r in current.rounds.values() if r.closed_height and not r.verified_height]
            if current.settles_at:
                ends[story.state] = ("settles in", current.settles_at)
            elif windows:
                ends[story.state] = ("the next round is verified at the earliest in", min(windows))
        return [
            {
                "state": state.name.lower(),
                "height": heights.get(state, 0),
                "time_ns": time(heights.get(state, 0)),
                "reached": bool(heights.get(state)),
                "now": state is story.state,
                "until": ends[state][1] if state in ends else 0,
                "what": ends[state][0] if state in ends else "",
            }
            for state in _STEPS
        ]

    def _seconds_left(self, story: OrderStory) -> float:
        """Return how long the rounds that are left take, if they take as long as those before; 0 where unknown."""
        current = story.current
        if current is None or story.state is not OrderState.RUNNING or not current.accepted_height:
            return 0.0
        begun = self._index.block_time(current.accepted_height)
        closed = [r.closed_height for r in current.rounds.values() if r.closed_height]
        ended = self._index.block_time(max(closed)) if closed else 0
        if not begun or not ended:
            return 0.0
        return (ended - begun) / 1e9 / len(closed) * (current.length - len(closed))

    def _cost(self, story: OrderStory, deposit: FlowAccount) -> int:
        """Return what the whole order costs, as a quote says it; of a closed one, what it did cost."""
        if story.state is OrderState.CLOSED:
            return _paid(deposit)
        order, price = story.order, story.current.price if story.current else 0
        return cost_of(order.terms, order.conditions, price, order.price_limit, self._params)

    def _name(self, operator: str) -> str:
        return words.cut(self._names.get(operator, "")) or words.short(operator)

    def _told(self, story: OrderStory) -> str:
        """Say in a sentence where the order stands."""
        current, terms = story.current, story.order.terms
        match story.state:
            case OrderState.OPEN if story.unmatched:
                return "No bid takes it as things stand; it stays in the book until one does."
            case OrderState.OPEN:
                return "It is in the book, and waits for the next auction."
            case OrderState.CLOSED:
                return f"Over: {words.close_reason(story.close_reason)}."
        if current is None:
            return ""
        name = self._name(current.validator)
        if story.state is OrderState.MATCHED:
            return f"{name} has it, receives the job's files and tries the job before it accepts."
        waiting = current.closed - current.verified
        if story.state is OrderState.RUNNING:
            so_far = f"{current.closed} of {terms.rounds} rounds are closed"
            behind = f", {waiting} of them not verified yet" if waiting else ""
            return f"Round {current.open_round} is trained by the providers of {name}; {so_far}{behind}."
        if current.settles_at:
            return "All rounds are verified; it settles when its consumer has had time to fetch the result."
        return f"All rounds are closed; {waiting} of {current.length} wait for auditors and windows."

    def _grid(self, shown: LegStory, page: int) -> list[dict[str, Any]]:
        first = (page - 1) * ROUNDS_SHOWN
        numbers = [n for n in sorted(shown.rounds) if first <= n < first + ROUNDS_SHOWN]
        return [self._round(shown.rounds[number], shown.served_slots) for number in numbers]

    def _round(self, found: RoundStory, slots: range) -> dict[str, Any]:
        if found.void:
            state = "void"
        elif found.verified_height:
            state = "verified"
        elif found.closed_height:
            state = "audit" if not found.panel_over and not _decided(found) else "window"
        else:
            state = "open"
        return {
            "number": found.number,
            "state": state,
            "closed_ns": self._index.block_time(found.closed_height),
            "window_ends": found.window_ends if not found.verified_height else 0,
            # Its work and its audits; they are paid when it is verified.
            "cost": found.price + found.audit_fee if found.verified_height else 0,
            "waits": found.waits,
            "skipped": found.skipped,
            "stopped": words.place(found.stopped) if found.stopped else "",
            "slots": [[_share(share, found) for share in found.issues(slot)] for slot in slots],
            "places": [
                {
                    "number": number,
                    "what": words.place(place.place),
                    "ruling": place.ruling.name.lower(),
                    "stage": place.stage,
                    "stops": place.stops,
                }
                for number, place in enumerate(found.places)
            ],
            "stages": [
                {
                    "number": stage.number,
                    "ended": stage.ended,
                    "until": stage.reveals_end,
                    "seats": [
                        {
                            "validator": seat.validator,
                            "state": _seat_state(seat.committed, seat.revealed, seat.silent),
                            "answers": {
                                str(place): AnswerKind(kind).name.lower() for place, (kind, _) in seat.answers.items()
                            },
                            "differed": list(seat.differed),
                            "cut": seat.cut,
                            "paid": seat.paid,
                        }
                        for seat in found.seats
                        if seat.stage == stage.number
                    ],
                }
                for stage in found.stages
            ],
            "burnt": found.burnt,
        }

    def _cheats(self, story: OrderStory) -> list[dict[str, Any]]:
        """Return what was found wrong, each with a sentence of how it was seen."""
        found = []
        for leg in story.legs.values():
            traces = self._index.traces(story.order.id, leg.number)
            for round in leg.rounds.values():
                for share in round.shares.values():
                    rejected = share.state in (ShareState.REJECTED, ShareState.WRONG)
                    if share.skipped or not (rejected or share.found_wrong):
                        continue
                    if share.reason == ShareReason.LEG_ENDED:
                        continue
                    key = ShareKey(
                        order_id=story.order.id,
                        leg=leg.number,
                        round=round.number,
                        slot=share.slot,
                        issue=share.issue,
                    )
                    known = find_share(story, key, traces, self._names)
                    found.append(
                        {
                            "difference": tell_difference(known) if known else "",
                            "leg": leg.number,
                            "round": round.number,
                            "slot": share.slot,
                            "issue": share.issue,
                            "provider": share.provider,
                            "state": share.state.name.lower(),
                            "burnt": share.burnt,
                            "told": tell_share(share, round),
                        }
                    )
                found += [
                    {
                        "difference": "",
                        "leg": leg.number,
                        "round": round.number,
                        "slot": place.place.slot,
                        "issue": place.place.issue,
                        "provider": "",
                        "state": "wrong",
                        "burnt": 0,
                        "told": f"Strangers recomputed the {words.place(place.place)} in stage {place.stage}, "
                        "and got something else than the chain has.",
                    }
                    for place in round.places
                    if place.ruling is Ruling.WRONG
                ]
        return found


def _paid(deposit: FlowAccount) -> int:
    """Return what left a deposit for work and audits."""
    return sum(flow.amount for flow in deposit.flows if flow.kind != "refund")


def _decided(found: RoundStory) -> bool:
    return bool(found.places) and all(place.ruling is not Ruling.OPEN for place in found.places)


def _seat_state(committed: bool, revealed: bool, silent: tuple[int, ...]) -> str:
    if silent:
        return "silent"
    if revealed:
        return "revealed"
    return "committed" if committed else "asked"


def _share(share: ShareStory, round: RoundStory) -> dict[str, Any]:
    return {
        "slot": share.slot,
        "issue": share.issue,
        "provider": share.provider,
        "state": state_of(share),
        "told": tell_share(share, round),
        "reason": share.reason,
        "found_wrong": share.found_wrong,
        "drawn": list(share.drawn),
        "loss": share.metrics[0] if share.metrics else None,
        "bond": share.bond,
        "burnt": share.burnt,
        "paid": share.paid,
    }


def _account(account: FlowAccount) -> dict[str, Any]:
    return {
        "total": account.total,
        "held": account.held - account.withheld,
        "withheld": account.withheld,
        "flows": [{"kind": flow.kind, "to": flow.to, "amount": flow.amount} for flow in account.flows],
        "adds_up": account.adds_up,
        "picture": draw(account),
    }


def _rounds_of(shown: LegStory, traces: Mapping[ShareKey, ShareTrace]) -> list[int]:
    return sorted({*shown.rounds, *(key.round for key in traces)})


def points_of(shown: LegStory, terms: JobTerms, traces: Mapping[ShareKey, ShareTrace]) -> dict[int, dict[int, float]]:
    """Return the loss of a leg by step, by slot."""
    slots: dict[int, dict[int, float]] = {}
    for number in _rounds_of(shown, traces):
        found = shown.rounds.get(number, RoundStory(number))
        for slot, issue in _standing(found, traces).items():
            points = slots.setdefault(slot, {})
            share = found.shares.get((slot, issue))
            for key, trace in traces.items():
                if (key.round, key.slot, key.issue) == (number, slot, issue):
                    points.update(curve(trace))
            if share is not None and share.metrics:
                ends = share.segments * terms.segment_steps
                points[first_step(terms, number) + ends] = share.metrics[0]
    return slots


def loss_of(shown: LegStory, terms: JobTerms, traces: Mapping[ShareKey, ShareTrace]) -> dict[str, Any] | None:
    """Return the loss by training steps, of each slot and the mean over all of them.

    The chain has it for the end of each share in a closed round. What is between, and of the round that is trained, is
    there where a validator or provider of this machine has it.
    """
    slots = points_of(shown, terms, traces)
    known = _rounds_of(shown, traces)
    steps = sorted({step for points in slots.values() for step in points})
    if not steps:
        return None
    means = [
        sum(found) / len(found) if len(found) == shown.slots else None
        for step in steps
        for found in [[points[step] for points in slots.values() if step in points]]
    ]
    return {
        "steps": steps,
        "mean": means,
        "last": next((mean for mean in reversed(means) if mean is not None), None),
        "slots": {str(slot): [slots[slot].get(step) for step in steps] for slot in sorted(slots)[:SLOTS_DRAWN]}
        if shown.slots > 1
        else {},
        "ends": [(number + 1) * terms.round_steps for number in known],
        "between": len(steps) > len(known),
        "until": min(terms.rounds, max(known) + 1) * terms.round_steps,
    }


def _standing(found: RoundStory, traces: Mapping[ShareKey, ShareTrace]) -> dict[int, int]:
    """Return the issue of each slot that is in the round, or may be: the newest of those that were not rejected."""
    issues: dict[int, int] = {}
    for key in sorted(traces):
        share = found.shares.get((key.slot, key.issue))
        if key.round == found.number and share is None and not traces[key].verdict:
            issues[key.slot] = max(issues.get(key.slot, 0), key.issue)
    for share in found.shares.values():
        if share.state is ShareState.ACCEPTED:
            issues[share.slot] = share.issue
        elif share.state is ShareState.COMMITTED and not share.skipped:
            issues.setdefault(share.slot, share.issue)
    return issues
