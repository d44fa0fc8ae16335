"""What a proposal begins with: who makes it, and whom nobody votes for."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from chain.app.application import AppConfig, Application
from chain.app.beacon_keys import BeaconKeys, add_beacon_keys
from chain.app.comet_files import HomeError
from chain.app.homes import check_genesis
from chain.app.storage import Storage
from domain.beacon import possession_sign_bytes
from domain.errors import UNKNOWN_REQUEST, Refusal
from domain.genesis import DENOM
from domain.ledger.records import Coin
from domain.messages import Message
from domain.registry.messages import MsgRevokeBeaconKey, MsgSetBeaconKey
from domain.registry.params import RegistryParams
from tests.support.small_chain import (
    CHAIN_ID,
    GENESIS_TIME_NS,
    beacon_key,
    cons_address,
    genesis,
    key,
    transfer,
)
from wire.keys import Key
from wire.reveal import decode_reveal, encode_reveal
from wire.tx import build_tx
from wire.vrf import prove

GENESIS = genesis(accounts=5, validators=3)
ROOM = 10**6
GAS = 200_000


class Node:
    """An application that its caller drives as consensus does, with the keys of some validators."""

    def __init__(self, *keys: int | Key) -> None:
        self.storage = Storage.temporary()
        held = [beacon_key(one) if isinstance(one, int) else one for one in keys]
        self.app = Application(self.storage, AppConfig(), beacon_keys=BeaconKeys(held))
        self.app.init_chain(GENESIS, GENESIS_TIME_NS)

    @property
    def next_height(self) -> int:
        return self.app.head.block.height + 1

    def propose(self, validator: int, *txs: bytes) -> list[bytes]:
        return self.app.prepare_proposal(list(txs), ROOM, self.next_height, cons_address(validator))

    def votes(self, validator: int, items: list[bytes]) -> bool:
        return self.app.process_proposal(items, self.next_height, cons_address(validator))

    def decide(self, validator: int, items: list[bytes]) -> list[int]:
        """Commit a block and return the codes of its results."""
        height = self.next_height
        time_ns = GENESIS_TIME_NS + height * 10**9
        done = self.app.finalize_block(height, time_ns, bytes([height]) * 32, cons_address(validator), items)
        self.app.commit()
        return [result.code for result in done.result.tx_results]


@pytest.fixture
def node() -> Iterator[Node]:
    """A node with the keys of all three validators."""
    node = Node(0, 1, 2)
    yield node
    node.storage.close()


def send(account: int, sequence: int, message: Message) -> bytes:
    return build_tx(
        (message,),
        key(account),
        chain_id=CHAIN_ID,
        account_number=account,
        sequence=sequence,
        fee=(Coin(DENOM, GAS),),
        gas_limit=GAS,
    )


def test_a_proposal_begins_with_the_reveal_of_its_proposer(node: Node) -> None:
    tx = transfer(4, 0, 3)
    items = node.propose(1, tx)
    assert items[1:] == [tx]
    assert decode_reveal(items[0]) is not None
    assert node.votes(1, items)
    assert node.decide(1, items) == [0, 0]


def test_a_proposal_of_another_round_begins_with_the_same_bytes(node: Node) -> None:
    """Nothing is used up or told too early: what was proposed in vain says nothing about the next height."""
    first = node.propose(1, transfer(4, 0, 3))[0]
    other = node.propose(2)[0]
    assert node.propose(1)[0] == first
    assert other != first
    node.decide(2, [other])
    assert node.propose(1)[0] != first
    assert not node.votes(1, [first])


def test_two_nodes_with_one_key_say_the_same(node: Node) -> None:
    twin = Node(1)
    assert twin.propose(1) == node.propose(1)
    twin.storage.close()


def test_without_the_right_reveal_first_nobody_votes(node: Node) -> None:
    reveal, tx = node.propose(1)[0], transfer(4, 0, 3)
    assert node.votes(1, [reveal, tx])
    own, others = beacon_key(1), beacon_key(2)
    for items in (
        [],
        [tx],
        [tx, reveal],
        [reveal, reveal],
        [reveal, tx, reveal],
        node.propose(2),
        [encode_reveal(prove(own.secret, b"another message"))],
        [encode_reveal(prove(others.secret, b"another message"))],
        [reveal[:-1]],
        [reveal + b"\x00"],
        [reveal.replace(b"MsgReveal", b"MsgRevoke")],
    ):
        assert not node.votes(1, items), items
    assert not node.votes(2, [reveal])


def test_a_reveal_that_is_not_due_is_refused_in_a_decided_block(node: Node) -> None:
    reveal = node.propose(1)[0]
    assert node.decide(2, [reveal]) == [10]
    assert node.decide(1, [transfer(4, 0, 3), node.propose(1)[0]]) == [0, UNKNOWN_REQUEST.number]


def test_a_node_without_the_key_proposes_nothing(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    lacking = Node(0)
    assert lacking.propose(1, transfer(4, 0, 3)) == []
    assert f"lacks the beacon key {beacon_key(1).pub_key.hex()}" in caplog.text
    assert lacking.app.can_propose(cons_address(0))
    assert not lacking.app.can_propose(cons_address(1))
    assert lacking.votes(1, node.propose(1)), "it votes for what others propose"
    lacking.storage.close()


def test_a_proposer_that_the_state_does_not_know_begins_with_nothing(node: Node) -> None:
    tx = transfer(4, 0, 3)
    assert node.propose(9, tx) == [tx]
    assert node.votes(9, [tx])
    assert not node.votes(9, [*node.propose(1), tx])


def test_a_proposal_for_another_height_is_neither_made_nor_voted_for(node: Node) -> None:
    items = node.propose(1)
    for height in (0, 2, 7):
        assert node.app.prepare_proposal([], ROOM, height, cons_address(1)) == []
        assert not node.app.process_proposal(items, height, cons_address(1))


def test_the_reveal_has_its_room_before_all_transactions(node: Node) -> None:
    reveal, tx = node.propose(1)[0], transfer(4, 0, 3)
    size = len(reveal) + 3  # a tag and two bytes of length
    for room, items in ((size - 1, []), (size, [reveal]), (size + 3 + len(tx), [reveal, tx])):
        assert node.app.prepare_proposal([tx], room, 1, cons_address(1)) == items


def test_nobody_can_send_a_reveal(node: Node) -> None:
    checked = node.app.check_tx(node.propose(1)[0])
    assert (checked.codespace, checked.code) == ("sdk", UNKNOWN_REQUEST.number)
    assert "is only for the proposer of a block" in checked.log


def test_a_revoked_key_is_not_asked_for(node: Node) -> None:
    revoke = send(1, 0, MsgRevokeBeaconKey(key(1).address, beacon_key(1).pub_key))
    assert node.decide(0, node.propose(0, revoke)) == [0, 0]
    assert node.propose(1) == []
    assert node.votes(1, [])
    reveal = encode_reveal(prove(beacon_key(1).secret, b"whatever"))
    assert not node.votes(1, [reveal])


def test_a_running_node_takes_up_a_new_key_from_its_file(node: Node, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("home") / "beacon_keys.json"
    old, new = beacon_key(1), Key.generate()
    add_beacon_keys(path, old)
    keys = BeaconKeys(path=path)
    node.app._beacon_keys = keys
    document = possession_sign_bytes(CHAIN_ID, key(1).address, new.pub_key)
    message = MsgSetBeaconKey(key(1).address, new.pub_key, new.sign(document))
    assert node.decide(1, node.propose(1, send(1, 0, message))) == [0, 0]
    add_beacon_keys(path, new)
    for _ in range(GENESIS.params.of(RegistryParams).beacon_delay + 1):
        items = node.propose(1)
        assert node.votes(1, items)
        assert node.decide(1, items) == [0]
    assert keys.holds(new.pub_key)
    assert keys.prove(beacon_key(2).pub_key, b"") is None


def test_a_file_of_something_else_is_one_sentence(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("home") / "beacon_keys.json"
    for text in ("", "{}", '{"keys": [{"secret": "zz"}]}', '{"keys": [{"secret": "00"}]}'):
        path.write_text(text)
        with pytest.raises(HomeError, match="is not a file of beacon keys"):
            BeaconKeys(path=path)


def test_a_genesis_with_a_key_that_is_no_point_is_refused() -> None:
    (first, *rest) = GENESIS.validators
    broken = replace(first, beacon_key=b"\x02" + b"\xff" * 32)
    with pytest.raises(Refusal, match="is not a beacon key"):
        check_genesis(replace(GENESIS, validators=(broken, *rest)), GENESIS_TIME_NS)
