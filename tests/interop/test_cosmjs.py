"""The unmodified CosmJS against a real node: it reads, pays, stakes, votes, shares an account and orders."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from domain.hashing import message_id
from link.handover import order_secret, public_point
from pol.rules.commitment import possession_sign_bytes
from tests.support.chain_market import submit
from tests.support.node_process import Node, make_home
from tests.support.small_chain import CHAIN_ID, key
from wire.address import operator_address
from wire.keys import Key
from wire.messages import TYPE_URLS, to_proto, type_url

HERE = Path(__file__).parent
SECONDS = 240


def reason_to_skip() -> str:
    """Return why CosmJS cannot run here, or an empty text."""
    if shutil.which("node") is None:
        return "there is no Node on this machine: install Node 20 or later"
    if not (HERE / "node_modules" / "@cosmjs").is_dir():
        return "CosmJS is not installed: npm ci --ignore-scripts --prefix tests/interop"
    return ""


def order_of(consumer: Key, sequence: int) -> dict[str, Any]:
    """Return an order in protobuf's JSON; its key's proof holds for a transaction with this sequence number."""
    secret = order_secret(consumer.secret, CHAIN_ID, b"", sequence)
    order_key = public_point(secret)
    order_id = message_id("order", CHAIN_ID, consumer.address, sequence, 0)
    proof = Key(secret).sign(possession_sign_bytes(order_id, order_key))
    message = submit(consumer.address, order_key=order_key, key_proof=proof)
    proto, _ = TYPE_URLS[type_url(message)]
    return MessageToDict(proto.FromString(to_proto(message).value), preserving_proto_field_name=True)


@pytest.mark.network
@pytest.mark.skipif(bool(reason_to_skip()), reason=reason_to_skip())
def test_cosmjs_is_a_wallet_of_this_chain(tmp_path: Path) -> None:
    orders = tmp_path / "orders.json"
    orders.write_text(json.dumps({"secret": key(2).secret.hex(), "orders": [order_of(key(2), at) for at in range(2)]}))
    node = Node(make_home(tmp_path, silent=2), "managed")
    try:
        node.wait_for_height(3)
        command = [
            "node",
            "wallet.mjs",
            node.ready["rpc"],
            CHAIN_ID,
            key(1).secret.hex(),
            key(77).address,
            operator_address(key(0).address),
            orders,
        ]
        done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert done.returncode == 0, done.stderr[-2_000:]
        checks = json.loads(done.stdout.splitlines()[-1])
        assert {name: result for name, result in checks.items() if result is not True} == {}
        assert len(checks) >= 33
    finally:
        node.close()
