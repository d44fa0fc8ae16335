"""A network whose rules change at a height, over ABCI: with the software for it, and without."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chain.app.abci_methods import Methods
from chain.app.abci_query import AbciQueries
from chain.app.abci_server import AbciServer
from chain.app.application import AppConfig, Application
from chain.app.beacon_keys import BeaconKeys
from chain.app.homes import check_genesis
from chain.app.services.table import Services
from chain.app.storage import Storage
from chain.state_machine.rules import Rulebook, RulesMissing
from chain.state_machine.store import Overlay
from domain.errors import UNKNOWN_REQUEST, Refusal
from domain.genesis import RulesFrom
from domain.ledger.messages import MsgDepositBond
from domain.ledger.records import Coin
from tests.support import abci_client as script
from tests.support.abci_client import AbciConnection, BlockScript, handshake
from tests.support.second_rules import BOTH, LENGTHS, NICKNAMES, ONLY_FIRST, switching
from tests.support.small_chain import (
    CHAIN_ID,
    FEE,
    GAS,
    GENESIS_TIME_NS,
    beacon_key,
    cons_address,
    genesis,
    key,
)
from wire.tx import build_tx

HEIGHT = 3
GENESIS = switching(genesis(), HEIGHT)
ACCEPT, REJECT = 1, 2


class Node:
    """An application behind its socket, and the errors that would have stopped it."""

    def __init__(self, directory: Path, rulebook: Rulebook) -> None:
        self.fatal: list[BaseException] = []
        self.storage = Storage(directory / "db")
        try:
            self.app = Application(
                self.storage,
                AppConfig(),
                beacon_keys=BeaconKeys([beacon_key(0)]),
                rulebook=rulebook,
            )
        except RulesMissing:
            self.storage.close()
            raise
        methods = Methods(self.app, AbciQueries(self.app, Services(self.app).call))
        self.server = AbciServer(methods.table, directory / "abci.sock", self.fatal.append)
        self.server.start()
        self.connection = AbciConnection(self.server.path)

    def state(self) -> Overlay:
        return Overlay(self.app.view().reader)


@contextmanager
def running(directory: Path, rulebook: Rulebook) -> Iterator[Node]:
    node = Node(directory, rulebook)
    try:
        yield node
    finally:
        node.connection.close()
        node.server.close()
        node.storage.close()


def deposit(sequence: int) -> bytes:
    """Return a transaction that version 1 of these rules does not know."""
    return build_tx(
        (MsgDepositBond(key(1).address, 5),),
        key(1),
        chain_id=CHAIN_ID,
        account_number=1,
        sequence=sequence,
        fee=(Coin("uassay", FEE),),
        gas_limit=GAS,
    )


def block(height: int, *txs: bytes) -> BlockScript:
    return BlockScript(height, cons_address(0), txs, GENESIS)


def run(connection: AbciConnection, decided: BlockScript) -> Any:
    assert connection.call("process_proposal", script.process(decided)).status == ACCEPT
    answer = connection.call("finalize_block", script.finalize(decided))
    connection.call("commit", script.commit())
    return answer


def test_a_network_changes_its_rules_at_a_height(tmp_path: Path) -> None:
    tx = deposit(0)
    with running(tmp_path, BOTH) as node:
        call = node.connection.call
        handshake(node.connection, GENESIS, (block(1),))
        # The next block is of the old rules: nobody takes what only the new ones know, and nobody votes for it.
        checked = call("check_tx", script.check_tx(tx))
        assert (checked.codespace, checked.code) == ("sdk", UNKNOWN_REQUEST.number)
        assert list(call("prepare_proposal", script.prepare(block(2, tx))).txs) == [block(2).items[0]]
        assert call("process_proposal", script.process(block(2, tx))).status == REJECT
        run(node.connection, block(2))
        assert NICKNAMES.get(node.state(), key(0).address) == b"validator-0"
        # The next block is the first of the new rules: it is checked, proposed and voted for by them.
        assert call("check_tx", script.check_tx(tx)).code == 0
        assert list(call("prepare_proposal", script.prepare(block(3, tx))).txs) == [*block(3, tx).items]
        done = run(node.connection, block(3, tx))
        assert [result.code for result in done.tx_results] == [0, 0]
        assert [event.type for event in done.events if event.type == "rules.changed"]
        assert list(NICKNAMES.keys(node.state())) == []
        assert LENGTHS.get(node.state(), key(0).address) == len("validator-0")
        run(node.connection, block(4, deposit(1)))
        assert node.fatal == []
        hash_after = node.app.head.block.app_hash
    with running(tmp_path, BOTH) as node:
        assert node.app.head.block.app_hash == hash_after
        run(node.connection, block(5))


def test_a_node_without_the_version_stops_and_says_what_to_install(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with running(tmp_path, ONLY_FIRST) as node, caplog.at_level(logging.WARNING):
        handshake(node.connection, GENESIS, (block(1),))
        assert "this node will have to stop: rules from height 3" in caplog.text
        node.connection.call("finalize_block", script.finalize(block(2)))
        node.connection.send("commit", script.commit())
        with pytest.raises(AssertionError, match="internal error in commit"):
            node.connection.receive("commit")
        (stopped,) = node.fatal
        assert isinstance(stopped, RulesMissing)
        assert "block 3 needs version 2 of the rules, but this software only has 1" in str(stopped)
        assert "install a release of assay with version 2" in str(stopped)
    with pytest.raises(RulesMissing, match="block 3 needs version 2"):
        Node(tmp_path, ONLY_FIRST)
    # The new release goes on from the block that the old one had.
    with running(tmp_path, BOTH) as node:
        assert node.app.head.block.height == 2
        done = run(node.connection, block(3, deposit(0)))
        assert [result.code for result in done.tx_results] == [0, 0]


def test_no_chain_starts_from_rules_that_the_software_lacks() -> None:
    with pytest.raises(Refusal, match=r"rules\[0\].version: this software lacks version 9; it has 1"):
        check_genesis(replace(genesis(), rules=(RulesFrom(1, 9),)), GENESIS_TIME_NS)
    with pytest.raises(Refusal, match=r"rules\[1\].height: 1 must be greater than 1"):
        check_genesis(switching(genesis(), 1), GENESIS_TIME_NS)
