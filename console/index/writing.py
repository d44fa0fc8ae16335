"""The index with its updates from events.

The index stores events as they come, with the id of their order. It also keeps the sums that lists need: a row per
order, the earnings of each address, the share counts of each provider, and the amount of coins in each pot.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import singledispatchmethod
from typing import Any, Final

from console.index.reading import Readings
from console.index.records import EARNINGS, BlockRow, order_of
from console.traces import ShareTrace
from domain.attest.events import (
    AttestationAsked,
    AttestationEnded,
    AttestPanelDrawn,
    AttestPolicyAdded,
    AttestPolicyWithdrawn,
    CredentialBanned,
    CredentialEnded,
    CredentialGranted,
    VerdictCommitted,
    VerdictRevealed,
)
from domain.disputes.events import ChallengeCommitted
from domain.distribution.events import (
    CommissionWithdrawn,
    CommunityFunded,
    CommunitySpent,
    FeesShared,
    RewardsWithdrawn,
    TotalsChanged,
)
from domain.events import Change
from domain.keys import ShareKey
from domain.ledger.events import BondDeposited, BondReleased, BondWithdrawing, PaymentMade
from domain.ledger.moves import BONDS_POT, BURNT_POT, COMMUNITY_POT
from domain.legs.events import OrderAccepted, OrderMatched, OrderProven
from domain.market.events import (
    DeadlineMoved,
    OrderClosed,
    OrderOpened,
    OrderSubmitted,
    OrderUnmatched,
)
from domain.market.records import OrderState
from domain.node.queries import LoggedEvent
from domain.proof.events import (
    AnswerCommitted,
    PanelEnded,
    RoundClosed,
    RoundVerified,
    SeatDiffered,
    SeatPaid,
    SeatRevealed,
    SeatSilent,
    ShareAccepted,
    ShareCommitted,
    ShareCompared,
    ShareFoundWrong,
    ShareIncluded,
    ShareRejected,
    ValidatorSlashed,
)
from domain.proof.reasons import ShareReason
from domain.registry.events import (
    BeaconKeySet,
    EndpointSet,
    ProviderCertified,
    ProviderLeft,
    ProviderRegistered,
)
from domain.vocabulary import MOVES, read_event
from pol.rules.schedule import total_work

_DEEDS: Final = (
    AnswerCommitted,
    BeaconKeySet,
    BondDeposited,
    BondWithdrawing,
    EndpointSet,
    OrderSubmitted,
    ProviderCertified,
    ProviderLeft,
    ProviderRegistered,
    SeatRevealed,
    ShareCommitted,
)
"""Events that count as an action of an address: its transactions, and certifications of a provider."""
_ACTORS: Final = ("provider", "auditor", "operator", "owner", "consumer")


class Gap(Exception):
    """An error because an event is missing. The node's log has no gaps, so the index has to be rebuilt."""


class EventIndex(Readings):
    """A thread-safe index in a file. It is in memory if no path is given or another program uses the file."""

    def add(self, events: Sequence[LoggedEvent]) -> None:
        """Add events. If their numbers do not directly continue those in the index, raise Gap and add no event."""
        expected = self.next
        with self._writing():
            for event in events:
                if event.number != expected:
                    raise Gap(f"event {expected} is missing: the node continues with event {event.number}")
                expected += 1
                self._add(event)

    def _add(self, event: LoggedEvent) -> None:
        change = read_event(event)
        order_id = order_of(change)
        self._do(
            "INSERT INTO events VALUES (?, ?, ?, ?, ?)",
            event.number,
            event.height,
            event.type,
            order_id,
            json.dumps(event.attributes, separators=(",", ":")),
        )
        self._do("INSERT OR IGNORE INTO blocks (height) VALUES (?)", event.height)
        if change is None:
            return
        if isinstance(change, _DEEDS):
            self._record_action(change, event)
        self._take(change, event)

    def _record_action(self, change: Change, event: LoggedEvent) -> None:
        address = next(filter(None, (getattr(change, name, "") for name in _ACTORS)), "")
        self._do("INSERT OR REPLACE INTO seen VALUES (?, ?, ?)", address, event.height, event.type)

    @singledispatchmethod
    def _take(self, change: Change, event: LoggedEvent) -> None:
        """Update the tables after a change. This default does nothing, because most kinds of changes affect no sum."""

    def _order(self, order_id: bytes, **values: Any) -> None:
        names = ", ".join(f"{name} = ?" for name in values)
        self._do(f"UPDATE orders SET {names} WHERE order_id = ?", *values.values(), order_id)

    def _count(self, order_id: bytes, column: str, amount: int = 1) -> None:
        self._do(
            f"UPDATE orders SET {column} = {column} + ? WHERE order_id = ?",
            amount,
            order_id,
        )

    def _pot(self, **amounts: int) -> None:
        for name, amount in amounts.items():
            self._do(
                "INSERT INTO pots VALUES (?, ?) ON CONFLICT DO UPDATE SET amount = amount + excluded.amount",
                name,
                amount,
            )

    def _provider(self, address: str, height: int, **counts: int) -> None:
        self._do("INSERT OR IGNORE INTO providers (address, height) VALUES (?, ?)", address, height)
        for column, amount in counts.items():
            self._do(
                f"UPDATE providers SET {column} = {column} + ? WHERE address = ?",
                amount,
                address,
            )

    @_take.register
    def _(self, change: OrderSubmitted, event: LoggedEvent) -> None:
        order = change.record
        self._do(
            "INSERT INTO orders (order_id, number, consumer, job_id, state, work, price_limit, deposit, rounds, "
            "deadline, height) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            change.order,
            event.number,
            change.consumer,
            order.terms.job_id,
            int(OrderState.OPEN),
            str(total_work(order.terms)),
            order.price_limit,
            change.deposit,
            order.terms.rounds,
            order.deadline,
            event.height,
        )
        self._pot(escrows=change.deposit)

    @_take.register
    def _(self, change: OrderOpened, event: LoggedEvent) -> None:
        self._order(change.order, state=int(OrderState.OPEN), unmatched="[]")

    @_take.register
    def _(self, change: OrderUnmatched, event: LoggedEvent) -> None:
        self._order(change.order, unmatched=json.dumps(change.failed))

    @_take.register
    def _(self, change: OrderMatched, event: LoggedEvent) -> None:
        # The counts of rounds are for the current leg, so they begin again.
        self._order(
            change.order,
            state=int(OrderState.MATCHED),
            leg=change.leg,
            validator=change.validator,
            price=change.price,
            closed=0,
            verified=0,
            unmatched="[]",
        )
        self._do("INSERT OR IGNORE INTO validators_of VALUES (?, ?)", change.order, change.validator)
        self._pot(escrows=change.job_bond, bonds=-change.job_bond)

    @_take.register
    def _(self, change: OrderAccepted, event: LoggedEvent) -> None:
        self._order(change.order, state=int(OrderState.RUNNING))

    @_take.register
    def _(self, change: OrderProven, event: LoggedEvent) -> None:
        self._order(change.order, state=int(OrderState.PROVEN))

    @_take.register
    def _(self, change: DeadlineMoved, event: LoggedEvent) -> None:
        self._order(change.order, deadline=change.deadline)

    @_take.register
    def _(self, change: OrderClosed, event: LoggedEvent) -> None:
        self._order(
            change.order,
            state=int(OrderState.CLOSED),
            reason=change.reason,
            unmatched=json.dumps(change.failed),
        )

    @_take.register
    def _(self, change: RoundClosed, event: LoggedEvent) -> None:
        self._count(change.round.order_id, "closed")

    @_take.register
    def _(self, change: RoundVerified, event: LoggedEvent) -> None:
        self._count(change.round.order_id, "verified")

    @_take.register
    def _(self, change: ShareCommitted, event: LoggedEvent) -> None:
        if change.was_included:
            # The provider included the share before, so its bond is locked, and the share counts as rejected.
            self._provider(change.provider, event.height, rejected=-1)
            self._count(change.share.order_id, "rejected", -1)
            return
        self._provider(change.provider, event.height)
        self._pot(escrows=change.bond, bonds=-change.bond)

    @_take.register
    def _(self, change: ShareIncluded, event: LoggedEvent) -> None:
        self._provider(change.provider, event.height, rejected=1)
        self._count(change.share.order_id, "rejected")
        self._pot(escrows=change.bond, bonds=-change.bond)

    @_take.register
    def _(self, change: ChallengeCommitted, event: LoggedEvent) -> None:
        self._pot(escrows=change.bond, bonds=-change.bond)

    @_take.register
    def _(self, change: ShareAccepted, event: LoggedEvent) -> None:
        self._provider(change.provider, event.height, accepted=1)

    @_take.register
    def _(self, change: ShareRejected, event: LoggedEvent) -> None:
        if change.reason != ShareReason.LEG_ENDED:
            self._provider(change.provider, event.height, rejected=1)
            self._count(change.share.order_id, "rejected")
        if change.was_accepted:
            self._provider(change.provider, event.height, accepted=-1)

    @_take.register
    def _(self, change: ShareCompared, event: LoggedEvent) -> None:
        counts = {"rejected": -1} if change.right else {"wrong": 1}
        self._provider(change.provider, event.height, **counts)
        if change.right:
            self._count(change.share.order_id, "rejected", -1)
        self._pot(burnt=change.burnt_from_stake)

    @_take.register
    def _(self, change: ShareFoundWrong, event: LoggedEvent) -> None:
        self._provider(change.provider, event.height, accepted=-1, rejected=1, wrong=1)

    @_take.register
    def _(self, change: PaymentMade, event: LoggedEvent) -> None:
        if not change.leg:
            column = "refunded" if change.kind == "refund" else "paid"
            self._count(change.order, column, change.amount)
        target = MOVES[change.kind].target
        self._pot(
            escrows=-change.amount,
            bonds=change.amount if target is BONDS_POT else 0,
            burnt=change.amount if target is BURNT_POT else 0,
            community=change.amount if target is COMMUNITY_POT else 0,
        )
        if change.kind in EARNINGS:
            self._earn(change.to, change.kind, change.amount, change.order)

    @_take.register
    def _(self, change: SeatPaid, event: LoggedEvent) -> None:
        amount = change.from_pot + change.from_pool
        self._earn(change.auditor, "auditor", amount, change.panel.order_id)
        self._pot(audits=-change.from_pot, community=-change.from_pool)

    @_take.register
    def _(self, change: FeesShared, event: LoggedEvent) -> None:
        self._pot(distribution=change.amount - change.to_community, community=change.to_community)

    @_take.register
    def _(self, change: TotalsChanged, event: LoggedEvent) -> None:
        self._pot(distribution=-change.to_community, community=change.to_community)

    @_take.register
    def _(self, change: RewardsWithdrawn | CommissionWithdrawn, event: LoggedEvent) -> None:
        self._pot(distribution=-change.amount)

    @_take.register
    def _(self, change: CommunityFunded, event: LoggedEvent) -> None:
        self._pot(community=change.amount)

    @_take.register
    def _(self, change: CommunitySpent, event: LoggedEvent) -> None:
        self._pot(community=-change.amount)

    @_take.register
    def _(self, change: SeatSilent | SeatDiffered, event: LoggedEvent) -> None:
        self._pot(audits=change.cut)

    @_take.register
    def _(self, change: ValidatorSlashed, event: LoggedEvent) -> None:
        self._pot(audits=change.amount)

    @_take.register
    def _(self, change: PanelEnded, event: LoggedEvent) -> None:
        self._pot(audits=-change.burnt, burnt=change.burnt)

    @_take.register
    def _(self, change: BondDeposited, event: LoggedEvent) -> None:
        self._pot(bonds=change.amount)

    @_take.register
    def _(self, change: BondReleased, event: LoggedEvent) -> None:
        self._pot(bonds=-change.amount)

    def _earn(self, address: str, kind: str, amount: int, order_id: bytes) -> None:
        if not amount:
            return
        self._do(
            "INSERT INTO earned_of VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET amount = amount + excluded.amount",
            address,
            order_id,
            amount,
        )
        self._do(
            "INSERT INTO earnings VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET amount = amount + excluded.amount",
            address,
            kind,
            amount,
        )

    # --- credentials -------------------------------------------------------------------------

    @_take.register
    def _(self, change: AttestPolicyAdded, event: LoggedEvent) -> None:
        self._do(
            "INSERT OR REPLACE INTO policies (name, technology, valid_for, added_at) VALUES (?, ?, ?, ?)",
            change.name,
            change.policy.technology,
            change.valid_for,
            change.added_at,
        )

    @_take.register
    def _(self, change: AttestPolicyWithdrawn, event: LoggedEvent) -> None:
        self._do("UPDATE policies SET withdrawn_at = ? WHERE name = ?", change.withdrawn_at, change.name)

    @_take.register
    def _(self, change: CredentialGranted, event: LoggedEvent) -> None:
        self._do(
            "INSERT OR REPLACE INTO credentials (credential, owner, policy, since, ends_at, number) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            change.credential,
            change.owner,
            change.policy,
            change.since,
            change.ends_at,
            event.number,
        )

    @_take.register
    def _(self, change: CredentialEnded, event: LoggedEvent) -> None:
        self._credential(change.credential, event, ends_at=change.ends_at)

    @_take.register
    def _(self, change: CredentialBanned, event: LoggedEvent) -> None:
        self._credential(change.credential, event, banned_at=change.banned_at)

    def _credential(self, credential: bytes, event: LoggedEvent, **values: int) -> None:
        names = ", ".join(f"{name} = ?" for name in values)
        self._do(
            f"UPDATE credentials SET {names}, number = ? WHERE credential = ?",
            *values.values(),
            event.number,
            credential,
        )

    @_take.register
    def _(self, change: AttestationAsked, event: LoggedEvent) -> None:
        self._do(
            "INSERT OR REPLACE INTO judgements (owner, policy, credential, asked_at, wanted, number) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            change.owner,
            change.policy,
            change.credential,
            change.asked_at,
            change.wanted,
            event.number,
        )

    @_take.register
    def _(self, change: AttestPanelDrawn, event: LoggedEvent) -> None:
        self._judgement(change.owner, seats=len(change.validators), until=change.reveals_end)

    @_take.register
    def _(self, change: VerdictCommitted, event: LoggedEvent) -> None:
        self._judgement(change.owner, until=change.reveals_end)
        self._do("UPDATE judgements SET committed = committed + 1 WHERE owner = ?", change.owner)

    @_take.register
    def _(self, change: VerdictRevealed, event: LoggedEvent) -> None:
        self._judgement(change.owner, until=change.reveals_end)
        self._do("UPDATE judgements SET revealed = revealed + 1 WHERE owner = ?", change.owner)

    @_take.register
    def _(self, change: AttestationEnded, event: LoggedEvent) -> None:
        self._judgement(change.owner, verdict=change.verdict, reason=change.reason, number=event.number)

    def _judgement(self, owner: str, **values: int) -> None:
        names = ", ".join(f"{name} = ?" for name in values)
        self._do(f"UPDATE judgements SET {names} WHERE owner = ?", *values.values(), owner)

    def add_blocks(self, blocks: Iterable[BlockRow]) -> None:
        """Store times and proposers of blocks."""
        with self._writing():
            for block in blocks:
                self._do(
                    "INSERT OR REPLACE INTO blocks VALUES (?, ?, ?)",
                    block.height,
                    block.time_ns,
                    block.proposer,
                )

    def forget_blocks(self, before: int) -> None:
        """Delete the blocks below the height ``before`` that have no events."""
        with self._writing():
            self._do(
                "DELETE FROM blocks WHERE height < ? AND height NOT IN (SELECT height FROM events)",
                before,
            )

    def put_trace(self, key: ShareKey, trace: ShareTrace) -> None:
        """Store the trace of a share, replacing an earlier one."""
        value = {
            "boundaries": [(b.step, b.root.hex(), b.metrics) for b in trace.boundaries],
            "replayed": [(r.segment, r.reason, r.root.hex()) for r in trace.replayed],
            "picks": trace.picks,
            "verdict": trace.verdict,
            "claimed": trace.claimed,
        }
        with self._writing():
            self._do(
                "INSERT OR REPLACE INTO traces VALUES (?, ?, ?, ?, ?, ?, ?)",
                *key,
                self.trace_changes(0)[1] + 1,
                json.dumps(value, separators=(",", ":")),
            )

    def name_jobs(self, names: Mapping[bytes, str]) -> None:
        """Store the names of jobs."""
        with self._writing():
            for job_id, name in names.items():
                self._do("INSERT OR REPLACE INTO jobs VALUES (?, ?)", job_id, name)
