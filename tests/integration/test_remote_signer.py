"""A validator whose key only a remote signer has: it joins, makes blocks, and waits while the signer is away."""

from hashlib import sha256
from pathlib import Path

import pytest
import requests

from chain.app.homes import genesis_path
from chain.app.node import log_path
from tests.integration.test_join import Joining, init, validators_of
from tests.support.node_process import START_SECONDS, Node, free_ports
from tests.support.signer import Signer, find_signer, make_signer_keys
from tests.support.small_chain import CHAIN_ID, COINS
from tests.support.waiting import wait_until
from tests.unit.assay.support import assay


def signed(node: Node, height: int) -> set[str]:
    """Return the consensus addresses whose votes are in the commit of a block."""
    answer = requests.get(f"{node.ready['rpc']}/commit", params={"height": height}, timeout=5).json()
    votes = answer["result"]["signed_header"]["commit"]["signatures"]
    return {vote["validator_address"] for vote in votes if vote["block_id_flag"] == 2}


@pytest.mark.network
@pytest.mark.nightly
def test_a_validator_joins_whose_key_a_remote_signer_has(tmp_path: Path) -> None:
    program = find_signer()
    if program is None:
        pytest.skip("Go is not on PATH: the signer of CometBFT was not built")
    alpha, mine, keys = (tmp_path / name for name in ("alpha", "mine", "signer"))
    cons_key = make_signer_keys(keys).cons_key
    for home in (alpha, mine):
        assert assay("keys", "add", "op", "--keyring", "test", home=home).code == 0
    (row,) = assay("keys", "list", "--keyring", "test", "--output", "json", home=mine).json
    made = init(alpha, "--new-chain", CHAIN_ID, "--keyring", "test", "--account", f"{row['address']}={COINS}")
    address = f"tcp://127.0.0.1:{free_ports().p2p}"
    signs = ("--remote-signer", address, "--consensus-key", cons_key.hex())
    init(mine, "--genesis", genesis_path(alpha), "--peers", made["peer"], *signs)
    signer = (program, keys, CHAIN_ID, address)
    endpoint = f"127.0.0.1:{free_ports().p2p}"
    join = ("validator", "join", "mine", "--stake", "100ASSAY", "--listen", endpoint, "--keyring", "test")
    first = Node(alpha, "managed")
    try:
        first.wait_for_height(2)
        with Joining(mine, *join) as joining:
            joining.read_until("home")

            def waits() -> bool:
                log = log_path(mine)
                return log.exists() and "the remote signer does not answer" in log.read_text()

            wait_until(waits, "a node that waits for its signer", START_SECONDS)
            with Signer(*signer):
                joining.read_until("bonded")
                # With half of the power each, neither makes a block alone.
                wait_until(lambda: len(set(validators_of(first).values())) == 1, "two equal powers", START_SECONDS)
                first.wait_for_height(first.height() + 5)
                assert sha256(cons_key).hexdigest()[:40].upper() in signed(first, first.height() - 1)
            last = first.height()
            # It waits three seconds for the signer before the node says so, time enough for many blocks.
            words = "no remote signer is connected"
            wait_until(lambda: words in log_path(mine).read_text(), "a word about the signer", START_SECONDS)
            assert first.height() <= last + 1, "without the signer there is no vote but the one on its way"
            with Signer(*signer):
                first.wait_for_height(last + 4)
        assert not list(mine.rglob("priv_validator*")), "the home has no key and no memory of signatures"
    finally:
        first.close()
