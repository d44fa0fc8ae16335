"""One consensus key, one node: what the chain has of a key, beside what its home remembers to have signed."""

import base64
import json
import os
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import pytest
from cosmpy.protos.tendermint.abci import types_pb2 as abci

from chain.app.comet_files import HomeError, Ports
from chain.app.comet_rpc import CometView
from chain.app.homes import comet_home, init_node
from chain.app.signing import (
    NEW_BLOCKS,
    SigningCheck,
    foreign_user,
    key_held,
    read_secret,
    read_trouble,
    trouble_path,
)
from host.lock import secret_held

COMMIT, NIL, ABSENT = 2, 3, 1
PORTS = Ports(p2p=1, rpc=2, grpc=3)


class Home:
    """A home of a validator, and the check of its node."""

    def __init__(self, path: Path, seed: bytes = b"s") -> None:
        cons_key = init_node(path, "alpha", PORTS, seed=seed).cons_key
        self.path = comet_home(path)
        self.address = sha256(cons_key).digest()[:20]
        self.ended: list[HomeError] = []
        self.check = SigningCheck(self.path, cons_key, self.ended.append)

    def signed(self, height: int, round: int = 0, step: int = 3, signature: bytes = b"") -> None:
        state: dict[str, Any] = {"height": str(height), "round": round, "step": step}
        state["signature"] = base64.b64encode(signature).decode()
        (self.path / "data/priv_validator_state.json").write_text(json.dumps(state))

    def block(self, height: int, flag: int, round: int = 0, address: bytes = b"") -> Any:
        """The FinalizeBlock of a block whose last commit has a vote of this validator, or of another one."""
        vote = abci.VoteInfo(
            validator=abci.Validator(address=address or self.address, power=1),
            block_id_flag=cast(Any, flag),
        )
        commit = abci.CommitInfo(round=round, votes=[vote])
        return abci.RequestFinalizeBlock(height=height, decided_last_commit=commit)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.mark.parametrize(
    ("signed", "height", "flag", "round"),
    [
        ((9, 0, 3), 10, COMMIT, 0),  # the next block, in its turn
        ((9, 2, 3), 10, COMMIT, 2),
        ((9, 3, 2), 10, NIL, 2),  # it was in a later round already
        ((50, 0, 1), 10, COMMIT, 0),  # blocks that are computed again, or a memory that lies ahead
        ((0, 0, 0), 10, ABSENT, 0),  # the others went on without it
    ],
)
def test_what_this_home_signed_is_no_trouble(
    home: Home, signed: tuple[int, int, int], height: int, flag: int, round: int
) -> None:
    home.signed(*signed)
    home.check.check_block(home.block(height, flag, round))
    assert read_trouble(home.path) is None


@pytest.mark.parametrize("flag", [COMMIT, NIL])
@pytest.mark.parametrize(("signed", "round"), [((8, 0, 3), 0), ((9, 0, 3), 1), ((9, 0, 2), 0), ((0, 0, 0), 0)])
def test_a_copy_ends_at_the_first_vote_that_it_did_not_sign(
    home: Home, signed: tuple[int, int, int], flag: int, round: int
) -> None:
    home.signed(*signed)
    with pytest.raises(HomeError, match="another node signs with this validator's key") as error:
        home.check.check_block(home.block(10, flag, round))
    assert "docs/operate/backup.md" in error.value.remedy
    found = read_trouble(home.path)
    assert found is not None
    assert (found.height, found.text) == (9, error.value.reason)
    # Whatever restarts it: somebody has to see to it first.
    with pytest.raises(HomeError, match="another node signs") as again:
        SigningCheck(home.path, b"")
    assert f"then delete {trouble_path(home.path)}" in again.value.remedy
    trouble_path(home.path).unlink()
    SigningCheck(home.path, b"")


def test_a_memory_that_cannot_be_read_for_a_moment_ends_nothing(home: Home) -> None:
    (home.path / "data/priv_validator_state.json").unlink()
    home.check.check_block(home.block(10, COMMIT))
    assert read_trouble(home.path) is None
    home.signed(3)
    with pytest.raises(HomeError):
        home.check.check_block(home.block(11, COMMIT))


def test_votes_of_others_are_theirs(home: Home) -> None:
    home.signed(1)
    home.check.check_block(home.block(10, COMMIT, address=b"x" * 20))
    assert read_trouble(home.path) is None


def test_evidence_is_noted_and_the_node_goes_on(home: Home) -> None:
    home.signed(20)
    request = home.block(10, ABSENT)
    for address in (b"x" * 20, home.address):
        request.misbehavior.add(type=cast(Any, 1), validator={"address": address}, height=7)
    home.check.check_block(request)
    found = read_trouble(home.path)
    assert found is not None
    assert found.text == "block 10 has evidence of two votes of this validator for height 7"
    SigningCheck(home.path, b"")
    assert read_trouble(home.path) is None, "a start begins anew: what lasts is found again"


class Chain:
    """A CometBFT that has one vote of the validator."""

    def __init__(self, round: int, signature: bytes) -> None:
        self.vote = (round, signature)

    def precommit(self, height: int, address: bytes) -> tuple[int, bytes]:
        assert height == 9
        assert len(address) == 20
        return self.vote


@pytest.mark.parametrize(
    ("round", "signature", "is_found"),
    [(0, b"other", True), (0, b"own", False), (1, b"other", False)],
)
def test_a_vote_in_the_place_of_its_own_is_noted(home: Home, round: int, signature: bytes, is_found: bool) -> None:
    home.signed(9, signature=b"own")
    view = cast(CometView, Chain(round, signature))
    home.check.compare(view)
    assert read_trouble(home.path) is None, "nothing to compare yet"
    home.check.compare(view)
    assert (read_trouble(home.path) is not None) is is_found
    assert len(home.ended) == is_found, "it has just begun"


def test_a_node_that_has_run_for_long_is_not_the_one_to_end(home: Home) -> None:
    home.signed(NEW_BLOCKS + 1)
    for height in range(1, NEW_BLOCKS + 1):
        home.check.check_block(home.block(height, COMMIT))
    home.check.found("another one signs")
    assert read_trouble(home.path) is not None
    assert not home.ended


def test_two_homes_with_one_key_do_not_run_on_one_machine(tmp_path: Path) -> None:
    one, copy, other = (Home(tmp_path / name, seed=name[:1].encode()) for name in ("o", "oc", "x"))
    assert foreign_user(one.path) is None
    with key_held(one.path), key_held(other.path):
        assert foreign_user(one.path) is None, "it is its own node"
        assert foreign_user(copy.path) == os.getpid()
        # Another secret has another name, and waiting is for one that ends.
        with (
            pytest.raises(ValueError, match=str(os.getpid())),
            secret_held(read_secret(copy.path), "consensus", ValueError, wait_seconds=0.0),
        ):
            pass
    with key_held(copy.path):
        assert foreign_user(one.path) == os.getpid()
