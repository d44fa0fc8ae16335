"""The amounts and chances of one order, from which the gains of strategies follow.

All amounts are in uassay. They come from the chain's own rules, so that a change of a rule changes the policy.
"""

from dataclasses import dataclass
from functools import cached_property

from domain.amount import BPS, PFLOP, bps_floor
from domain.disputes.params import DisputesParams
from domain.limits import EXECUTOR_VERSION
from domain.market.records import JobTerms
from domain.order_params import OrderParams
from domain.params import Params
from domain.proof.records import AuditKind
from escrow.settle import Earnings, audit_fee, settle_round, share_bond
from matching_engine.records import price_bps
from pol.policy.capture import capture_chance
from pol.policy.formulas import detection_of
from pol.rules.disputes import STAGES_PAID, needed_bond
from pol.rules.panels import (
    GROUP_SEATS,
    audit_price,
    count_groups,
    least_segments,
    panel_fee,
    place_work,
    seat_cut,
    seat_cut_max,
    segment_count,
)
from pol.rules.schedule import round_work, segment_work, share_segments, share_work, total_work
from pol.rules.slashes import choose_places, compute_slash
from pol.rules.tiers.table import DEFAULT_TIERS, attested_params, tier_named


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyInputs:
    """The inputs of a policy.

    - ``price``: the price of the order's work, in uassay per PFLOP.
    - ``cost_bps``: the honest cost of training, as a part of its price.
    - ``replay_cost``: the cost of recomputing, in uassay per PFLOP.
    - ``providers_bps``: the part of the bid for providers.
    - ``validators`` and ``stake``: the number of validators, and the stake (uassay) of each.
    - ``coalition``: the number of other validators that work together with the winner.
    - ``own_picks``: the segments of a share that a validator's daemon replays besides its duty.
    - ``wrong_bps``: the part of the segments that a watchtower recomputes and finds wrong.
    - ``side``: the profit (uassay) of a wrong round besides saved work.
    - ``multiple``: the share bond, as a multiple of the price of the share.
    - ``cover_bps``: the part of the job bond that pays right shares of other providers.
    - ``tier``: the tier in which the order's rounds are verified.
    - ``attested``: whether all providers have credentials, and bonds for the lower floor of the audit rate.
    """

    price: int = 10**6
    cost_bps: int = 6_000
    replay_cost: int | None = None
    providers_bps: int = 8_000
    validators: int = 100
    stake: int = 10**10
    coalition: int = 10
    own_picks: int = 1
    wrong_bps: int = 100
    side: int = 0
    multiple: int = 1
    cover_bps: int = BPS
    tier: str = DEFAULT_TIERS[0]
    attested: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceJob:
    """The size of a job for which a policy is computed if no job directory is given.

    Its defaults are those of a small language model: a round of 8 slots with 50 segments of 3 steps of 10^11 FLOPs.
    """

    slots: int = 8
    segments: int = 50
    segment_steps: int = 3
    step_work: int = 10**11
    rounds: int = 40
    state_bytes: int = 50_000_000
    data_bytes: int = 100_000_000

    @property
    def terms(self) -> JobTerms:
        """The terms of an order for the job; the hashes are zeros."""
        return JobTerms(
            job_id=bytes(32),
            payload_bytes=2 * self.state_bytes,
            data_bytes=self.data_bytes,
            global_root=bytes(32),
            local_root=bytes(32),
            data_root=bytes(32),
            rounds=self.rounds,
            slots=self.slots,
            round_steps=self.segments * self.segment_steps,
            batch=32,
            segment_steps=self.segment_steps,
            step_work=self.step_work,
            outer_work=self.slots * 15 * self.state_bytes + 10**9,
            global_bytes=self.state_bytes,
            local_bytes=2 * self.state_bytes,
            update_bytes=self.state_bytes,
            global_chunks=1,
            local_chunks=1,
            executor_version=EXECUTOR_VERSION,
        )


class OrderAmounts:
    """The amounts (uassay) and chances of an order with given terms, parameters and inputs."""

    def __init__(self, terms: JobTerms, params: Params, inputs: PolicyInputs) -> None:
        """Store the terms of the job, the chain's parameters, and the inputs."""
        self.terms, self.params, self.inputs = terms, params, inputs
        rules = params.for_order()
        self.rules: OrderParams = attested_params(rules) if inputs.attested else rules
        self.tier = tier_named(inputs.tier)

    # --- work ------------------------------------------------------------------------------------

    @cached_property
    def share_segments(self) -> int:
        """The segments of a share."""
        return share_segments(self.terms)

    @cached_property
    def segments(self) -> int:
        """The segments of a round."""
        return self.terms.slots * self.share_segments

    @cached_property
    def segment_value(self) -> float:
        """The price of a segment's work."""
        return segment_work(self.terms) * self.inputs.price / PFLOP

    @cached_property
    def segment_saved(self) -> float:
        """The cost that a made-up segment saves."""
        return self.saved(self.segment_value)

    def saved(self, value: float) -> float:
        """Return the honest cost of work with this price."""
        return value * self.inputs.cost_bps / BPS

    @cached_property
    def outer_saved(self) -> float:
        """The cost that a made-up aggregation saves."""
        return self.saved(self.terms.outer_work * self.inputs.price / PFLOP)

    def replayed(self, work: int) -> float:
        """Return the cost of recomputing this work (FLOPs)."""
        if self.inputs.replay_cost is not None:
            return work * self.inputs.replay_cost / PFLOP
        return self.saved(work * self.inputs.price / PFLOP)

    @cached_property
    def check_cost(self) -> float:
        """The cost of recomputing one segment."""
        return self.replayed(place_work(self.terms, AuditKind.SEGMENT))

    # --- money -----------------------------------------------------------------------------------

    @cached_property
    def price(self) -> int:
        """The price of the order's work."""
        return total_work(self.terms) * self.inputs.price // PFLOP

    @cached_property
    def earnings(self) -> Earnings:
        """The earnings of a verified round; each slot has a provider of its own."""
        shares = [(str(slot), share_work(self.terms)) for slot in range(self.terms.slots)]
        return settle_round(
            round_work(self.terms),
            self.inputs.price,
            protocol_bps=self.rules.protocol_bps,
            audit_bps=self.rules.audit_bps if self.rules.auditors else 0,
            providers_bps=self.inputs.providers_bps,
            shares=shares,
        )

    @cached_property
    def share_pay(self) -> int:
        """The pay of a share in a verified round."""
        return self.earnings.providers[0][1]

    @cached_property
    def shares_pay(self) -> int:
        """The pay of all shares of a verified round."""
        return sum(amount for _, amount in self.earnings.providers)

    @cached_property
    def part(self) -> int:
        """The validator's part of a verified round."""
        return self.earnings.validator

    @cached_property
    def share_bond(self) -> int:
        """The bond of a share."""
        return share_bond(share_work(self.terms), self.inputs.price, self.multiple)

    @cached_property
    def multiple(self) -> int:
        """The bond of a share as a multiple of its price: that of the inputs, but at least the tier's least."""
        least = self.tier.least_multiple(self.terms, self.inputs.price, self.job_bond, self.rules)
        return max(self.inputs.multiple, least)

    @cached_property
    def share_price(self) -> int:
        """The price of a share, of which the bond is a multiple."""
        return share_bond(share_work(self.terms), self.inputs.price)

    @cached_property
    def cover(self) -> int:
        """The part of the job bond that pays right shares of other providers."""
        return bps_floor(self.job_bond, self.inputs.cover_bps)

    @cached_property
    def job_bond(self) -> int:
        """The job bond of a bid at the order's price limit."""
        bond = price_bps(total_work(self.terms), self.inputs.price, self.rules.job_bond_bps)
        return max(self.rules.payload_fee, bond)

    @cached_property
    def slash(self) -> int:
        """The slash of a winner for a wrong round, or 0 if the slash could not pay for the vote."""
        slash = compute_slash(self.rules, self.inputs.stake, self.price, 0)
        cost = self.cost_of(AuditKind.AGGREGATION)
        return slash if choose_places([(0, cost)], self.rules, self.eligible, slash) else 0

    # --- checks ----------------------------------------------------------------------------------

    @cached_property
    def eligible(self) -> int:
        """The validators that can have a seat, which are all but the winner."""
        return self.inputs.validators - 1

    @cached_property
    def auditors(self) -> int:
        """The seats of a first stage."""
        return min(self.rules.auditors, self.eligible)

    @cached_property
    def groups(self) -> int:
        """The groups of places of a panel, if no other panel waits."""
        if not self.rules.auditors:
            return 0
        price = self.inputs.price
        least = self.tier.floor(self.terms, price, self.rules)
        fee = max(least, audit_fee(round_work(self.terms), price, self.rules.audit_bps))
        return count_groups(self.terms, self.tier.paid(self.rules), price, fee, self.eligible // GROUP_SEATS)

    @cached_property
    def fee(self) -> int:
        """The audit fee of a round."""
        if not self.groups:
            return 0
        return panel_fee(self.terms, self.tier.paid(self.rules), self.inputs.price, self.groups)

    @cached_property
    def drawn(self) -> int:
        """The segments that a panel draws."""
        return segment_count(self.terms, self.rules, self.groups) if self.groups else 0

    @cached_property
    def rate_bps(self) -> int:
        """The chance (bps) that a round gets a panel."""
        return self.tier.rate(self.terms, self.inputs.price, self.job_bond, self.rules)

    @cached_property
    def rate(self) -> float:
        """The chance that a round gets a panel."""
        return self.rate_bps / BPS

    def found_by_panel(self, wrong: int, coalition: int = 0) -> float:
        """Return the chance that a round has a panel that draws a ``wrong`` segment and rules against it."""
        drawn = detection_of(self.segments, wrong, min(self.drawn, self.segments))
        return self.rate * drawn * (1 - self.captured(coalition, for_chain=True))

    def captured(self, coalition: int, *, for_chain: bool) -> float:
        """Return the chance that a coalition decides a place."""
        return capture_chance(self.tier, self.auditors, self.eligible, coalition, for_chain=for_chain)

    def in_duty(self, wrong: int) -> float:
        """Return the chance that the duty of a share's validator has one of the ``wrong`` segments of the share."""
        if self.segments <= self.rules.duty_segments:
            return float(wrong > 0)
        return 1 - float((1 - wrong / self.segments) ** self.rules.duty_segments)

    def found_by_validator(self, wrong: int) -> float:
        """Return the chance that an honest validator replays one of the ``wrong`` segments of a share."""
        picks = min(self.inputs.own_picks, self.share_segments)
        return 1 - (1 - self.in_duty(wrong)) * (1 - detection_of(self.share_segments, wrong, picks))

    # --- seats -----------------------------------------------------------------------------------

    def cost_of(self, kind: AuditKind) -> int:
        """Return the pay of a seat for one place."""
        return self.tier.cost(self.terms, kind, audit_price(self.rules, self.inputs.price))

    @cached_property
    def seat_places(self) -> tuple[AuditKind, ...]:
        """The kinds of the places of a seat in the first group."""
        segments = least_segments(self.terms, self.rules)
        return (AuditKind.AGGREGATION, AuditKind.UPDATE, *[AuditKind.SEGMENT] * segments)

    @cached_property
    def seat_pay(self) -> int:
        """The pay of a seat of the first group."""
        return sum(self.cost_of(kind) for kind in self.seat_places) + self.rules.answer_fee

    @cached_property
    def seat_cost(self) -> float:
        """The cost of recomputing the places of a seat of the first group."""
        return self.replayed(sum(place_work(self.terms, kind) for kind in self.seat_places))

    def seat_loss(self, times: int, *, refuted: bool) -> int:
        """Return the loss of a seat that is silent, or that a ruling refutes in all its places."""
        pay = self.seat_pay - self.rules.answer_fee
        least = self.round_price // max(1, self.rules.auditors) if refuted else 0
        return min(seat_cut(self.rules, pay, times, least), seat_cut_max(self.rules, self.inputs.stake))

    def challenge_bond(self, kind: AuditKind) -> int:
        """Return the bond that a challenge of a place needs, if it is the only one of its round."""
        least = self.params.of(DisputesParams).challenge_min
        seats = STAGES_PAID * self.rules.auditors
        return needed_bond(self.cost_of(kind), self.rules.answer_fee, seats, 0, least)

    @cached_property
    def round_price(self) -> int:
        """The price of a round's work."""
        return round_work(self.terms) * self.inputs.price // PFLOP
