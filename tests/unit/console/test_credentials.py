"""The page of credentials is what the chain's own tables have, at each step of a credential's life."""

from typing import Any

from chain.state_machine.attest.tables import ATTEST_POLICIES, CREDENTIALS
from console.server import Console
from domain.attest.records import AttestAnswer
from domain.node.queries import LoggedEvent, StatusRequest
from domain.proof.records import AuditKind
from tests.support.attested import POLICY, AttestMarket, other_device, params, withdraw
from tests.unit.chain.attacks.test_credentials_that_lie import CHEAT, OTHER, VALIDATORS, cheated, find_place, rule_wrong
from tests.unit.console.conftest import ask


def shown(console: Console, market: AttestMarket) -> dict[str, Any]:
    """Tell the console what has happened, and return the page's data."""
    known, chain = console.known, market.chain
    if not known.index.chain[0]:
        known.index.begin(chain.genesis.chain_id, "first")
    events = chain.events[known.index.next - 1 :]
    known.index.add([LoggedEvent(event.number, chain.height, event.type, event.attributes) for event in events])
    known.show(status=chain.ask(StatusRequest()))
    page = ask(console, "/credentials")
    assert page.status_code == 200
    answer: dict[str, Any] = ask(console, "/api/credentials").json()
    for row in (*answer["credentials"], *answer["bans"], *answer["judgements"]):
        assert row["credential"] in page.text
    return answer


def compare(page: dict[str, Any], market: AttestMarket) -> None:
    """Compare policies and credentials with the chain's tables."""
    store, clock = market.chain.overlay(), market.chain.clock
    policies = {each.name: each.withdrawn_at for each in ATTEST_POLICIES.scan(store)}
    assert {each["name"]: each["withdrawn_at"] for each in page["policies"]} == policies
    found = CREDENTIALS.scan(store)
    in_force = {
        each.id.hex(): (each.owner, each.ends_at, each.ends_at > clock and not policies[each.policy])
        for each in found
        if not each.banned_at
    }
    listed = {row["credential"]: (row["owner"], row["ends_at"], row["in_force"]) for row in page["credentials"]}
    assert listed == in_force
    bans = {each.id.hex(): each.banned_at for each in found if each.banned_at}
    assert {row["credential"]: row["banned_at"] for row in page["bans"]} == bans


def test_requests_panels_credentials_and_withdrawn_policies_are_shown() -> None:
    market = AttestMarket(has_policy=True)
    with Console(0, probe=False) as console:
        page = shown(console, market)
        assert [(each["name"], each["credentials"]) for each in page["policies"]] == [(POLICY, 0)]
        assert "No request for a credential is open" in ask(console, "/credentials").text
        market.chain.ok(market.attest(CHEAT))
        (asked,) = shown(console, market)["judgements"]
        assert (asked["owner"], asked["is_drawn"], asked["committed"]) == (CHEAT, False, 0)
        seats = market.draw(CHEAT)
        market.chain.ok(*market.commits(CHEAT, [AttestAnswer.OK] * len(seats))[:1])
        (asked,) = shown(console, market)["judgements"]
        assert (asked["seats"], asked["committed"], asked["revealed"]) == (len(seats), 1, 0)
        assert asked["until"] == market.attestation(CHEAT).reveals_end
        market.chain.pass_until(market.attestation(CHEAT).reveals_end)
        page = shown(console, market)
        assert page["judgements"] == []
        assert [(each["owner"], each["verdict"]) for each in page["verdicts"]] == [(CHEAT, "undecided")]
        market.get_credential(CHEAT)
        market.get_credential(OTHER, other_device(1))
        page = shown(console, market)
        compare(page, market)
        assert [row["owner"] for row in page["credentials"]] == [OTHER, CHEAT]
        assert [each["credentials"] for each in page["policies"]] == [2]
        market.get_credential(CHEAT, other_device(2))  # its first one ends
        page = shown(console, market)
        compare(page, market)
        assert [row["in_force"] for row in page["credentials"]] == [True, False, True]
        market.pass_vote(withdraw())
        page = shown(console, market)
        compare(page, market)
        assert not any(row["in_force"] for row in page["credentials"])


def test_a_device_that_is_banned_moves_to_the_bans() -> None:
    market = AttestMarket(
        params(duty_segments=1, audit_segments=4, round_window=400), validators=VALIDATORS, providers=1
    )
    order_id = cheated(market)
    with Console(0, probe=False) as console:
        compare(shown(console, market), market)
        rule_wrong(market, order_id, find_place(market, order_id, AuditKind.SEGMENT, in_duty=False))
        page = shown(console, market)
        compare(page, market)
        assert [row["owner"] for row in page["bans"]] == [CHEAT]
