"""What the commands of local networks say where nothing runs, or something does that is in the way."""

import json
import os
from pathlib import Path

import pytest

from localnet.create import create
from localnet.layout import NetworkKind
from localnet.supervisor import held
from tests.unit.assay.support import assay


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """A network that was started, and whose supervisor was killed."""
    directory = tmp_path / "network"
    create(directory, validators=1, providers=1, kind=NetworkKind.SOLO)
    names = ("val0.node", "val0.validator", "prov0")
    states = [{"name": name, "pid": 4_000_000 + n, "running": True} for n, name in enumerate(names)]
    (directory / "status.json").write_text(json.dumps(states))
    (directory / "supervisor.pid").write_text(str(os.getppid()))  # whoever has the number now
    return directory


def test_status_after_a_crash(network: Path) -> None:
    told = assay("localnet", "status", "--dir", network, "--output", "json").json
    assert not told["running"]
    assert set(told["nodes"][0]["pids"].values()) == {0}
    assert [provider["pid"] for provider in told["providers"]] == [0]
    shown = assay("localnet", "status", "--dir", network).out
    assert "node does not run" in shown
    assert "4000000" not in shown
    assert "{" not in shown


@pytest.mark.parametrize(("option", "has"), [("--validators", 1), ("--providers", 1)])
def test_a_network_that_is_there_keeps_its_size(network: Path, option: str, has: int) -> None:
    words = ("localnet", "start", "--dir", network, "--no-console")
    refusal = assay(*words, option, has + 2).refusal
    assert refusal.startswith(f"{option}: the network in {network} has {has}; leave the option out")


def test_a_running_demo_is_left_alone(network: Path) -> None:
    with held(network):
        refusal = assay("demo", "--dir", network).refusal
    assert f"process {os.getpid()} runs a demo" in refusal
    assert (network / "status.json").exists()


def test_the_faucet_needs_a_network(network: Path, tmp_path: Path) -> None:
    address = json.loads((network / "network.json").read_text())["consumer"]
    assert "start one" in assay("localnet", "faucet", address, "--dir", tmp_path).refusal
    ran = assay("localnet", "faucet", address, "5ASSAY", "--dir", network)
    assert ran.code != 0
    assert "no node answers" in ran.refusal
    assert "ADDRESS: is not a valid address" in assay("localnet", "faucet", "assay1x").refusal
