"""The events of policies, attestations and credentials."""

from dataclasses import replace
from typing import Any

from domain.attest.events import (
    AttestationAsked,
    AttestationEnded,
    AttestPanelDrawn,
    AttestPolicyAdded,
    AttestPolicyWithdrawn,
    AttestSeatSettled,
    BeaconKept,
    CredentialBanned,
    CredentialEnded,
    CredentialGranted,
    VerdictCommitted,
    VerdictRevealed,
)
from domain.attest.records import Attestation, AttestPolicy, AttestSeat, AttestState, Credential, KeptBeacon
from localnet.simulator.rebuilt.books import Rebuilt, take


@take.register
def _(change: AttestPolicyAdded, books: Rebuilt) -> None:
    books.policies[change.name] = AttestPolicy(
        name=change.name, policy=change.policy, valid_for=change.valid_for, added_at=change.added_at
    )


@take.register
def _(change: AttestPolicyWithdrawn, books: Rebuilt) -> None:
    books.policies[change.name] = replace(books.policies[change.name], withdrawn_at=change.withdrawn_at)


@take.register
def _(change: BeaconKept, books: Rebuilt) -> None:
    books.beacons[change.number] = KeptBeacon(
        number=change.number, beacon=change.beacon, height=change.height, time=change.time
    )
    if change.dropped:
        del books.beacons[change.dropped]


@take.register
def _(change: AttestationAsked, books: Rebuilt) -> None:
    before = books.attestations.get(change.owner)
    for number in range(before.seats if before is not None else 0):
        del books.attest_seats[change.owner, number]
    books.attestations[change.owner] = Attestation(
        owner=change.owner,
        number=change.number,
        policy=change.policy,
        credential=change.credential,
        executor=change.executor,
        certificate=change.certificate,
        beacon=change.beacon,
        beacon_time=change.beacon_time,
        time=change.time,
        digest=change.digest,
        size=change.size,
        wanted=change.wanted,
        seat_fee=change.seat_fee,
        asked_at=change.asked_at,
        state=AttestState.WAITING,
    )


def _attestation(books: Rebuilt, owner: str, **changes: Any) -> None:
    books.attestations[owner] = replace(books.attestations[owner], **changes)


def _seat(books: Rebuilt, owner: str, seat: int, **changes: Any) -> None:
    books.attest_seats[owner, seat] = replace(books.attest_seats[owner, seat], **changes)


@take.register
def _(change: AttestPanelDrawn, books: Rebuilt) -> None:
    _attestation(
        books,
        change.owner,
        state=AttestState.OPEN,
        seats=len(change.validators),
        drawn_at=change.drawn_at,
        commits_end=change.commits_end,
        reveals_end=change.reveals_end,
    )
    for seat, (validator, stake) in enumerate(zip(change.validators, change.stakes, strict=True)):
        books.attest_seats[change.owner, seat] = AttestSeat(
            owner=change.owner, number=change.number, seat=seat, validator=validator, stake=stake
        )


@take.register
def _(change: VerdictCommitted, books: Rebuilt) -> None:
    _seat(books, change.owner, change.seat, commitment=change.commitment)
    committed = books.attestations[change.owner].committed + 1
    times = {"commits_end": change.commits_end, "reveals_end": change.reveals_end}
    _attestation(books, change.owner, committed=committed, **times)


@take.register
def _(change: VerdictRevealed, books: Rebuilt) -> None:
    _seat(books, change.owner, change.seat, answer=change.answer)
    revealed = books.attestations[change.owner].revealed + 1
    _attestation(books, change.owner, revealed=revealed, reveals_end=change.reveals_end)


@take.register
def _(change: AttestSeatSettled, books: Rebuilt) -> None:
    _seat(books, change.owner, change.seat, paid=change.paid, cut=change.cut)
    books.burnt += change.cut
    if change.counts_silence:
        missed = books.validators[change.validator].audits_missed
        books.change_validator(change.validator, audits_missed=missed + 1)


@take.register
def _(change: AttestationEnded, books: Rebuilt) -> None:
    _attestation(
        books,
        change.owner,
        state=AttestState.ENDED,
        verdict=change.verdict,
        reason=change.reason,
        granted=change.granted,
    )


@take.register
def _(change: CredentialGranted, books: Rebuilt) -> None:
    books.credentials[change.credential] = Credential(
        id=change.credential,
        owner=change.owner,
        policy=change.policy,
        executor=change.executor,
        since=change.since,
        ends_at=change.ends_at,
    )


@take.register
def _(change: CredentialEnded, books: Rebuilt) -> None:
    books.credentials[change.credential] = replace(books.credentials[change.credential], ends_at=change.ends_at)


@take.register
def _(change: CredentialBanned, books: Rebuilt) -> None:
    books.credentials[change.credential] = replace(books.credentials[change.credential], banned_at=change.banned_at)
