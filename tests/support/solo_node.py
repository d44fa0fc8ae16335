"""A whole node without consensus, for tests: real state machine, real store, real gRPC, blocks when asked for."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

from chain.app.application import AppConfig, Application
from chain.app.beacon_keys import BeaconKeys
from chain.app.grpc_server import GrpcServer
from chain.app.services.table import Services
from chain.app.solo import SoloEngine
from chain.app.storage import Storage
from domain.block import Misbehaviour, MisbehaviourKind
from domain.genesis import DENOM, Genesis, GenesisAccount, GenesisValidator
from domain.ledger.records import Coin
from domain.params import local_params
from tests.support import small_chain
from wire.address import cons_address
from wire.keys import Key

CHAIN_ID = "assay-test"
ALICE, BOB, OPERATOR = (Key(bytes(31) + bytes([number])) for number in (1, 2, 3))
BEACON_KEY = Key(bytes(31) + b"\x08")
STRANGER = Key(bytes(31) + b"\x09")  # has no account
RICH = 10**15
CONS_KEY = b"\x05" * 32
CONS_ADDRESS = cons_address(CONS_KEY)


def genesis() -> Genesis:
    """Return a chain with two accounts and one validator."""
    return Genesis(
        CHAIN_ID,
        DENOM,
        local_params(),
        tuple(GenesisAccount(key.address, (Coin(DENOM, RICH),)) for key in (ALICE, BOB, OPERATOR)),
        (GenesisValidator(OPERATOR.address, "one", CONS_KEY, BEACON_KEY.pub_key, 10_000_000),),
    )


@dataclass
class SoloNode:
    """The parts of a running node."""

    app: Application
    engine: SoloEngine
    server: GrpcServer

    @property
    def address(self) -> str:
        """The gRPC address."""
        return self.server.address


@contextmanager
def running(
    directory: Path,
    address: str = "127.0.0.1:0",
    *,
    chain: Genesis | None = None,
    genesis_time_ns: int = 0,
) -> Iterator[SoloNode]:
    """Serve a node of :func:`genesis` or another ``chain``; blocks are made with ``node.engine.make_block()``."""
    storage = Storage(directory / "db")
    app = Application(
        storage,
        AppConfig(solo=True),
        beacon_keys=BeaconKeys([BEACON_KEY, small_chain.beacon_key(0)]),
    )
    engine = SoloEngine(app, chain or genesis(), genesis_time_ns=genesis_time_ns)
    server = GrpcServer(Services(app, engine), address)
    server.start()
    try:
        yield SoloNode(app, engine, server)
    finally:
        server.close(0)
        storage.close()


@contextmanager
def making_blocks(engine: SoloEngine, interval: float = 0.02) -> Iterator[None]:
    """Make blocks in the background."""
    stop = Event()

    def run() -> None:
        while not stop.wait(interval):
            engine.make_block()

    thread = Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def sign_twice(node: SoloNode) -> None:
    """Make a block that proves that the validator signed twice."""
    head = node.app.head.block
    proof = Misbehaviour(MisbehaviourKind.DUPLICATE_VOTE, CONS_ADDRESS, head.height, head.time_ns, 5)
    node.app.finalize_block(
        head.height + 1, head.time_ns + 10**9, bytes([7] * 32), bytes(20), (), misbehaviours=(proof,)
    )
    node.app.commit()
