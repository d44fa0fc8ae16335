"""What protobuf cannot read is refused alike, whichever of its implementations reads it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from domain.errors import Refusal
from wire.canonical import IMPLEMENTATION, implementation
from wire.messages import from_bytes

# A memo of a lone surrogate, in a TxRaw with one signature.
_MEMO = b"\x12\x03\xed\xa0\x80"
_BODY = b"\x0a\x04\x0a\x02/x" + _MEMO
NOT_UTF8 = b"\x0a" + bytes([len(_BODY)]) + _BODY + b"\x1a\x40" + b"x" * 64

_DECODE = """
import sys
from domain.errors import Refusal
from wire.canonical import implementation
from wire.tx import decode_tx
try:
    decode_tx(bytes.fromhex(sys.argv[1]))
except Refusal as refusal:
    print(implementation(), refusal.code.name)
"""
_ROOT = Path(__file__).parents[3]


def said(kind: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": kind}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=_ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("kind", ["upb", "python"])
def test_text_that_is_no_utf8_is_refused_by_every_implementation(kind: str) -> None:
    assert said(kind, "-c", _DECODE, NOT_UTF8.hex()).stdout == f"{kind} tx_decode\n"


def test_a_node_starts_only_with_the_implementation_that_all_nodes_share(tmp_path: Path) -> None:
    assert implementation() == IMPLEMENTATION
    start = (
        "from pathlib import Path; import sys;"
        "from chain.app.node import NodeConfig, run_node;"
        "run_node(NodeConfig(Path(sys.argv[1]), 'm', 0, 0))"
    )
    refused = said("python", "-c", start, str(tmp_path))
    assert refused.returncode != 0
    assert "protobuf uses its implementation 'python', but a node needs 'upb'" in refused.stderr


def test_a_list_over_its_cap_is_refused_before_its_items_are_read() -> None:
    """All its items are wrong as well; but none of them is looked at."""
    item = b"\x2a\x02\x0a\x00"  # a rejection of nothing
    with pytest.raises(Refusal, match=r"rejections: has 1000 items"):
        from_bytes("/assay.pol.v1.MsgCommitTraces", _head() + item * 1_000)


def _head() -> bytes:
    from wire.keys import Key

    address = Key(b"\x01" * 32).address.encode()
    return b"\x0a" + bytes([len(address)]) + address + b"\x12\x20" + bytes([1]) * 32
