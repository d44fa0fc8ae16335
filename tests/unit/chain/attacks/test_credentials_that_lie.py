"""Credentials of devices: evidence of others, shared devices, panels that lie or are silent, floods, and bans.

A credential lowers the floor of the audit rate. So a cheat would get one with evidence of another party, use one device
for many accounts, pass a device on before a ruling, or cheat with a device that is banned.
"""

from dataclasses import replace
from functools import partial

import pytest

from chain.state_machine.ledger.tables import POTS
from chain.state_machine.proof.tables import SHARES
from domain.attest.evidence import Evidence
from domain.attest.messages import MsgReleaseCredential
from domain.attest.queries import AttestEvidenceRequest, CredentialRequest
from domain.attest.records import AttestAnswer, AttestVerdict
from domain.errors import ALREADY_EXISTS, LIMIT_REACHED, NOT_FOUND, WRONG_STATE
from domain.limits import EVIDENCE_BYTES_MAX
from domain.proof.records import AuditKind, SeatAnswer
from pol.rules.lots import duty_segments
from tests.support.attested import OK, AttestMarket, other_device, params
from tests.support.chain_market import bid, submit
from tests.unit.chain.attacks.test_standing_for_a_share import honest_answers, rejected, stand
from validator.credentials.values import EvidenceRefused, Reason
from validator.credentials.verify import verify_bound

CHEAT = "v0p0"
OTHER = "v1p0"
REFUSED = AttestAnswer.WRONG_REPORT_DATA
VALIDATORS = 8


# --- evidence --------------------------------------------------------------------------------------


def test_evidence_of_another_party_costs_its_sender_the_panel() -> None:
    """The panel verifies what the chain has: the address of the sender is in the bytes that the device signed."""
    market = AttestMarket()
    stolen = market.evidence(OTHER)
    coins = market.chain.balance(CHEAT)
    result = market.chain.ok(market.attest(CHEAT, evidence=stolen))
    fee = next(int("".join(filter(str.isdigit, e.get("fee")))) for e in result.tx_results[0].events if e.get("fee"))
    asked = market.attestation(CHEAT)
    evidence = market.chain.ask(AttestEvidenceRequest(CHEAT, asked.number)).evidence
    binding = market.binding(CHEAT, beacon=asked.beacon, beacon_time=asked.beacon_time)
    with pytest.raises(EvidenceRefused) as refused:
        verify_bound(evidence, market.policy, binding, asked.time)
    assert refused.value.why is Reason.WRONG_REPORT_DATA
    market.draw(CHEAT)
    ended = market.judge(CHEAT, *[REFUSED] * 3)
    assert (ended.verdict, ended.reason, ended.granted) == (AttestVerdict.REFUSED, REFUSED, False)
    assert market.credential() is None
    assert market.chain.balance(CHEAT) == coins - fee - asked.fee


def test_a_beacon_of_the_senders_choice_is_refused() -> None:
    market = AttestMarket()
    market.chain.refused(NOT_FOUND, market.attest(CHEAT, beacon=bytes([9]) * 32), field="beacon")


def test_worthless_evidence_costs_money_and_fills_neither_the_state_nor_the_seats() -> None:
    market = AttestMarket(params(attest_open_max=3))
    large = Evidence("tpm", b"x", collateral=bytes(EVIDENCE_BYTES_MAX - 1))
    over = replace(large, collateral=bytes(EVIDENCE_BYTES_MAX))
    market.chain.refused(LIMIT_REACHED, market.attest(CHEAT, evidence=over), field="evidence")
    senders = ("v0p0", "v1p0", "v2p0")
    before = {name: market.chain.balance(name) for name in senders}
    for number, name in enumerate(senders):
        market.chain.ok(market.attest(name, credential=other_device(number), evidence=large))
        market.chain.refused(ALREADY_EXISTS, market.attest(name, credential=other_device(9)), field="owner")
    market.chain.refused(LIMIT_REACHED, market.attest("v3p0", credential=other_device(7)), field="owner")
    for name in senders:
        market.draw(name)
    validators = {seat.validator: market.chain.balance(seat.validator) for seat in market.attest_seats(senders[0])}
    for name in senders:
        market.judge(name, *[AttestAnswer.MALFORMED] * 3)
        assert market.chain.balance(name) <= before[name] - market.attestation(name).fee
    assert POTS.get(market.chain.overlay(), "attest") == 0
    # A seat is paid for worthless evidence like for any other.
    assert all(seat.paid == market.attestation(senders[0]).seat_fee for seat in market.attest_seats(senders[0]))
    assert validators


# --- panels ----------------------------------------------------------------------------------------


def test_a_minority_of_liars_loses_and_decides_nothing() -> None:
    market = AttestMarket(params(attest_seats=7), validators=VALIDATORS)
    market.chain.ok(market.attest(CHEAT))
    lies = [OK, OK, REFUSED, REFUSED, REFUSED, REFUSED, REFUSED]
    ended = market.judge(CHEAT, *lies)
    assert ended.verdict == AttestVerdict.REFUSED
    seats = market.attest_seats(CHEAT)
    assert [seat.cut for seat in seats] == [3 * ended.seat_fee] * 2 + [0] * 5
    # More liars leave it undecided, and then the chain cannot tell who lied.
    market.chain.ok(market.attest(CHEAT))
    ended = market.judge(CHEAT, OK, OK, OK, *lies[3:])
    assert (ended.verdict, ended.granted) == (AttestVerdict.UNDECIDED, False)
    assert all((seat.paid, seat.cut) == (0, 0) for seat in market.attest_seats(CHEAT))


def test_a_silent_panel_costs_its_owner_nothing_and_can_be_asked_again() -> None:
    market = AttestMarket()
    market.chain.ok(market.attest(CHEAT))
    ended = market.judge(CHEAT, None, None, OK)
    assert ended.verdict == AttestVerdict.UNDECIDED
    (event,) = market.chain.seen("attest.ended")
    assert int(event.get("returned")) == ended.fee
    assert market.get_credential(CHEAT).owner == CHEAT


# --- one device ------------------------------------------------------------------------------------


def test_a_device_serves_one_account_at_a_time() -> None:
    market = AttestMarket()
    market.get_credential(CHEAT)
    market.chain.refused(WRONG_STATE, market.attest(OTHER), field="credential")


def test_of_two_accounts_that_ask_for_one_device_the_first_verdict_counts() -> None:
    market = AttestMarket()
    market.chain.ok(market.attest(CHEAT), market.attest(OTHER))
    assert market.judge(OTHER).granted
    ended = market.judge(CHEAT)
    assert (ended.verdict, ended.granted) == (AttestVerdict.ACCEPTED, False)
    credential = market.credential()
    assert credential is not None
    assert credential.owner == OTHER


# --- bans ------------------------------------------------------------------------------------------


def cheated(market: AttestMarket) -> bytes:
    """Return an order in which the cheat committed a share, and its round is closed."""
    market.get_credential(CHEAT)
    market.chain.ok(bid("v0"))
    order_id = market.run(submit(deposit=600_000))
    market.train_round(order_id)
    market.wait_stage(order_id)
    return order_id


def find_place(market: AttestMarket, order_id: bytes, kind: AuditKind, *, in_duty: bool) -> int:
    """Return the number of a drawn place of the cheat's share."""
    for number, place in enumerate(market.panel(order_id, 0).places):
        where = place.place
        if where.kind is not kind:
            continue
        share = SHARES.must(market.chain.overlay(), order_id, 1, 0, where.slot, where.issue)
        assert share.roots is not None
        duty = where.segment in duty_segments(share.roots.segments, share.drawn)
        if share.claim.provider == CHEAT and (kind is not AuditKind.SEGMENT or duty is in_duty):
            return number
    raise LookupError("no such place was drawn")


def rule_wrong(market: AttestMarket, order_id: bytes, number: int) -> None:
    """Let all seats find another root at a place."""
    market.say_all(
        order_id,
        lambda: market.wrong_at(order_id, 0, number),
        leaves=partial(market.leaves, order_id),
    )
    market.chain.pass_time(2)


@pytest.mark.parametrize(
    ("kind", "in_duty"), [(AuditKind.SEGMENT, False), (AuditKind.SEGMENT, True), (AuditKind.UPDATE, True)]
)
def test_a_wrong_share_costs_its_provider_the_credential_for_good(kind: AuditKind, in_duty: bool) -> None:
    """Also where the validator pays for the place, because it should have noticed: the provider signed the trace."""
    changes = {"duty_segments": 32 if in_duty else 1, "audit_segments": 4, "round_window": 400}
    market = AttestMarket(params(**changes), validators=VALIDATORS, providers=1)
    order_id = cheated(market)
    number = find_place(market, order_id, kind, in_duty=in_duty)
    rule_wrong(market, order_id, number)
    assert market.round_of(order_id, 1, 0).void
    credential = market.credential()
    assert credential is not None
    assert credential.banned_at > 0
    assert not market.chain.ask(CredentialRequest(market.device)).in_force
    for owner in (CHEAT, OTHER):
        market.chain.refused(WRONG_STATE, market.attest(owner), field="credential: is lost for good")
    market.chain.pass_time(200)
    market.chain.refused(WRONG_STATE, market.attest(OTHER), field="credential: is lost for good")


def test_a_wrong_aggregation_bans_no_provider() -> None:
    market = AttestMarket(params(round_window=400), validators=VALIDATORS)
    order_id = cheated(market)
    places = market.panel(order_id, 0).places
    number = next(at for at, place in enumerate(places) if place.place.kind is AuditKind.AGGREGATION)
    rule_wrong(market, order_id, number)
    assert market.round_of(order_id, 1, 0).void
    credential = market.credential()
    assert credential is not None
    assert not credential.banned_at


def test_what_was_not_served_bans_no_provider() -> None:
    market = AttestMarket(params(round_window=400), validators=VALIDATORS)
    order_id = cheated(market)
    market.fault_round(order_id)
    market.chain.pass_time(2)
    assert market.round_of(order_id, 1, 0).void
    credential = market.credential()
    assert credential is not None
    assert not credential.banned_at


def test_a_device_is_not_passed_on_before_a_ruling() -> None:
    """A cheat releases its credential, and an accomplice waits for it; the bond of the share keeps it."""
    market = AttestMarket(params(attest_transfer_wait=0, round_window=400), validators=VALIDATORS, providers=1)
    order_id = cheated(market)
    market.chain.ok(MsgReleaseCredential(CHEAT, market.device))
    market.chain.refused(WRONG_STATE, market.attest(OTHER), field="credential: is of another account, and a share")
    # Another device of the same account is lost with it.
    market.get_credential(CHEAT, other_device(1))
    number = find_place(market, order_id, AuditKind.UPDATE, in_duty=True)
    rule_wrong(market, order_id, number)
    for device in (market.device, other_device(1)):
        credential = market.credential(device)
        assert credential is not None
        assert credential.banned_at
    market.chain.refused(WRONG_STATE, market.attest(OTHER), field="credential: is lost for good")


def test_a_provider_that_stands_for_a_wrong_share_loses_its_credential() -> None:
    market = AttestMarket(validators=VALIDATORS)
    market.get_credential(CHEAT)
    market.chain.ok(bid("v0"))
    _, order_id, trace = rejected("wrong", "right", market=market)
    market.chain.ok(stand(trace))
    market.about = 1

    def honest() -> tuple[SeatAnswer, ...]:
        return honest_answers(market, order_id)

    market.say_all(order_id, honest)
    credential = market.credential()
    assert credential is not None
    assert credential.banned_at
