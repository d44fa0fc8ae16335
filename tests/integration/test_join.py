"""Nodes of several machines: founders who told each other their keys, and one who joins later, over p2p."""

from pathlib import Path
from typing import Any

import pytest

from chain.app.comet_rpc import CometBroadcaster
from chain.app.homes import genesis_path
from tests.support.node_process import Node, free_ports
from tests.support.small_chain import CHAIN_ID, COINS, key, transfer
from tests.support.waiting import wait_until
from tests.unit.assay.support import assay


def init(home: Path, *words: object) -> dict[str, Any]:
    ports = free_ports()
    listen = ("--p2p-port", ports.p2p, "--rpc-port", ports.rpc, "--grpc-port", ports.grpc)
    ran = assay("node", "init", home.name, *words, *listen, "--output", "json", home=home)
    assert ran.code == 0, ran.err
    found: dict[str, Any] = ran.json
    return found


@pytest.mark.network
def test_two_found_a_chain_and_a_third_follows_it(tmp_path: Path) -> None:
    alpha, beta, gamma = (tmp_path / name for name in ("alpha", "beta", "gamma"))
    assert assay("keys", "add", "op", "--keyring", "test", home=alpha).code == 0
    told = init(beta)
    founder = f"beta,{key(3).address},{told['key']},100000000"
    rich = f"{key(2).address}={COINS}"  # the third account of this genesis
    words = ("--new-chain", CHAIN_ID, "--keyring", "test", "--validator", founder)
    made = init(alpha, *words, "--account", rich)
    for home in (beta, gamma):
        init(home, "--genesis", genesis_path(alpha), "--peers", made["peer"])
    nodes = []
    try:
        nodes += [Node(alpha, "managed"), Node(beta, "managed")]
        first, second = nodes
        second.wait_for_height(2)  # with half of the stake each, neither makes a block alone
        sent = CometBroadcaster(second.ready["rpc"]).broadcast_sync(transfer(2, 0, 1, 100))
        assert (sent.code, sent.log) == (0, "")
        wait_until(lambda: first.balance(1) == 100, "the transfer at the other founder")
        nodes.append(Node(gamma, "managed"))
        third = nodes[-1]
        third.wait_for_height(first.height())
        wait_until(lambda: third.balance(1) == 100, "the transfer at the node that joined")
    finally:
        for node in nodes:
            node.close()
