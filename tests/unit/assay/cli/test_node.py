"""Homes of nodes as people make them: a chain of one, of several, and joining."""

import json
import tomllib
from pathlib import Path

import pytest

from chain.app.comet_files import read_genesis
from chain.app.homes import beacon_keys_path, genesis_path
from domain.proof.params import ProofParams
from tests.unit.assay.support import Ran, assay

PASSPHRASE = {"ASSAY_PASSPHRASE": "open sesame"}
STAKE = 90_000_000
BEACON = "02" + "79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"  # a point


def run(home: Path, *words: object) -> Ran:
    return assay(*words, "--keyring", "test", home=home, **PASSPHRASE)


def make_key(home: Path, name: str) -> str:
    made = run(home, "keys", "add", name, "--output", "json")
    assert made.code == 0, made.err
    address: str = made.json["address"]
    return address


def made(home: Path, *words: object) -> dict[str, str]:
    """Run ``assay node init`` and return who the node is."""
    ran = run(home, "node", "init", *words, "--output", "json")
    assert ran.code == 0, ran.err
    found: dict[str, str] = ran.json
    shown = run(home, "node", "show", "--output", "json")
    assert shown.json == found
    return found


def test_a_chain_of_one_has_nobody_to_audit(tmp_path: Path) -> None:
    address = make_key(tmp_path, "op")
    found = made(tmp_path, "alpha", "--new-chain", "assay-local-1", "--account", f"{address}=7")
    genesis, _ = read_genesis(genesis_path(tmp_path))
    assert (found["chain_id"], found["moniker"]) == ("assay-local-1", "alpha")
    assert genesis.params.of(ProofParams).auditors == 0
    (validator,) = genesis.validators
    assert (validator.operator, validator.cons_key.hex()) == (address, found["key"])
    assert [(a.address, a.coins[0].amount) for a in genesis.accounts] == [(address, 7)]


def test_founders_tell_their_keys_and_then_join(tmp_path: Path) -> None:
    alpha, beta = tmp_path / "alpha", tmp_path / "beta"
    first, second = make_key(alpha, "op"), make_key(beta, "op")
    waiting = made(beta, "beta", "--from", "op", "--p2p-port", "4627", "--grpc-port", "4628")
    assert (waiting["chain_id"], waiting["genesis"]) == ("", "")
    told = run(beta, "node", "init", "beta", "--from", "op").out
    founder = f"beta,{second},{waiting['key']},{waiting['beacon_key']},"
    assert f"--validator {founder}STAKE" in told
    found = made(alpha, "alpha", "--new-chain", "assay-one", "--validator", f"{founder}{STAKE}")
    genesis, _ = read_genesis(Path(found["genesis"]))
    assert {(v.moniker, v.operator, v.stake) for v in genesis.validators} == {
        ("alpha", first, 100_000_000),
        ("beta", second, STAKE),
    }
    assert genesis.params.of(ProofParams).auditors == 1, "one other validator can audit"
    joined = made(beta, "beta", "--genesis", found["genesis"], "--peers", found["peer"], "--grpc-port", "4629")
    config = tomllib.loads((beta / "config.toml").read_text())
    assert config["node_address"] == "127.0.0.1:4629", "what the second step says holds"
    for name in ("key", "beacon_key"):
        assert joined[name] == waiting[name], "the keys that are in the genesis file are kept"
    for home in (alpha, beta):
        assert beacon_keys_path(home).stat().st_mode & 0o777 == 0o600
    assert genesis_path(beta).read_bytes() == genesis_path(alpha).read_bytes()
    comet = tomllib.loads((beta / "node/config/config.toml").read_text())
    assert comet["p2p"]["laddr"].endswith(":4627"), "and what the first one said, where it is silent"
    again = run(beta, "node", "init", "beta", "--genesis", found["genesis"])
    assert "already has a validator key" in again.refusal


def test_addresses_are_written_down(tmp_path: Path) -> None:
    make_key(tmp_path, "op")
    ports = ("--p2p-port", 1, "--rpc-port", 2, "--grpc-port", 3)
    hosts = ("--host", "0.0.0.0", "--grpc-host", "0.0.0.0")
    found = made(tmp_path, "a", "--new-chain", "assay-local-1", *ports, *hosts)
    assert found["peer"].endswith("@HOST:1")
    config = tomllib.loads((tmp_path / "config.toml").read_text())
    assert (config["node"]["grpc_host"], config["node"]["grpc_port"]) == ("0.0.0.0", 3)
    assert config["node_address"] == "127.0.0.1:3"
    comet = tomllib.loads((tmp_path / "node/config/config.toml").read_text())
    assert comet["p2p"]["laddr"] == "tcp://0.0.0.0:1"


def test_ipv6_addresses_are_written_as_sockets_take_them(tmp_path: Path) -> None:
    make_key(tmp_path, "op")
    hosts = ("--host", "::", "--grpc-host", "::", "--peers", f"{'a' * 40}@[2001:db8::7]:26656")
    found = made(tmp_path, "a", "--new-chain", "assay-local-1", "--grpc-port", 3, *hosts)
    assert found["peer"].endswith("@HOST:26656")
    assert tomllib.loads((tmp_path / "config.toml").read_text())["node_address"] == "[::1]:3"
    comet = tomllib.loads((tmp_path / "node/config/config.toml").read_text())
    assert comet["p2p"]["laddr"] == "tcp://[::]:26656"


def test_addresses_of_a_home_change_and_the_rest_stays(tmp_path: Path) -> None:
    make_key(tmp_path, "op")
    first = made(tmp_path, "a", "--new-chain", "assay-local-1", "--grpc-port", 3)
    path = tmp_path / "node/config/config.toml"
    path.write_text(path.read_text().replace('timeout_commit = "1000ms"', 'timeout_commit = "77ms"'))
    second = made(tmp_path, "a", "--host", "::1", "--p2p-port", 9)
    assert second["key"] == first["key"]
    assert second["peer"].endswith("@[::1]:9")
    comet = tomllib.loads(path.read_text())
    assert comet["consensus"]["timeout_commit"] == "77ms", "what an operator wrote stays"
    assert (comet["rpc"]["laddr"], comet["p2p"]["pex"]) == ("tcp://127.0.0.1:26657", False)
    assert tomllib.loads((tmp_path / "config.toml").read_text())["node"]["grpc_port"] == 3
    made(tmp_path, "a", "--peers", f"{'a' * 40}@b:1")
    kept = tomllib.loads(path.read_text())["p2p"]
    assert (kept["persistent_peers"], kept["laddr"]) == (f"{'a' * 40}@b:1", "tcp://[::1]:9")
    assert "to change the ports or addresses" in run(tmp_path, "node", "init", "a").refusal
    for ports in (("--p2p-port", 3), ("--rpc-port", 5, "--grpc-port", 5)):
        twice = run(tmp_path, "node", "init", "a", *ports)
        assert (twice.code, "give two different ports" in twice.err) == (2, True)


@pytest.mark.parametrize(
    ("peers", "says"),
    [
        ("foo", "foo is not ID@host:port, where ID has 40 hex digits"),
        (f"{'A' * 40}@h:1", "is not ID@host:port"),
        (f"{'a' * 40}@::1:1", "write [::1]:9090"),
        (f"{'a' * 40}@h:1,{'a' * 40}@h", "h is not host:port"),
    ],
)
def test_what_is_no_peer_is_refused(tmp_path: Path, peers: str, says: str) -> None:
    ran = run(tmp_path, "node", "init", "a", "--peers", peers)
    assert ran.code == 2
    assert says in " ".join(ran.err.split())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--validator", "a,b"), "is not MONIKER,ADDRESS,KEY,BEACON_KEY,STAKE"),
        (("--validator", f"a,assay1x,{'00' * 32},{BEACON},1"), "not a valid address"),
        (("--validator", f"a,OWN,zz,{BEACON},1"), "is not a consensus key"),
        (("--validator", f"a,OWN,{'00' * 32},zz,1"), "is not a beacon key"),
        (("--validator", f"a,OWN,{'00' * 32},{BEACON},many"), "many is not an amount"),
        (("--account", "OWN"), "is not an amount"),
        (("--stake", "1.5"), "1.5 is not an amount"),
    ],
)
def test_what_is_not_a_founder_is_refused(tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    own = make_key(tmp_path, "op")
    given = [word.replace("OWN", own) for word in words]
    ran = run(tmp_path, "node", "init", "alpha", "--new-chain", "assay-local-1", *given)
    assert (ran.code, says in ran.err, "Traceback" in ran.err) == (2, True, False), ran.err


def test_a_chain_that_cannot_start_is_refused_and_can_be_mended(tmp_path: Path) -> None:
    own = make_key(tmp_path, "op")
    start = ("node", "init", "alpha", "--new-chain", "assay-local-1")
    twice = run(tmp_path, *start, "--validator", f"b,{own},{'00' * 32},{BEACON},1")
    assert f"{own} is in the list twice" in twice.refusal
    assert run(tmp_path, *start).code == 0


def test_options_that_do_not_go_together(tmp_path: Path) -> None:
    both = run(tmp_path, "node", "init", "a", "--new-chain", "c", "--genesis", "g")
    assert both.code == 2
    for option in ("--host", "--grpc-host"):
        named = run(tmp_path, "node", "init", "a", "--new-chain", "c", option, "example.com")
        assert (named.code, "is not an IP address" in named.err) == (2, True)
    alone = run(tmp_path, "node", "init", "a", "--account", "x=1")
    assert alone.code == 2
    missing = run(tmp_path, "node", "init", "a", "--genesis", tmp_path / "none.json")
    assert "none.json" in missing.refusal
    (tmp_path / "wrong.json").write_text(json.dumps({"app_state": 1}))
    assert run(tmp_path, "node", "show").refusal.endswith("run `assay node init` first")


def test_a_home_that_asked_another_node_is_told_so(tmp_path: Path) -> None:
    key = make_key(tmp_path, "op")
    assert key
    (tmp_path / "config.toml").write_text('node_address = "far:9090"\n')
    ran = run(tmp_path, "node", "init", "a", "--new-chain", "assay-local-1")
    assert "no longer the node at far:9090" in ran.err
    assert "start it: assay node start --solo" in ran.out
    other = tmp_path / "other"
    words = ("node", "init", "a", "--genesis", tmp_path / "node/config/genesis.json")
    again = assay(*words, "--home", other)
    assert "no longer" not in again.err
    assert f"start it: assay node start --home {other}" in again.out
