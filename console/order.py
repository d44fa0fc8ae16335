"""The page of one order: its state, rounds, slots, panels, losses and money."""

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from console import words
from console.challenges import describe_steps, find_coins
from console.costs import cost_of
from console.flows import FlowAccount, bonds_of, deposit_of, draw
from console.index.writing import EventIndex
from console.rows import PageQuery, condition_bars, event_row, is_loud
from console.share import curve, describe_difference, describe_share, find_share, state_of
from console.story import DisputeStory, LegStory, OrderStory, RoundStory, ShareStory
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
"""Number of newest events that are read. The most relevant of these events are shown."""
SLOTS_DRAWN: Final = 16
"""Maximum number of slots with a line in the chart of losses."""
_STEPS: Final = (
    OrderState.OPEN,
    OrderState.MATCHED,
    OrderState.RUNNING,
    OrderState.PROVEN,
    OrderState.CLOSED,
)


class OrderPage:
    """The page of an order, made from its story, the index, names of validators and the number of bids."""

    def __init__(
        self,
        index: EventIndex,
        names: Mapping[str, str],
        bids: int,
        params: Params | None = None,
        clock: int = 0,
    ) -> None:
        """Create a page. ``names`` are monikers by operator address, and ``clock`` is the chain clock."""
        self._index = index
        self._names = names
        self._bids = bids
        self._params = params
        self._clock = clock

    def show(self, query: PageQuery, story: OrderStory) -> dict[str, Any]:
        """Return the data of an order's page."""
        order = story.order
        terms = order.terms
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
            "told": self._summary(story),
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
                "update_bytes": terms.update_bytes,
                "global_bytes": terms.global_bytes,
                "moved_bytes": (current.open_round if current else 0) * terms.slots * terms.update_bytes,
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
            "rounds_closed": current.open_round if current else 0,
            "rounds_verified": sum(leg.verified for leg in story.legs.values()),
            "seconds_left": self._seconds_left(story),
            "cost": self._cost(story, deposit),
            "paid": _paid(deposit),
            "loss": loss_of(shown, terms, traces) if shown else None,
            "legs": [self._leg(leg) for leg in story.legs.values()],
            "leg": shown.number if shown else 0,
            "rounds_page": at,
            "rounds_pages": last,
            "grid": self._grid(shown, at) if shown else [],
            "challenges": self._challenges(story),
            "cheats": self._cheats(story),
            "unmatched": condition_bars(story.unmatched, self._bids),
            "excluded": story.excluded,
            "deposit": _account(deposit),
            "bonds": _account(bonds),
            "all_events": everything,
            "events": [event_row(self._index, event) for event in islice(filter(shows, latest), EVENTS_SHOWN)],
        }

    def _leg(self, leg: LegStory) -> dict[str, Any]:
        return {
            "number": leg.number,
            "validator": leg.validator,
            "bid": leg.bid.hex(),
            "price": leg.price,
            "tier": leg.tier,
            "recomputed": tier_named(leg.tier).description.recomputed,
            "job_bond": leg.job_bond,
            "first_round": leg.first_round,
            "rounds": leg.length,
            "first_slot": leg.first_slot,
            "slots": leg.slots,
            "state": leg.state.name.lower(),
            "reason": leg.reason,
            "closed": leg.closed,
            "verified": leg.verified,
            "from_leg": leg.from_leg,
            "part": leg.part,
            "matched_ns": self._index.block_time(leg.matched_height),
            "ended_ns": self._index.block_time(leg.ended_height),
        }

    def _steps(self, story: OrderStory) -> list[dict[str, Any]]:
        """Return a row for each state from open to closed: its time, and a deadline if it is the current state."""
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
                "waits for a bid for at most",
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
        """Return the seconds that the remaining rounds take at the closed rounds' average speed; 0 if not known."""
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
        """Return the expected cost of the whole order, as in a quote; for a closed order, the sum that it paid."""
        if story.state is OrderState.CLOSED:
            return _paid(deposit)
        order = story.order
        price = story.current.price if story.current else 0
        return cost_of(order.terms, order.conditions, price, order.price_limit, self._params)

    def _name(self, operator: str) -> str:
        return words.cut(self._names.get(operator, "")) or words.short(operator)

    def _summary(self, story: OrderStory) -> str:
        """Return a sentence that describes the state of the order."""
        current, terms = story.current, story.order.terms
        match story.state:
            case OrderState.OPEN if story.unmatched:
                return "No current bid fits the order; it stays in the book until a bid takes it or it expires."
            case OrderState.OPEN:
                return "The order is in the book and waits for the next auction."
            case OrderState.CLOSED:
                return f"Closed: {words.close_reason(story.close_reason)}."
        if current is None:
            return ""
        name = self._name(current.validator)
        if story.state is OrderState.MATCHED:
            return f"{name} won the order. It receives the job's files and tests the job before it accepts."
        waiting = current.closed - current.verified
        if story.state is OrderState.RUNNING:
            so_far = f"{current.closed} of {terms.rounds} rounds are closed"
            behind = f", {waiting} of them not verified yet" if waiting else ""
            return f"The providers of {name} train round {current.open_round}; {so_far}{behind}."
        if current.settles_at:
            return "All rounds are verified; the order settles once its consumer has had time to fetch the result."
        return f"All rounds are closed; {waiting} of {current.length} wait for auditors or the end of their window."

    def _grid(self, shown: LegStory, page: int) -> list[dict[str, Any]]:
        first = (page - 1) * ROUNDS_SHOWN
        numbers = [n for n in sorted(shown.rounds) if first <= n < first + ROUNDS_SHOWN]
        return [self._round(shown.rounds[number], shown.served_slots) for number in numbers]

    def _round(self, round: RoundStory, slots: range) -> dict[str, Any]:
        if round.void:
            state = "void"
        elif round.verified_height:
            state = "verified"
        elif round.closed_height:
            state = "audit" if not round.panel_over and not _decided(round) else "window"
        else:
            state = "open"
        return {
            "number": round.number,
            "state": state,
            "closed_ns": self._index.block_time(round.closed_height),
            "window_ends": round.window_ends if not round.verified_height else 0,
            # Price of the round's work and audits, which is paid when the round is verified.
            "cost": round.price + round.audit_fee if round.verified_height else 0,
            "waits": round.waits,
            "skipped": round.skipped,
            "stopped": words.place(round.stopped) if round.stopped else "",
            "slots": [[_share(share, round) for share in round.issues(slot)] for slot in slots],
            "places": [
                {
                    "number": number,
                    "what": words.place(place.place),
                    "ruling": place.ruling.name.lower(),
                    "stage": place.stage,
                    "first_stage": place.first_stage,
                    "stops": place.stops,
                }
                for number, place in enumerate(round.places)
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
                        for seat in round.seats
                        if seat.stage == stage.number
                    ],
                }
                for stage in round.stages
            ],
            "burnt": round.burnt,
            "slashed": round.slashed,
        }

    def _challenges(self, story: OrderStory) -> list[dict[str, Any]]:
        """Return a row for each challenge of a round: its place, its end, and where its coins went."""
        return [
            {
                "leg": leg.number,
                "round": round.number,
                "number": dispute.number,
                "place": _disputed(dispute),
                "challenger": dispute.challenger,
                "state": dispute.state.name.lower(),
                "again": dispute.again,
                "bond": dispute.bond,
                "reward": dispute.reward,
                "burnt": dispute.lost,
                "paid_to_seats": sum(seat.paid for seat in dispute.seats),
                "steps": describe_steps(dispute, sum(seat.revealed for seat in dispute.seats)),
                "coins": find_coins(story, leg.number, round, dispute),
                "seats": [
                    {"validator": seat.validator, "stage": seat.stage, "paid": seat.paid, "cut": seat.cut}
                    for seat in dispute.seats
                ],
            }
            for leg in story.legs.values()
            for round in leg.rounds.values()
            for dispute in round.disputes.values()
        ]

    def _cheats(self, story: OrderStory) -> list[dict[str, Any]]:
        """Return rejected and wrong shares, and places that a panel ruled wrong, each with a sentence of evidence."""
        cheats = []
        for leg in story.legs.values():
            traces = self._index.traces(story.order.id, leg.number)
            for round in leg.rounds.values():
                for share in round.shares.values():
                    rejected = share.state in (ShareState.REJECTED, ShareState.WRONG)
                    if share.skipped or not (rejected or share.found_wrong):
                        continue
                    is_included = share.reason == ShareReason.INCLUDED and share.state is ShareState.REJECTED
                    if share.reason == ShareReason.LEG_ENDED or is_included:
                        continue
                    key = ShareKey(
                        order_id=story.order.id,
                        leg=leg.number,
                        round=round.number,
                        slot=share.slot,
                        issue=share.issue,
                    )
                    known = find_share(story, key, traces, self._names)
                    cheats.append(
                        {
                            "difference": describe_difference(known) if known else "",
                            "leg": leg.number,
                            "round": round.number,
                            "slot": share.slot,
                            "issue": share.issue,
                            "provider": share.provider,
                            "state": share.state.name.lower(),
                            "burnt": share.burnt,
                            "told": describe_share(share, round),
                        }
                    )
                cheats += [
                    {
                        "difference": "",
                        "leg": leg.number,
                        "round": round.number,
                        "slot": place.place.slot,
                        "issue": place.place.issue,
                        "provider": "",
                        "state": "wrong",
                        "burnt": 0,
                        "told": f"Auditors recomputed the {words.place(place.place)} in stage"
                        f" {place.first_stage or place.stage}, and their result differs from the one on the chain.",
                    }
                    for place in round.places
                    if place.is_wrong
                ]
        return cheats


def _paid(deposit: FlowAccount) -> int:
    """Return the sum paid from a deposit for work and audits (uassay)."""
    return sum(flow.amount for flow in deposit.flows if flow.kind != "refund")


def _decided(round: RoundStory) -> bool:
    return bool(round.places) and all(place.ruling is not Ruling.OPEN for place in round.places)


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
        "issue_name": share.issue_name,
        "provider": share.provider,
        "state": state_of(share),
        "told": describe_share(share, round),
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
    """Return the losses of a leg by slot, then by step."""
    slots: dict[int, dict[int, float]] = {}
    for number in _rounds_of(shown, traces):
        round = shown.rounds.get(number, RoundStory(number=number))
        for slot, issue in _standing(round, traces).items():
            points = slots.setdefault(slot, {})
            share = round.shares.get((slot, issue))
            for key, trace in traces.items():
                if (key.round, key.slot, key.issue) == (number, slot, issue):
                    points.update(curve(trace))
            if share is not None and share.metrics:
                ends = share.segments * terms.segment_steps
                points[first_step(terms, number) + ends] = share.metrics[0]
    return slots


def loss_of(shown: LegStory, terms: JobTerms, traces: Mapping[ShareKey, ShareTrace]) -> dict[str, Any] | None:
    """Return the losses of a leg by training step, for each slot and as the mean over all slots; None without losses.

    The chain has the loss at the end of each accepted share. All other losses come from records of a validator or
    provider on this machine.
    """
    slots = points_of(shown, terms, traces)
    known = _rounds_of(shown, traces)
    steps = sorted({step for points in slots.values() for step in points})
    if not steps:
        return None
    means = [
        sum(losses) / len(losses) if len(losses) == shown.slots else None
        for step in steps
        for losses in [[points[step] for points in slots.values() if step in points]]
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


def _standing(round: RoundStory, traces: Mapping[ShareKey, ShareTrace]) -> dict[int, int]:
    """Return the issue that counts for each slot: the accepted issue or, without one, the newest issue that is not
    rejected.
    """
    issues: dict[int, int] = {}
    for key in sorted(traces):
        share = round.shares.get((key.slot, key.issue))
        if key.round == round.number and share is None and not traces[key].verdict:
            issues[key.slot] = max(issues.get(key.slot, 0), key.issue)
    for share in round.shares.values():
        if share.state is ShareState.ACCEPTED:
            issues[share.slot] = share.issue
        elif share.state is ShareState.COMMITTED and not share.skipped:
            issues.setdefault(share.slot, share.issue)
    return issues


def _disputed(dispute: DisputeStory) -> str:
    """Return the name of the place that a dispute is about; empty if it is not known yet."""
    if dispute.slot is not None:
        return f"own share of slot {dispute.slot}"
    return words.place(dispute.place) if dispute.place is not None else ""
