"""The books: the records of a chain as its events tell them."""

from dataclasses import replace
from functools import singledispatch
from hashlib import sha256
from typing import Any

from domain.attest.records import Attestation, AttestPolicy, AttestSeat, Credential, KeptBeacon
from domain.disputes.events import StandOpened
from domain.disputes.records import Dispute
from domain.events import Change
from domain.genesis import Genesis
from domain.keys import PanelKey, RoundKey, ShareKey
from domain.ledger.records import BondAccount, BondRow, Escrow, Payment
from domain.legs.records import Leg, SlotStart
from domain.market.records import Bid, Order
from domain.mint.records import Minter
from domain.proof.events import DeliveryKeyShown, ShareAccepted
from domain.proof.records import (
    Panel,
    PanelSeat,
    ReceiptAsk,
    Round,
    Share,
    ShareRoots,
    ShownDelivery,
)
from domain.registry.records import BeaconKey, Provider, Validator
from domain.staking.records import BondStatus
from localnet.simulator.rebuilt.authz import AuthzBooks
from localnet.simulator.rebuilt.distribution import DistributionBooks
from localnet.simulator.rebuilt.feegrant import FeeGrantBooks
from localnet.simulator.rebuilt.gov import GovBooks
from localnet.simulator.rebuilt.slashing import SlashingBooks
from localnet.simulator.rebuilt.staking import StakingBooks

Parts = tuple[bytes, ...]


def roots_of(change: ShareAccepted | DeliveryKeyShown | StandOpened) -> ShareRoots:
    """Return the roots of a share that an event tells."""
    return ShareRoots(
        trace_root=change.trace_root,
        update_root=change.update_root,
        local_out=change.local_out,
        metrics=change.metrics,
        segments=change.segments,
        steps=change.steps,
    )


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
        self.policies: dict[str, AttestPolicy] = {}
        self.beacons: dict[int, KeptBeacon] = {}
        self.attestations: dict[str, Attestation] = {}
        self.attest_seats: dict[tuple[str, int], AttestSeat] = {}
        self.credentials: dict[bytes, Credential] = {}
        self.escrows: dict[bytes, Escrow] = {}
        self.bond_rows: dict[tuple[bytes, int, int, int, int], BondRow] = {}
        self.payments: dict[tuple[bytes, int], Payment] = {}
        self.fees = self.community = self.burnt = self.distribution = 0
        self.number = 0
        # The number of payments of an order.
        self.paid: dict[bytes, int] = {}
        # The local state that a slot's last accepted share of a leg left.
        self.locals: dict[tuple[bytes, int, int], bytes] = {}
        # Seats that differ from a ruling, of panels that go on.
        self.differed: set[tuple[PanelKey, str, int]] = set()

    def change_validator(self, operator: str, **changes: Any) -> None:
        """Change fields of a validator."""
        self.validators[operator] = replace(self.validators[operator], **changes)

    def change_provider(self, address: str, **changes: Any) -> None:
        """Change fields of a provider."""
        self.providers[address] = replace(self.providers[address], **changes)

    def add_free(self, owner: str, amount: int) -> None:
        """Add free coins to a bond account."""
        known = self.bonds.get(owner) or BondAccount(owner, 0, ())
        self.bonds[owner] = replace(known, free=known.free + amount)

    def reserve(self, bid: bytes, work: int) -> None:
        """Reserve work of a bid that is in the book."""
        known = self.bids.get(bid)
        if known is not None:
            self.bids[bid] = replace(known, reserved=known.reserved + work)

    def change_order(self, order: bytes, **changes: Any) -> None:
        """Change fields of an order."""
        self.orders[order] = replace(self.orders[order], **changes)

    def change_leg(self, order: bytes, leg: int, **changes: Any) -> None:
        """Change fields of a leg; the work of one that ends is free again."""
        key = order, leg
        before = self.legs[key]
        after = self.legs[key] = replace(before, **changes)
        if before.is_live and not after.is_live:
            self.reserve(before.bid_id, -before.work)

    def count_failure(self, order: bytes) -> None:
        """Count a failure of an order."""
        self.change_order(order, failures=self.orders[order].failures + 1)

    def lock(self, order: bytes, row: BondRow) -> None:
        """Lock a bond of an order, unless it is nothing."""
        if row.amount:
            self.add_free(row.owner, -row.amount)
            self.bond_rows[order, row.leg, row.round, row.slot, row.issue] = row

    def withhold(self, order: bytes, amount: int) -> None:
        """Withhold coins of a deposit for a validator's part."""
        known = self.escrows[order]
        self.escrows[order] = replace(known, withheld=known.withheld + amount)

    def change_share(self, key: ShareKey, **changes: Any) -> None:
        """Change fields of a share."""
        self.shares[key] = replace(self.shares[key], **changes)

    def count_shares(self, provider: str, accepted: int = 0, rejected: int = 0) -> None:
        """Count shares for their provider."""
        known = self.providers[provider]
        self.change_provider(
            provider,
            shares_accepted=known.shares_accepted + accepted,
            shares_rejected=known.shares_rejected + rejected,
        )

    def open_panel(self, key: PanelKey) -> None:
        """Begin the record of a panel."""
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

    def change_panel(self, key: PanelKey, **changes: Any) -> None:
        """Change fields of a panel."""
        self.panels[key] = replace(self.panels[key], **changes)

    def change_place(self, key: PanelKey, number: int, **changes: Any) -> None:
        """Change fields of a place of a panel."""
        places = list(self.panels[key].places)
        places[number] = replace(places[number], **changes)
        self.change_panel(key, places=tuple(places))

    def seat_of(self, key: PanelKey, auditor: str) -> PanelSeat:
        """Return the last seat of an auditor: earlier ones are of stages that are over."""
        seats = (self.seats[key, number] for number in reversed(range(self.panels[key].seats)))
        return next(seat for seat in seats if seat.validator == auditor)

    def seats_of(self, key: PanelKey) -> list[PanelSeat]:
        """Return all seats of a panel."""
        return [self.seats[key, number] for number in range(self.panels[key].seats)]

    def change_seat(self, key: PanelKey, auditor: str, **changes: Any) -> None:
        """Change fields of an auditor's last seat."""
        seat = self.seat_of(key, auditor)
        self.seats[key, seat.number] = replace(seat, **changes)


@singledispatch
def take(change: Change, books: Rebuilt) -> None:
    """Change the books as an event tells. The other modules of this folder register a function for each event."""
    raise AssertionError(f"the books have no row for {type(change).__name__}")
