"""A scripted stand-in for CometBFT: speaks ABCI over the real socket, in the order of the grammar."""

import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from cosmpy.protos.tendermint.abci import types_pb2 as abci
from google.protobuf.timestamp_pb2 import Timestamp

from chain.app.abci_server import frame, read_varint
from chain.app.comet_version import VERSION as COMETBFT_VERSION
from domain import codec
from domain.genesis import Genesis
from tests.support.small_chain import GENESIS_TIME_NS, genesis, reveal

DEADLINE_SECONDS = 20.0


@dataclass(frozen=True)
class BlockScript:
    """A block that the script decides; what it begins with holds where the first validator proposes all blocks."""

    height: int
    proposer: bytes
    txs: tuple[bytes, ...]
    chain: Genesis = field(default_factory=genesis)

    @property
    def items(self) -> tuple[bytes, ...]:
        return (reveal(self.height, self.chain), *self.txs)

    @property
    def time_ns(self) -> int:
        return GENESIS_TIME_NS + self.height * 1_500_000_000

    @property
    def hash(self) -> bytes:
        return sha256(b"block %d" % self.height + b"".join(self.txs)).digest()


class AbciConnection:
    """One connection: requests are answered in order; every call is followed by Flush."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(DEADLINE_SECONDS)
        self._socket.connect(str(path))
        self._buffer = bytearray()

    def call(self, name: str, request: Any) -> Any:
        """Send ``request`` and Flush, and return the answer of the method ``name``."""
        self.send(name, request)
        return self.receive(name)

    def send(self, name: str, request: Any) -> None:
        """Send without waiting for the answer."""
        flush = frame(abci.Request(flush=abci.RequestFlush()))
        self._socket.sendall(frame(abci.Request(**{name: request})) + flush)

    def receive(self, name: str) -> Any:
        answer = self._next()
        assert answer.WhichOneof("value") == name, answer
        assert self._next().WhichOneof("value") == "flush"
        return getattr(answer, name)

    def pipeline(self, name: str, requests: Sequence[Any]) -> list[Any]:
        """Send all requests at once and return the answers."""
        self._socket.sendall(b"".join(frame(abci.Request(**{name: request})) for request in requests))
        return [getattr(self._next(), name) for _ in requests]

    def raw(self) -> socket.socket:
        return self._socket

    def close(self) -> None:
        self._socket.close()

    def _next(self) -> Any:
        while True:
            start, size = read_varint(self._buffer, 0)
            if start and len(self._buffer) >= start + size:
                answer = abci.Response.FromString(bytes(self._buffer[start : start + size]))
                del self._buffer[: start + size]
                return answer
            chunk = self._socket.recv(1 << 18)
            if not chunk:
                raise ConnectionResetError("the application closed the connection")
            self._buffer += chunk


def info() -> Any:
    return abci.RequestInfo(version=COMETBFT_VERSION, block_version=11, p2p_version=8, abci_version="2.0.0")


def init_chain(genesis: Genesis) -> Any:
    return abci.RequestInitChain(
        time=_time(GENESIS_TIME_NS),
        chain_id=genesis.chain_id,
        app_state_bytes=codec.encode(genesis),
        initial_height=1,
    )


def prepare(block: BlockScript, max_tx_bytes: int = 1_000_000) -> Any:
    return abci.RequestPrepareProposal(
        max_tx_bytes=max_tx_bytes,
        txs=block.txs,
        height=block.height,
        time=_time(block.time_ns),
        proposer_address=block.proposer,
    )


def process(block: BlockScript) -> Any:
    return abci.RequestProcessProposal(
        txs=block.items,
        hash=block.hash,
        height=block.height,
        time=_time(block.time_ns),
        proposer_address=block.proposer,
    )


def finalize(block: BlockScript) -> Any:
    return abci.RequestFinalizeBlock(
        txs=block.items,
        hash=block.hash,
        height=block.height,
        time=_time(block.time_ns),
        proposer_address=block.proposer,
    )


def commit() -> Any:
    return abci.RequestCommit()


def check_tx(raw: bytes, recheck: bool = False) -> Any:
    return abci.RequestCheckTx(tx=raw, type=int(recheck))


def query(path: str, data: bytes = b"", height: int = 0, prove: bool = False) -> Any:
    return abci.RequestQuery(path=path, data=data, height=height, prove=prove)


def handshake(connection: AbciConnection, genesis: Genesis, blocks: Sequence[BlockScript]) -> bytes:
    """Do what CometBFT does at a start whose block store ends with ``blocks``; return the app hash."""
    answer = connection.call("info", info())
    height, app_hash = answer.last_block_height, answer.last_block_app_hash
    assert height <= len(blocks), "the application is ahead of the block store"
    if height == 0:
        app_hash = connection.call("init_chain", init_chain(genesis)).app_hash
    for block in blocks[height:]:
        app_hash = connection.call("finalize_block", finalize(block)).app_hash
        connection.call("commit", commit())
    return bytes(app_hash)


def _time(nanoseconds: int) -> Timestamp:
    seconds, nanos = divmod(nanoseconds, 10**9)
    return Timestamp(seconds=seconds, nanos=nanos)
