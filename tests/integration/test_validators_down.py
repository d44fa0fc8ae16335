"""Validators that are away: the chain goes on or waits, never forks, counts no fault, and those who return catch up."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import requests

from chain.client.errors import ChainError
from domain.params import local_params
from domain.registry.queries import ValidatorsRequest
from localnet.create import create
from localnet.layout import ValidatorSpec
from localnet.network import Network
from tests.support.waiting import wait_until

SECONDS = 600.0
STUCK_SECONDS = 20.0
"""Age of the last block by which a chain that makes a block every second has stopped."""
AWAY_BLOCKS = 200

pytestmark = [pytest.mark.network, pytest.mark.nightly, pytest.mark.timeout(1_800)]


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    """Four validators with their nodes and daemons, and no provider."""
    running = Network(create(tmp_path / "network", 4, 0, params=local_params()))
    try:
        running.start()
        yield running
    finally:
        running.stop()


def ask(spec: ValidatorSpec, method: str, **parameters: int) -> Any:
    """Return what CometBFT of a node answers to a call."""
    return requests.get(f"http://127.0.0.1:{spec.rpc}/{method}", params=parameters, timeout=30).json()["result"]


def height_of(network: Network, spec: ValidatorSpec) -> int:
    try:
        with network.client(spec) as client:
            return client.status().height
    except ChainError:
        return 0


def wait_for_blocks(network: Network, monikers: list[str], more: int) -> int:
    """Wait until nodes have made more blocks than the first of them has now; return that height."""
    height = height_of(network, network.layout.validator(monikers[0])) + more
    network.wait_for_height(height, monikers, SECONDS)
    return height


def check_one_chain(network: Network, height: int) -> None:
    """Check that all nodes have the same block and state at a height, and that no validator is at fault."""
    ids = set()
    for spec in network.layout.validators:
        block = ask(spec, "block", height=height)
        header = block["block"]["header"]
        ids.add((block["block_id"]["hash"], header["app_hash"]))
    assert len(ids) == 1
    with network.client() as client:
        validators = client.query(ValidatorsRequest()).validators
    assert len(validators) == 4
    for validator in validators:
        assert not validator.jailed
        assert validator.faults == ()


def age_of_last_block(spec: ValidatorSpec) -> float:
    """Return how many seconds ago the last block of a node was made."""
    made_at = datetime.fromisoformat(str(ask(spec, "status")["sync_info"]["latest_block_time"]))
    return (datetime.now(UTC) - made_at).total_seconds()


def stop_validators(network: Network, *monikers: str) -> None:
    for moniker in monikers:
        for part in ("validator", "node"):
            network.kill(f"{moniker}.{part}")


def start_validators(network: Network, *monikers: str) -> None:
    for moniker in monikers:
        for part in ("node", "validator"):
            network.start_one(f"{moniker}.{part}")


def test_two_of_four_down_stop_the_chain_and_it_goes_on_when_they_return(network: Network) -> None:
    everyone = [spec.moniker for spec in network.layout.validators]
    witness = network.layout.validator("val0")
    stop_validators(network, "val2", "val3")

    wait_until(lambda: age_of_last_block(witness) > STUCK_SECONDS, "the chain to stop", SECONDS)
    halted = height_of(network, witness)
    assert height_of(network, network.layout.validator("val1")) == halted

    start_validators(network, "val2", "val3")
    height = wait_for_blocks(network, everyone, 5)
    assert height > halted
    check_one_chain(network, halted)
    check_one_chain(network, height)


def test_a_validator_that_was_away_for_many_blocks_catches_up(network: Network) -> None:
    stop_validators(network, "val3")
    away = height_of(network, network.layout.validator("val0"))
    wait_for_blocks(network, ["val0", "val1", "val2"], AWAY_BLOCKS)
    start_validators(network, "val3")
    everyone = [spec.moniker for spec in network.layout.validators]
    height = wait_for_blocks(network, everyone, 3)
    assert height - away > AWAY_BLOCKS
    check_one_chain(network, away + AWAY_BLOCKS // 2)
    check_one_chain(network, height)
