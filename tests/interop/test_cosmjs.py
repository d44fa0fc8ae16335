"""The unmodified CosmJS against a real node: it reads, pays with both kinds of signatures, and shares an account."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.node_process import Node, make_home
from tests.support.small_chain import CHAIN_ID, key
from wire.address import operator_address

HERE = Path(__file__).parent
SECONDS = 240


def reason_to_skip() -> str:
    """Return why CosmJS cannot run here, or an empty text."""
    if shutil.which("node") is None:
        return "there is no Node on this machine: install Node 20 or later"
    if not (HERE / "node_modules" / "@cosmjs").is_dir():
        return "CosmJS is not installed: npm ci --ignore-scripts --prefix tests/interop"
    return ""


@pytest.mark.network
@pytest.mark.skipif(bool(reason_to_skip()), reason=reason_to_skip())
def test_cosmjs_is_a_wallet_of_this_chain(tmp_path: Path) -> None:
    node = Node(make_home(tmp_path), "managed")
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
        ]
        done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert done.returncode == 0, done.stderr[-2_000:]
        checks = json.loads(done.stdout.splitlines()[-1])
        assert {name: result for name, result in checks.items() if result is not True} == {}
        assert len(checks) >= 20
    finally:
        node.close()
