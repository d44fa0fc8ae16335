"""The books compared with the state of the state machine."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from types import MappingProxyType
from typing import Any

from chain.state_machine.attest.tables import ATTEST_POLICIES, ATTEST_SEATS, ATTESTATIONS, BEACONS, CREDENTIALS
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
from domain.attest.records import Attestation, AttestPolicy, AttestSeat, Credential, KeptBeacon
from domain.authz.records import AuthorizationGrant
from domain.disputes.records import Dispute
from domain.distribution.records import DistributionTotals, ValidatorRewards, WithdrawAddress
from domain.feegrant.records import FeeGrant
from domain.gov.records import Deposit, Proposal, Vote
from domain.keys import PanelKey, RoundKey, ShareKey
from domain.ledger.records import BondAccount, BondRow, Escrow, Payment
from domain.legs.records import Leg, SlotStart
from domain.market.records import Bid, Order
from domain.mint.records import Minter
from domain.params import make_params
from domain.proof.records import (
    Panel,
    PanelSeat,
    ReceiptAsk,
    Round,
    Share,
    ShownDelivery,
)
from domain.registry.records import Provider, Validator
from domain.slashing.records import Evidence, SigningInfo
from domain.staking.records import Delegation, Redelegation, Unbonding, UnbondingPool, ValidatorStake
from localnet.simulator.rebuilt.books import Parts, Rebuilt


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
        ATTEST_POLICIES: ("policies", AttestPolicy, _name),
        BEACONS: ("beacons", KeptBeacon, _proposal),
        ATTESTATIONS: ("attestations", Attestation, _name),
        ATTEST_SEATS: ("attest_seats", AttestSeat, _pool),
        CREDENTIALS: ("credentials", Credential, _order),
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
