"""Requests for credentials: what the chain refuses at once, the panel, its verdict, and its money."""

from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from chain.state_machine.attest.tables import ATTEST_DUTIES, EVIDENCE
from chain.state_machine.lane import Lane
from chain.state_machine.ledger.tables import POTS
from chain.state_machine.registry.tables import VALIDATORS
from chain.state_machine.rules import RULES
from domain.attest.evidence import Evidence
from domain.attest.messages import MsgCommitVerdict, MsgReleaseCredential, MsgRevealVerdict
from domain.attest.queries import (
    AttestationRequest,
    AttestDutiesRequest,
    AttestEvidenceRequest,
    CredentialRequest,
    CredentialsRequest,
)
from domain.attest.records import AttestAnswer, AttestState, AttestVerdict
from domain.errors import (
    ALREADY_EXISTS,
    BAD_FIELD,
    BAD_PROOF,
    DEADLINE_PASSED,
    INSUFFICIENT_FUNDS,
    LIMIT_REACHED,
    NOT_FOUND,
    NOT_YET,
    NOT_YOURS,
    WRONG_STATE,
    Code,
)
from domain.limits import CREDENTIALS_MAX
from domain.proof.params import ProofParams
from tests.support.attested import OK, POLICY, SALT, VALID_FOR, AttestMarket, other_device, params
from tests.support.chain_harness import COINS
from validator.credentials.verify import verify_bound

BAD = AttestAnswer.BAD_CHAIN
OTHER = AttestAnswer.MALFORMED
AWAY = AttestAnswer.ABSTAINED
FEE = 100
OWNER = "v0p0"


def asked(**changes: Any) -> AttestMarket:
    """Return a market in which a provider has asked for a credential, and the panel is drawn."""
    market = AttestMarket(**changes)
    market.chain.ok(market.attest(OWNER))
    market.draw(OWNER)
    return market


# --- the golden path -----------------------------------------------------------------------------


def test_a_quote_of_a_software_tpm_becomes_a_credential() -> None:
    """The whole path, in which each seat verifies the evidence that it reads from the chain."""
    market = AttestMarket()
    kept = market.beacon()
    binding = market.binding(OWNER)
    market.chain.ok(market.attest(OWNER, beacon=kept.beacon, evidence=market.evidence(OWNER)))
    market.draw(OWNER)
    asked = market.attestation(OWNER)
    assert (asked.beacon_time, asked.certificate) == (kept.time, bytes(32))
    evidence = market.chain.ask(AttestEvidenceRequest(OWNER, asked.number)).evidence
    assert evidence.digest == asked.digest
    found = verify_bound(evidence, market.policy, replace(binding, beacon_time=asked.beacon_time), asked.time)
    assert found.id == asked.credential
    ended = market.judge(OWNER)
    assert (ended.verdict, ended.reason, ended.granted) == (AttestVerdict.ACCEPTED, OK, True)
    credential = market.credential()
    assert credential is not None
    assert (credential.owner, credential.policy) == (OWNER, POLICY)
    assert credential.ends_at == credential.since + VALID_FOR
    assert market.chain.ask(CredentialRequest(market.device)).in_force
    assert market.chain.ask(CredentialsRequest(OWNER)).in_force == (market.device,)
    assert market.chain.ask(AttestEvidenceRequest(OWNER, asked.number)).evidence is None
    market.chain.pass_until(credential.ends_at - 1)
    assert market.chain.ask(CredentialRequest(market.device)).in_force
    market.chain.pass_time(1)
    assert not market.chain.ask(CredentialRequest(market.device)).in_force


def test_neither_the_owner_nor_its_validator_judges_evidence() -> None:
    """Lots of many requests never draw a party, and draw each of the others."""
    market = AttestMarket()
    drawn = set()
    for number, owner in enumerate(("v0p0", "v0p1", "v1p0", "v1", "v2p0")):
        for _ in range(3):
            market.chain.ok(market.attest(owner, credential=other_device(number)))
            seats = [seat.validator for seat in market.draw(owner)]
            assert len(set(seats)) == 3
            assert owner[:2] not in seats
            drawn |= set(seats)
            market.judge(owner)
    assert drawn == set(market.validators)


def test_a_validator_binds_its_evidence_to_its_certificate_on_chain() -> None:
    market = AttestMarket()
    market.chain.ok(market.attest("v1"))
    assert market.attestation("v1").certificate == sha256(b"certificate").digest()


# --- what is refused at once -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "field", "changes"),
    [
        (NOT_FOUND, "policy", {"policy": "no-such"}),
        (BAD_FIELD, "evidence.technology", {"evidence": Evidence("sgx", b"a quote")}),
        (BAD_FIELD, "executor", {"executor": bytes([7]) * 32}),
        (NOT_FOUND, "beacon", {"beacon": bytes([7]) * 32}),
        (
            LIMIT_REACHED,
            "evidence",
            {"evidence": Evidence("tpm", b"a quote", collateral=bytes(64 * 1024))},
        ),
    ],
)
def test_what_needs_no_panel_is_refused(code: Code, field: str, changes: dict[str, Any]) -> None:
    market = AttestMarket()
    market.chain.refused(code, market.attest(OWNER, **changes), field=field)


def test_an_old_beacon_is_refused() -> None:
    market = AttestMarket()
    old = market.beacon()
    message = market.attest(OWNER, beacon=old.beacon)
    age = market.policy.max_age
    # The clock of the chain goes on slowly, but headers may jump, as after a halt.
    market.chain.time_ns += (age - 10) * 10**9
    market.chain.block()
    assert market.beacon().beacon != old.beacon
    market.chain.time_ns += 10 * 10**9
    market.chain.refused(DEADLINE_PASSED, message, field="beacon")
    market.chain.ok(market.attest(OWNER))


def test_only_the_last_beacons_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chain.state_machine.attest.policies.BEACONS_MAX", 5)
    market = AttestMarket()
    old = market.beacon()
    market.chain.pass_time(30)
    assert market.beacon().number > old.number + 5
    market.chain.refused(NOT_FOUND, market.attest(OWNER, beacon=old.beacon), field="beacon")
    assert [each.time for each in (old, market.beacon())] == sorted([old.time, market.beacon().time])


def test_an_account_has_one_request_at_a_time() -> None:
    market = asked()
    market.chain.refused(ALREADY_EXISTS, market.attest(OWNER, credential=other_device(1)), field="owner")
    market.judge(OWNER)
    market.chain.ok(market.attest(OWNER, credential=other_device(1)))
    assert market.attestation(OWNER).number == 2


def test_only_so_many_requests_are_open() -> None:
    market = AttestMarket(params(attest_open_max=2))
    market.chain.ok(market.attest("v0p0"), market.attest("v1p0", credential=other_device(1)))
    market.chain.refused(LIMIT_REACHED, market.attest("v2p0", credential=other_device(2)), field="owner")
    market.judge("v0p0")
    market.chain.ok(market.attest("v2p0", credential=other_device(2)))


def test_the_fee_must_be_there() -> None:
    market = AttestMarket(params(attest_seat_fee=COINS))
    market.chain.refused(INSUFFICIENT_FUNDS, market.attest(OWNER))


def test_too_few_strangers_take_no_request() -> None:
    market = AttestMarket(validators=2)
    market.chain.refused(WRONG_STATE, market.attest(OWNER), field="owner: fewer than 2")


def test_validators_that_left_before_the_draw_leave_a_request_undecided() -> None:
    market = AttestMarket(validators=3)
    market.chain.ok(market.attest(OWNER))
    market.chain.change(lambda overlay: VALIDATORS.update(overlay, "v1", audit_speed=1, audit_rate=1))
    market.draw(OWNER)
    market.chain.block()
    ended = market.attestation(OWNER)
    assert (ended.state, ended.seats, ended.verdict) == (AttestState.ENDED, 0, AttestVerdict.UNDECIDED)
    assert POTS.get(market.chain.overlay(), "attest") == 0


def test_an_account_has_few_devices() -> None:
    market = AttestMarket()
    for number in range(CREDENTIALS_MAX):
        market.get_credential(OWNER, other_device(number))
    message = market.attest(OWNER, credential=other_device(CREDENTIALS_MAX))
    market.chain.refused(LIMIT_REACHED, message, field="owner")
    # It may attest again what it has.
    market.get_credential(OWNER, other_device(0))


# --- commitments and answers -----------------------------------------------------------------------


def test_seats_commit_before_any_of_them_reveals() -> None:
    market = asked()
    first, *others = market.commits(OWNER, [OK, OK, OK])
    market.chain.refused(NOT_YOURS, replace(first, validator="v0"), field="validator")
    market.chain.refused(NOT_YOURS, replace(first, number=2), field="validator")
    early = market.reveals(OWNER, [OK, OK, OK])
    market.chain.refused(WRONG_STATE, early[0], field="validator")
    market.chain.ok(first)
    market.chain.refused(ALREADY_EXISTS, first, field="commitment")
    market.chain.refused(NOT_YET, early[0], field="number")
    market.chain.ok(*others)
    assert market.attestation(OWNER).commits_end == market.chain.clock
    market.chain.refused(BAD_PROOF, replace(early[0], answer=BAD), field="answer")
    market.chain.refused(BAD_PROOF, replace(early[0], salt=bytes([1]) * 32), field="answer")
    market.chain.ok(*early)
    assert market.attestation(OWNER).state is AttestState.ENDED
    market.chain.refused(NOT_YOURS, early[0], field="validator")


def test_a_copy_of_a_commitment_reveals_nothing() -> None:
    market = asked()
    first, second, third = market.commits(OWNER, [OK, OK, OK])
    market.chain.ok(first, replace(second, commitment=first.commitment), third)
    market.chain.refused(BAD_PROOF, market.reveals(OWNER, [OK, OK, OK])[1], field="answer")


def test_late_messages_are_refused() -> None:
    market = asked()
    commits = market.commits(OWNER, [OK, OK, OK])
    market.chain.ok(*commits[:2])
    market.chain.pass_until(market.attestation(OWNER).commits_end - 1)
    market.chain.refused(DEADLINE_PASSED, commits[2], field="number")
    reveals = market.reveals(OWNER, [OK, OK, OK])
    market.chain.ok(reveals[0])
    market.chain.pass_until(market.attestation(OWNER).reveals_end - 1)
    market.chain.refused(NOT_YOURS, reveals[1], field="validator")
    assert [seat.answer for seat in market.attest_seats(OWNER)] == [OK, 0, 0]


def test_a_node_lists_the_duties_of_a_seat() -> None:
    market = asked()
    (seat, *_) = market.attest_seats(OWNER)
    (duty,) = market.chain.ask(AttestDutiesRequest(seat.validator)).duties
    assert (duty.seat, duty.attestation) == (seat, market.attestation(OWNER))
    assert market.chain.ask(AttestDutiesRequest("v0")).duties == ()
    market.judge(OWNER)
    assert market.chain.ask(AttestDutiesRequest(seat.validator)).duties == ()
    answer = market.chain.ask(AttestationRequest(OWNER))
    assert answer.seats == tuple(market.attest_seats(OWNER))


# --- the verdict, and its money --------------------------------------------------------------------

ACCEPTED, REFUSED, UNDECIDED = AttestVerdict

CASES: list[tuple[tuple[AttestAnswer | None, ...], AttestVerdict, int, tuple[int, ...]]] = [
    # Answers; verdict and reason; what each seat earns (in fees, negative if it loses stake).
    ((OK, OK, OK), ACCEPTED, OK, (1, 1, 1)),
    ((BAD, BAD, BAD), REFUSED, BAD, (1, 1, 1)),
    # Reasons may differ between versions of a parser: all of them refuse.
    ((OTHER, BAD, BAD), REFUSED, BAD, (1, 1, 1)),
    ((OTHER, BAD, AttestAnswer.EXPIRED), REFUSED, OTHER, (1, 1, 1)),
    # Two of three are not more than two thirds.
    ((OK, OK, BAD), UNDECIDED, 0, (0, 0, 0)),
    ((BAD, BAD, OK), UNDECIDED, 0, (0, 0, 0)),
    # A silent seat leaves two of three, which are enough.
    ((OK, OK, None), ACCEPTED, OK, (1, 1, -1)),
    ((BAD, None, BAD), REFUSED, BAD, (1, -1, 1)),
    # A seat without the library does neither, and one answer is no quorum.
    ((OK, OK, AWAY), ACCEPTED, OK, (1, 1, 0)),
    ((OK, AWAY, AWAY), UNDECIDED, 0, (0, 0, 0)),
    ((AWAY, AWAY, AWAY), UNDECIDED, 0, (0, 0, 0)),
    # An outage: no seat is cut.
    ((OK, None, None), UNDECIDED, 0, (0, 0, 0)),
    ((None, None, None), UNDECIDED, 0, (0, 0, 0)),
]


@pytest.mark.parametrize(("answers", "verdict", "reason", "earned"), CASES)
def test_verdicts_pay_and_cut_seats(
    answers: tuple[AttestAnswer | None, ...], verdict: AttestVerdict, reason: int, earned: tuple[int, ...]
) -> None:
    market = asked()
    overlay = market.chain.overlay()
    assert POTS.get(overlay, "attest") == 3 * FEE
    burnt = POTS.get(overlay, "burnt")
    stakes = [VALIDATORS.must(overlay, seat.validator).stake for seat in market.attest_seats(OWNER)]
    ended = market.judge(OWNER, *answers)
    assert (ended.verdict, ended.reason, ended.granted) == (verdict, reason, verdict is ACCEPTED)
    seats = market.attest_seats(OWNER)
    assert [seat.paid - seat.cut for seat in seats] == [FEE * times for times in earned]
    overlay = market.chain.overlay()
    assert POTS.get(overlay, "attest") == 0
    lost = sum(seat.cut for seat in seats)
    assert POTS.get(overlay, "burnt") - burnt == lost
    after = [VALIDATORS.must(overlay, seat.validator) for seat in seats]
    assert [old - new.stake for old, new in zip(stakes, after, strict=True)] == [seat.cut for seat in seats]
    silences = [int(answer is None and verdict is not UNDECIDED) for answer in answers]
    assert [each.audits_missed for each in after] == silences
    paid = sum(seat.paid for seat in seats)
    (event,) = market.chain.seen("attest.ended")
    assert int(event.get("returned")) == 3 * FEE - paid
    assert not EVIDENCE.has(overlay, OWNER)
    assert not any(True for _ in ATTEST_DUTIES.keys(overlay))


def test_a_liar_against_many_loses_three_fees() -> None:
    market = asked(parameters=params(attest_seats=5))
    ended = market.judge(OWNER, OK, OK, BAD, OK, OK)
    assert ended.verdict == ACCEPTED
    assert [(seat.paid, seat.cut) for seat in market.attest_seats(OWNER)][2] == (0, 3 * FEE)


def test_a_loss_is_at_most_a_part_of_the_stake() -> None:
    market = asked(parameters=params(attest_seat_fee=10**9))
    market.judge(OWNER, OK, OK, None)
    seat = market.attest_seats(OWNER)[2]
    part = market.chain.genesis.params.of(ProofParams).seat_cut_max_bps
    assert 0 < seat.cut == seat.stake * part // 10_000 < 10**9


# --- the end of credentials ------------------------------------------------------------------------


def test_a_released_credential_is_free_for_another_account_some_time_later() -> None:
    market = AttestMarket()
    market.get_credential(OWNER)
    market.chain.refused(NOT_YOURS, MsgReleaseCredential("v1p0", market.device), field="credential")
    market.chain.refused(NOT_FOUND, MsgReleaseCredential(OWNER, other_device(1)))
    market.chain.refused(WRONG_STATE, market.attest("v1p0"), field="credential")
    market.chain.ok(MsgReleaseCredential(OWNER, market.device))
    assert not market.chain.ask(CredentialRequest(market.device)).in_force
    market.chain.refused(WRONG_STATE, MsgReleaseCredential(OWNER, market.device), field="credential")
    market.chain.refused(WRONG_STATE, market.attest("v1p0"), field="credential")
    market.chain.pass_time(100)
    assert market.get_credential("v1p0").owner == "v1p0"
    assert market.chain.ask(CredentialsRequest(OWNER)).credentials == ()


def test_a_credential_that_is_attested_again_goes_on() -> None:
    market = AttestMarket()
    first = market.get_credential(OWNER)
    market.chain.pass_time(20)
    second = market.get_credential(OWNER)
    assert second.since == first.since
    assert second.ends_at > first.ends_at
    market.chain.ok(MsgReleaseCredential(OWNER, market.device))
    assert market.get_credential(OWNER).since > first.since


def test_an_account_has_one_credential_in_force() -> None:
    market = AttestMarket()
    market.get_credential(OWNER)
    market.get_credential(OWNER, other_device(1))
    found = market.chain.ask(CredentialsRequest(OWNER))
    assert found.in_force == (other_device(1),)
    assert len(found.credentials) == 2
    old = market.credential()
    assert old is not None
    assert old.ends_at <= market.chain.clock


def test_messages_of_seats_are_duties() -> None:
    market = asked()

    def find(message: MsgCommitVerdict | MsgRevealVerdict) -> bool:
        return Lane(market.chain.overlay(), RULES).find(market.chain.tx(message)) is not None

    (commit, *others) = market.commits(OWNER, [OK, OK, OK])
    (reveal, *_) = market.reveals(OWNER, [OK, OK, OK])
    assert find(commit)
    assert not find(reveal)
    assert not find(replace(commit, validator="v0"))
    assert not find(replace(commit, number=9))
    market.chain.ok(commit, *others)
    assert not find(commit)
    assert find(reveal)
    assert reveal.salt == SALT
