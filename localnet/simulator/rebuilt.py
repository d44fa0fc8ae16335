"""A second set of books, kept from the genesis and the events of a chain alone (protocol 1.4).

What follows from other fields by a rule of the protocol (the work of a share, whose failure counts) is worked out here;
everything else stands in an event. :func:`check_books` compares with what the state machine has.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import singledispatchmethod
from hashlib import sha256
from types import MappingProxyType
from typing import Any

from chain.state_machine.authz.tables import AUTHORIZATIONS
from chain.state_machine.context import PARAMS
from chain.state_machine.disputes.tables import DISPUTES
from chain.state_machine.distribution.tables import REWARDS, STARTS, TOTALS, WITHDRAW_ADDRESSES
from chain.state_machine.feegrant.tables import FEE_GRANTS
from chain.state_machine.gas_price import GAS_PRICE
from chain.state_machine.gov.tables import DEPOSITS, PROPOSALS, VOTES
from chain.state_machine.ledger.tables import BOND_ACCOUNTS, BOND_ROWS, ESCROWS, PAYMENTS, POTS
from chain.state_machine.legs.tables import LEGS, SLOT_STARTS
from chain.state_machine.market.tables import BIDS, ORDERS
from chain.state_machine.mint.tables import MINTER
from chain.state_machine.proof.tables import DELIVERIES, PANEL_POTS, PANELS, RECEIPT_ASKS, ROUNDS, SEATS, SHARES
from chain.state_machine.registry.tables import PROVIDERS, VALIDATORS
from chain.state_machine.slashing.tables import EVIDENCE, SIGNING_INFOS
from chain.state_machine.staking.tables import (
    DELEGATIONS,
    REDELEGATIONS,
    UNBONDING_POOLS,
    UNBONDINGS,
    VALIDATOR_STAKES,
)
from chain.state_machine.store import Overlay
from chain.state_machine.tables import Space, number_of, parts_of
from domain.authz.records import AuthorizationGrant
from domain.disputes.events import (
    ChallengeCommitted,
    ChallengeJoined,
    ChallengeOpened,
    ChallengerRewarded,
    ChallengesWaived,
    DisputeEnded,
    StandOpened,
)
from domain.disputes.records import Dispute, DisputeState
from domain.distribution.records import DistributionTotals, ValidatorRewards, WithdrawAddress
from domain.events import Change, Event
from domain.feegrant.records import FeeGrant
from domain.genesis import Genesis
from domain.gov.records import Deposit, Proposal, Vote
from domain.keys import PanelKey, RoundKey, ShareKey
from domain.ledger.events import BondDeposited, BondReleased, BondWithdrawing, PaymentMade
from domain.ledger.records import (
    APPEAL_SLOT,
    CHALLENGE_SLOT,
    RESULT_SLOT,
    BondAccount,
    BondKind,
    BondRow,
    Depositor,
    Escrow,
    Payment,
    Withdrawal,
)
from domain.legs.events import (
    LegDeadlinesMoved,
    LegFailed,
    OrderAccepted,
    OrderDeclined,
    OrderMatched,
    OrderProven,
    OrderRestarted,
    OrderSettled,
    PartEnded,
    PartReturned,
    PartWaits,
    ProgressRestarted,
    SlotStarted,
    StatesLacked,
)
from domain.legs.reasons import LegEnd, PartEnd
from domain.legs.records import Leg, LegState, SlotStart
from domain.market.events import (
    BidChanged,
    BidClosed,
    BidPlaced,
    DeadlineMoved,
    OrderClosed,
    OrderExcluded,
    OrderHeld,
    OrderOpened,
    OrderReleased,
    OrderSubmitted,
    OrderUnmatched,
)
from domain.market.reasons import CloseReason
from domain.market.records import Bid, Order, OrderState
from domain.mint.events import CoinsMinted
from domain.mint.records import Minter
from domain.node.events import GasPriceChanged, RulesChanged
from domain.params import make_params
from domain.proof.events import (
    AnswerCommitted,
    AnswerRevealed,
    DeliveryFoundWrong,
    DeliveryKeyShown,
    DeliveryReceived,
    DeliveryWitnessed,
    DisputePanelOpened,
    HandoverFoundWrong,
    HandoverTaken,
    LeafShown,
    OrderVerified,
    PanelBegun,
    PanelEnded,
    PanelSkipped,
    PanelWaits,
    PlaceDrawn,
    PlaceRuled,
    ReceiptAsked,
    ResultMissed,
    ResultRuled,
    RoomTaken,
    RoundCleared,
    RoundClosed,
    RoundStopped,
    RoundVerified,
    RoundVoid,
    RulingAppealed,
    RulingWaits,
    SeatDiffered,
    SeatPaid,
    SeatRevealed,
    SeatSilent,
    ShareAccepted,
    ShareCommitted,
    ShareCompared,
    ShareDrawn,
    ShareFoundWrong,
    ShareIncluded,
    ShareRejected,
    ShareSkipped,
    ShareStood,
    ShareTaken,
    SlashVoteEnded,
    SlashVoteOpened,
    StageEnded,
    StageOpened,
    StatesPanelOpened,
    StatesRuled,
    ValidatorSlashed,
    VoidSharePaid,
    WitnessesDrawn,
)
from domain.proof.reasons import ShareReason
from domain.proof.records import (
    AnswerKind,
    AuditKind,
    AuditPlace,
    DeliveryManifest,
    Finding,
    Panel,
    PanelPlace,
    PanelSeat,
    ReceiptAsk,
    Round,
    Ruling,
    SeatAnswer,
    Share,
    ShareClaim,
    ShareRoots,
    ShareState,
    ShownDelivery,
)
from domain.registry.events import (
    AuditsPromised,
    BeaconKeyRevoked,
    BeaconKeySet,
    EndpointSet,
    FaultCounted,
    ProviderAdmitted,
    ProviderCertified,
    ProviderDismissed,
    ProviderLeft,
    ProviderRegistered,
    ValidatorReleased,
)
from domain.registry.records import BeaconKey, Provider, Validator
from domain.slashing.records import Evidence, SigningInfo
from domain.staking.events import ValidatorUnbonding
from domain.staking.records import BondStatus, Delegation, Redelegation, Unbonding, UnbondingPool, ValidatorStake
from domain.vocabulary import read_event
from localnet.simulator.rebuilt_authz import AuthzBooks, AuthzChange
from localnet.simulator.rebuilt_distribution import DistributionBooks, DistributionChange
from localnet.simulator.rebuilt_feegrant import FeeGrantBooks, FeeGrantChange
from localnet.simulator.rebuilt_gov import GovBooks, GovChange
from localnet.simulator.rebuilt_slashing import SlashingBooks, SlashingChange
from localnet.simulator.rebuilt_staking import StakingBooks, StakingChange
from pol.rules.schedule import share_work
from pol.rules.stops import done_work

FROM_DEPOSITS = frozenset(
    (
        "provider",
        "validator",
        "auditor",
        "protocol",
        "deposit_burn",
        "refund_burn",
        "withheld_compensation",
        "withheld_burn",
        "part_burn",
    )
)
"""Payments that use up a deposit; a refund returns what is left of it."""
FROM_WITHHELD = frozenset(("validator", "withheld_compensation", "withheld_burn", "part_burn"))
BURNS = frozenset(("burn", "deposit_burn", "refund_burn", "withheld_burn", "part_burn"))
TO_POOL = frozenset(("protocol", "decline_fee"))
BLAMES_JOB = frozenset(
    (
        LegEnd.PAYLOAD_NOT_DELIVERED,
        LegEnd.DECLINED_BAD_JOB,
        LegEnd.DECLINED_WORK_MISMATCH,
        LegEnd.DECLINED_TOO_SLOW,
        LegEnd.DECLINED_NOT_FINITE,
    )
)
NOBODYS = frozenset((LegEnd.WRONG_SHARE, LegEnd.UNDECIDED))
"""Ends of a running leg that are not its validator's fault."""


class Rebuilt:
    """The records of a chain as its events tell them, by the parts of their keys."""

    def __init__(self, genesis: Genesis) -> None:
        self.rules = genesis.rules[0].version
        self.gas_prices: dict[Parts, int] = {}
        self.fee_granting = FeeGrantBooks()
        self.fee_grants = self.fee_granting.grants
        self.authorizing = AuthzBooks()
        self.authorizations = self.authorizing.grants
        self.staking = StakingBooks(genesis)
        bonded = {name for name, stake in self.staking.stakes.items() if stake.status is BondStatus.BONDED}
        self.validators = {
            v.operator: Validator(
                operator=v.operator,
                moniker=v.moniker,
                cons_key=v.cons_key,
                cons_address=sha256(v.cons_key).digest()[:20],
                stake=v.stake if v.operator in bonded else 0,
                jailed=False,
                endpoint=v.endpoint,
                certificate=v.certificate,
                orders_settled=0,
                legs_failed=0,
                audits_answered=0,
                audits_missed=0,
                beacon_keys=(BeaconKey(v.beacon_key, 1),),
                audit_speed=v.audit_speed,
                audit_rate=v.audit_rate,
            )
            for v in genesis.validators
        }
        self.slashing = SlashingBooks(genesis, bonded)
        self.signing_infos = self.slashing.infos
        self.evidence = self.slashing.evidence
        self.stakes = self.staking.stakes
        self.delegations = self.staking.delegations
        self.unbonding_pools = self.staking.pools
        self.unbondings = self.staking.unbondings
        self.redelegations = self.staking.redelegations
        self.minters: dict[tuple[()], Minter] = {}
        self.sharing = DistributionBooks(self.stakes)
        self.totals = self.sharing.totals
        self.rewards = self.sharing.rewards
        self.starts = self.sharing.starts
        self.paid_to = self.sharing.paid_to
        self.governing = GovBooks(genesis)
        self.proposals = self.governing.proposals
        self.proposal_deposits = self.governing.deposits
        self.votes = self.governing.votes
        self.providers: dict[str, Provider] = {}
        self.bonds: dict[str, BondAccount] = {}
        self.bids: dict[bytes, Bid] = {}
        self.orders: dict[bytes, Order] = {}
        self.legs: dict[tuple[bytes, int], Leg] = {}
        self.openings: dict[tuple[bytes, int, int], SlotStart] = {}
        self.shares: dict[ShareKey, Share] = {}
        self.deliveries: dict[ShareKey, ShownDelivery] = {}
        self.asks: dict[ShareKey, ReceiptAsk] = {}
        self.rounds: dict[RoundKey, Round] = {}
        self.panels: dict[PanelKey, Panel] = {}
        self.seats: dict[tuple[PanelKey, int], PanelSeat] = {}
        self.pots: dict[PanelKey, int] = {}
        self.disputes: dict[PanelKey, Dispute] = {}
        self.escrows: dict[bytes, Escrow] = {}
        self.bond_rows: dict[tuple[bytes, int, int, int, int], BondRow] = {}
        self.payments: dict[tuple[bytes, int], Payment] = {}
        self.fees = self.community = self.burnt = self.distribution = 0
        self.number = 0
        # The number of payments of an order.
        self._paid: dict[bytes, int] = {}
        # The local state that a slot's last accepted share of a leg left.
        self._locals: dict[tuple[bytes, int, int], bytes] = {}
        # Seats that differ from a ruling, of panels that go on.
        self._differed: set[tuple[PanelKey, str, int]] = set()

    def follow(self, events: Iterable[Event]) -> None:
        """Take events in the order of their numbers, and fees with those of their transaction."""
        for event in events:
            if event.type == "tx" and event.get("fee"):
                self.fees += int("".join(filter(str.isdigit, event.get("fee"))))
            change = read_event(event) if event.number else None
            if change is not None:
                self.number += 1
                assert event.number == self.number, f"event {event.number} behind {self.number - 1}"
                self.take(change)

    @singledispatchmethod
    def take(self, change: Change) -> None:
        """Change the books as an event tells."""
        raise AssertionError(f"the books have no row for {type(change).__name__}")

    # Rules

    @take.register
    def _(self, change: RulesChanged) -> None:
        self.rules = change.version

    @take.register
    def _(self, change: GasPriceChanged) -> None:
        self.gas_prices[()] = change.price_millionths

    # Members

    def _validator(self, operator: str, **changes: Any) -> None:
        self.validators[operator] = replace(self.validators[operator], **changes)

    @take.register
    def _(self, change: FeeGrantChange) -> None:
        self.fee_granting.take(change)

    @take.register
    def _(self, change: AuthzChange) -> None:
        self.authorizing.take(change)

    @take.register
    def _(self, change: StakingChange) -> None:
        for operator in self.staking.take(change):
            stake = self.stakes[operator]
            is_backing = stake.status is BondStatus.BONDED and not stake.jailed
            if isinstance(change, ValidatorUnbonding):
                self.slashing.stop(operator)
            if operator not in self.validators:
                self.slashing.name(operator, stake.cons_key)
                self.validators[operator] = Validator(
                    operator=operator,
                    moniker="",
                    cons_key=stake.cons_key,
                    cons_address=sha256(stake.cons_key).digest()[:20],
                    stake=0,
                    jailed=False,
                    endpoint="",
                    certificate=b"",
                    orders_settled=0,
                    legs_failed=0,
                    audits_answered=0,
                    audits_missed=0,
                )
            name = stake.description.moniker
            self._validator(operator, moniker=name, stake=stake.tokens if is_backing else 0)

    @take.register
    def _(self, change: CoinsMinted) -> None:
        self.fees += change.amount
        self.minters.pop((), None)
        if change.minter != Minter():
            self.minters[()] = change.minter

    @take.register
    def _(self, change: DistributionChange) -> None:
        for pot, amount in self.sharing.take(change).items():
            setattr(self, pot, getattr(self, pot) + amount)

    @take.register
    def _(self, change: GovChange) -> None:
        self.burnt += self.governing.take(change)

    @take.register
    def _(self, change: SlashingChange) -> None:
        self.burnt += self.slashing.take(change)

    def _provider(self, address: str, **changes: Any) -> None:
        self.providers[address] = replace(self.providers[address], **changes)

    @take.register
    def _(self, change: EndpointSet) -> None:
        self._validator(change.operator, endpoint=change.endpoint, certificate=change.certificate)

    @take.register
    def _(self, change: BeaconKeySet) -> None:
        self._drop_keys(change.operator, change.dropped)
        keys = self.validators[change.operator].beacon_keys
        added = BeaconKey(change.beacon_key, change.valid_from)
        self._validator(change.operator, beacon_keys=(*keys, added))

    @take.register
    def _(self, change: BeaconKeyRevoked) -> None:
        self._drop_keys(change.operator, change.dropped)

    def _drop_keys(self, operator: str, dropped: tuple[bytes, ...]) -> None:
        keys = self.validators[operator].beacon_keys
        self._validator(operator, beacon_keys=tuple(k for k in keys if k.key not in dropped))

    @take.register
    def _(self, change: AuditsPromised) -> None:
        self._validator(
            change.operator,
            audit_speed=change.speed,
            audit_rate=change.rate,
            promise_halved_at=change.promise_halved_at,
            silent_at=change.silent_at,
        )

    @take.register
    def _(self, change: FaultCounted) -> None:
        self._validator(change.operator, faults=change.faults)
        if change.jailed_until:
            self._validator(change.operator, jailed=True, jailed_until=change.jailed_until)

    @take.register
    def _(self, change: ValidatorReleased) -> None:
        self._validator(change.operator, jailed=False, jailed_until=0)

    @take.register
    def _(self, change: ProviderRegistered) -> None:
        known = self.providers.get(change.provider)
        if known is None:
            known = Provider(
                address=change.provider,
                validator="",
                pub_key=change.pub_key,
                capability=None,
                shares_accepted=0,
                shares_rejected=0,
            )
        self.providers[change.provider] = replace(known, validator=change.validator)

    @take.register
    def _(self, change: ProviderLeft | ProviderDismissed) -> None:
        self._provider(change.provider, validator="", admitted=False, capability=None)

    @take.register
    def _(self, change: ProviderAdmitted) -> None:
        self._provider(change.provider, admitted=True)

    @take.register
    def _(self, change: ProviderCertified) -> None:
        self._provider(change.provider, capability=change.capability)

    # Bond accounts

    def _free(self, owner: str, amount: int) -> None:
        known = self.bonds.get(owner) or BondAccount(owner, 0, ())
        self.bonds[owner] = replace(known, free=known.free + amount)

    @take.register
    def _(self, change: BondDeposited) -> None:
        self._free(change.owner, change.amount)

    @take.register
    def _(self, change: BondWithdrawing) -> None:
        self._free(change.owner, -change.amount)
        known = self.bonds[change.owner]
        waiting = (*known.withdrawals, Withdrawal(change.amount, change.release_at))
        self.bonds[change.owner] = replace(known, withdrawals=waiting)

    @take.register
    def _(self, change: BondReleased) -> None:
        # The entry that waits longest comes first.
        known, left = self.bonds[change.owner], change.amount
        waiting = known.withdrawals
        while left > 0:
            left -= waiting[0].amount
            waiting = waiting[1:]
        assert left == 0, f"{change.owner} gets a part of a withdrawal"
        self.bonds[change.owner] = replace(known, withdrawals=waiting)

    # The book

    @take.register
    def _(self, change: BidPlaced) -> None:
        self.bids[change.bid] = change.record

    @take.register
    def _(self, change: BidChanged) -> None:
        known = self.bids[change.bid]
        self.bids[change.bid] = replace(
            known,
            offer=replace(known.offer, price=change.price),
            capacity=change.capacity,
            expires_at=change.expires_at,
            placed_height=change.placed_height,
        )

    @take.register
    def _(self, change: BidClosed) -> None:
        del self.bids[change.bid]

    def _reserve(self, bid: bytes, work: int) -> None:
        known = self.bids.get(bid)
        if known is not None:
            self.bids[bid] = replace(known, reserved=known.reserved + work)

    # Orders

    def _order(self, order: bytes, **changes: Any) -> None:
        self.orders[order] = replace(self.orders[order], **changes)

    def _leg(self, order: bytes, leg: int, **changes: Any) -> None:
        key = order, leg
        before = self.legs[key]
        after = self.legs[key] = replace(before, **changes)
        if before.is_live and not after.is_live:
            self._reserve(before.bid_id, -before.work)

    @take.register
    def _(self, change: OrderSubmitted) -> None:
        row = Depositor(address=change.consumer, locked=change.deposit, paid=0, refunded=0)
        self.orders[change.order] = change.record
        self.escrows[change.order] = Escrow(change.order, (row,), ())
        self._paid[change.order] = 0

    @take.register
    def _(self, change: OrderOpened) -> None:
        # A provider's fault counts if its validator does not continue.
        last = self.legs.get((change.order, change.leg))
        if last is not None and last.end_reason == LegEnd.WRONG_SHARE:
            self._count_failure(change.order)
        self._order(
            change.order,
            state=OrderState.OPEN,
            opened_at=change.opened_at,
            opened_height=change.opened_height,
            expires_at=change.expires_at,
            unmatched=(),
        )

    @take.register
    def _(self, change: OrderUnmatched) -> None:
        self._order(change.order, unmatched=change.failed)

    @take.register
    def _(self, change: OrderExcluded) -> None:
        known = self.orders[change.order].excluded
        self._order(change.order, excluded=tuple(sorted({*known, change.validator})))

    @take.register
    def _(self, change: OrderMatched) -> None:
        offer = self.bids[change.bid].offer
        self._order(change.order, state=OrderState.MATCHED, legs=change.leg, unmatched=())
        self.legs[change.order, change.leg] = Leg(
            order_id=change.order,
            number=change.leg,
            bid_id=change.bid,
            validator=change.validator,
            price=change.price,
            tier=change.tier,
            first_round=change.first_round,
            rounds=change.rounds,
            first_slot=change.first_slot,
            slots=change.slots,
            work=change.work,
            job_bond=change.job_bond,
            providers_bps=offer.providers_bps,
            slot_speed=offer.slot_speed,
            slots_at_once=offer.slots,
            state=LegState.MATCHED,
            end_reason=0,
            matched_at=change.matched_at,
            accept_deadline=change.accept_deadline,
            progress_deadline=0,
            round=change.first_round,
            verified=0,
            void=0,
            initial_root=change.initial_root,
            global_in=change.initial_root,
            settles_at=0,
            from_leg=change.from_leg,
        )
        self._begin_slots(change)
        self._reserve(change.bid, change.work)
        row = BondRow(
            kind=BondKind.JOB, owner=change.validator, leg=change.leg, round=0, slot=0, issue=0, amount=change.job_bond
        )
        self._lock(change.order, row)

    def _begin_slots(self, change: OrderMatched) -> None:
        if not change.from_leg:
            return
        last = RoundKey(change.order, change.from_leg, change.first_round - 1)
        for key in self.rounds[last].share_keys:
            roots = self.shares[key].roots
            assert roots is not None
            self._locals[change.order, change.leg, key.slot] = roots.local_out

    @take.register
    def _(self, change: PartWaits) -> None:
        self._leg(change.order, change.leg, part=change.amount, part_until=change.until)

    @take.register
    def _(self, change: PartEnded) -> None:
        self._leg(change.order, change.leg, part=0, part_until=0)
        if change.end in (PartEnd.UNAVAILABLE, PartEnd.COMPLAINT):
            self._withhold(change.order, -change.amount)

    @take.register
    def _(self, change: SlotStarted) -> None:
        key = change.order, change.leg, change.slot
        self.openings[key] = SlotStart(
            order_id=change.order, leg=change.leg, slot=change.slot, local_root=change.local_root
        )
        self._locals[key] = change.local_root

    @take.register
    def _(self, change: OrderAccepted) -> None:
        self._order(change.order, state=OrderState.RUNNING)
        self._leg(change.order, change.leg, state=LegState.RUNNING)

    @take.register
    def _(self, change: ProgressRestarted) -> None:
        self._leg(change.order, change.leg, progress_deadline=change.deadline)

    @take.register
    def _(self, change: OrderDeclined) -> None:
        self._fail(change)
        if change.reason in BLAMES_JOB:
            self._count_failure(change.order)

    @take.register
    def _(self, change: LegFailed) -> None:
        self._fail(change)
        self._leg(change.order, change.leg, left_at=change.left_at)
        if change.reason != LegEnd.WRONG_SHARE:
            self._count_failure(change.order)
        if change.reason not in NOBODYS:
            failed = self.validators[change.validator].legs_failed
            self._validator(change.validator, legs_failed=failed + 1)

    def _fail(self, change: OrderDeclined | LegFailed) -> None:
        state = LegState.FAILED
        self._leg(change.order, change.leg, state=state, end_reason=change.reason)

    def _count_failure(self, order: bytes) -> None:
        self._order(order, failures=self.orders[order].failures + 1)

    @take.register
    def _(self, change: OrderProven) -> None:
        self._order(change.order, state=OrderState.PROVEN)
        self._leg(change.order, change.leg, state=LegState.PROVEN)

    @take.register
    def _(self, change: OrderVerified) -> None:
        self._leg(change.order, change.leg, settles_at=change.settles_at)

    @take.register
    def _(self, change: StatesLacked) -> None:
        self._leg(change.order, change.leg, asked=change.asked)

    @take.register
    def _(self, change: OrderRestarted) -> None:
        self._order(change.order, next_round=change.next_round, work_verified=change.work_verified)
        self._leg(change.order, change.leg, back_leg=change.back_leg, back_root=change.root)

    @take.register
    def _(self, change: OrderHeld | OrderReleased) -> None:
        """Nothing that others read tells of holds, but the events."""

    @take.register
    def _(self, change: LegDeadlinesMoved) -> None:
        self._leg(
            change.order,
            change.leg,
            accept_deadline=change.accept_deadline,
            progress_deadline=change.progress_deadline,
        )

    @take.register
    def _(self, change: DeadlineMoved) -> None:
        self._order(change.order, deadline=change.deadline)

    @take.register
    def _(self, change: OrderSettled) -> None:
        done = LegState.DONE
        self._leg(change.order, change.leg, state=done, end_reason=change.reason)
        settled = self.validators[change.validator].orders_settled
        self._validator(change.validator, orders_settled=settled + 1)

    @take.register
    def _(self, change: OrderClosed) -> None:
        reason = CloseReason(change.reason)
        self._order(change.order, state=OrderState.CLOSED, close_reason=int(reason))

    # Money of orders

    def _lock(self, order: bytes, row: BondRow) -> None:
        if row.amount:
            self._free(row.owner, -row.amount)
            self.bond_rows[order, row.leg, row.round, row.slot, row.issue] = row

    @take.register
    def _(self, change: PaymentMade) -> None:
        payment = Payment(to=change.to, kind=change.kind, amount=change.amount, round=change.round)
        number = self._paid[change.order]
        self.payments[change.order, number] = payment
        self._paid[change.order] = number + 1
        if change.leg:
            self._pay_from_bond(change)
        else:
            self._pay_from_deposit(change)
        self.burnt += change.amount if change.kind in BURNS else 0
        self.community += change.amount if change.kind in TO_POOL else 0

    def _pay_from_bond(self, change: PaymentMade) -> None:
        round = change.round if change.issue else 0
        key = change.order, change.leg, round, change.slot, change.issue
        row = self.bond_rows.pop(key)
        if row.amount > change.amount:
            self.bond_rows[key] = replace(row, amount=row.amount - change.amount)
        if change.kind == "bond_return":
            self._free(change.to, change.amount)

    def _pay_from_deposit(self, change: PaymentMade) -> None:
        escrow, left, rows = self.escrows[change.order], change.amount, []
        for row in escrow.depositors:
            if change.kind == "refund":
                part = left if row.address == change.to else 0
                rows.append(replace(row, locked=row.locked - part, refunded=row.refunded + part))
            else:
                assert change.kind in FROM_DEPOSITS, change.kind
                part = min(left, row.locked)
                rows.append(replace(row, locked=row.locked - part, paid=row.paid + part))
            left -= part
        assert left == 0, "a deposit pays more than it has"
        used = change.amount if change.kind in FROM_WITHHELD else 0
        self.escrows[change.order] = replace(escrow, depositors=tuple(rows), withheld=escrow.withheld - used)

    def _withhold(self, order: bytes, amount: int) -> None:
        known = self.escrows[order]
        self.escrows[order] = replace(known, withheld=known.withheld + amount)

    @take.register
    def _(self, change: PartReturned) -> None:
        self._withhold(change.order, -change.amount)

    # Shares and rounds

    def _share(self, key: ShareKey, **changes: Any) -> None:
        self.shares[key] = replace(self.shares[key], **changes)

    def _count(self, provider: str, accepted: int = 0, rejected: int = 0) -> None:
        known = self.providers[provider]
        self._provider(
            provider,
            shares_accepted=known.shares_accepted + accepted,
            shares_rejected=known.shares_rejected + rejected,
        )

    @take.register
    def _(self, change: ShareCommitted) -> None:
        key, terms = change.share, self.orders[change.share.order_id].terms
        if change.was_included:
            self._count(change.provider, rejected=-1)
            at, height = change.committed_at, change.committed_height
            self._share(key, state=ShareState.COMMITTED, reason=0, committed_at=at, committed_height=height)
            return
        local_in = self._locals.get((key.order_id, key.leg, key.slot), terms.local_root)
        self._put_share(change, local_in, ShareState.COMMITTED, 0, key.issue)

    @take.register
    def _(self, change: ShareIncluded) -> None:
        reason = int(ShareReason.INCLUDED)
        self._put_share(change, change.local_in, ShareState.REJECTED, reason, change.task_issue)
        self._count(change.provider, rejected=1)

    def _put_share(
        self, change: ShareCommitted | ShareIncluded, local_in: bytes, state: ShareState, reason: int, task_issue: int
    ) -> None:
        """Store a new share, and lock its bond."""
        key = change.share
        claim = ShareClaim(
            order_id=key.order_id,
            leg=key.leg,
            round=key.round,
            slot=key.slot,
            issue=task_issue,
            provider=change.provider,
            commitment=change.commitment,
            multiple=change.multiple,
            cover=change.cover,
        )
        self.shares[key] = Share(
            claim=claim,
            signature=change.signature,
            local_in=local_in,
            work=share_work(self.orders[key.order_id].terms),
            bond=change.bond,
            state=state,
            reason=reason,
            committed_at=change.committed_at,
            committed_height=change.committed_height,
            drawn=(),
            roots=None,
            held_as=key.issue if key.issue != task_issue else 0,
        )
        row = BondRow(
            kind=BondKind.SHARE,
            owner=change.provider,
            leg=key.leg,
            round=key.round,
            slot=key.slot,
            issue=key.issue,
            amount=change.bond,
        )
        self._lock(key.order_id, row)

    @take.register
    def _(self, change: ShareSkipped) -> None:
        self.fees += change.fee

    @take.register
    def _(self, change: ShareDrawn) -> None:
        self._share(change.share, drawn=change.segments, is_drawn=True)

    @take.register
    def _(self, change: ShareRejected) -> None:
        work = share_work(self.orders[change.share.order_id].terms)
        dropped = {"state": ShareState.REJECTED, "reason": change.reason, "roots": None, "work": work}
        self._share(change.share, **dropped, wrong_at=change.segment)
        if change.reason != ShareReason.LEG_ENDED:
            self._count(change.provider, rejected=1)
        if change.was_accepted:
            self._count(change.provider, accepted=-1)

    @take.register
    def _(self, change: ShareAccepted) -> None:
        key = change.share
        roots = ShareRoots(
            trace_root=change.trace_root,
            update_root=change.update_root,
            local_out=change.local_out,
            metrics=change.metrics,
            segments=change.segments,
            steps=change.steps,
        )
        work = done_work(self.orders[key.order_id].terms, roots)
        self._share(key, state=ShareState.ACCEPTED, roots=roots, work=work, is_received=True)
        if roots.is_whole:
            self._locals[key.order_id, key.leg, key.slot] = change.local_out
        self._count(change.provider, accepted=1)

    @take.register
    def _(self, change: ShareCompared) -> None:
        state = ShareState.RIGHT if change.right else ShareState.WRONG
        self._share(change.share, state=state)
        if change.right:
            self._count(change.provider, rejected=-1)
        self.burnt += change.burnt_from_stake

    @take.register
    def _(self, change: ShareTaken) -> None:
        key = change.share
        before = replace(key, leg=change.from_leg)
        known = self.shares[before]
        self._share(before, state=ShareState.TAKEN)
        self.shares[key] = replace(known, taken_by=key.leg)
        row = self.bond_rows.pop((key.order_id, before.leg, key.round, key.slot, key.issue), None)
        if row is not None:
            self.bond_rows[key.order_id, key.leg, key.round, key.slot, key.issue] = replace(row, leg=key.leg)
        delivery = self.deliveries.pop(before, None)
        if delivery is not None:
            self.deliveries[key] = replace(delivery, leg=key.leg)
        if known.state is ShareState.ACCEPTED and known.roots is not None and known.roots.is_whole:
            self._locals[key.order_id, key.leg, key.slot] = known.roots.local_out

    @take.register
    def _(self, change: DeliveryReceived) -> None:
        manifest = DeliveryManifest(
            root=change.root,
            key_hash=change.key_hash,
            segments=change.segments,
            update_chunks=change.update_chunks,
            every=change.every,
        )
        self.deliveries[change.share] = _delivery(change.share, manifest, change.show_by)

    @take.register
    def _(self, change: ReceiptAsked) -> None:
        key = change.share
        manifest = DeliveryManifest(
            root=change.root,
            key_hash=change.key_hash,
            segments=change.segments,
            update_chunks=change.update_chunks,
            every=change.every,
        )
        self.asks[key] = ReceiptAsk(
            order_id=key.order_id, leg=key.leg, round=key.round, slot=key.slot, issue=key.issue, manifest=manifest
        )

    @take.register
    def _(self, change: WitnessesDrawn) -> None:
        known = self.asks[change.share]
        drawn = replace(known, witnesses=change.witnesses, seed=change.seed, until=change.until)
        self.asks[change.share] = drawn

    @take.register
    def _(self, change: DeliveryWitnessed) -> None:
        known = self.asks[change.share]
        signed, paid = (*known.signed, change.witness), known.paid + change.paid
        self.asks[change.share] = replace(known, signed=signed, paid=paid)

    @take.register
    def _(self, change: DeliveryKeyShown) -> None:
        known = self.deliveries.get(change.share)
        manifest = DeliveryManifest(
            root=change.root,
            key_hash=change.key_hash,
            segments=change.segments,
            update_chunks=change.update_chunks,
            every=change.every,
        )
        roots = ShareRoots(
            trace_root=change.trace_root,
            update_root=change.update_root,
            local_out=change.local_out,
            metrics=change.metrics,
            segments=change.segments,
            steps=change.steps,
        )
        show_by = known.show_by if known else 0
        shown = _delivery(change.share, manifest, show_by)
        self.deliveries[change.share] = replace(shown, key=change.key, roots=roots)
        self._share(change.share, is_received=True)

    @take.register
    def _(self, change: DeliveryFoundWrong) -> None:
        self.deliveries[change.share] = replace(self.deliveries[change.share], is_wrong=True)
        self._share(change.share, is_received=False)

    @take.register
    def _(self, change: VoidSharePaid) -> None:
        # The payments themselves are other events.
        assert change.from_bonds + change.from_cover <= change.value

    @take.register
    def _(self, change: ShareFoundWrong) -> None:
        self._count(change.provider, accepted=-1, rejected=1)

    @take.register
    def _(self, change: HandoverFoundWrong) -> None:
        """Nothing of it stands in a record that others read: the failure and the payments have events of their own."""

    @take.register
    def _(self, change: HandoverTaken) -> None:
        key = change.round
        self._leg(key.order_id, key.leg, taken_end=key.round + 1)

    @take.register
    def _(self, change: RoundClosed) -> None:
        key = change.round
        order, leg = self.orders[key.order_id], self.legs[key.order_id, key.leg]
        accepted = sorted(
            share
            for share, found in self.shares.items()
            if found.state is ShareState.ACCEPTED and (share.order_id, share.leg, share.round) == tuple(key)
        )
        self.rounds[key] = Round(
            order_id=key.order_id,
            leg=key.leg,
            round=key.round,
            global_in=leg.global_in,
            next_root=change.next_root,
            ciphertext_root=change.ciphertext_root,
            shares=tuple(share.ref for share in accepted),
            work=sum(self.shares[share].work for share in accepted)
            + (order.terms.outer_work if change.next_root else 0),
            closed_at=change.closed_at,
            closed_height=change.closed_height,
            challenges_end=change.challenges_end,
            window_ends=change.window_ends,
            verified=False,
            void=False,
            mirrors=change.mirrors,
            time_left=change.time_left,
            cover=change.cover,
        )
        left = change.next_root or leg.global_in
        self._leg(key.order_id, key.leg, round=key.round + 1, global_in=left)
        if order.params.auditors:
            self._open_panel(key.panel())

    @take.register
    def _(self, change: RoundStopped) -> None:
        where = AuditPlace(kind=AuditKind(change.kind), slot=change.slot, issue=change.issue, segment=change.segment)
        self.rounds[change.round] = replace(self.rounds[change.round], stopped=where)

    @take.register
    def _(self, change: ChallengesWaived) -> None:
        waived = max(change.waived, self.legs[change.order, change.leg].waived)
        self._leg(change.order, change.leg, waived=waived)

    @take.register
    def _(self, change: RoundCleared) -> None:
        key = change.round
        leg = self.legs[key.order_id, key.leg]
        self._leg(key.order_id, key.leg, cleared=max(leg.cleared, leg.verified) + 1)

    @take.register
    def _(self, change: RoundVerified) -> None:
        key = change.round
        self.rounds[key] = replace(self.rounds[key], verified=True)
        done = self.orders[key.order_id].work_verified
        self._order(key.order_id, work_verified=done + self.rounds[key].work)
        verified = self.legs[key.order_id, key.leg].verified
        root = self.rounds[key].next_root
        self._leg(key.order_id, key.leg, verified=verified + 1, verified_root=root)
        rounds = self.orders[key.order_id].terms.rounds
        left = self.legs[key.order_id, key.leg].next_round if root else rounds
        self._order(key.order_id, next_round=left)
        self._withhold(key.order_id, change.withheld)
        for share in self.rounds[key].share_keys:
            self._provider(self.shares[share].claim.provider, has_verified_share=True)

    @take.register
    def _(self, change: RoundVoid) -> None:
        key = change.round
        by_validator, at = change.by_validator, change.void_at
        self.rounds[key] = replace(self.rounds[key], void=True, void_at=at, by_validator=by_validator)
        self._leg(key.order_id, key.leg, void=self.legs[key.order_id, key.leg].void + 1)

    # Panels

    def _open_panel(self, key: PanelKey) -> None:
        self.panels[key] = Panel(
            order_id=key.order_id,
            leg=key.leg,
            round=key.round,
            places=(),
            stage=0,
            seed=b"",
            commits_end=0,
            reveals_end=0,
            is_last=False,
            is_open=False,
            wanted=(),
            seats=0,
            first_seat=0,
            committed=0,
            revealed=0,
            is_settled=False,
            eligible=0,
            stake=0,
            load=0,
            dispute=key.dispute,
        )

    def _panel(self, key: PanelKey, **changes: Any) -> None:
        self.panels[key] = replace(self.panels[key], **changes)

    def _place(self, key: PanelKey, number: int, **changes: Any) -> None:
        places = list(self.panels[key].places)
        places[number] = replace(places[number], **changes)
        self._panel(key, places=tuple(places))

    def _seat_of(self, key: PanelKey, auditor: str) -> PanelSeat:
        """Return the last seat of an auditor: earlier ones are of stages that are over."""
        seats = (self.seats[key, number] for number in reversed(range(self.panels[key].seats)))
        return next(seat for seat in seats if seat.validator == auditor)

    def _seats_of(self, key: PanelKey) -> list[PanelSeat]:
        return [self.seats[key, number] for number in range(self.panels[key].seats)]

    def _seat(self, key: PanelKey, auditor: str, **changes: Any) -> None:
        seat = self._seat_of(key, auditor)
        self.seats[key, seat.number] = replace(seat, **changes)

    @take.register
    def _(self, change: PanelSkipped) -> None:
        del self.panels[change.panel]

    @take.register
    def _(self, change: PanelWaits) -> None:
        """Nothing changed: the panel has not begun."""

    @take.register
    def _(self, change: PanelBegun) -> None:
        auditors = self.orders[change.panel.order_id].params.auditors
        self._panel(change.panel, wanted=(auditors,) * change.groups)

    @take.register
    def _(self, change: RoomTaken) -> None:
        self._panel(change.panel, load=change.load)

    @take.register
    def _(self, change: PlaceDrawn) -> None:
        known = self.panels[change.panel].places
        assert change.place == len(known), "a place is drawn before its time"
        place = AuditPlace(
            kind=AuditKind(change.kind),
            slot=change.slot,
            issue=change.issue,
            segment=change.segment,
            chunk=change.chunk,
        )
        drawn = PanelPlace(
            place=place,
            claim=change.claim,
            ruling=Ruling.OPEN,
            stage=0,
            finding=None,
            stops=change.stops,
            group=change.group,
        )
        self._panel(change.panel, places=(*known, drawn))

    @take.register
    def _(self, change: StageOpened) -> None:
        key = change.panel
        places = self.panels[key].places
        drawn = zip(change.seats, change.stakes, change.groups, strict=True)
        for number, (name, stake, group) in enumerate(drawn, change.first_seat):
            before = [self.seats[key, other] for other in range(change.first_seat)]
            had = {place for seat in before if seat.validator == name for place in seat.places}
            own = [at for at in change.places if at not in had and group in (-1, places[at].group)]
            self.seats[key, number] = PanelSeat(
                order_id=key.order_id,
                leg=key.leg,
                round=key.round,
                dispute=key.dispute,
                number=number,
                validator=name,
                stage=change.stage,
                stake=stake,
                places=tuple(own),
                commitment=b"",
                answers=(),
                revealed=False,
            )
        self._panel(
            key,
            stage=change.stage,
            seed=change.seed,
            commits_end=change.commits_end,
            reveals_end=change.reveals_end,
            is_last=change.is_last,
            is_open=True,
            wanted=(0,) * len(self.panels[key].wanted),
            repeats=False,
            last_next=False,
            seats=change.first_seat + len(change.seats),
            first_seat=change.first_seat,
            committed=0,
            revealed=0,
            eligible=change.eligible,
            stake=change.stake,
        )

    @take.register
    def _(self, change: AnswerCommitted) -> None:
        self._seat(change.panel, change.auditor, commitment=change.commitment)
        self._panel(
            change.panel,
            committed=self.panels[change.panel].committed + 1,
            commits_end=change.commits_end,
            reveals_end=change.reveals_end,
        )

    @take.register
    def _(self, change: AnswerRevealed) -> None:
        known = self._seat_of(change.panel, change.auditor).answers
        kind = AnswerKind(change.kind)
        answer = SeatAnswer(place=change.place, kind=kind, root=change.root, digest=change.digest, step=change.step)
        self._seat(change.panel, change.auditor, answers=(*known, answer))

    @take.register
    def _(self, change: LeafShown) -> None:
        self._place(change.panel, change.place, claim=change.claim)

    @take.register
    def _(self, change: SeatRevealed) -> None:
        self._seat(change.panel, change.auditor, revealed=True)
        self._panel(
            change.panel,
            revealed=self.panels[change.panel].revealed + 1,
            reveals_end=change.reveals_end,
        )

    @take.register
    def _(self, change: SeatSilent) -> None:
        self._punish(change)
        missed = self.validators[change.auditor].audits_missed
        self._validator(change.auditor, audits_missed=missed + 1)

    @take.register
    def _(self, change: SeatDiffered) -> None:
        self._punish(change)
        self._differed.add((change.panel, change.auditor, change.stage))

    def _punish(self, change: SeatSilent | SeatDiffered) -> None:
        seat = next(s for s in self._seats_of(change.panel) if (s.validator, s.stage) == (change.auditor, change.stage))
        self.seats[change.panel, seat.number] = replace(seat, cut=seat.cut + change.cut)
        self.pots[change.panel] = self.pots.get(change.panel, 0) + change.cut

    # Disputes

    @take.register
    def _(self, change: ChallengeCommitted) -> None:
        key = change.dispute
        self.disputes[key] = Dispute(
            order_id=key.order_id,
            leg=key.leg,
            round=key.round,
            number=key.dispute,
            challenger=change.challenger,
            commitment=change.commitment,
            bond=change.bond,
            least=change.least,
            opens_until=change.opens_until,
            open_before=change.open_before,
            state=DisputeState.COMMITTED,
        )
        row = BondRow(
            kind=BondKind.CHALLENGE,
            owner=change.challenger,
            leg=key.leg,
            round=key.round,
            slot=CHALLENGE_SLOT,
            issue=key.dispute,
            amount=change.bond,
        )
        self._lock(key.order_id, row)

    def _dispute(self, key: PanelKey, **changes: Any) -> None:
        self.disputes[key] = replace(self.disputes[key], **changes)

    @take.register
    def _(self, change: ChallengeOpened) -> None:
        key = change.dispute
        opened = {"place": change.place, "claim": change.claim, "again": change.again, "joins": change.joins}
        self._dispute(key, state=DisputeState.OPEN, **opened)

    @take.register
    def _(self, change: ChallengeJoined) -> None:
        joined = self.disputes[change.dispute].joined
        self._dispute(change.dispute, joined=(*joined, change.number))

    @take.register
    def _(self, change: DisputeEnded) -> None:
        self._dispute(change.dispute, state=DisputeState(change.state), burnt=change.burnt)

    @take.register
    def _(self, change: ChallengerRewarded) -> None:
        self._dispute(change.dispute, reward=change.reward)

    @take.register
    def _(self, change: DisputePanelOpened) -> None:
        self._open_panel(change.panel)
        standing = self.disputes[change.panel].share
        self._panel(change.panel, last_next=change.last_next, standing=standing)

    @take.register
    def _(self, change: StatesPanelOpened) -> None:
        self._open_panel(change.panel)
        self._panel(change.panel, last_next=change.last_next, asker=change.asker)

    @take.register
    def _(self, change: StatesRuled) -> None:
        self._leg(change.panel.order_id, change.leg, asked=change.asked, asked_at=change.asked_at)

    @take.register
    def _(self, change: ResultMissed) -> None:
        key = change.panel
        row = BondRow(
            kind=BondKind.RESULT,
            owner=change.asker,
            leg=key.leg,
            round=key.round,
            slot=RESULT_SLOT,
            issue=key.dispute,
            amount=change.bond,
        )
        self._lock(key.order_id, row)
        self._leg(key.order_id, key.leg, missed=self.legs[key.order_id, key.leg].missed + 1)
        self._open_panel(key)
        self._panel(key, last_next=change.last_next, asker=change.asker)

    @take.register
    def _(self, change: ResultRuled) -> None:
        if change.settles_at:
            self._leg(change.panel.order_id, change.panel.leg, settles_at=change.settles_at)

    @take.register
    def _(self, change: StandOpened) -> None:
        key = change.dispute
        self.disputes[key] = Dispute(
            order_id=key.order_id,
            leg=key.leg,
            round=key.round,
            number=key.dispute,
            challenger=change.provider,
            commitment=change.commitment,
            bond=change.bond,
            least=0,
            opens_until=0,
            open_before=0,
            state=DisputeState.OPEN,
            share=change.share.ref,
        )
        roots = ShareRoots(
            trace_root=change.trace_root,
            update_root=change.update_root,
            local_out=change.local_out,
            metrics=change.metrics,
            segments=change.segments,
            steps=change.steps,
        )
        work = done_work(self.orders[key.order_id].terms, roots)
        self._share(change.share, stand=key.dispute, roots=roots, work=work)
        row = BondRow(
            kind=BondKind.CHALLENGE,
            owner=change.provider,
            leg=key.leg,
            round=key.round,
            slot=CHALLENGE_SLOT,
            issue=key.dispute,
            amount=change.added,
        )
        if change.added:
            self._lock(key.order_id, row)
        share = change.share
        self.bond_rows.pop((share.order_id, share.leg, share.round, share.slot, share.issue), None)
        self.bond_rows[key.order_id, key.leg, key.round, CHALLENGE_SLOT, key.dispute] = replace(row, amount=change.bond)

    @take.register
    def _(self, change: ShareStood) -> None:
        share = self.shares[change.share]
        mismatch = share.state in (ShareState.REJECTED, ShareState.WRONG)
        left_open = share.reason == ShareReason.LEG_ENDED
        if change.right and mismatch:
            self._share(change.share, state=ShareState.RIGHT)
            self._count(change.provider, rejected=0 if left_open else -1)
        elif change.wrong and mismatch:
            self._share(change.share, state=ShareState.WRONG)
            self._count(change.provider, rejected=1 if left_open else 0)
        self.burnt += change.burnt_from_stake
        if change.to_seats:
            self.pots[change.panel] = self.pots.get(change.panel, 0) + change.to_seats

    @take.register
    def _(self, change: PlaceRuled) -> None:
        found = None
        if change.kind:
            found = Finding(AnswerKind(change.kind), change.root, change.step)
        ruling = Ruling(change.ruling)
        self._place(change.panel, change.place, ruling=ruling, stage=change.stage, finding=found)

    @take.register
    def _(self, change: StageEnded) -> None:
        known = self.panels[change.panel]
        self._panel(
            change.panel,
            is_open=False,
            wanted=change.wanted,
            repeats=change.repeats,
            was_repeated=known.was_repeated or change.repeats,
            last_next=change.last_next,
        )

    @take.register
    def _(self, change: RulingWaits) -> None:
        self._panel(change.panel, appeal_until=change.until)

    @take.register
    def _(self, change: RulingAppealed) -> None:
        key = change.panel
        row = BondRow(
            kind=BondKind.APPEAL,
            owner=change.appellant,
            leg=key.leg,
            round=key.round,
            slot=APPEAL_SLOT,
            issue=key.dispute + 1,
            amount=change.bond,
        )
        self._lock(key.order_id, row)
        for number in change.places:
            self._place(key, number, ruling=Ruling.OPEN)
        wanted = (0,) * len(self.panels[key].wanted)
        self._panel(key, wanted=wanted, last_next=True, appellant=change.appellant)

    @take.register
    def _(self, change: SlashVoteOpened) -> None:
        key = change.panel
        for number, place in enumerate(self.panels[key].places):
            if number in change.places:
                first = {"first_stage": place.stage, "first_finding": place.finding}
                self._place(key, number, ruling=Ruling.OPEN, stage=0, finding=None, **first)
            elif place.ruling is Ruling.OPEN:
                self._place(key, number, ruling=Ruling.UNDECIDED)
        wanted = (0,) * len(self.panels[key].wanted)
        self._panel(key, wanted=wanted, is_settled=False, last_next=True, for_slash=True, slash=change.slash)

    @take.register
    def _(self, change: SlashVoteEnded) -> None:
        self._panel(change.panel, is_settled=True, slash=0)

    @take.register
    def _(self, change: ValidatorSlashed) -> None:
        self.pots[change.panel] = self.pots.get(change.panel, 0) + change.amount
        self._panel(change.panel, slash=change.amount)

    @take.register
    def _(self, change: SeatPaid) -> None:
        self.pots[change.panel] = self.pots.get(change.panel, 0) - change.from_pot
        self.community -= change.from_pool

    @take.register
    def _(self, change: PanelEnded) -> None:
        key = change.panel
        assert self.pots.pop(key, 0) == change.burnt, "a pot is not used up"
        self.burnt += change.burnt
        self._panel(key, is_open=False, is_settled=True)
        for number in range(self.panels[key].seats):
            seat = self.seats[key, number]
            if self.panels[key].for_slash and seat.stage != self.panels[key].stage:
                continue
            if seat.answers and (key, seat.validator, seat.stage) not in self._differed:
                answered = self.validators[seat.validator].audits_answered
                self._validator(seat.validator, audits_answered=answered + 1)


# --- compared with the state ---------------------------------------------------------------------

Parts = tuple[bytes, ...]


def _name(parts: Parts) -> str:
    return parts[0].decode()


def _order(parts: Parts) -> bytes:
    return parts[0]


def _numbered(parts: Parts) -> tuple[Any, ...]:
    return (parts[0], *map(number_of, parts[1:]))


def _round(parts: Parts) -> RoundKey:
    return RoundKey(*_numbered(parts[:3]))


def _panel(parts: Parts) -> PanelKey:
    return PanelKey(*_numbered(parts[:4]))


def _seat(parts: Parts) -> tuple[PanelKey, int]:
    return _panel(parts), number_of(parts[4])


def _delivery(share: ShareKey, manifest: DeliveryManifest, show_by: int) -> ShownDelivery:
    return ShownDelivery(
        order_id=share.order_id,
        leg=share.leg,
        round=share.round,
        slot=share.slot,
        issue=share.issue,
        manifest=manifest,
        show_by=show_by,
    )


def _share(parts: Parts) -> ShareKey:
    return ShareKey(*_numbered(parts))


def _bond(parts: Parts) -> tuple[Any, ...]:
    order_id, leg, _, *share = _numbered(parts)
    return (order_id, leg, *share)


def _named(parts: Parts) -> tuple[str, ...]:
    return tuple(part.decode() for part in parts)


def _proposal(parts: Parts) -> int:
    return number_of(parts[0])


def _of_proposal(parts: Parts) -> tuple[int, str]:
    return number_of(parts[0]), parts[1].decode()


def _pool(parts: Parts) -> tuple[str, int]:
    return parts[0].decode(), number_of(parts[1])


def _unbonding(parts: Parts) -> tuple[Any, ...]:
    return (*_named(parts[:2]), *map(number_of, parts[2:]))


def _redelegation(parts: Parts) -> tuple[Any, ...]:
    return (*_named(parts[:3]), number_of(parts[3]))


BOOKS: Mapping[Space, tuple[str, type[Any], Callable[[Parts], Any]]] = MappingProxyType(
    {
        VALIDATORS: ("validators", Validator, _name),
        VALIDATOR_STAKES: ("stakes", ValidatorStake, _name),
        AUTHORIZATIONS: ("authorizations", AuthorizationGrant, _named),
        FEE_GRANTS: ("fee_grants", FeeGrant, _named),
        DELEGATIONS: ("delegations", Delegation, _named),
        UNBONDING_POOLS: ("unbonding_pools", UnbondingPool, _pool),
        UNBONDINGS: ("unbondings", Unbonding, _unbonding),
        REDELEGATIONS: ("redelegations", Redelegation, _redelegation),
        MINTER: ("minters", Minter, tuple),
        TOTALS: ("totals", DistributionTotals, tuple),
        REWARDS: ("rewards", ValidatorRewards, _name),
        STARTS: ("starts", int, _named),
        WITHDRAW_ADDRESSES: ("paid_to", WithdrawAddress, _name),
        SIGNING_INFOS: ("signing_infos", SigningInfo, _order),
        EVIDENCE: ("evidence", Evidence, _order),
        PROPOSALS: ("proposals", Proposal, _proposal),
        DEPOSITS: ("proposal_deposits", Deposit, _of_proposal),
        VOTES: ("votes", Vote, _of_proposal),
        PROVIDERS: ("providers", Provider, _name),
        BOND_ACCOUNTS: ("bonds", BondAccount, _name),
        BIDS: ("bids", Bid, _order),
        ORDERS: ("orders", Order, _order),
        ESCROWS: ("escrows", Escrow, _order),
        LEGS: ("legs", Leg, _numbered),
        SLOT_STARTS: ("openings", SlotStart, _numbered),
        SHARES: ("shares", Share, _share),
        DELIVERIES: ("deliveries", ShownDelivery, _share),
        RECEIPT_ASKS: ("asks", ReceiptAsk, _share),
        ROUNDS: ("rounds", Round, _round),
        PANELS: ("panels", Panel, _panel),
        SEATS: ("seats", PanelSeat, _seat),
        BOND_ROWS: ("bond_rows", BondRow, _bond),
        PAYMENTS: ("payments", Payment, _numbered),
        PANEL_POTS: ("pots", int, _panel),
        DISPUTES: ("disputes", Dispute, _panel),
        GAS_PRICE: ("gas_prices", int, tuple),
    }
)
"""Tables of the state: the book that has the same, of what it is, and how its keys are made of the parts of theirs."""
SINKS = ("fees", "community", "burnt", "distribution")
"""Pots that the books count under their own names."""
_BY_PREFIX = {table.prefix: (table.name, *row) for table, row in BOOKS.items()}


def check_changed(rebuilt: Rebuilt, store: Overlay, keys: Iterable[bytes]) -> None:
    """Check that the books have what the state has under the keys that a block changed."""
    for key in keys:
        if key[0] in _BY_PREFIX:
            name, book, cls, make = _BY_PREFIX[key[0]]
            told = getattr(rebuilt, book).get(make(parts_of(key))) or None
            stored = store.record(cls, key) or None
            assert told == stored, f"events tell another {name}: {_differences(told, stored)}"
    for pot in SINKS:
        told, stored = getattr(rebuilt, pot), POTS.get(store, pot)
        assert told == stored, f"events tell of {told} that are {pot}, and not {stored}"


def _differences(told: Any, stored: Any) -> dict[str, tuple[Any, Any]] | tuple[Any, Any]:
    if type(told) is not type(stored) or not is_dataclass(told):
        return told, stored
    pairs = {f.name: (getattr(told, f.name), getattr(stored, f.name)) for f in fields(told)}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def check_books(rebuilt: Rebuilt, store: Overlay) -> None:
    """Check that the books have all that the state has, and nothing else."""
    for table, (book, cls, _) in BOOKS.items():
        keys = list(store.scan_keys(table.key()))
        check_changed(rebuilt, store, keys)
        told = sum(1 for record in getattr(rebuilt, book).values() if record)
        stored = sum(1 for key in keys if store.record(cls, key))
        assert told == stored, f"events tell of {told} times a {table.name}, of which are {stored}"
    assert make_params(rebuilt.governing.params) == PARAMS.get(store), "events tell of other parameters"


def adopt(rebuilt: Rebuilt, store: Overlay, keys: Iterable[bytes]) -> None:
    """Enter into the books what a test changed behind the machine's back, of which no event tells."""
    for key in keys:
        if key[0] in _BY_PREFIX:
            _, book, cls, make = _BY_PREFIX[key[0]]
            records: dict[Any, Any] = getattr(rebuilt, book)
            records[make(parts_of(key))] = store.record(cls, key)
    for pot in SINKS:
        setattr(rebuilt, pot, POTS.get(store, pot))
