"""``assay localnet`` with a solo node: start, look, break something, kill the supervisor, go on from the disk, stop."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from assay.session import connect
from chain.client.keyring import Keyring
from localnet.layout import NetworkKind, load_layout
from tests.support.waiting import is_running, wait_until
from tests.unit.assay.support import assay as run_assay

ASSAY = (sys.executable, "-m", "assay.cli")
START_SECONDS = 300.0
QUICKSTART_SECONDS = 600.0

pytestmark = pytest.mark.timeout(1_000)


def assay(*arguments: str) -> Any:
    """Run a command here, and return its JSON; only what a test is about is a process of its own."""
    done = run_assay(*arguments, "--output", "json")
    assert done.code == 0, done.err
    return done.json


@contextmanager
def supervisor(directory: Path, *options: str) -> Iterator["subprocess.Popen[bytes]"]:
    """The command that runs the network, once it says that it is up."""
    said = directory.parent / "said"
    with said.open("wb") as out:
        command = [*ASSAY, "localnet", "start", "--dir", str(directory), *options]
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    try:

        def up() -> bool:
            assert process.poll() is None, said.read_text()
            return "the network runs; consumer home" in said.read_text()

        wait_until(up, "the network to be up", START_SECONDS)
        yield process
    finally:
        process.kill()
        process.wait()


def pids(status: dict[str, Any]) -> dict[str, int]:
    """Return the processes that run, by name."""
    found = {f"{n['moniker']}.{kind}": pid for n in status["nodes"] for kind, pid in n["pids"].items()}
    found |= {provider["name"]: provider["pid"] for provider in status["providers"]}
    return {name: pid for name, pid in found.items() if pid}


def wait_for_the_end(processes: Sequence[int]) -> None:
    wait_until(lambda: not [p for p in processes if is_running(p)], "the end of all processes")


def run_quickstart(home: str, folder: Path) -> None:
    """Go from a model to its weights, and fetch with a command what the program ordered."""
    script = Path(__file__).parents[2] / "examples" / "quickstart.py"
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=folder,
        env=os.environ | {"ASSAY_HOME": home, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=QUICKSTART_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    told = done.stdout.splitlines()
    assert told[0].startswith("it costs ")
    assert told[1:3] == ["order.submitted", "order.opened"]
    assert {"order.matched", "order.accepted", "round.closed", "order.proven"} <= set(told)
    assert float(told[-1].removeprefix("right: ")) > 0.9
    (order,) = assay("order", "list", "--home", home)
    result = str(folder / "model.safetensors")
    found = assay("order", "result", order["id"][:12], "-o", result, "--home", home)
    assert found["path"] == result
    look_from_a_program(home, order["id"], Path(result))


def look_from_a_program(home: str, order_id: str, model: Path) -> None:
    """See and do from a program what commands show and do."""
    with connect(home=home) as network:
        assert {bid.id.hex() for bid in network.bids()} == {bid["id"] for bid in assay("bid", "list", "--home", home)}
        (known,) = network.orders(consumer=network.key.address)
        assert known.id.hex() == order_id
        order = network.order(order_id[:12])
        details = order.details()
        assert len(details.rounds) == order.status().rounds > 0
        assert {share.claim.round for share in details.shares} == set(range(len(details.rounds)))
        order.result().save(model.with_name("again.safetensors"))
        assert model.with_name("again.safetensors").read_bytes() == model.read_bytes()
        other = Keyring(model.parent / "ring", "test").add("other")
        assert network.send(other.address, 1_500_000).height > 0
        assert network.client.account(other.address).balance == 1_500_000
    network.close()


def test_a_solo_network_from_start_to_stop(tmp_path: Path) -> None:
    directory = tmp_path / "network"
    where = ("--dir", str(directory))
    with supervisor(directory, "--solo", "--validators", "2", "--providers", "1") as process:
        assert load_layout(directory).kind is NetworkKind.SOLO
        first = (tmp_path / "said").read_text().splitlines()[0]
        console = first.removeprefix("console: ")
        head = requests.get(f"{console}api/head", timeout=10).json()
        assert head["chain_id"] == load_layout(directory).chain_id
        status = assay("localnet", "status", *where)
        assert status["running"]
        running = pids(status)
        # One node for both validators, and no CometBFT at all.
        assert set(running) == {"val0.node", "val0.validator", "val1.validator", "prov0", "prov1"}
        assert [node["height"] > 0 for node in status["nodes"]] == [True, True]
        consumer = status["test_keys"][0]["home"]
        funded = assay("keys", "add", "funded", "--keyring", "test", "--home", str(tmp_path))
        assay("localnet", "faucet", funded["address"], "2.5ASSAY", *where)
        account = assay("query", "account", funded["address"], "--home", consumer)
        assert account["balance"] == 2_500_000
        first, second = assay("bid", "list", "--home", consumer)
        assert first["validator"] != second["validator"]
        # What its one provider was certified for is what a bid offers.
        home = load_layout(directory).validators[0].home
        assay("bid", "place", "--price", "1uassay", "--capacity", "1", "--home", home)
        offers = [bid["offer"] for bid in assay("bid", "list", "--home", home)]
        certified = {(offer["slots"], offer["slot_speed"]) for offer in offers}
        assert {slots for slots, _ in certified} == {1}
        assert len(offers) == 3 > len(certified)

        assay("localnet", "fault", "kill", "prov1", *where)
        assert not is_running(running["prov1"])
        assert "prov1" not in pids(assay("localnet", "status", *where))
        assay("localnet", "fault", "restart", "prov1", *where)
        once = pids(assay("localnet", "status", *where))
        assert is_running(once["prov1"])
        assay("localnet", "fault", "restart", "prov1", *where)
        running = pids(assay("localnet", "status", *where))
        assert running["prov1"] != once["prov1"], "one that runs is stopped first"
        assert not is_running(once["prov1"])

        process.kill()
        wait_for_the_end(list(running.values()))
    before = max(node["height"] for node in status["nodes"])
    with supervisor(directory) as process:  # what was made once is started again as it was
        status = assay("localnet", "status", *where)
        assert all(node["height"] >= before for node in status["nodes"])
        running = pids(status)
        run_quickstart(consumer, tmp_path)
        assay("localnet", "stop", *where)
        assert process.wait(START_SECONDS) == 0
        wait_for_the_end(list(running.values()))
    assert not assay("localnet", "status", *where)["running"]
