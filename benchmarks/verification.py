"""Detection of skipped work, cost of verification, and capture of places by a coalition, at public parameters.

Nothing is timed: the figures follow from the rules of the chain alone (:mod:`pol.rules`), so they are the same on every
machine. A cluster skips a part of a round's segments. Its panel finds that if it draws one of them. A coalition of
validators captures a place if the panel rules as the coalition says. This is computed for one stage, simulated with the
chain's own rule for all stages, and simulated with the seats that the state machine draws (:mod:`benchmarks.capture`).
"""

from dataclasses import dataclass
from math import comb
from random import Random

from benchmarks.capture import STRANGERS, Court
from benchmarks.figures import Figures, Row
from domain.genesis import AUDIT_RATE, AUDIT_SPEED
from domain.market.records import JobTerms
from domain.order_params import OrderParams
from domain.params import Params
from domain.proof.records import AnswerKind, AuditKind, SeatAnswer
from escrow.settle import audit_fee
from pol.rules.panels import (
    GROUP_SEATS,
    STAGES,
    audit_floor,
    count_groups,
    panel_fee,
    place_work,
    promised_ms,
    segment_count,
)
from pol.rules.schedule import round_work, share_segments
from pol.rules.tiers.exact import EXACT
from pol.rules.tiers.tier import Quorum, Vote
from validator.decide.assign import OWN_PICKS

NAME = "verification"
PRICE = 10**6
"""Price of an order (uassay per PFLOP)."""
VALIDATORS = STRANGERS
SKIPPED = (0.02, 0.1, 0.5)
"""Parts of a round's segments that a cluster skips."""
LARGE = 500
"""Segments of a round from which the goals hold."""
COST_GOAL, MISS_GOAL, CAPTURE_GOAL = 0.03, 0.01, 0.08
"""Highest acceptable cost of verification, chance to skip a tenth of a job unseen, and captured part of places."""
TRIES = 4_000
"""Simulated panels for each coalition."""
DRAWN_TRIES = 1_000
"""The same, where the state machine draws the seats."""


@dataclass(frozen=True)
class Case:
    """A job: its slots, segments of a share, steps of a segment, FLOPs of a step, rounds, and bytes of its state."""

    name: str
    slots: int
    segments: int
    steps: int
    step_work: int
    rounds: int
    state: int

    @property
    def terms(self) -> JobTerms:
        """The terms of an order for the job."""
        return JobTerms(
            job_id=bytes(32),
            payload_bytes=2 * self.state,
            data_bytes=10**8,
            global_root=bytes(32),
            local_root=bytes(32),
            data_root=bytes(32),
            rounds=self.rounds,
            slots=self.slots,
            round_steps=self.segments * self.steps,
            batch=32,
            segment_steps=self.steps,
            step_work=self.step_work,
            outer_work=self.slots * 15 * self.state + 10**9,
            global_bytes=self.state,
            local_bytes=2 * self.state,
            update_bytes=self.state,
            global_chunks=1,
            local_chunks=1,
            executor_version=1,
        )


CASES = (
    Case("small", slots=4, segments=20, steps=10, step_work=2 * 10**8, rounds=10, state=2 * 10**6),
    Case("edge", slots=10, segments=50, steps=3, step_work=10**11, rounds=20, state=5 * 10**7),
    Case("gpt", slots=8, segments=50, steps=3, step_work=10**11, rounds=40, state=5 * 10**7),
    Case("wide", slots=64, segments=100, steps=3, step_work=10**11, rounds=20, state=5 * 10**7),
)


def run() -> Figures:
    """Compute the rows of each job, and those of each coalition."""
    params = Params().for_order()
    rows: list[Row] = []
    for case in CASES:
        rows += _job_rows(case, params)
    court = Court(params)
    for count in (10, 25, 33):
        rows += _coalition_rows(count, params, court)
    notes = [f"{row.case}: above its goal" for row in rows if row.goal is not None and (row.ratio or 0) > row.goal]
    return Figures(name=NAME, rows=rows, notes=notes)


def _job_rows(case: Case, params: OrderParams) -> list[Row]:
    """Return what verification of a job costs, and what a panel misses, in a round and in the whole job."""
    terms = case.terms
    total = terms.slots * share_segments(terms)
    fee = max(audit_floor(terms, PRICE, params), audit_fee(round_work(terms), PRICE, params.audit_bps))
    groups = count_groups(terms, params, PRICE, fee, VALIDATORS // GROUP_SEATS)
    drawn = segment_count(terms, params, groups)
    training = float(round_work(terms))
    has_goal = total >= LARGE
    panel = params.auditors * (
        place_work(terms, AuditKind.AGGREGATION)
        + place_work(terms, AuditKind.UPDATE)
        + drawn * place_work(terms, AuditKind.SEGMENT)
    )
    # A validator replays the segments that lots draw in the round, and the update of every share. Its daemon also
    # replays segments of its own choice, which are no duty.
    duty = min(total, params.duty_segments) * place_work(terms, AuditKind.SEGMENT)
    duty += terms.slots * place_work(terms, AuditKind.UPDATE)
    picks = terms.slots * OWN_PICKS * place_work(terms, AuditKind.SEGMENT)
    whole = {"segments": float(total), "drawn": float(drawn), "groups": float(groups)}
    rows = [
        Row(
            case=f"{case.name}: panel and duty, of the training",
            value=panel + duty,
            unit="FLOP",
            baseline=training,
            goal=COST_GOAL if has_goal else None,
            columns=whole,
        ),
        _flops(f"{case.name}: panel, of the training", panel, training),
        _flops(f"{case.name}: duty of the validator, of the training", duty, training),
        _flops(f"{case.name}: own picks of a validator's daemon, of the training", picks, training),
        Row(
            case=f"{case.name}: audit fee, of the price of a round",
            value=panel_fee(terms, params, PRICE, groups),
            unit="uassay",
            baseline=float(round_work(terms) * PRICE // 10**15),
        ),
        Row(f"{case.name}: audit time T", promised_ms(terms, params, AUDIT_SPEED, AUDIT_RATE) / 1_000, "s"),
    ]
    for part in SKIPPED:
        missed = missed_in_round(total, round(part * total), drawn)
        both = missed * missed_by_duty(terms.slots, part, params.duty_segments)
        goal = MISS_GOAL if has_goal and part == 0.1 else None
        name = f"{case.name}: {part:.0%} skipped"
        rows.append(_chance(f"{name}, not found by the panel of a round", missed))
        rows.append(_chance(f"{name}, not found by a panel of the job", missed**terms.rounds))
        rows.append(_chance(f"{name}, not found by a panel or the duty", both**terms.rounds, goal))
    return rows


def _flops(case: str, value: float, training: float) -> Row:
    return Row(case=case, value=value, unit="FLOP", baseline=training)


def _chance(case: str, value: float, goal: float | None = None) -> Row:
    return Row(case=case, value=value, unit="chance", baseline=1.0, goal=goal)


def missed_in_round(total: int, skipped: int, drawn: int) -> float:
    """Return the chance that none of ``drawn`` segments of ``total`` is one of the ``skipped`` ones."""
    return comb(total - skipped, drawn) / comb(total, drawn)


def missed_by_duty(slots: int, part: float, tickets: int) -> float:
    """Return the chance that the duty of a round has no skipped segment, if each share skips the same part.

    The lot of each share throws its tickets onto the whole round; one of ``slots`` falls on the share.
    """
    return float((1 - part / slots) ** (tickets * slots))


def _coalition_rows(percent: int, params: OrderParams, court: Court) -> list[Row]:
    """Return how often a coalition with a part of the stake gets a wrong place verified, and a right one voided."""
    goal = CAPTURE_GOAL if percent == 33 else None
    first = comb(percent, params.auditors) / comb(VALIDATORS, params.auditors)
    verified, voided = (captured(percent, params, for_chain=side) for side in (True, False))
    on_chain = [court.captured(percent, for_chain=side, tries=DRAWN_TRIES) for side in (True, False)]
    name = f"coalition of {percent} %"
    return [
        _chance(f"{name}: has all seats of a first stage", first),
        _chance(f"{name}: gets a wrong place verified", verified, goal),
        _chance(f"{name}: gets a right place voided", voided, goal),
        _chance(f"{name}: gets a wrong place verified, drawn by the state machine", on_chain[0], goal),
        _chance(f"{name}: gets a right place voided, drawn by the state machine", on_chain[1], goal),
    ]


def captured(coalition: int, params: OrderParams, *, for_chain: bool, tries: int = TRIES) -> float:
    """Return the part of simulated panels that rule as a coalition of so many of 100 validators says.

    With ``for_chain``, the chain has a wrong root and the coalition confirms it; otherwise the chain has a right root
    and the coalition denies it. All others answer rightly. Stakes are equal, so the last stage decides rightly.
    """
    random = Random(f"{coalition}/{for_chain}")
    true, lie = (
        SeatAnswer(place=0, kind=AnswerKind.FINISHED, root=bytes([n]) * 32, digest=bytes([n]) * 32, step=0)
        for n in (1, 2)
    )
    claim = lie.root if for_chain else true.root
    count = 0
    for _ in range(tries):
        order = random.sample(range(VALIDATORS), VALIDATORS)
        votes: list[Vote] = []
        wanted = params.auditors
        for stage in range(1, STAGES):
            seats = order[len(votes) : len(votes) + wanted]
            votes += [Vote(stage, 1, lie if seat < coalition else true) for seat in seats]
            quorum = Quorum(
                auditors=params.auditors,
                eligible=VALIDATORS,
                stake=VALIDATORS,
                is_last=False,
                claim=claim,
                stop=None,
            )
            finding = EXACT.decide(votes, quorum)
            if finding is not None:
                count += finding.root == lie.root
                break
            wanted = EXACT.count_wanted(votes, quorum)
            if wanted > VALIDATORS - len(votes):
                break
    return count / tries
