"""Invariants of credentials: counts, indexes, evidence, and the fees that are locked."""

from chain.state_machine.attest.tables import (
    ATTEST_DUE,
    ATTEST_DUTIES,
    ATTEST_POLICIES,
    ATTEST_SEATS,
    ATTESTATIONS,
    BEACON_NUMBERS,
    BEACONS,
    CREDENTIALS,
    CURRENT,
    EVIDENCE,
    LAST_BEACON,
    LIVE_POLICIES,
    OPEN_ATTESTATIONS,
    OWNED,
    AttestSubject,
)
from chain.state_machine.context import Running
from chain.state_machine.invariant import Invariants, ensure
from chain.state_machine.ledger.invariants import ensure_pot
from chain.state_machine.proof.tables import LOTS, lot_key
from chain.state_machine.queue import get_entries
from chain.state_machine.store import Overlay
from domain.attest.moves import ATTEST_POT
from domain.attest.records import Attestation, AttestState
from domain.limits import BEACONS_MAX, CREDENTIALS_MAX


def check_policies(store: Overlay, _: Running) -> None:
    """Check the count of policies in force, and the index of kept beacons."""
    live = sum(not policy.withdrawn_at for policy in ATTEST_POLICIES.scan(store))
    ensure(live == LIVE_POLICIES.get(store), "policies about evidence are counted wrong")
    beacons = BEACONS.scan(store)
    ensure(len(beacons) <= BEACONS_MAX, "too many beacons are kept for evidence")
    last = beacons[-1].number if beacons else 0
    ensure(last == LAST_BEACON.get(store), "the last beacon for evidence is not the newest one")
    numbers = {beacon: number for (beacon,), number in BEACON_NUMBERS.scan(store)}
    ensure(numbers == {each.beacon: each.number for each in beacons}, "the index of beacons for evidence is wrong")


def check_attestations(store: Overlay, _: Running) -> None:
    """Check that each open attestation has its evidence, its fee, and a lot or an entry of the queue."""
    attestations = ATTESTATIONS.scan(store)
    going = [each for each in attestations if each.state is not AttestState.ENDED]
    ensure(len(going) == OPEN_ATTESTATIONS.get(store), "open attestations are counted wrong")
    ensure_pot(store, ATTEST_POT, sum(each.fee for each in going))
    owners = {owner.decode() for (owner,) in EVIDENCE.keys(store)}
    ensure(owners == {each.owner for each in going}, "evidence is kept that no open attestation has, or one lacks it")
    due = {
        (entry.text(0), entry.number(1))
        for entry in get_entries(store, ATTEST_DUE.lane)
        if entry.kind == ATTEST_DUE.number
    }
    for each in attestations:
        name = f"the attestation of {each.owner}"
        waits = LOTS.has(store, *lot_key(AttestSubject(each.owner, each.number)))
        ensure(waits == (each.state is AttestState.WAITING), f"{name} has a lot, or lacks it")
        if each.state is AttestState.OPEN:
            ensure((each.owner, each.number) in due, f"{name} has no end")
        _check_seats(store, each)
    seated = {(seat.owner, seat.seat) for seat in ATTEST_SEATS.scan(store)}
    for (validator, owner), number in ATTEST_DUTIES.scan(store):
        key = owner.decode(), number - 1
        has_seat = key in seated and ATTEST_SEATS.must(store, *key).validator == validator.decode()
        ensure(has_seat, f"{validator.decode()} has a duty without a seat")


def _check_seats(store: Overlay, attestation: Attestation) -> None:
    name = f"the panel about the evidence of {attestation.owner}"
    seats = ATTEST_SEATS.scan(store, attestation.owner)
    ensure(len(seats) == attestation.seats <= attestation.wanted, f"{name} has another number of seats")
    ensure(all(seat.number == attestation.number for seat in seats), f"{name} has a seat of another one")
    ensure(len({seat.validator for seat in seats}) == len(seats), f"{name} seats a validator twice")
    ensure(sum(bool(seat.commitment) for seat in seats) == attestation.committed, f"{name} counts commitments wrong")
    ensure(sum(bool(seat.answer) for seat in seats) == attestation.revealed, f"{name} counts answers wrong")
    ensure(sum(seat.paid for seat in seats) <= attestation.fee, f"{name} paid more than the fee")
    for seat in seats:
        owes = attestation.state is AttestState.OPEN and not seat.answer
        duty = ATTEST_DUTIES.get(store, seat.validator, seat.owner)
        ensure(duty == (seat.seat + 1 if owes else 0), f"{name} has a wrong duty of {seat.validator}")


def check_credentials(store: Overlay, _: Running) -> None:
    """Check the index of credentials by owner, and that an account's current credential is its own."""
    owned: dict[str, set[bytes]] = {}
    for owner, credential in OWNED.keys(store):
        owned.setdefault(owner.decode(), set()).add(credential)
    credentials = CREDENTIALS.scan(store)
    expected: dict[str, set[bytes]] = {}
    for each in credentials:
        expected.setdefault(each.owner, set()).add(each.id)
        ensure(each.since <= each.ends_at, f"credential {each.id.hex()} ends before it begins")
    ensure(owned == expected, "the index of credentials by owner is wrong")
    for name, ids in owned.items():
        ensure(len(ids) <= CREDENTIALS_MAX, f"{name} has too many credentials")
    for (owner,) in CURRENT.keys(store):
        current = CURRENT.get(store, owner.decode())
        ensure(
            current in owned.get(owner.decode(), set()), f"the current credential of {owner.decode()} is not its own"
        )


INVARIANTS = Invariants(whole=(check_policies, check_attestations, check_credentials))
