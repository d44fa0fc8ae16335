"""A home whose consensus key a remote signer has: no file holds it, and CometBFT waits for the signer."""

import socket
import tomllib
from pathlib import Path
from typing import Any

import pytest
from cosmpy.protos.tendermint.abci import types_pb2 as abci

from chain.app.comet_files import HomeError, Ports
from chain.app.comet_log import SAYINGS, CometTrouble, LogKind
from chain.app.homes import comet_home, init_node, read_home_keys, read_signer, write_node_table
from chain.app.remote_signer import RemoteSigner, check_no_own_key, check_signs, set_remote_signer
from chain.app.signing import SigningCheck, home_held, read_trouble
from tests.unit.assay.support import assay

KEY = bytes(range(32))
SIGNER = RemoteSigner("tcp://127.0.0.1:26659", KEY)
PORTS = Ports(p2p=1, rpc=2, grpc=3)


def comet_config(home: Path) -> dict[str, Any]:
    return tomllib.loads((comet_home(home) / "config" / "config.toml").read_text())


def test_a_home_with_a_signer_has_no_consensus_key(tmp_path: Path) -> None:
    made = init_node(tmp_path, "m", PORTS, signer=SIGNER)
    assert made.cons_key == KEY
    assert made == read_home_keys(tmp_path)
    assert read_signer(tmp_path) == SIGNER
    assert not list(tmp_path.rglob("priv_validator*"))
    check_no_own_key(comet_home(tmp_path))
    init_node(tmp_path, "m", PORTS, genesis=b"{}")
    with pytest.raises(HomeError, match="already has a validator key"):
        init_node(tmp_path, "m", PORTS)


def test_cometbft_waits_for_the_signer(tmp_path: Path) -> None:
    init_node(tmp_path, "m", PORTS, signer=SIGNER)
    set_remote_signer(comet_home(tmp_path), SIGNER)
    config = comet_config(tmp_path)
    assert config["priv_validator_laddr"] == SIGNER.listen
    assert config["moniker"] == "m"
    assert "priv_validator_key.json" not in config["priv_validator_key_file"]


def test_cometbft_never_falls_back_to_a_key_of_the_home(tmp_path: Path) -> None:
    init_node(tmp_path, "m", PORTS, signer=SIGNER)
    set_remote_signer(comet_home(tmp_path), SIGNER)
    with pytest.raises(HomeError, match="names a remote signer"):
        set_remote_signer(comet_home(tmp_path), None)
    own = tmp_path / "own"
    init_node(own, "m", PORTS)
    set_remote_signer(comet_home(own), None)
    assert "priv_validator_laddr" not in comet_config(own)
    with pytest.raises(HomeError, match="although a remote signer signs"):
        check_no_own_key(comet_home(own))


@pytest.mark.parametrize("key", ["", "zz", "ab"])
def test_an_address_without_a_key_is_one_sentence(tmp_path: Path, key: str) -> None:
    init_node(tmp_path, "m", PORTS)
    write_node_table(tmp_path, {"remote_signer": SIGNER.listen, "consensus_key": key})
    with pytest.raises(HomeError, match="is not the signer's public key"):
        read_home_keys(tmp_path)


def test_another_key_of_the_signer_ends_the_node() -> None:
    check_signs(SIGNER, KEY)
    with pytest.raises(HomeError, match="the remote signer has the key 00"):
        check_signs(SIGNER, bytes(32))


def test_a_socket_that_a_killed_cometbft_left_is_deleted(tmp_path: Path) -> None:
    path = tmp_path / "s"
    signer = RemoteSigner(f"unix://{path}", KEY)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    assert path.exists()
    signer.clear_socket()
    assert not path.exists()
    path.write_text("a file")
    signer.clear_socket()
    assert path.exists(), "nothing but a socket is deleted"
    SIGNER.clear_socket()


def test_the_signer_remembers_what_it_signed_not_the_home(tmp_path: Path) -> None:
    """A vote in the chain is no trouble; evidence is."""
    init_node(tmp_path, "m", PORTS, signer=SIGNER)
    comet = comet_home(tmp_path)
    with home_held(comet):
        check = SigningCheck(comet, KEY, is_remote=True)
        vote = abci.VoteInfo(validator=abci.Validator(address=check.address, power=1), block_id_flag=2)
        commit = abci.CommitInfo(round=0, votes=[vote])
        check.check_block(abci.RequestFinalizeBlock(height=10, decided_last_commit=commit))
        assert read_trouble(comet) is None
        double = abci.Misbehavior(validator=abci.Validator(address=check.address, power=1), height=7)
        check.check_block(abci.RequestFinalizeBlock(height=11, misbehavior=[double]))
        assert read_trouble(comet) is not None


@pytest.mark.parametrize(
    ("line", "kind", "reason"),
    [
        (
            "ERROR: failed to create node: error with private validator socket client: can't get pubkey: send:"
            " endpoint connection timed out",
            LogKind.WAITS,
            "the remote signer does not answer (send: endpoint connection timed out)",
        ),
        (
            "E[2026-01-01|10:00:00.000] SignerListener: Error accepting connection   module=privval"
            ' err="accept tcp 127.0.0.1:44783: i/o timeout" failures=1',
            LogKind.RUNS,
            "no remote signer is connected, so this validator signs nothing",
        ),
        (
            'E[2026-01-01|10:00:00.000] failed signing vote   module=consensus height=9 vote="Vote{}" err="exhausted'
            ' all attempts to sign vote: endpoint is not connected"',
            LogKind.RUNS,
            "the remote signer did not sign a vote (exhausted all attempts to sign vote: endpoint is not connected)",
        ),
    ],
)
def test_what_cometbft_says_about_a_signer(line: str, kind: LogKind, reason: str) -> None:
    troubles: list[CometTrouble] = [t for saying in SAYINGS if (t := saying.read(line, Path("h")))]
    assert [(t.kind, t.reason) for t in troubles] == [(kind, reason)]


def test_the_command_sets_and_changes_the_signer(tmp_path: Path) -> None:
    words = ("node", "init", "m", "--output", "json")
    made = assay(*words, "--remote-signer", SIGNER.listen, "--consensus-key", KEY.hex(), home=tmp_path)
    assert made.code == 0, made.err
    assert (made.json["key"], made.json["remote_signer"]) == (KEY.hex(), SIGNER.listen)
    assert read_signer(tmp_path) == SIGNER
    alone = assay(*words, "--remote-signer", SIGNER.listen, home=tmp_path)
    assert "need each other" in alone.err
    wrong = assay(*words, "--remote-signer", "127.0.0.1:1", "--consensus-key", KEY.hex(), home=tmp_path)
    assert "is neither tcp://host:port nor unix:///path" in wrong.err
    other = bytes(32).hex()
    founded = assay(*words, "--new-chain", "assay-local-1", "--keyring", "test", home=tmp_path)
    assert founded.code != 0, "there is no operator's key"
    assert assay("keys", "add", "op", "--keyring", "test", home=tmp_path).code == 0
    assert assay(*words, "--new-chain", "assay-local-1", "--keyring", "test", home=tmp_path).code == 0
    assert read_signer(tmp_path) == SIGNER
    changed = assay(*words, "--remote-signer", "unix:///run/s", "--consensus-key", other, home=tmp_path)
    assert changed.code == 0, changed.err
    assert read_signer(tmp_path) == RemoteSigner("unix:///run/s", bytes(32))
