"""What a provider's commands say without a chain; the daemon has tests of its own."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from assay.cli.output import money
from compute_provider.store import locked, write_status
from tests.support import solo_node
from tests.unit.assay.support import assay
from tests.unit.compute_provider.support import STATUS


def test_bench() -> None:
    ran = assay("provider", "bench", "--seconds", "1", "--output", "json")
    assert ran.code == 0
    assert 0 < ran.json["slowest"] <= ran.json["flops_per_second"] <= ran.json["quickest"]
    assert ran.json["memory"] > 0


def test_status_of_a_home_where_none_ran(tmp_path: Path) -> None:
    assert "assay provider join" in assay("provider", "status", home=tmp_path).refusal


def test_status(tmp_path: Path) -> None:
    share = {
        "order": "ab" * 32,
        "leg": 1,
        "round": 2,
        "slot": 0,
        "issue": 1,
        "stage": "training",
        "step": 30,
        "steps": 80,
        "loss": 0.5,
        "text": "",
    }
    home = tmp_path / "provider"
    home.mkdir()
    write_status(home, {**STATUS, "shares": [share], "orders": [share["order"]]})
    with locked(home):
        _shows_a_provider_that_runs(tmp_path, share)
    # Whoever has its number now.
    (home / "provider.lock").write_text(str(os.getpid()))
    stopped = assay("provider", "status", "--node", "127.0.0.1:9", home=tmp_path)
    assert "assay1v: stopped" in stopped.out


def _shows_a_provider_that_runs(tmp_path: Path, share: dict[str, Any]) -> None:
    ran = assay("provider", "status", "--node", "127.0.0.1:9", home=tmp_path)
    assert ran.code == 0
    assert "on chain: not asked" in ran.out
    assert "running, joined" in ran.out
    assert "earned 0.012345 ASSAY" in ran.out
    assert "computing with native avx2" in ran.out
    assert "30/80" in ran.out
    told = assay("provider", "status", "--node", "127.0.0.1:9", "--output", "json", home=tmp_path).json
    assert told["running"]
    assert told["pid"] == os.getpid()
    assert told["shares"] == [share]


def test_status_tells_what_was_earned_when_and_what_the_account_has(tmp_path: Path) -> None:
    value = {
        **STATUS,
        "provider": solo_node.ALICE.address,
        "earned_by_day": {"2026-01-31": 12_000, "2026-01-30": 345},
        "earned_by_order": {"ab" * 32: 12_345},
    }
    (tmp_path / "provider").mkdir()
    write_status(tmp_path / "provider", value)
    with solo_node.running(tmp_path) as node:
        node.engine.make_block()
        told = assay("provider", "status", "--node", node.address, home=tmp_path).out
    assert f"balance {money(solo_node.RICH)}, free bond 0 ASSAY" in told
    by_day, by_order = told.index("Earned by day (UTC)"), told.index("Earned by order")
    assert told.index("2026-01-31") < told.index("2026-01-30") < by_order
    assert by_day < told.index("0.012 ASSAY") < by_order < told.index("abababababab")


def test_status_tells_how_many_rounds_ahead_are_covered(tmp_path: Path) -> None:
    home = tmp_path / "provider"
    home.mkdir()
    for covered, lines in (({"ab" * 32: 3, "cd" * 32: 0}, 2), ({}, 0)):
        write_status(home, {**STATUS, "covered": covered})
        told = assay("provider", "status", "--node", "127.0.0.1:9", home=tmp_path).out
        assert told.count("rounds ahead") == lines
        for order, rounds in covered.items():
            assert f"order {order[:12]}: bonds and cover pay its void shares for {rounds} rounds ahead" in told


def test_status_tells_what_the_chain_has_now(tmp_path: Path) -> None:
    """What the daemon wrote last is old once the provider has left."""
    value = {**STATUS, "provider": solo_node.ALICE.address, "speed": 5 * 10**9}
    (tmp_path / "provider").mkdir()
    write_status(tmp_path / "provider", value)
    words = "provider", "status", "--node"
    with solo_node.running(tmp_path) as node:
        node.engine.make_block()
        left = assay(*words, node.address, home=tmp_path).out
    away = assay(*words, "127.0.0.1:9", home=tmp_path).out
    assert left.startswith(f"{solo_node.ALICE.address} in no cluster: stopped\non chain: in no")
    assert "assay1v" not in left
    assert "admitted" not in left
    assert "in the cluster of assay1v: stopped\nadmitted, measured 5 GFLOP/s" in away
    assert "on chain: not asked (no node answers at 127.0.0.1:9)" in away


def test_the_node_is_the_one_that_the_daemon_was_started_with(tmp_path: Path) -> None:
    (tmp_path / "provider").mkdir()
    value = {**STATUS, "provider": solo_node.ALICE.address}
    with solo_node.running(tmp_path) as node:
        node.engine.make_block()
        write_status(tmp_path / "provider", {**value, "node": node.address})
        found = assay("provider", "status", home=tmp_path)
        whole = assay("status", home=tmp_path)
        named = assay("provider", "status", "--node", "127.0.0.1:9", home=tmp_path)
    assert "on chain: in no cluster" in found.out
    assert "height 1" in whole.out
    assert "no node answers at 127.0.0.1:9)" in named.out
    del value["node"]
    write_status(tmp_path / "provider", value)
    earlier = assay("provider", "status", home=tmp_path, ASSAY_NODE="127.0.0.1:8")
    assert "no node answers at 127.0.0.1:8)" in earlier.out


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "\x00" * 9,
        json.dumps({**STATUS, "earned": "much"}),
        json.dumps({**STATUS, "shares": [{}]}),
        json.dumps({**STATUS, "shares": [7]}),
    ],
)
def test_status_of_a_damaged_file_is_a_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "provider").mkdir()
    (tmp_path / "provider" / "status.json").write_text(text)
    refusal = assay("provider", "status", "--node", "127.0.0.1:9", home=tmp_path).refusal
    assert "status.json is not a provider's status file" in refusal


def test_join_refuses_a_mistyped_address(tmp_path: Path) -> None:
    ran = assay("provider", "join", "assay1qqqq", "--node", "127.0.0.1:9", home=tmp_path)
    assert "VALIDATOR" in ran.refusal


def test_leave_needs_a_key(tmp_path: Path) -> None:
    ran = assay("provider", "leave", "--node", "127.0.0.1:9", home=tmp_path)
    assert "key: this home has no key to sign with" in ran.refusal


def test_leave_while_the_daemon_runs(tmp_path: Path) -> None:
    (tmp_path / "provider").mkdir()
    assay("keys", "add", "worker", "--keyring", "test", home=tmp_path)
    words = ("provider", "leave", "--keyring", "test", "--node", "127.0.0.1:9")
    with locked(tmp_path / "provider"):
        refusal = assay(*words, home=tmp_path).refusal
    assert f"process {os.getpid()}" in refusal
    assert "stop it first" in refusal
    # Whoever has its number now keeps nobody from leaving.
    (tmp_path / "provider" / "provider.lock").write_text(str(os.getpid()))
    assert "127.0.0.1:9" in assay(*words, home=tmp_path).refusal
