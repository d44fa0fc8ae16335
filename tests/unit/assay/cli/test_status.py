"""What `assay status` says of a home and its node, and how it ends."""

import os
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from assay.cli.health import (
    FREE_BYTES,
    LATE_SECONDS,
    ConsensusJail,
    HealthProblem,
    ProviderSeen,
    Seen,
    idle_validator,
    problems,
)
from assay.cli.status import find_daemon
from chain.app.comet_files import genesis_document
from chain.app.comet_rpc import CometStanding, Votes
from chain.app.homes import genesis_path
from chain.client.keyring import Keyring
from compute_provider.store import locked, write_status
from domain.errors import Exit
from domain.ledger.queries import AccountResponse
from domain.ledger.records import Account, BondAccount
from domain.market.records import Bid, Offer
from domain.node.queries import StatusResponse
from domain.registry.records import Capability, Provider, Validator
from domain.slashing.records import FOREVER
from tests.support import solo_node
from tests.unit.assay.support import assay
from tests.unit.compute_provider.support import STATUS
from tests.unit.validator.support import ORDER_ID
from validator.decide.deadlines import DutyKind, OpenDuty

SECOND = 10**9
NOW = 1_800_000_000 * SECOND
CHAIN = StatusResponse("assay-test", 9, NOW - 2 * SECOND, 20, 1, bytes(32), solo=False, gas_price_millionths=1_000)
COMET = CometStanding("ab" * 20, 9, NOW - 2 * SECOND, False, ("val1",), 0, 0)
ME, OTHER = (
    Validator(f"assay1{name}", name, bytes(32), bytes([n]) * 20, 5, False, "h:1", b"", 0, 0, 0, 0)
    for n, name in enumerate(("val0", "val1"))
)
ACCOUNT = AccountResponse(Account(ME.operator, 0, 0, b""), 7, BondAccount(ME.operator, 0, ()))
WELL = Seen(
    NOW,
    status=CHAIN,
    validators=(ME, OTHER),
    has_comet=True,
    comet=COMET,
    me=ME,
    account=ACCOUNT,
    listens="127.0.0.1:9191",
    answers=True,
)
LATE = replace(
    WELL,
    status=replace(CHAIN, time_ns=NOW - 2 * LATE_SECONDS * SECOND),
    comet=replace(COMET, time_ns=NOW - 2 * LATE_SECONDS * SECOND),
)
STOPPED = ProviderSeen("assay1p", False, 0, "", None)


def troubles(seen: Seen) -> list[HealthProblem]:
    return [problem.trouble for problem in problems(seen)]


def test_a_home_that_is_well_has_none() -> None:
    assert troubles(WELL) == []
    assert troubles(Seen(NOW, status=CHAIN, validators=(ME, OTHER))) == []


@pytest.mark.parametrize(
    ("seen", "trouble"),
    [
        (replace(WELL, away="no node answers", status=None), HealthProblem.NODE_AWAY),
        (replace(WELL, comet=None), HealthProblem.COMET_AWAY),
        (replace(WELL, own_chain="mine-1"), HealthProblem.OTHER_CHAIN),
        (LATE, HealthProblem.HALTED),
        (replace(LATE, comet=replace(COMET, time_ns=0, catching_up=True)), HealthProblem.CATCHING_UP),
        (replace(WELL, now_ns=NOW - 60 * SECOND), HealthProblem.WRONG_CLOCK),
        (replace(LATE, wrong_clock="the clock is ahead"), HealthProblem.WRONG_CLOCK),
        (replace(WELL, comet=replace(COMET, peers=())), HealthProblem.NO_PEERS),
        (replace(WELL, me=replace(ME, jailed=True)), HealthProblem.JAILED),
        (replace(WELL, jail=ConsensusJail(NOW, for_good=False)), HealthProblem.CONSENSUS_JAILED),
        (replace(WELL, answers=False), HealthProblem.DAEMON_AWAY),
        (replace(WELL, signed_twice="block 9 has a vote"), HealthProblem.SIGNED_TWICE),
        (replace(WELL, key_user=4711), HealthProblem.SIGNED_TWICE),
        (replace(WELL, duties=(OpenDuty(DutyKind.TRAIN, ORDER_ID, -1),)), HealthProblem.OVERDUE),
        (replace(WELL, account=replace(ACCOUNT, balance=0)), HealthProblem.NO_COINS),
        (replace(WELL, free=FREE_BYTES - 1), HealthProblem.DISK_LOW),
    ],
)
def test_each_trouble_is_seen_alone(seen: Seen, trouble: HealthProblem) -> None:
    assert troubles(seen) == [trouble]


@pytest.mark.parametrize(
    ("jail", "text", "remedy"),
    [
        (
            ConsensusJail(CHAIN.time_ns + 90 * SECOND - 1, for_good=False),
            "the jail ends in 90 s, at 2027-01-15 08:01:27 UTC",
            "wait until then, and free it: assay tx slashing unjail",
        ),
        (
            ConsensusJail(CHAIN.time_ns, for_good=False),
            "the jail ended at 2027-01-15 07:59:58 UTC",
            "get its node in sync, and free it: assay tx slashing unjail",
        ),
        (ConsensusJail(FOREVER * SECOND, for_good=True), "for good, because it signed two blocks", "a new validator"),
    ],
)
def test_a_jail_of_the_consensus_says_its_end_and_what_to_do(jail: ConsensusJail, text: str, remedy: str) -> None:
    (problem,) = problems(replace(WELL, jail=jail))
    assert "the consensus jailed val0" in problem.text
    assert text in problem.text
    assert remedy in problem.remedy


def test_what_is_no_trouble() -> None:
    """A seat with time left, a lone validator without peers, a provider that has left."""
    assert troubles(replace(WELL, duties=(OpenDuty(DutyKind.COMMIT, ORDER_ID, 0),))) == []
    lone = replace(WELL, validators=(ME,), comet=replace(COMET, peers=()))
    assert troubles(lone) == []
    assert troubles(replace(WELL, provider=STOPPED)) == []
    left = replace(STOPPED, on_chain=Provider("assay1p", "", b"", None, 0, 0))
    assert troubles(replace(WELL, provider=left)) == []
    stays = replace(STOPPED, on_chain=Provider("assay1p", "assay1v", b"", None, 0, 0, True))
    assert troubles(replace(WELL, provider=stays)) == [HealthProblem.PROVIDER_STOPPED]


def test_a_halt_names_whose_votes_lack() -> None:
    missing = Votes(Fraction(1, 2), (OTHER.cons_address,))
    (halted,) = problems(replace(LATE, votes=missing))
    assert halted.text == "no block for 2.0 min: only 50 % of the power vote, without val1"
    missing = Votes(Fraction(2, 3), (OTHER.cons_address,))
    (halted,) = problems(replace(LATE, votes=missing))
    assert "only 66.6 % of the power vote" in halted.text
    (halted,) = problems(replace(LATE, votes=Votes(Fraction(1), ())))
    assert halted.text == "no block for 2.0 min"


OFFER = Offer(price=900_000 * 10**6, slot_speed=1)
BID = Bid(bytes(32), ME.operator, OFFER, capacity=10, expires_at=99, placed_height=1_234)
MEMBER = Provider("assay1p", ME.operator, b"", Capability("cpu", 5, 1, 1, expires_at=99), 0, 0, admitted=True)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"me": replace(ME, endpoint="")}, "assay validator run publishes it"),
        ({"bids": ()}, "it has no bid: assay bid place"),
        ({"bids": (replace(BID, expires_at=20),)}, "it has no bid"),
        ({"providers": ()}, "assay provider join val0"),
        ({"providers": (replace(MEMBER, capability=None),)}, "no provider with a certified speed"),
        ({"bids": (replace(BID, reserved=10),)}, "no capacity of its 1 bid is left"),
        (
            {},
            "it waits for an order, with 1 bid from 900,000 ASSAY per PFLOP (oldest since height 1,234) and 1",
        ),
    ],
)
def test_a_validator_without_duties_says_what_it_waits_for(changes: dict[str, Any], says: str) -> None:
    seen = replace(WELL, **{"bids": (BID,), "providers": (MEMBER,), **changes})
    assert says in idle_validator(seen)
    assert idle_validator(replace(seen, duties=(OpenDuty(DutyKind.TRAIN, ORDER_ID, 9),))) == ""
    assert idle_validator(replace(seen, me=None)) == ""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a node whose last block is new."""
    folder = tmp_path_factory.mktemp("node")
    with solo_node.running(folder, genesis_time_ns=time.time_ns()) as running:
        running.engine.make_block()
        yield running.address


def test_a_node_far_away(node: str, tmp_path: Path) -> None:
    ran = assay("status", "--node", node, home=tmp_path)
    assert ran.code == 0
    assert "height 1" in ran.out
    assert solo_node.OPERATOR.address in ran.out
    assert f"In {tmp_path}" not in ran.out


def test_a_home_where_somebody_is_away(node: str, tmp_path: Path) -> None:
    (tmp_path / "provider").mkdir()
    status = {**STATUS, "provider": solo_node.ALICE.address, "note": "poll: nobody"}
    write_status(tmp_path / "provider", status)
    with locked(tmp_path / "provider"):
        ran = assay("status", "--node", node, home=tmp_path)
    assert f"runs as process {os.getpid()}" in ran.out
    assert "poll: nobody" in ran.out
    told = assay("status", "--node", "127.0.0.1:9", "--output", "json", home=tmp_path)
    assert told.code == Exit.NEEDS_CARE
    assert [problem["code"] for problem in told.json["problems"]] == ["node_away"]
    assert told.json["disk"]["provider"] > 0
    assert "127.0.0.1:9" in assay("status", "--node", "127.0.0.1:9", home=tmp_path / "n").refusal


def test_the_home_of_a_solo_node(node: str, tmp_path: Path) -> None:
    """Its rows are those that a node without CometBFT has."""
    for part in ("node", "validator"):
        (tmp_path / part).mkdir()
    Keyring(tmp_path / "keys", "test").add("op", solo_node.OPERATOR)
    (tmp_path / "config.toml").write_text(f'keyring = "test"\nnode_address = "{node}"\n')
    ran = assay("status", home=tmp_path)
    assert "(solo: for development)" in ran.out
    rows = [line.split("│")[1].strip() for line in ran.out.splitlines() if line.startswith("│")]
    assert rows[:8] == [
        "validator",
        "its daemon",
        "stake",
        "missed stages of panels",
        "coins",
        "duties",
        "its work",
        "disk",
    ]
    told = assay("status", "--output", "json", home=tmp_path)
    assert told.json["node"] is None
    assert [problem["code"] for problem in told.json["problems"]] == ["daemon_away"]


def test_a_validator_that_signed_twice(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "validator").mkdir(parents=True)
    Keyring(home / "keys", "test").add("op", solo_node.OPERATOR)
    with solo_node.running(tmp_path / "chain", genesis_time_ns=time.time_ns()) as node:
        node.engine.make_block()
        solo_node.sign_twice(node)
        asked = ("status", "--node", node.address, "--keyring", "test")
        shown, told = assay(*asked, home=home), assay(*asked, "--output", "json", home=home).json
    assert [problem["code"] for problem in told["problems"]] == ["consensus_jailed", "daemon_away"]
    assert told["validator"]["consensus_jail"]["for_good"]
    assert not told["validator"]["jailed"], "that is the jail of panels"
    assert "is not in the validator set, jailed by the consensus" in shown.out
    assert "not in the set" not in shown.out.partition("jailed by the consensus")[2]
    assert "! the consensus jailed one for good" in shown.out


@pytest.mark.parametrize("chain_id", ["assay-test", "mine-1"])
def test_a_node_in_the_place_of_the_homes_own(node: str, tmp_path: Path, chain_id: str) -> None:
    genesis_path(tmp_path).parent.mkdir(parents=True)
    made = replace(solo_node.genesis(), chain_id=chain_id)
    genesis_path(tmp_path).write_bytes(genesis_document(made, NOW, 1))
    (tmp_path / "config.toml").write_text(f'node_address = "{node}"\n')
    told = assay("status", "--output", "json", home=tmp_path)
    found = [problem["code"] for problem in told.json["problems"]]
    assert found == (["other_chain"] if chain_id == "mine-1" else [])
    assert told.code == (Exit.NEEDS_CARE if found else Exit.DONE)


def test_a_provider_without_work_and_one_with_a_warning(node: str, tmp_path: Path) -> None:
    home = tmp_path / "provider"
    home.mkdir()
    idle = {"why": "no order is being trained", "since": int(time.time()) - 750}
    write_status(home, {**STATUS, "provider": solo_node.ALICE.address, "idle": idle})
    with locked(home):
        ran = assay("status", "--node", node, home=tmp_path)
        alone = assay("provider", "status", "--node", node, home=tmp_path)
    assert ran.code == 0, "it is no trouble"
    for told in (ran, alone):
        assert "nothing to train for 12.5 min: no order is being trained" in told.out
    warned = {**STATUS, "provider": solo_node.ALICE.address, "warning": "another asks; end one"}
    write_status(home, warned)
    with locked(home):
        told = assay("status", "--node", node, "--output", "json", home=tmp_path)
        alone = assay("provider", "status", "--node", node, home=tmp_path)
    assert told.code == Exit.NEEDS_CARE
    (problem,) = told.json["problems"]
    assert problem == {
        "code": "provider_warned",
        "text": "another asks",
        "remedy": "end one",
    }
    assert "! another asks; end one" in alone.out


@pytest.mark.parametrize("text", ["", "[]", "{}"])
def test_a_status_file_that_no_daemon_wrote_is_said(tmp_path: Path, text: str) -> None:
    (tmp_path / "provider").mkdir()
    (tmp_path / "provider" / "status.json").write_text(text)
    told = assay("status", "--node", "127.0.0.1:9", "--output", "json", home=tmp_path)
    assert told.code == Exit.NEEDS_CARE
    assert told.json["provider"] == {
        "address": "",
        "pid": 0,
        "running": False,
        "on_chain": None,
        "idle": "",
        "warning": "",
    }
    ran = assay("status", "--node", "127.0.0.1:9", home=tmp_path)
    assert "is stopped" in ran.out
    assert "status.json is not a provider's status file" in ran.out


def test_a_daemon_is_found_where_an_option_let_it_listen() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as daemon,
        socket.create_server(("127.0.0.1", 0)) as away,
    ):
        there, gone = (f"127.0.0.1:{each.getsockname()[1]}" for each in (daemon, away))
        away.close()
        assert find_daemon(there, gone) == (there, True)
        assert find_daemon(gone, there) == (there, True)
        assert find_daemon(gone, "") == find_daemon(gone, gone) == (gone, False)
