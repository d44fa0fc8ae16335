"""Conditions that hold during a run and at its end, beside the chain's own invariants (protocol section 8)."""

from typing import TYPE_CHECKING

from chain.state_machine.invariants import check_all
from chain.state_machine.ledger.tables import BOND_ACCOUNTS, BOND_ROWS, TALLIES
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.proof.tables import DELIVERIES, LOTS, PANELS, RECEIPT_ASKS, ROUNDS, SHARES
from chain.state_machine.registry.tables import PROVIDERS, VALIDATORS
from chain.state_machine.staking.tables import VALIDATOR_STAKES, is_bonded
from chain.state_machine.store import Overlay
from chain.state_machine.tables import number_of
from domain.block import BlockResult
from domain.bounds import check as check_record
from domain.keys import ShareKey
from domain.legs.reasons import LegEnd
from domain.legs.records import LegState
from domain.market.records import OrderState
from domain.proof.reasons import MISMATCHES, UNANSWERED, ShareReason
from domain.proof.records import PanelSeat, Round, Share, ShareState
from localnet.simulator.actors import auditor
from localnet.simulator.behaviours import is_bent
from localnet.simulator.memory_chain import PUBLIC

if TYPE_CHECKING:
    from localnet.simulator.world import World

BLAMES = (
    LegEnd.PAYLOAD_NOT_DELIVERED,
    LegEnd.DECLINED_BAD_JOB,
    LegEnd.DECLINED_WORK_MISMATCH,
    LegEnd.DECLINED_TOO_SLOW,
    LegEnd.DECLINED_NOT_FINITE,
)
"""Ends of a leg that cost a validator no more than a fee, because the fault could be either party's."""


class Broken(AssertionError):
    """Something that must always hold does not."""


class Watch:
    """Looks at every block."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.losses: dict[str, int] = {}  # of honest validators, if the fault could be another's
        self._drawn: dict[ShareKey, Share] = {}
        self._right: set[ShareKey] = set()
        # Legs that go on from a wrong share or round that no lot drew.
        self._bent: set[tuple[bytes, int]] = set()

    def _steady(self, name: str) -> bool:
        """Return whether someone is honest, has not left, and no outage took it away."""
        provider = self.world.providers.get(name)
        # A provider that leaves while it stands for a share loses the bond.
        has_left = provider is not None and provider.gone
        return self._honest(name) and name not in self.world.absent and not has_left

    def _honest(self, name: str) -> bool:
        challenger = self.world.challengers.get(name)
        if challenger is not None and not challenger.behaviour.honest:
            return False
        if name in self.world.validators:
            return self.world.validators[name].behaviour.honest
        return name not in self.world.providers or self.world.providers[name].behaviour.honest

    def after_block(self, result: BlockResult) -> None:
        """Check what the last block changed; BROKEN names what does not hold."""
        del result
        chain = self.world.chain
        store = Overlay(chain.store)
        for parts in chain.changed_in(SHARES):
            self._check_share(SHARES.must(store, parts[0], *map(number_of, parts[1:])))
        for order_id, number, round in chain.changed_in(ROUNDS):
            self._check_round(ROUNDS.must(store, order_id, number_of(number), number_of(round)))
        for (name,) in chain.changed_in(VALIDATORS):
            own = VALIDATOR_STAKES.must(store, name.decode())
            # Governance may allow fewer validators, and the least of them then leave the set with their stakes.
            if is_bonded(own) or own.jailed:
                self._check_stake(name.decode(), VALIDATORS.must(store, name.decode()).stake)
        for order_id, number in chain.changed_in(LEGS):
            leg = LEGS.must(store, order_id, number_of(number))
            if leg.state is LegState.FAILED and self._steady(leg.validator):
                end = LegEnd(leg.end_reason)
                self._check_failed(order_id, leg.validator, end, leg.number)
        for seat in auditor.seats_changed(chain):
            self._check_seat(seat)

    def _check_share(self, share: Share) -> None:
        """A share never changes once its segments are drawn; no honest provider's is found wrong."""
        key = share.key
        before = self._drawn.get(key)
        if before is not None:
            # The work of one that ends where the job stops is known when it is accepted.
            cut = share.roots is not None and not share.roots.is_whole
            same = ("claim", "signature", "local_in", "bond", "drawn", *(() if cut else ("work",)))
            changed = [name for name in same if getattr(before, name) != getattr(share, name)]
            _hold(not changed, f"a drawn share of {share.claim.provider} changed: {changed}")
        if share.is_drawn and before is None:
            self._drawn[key] = share
        habit = self.world.habit_of(share.claim)
        self._check_rejected(share, habit)
        right = habit == "honest"
        wrong = share.state is ShareState.WRONG
        _hold(not (right and wrong), f"an honest share of {share.claim.provider} is found wrong")
        if share.state is ShareState.RIGHT and before is not None and key not in self._right:
            validator = self.world.chain.overlay()
            self._right.add(key)
            name = LEGS.must(validator, key.order_id, key.leg).validator
            # A share that was open when its leg failed has no verdict of the validator.
            if self._honest(name) and share.reason != ShareReason.LEG_ENDED:
                silent = ShareReason(share.reason) in UNANSWERED and not share.is_received
                _hold(silent, f"{name}, honest, rejected a right share of {share.claim.provider}")

    def _check_rejected(self, share: Share, habit: str) -> None:
        """An honest validator finds no fault with what is right."""
        key = share.key
        name = LEGS.must(self.world.chain.overlay(), key.order_id, key.leg).validator
        fault = share.state is ShareState.REJECTED and ShareReason(share.reason) in MISMATCHES
        fair = is_bent(habit) or not self._honest(name)
        _hold(not fault or fair, f"{name}, honest, found fault with a share that is {habit}")

    def _check_round(self, closed: Round) -> None:
        """Check that right shares of an honest validator lead to the state that the job alone gives."""
        world, key = self.world, closed.key
        store = world.chain.overlay()
        for share in SHARES.scan(store, key.order_id, key.leg, key.round):
            if share.state is ShareState.ACCEPTED and is_bent(world.habit_of(share.claim)):
                self._bent.add((key.order_id, key.leg))
        name = LEGS.must(store, key.order_id, key.leg).validator
        roots = world.job(key.order_id).result_roots()
        right = roots[key.round] if key.round < len(roots) else b""
        if closed.verified and closed.next_root != right and not PANELS.has(store, *key.panel()):
            self._bent.add((key.order_id, key.leg))
        if self._honest(name) and not self._is_bent(key.order_id, key.leg):
            _hold(closed.next_root == right, f"{name}, honest, has another result than the job")

    def _check_stake(self, name: str, stake: int) -> None:
        if self._steady(name):
            least = self.world.setup.stake
            _hold(stake >= least, f"{name}, honest, has {stake} of its stake of {least}")

    def _check_failed(self, order_id: bytes, name: str, end: LegEnd, leg: int) -> None:
        """An honest validator fails where its consumer does not deliver, its job stops before it is begun, or its own
        providers cheat or stay away: whom it takes into its cluster is its own business. It declines a leg that starts
        from states that it does not have.
        """
        world = self.world
        order = next(o for o in world.orders if o.order_id == order_id)
        excused = end in BLAMES and not order.plan.honest
        excused |= end is LegEnd.UNDECIDED and not all(map(self._honest, world.validators))
        excused |= end is LegEnd.DECLINED_BY_CHOICE and not self._has_openings(order_id, leg)
        excused |= end is LegEnd.STATE_UNAVAILABLE and not self._honest(self._left_by(order_id, leg))
        excused |= any(
            not provider.trustworthy and (order_id, leg) in provider.asked for provider in world.providers.values()
        )
        _hold(excused, f"{name}, honest, failed an order: {end.name}")

    def _check_seat(self, seat: PanelSeat) -> None:
        store = self.world.chain.overlay()
        validator = LEGS.must(store, seat.order_id, seat.leg).validator
        consumer = ORDERS.must(store, seat.order_id).consumer
        member = PROVIDERS.get(store, seat.validator)
        party = seat.validator in (validator, consumer) or (member is not None and member.is_in(validator))
        _hold(not party, f"{seat.validator}, a party, has a seat")

    def at_end(self) -> None:
        """Check that everything is closed and free, and that the honest have their bonds."""
        world, store = self.world, Overlay(self.world.chain.store)
        for order in ORDERS.scan(store):
            _hold(order.state is OrderState.CLOSED, f"order {order.id.hex()} is not closed")
        for tally in TALLIES.scan(store):
            _hold(not tally.held, f"order {tally.order_id.hex()} holds {tally.held}")
        _hold(not BOND_ROWS.scan(store), "a bond is not free")
        for table in (LOTS, *auditor.LEFT):
            _hold(not list(table.keys(store)), f"there is a {table.name} left")
        excused = self._excused()
        for account in BOND_ACCOUNTS.scan(store):
            if not self._steady(account.owner):
                continue
            has = account.free + sum(w.amount for w in account.withdrawals)
            least = world.deposited(account.owner) - excused.get(account.owner, 0)
            _hold(has >= least, f"{account.owner}, honest, has {has} of its bond of {least}")
        check_all(world.chain.store)
        world.chain.check_books()
        for public in PUBLIC:
            for record in public.scan(store):
                check_record(record)

    def _has_openings(self, order_id: bytes, number: int) -> bool:
        """Return whether validators have the states that a leg starts from."""
        on_chain = self.world.order(order_id)
        leg, terms = on_chain.leg(number), on_chain.order.terms
        assert leg is not None
        known = {terms.global_root, terms.local_root}
        known |= {state.root for state in self.world.setup.held}
        return known >= {leg.initial_root, *(found.local_root for found in on_chain.starts)}

    def _left_by(self, order_id: bytes, number: int) -> str:
        """Return the validator of the leg that left the states from which a leg starts."""
        store = self.world.chain.overlay()
        leg = LEGS.must(store, order_id, number)
        return LEGS.must(store, order_id, leg.from_leg).validator if leg.from_leg else ""

    def _is_bent(self, order_id: bytes, number: int) -> bool:
        """Return whether a leg, or one that it continues, goes on from a wrong share or round."""
        while number and (order_id, number) not in self._bent:
            number = LEGS.must(self.world.chain.overlay(), order_id, number).from_leg
        return number > 0

    def _excused(self) -> dict[str, int]:
        """Return what honest validators may have lost: fees, job bonds, and right shares that they rejected."""
        excused: dict[str, int] = {}
        store = Overlay(self.world.chain.store)
        for leg in LEGS.scan(store):
            order = ORDERS.must(store, leg.order_id)
            lost = 0
            if leg.state is LegState.FAILED:
                blamed = leg.end_reason in BLAMES
                lost += order.params.payload_fee if blamed else leg.job_bond
            shares = SHARES.scan(store, leg.order_id, leg.number)
            right = [share for share in shares if share.state is ShareState.RIGHT]
            paid_for = [s for s in right if s.is_received or ShareReason(s.reason) in MISMATCHES]
            lost += sum(s.bond + get_paid(store, s.first_key) for s in paid_for)
            if lost:
                name = leg.validator
                excused[name] = excused.get(name, 0) + lost
        self.losses = dict(excused)
        for delivery in DELIVERIES.scan(store):
            # A provider that was down when it had to show its key pays the fee.
            if delivery.show_by and not delivery.key:
                provider = SHARES.must(store, *delivery.share).claim.provider
                fee = ORDERS.must(store, delivery.order_id).params.answer_fee
                excused[provider] = excused.get(provider, 0) + fee
        for ask in RECEIPT_ASKS.scan(store):
            # The witnesses of a delivery are paid from the bond of its share.
            provider = SHARES.must(store, *ask.share).claim.provider
            excused[provider] = excused.get(provider, 0) + ask.paid
        return excused


def get_paid(store: Overlay, key: ShareKey) -> int:
    """Return what the witnesses of a share's delivery were paid."""
    ask = RECEIPT_ASKS.get(store, *key)
    return ask.paid if ask is not None else 0


def _hold(holds: bool, what: str) -> None:
    if not holds:
        raise Broken(what)
