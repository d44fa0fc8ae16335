"""Policies about evidence: only a vote adds and withdraws them, and without one there are no credentials."""

from dataclasses import replace

import pytest

from chain.state_machine.attest.tables import LIVE_POLICIES
from domain.attest.evidence import Measurement, Policy, Register
from domain.attest.queries import AttestBeaconRequest, AttestPoliciesRequest, AttestPolicyRequest, CredentialRequest
from domain.attest.records import AttestVerdict
from domain.bounds import check
from domain.errors import ALREADY_EXISTS, BAD_FIELD, LIMIT_REACHED, NOT_FOUND, UNAUTHORIZED, WRONG_STATE, Refusal
from tests.support.attested import POLICY, AttestMarket, add_policy, withdraw
from tests.support.proposals import end_voting, propose, vote

OWNER = "v0p0"


def test_a_chain_begins_without_policies_and_keeps_no_beacons() -> None:
    market = AttestMarket(has_policy=False)
    market.chain.pass_time(20)
    assert market.chain.ask(AttestPoliciesRequest()).policies == ()
    assert market.chain.ask(AttestBeaconRequest()).beacon is None
    assert not market.chain.seen("attest.beacon")


def test_a_vote_adds_a_policy() -> None:
    market = AttestMarket()
    (policy,) = market.chain.ask(AttestPoliciesRequest()).policies
    assert policy.policy == market.policy
    assert market.chain.ask(AttestPolicyRequest(POLICY)).policy == policy
    assert market.chain.ask(AttestPolicyRequest("other")).policy is None
    first = market.beacon()
    market.chain.pass_time(10)
    assert market.beacon().number > first.number


def test_no_account_but_that_of_governance_changes_policies() -> None:
    market = AttestMarket()
    mine = replace(add_policy(market.policy, "mine"), authority="v0")
    market.chain.refused(UNAUTHORIZED, mine, field="authority")
    market.chain.refused(UNAUTHORIZED, replace(withdraw(), authority="v0"), field="authority")


def test_a_proposal_that_would_fail_is_refused() -> None:
    market = AttestMarket()
    market.chain.refused(ALREADY_EXISTS, propose(add_policy(market.policy), proposer="v0"), field="name")
    market.chain.refused(NOT_FOUND, propose(withdraw("other"), proposer="v0"))
    large = replace(market.policy, revoked=tuple(number.to_bytes(32, "big") for number in range(600)))
    market.chain.refused(LIMIT_REACHED, propose(add_policy(large, "large"), proposer="v0"), field="policy")
    twice = Measurement((Register("a", b"1"), Register("a", b"2")))
    double = replace(market.policy, measurements=(twice,))
    market.chain.refused(
        BAD_FIELD, propose(add_policy(double, "double"), proposer="v0"), field="policy.measurements[0].registers"
    )


@pytest.mark.parametrize("name", ["", "Upper", "a b", "x" * 33, "-a"])
def test_a_name_is_short_and_plain(
    name: str,
) -> None:
    policy = Policy("tpm", (bytes(32),), (Measurement((Register("a", b"1"),)),), (bytes(32),), 100)
    with pytest.raises(Refusal) as refused:
        check(add_policy(policy, name))
    assert refused.value.field == "name"


def test_a_withdrawn_policy_ends_its_credentials_and_takes_no_evidence() -> None:
    market = AttestMarket()
    market.get_credential(OWNER)
    assert market.chain.ask(CredentialRequest(market.device)).in_force
    message = market.attest("v1p0", credential=bytes([1]) * 32)
    market.pass_vote(withdraw())
    assert not market.chain.ask(CredentialRequest(market.device)).in_force
    assert LIVE_POLICIES.get(market.chain.overlay()) == 0
    market.chain.refused(WRONG_STATE, message, field="policy")
    market.chain.refused(WRONG_STATE, propose(withdraw(), proposer="v0"), field="name")
    market.chain.refused(ALREADY_EXISTS, propose(add_policy(market.policy), proposer="v0"), field="name")
    assert market.chain.ask(AttestBeaconRequest()).beacon is None
    # One vote can replace a policy by another one; the credential then needs new evidence.
    market.pass_vote(add_policy(market.policy, "tpm-2"))
    market.chain.ok(market.attest(OWNER, policy="tpm-2"))
    assert market.judge(OWNER).granted
    assert market.chain.ask(CredentialRequest(market.device)).in_force


def test_a_policy_that_is_withdrawn_during_a_panel_gives_nothing_and_seats_are_paid() -> None:
    market = AttestMarket()
    market.chain.ok(propose(withdraw(), proposer="v0"))
    number = 2
    market.chain.ok(*(vote(name, proposal=number) for name in market.validators))
    market.chain.pass_time(3)
    market.chain.ok(market.attest(OWNER))
    market.draw(OWNER)
    end_voting(market.chain, number)
    ended = market.judge(OWNER)
    assert (ended.verdict, ended.granted) == (AttestVerdict.ACCEPTED, False)
    assert all(seat.paid for seat in market.attest_seats(OWNER))
    assert market.credential() is None
