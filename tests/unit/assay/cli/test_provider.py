"""What a provider's commands say without a chain; the daemon has tests of its own."""

import json
import os
from pathlib import Path

from tests.unit.assay.support import assay


def test_bench() -> None:
    ran = assay("provider", "bench", "--seconds", "1", "--output", "json")
    assert ran.code == 0
    assert 0 < ran.json["slowest"] <= ran.json["flops_per_second"] <= ran.json["quickest"]
    assert ran.json["memory"] > 0


def test_status_of_a_home_where_none_ran(tmp_path: Path) -> None:
    assert "assay provider join" in assay("provider", "status", home=tmp_path).refusal


def test_status(tmp_path: Path) -> None:
    share = {
        "order": "ab" * 32, "attempt": 1, "round": 2, "slot": 0, "issue": 1, "stage": "training",
        "step": 30, "steps": 80, "loss": 0.5, "text": "",
    }  # fmt: skip
    value = {
        "provider": "assay1p", "validator": "assay1v", "pid": os.getpid(), "joined": True,
        "note": "", "shares": [share], "orders": [share["order"]], "earned": 12_345, "workers": [],
        "computing": "native avx2",
    }  # fmt: skip
    (tmp_path / "provider").mkdir()
    (tmp_path / "provider" / "status.json").write_text(json.dumps(value))
    ran = assay("provider", "status", "--node", "127.0.0.1:9", home=tmp_path)
    assert ran.code == 0
    assert "on chain: not asked" in ran.out
    assert "running, joined" in ran.out
    assert "earned 0.012345 ASSAY" in ran.out
    assert "computing with native avx2" in ran.out
    assert "30/80" in ran.out
    told = assay(
        "provider", "status", "--node", "127.0.0.1:9", "--output", "json", home=tmp_path
    ).json
    assert told["running"]
    assert told["shares"] == [share]


def test_join_refuses_a_mistyped_address(tmp_path: Path) -> None:
    ran = assay("provider", "join", "assay1qqqq", "--node", "127.0.0.1:9", home=tmp_path)
    assert "VALIDATOR" in ran.refusal


def test_leave_needs_a_key(tmp_path: Path) -> None:
    ran = assay("provider", "leave", "--node", "127.0.0.1:9", home=tmp_path)
    assert "--from" in ran.refusal


def test_leave_while_the_daemon_runs(tmp_path: Path) -> None:
    (tmp_path / "provider").mkdir()
    (tmp_path / "provider" / "status.json").write_text(json.dumps({"pid": os.getpid()}))
    assay("keys", "add", "worker", "--keyring", "test", home=tmp_path)
    words = ("provider", "leave", "--keyring", "test", "--node", "127.0.0.1:9")
    assert "stop it first" in assay(*words, home=tmp_path).refusal
