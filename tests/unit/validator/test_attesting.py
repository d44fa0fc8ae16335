"""The daemon as a seat that judges evidence: on a real state machine, with evidence of a software TPM."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chain.state_machine.context import NS
from domain.attest.evidence import Technology
from domain.attest.messages import MsgCommitVerdict, MsgRevealVerdict
from domain.attest.queries import AttestDuty
from domain.attest.records import AttestAnswer, AttestVerdict
from tests.support.attested import EXECUTOR, OK, AttestMarket, add_policy, params
from tests.support.evidence import JUNE_2025, tdx
from tests.unit.validator.loop import Loop
from validator.credentials.values import Reason
from validator.decide import outgoing
from validator.decide.actions import EndAttest, JudgeEvidence, SendTx
from validator.decide.attest import make_salt
from validator.decide.duties import decide, duties
from validator.decide.records import AttestKey, LocalAttest
from validator.decide.view import ChainView, Look
from validator.work.attest import answer_of, case_of, judge_evidence

OWNER = "v1p0"
ME = "v0"


@pytest.fixture
def loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loop]:
    for name in ("PAUSE_MS", "RETRY_MS"):
        monkeypatch.setattr(outgoing, name, 0)
    # All validators but the owner's own have a seat.
    made = Loop(tmp_path, AttestMarket(params(attest_seats=5)))
    try:
        yield made
    finally:
        made.close()


def market_of(loop: Loop) -> AttestMarket:
    assert isinstance(loop.market, AttestMarket)
    return loop.market


def ask(loop: Loop, **changes: Any) -> AttestMarket:
    """Let the owner ask with evidence of the software TPM, and draw the panel."""
    market = market_of(loop)
    fields = {"evidence": market.evidence(OWNER), **changes}
    market.chain.ok(market.attest(OWNER, **fields))
    seats = market.draw(OWNER)
    assert ME in [seat.validator for seat in seats]
    return market


def sent(loop: Loop) -> list[Any]:
    return [each for each in loop.node.sent if isinstance(each, MsgCommitVerdict | MsgRevealVerdict)]


def others(market: AttestMarket, answer: AttestAnswer) -> list[AttestAnswer | None]:
    """Return the answers of the seats of others, in the order of seats; the daemon's is left out."""
    return [None if seat.validator == ME else answer for seat in market.attest_seats(OWNER)]


def finish(loop: Loop, answer: AttestAnswer) -> int:
    """Let the daemon and the other seats answer, and return the daemon's answer on chain."""
    market = market_of(loop)
    market.chain.ok(*market.commits(OWNER, others(market, answer)))
    loop.until(lambda: any(isinstance(each, MsgCommitVerdict) for each in sent(loop)))
    assert not any(isinstance(each, MsgRevealVerdict) for each in sent(loop))
    market.chain.ok(*market.reveals(OWNER, others(market, answer)))
    loop.until(lambda: any(isinstance(each, MsgRevealVerdict) for each in sent(loop)))
    market.chain.block()
    return next(seat.answer for seat in market.attest_seats(OWNER) if seat.validator == ME)


# --- the whole daemon ------------------------------------------------------------------------------


def test_a_daemon_verifies_evidence_and_its_owner_gets_a_credential(loop: Loop) -> None:
    market = ask(loop)
    assert finish(loop, OK) == OK
    assert market.attestation(OWNER).granted
    credential = market.credential()
    assert credential is not None
    assert credential.owner == OWNER
    loop.turn()
    assert loop.daemon._store.attests() == ()
    assert len(sent(loop)) == 2


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"address": "v2p0"}, AttestAnswer.WRONG_REPORT_DATA),
        ({"beacon": bytes([9]) * 32}, AttestAnswer.WRONG_REPORT_DATA),
        ({"executor": bytes([9]) * 32}, AttestAnswer.WRONG_REPORT_DATA),
        ({"certificate": bytes([9]) * 32}, AttestAnswer.WRONG_REPORT_DATA),
        ({"chain_id": "another-chain"}, AttestAnswer.WRONG_REPORT_DATA),
    ],
)
def test_a_daemon_refuses_evidence_that_is_bound_to_something_else(
    loop: Loop, changes: dict[str, Any], reason: AttestAnswer
) -> None:
    market = ask(loop, evidence=market_of(loop).evidence(OWNER, **changes))
    assert finish(loop, reason) == reason
    assert market.attestation(OWNER).verdict == AttestVerdict.REFUSED


def test_a_daemon_refuses_evidence_of_another_device_than_the_claimed_one(loop: Loop) -> None:
    market = ask(loop, credential=bytes([5]) * 32)
    assert finish(loop, AttestAnswer.WRONG_CREDENTIAL) == AttestAnswer.WRONG_CREDENTIAL
    assert not market.attestation(OWNER).granted


def test_a_daemon_judges_at_the_time_of_the_request(loop: Loop) -> None:
    """The certificate of the key ends before the daemon looks at it; the evidence was valid when it was sent."""
    market = ask(loop)
    market.chain.time_ns += 400 * 86_400 * NS
    assert finish(loop, OK) == OK


def test_a_daemon_that_is_restarted_reveals_what_it_committed_to(loop: Loop) -> None:
    market = ask(loop)
    loop.until(lambda: sent(loop))
    loop.restart()
    # Whatever it would answer now.
    market.chain.ok(*market.commits(OWNER, others(market, OK)))
    loop.until(lambda: any(isinstance(each, MsgRevealVerdict) for each in sent(loop)))
    (answer,) = [seat.answer for seat in market.attest_seats(OWNER) if seat.validator == ME]
    assert answer == OK
    assert [type(each) for each in sent(loop)] == [MsgCommitVerdict, MsgRevealVerdict]


def test_a_daemon_without_the_library_for_intel_abstains(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    """It must not answer that the evidence is bad, and it loses nothing."""
    monkeypatch.setitem(sys.modules, "dcap_qvl", None)
    market = market_of(loop)
    evidence, policy = tdx()
    market.pass_vote(add_policy(replace(policy, executors=(EXECUTOR,)), "tdx-1"))
    ask(loop, policy="tdx-1", evidence=evidence)
    assert finish(loop, AttestAnswer.WRONG_REPORT_DATA) == AttestAnswer.ABSTAINED
    (seat,) = [seat for seat in market.attest_seats(OWNER) if seat.validator == ME]
    assert (seat.paid, seat.cut) == (0, 0)
    assert market.attestation(OWNER).verdict == AttestVerdict.REFUSED


# --- answers and decisions -------------------------------------------------------------------------


def test_every_reason_but_a_missing_library_is_an_answer() -> None:
    answers = {answer_of(reason) for reason in Reason}
    assert answers == set(AttestAnswer) - {OK}
    assert answer_of(Reason.NO_LIBRARY) is AttestAnswer.ABSTAINED
    assert {answer_of(reason).word for reason in Reason if reason is not Reason.NO_LIBRARY} == {
        reason.word for reason in Reason if reason is not Reason.NO_LIBRARY
    }


def duty_of(market: AttestMarket) -> AttestDuty:
    seat = next(seat for seat in market.attest_seats(OWNER) if seat.validator == ME)
    return AttestDuty(market.attestation(OWNER), seat)


def look_at(market: AttestMarket, *attests: AttestKey, over: bool = False) -> Look:
    duty = duty_of(market)
    key = AttestKey(OWNER, duty.attestation.number)
    view = ChainView(market.chain.clock, {}, {}, {}, attesting={} if over else {key: duty})
    return Look(view, ME, "a-chain", b"secret", attests=attests)


def test_a_seat_that_is_late_does_nothing_and_one_that_is_over_is_forgotten(loop: Loop) -> None:
    market = ask(loop)
    key = AttestKey(OWNER, 1)
    look = look_at(market)
    assert key in list(duties(look))
    record, (action,) = decide(key, None, look)
    assert (record, type(action), action.lane) == (LocalAttest(), JudgeEvidence, "audit")
    late = replace(look, chain=replace(look.chain, clock=market.attestation(OWNER).commits_end))
    assert decide(key, LocalAttest(OK), late) == (LocalAttest(OK), ())
    over = look_at(market, key, over=True)
    assert key in list(duties(over))
    assert isinstance(decide(key, LocalAttest(OK), over)[1][0], EndAttest)


def test_a_seat_reveals_only_when_all_have_committed_or_the_time_is_over(loop: Loop) -> None:
    market = ask(loop)
    key = AttestKey(OWNER, 1)
    look = look_at(market)
    _, (commit,) = decide(key, LocalAttest(OK), look)
    assert isinstance(commit, SendTx)
    (sent,) = commit.messages
    assert isinstance(sent, MsgCommitVerdict)
    duty = duty_of(market)
    committed = replace(duty, seat=replace(duty.seat, commitment=sent.commitment))
    early = replace(look, chain=replace(look.chain, attesting={key: committed}))
    assert decide(key, LocalAttest(OK), early) == (LocalAttest(OK), ())
    due = replace(early, chain=replace(early.chain, clock=duty.attestation.commits_end))
    _, (reveal,) = decide(key, None, due)
    assert isinstance(reveal, SendTx)
    (shown,) = reveal.messages
    assert isinstance(shown, MsgRevealVerdict)
    assert (shown.answer, reveal.by) == (OK, duty.attestation.reveals_end)


def test_a_seat_whose_commitment_is_of_another_daemon_reveals_nothing(loop: Loop) -> None:
    market = ask(loop)
    key = AttestKey(OWNER, 1)
    market.chain.ok(*market.commits(OWNER, [OK] * 5))
    assert duty_of(market).seat.commitment
    assert decide(key, LocalAttest(OK), look_at(market)) == (LocalAttest(OK), ())


def test_salts_differ_and_depend_on_the_secret() -> None:
    keys = [AttestKey(OWNER, 1), AttestKey(OWNER, 2), AttestKey("v2p0", 1)]
    salts = {make_salt(secret, key) for secret in (b"one", b"two") for key in keys}
    assert len(salts) == 6
    assert {len(salt) for salt in salts} == {32}


def test_evidence_of_a_vendor_is_judged_like_by_the_command(loop: Loop) -> None:
    """The real library is asked: its evidence is right, and bound to other bytes."""
    market = ask(loop)
    evidence, policy = tdx()
    assert policy.technology == Technology.TDX
    asked = replace(market.attestation(OWNER), time=JUNE_2025, beacon_time=JUNE_2025)
    case = case_of("chain", asked, evidence, replace(policy, executors=(EXECUTOR,)))
    assert judge_evidence(case) is AttestAnswer.WRONG_REPORT_DATA
    assert judge_evidence(replace(case, time=0)) is AttestAnswer.TOO_OLD
