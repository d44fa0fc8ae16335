"""Whole markets played from a seed, by people of random honesty, and the money counted again afterwards.

The stateful machine in ``tests/property`` looks for short surprising sequences; these worlds go deep: orders are
trained, audited, rejected, compared, proven, stopped and forgotten until every ending has been seen. All invariants
are checked after every block. At the end everything closes by itself, and a slow second bookkeeper, written from the
protocol alone, finds who was paid what.
"""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from functools import cache
from math import ceil, floor
from random import Random

import pytest

from chain.state_machine.ledger.tables import POTS, TALLIES
from chain.state_machine.legs.ends import BLAMES_JOB
from chain.state_machine.legs.parts import PAYS
from chain.state_machine.market import orders
from chain.state_machine.proof import settlement
from chain.state_machine.proof.handlers.commit_traces import VERDICTS
from chain.state_machine.staking.tables import VALIDATOR_STAKES
from domain.keys import RoundKey, ShareKey
from domain.ledger.messages import MsgWithdrawBond
from domain.ledger.params import LedgerParams
from domain.legs.messages import MsgAcceptOrder, MsgAckState, MsgDeclineOrder, MsgStopOrder
from domain.legs.reasons import LegEnd, PartEnd
from domain.legs.records import Leg, LegState
from domain.market.messages import MsgCancelOrder
from domain.market.queries import OrdersRequest
from domain.market.reasons import CloseReason
from domain.market.records import OrderState
from domain.messages import Message
from domain.params import local_params
from domain.proof.messages import MsgTakeEarly
from domain.proof.queries import OrderResponse, PanelDutiesRequest
from domain.proof.reasons import ShareReason
from domain.proof.records import (
    AnswerKind,
    AuditKind,
    Panel,
    PanelPlace,
    Round,
    Ruling,
    SeatAnswer,
    Share,
    ShareState,
)
from domain.registry.messages import (
    MsgAdmitProvider,
    MsgDismissProvider,
    MsgLeaveCluster,
    MsgRegisterProvider,
)
from link.handover import Sealed
from localnet.simulator.training import noise
from pol.rules.fees import compute_round_cost
from pol.rules.handover import HandoverId
from pol.rules.stands import is_mismatch
from tests.support.chain_harness import check_bounds
from tests.support.chain_market import (
    BOND,
    PRICE,
    Trace,
    bid,
    digest,
    make_terms,
    sign_share,
    submit,
)
from tests.support.handed_over import ORDER_KEY, HandoverMarket, spoilt

SEEDS = (2, 8, 11, 14, 15, 16, 17, 19, 22, 26, 27, 28, 32, 34, 43, 89, 116, 146, 235, 244, 245, 262)
"""Worlds that together reach every ending, most of them twice."""
MORE = sorted({*range(30)} - {*SEEDS})
DECLINES = (*sorted(BLAMES_JOB), LegEnd.DECLINED_NO_CAPACITY, LegEnd.DECLINED_BY_CHOICE)
BLOCKS = 110


class World:
    """One market, and how likely its people are to do what they should."""

    MARKET = HandoverMarket
    SIZES = (2, 4, 6, 8)
    """Numbers of validators."""

    def __init__(self, seed: int, **changes: int) -> None:
        self.seed, self.random = seed, (random := Random(seed))
        self.consumers = ("carol", "dave")
        self.params = local_params().replace(
            auditors=random.choice((0, 1, 2, 2, 3)),
            due_gas=random.choice((1, 300_000, 30_000_000, 30_000_000)),
            job_bond_bps=random.choice((0, 1_000, 3_333, 10_000)),
            decline_fee_bps=random.choice((0, 1_000, 10_000)),
            audit_bps=random.choice((0, 333, 5_000)),
            protocol_bps=random.choice((0, 101, 5_000)),
            max_attempts=random.choice((1, 2, 3)),
            round_window=random.choice((10, 11, 40)),
            duty_segments=random.choice((1, 2)),
            audit_room_bps=random.choice((1, 5_000)),
            progress_base=random.choice((30, 300)),
            lot_wait=random.choice((0, 2, 20)),
            payload_fee=random.choice((0, 500, 27_000)),
            order_min=270_000,
            accept_base=20,
            stage_base=Random(f"{seed}/stages").choice((4, 6, 12)),
        )
        self.params = self.params.replace(**changes)
        self.market = self.MARKET(
            self.params,
            validators=random.choice(self.SIZES),
            consumers=self.consumers,
            bidders=(),
            stake=random.choice((1_002_000, 2_000_000, 10**9)),
        )
        self.market.spoil = self.spoil
        # Complaints prove noise here. Panels that find it have tests of their own.
        self.market.looks = False
        self.chain = self.market.chain
        self.said: dict[tuple[str, RoundKey], tuple[SeatAnswer, ...]] = {}
        self.diligence = random.choice((0.15, 0.8, 1.0))  # of validators, a block
        self.presence = random.choice((0.05, 0.8, 1.0))  # of auditors, a block
        self.lies = random.choice((0.0, 0.05, 0.2))  # answers of auditors that disagree
        self.errors = random.choice((0.0, 0.05, 0.2))  # places that are not what the chain has
        self.faults = random.choice((0.0, 0.05, 0.3))  # shares that are bent, made up, or rejected
        self.whims = random.choice((0.0, 0.02, 0.1))  # what may end an order early
        # Places of a round that have no result.
        self.stops = Random(f"{seed}/stops").choice((0.0, 0.0, 0.1, 0.3))
        self.noise = Random(f"{seed}/noise").choice((0.0, 0.1, 0.5))  # hand-overs with a wrong chunk
        self.losing = Random(f"{seed}/states")
        self.losses = self.losing.choice((0.0, 0.3, 1.0))  # states of failed legs that cannot be fetched
        self.grumbling = Random(f"{seed}/complaints")
        self.haste = Random(f"{seed}/early")
        self.absent = random.choice((*self.market.validators, "", "", ""))  # accepts nothing
        for name in self.market.validators:
            for _ in range(random.choice((1, 2))):
                price = PRICE - random.randrange(3)
                share = random.choice((0, 7_000, 8_000))
                room = random.choice((10**8, 10**12))
                self.chain.ok(bid(name, price=price, providers_bps=share, capacity=room))
        if self.chance(0.5):
            poor = self.market.clusters[self.random.choice(self.market.validators)][0]
            # Less is left than the value of most shares.
            self.chain.ok(MsgWithdrawBond(poor, BOND - 30_000))

    def people(self) -> list[str]:
        """Everybody with a bond account."""
        clusters = [name for cluster in self.market.clusters.values() for name in cluster]
        return [*self.market.validators, *clusters]

    def chance(self, odds: float) -> bool:
        return self.random.random() < odds

    def play(self) -> None:
        for number in range(BLOCKS):
            if number < BLOCKS // 2 and self.chance(0.15):
                self.market.chain.block(self.some_order())
            messages = [*self.legs(), *self.audits(), *self.moods()]
            self.random.shuffle(messages)
            messages += self.complaints()
            messages += self.taken_early()
            proposer = self.random.choice(self.market.validators)
            self.chain.block(*messages, seconds=self.random.choice((0, 1, 1, 2)), proposer=proposer)

    def some_order(self) -> Message:
        rounds, steps = self.random.choice((1, 2, 3)), self.random.choice((4, 12, 12))
        return submit(
            self.random.choice(self.consumers),
            order_key=ORDER_KEY,
            terms=make_terms(
                rounds=rounds,
                round_steps=steps,
                step_work=self.random.choice((1, 8_999_999)),
                outer_work=self.random.choice((0, 3_999_999)),
            ),
            deposit=rounds * 70_000 * steps + self.random.choice((0, 1, 50_000)),
            time_to_live=self.random.choice((5, 60)),
            deadline=self.random.choice((60, 75, 90, 120, 150, 300)),
            rematch=self.chance(0.7),
        )

    # --- validators ---

    def legs(self) -> list[Message]:
        found = []
        for order in self.chain.ask(OrdersRequest("", "", 0, 0, b"")).orders:
            if order.state in (OrderState.MATCHED, OrderState.RUNNING):
                leg = self.market.leg(order.id)
                if leg.state is LegState.FAILED or not self.chance(self.diligence):
                    continue
                message = self.next_step(order.id, leg)
                found += [] if message is None else [message]
            elif order.state is OrderState.OPEN and self.chance(self.whims):
                found.append(MsgCancelOrder(order.consumer, order.id))
        return found

    def next_step(self, order_id: bytes, leg: Leg) -> Message | None:
        name, number = leg.validator, leg.number
        if leg.state is LegState.MATCHED:
            if leg.from_leg and self.losing.random() < self.losses:
                # With auditors, this reason would ask a panel (tests/unit/chain/attacks).
                audited = self.market.order(order_id).params.auditors > 0
                reason = LegEnd.DECLINED_BY_CHOICE if audited else LegEnd.STATE_UNAVAILABLE
                return MsgDeclineOrder(name, order_id, number, int(reason))
            if self.chance(self.whims * 3):
                return MsgDeclineOrder(name, order_id, number, self.random.choice(DECLINES))
            return None if name == self.absent else MsgAcceptOrder(name, order_id, number)
        if self.chance(self.whims):
            return MsgStopOrder(name, order_id, number)
        shares = [share for share in self.market.shares(order_id) if self.is_standing(share)]
        doubted = [share for share in shares if self.chance(self.faults)]
        if doubted:
            return self.doubt(order_id, doubted)
        taken = {s.claim.slot for s in self.market.shares(order_id) if self.market.is_of_open_round(order_id, s)}
        missing = [self.bend(self.new_trace(order_id, slot)) for slot in (0, 1) if slot not in taken]
        if missing:
            return self.market.commit_message(order_id, *missing)
        return self.close(order_id, leg) if all(s.is_drawn for s in shares) else None

    def close(self, order_id: bytes, leg: Leg) -> Message:
        """Return the next message of a round whose shares are drawn: it accepts some, or it closes the round.

        A round is closed with a place where a share ends early, or the aggregation has no result.
        """
        waiting = self.market.accept_message(order_id).shares
        if waiting:
            return self.market.accept_message(order_id, *waiting[: 1 + leg.round % 2])
        whole = all(
            share.roots.is_whole
            for share in self.market.shares(order_id)
            if self.market.is_of_open_round(order_id, share) and share.roots is not None
        )
        if whole and not self.stop(order_id, leg.round, "aggregation"):
            return self.market.close_message(order_id)
        return self.market.stop_message(order_id)

    def stop(self, *where: object) -> bool:
        """Tell whether the job has no result at a place, whoever does it."""
        return Random(f"{self.seed}/{where}").random() < self.stops

    @staticmethod
    def is_standing(share: Share) -> bool:
        return share.state is ShareState.COMMITTED

    def new_trace(self, order_id: bytes, slot: int) -> Trace:
        leg = self.market.leg(order_id)
        cluster = self.market.clusters[leg.validator]
        place = (order_id, leg.round, slot)
        # Two segments, and the update.
        stop = next((n for n in range(3) if self.stop(*place, n)), None)
        return self.market.trace(
            order_id,
            slot,
            stop=stop,
            # A segment has two steps.
            steps=Random(f"{self.seed}/{place}/steps").randrange(2) if stop in (0, 1) else 0,
            work="made up" if self.chance(self.faults) else "right",
            issue=self.market.next_issue(order_id, slot),
            provider=self.random.choice(cluster),
        )

    def bend(self, trace: Trace) -> Trace:
        """Return the trace, or one that the chain must skip."""
        if not self.chance(self.faults):
            return trace
        claim = trace.claim
        bent = self.random.choice(
            (
                claim,
                replace(claim, slot=1_024),
                replace(claim, provider="carol"),
                replace(claim, issue=0),
            )
        )
        signed = sign_share(bent, self.random.choice((bent.provider, "dave")))
        return replace(trace, signed=signed)

    def doubt(self, order_id: bytes, shares: list[Share]) -> Message:
        reasons = [(share.key.ref, self.random.choice(VERDICTS)) for share in shares]
        return self.market.commit_message(order_id, reject=reasons)

    # --- auditors, providers, anybody ---

    def audits(self) -> list[Message]:
        found: list[Message] = []
        for name in self.market.validators:
            for duty in self.chain.ask(PanelDutiesRequest(name)).duties:
                if not self.chance(self.presence):
                    continue
                place = (duty.order_id, duty.round)
                # A vote on a slash goes on while a later leg trains.
                self.market.about, self.market.about_leg = duty.dispute, duty.leg
                if not duty.commitment:
                    said = self.recompute(*place)
                    if self.chance(self.lies):
                        said = (elsewhere(said[0], bytes(32)), *said[1:])
                    self.said[name, duty.key] = said
                    found.append(self.market.commit_answer(*place, name, said))
                elif self.chain.clock + 1 >= duty.commits_end:
                    said = self.said[name, duty.key]
                    found.append(self.market.reveal_answer(*place, name, said))
        self.market.about, self.market.about_leg = 0, 0
        return found

    def recompute(self, order_id: bytes, round: int) -> tuple[SeatAnswer, ...]:
        """Return what every honest seat finds, which for some places is something else than the chain has."""
        panel = self.market.panel(order_id, round)
        found = []
        for answer in self.market.answers(order_id, round):
            where = panel.places[answer.place].place
            truth = Random(f"{self.seed}/{panel.key}/{where}")
            other = elsewhere(answer, digest("truth", order_id, round, answer.place))
            found.append(other if truth.random() < self.errors else answer)
        return tuple(found)

    def moods(self) -> list[Message]:
        if not self.chance(self.whims):
            return []
        name = self.random.choice(self.market.clusters[self.random.choice(self.market.validators)])
        to = self.random.choice(self.market.validators)
        amount = self.random.choice((1, BOND - 30_000))
        return [
            self.random.choice(
                (
                    MsgLeaveCluster(name),
                    MsgRegisterProvider(name, to),
                    MsgAdmitProvider(to, name),
                    MsgAdmitProvider(to, name),
                    MsgDismissProvider(to, name),
                    MsgWithdrawBond(name, amount),
                    MsgWithdrawBond(to, amount),
                )
            )
        ]

    # --- hand-overs ---

    def is_noisy(self, handover: HandoverId) -> bool:
        return Random(f"{self.seed}/{handover}").random() < self.noise

    def spoil(self, handover: HandoverId, sealed: list[Sealed]) -> list[Sealed]:
        return spoilt(1, noise)(handover, sealed) if self.is_noisy(handover) else sealed

    def complaints(self) -> list[Message]:
        """Return complaints, some of them about right chunks."""
        found: list[Message] = []
        for order in self.chain.ask(OrdersRequest("", "", 0, 0, b"")).orders:
            for leg in self.market.all_of(order.id).legs:
                if leg.part and self.chain.clock + 3 < leg.part_until and self.losing.random() < 0.1:
                    received = self.losing.random() < 0.5
                    found.append(MsgAckState(order.consumer, order.id, leg.number, received))
            if order.state not in (OrderState.RUNNING, OrderState.PROVEN):
                continue
            for closed in self.market.all_of(order.id).rounds_of(order.legs):
                noisy = self.is_noisy(self.market.handover(order.id, closed.round))
                if closed.ciphertext_root and self.grumbling.random() < (0.2 if noisy else 0.01):
                    found.append(self.market.complaint(order.id, closed.round, 1))
        return found

    def taken_early(self) -> list[Message]:
        """Return takes of rounds that may be verified, void or taken already."""
        found: list[Message] = []
        for order in self.chain.ask(OrdersRequest("", "", 0, 0, b"")).orders:
            if order.state not in (OrderState.RUNNING, OrderState.PROVEN):
                continue
            rounds = self.market.all_of(order.id).rounds_of(order.legs)
            found += [
                MsgTakeEarly(order.consumer, order.id, closed.leg, closed.round)
                for closed in rounds
                if self.haste.random() < 0.03
            ]
        return found

    # --- the end ---

    def finish(self) -> None:
        """Nobody does anything any more: every order closes, and every coin is somewhere."""
        check_bounds(self.chain.store)
        self.chain.check_books()
        while any(
            order.state is not OrderState.CLOSED for order in self.chain.ask(OrdersRequest("", "", 0, 0, b"")).orders
        ):
            self.chain.block(seconds=2)
            assert self.chain.clock < 1_500, "an order does not end"
        self.chain.pass_time(self.params.of(LedgerParams).bond_wait + 2)
        check_bounds(self.chain.store)
        overlay = self.chain.overlay()
        assert all(tally.held == 0 for tally in TALLIES.scan(overlay))
        for pot in ("escrows", "audits"):
            assert POTS.get(overlay, pot) == 0


def elsewhere(answer: SeatAnswer, root: bytes) -> SeatAnswer:
    """Return the answer of a seat that ends in another state, also where the job stops."""
    return replace(answer, kind=AnswerKind.FINISHED, root=root, step=0)


def money(work: int, price: int) -> Fraction:
    return Fraction(work * price, 10**15)


def earned(order: OrderResponse, closed: Round) -> tuple[Counter[tuple[str, str, int]], int]:
    """Return what a verified round pays at once, and its validator's part, by section 7 of the protocol."""
    params, leg = order.order.params, order.legs[closed.leg - 1]
    total = floor(money(closed.work, leg.price))
    protocol = floor(Fraction(total * params.protocol_bps, 10_000))
    fee = floor(Fraction(total * params.audit_bps, 10_000)) if params.auditors else 0
    pool = floor(Fraction((total - protocol - fee) * leg.providers_bps, 10_000))
    paid: Counter[tuple[str, str, int]] = Counter()
    for share in order.shares:
        claim, key = share.claim, share.key
        accepted = share.state is ShareState.ACCEPTED
        # Where the job stopped, that may be none.
        there = (key.leg, key.round) == (closed.leg, closed.round)
        if accepted and there and share.work:
            part = floor(Fraction(pool * share.work, closed.work))
            paid["provider", claim.provider, closed.round] += part
    validator = total - protocol - fee - sum(paid.values())
    return +paid, validator


def withheld(order: OrderResponse) -> tuple[Counter[int], Counter[int]]:
    """Return what is withheld of each leg's validator in the end, and what right shares took of it before."""
    held: Counter[int] = Counter()
    taken: Counter[int] = Counter()
    owed = redress(order)
    for closed in order.rounds:  # by leg and number, which is how they are verified
        leg = closed.leg
        cost = min(held[leg], owed[leg, closed.round])
        held[leg] -= cost
        taken[leg] += cost
        if closed.verified:
            held[leg] += earned(order, closed)[1]
    return held, taken


def audited(order: OrderResponse, closed: Round) -> tuple[int, int]:
    """Return what the audit of a verified round takes of its price, and what its seats have all together."""
    params, terms = order.order.params, order.order.terms
    if not params.auditors:
        return 0, 0
    per_pflop = order.legs[closed.leg - 1].price
    part = floor(Fraction(floor(money(closed.work, per_pflop)) * params.audit_bps, 10_000))
    per_pflop = max(per_pflop, params.audit_price_min)
    panel = order.panel(closed.leg, closed.round)
    groups = len({place.group for place in panel.places}) if panel else 0
    state = terms.global_bytes + terms.local_bytes
    segments = min(params.audit_segments, terms.slots * terms.round_steps // terms.segment_steps)
    steps = terms.segment_steps * (terms.step_work + state)
    least = money(segments * steps + 2 * state + terms.outer_work, per_pflop)
    further = (groups - 1) * (ceil(money(2 * steps, per_pflop)) + params.answer_fee)
    return part, params.auditors * (ceil(least) + params.answer_fee + further)


def check_payments(order: OrderResponse, ends: dict[int, PartEnd]) -> None:
    """Every verified round paid exactly its due, and nothing else was paid out of the deposit.

    ``ends`` tells what became of the parts of failed legs.
    """
    expected: Counter[tuple[str, str, int]] = Counter()
    for closed in order.rounds:
        if closed.verified:
            expected += earned(order, closed)[0]
    held, _ = withheld(order)
    settled = order.order.close_reason in (CloseReason.SETTLED, CloseReason.STOPPED_BY_JOB)
    if settled:
        leg = order.legs[-1]
        expected += Counter({("validator", leg.validator, -1): held[leg.number]})
    waited = {leg: held[leg] for leg in ends}
    for number, end in ends.items():
        if end in PAYS:
            expected += Counter({("validator", order.legs[number - 1].validator, -1): held[number]})
    back = (PartEnd.UNAVAILABLE, PartEnd.COMPLAINT)
    spent = sum(part for leg, part in waited.items() if ends[leg] not in back)
    returned = sum(held.values()) - (held[order.order.legs] if settled else 0) - spent
    kinds = ("provider", "validator")
    paid: Counter[tuple[str, str, int]] = Counter()
    sums: Counter[str] = Counter()
    for payment in order.payments:
        sums[payment.kind] += payment.amount
        if payment.kind in kinds:
            paid[payment.kind, payment.to, payment.round] += payment.amount
    assert paid == expected
    (depositor,) = order.escrow.depositors
    gone = sum(sums[kind] for kind in (*kinds, "auditor", "protocol", "deposit_burn", "refund_burn", "refund"))
    gone += sums["withheld_compensation"] + sums["withheld_burn"] + sums["part_burn"]
    assert sums["part_burn"] == sum(part for leg, part in waited.items() if ends[leg] is PartEnd.DENIED)
    assert (depositor.locked, depositor.refunded) == (0, sums["refund"])
    # Nobody earns by another's failure: at most the fee of ordering, less than 200, and what was paid.
    consumer = sum(p.amount for p in order.payments if p.kind == "compensation" and p.to == depositor.address)
    assert consumer <= 200 + depositor.paid
    assert depositor.paid + depositor.refunded == gone
    verified = [closed for closed in order.rounds if closed.verified]
    parts = [audited(order, closed) for closed in verified]
    works = sum(floor(money(closed.work, order.legs[closed.leg - 1].price)) for closed in verified)
    fees = sum(fee for _, fee in parts)
    audits = fees - sum(part for part, _ in parts)
    given_up: Counter[int] = Counter()
    for closed in order.rounds:
        leg = order.legs[closed.leg - 1]
        if closed.void and closed.round < leg.taken_end:
            given_up[closed.round] += compute_round_cost(order.order, leg)
    for payment in order.payments:
        if payment.kind == "refund_burn":
            given_up[payment.round] -= payment.amount
    assert not any(given_up.values())
    assert depositor.paid - sums["deposit_burn"] - sums["refund_burn"] + returned == works + audits
    assert sums["auditor"] <= fees


def redress(order: OrderResponse) -> Counter[tuple[int, int]]:
    """Return what the validator owed in each round for right shares that it rejected as a mismatch: twice its value."""
    owed: Counter[tuple[int, int]] = Counter()
    accepted = {(s.key.leg, s.key.round, s.key.slot): s for s in order.shares if s.roots is not None}
    for share in order.shares:
        claim = share.claim
        slot = (share.key.leg, claim.round, claim.slot)
        silent = share.reason in (ShareReason.NO_ANSWER, ShareReason.LATE)
        if share.state is not ShareState.RIGHT or silent or accepted[slot].claim.provider == claim.provider:
            continue
        price = order.legs[share.key.leg - 1].price
        owed[share.key.leg, claim.round] += 2 * floor(money(accepted[slot].work, price))
    return owed


def wrong_places(order: OrderResponse) -> list[tuple[Panel, PanelPlace, Share | None]]:
    """Return the places that were decided against the chain, each with the share whose provider answers for it."""
    found = []
    for panel in order.panels:
        for place in panel.places:
            where = place.place
            # The ruling that made the round void counts, whatever a vote on a slash finds later.
            finding = place.first_finding if place.first_stage else place.finding
            if place.ruling is not Ruling.WRONG and not place.first_stage:
                continue
            share = None
            unavailable = finding and finding.kind is AnswerKind.UNAVAILABLE
            if where.kind is AuditKind.SEGMENT and place.claim and not unavailable:
                share = order.share(panel.round_key.share(where.slot, where.issue))
                if share and where.segment in share.drawn:
                    share = None
            found.append((panel, place, share))
    return found


def wrong_by_validator(order: OrderResponse, leg: Leg) -> bool:
    return any(share is None and panel.leg == leg.number for panel, _, share in wrong_places(order))


def wrong_shares(order: OrderResponse) -> set[ShareKey]:
    return {share.key for _, _, share in wrong_places(order) if share}


def lost_bonds(order: OrderResponse, noisy: set[tuple[str, int]]) -> Counter[str]:
    """Return what was cut from whose bonds, from legs and shares, and from what complaints have proven."""
    owed: Counter[int] = Counter()
    for (number, _), amount in redress(order).items():
        owed[number] += amount
    owed -= withheld(order)[1]
    lost: Counter[str] = Counter()
    params = order.order.params
    for leg in order.legs:
        end, cut = leg.end_reason, owed[leg.number]
        if end in (1, 2, 3, 4, 5):
            cut += min(leg.job_bond, params.payload_fee)
        elif end in (LegEnd.DECLINED_NO_CAPACITY, LegEnd.STATE_UNAVAILABLE, LegEnd.DECLINED_BY_CHOICE):
            part = Fraction(params.decline_fee_bps, 10_000)
            cut += floor(leg.job_bond * part)
        elif (
            (order.order.id.hex(), leg.number) in noisy or end == LegEnd.NOT_ACCEPTED or wrong_by_validator(order, leg)
        ):
            cut += leg.job_bond
        elif end in (LegEnd.WRONG_SHARE, LegEnd.UNDECIDED, LegEnd.STOPPED_BY_JOB):
            pass
        elif end and leg.progress_deadline and leg.round < leg.end_round:
            undone = Fraction(leg.rounds - leg.closed, leg.rounds)
            cut += ceil(leg.job_bond * undone)
        if leg.state is LegState.FAILED:
            cut += withheld(order)[1][leg.number]  # made good
        lost[leg.validator] += min(cut, leg.job_bond)
    for share in order.shares:
        is_forfeited = share.state is ShareState.WRONG and is_mismatch(share)
        if share.key in wrong_shares(order) or is_forfeited:
            lost[share.claim.provider] += share.bond
    return lost


@cache
def played(seed: int) -> tuple[World, Counter[str]]:
    """Play a world to its end, and return it with what happened in it."""
    with pytest.MonkeyPatch.context() as patch:
        if seed % 3 == 0:  # ends and verifications that take several blocks
            patch.setattr(orders, "BONDS_PER_CALL", 1)
            patch.setattr(settlement, "BONDS_PER_CALL", 1)
        world = World(seed)
        world.play()
        world.finish()
    seen: Counter[str] = Counter(event.type for event in world.chain.events)
    for order in world.chain.ask(OrdersRequest("", "", 0, 0, b"")).orders:
        seen[f"close {CloseReason(order.close_reason).name}"] += 1
        for leg in world.market.all_of(order.id).legs:
            seen["end " + (LegEnd(leg.end_reason).name if leg.end_reason else "")] += 1
    for event in world.chain.events:
        if event.type in ("share.skipped", "share.rejected"):
            seen[f"{event.type} {ShareReason(int(event.get('reason'))).name}"] += 1
        if event.type == "share.compared":
            seen["share.compared " + event.get("right")] += 1
        if event.type == "panel.stage":
            seen["stage " + event.get("stage")] += 1
        if event.type == "panel.ruled":
            seen[f"ruled {Ruling(int(event.get('ruling'))).name}"] += 1
        if event.type == "payment":
            seen["payment " + event.get("kind")] += 1
        if event.type == "part.ended":
            seen["part " + PartEnd(int(event.get("end"))).name] += 1
    return world, seen


@pytest.mark.parametrize("seed", [*SEEDS, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in MORE)])
def test_every_coin_is_where_the_protocol_puts_it(seed: int) -> None:
    world, _ = played(seed)
    chain = world.chain
    lost: Counter[str] = Counter()
    orders = chain.ask(OrdersRequest("", "", 0, 0, b"")).orders
    noisy = {(event.get("order"), int(event.get("leg"))) for event in chain.seen("handover.wrong")}
    for order in orders:
        found = world.market.all_of(order.id)
        ended = [event for event in chain.seen("part.ended") if event.get("order") == order.id.hex()]
        check_payments(found, {int(e.get("leg")): PartEnd(int(e.get("end"))) for e in ended})
        lost += lost_bonds(found, noisy)
    overlay = chain.overlay()
    for name in world.people():
        released = sum(int(event.get("amount")) for event in chain.seen("bond.released") if event.get("owner") == name)
        assert chain.bond(name) + released == BOND - lost[name], name
    stakes = sum(stake.tokens for stake in VALIDATOR_STAKES.scan(overlay))
    cuts = sum(int(event.get("cut")) for event in chain.seen("panel.silent"))
    cuts += sum(int(event.get("cut")) for event in chain.seen("panel.differed"))
    cuts += sum(int(event.get("from_stake")) for event in chain.seen("part.returned"))
    cuts += sum(int(event.get("amount")) for event in chain.seen("panel.slashed"))
    for field in ("paid_from_stake", "burnt_from_stake"):
        cuts += sum(int(event.get(field)) for event in chain.seen("share.compared"))
    assert stakes == sum(v.stake for v in chain.genesis.validators) - cuts
    numbers = [event.number for event in chain.events]
    assert numbers == list(range(1, len(numbers) + 1))


REACHED = (
    *(f"close {reason.name}" for reason in CloseReason),
    *(f"end {reason.name}" for reason in LegEnd),
    *("round.verified", "round.void", "panel.silent", "panel.differed", "panel.paid"),
    *("panel.waits", "order.deadline_moved", "share.wrong", "round.stopped"),
    *(f"stage {number}" for number in (1, 2, 3)),
    "panel.begun",
    *(f"ruled {name}" for name in ("RIGHT", "WRONG", "UNDECIDED")),
    *("share.accepted", "share.compared true", "share.compared false"),
    *("bond.released", "provider.left", "provider.admitted", "provider.dismissed"),
    *(f"share.skipped {name}" for name in ("MALFORMED", "BAD_SLOT")),
    *(f"share.skipped {name}" for name in ("NOT_IN_CLUSTER", "BAD_SIGNATURE", "NO_BOND")),
    *(f"share.rejected {ShareReason(reason).name}" for reason in VERDICTS),
    "share.rejected LEG_ENDED",
    *(f"payment {kind}" for kind in ("provider", "validator", "auditor", "protocol", "refund")),
    *(f"payment {kind}" for kind in ("bond_return", "compensation", "decline_fee", "burn")),
    "payment deposit_burn",
    "payment refund_burn",
    "handover.taken",
    "payment withheld_compensation",
    "part.returned",
    *("payment part_burn", "part.waits"),
    *(f"part {end.name}" for end in (PartEnd.TIME, PartEnd.ACKNOWLEDGED, PartEnd.DENIED)),
    "order.verified",
    *("panel.slashed", "panel.slash_vote", "panel.slash_vote_ended", "validator.fault"),
)


def test_the_worlds_reach_every_ending() -> None:
    """A property that is never tested holds by itself."""
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        seen += played(seed)[1]
    assert not [name for name in REACHED if not seen[name]]
