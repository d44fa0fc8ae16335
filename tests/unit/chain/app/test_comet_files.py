"""Homes and genesis: what CometBFT reads is what we meant, and mistakes are one sentence."""

import base64
import json
import subprocess
import tomllib
from hashlib import sha256
from pathlib import Path

import pytest
from nacl.signing import SigningKey

from chain.app.comet import find_binary
from chain.app.comet_files import (
    LOCAL_TIMING,
    HomeError,
    Ports,
    genesis_document,
    read_addresses,
    read_genesis,
    read_keys,
    set_comet_ports,
)
from chain.app.homes import (
    NodeSpec,
    comet_home,
    genesis_path,
    init_network,
    init_node,
    read_node_table,
    write_node_table,
)
from domain.genesis import Genesis, GenesisAccount
from domain.ledger.records import Coin
from domain.params import local_params
from tests.support.small_chain import key

TIME_NS = 1_700_000_000_123_456_789
PORTS = Ports(p2p=26656, rpc=26657, grpc=9090)


def make_network(root: Path, count: int = 2) -> tuple[Genesis, list[NodeSpec]]:
    nodes = [
        NodeSpec(
            root / f"node{index}",
            f"moniker-{index}",
            key(index).address,
            (index + 1) * 1_000_000,
            Ports(1000 + index, 2000 + index, 3000 + index),
        )
        for index in range(count)
    ]
    accounts = [GenesisAccount(key(9).address, (Coin("uassay", 2**62),))]
    genesis = init_network(
        "assay-local",
        nodes,
        accounts,
        local_params(),
        timing=LOCAL_TIMING,
        time_ns=TIME_NS,
        seed=b"s",
    )
    return genesis, nodes


def test_every_node_of_a_network_has_the_same_genesis_with_everybodys_key(tmp_path: Path) -> None:
    genesis, nodes = make_network(tmp_path)
    files = {genesis_path(node.home).read_bytes() for node in nodes}
    assert len(files) == 1
    assert read_genesis(genesis_path(nodes[0].home)) == (genesis, TIME_NS)
    for node, validator in zip(nodes, genesis.validators, strict=True):
        key = json.loads((comet_home(node.home) / "config/priv_validator_key.json").read_bytes())
        assert base64.b64decode(key["pub_key"]["value"]) == validator.cons_key
        assert (validator.operator, validator.stake) == (node.operator, node.stake)
    assert len({validator.cons_key for validator in genesis.validators}) == len(nodes)


@pytest.mark.parametrize(("unbonding", "evidence", "longest"), [(100, 30, 100), (30, 100, 100), (7, 7, 7)])
def test_cometbft_keeps_evidence_as_long_as_the_chain_slashes_for_it(
    unbonding: int, evidence: int, longest: int
) -> None:
    params = local_params().replace(unbonding_time=unbonding * 86_400, evidence_max_age=evidence * 86_400)
    genesis = Genesis(chain_id="x", denom="uassay", params=params, accounts=(), validators=())
    rules = json.loads(genesis_document(genesis, TIME_NS, 1))["consensus_params"]["evidence"]
    assert int(rules["max_age_duration"]) == longest * 86_400 * 10**9
    assert int(rules["max_age_num_blocks"]) == longest * 86_400  # public networks make at most a block per second


def test_keys_are_whole_and_for_the_owner_only(tmp_path: Path) -> None:
    keys = init_node(tmp_path, "m", PORTS)
    config = comet_home(tmp_path) / "config"
    for name in ("priv_validator_key.json", "node_key.json"):
        assert (config / name).stat().st_mode & 0o777 == 0o600
    secret = json.loads((config / "priv_validator_key.json").read_bytes())
    private = base64.b64decode(secret["priv_key"]["value"])
    assert bytes(SigningKey(private[:32]).verify_key) == private[32:] == keys.cons_key
    assert secret["address"] == sha256(keys.cons_key).hexdigest()[:40].upper()


def test_cometbft_reads_the_same_node_id(tmp_path: Path) -> None:
    keys = init_node(tmp_path, "m", PORTS)
    answer = subprocess.run(
        [find_binary(), "show-node-id", "--home", comet_home(tmp_path)],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert answer.stdout.strip() == keys.node_id


def test_peers_are_all_the_others(tmp_path: Path) -> None:
    _, nodes = make_network(tmp_path, 3)
    for index, node in enumerate(nodes):
        config = tomllib.loads((comet_home(node.home) / "config/config.toml").read_text())
        ports = {peer.rpartition(":")[2] for peer in config["p2p"]["persistent_peers"].split(",")}
        assert ports == {str(1000 + other) for other in range(3) if other != index}
        assert config["moniker"] == node.moniker
        assert config["rpc"]["laddr"] == f"tcp://127.0.0.1:{2000 + index}"
        assert config["consensus"]["timeout_commit"] == "200ms"


def test_keys_are_never_written_over(tmp_path: Path) -> None:
    """A home may wait for its genesis file, with the keys that are in it; a whole one is left alone."""
    first = init_node(tmp_path, "m", PORTS)
    again = init_node(tmp_path, "m", PORTS, genesis=b"{}")
    assert again == first == read_keys(comet_home(tmp_path))
    with pytest.raises(HomeError, match="already has a validator key"):
        init_node(tmp_path, "m", PORTS)


def test_keys_that_cannot_be_read_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(HomeError, match="has no keys"):
        read_keys(comet_home(tmp_path))
    init_node(tmp_path, "m", PORTS)
    (comet_home(tmp_path) / "config/node_key.json").write_text('{"priv_key": 1}')
    with pytest.raises(HomeError, match="restore them"):
        read_keys(comet_home(tmp_path))


def test_only_the_nodes_table_of_the_home_changes(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[client]\nnode = "x"\n')
    init_node(tmp_path, "m", PORTS)
    write_node_table(tmp_path, {"min_gas_price_millionths": 5})
    config = tomllib.loads((tmp_path / "config.toml").read_text())
    assert config["client"] == {"node": "x"}
    assert read_node_table(tmp_path) == {
        "moniker": "m",
        "grpc_port": 9090,
        "rpc_port": 26657,
        "min_gas_price_millionths": 5,
    }


def test_a_home_without_a_node_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(HomeError, match="run `assay node init` first"):
        read_node_table(tmp_path)
    (tmp_path / "config.toml").write_text("= broken")
    with pytest.raises(HomeError, match="is not TOML"):
        read_node_table(tmp_path)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda d: d.pop("app_state"), "not a genesis file of Assay"),
        (lambda d: d["app_state"].pop("denom"), "denom: the field is missing"),
        (lambda d: d["app_state"].update(extra=1), "extra: there is no such field"),
        (lambda d: d.update(genesis_time="yesterday"), "not a genesis file of Assay"),
        (lambda d: d.update(chain_id="other"), "names two chains: other and assay-local"),
    ],
)
def test_a_wrong_genesis_file_is_refused(tmp_path: Path, change, reason: str) -> None:  # type: ignore[no-untyped-def]
    _, nodes = make_network(tmp_path)
    path = genesis_path(nodes[0].home)
    document = json.loads(path.read_bytes())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(HomeError, match=reason):
        read_genesis(path)


def test_a_missing_genesis_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(HomeError, match="run `assay node init` with --genesis"):
        read_genesis(tmp_path / "genesis.json")


def test_our_file_says_where_cometbft_answers(tmp_path: Path) -> None:
    """Whoever changes a port changes it in one place; what else stands in CometBFT's file stays."""
    init_node(tmp_path, "alpha", PORTS)
    path = comet_home(tmp_path) / "config" / "config.toml"
    before = tomllib.loads(path.read_text())
    set_comet_ports(comet_home(tmp_path), 27000, 27001)
    after = tomllib.loads(path.read_text())
    assert after["rpc"]["laddr"] == "tcp://127.0.0.1:27000"
    assert read_addresses(comet_home(tmp_path))["metrics"] == ("127.0.0.1", 27001)
    same = {"rpc": before["rpc"], "instrumentation": before["instrumentation"]}
    assert after | same == before
    set_comet_ports(comet_home(tmp_path), PORTS.rpc, 0)
    assert tomllib.loads(path.read_text()) == before
